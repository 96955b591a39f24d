//! `wharf list`

use serde::Deserialize;
use serde_json::Value;

use super::{part, read};
use crate::World;
use crate::failure::Failure;

/// A server at a glance, as the API reports it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Server {
    pub(super) name: String,
    source: String,
    pub(super) status: State,
    pub(super) status_text: String,
    tools: Option<usize>,
    command: String,
    error: Option<String>,
    #[serde(default)]
    verified: Option<u64>,
}

impl Server {
    /// Its state, and that it was never connected to (A19).
    fn status(&self) -> String {
        status(&self.status_text, &self.status.state, self.verified)
    }
}

/// A state in words; of a server that waits for its first connection, that it is not verified.
pub(super) fn status(text: &str, state: &str, verified: Option<u64>) -> String {
    if state == "notStarted" && verified.is_none() {
        format!("{text}, not verified")
    } else {
        text.to_owned()
    }
}

#[derive(Deserialize)]
pub(super) struct State {
    pub(super) state: String,
}

pub(super) fn servers(value: &Value) -> Result<Vec<Server>, Failure> {
    read(&value["servers"])
}

pub(super) async fn run(world: &World, agent: &str) -> Result<(), Failure> {
    let value = world
        .paths
        .client()
        .get(&format!("/api/servers?agent={}", part(agent)))
        .await?;
    if world.ui.json {
        return Ok(world.ui.answer_json(&value)?);
    }
    let servers = servers(&value)?;
    if servers.is_empty() {
        world.ui.say("no servers yet");
        world
            .ui
            .hint("add one: `wharf add time`, or `wharf search WORD` to find others");
        return Ok(());
    }
    let row = |server: &Server| {
        vec![
            server.name.clone(),
            world.ui.brief(&server.status(), 40),
            server
                .tools
                .map_or_else(|| "-".to_owned(), |tools| tools.to_string()),
            server.source.clone(),
            server.command.clone(),
        ]
    };
    let rows: Vec<_> = servers.iter().map(row).collect();
    world
        .ui
        .table(&["NAME", "STATUS", "TOOLS", "SOURCE", "COMMAND"], &rows)?;
    for server in &servers {
        if let Some(error) = &server.error {
            world.ui.warn(&format!(
                "{}: {}",
                server.name,
                error.trim_start_matches("error: ")
            ));
        }
    }
    Ok(())
}
