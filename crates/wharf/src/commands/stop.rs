//! `wharf stop`

use std::time::Duration;

use serde_json::json;
use wharfinger_daemon::client::{Client, ClientError};

use super::server;
use crate::World;
use crate::failure::Failure;

/// How often to look whether it is gone.
const LOOK: Duration = Duration::from_millis(20);

pub(super) async fn run(world: &World, name: Option<&str>) -> Result<(), Failure> {
    match name {
        Some(name) => server::change(world, name, "stop", None).await,
        None => daemon(world).await,
    }
}

async fn daemon(world: &World) -> Result<(), Failure> {
    let client = world.paths.client();
    let status = client.get("/api/status").await?;
    match client.post("/api/stop", None).await {
        // It may be gone before it has answered.
        Ok(_) | Err(ClientError::Broken(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let pid = status["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
    world.ui.wait("stopping the daemon and its servers", gone(&client, pid)).await;
    if world.ui.json {
        return Ok(world.ui.answer_json(&json!({"stopped": true}))?);
    }
    Ok(world.ui.answer("stopped")?)
}

/// Its socket goes first, then its servers, then its process.
async fn gone(client: &Client, pid: Option<i32>) {
    let pid = pid.and_then(rustix::process::Pid::from_raw);
    let lives = || pid.is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok());
    while client.is_running().await || lives() {
        tokio::time::sleep(LOOK).await;
    }
}
