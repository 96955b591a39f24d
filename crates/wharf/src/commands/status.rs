//! `wharf status`

use serde::Deserialize;
use wharfinger::servers::Halted;
use wharfinger_daemon::client::Client;

use super::{list, read, times};
use crate::World;
use crate::failure::Failure;
use crate::ui::{count, plain};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    version: String,
    pid: u32,
    url: String,
    agents: usize,
    servers: usize,
    sessions: usize,
    #[serde(default)]
    problems: Vec<serde_json::Value>,
    halted: Option<Halted>,
}

/// Louder than anything else there is to say.
pub(super) fn halted(world: &World, halted: &Halted) {
    // When it was is not known where the file about it can't be read.
    let since = match halted.since {
        0 => String::new(),
        since => format!(" since {} UTC", times::shown(since)),
    };
    let reason = &halted.reason;
    world.ui.warn(&format!("EMERGENCY STOP{since}: {reason}"));
    world.ui.hint("no server starts until `wharf release`");
}

pub(super) async fn run(world: &World) -> Result<(), Failure> {
    let client = world.paths.client();
    let value = client.get("/api/status").await?;
    if world.ui.json {
        return Ok(world.ui.answer_json(&value)?);
    }
    let status: Status = read(&value)?;
    let home = world.paths.home().display();
    world.ui.answer(&format!(
        "running   version {}, pid {}\nlistening {}\nhome      {home}\nhas       {}, {}, {}",
        status.version,
        status.pid,
        status.url,
        count(status.servers, "server"),
        count(status.agents, "agent"),
        count(status.sessions, "open session"),
    ))?;
    if let Some(stopped) = &status.halted {
        halted(world, stopped);
    }
    problems(world, &status.problems);
    failed_servers(world, &client).await
}

/// Complaints about the configuration as it was last read.
fn problems(world: &World, problems: &[serde_json::Value]) {
    for problem in problems {
        let place = &problem["place"];
        let place = match (place["file"].as_str(), place["variable"].as_str()) {
            (Some(file), _) => format!("{file}:{}: ", place["line"]),
            (None, Some(variable)) => format!("environment variable {variable}: "),
            (None, None) => String::new(),
        };
        let text = format!(
            "{place}{}: {}",
            plain(&problem["key"]),
            plain(&problem["message"])
        );
        world.ui.warn(&text);
        if let Some(hint) = problem["hint"].as_str() {
            world.ui.hint(hint);
        }
    }
}

async fn failed_servers(world: &World, client: &Client) -> Result<(), Failure> {
    for server in list::servers(&client.get("/api/servers").await?)? {
        if server.status.state == "failed" {
            world
                .ui
                .warn(&format!("{}: {}", server.name, server.status_text));
        }
    }
    Ok(())
}
