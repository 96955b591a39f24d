//! `wharf stop`

use std::time::Duration;

use rustix::process::{Pid, test_kill_process};
use serde_json::json;
use wharfinger_daemon::client::{Client, ClientError};

use super::server::{self, Verb};
use crate::World;
use crate::cli::Stop;
use crate::failure::Failure;

/// How often to look whether it is gone.
const LOOK: Duration = Duration::from_millis(20);

pub(super) async fn run(world: &World, stop: &Stop) -> Result<(), Failure> {
    match &stop.name {
        Some(name) => server::change(world, name, Verb::Stop, None).await,
        None if stop.all => halt(world, stop.reason.as_deref()).await,
        None => daemon(world).await,
    }
}

/// Everything at once; the daemon stays, and keeps it stopped.
async fn halt(world: &World, reason: Option<&str>) -> Result<(), Failure> {
    let client = world.paths.client();
    let body = json!({ "reason": reason });
    let halting = client.post("/api/halt", Some(&body));
    let value = world.ui.wait("stopping every server", halting).await?;
    if world.ui.json {
        return Ok(world.ui.answer_json(&value)?);
    }
    world
        .ui
        .answer("stopped every server; nothing starts until `wharf release`")?;
    Ok(())
}

/// `wharf release`
pub(super) async fn release(world: &World) -> Result<(), Failure> {
    let value = world.paths.client().post("/api/release", None).await?;
    if world.ui.json {
        return Ok(world.ui.answer_json(&value)?);
    }
    let text = if value["released"] == json!(true) {
        "released; servers start when they are next wanted"
    } else {
        "nothing was stopped"
    };
    Ok(world.ui.answer(text)?)
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
