//! `wharf agent`

use serde::Deserialize;
use serde_json::{Value, json};

use super::{part, read};
use crate::World;
use crate::cli;
use crate::failure::Failure;
use crate::paths::quoted;
use crate::ui::count;

#[derive(Deserialize)]
struct Agent {
    name: String,
    profile: String,
    sessions: usize,
    workspace: String,
}

#[derive(Deserialize)]
struct Endpoint {
    agent: String,
    url: String,
    token: String,
    stdio: Stdio,
}

#[derive(Deserialize)]
struct Stdio {
    command: String,
    args: Vec<String>,
}

pub(super) async fn run(world: &World, command: cli::Agent) -> Result<(), Failure> {
    match command {
        cli::Agent::New(agent) => new(world, &agent.name).await,
        cli::Agent::List => list(world).await,
        cli::Agent::Show(agent) => show(world, &agent.name).await,
        cli::Agent::Remove(agent) => remove(world, &agent.name).await,
        cli::Agent::Endpoint(agent) => endpoint(world, &agent.name).await,
    }
}

async fn new(world: &World, name: &str) -> Result<(), Failure> {
    let value = world
        .paths
        .client()
        .post("/api/agents", Some(&json!({"name": name})))
        .await?;
    if world.ui.json {
        return Ok(world.ui.answer_json(&value)?);
    }
    world.ui.answer(&format!("created {name}"))?;
    world.ui.hint(&format!(
        "`wharf agent endpoint {name}` tells how clients connect as it"
    ));
    Ok(())
}

async fn list(world: &World) -> Result<(), Failure> {
    let value = world.paths.client().get("/api/agents").await?;
    if world.ui.json {
        return Ok(world.ui.answer_json(&value)?);
    }
    let agents: Vec<Agent> = read(&value["agents"])?;
    let row = |agent: Agent| {
        vec![
            agent.name,
            agent.profile,
            agent.sessions.to_string(),
            agent.workspace,
        ]
    };
    let rows: Vec<_> = agents.into_iter().map(row).collect();
    Ok(world
        .ui
        .table(&["NAME", "PROFILE", "SESSIONS", "WORKSPACE"], &rows)?)
}

async fn show(world: &World, name: &str) -> Result<(), Failure> {
    let value = world
        .paths
        .client()
        .get(&format!("/api/agents/{}", part(name)))
        .await?;
    if world.ui.json {
        return Ok(world.ui.answer_json(&value)?);
    }
    let agent: Agent = read(&value)?;
    Ok(world.ui.answer(&format!(
        "name      {}\nprofile   {}\nworkspace {}\nhas       {}",
        agent.name,
        agent.profile,
        agent.workspace,
        count(agent.sessions, "open session"),
    ))?)
}

async fn remove(world: &World, name: &str) -> Result<(), Failure> {
    let path = format!("/api/agents/{}", part(name));
    let client = world.paths.client();
    world
        .ui
        .wait(
            &format!("ending the sessions of {name}"),
            client.delete(&path),
        )
        .await?;
    if world.ui.json {
        return Ok(world.ui.answer_json(&json!({"removed": name}))?);
    }
    Ok(world.ui.answer(&format!("removed {name}"))?)
}

async fn endpoint(world: &World, name: &str) -> Result<(), Failure> {
    let value = world
        .paths
        .client()
        .get(&format!("/api/agents/{}/endpoint", part(name)))
        .await?;
    if world.ui.json {
        return Ok(world.ui.answer_json(&value)?);
    }
    Ok(world.ui.answer(&how_to_connect(&read(&value)?))?)
}

/// What to write where, for clients of either kind.
fn how_to_connect(
    Endpoint {
        agent,
        url,
        token,
        stdio,
    }: &Endpoint,
) -> String {
    let words: Vec<String> = std::iter::once(&stdio.command)
        .chain(&stdio.args)
        .map(|w| quoted(w))
        .collect();
    let command = words.join(" ");
    let block = |entry: Value| {
        serde_json::to_string_pretty(&json!({"mcpServers": {"wharf": entry}})).unwrap_or_default()
    };
    let own = block(json!({"command": stdio.command, "args": stdio.args}));
    let remote = block(json!({
        "type": "http",
        "url": url,
        "headers": {"Authorization": format!("Bearer {token}")},
    }));
    format!(
        "agent   {agent}\n\
         url     {url}\n\
         token   {token}\n\
         command {command}\n\
         \n\
         Claude Code:\n  claude mcp add wharf -- {command}\n\
         Codex:\n  codex mcp add wharf -- {command}\n\
         \n\
         Clients that start a command:\n{own}\n\
         \n\
         Clients that connect by HTTP:\n{remote}"
    )
}
