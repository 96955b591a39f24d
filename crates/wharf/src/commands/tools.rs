//! `wharf tools`

use serde::Deserialize;
use serde_json::Value;
use wharfinger_daemon::client::Client;

use super::{part, read};
use crate::World;
use crate::failure::Failure;

/// What an agent may call, and what it may not.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Listing {
    pub(super) tools: Vec<Tool>,
    #[serde(default)]
    pub(super) unavailable: Vec<Unavailable>,
    #[serde(default)]
    warnings: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Tool {
    pub(super) name: String,
    pub(super) server: String,
    /// Its server's name for it.
    #[serde(rename = "tool")]
    pub(super) own_name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    pub(super) input_schema: Value,
}

#[derive(Deserialize)]
pub(super) struct Unavailable {
    pub(super) server: String,
    pub(super) reason: String,
}

/// Everything an agent sees, as the daemon tells it.
pub(super) async fn ask(world: &World, client: &Client, agent: &str) -> Result<Value, Failure> {
    let path = format!("/api/tools?agent={}", part(agent));
    Ok(world.ui.wait("listing tools", client.get(&path)).await?)
}

pub(super) async fn run(world: &World, agent: &str, schema: bool) -> Result<(), Failure> {
    let value = ask(world, &world.paths.client(), agent).await?;
    if world.ui.json {
        return Ok(world.ui.answer_json(&value)?);
    }
    let listing: Listing = read(&value)?;
    if schema {
        for (index, tool) in listing.tools.iter().enumerate() {
            let gap = if index == 0 { "" } else { "\n" };
            world.ui.answer(&format!("{gap}{}", tool.in_full()))?;
        }
    } else {
        print(world, &listing)?;
    }
    complain(world, &listing);
    Ok(())
}

/// A line for each.
pub(super) fn print(world: &World, listing: &Listing) -> Result<(), Failure> {
    if listing.tools.is_empty() {
        world.ui.say("no tools");
        if listing.unavailable.is_empty() {
            world
                .ui
                .hint("`wharf list` shows the servers, `wharf add` adds one");
        }
        return Ok(());
    }
    let row = |tool: &Tool| {
        let description = tool.description.as_deref().unwrap_or_default();
        // The table cuts it where it must, but only the first line is brief.
        let description = world.ui.rest_of_line(description, 0);
        vec![
            tool.name.clone(),
            format!("{}/{}", tool.server, tool.own_name),
            description,
        ]
    };
    let rows: Vec<_> = listing.tools.iter().map(row).collect();
    Ok(world
        .ui
        .table(&["NAME", "SERVER/TOOL", "DESCRIPTION"], &rows)?)
}

/// What is missing, and why.
pub(super) fn complain(world: &World, listing: &Listing) {
    for Unavailable { server, reason } in &listing.unavailable {
        world.ui.warn(&format!("no tools of {server}: {reason}"));
    }
    for warning in &listing.warnings {
        world.ui.warn(warning);
    }
}

impl Tool {
    fn in_full(&self) -> String {
        let Self {
            name,
            server,
            own_name,
            ..
        } = self;
        let description = self.description.as_deref().unwrap_or_default().trim();
        let schema = serde_json::to_string_pretty(&self.input_schema).unwrap_or_default();
        let lines = description
            .lines()
            .chain(schema.lines())
            .map(|line| format!("\n  {line}"));
        let lines: Vec<String> = lines.collect();
        format!("{name} ({server}/{own_name}){}", lines.concat())
    }
}
