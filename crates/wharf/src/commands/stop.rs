//! `wharf stop`

use std::time::Duration;

use rustix::process::{Pid, test_kill_process};
use serde_json::json;
use wharfinger_daemon::client::{Client, ClientError};

use super::server::{self, Verb};
use crate::World;
use crate::failure::Failure;

/// How often to look whether it is gone.
const LOOK: Duration = Duration::from_millis(20);

pub(super) async fn run(world: &World, name: Option<&str>) -> Result<(), Failure> {
    match name {
        Some(name) => server::change(world, name, Verb::Stop, None).await,
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
    let pid = status["pid"]
        .as_i64()
        .and_then(|pid| i32::try_from(pid).ok());
    world
        .ui
        .wait("stopping the daemon and its servers", gone(&client, pid))
        .await;
    if world.ui.json {
        return Ok(world.ui.answer_json(&json!({"stopped": true}))?);
    }
    Ok(world.ui.answer("stopped")?)
}

/// Its socket goes first, then its servers, then its process.
async fn gone(client: &Client, pid: Option<i32>) {
    while client.is_running().await || pid.is_some_and(lives) {
        tokio::time::sleep(LOOK).await;
    }
}

/// One that is dead but not yet waited for by its parent does not.
fn lives(pid: i32) -> bool {
    let there = Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid).is_ok());
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    there
        && !state
            .rsplit_once(')')
            .is_some_and(|(_, state)| state.starts_with(" Z"))
}
