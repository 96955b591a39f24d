//! `wharf agent`

use serde::Deserialize;
use serde_json::{Map, Value, json};
use wharfinger_daemon::client::ClientError;

use super::{part, read};
use crate::World;
use crate::cli;
use crate::failure::Failure;
use crate::paths::quoted;
use crate::ui::{count, plain};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Agent {
    name: String,
    profile: String,
    file: String,
    problem: Option<String>,
    state: String,
    sessions: usize,
    workspace: String,
    #[serde(default)]
    attached: Vec<Attached>,
    #[serde(flatten)]
    settings: Option<Settings>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Attached {
    name: String,
    registered: bool,
    restricted: bool,
    accept_changes: Option<String>,
    source: Option<String>,
    problem: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a setting of its own"
)]
struct Settings {
    new_tools_restricted: bool,
    accept_changes: String,
    ask_client: bool,
    always_active: bool,
    host_access: bool,
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
        cli::Agent::New(agent) => new(world, &agent).await,
        cli::Agent::List => list(world).await,
        cli::Agent::Show(agent) => show(world, &agent.name).await,
        cli::Agent::Attach(both) => attach(world, &both).await,
        cli::Agent::Detach(both) => detach(world, &both).await,
        cli::Agent::Set(set) => self::set(world, &set).await,
        cli::Agent::Export(export) => self::export(world, &export).await,
        cli::Agent::Import(import) => self::import(world, import).await,
        cli::Agent::Confirm(agent) => confirm(world, &agent.name).await,
        cli::Agent::Remove(agent) => remove(world, &agent.name).await,
        cli::Agent::Endpoint(agent) => endpoint(world, &agent.name).await,
    }
}

fn path(name: &str, rest: &str) -> String {
    format!("/api/agents/{}{rest}", part(name))
}

async fn new(world: &World, new: &cli::NewAgent) -> Result<(), Failure> {
    let cli::NewAgent { name, profile } = new;
    let body = json!({"name": name, "profile": profile});
    let client = world.paths.client();
    let value = client.post("/api/agents", Some(&body)).await?;
    if world.ui.json {
        return Ok(world.ui.answer_json(&value)?);
    }
    world.ui.answer(&format!("created {name}"))?;
    world.ui.hint(&if profile == "agent" {
        format!(
            "it has nothing yet: `wharf agent attach {name} SERVER` gives it a server, `wharf agent endpoint {name}` tells how clients connect as it"
        )
    } else {
        format!("`wharf agent endpoint {name}` tells how clients connect as it")
    });
    Ok(())
}

async fn list(world: &World) -> Result<(), Failure> {
    let value = world.paths.client().get("/api/agents").await?;
    if world.ui.json {
        return Ok(world.ui.answer_json(&value)?);
    }
    let agents: Vec<Agent> = read(&value["agents"])?;
    let row = |agent: &Agent| {
        vec![
            agent.name.clone(),
            agent.profile.clone(),
            agent.doing().to_owned(),
            agent.sessions.to_string(),
            agent.workspace.clone(),
        ]
    };
    let rows: Vec<_> = agents.iter().map(row).collect();
    world.ui.table(
        &["NAME", "PROFILE", "STATE", "SESSIONS", "WORKSPACE"],
        &rows,
    )?;
    for agent in &agents {
        if let Some(problem) = &agent.problem {
            world.ui.warn(&format!("{}: {problem}", agent.name));
        }
    }
    Ok(())
}

impl Agent {
    fn doing(&self) -> &str {
        match self.state.as_str() {
            "awaiting_approval" => "waits for approval",
            state => state,
        }
    }

    fn in_full(&self, waiting: &[String]) -> String {
        let mut lines = vec![];
        let mut line = |label: &str, value: &str| lines.push(format!("{label:10}{value}"));
        line("name", &self.name);
        line("profile", &self.profile);
        line("state", self.doing());
        line("workspace", &self.workspace);
        line("file", &self.file);
        line("has", &count(self.sessions, "open session"));
        if let Some(settings) = &self.settings {
            let servers: Vec<String> = self.attached.iter().map(Attached::line).collect();
            let none = "none; `wharf agent attach` gives it one".to_owned();
            line(
                "servers",
                &if servers.is_empty() {
                    none
                } else {
                    servers.join("\n          ")
                },
            );
            line("settings", &settings.lines().join("\n          "));
        } else {
            line("servers", "every one that is switched on");
        }
        for one in waiting {
            line("waits", one);
        }
        lines.join("\n")
    }
}

impl Attached {
    fn line(&self) -> String {
        let mut words = vec![self.name.clone()];
        if let Some(source) = &self.source {
            words.push(format!("from {source}"));
        }
        if !self.registered {
            words.push("not registered here".to_owned());
        }
        if self.restricted {
            words.push("unknown tools ask".to_owned());
        }
        if let Some(accept) = &self.accept_changes {
            words.push(format!("accept-changes {accept}"));
        }
        if let Some(problem) = &self.problem {
            words.push(format!("does not run: {problem}"));
        }
        words.join(", ")
    }
}

impl Settings {
    /// As they are set.
    fn lines(&self) -> [String; 5] {
        let switch = |on: bool| if on { "on" } else { "off" };
        [
            format!("new-tools-restricted {}", switch(self.new_tools_restricted)),
            format!("accept-changes {}", self.accept_changes),
            format!("ask-client {}", switch(self.ask_client)),
            format!("always-active {}", switch(self.always_active)),
            format!("host-access {}", switch(self.host_access)),
        ]
    }
}

async fn show(world: &World, name: &str) -> Result<(), Failure> {
    let client = world.paths.client();
    let value = client.get(&path(name, "")).await?;
    if world.ui.json {
        return Ok(world.ui.answer_json(&value)?);
    }
    let agent: Agent = read(&value)?;
    let approvals = client.get("/api/approvals").await?;
    let approvals = approvals["approvals"].as_array().into_iter().flatten();
    let waiting = approvals
        .filter(|one| one["agent"] == *name && one["stage"] == "pending_approval")
        .map(|one| format!("{}, a call of {}", plain(&one["id"]), plain(&one["name"])));
    let waiting: Vec<String> = waiting.collect();
    world.ui.answer(&agent.in_full(&waiting))?;
    if let Some(problem) = &agent.problem {
        world.ui.warn(problem);
    }
    Ok(())
}

async fn attach(world: &World, both: &cli::AgentServer) -> Result<(), Failure> {
    let cli::AgentServer { name, server } = both;
    let client = world.paths.client();
    let (to, body) = (path(name, "/servers"), json!({ "name": server }));
    let attaching = client.post(&to, Some(&body));
    let what = format!("attaching {server}");
    let value = world.ui.wait(&what, attaching).await?;
    if world.ui.json {
        return Ok(world.ui.answer_json(&value)?);
    }
    let tools = client.get(&path(name, "/tools")).await?;
    let tools = tools["tools"].as_array().into_iter().flatten();
    let tools: Vec<&Value> = tools.filter(|tool| tool["server"] == **server).collect();
    let asks = tools.iter().filter(|tool| tool["restricted"] == true);
    let asks = match asks.count() {
        0 => String::new(),
        all if all == tools.len() => "; each call of them waits for your approval".to_owned(),
        some => format!("; calls of {some} of them wait for your approval"),
    };
    world.ui.answer(&format!(
        "attached {server} to {name}, {}{asks}",
        count(tools.len(), "tool")
    ))?;
    world.ui.hint(&format!(
        "`wharf tools list --agent {name}` shows them, `wharf tools unrestrict {server}/ --agent {name}` lets them be called without asking"
    ));
    Ok(())
}

async fn detach(world: &World, both: &cli::AgentServer) -> Result<(), Failure> {
    let cli::AgentServer { name, server } = both;
    let client = world.paths.client();
    let from = path(name, &format!("/servers/{}", part(server)));
    let value = client.delete(&from).await?;
    if world.ui.json {
        return Ok(world.ui.answer_json(&value)?);
    }
    Ok(world.ui.answer(&format!("detached {server} from {name}"))?)
}

async fn set(world: &World, set: &cli::AgentSet) -> Result<(), Failure> {
    let mut body = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            body.insert(key.to_owned(), value);
        }
    };
    put(
        "newToolsRestricted",
        set.new_tools_restricted.map(Value::from),
    );
    put("acceptChanges", set.accept_changes.clone().map(Value::from));
    put("askClient", set.ask_client.map(Value::from));
    put("alwaysActive", set.always_active.map(Value::from));
    put("hostAccess", set.host_access.map(Value::from));
    put("restricted", set.restricted.map(Value::from));
    let what = match &set.server {
        Some(server) => path(&set.name, &format!("/servers/{}", part(server))),
        None => path(&set.name, ""),
    };
    let client = world.paths.client();
    let value = client.patch(&what, &body.into()).await?;
    if world.ui.json {
        return Ok(world.ui.answer_json(&value)?);
    }
    let agent: Agent = read(&value)?;
    let now = match (&set.server, &agent.settings) {
        (Some(server), _) => {
            let found = agent.attached.iter().find(|known| known.name == *server);
            found.map(Attached::line).unwrap_or_default()
        }
        (None, Some(settings)) => settings.lines().join("\n"),
        (None, None) => String::new(),
    };
    Ok(world.ui.answer(&now)?)
}

fn absolute(file: &std::path::Path) -> Result<String, Failure> {
    let path = std::path::absolute(file).map_err(|error| {
        Failure::usage(format!("`{}` is no path", file.display())).because(&error)
    })?;
    Ok(path.display().to_string())
}

async fn export(world: &World, export: &cli::AgentExport) -> Result<(), Failure> {
    let body = json!({ "path": absolute(&export.file)? });
    let client = world.paths.client();
    let to = path(&export.name, "/export");
    let value = client.post(&to, Some(&body)).await?;
    if world.ui.json {
        return Ok(world.ui.answer_json(&value)?);
    }
    Ok(world.ui.answer(&format!(
        "exported {} to {}",
        export.name,
        plain(&value["path"])
    ))?)
}

async fn import(world: &World, import: cli::AgentImport) -> Result<(), Failure> {
    let mut body = json!({ "path": absolute(&import.file)?, "confirmed": import.yes });
    if let Some(name) = &import.name {
        body["name"] = json!(name);
    }
    let client = world.paths.client();
    let mut answer = client.post("/api/agents/import", Some(&body)).await;
    if let Err(ClientError::Refused { problem, .. }) = &answer
        && let Some(runs) = problem["runs"].as_array()
    {
        let runs: Vec<String> = runs.iter().map(plain).collect();
        if world.ui.json {
            // It has all of that for programs.
            return answer.map(drop).map_err(Failure::from);
        }
        if !world.ui.can_ask() {
            let failure = Failure::failed(
                "the file comes from elsewhere, so what would run of it has to be confirmed",
            );
            let failure = failure.causes(&runs);
            return Err(failure.hint("when you trust that, say so with `--yes`"));
        }
        world
            .ui
            .say("the file comes from elsewhere; servers in it would run on this machine:");
        for run in &runs {
            world.ui.say(&format!("  {run}"));
        }
        if !world.ui.ask("take it in, and let them run?")? {
            return Err(Failure::failed("nothing was imported"));
        }
        body["confirmed"] = json!(true);
        answer = client.post("/api/agents/import", Some(&body)).await;
    }
    let value = answer?;
    if world.ui.json {
        return Ok(world.ui.answer_json(&value)?);
    }
    let agent: Agent = read(&value)?;
    world.ui.answer(&format!("imported {}", agent.name))?;
    for server in &agent.attached {
        if let Some(problem) = &server.problem {
            world.ui.warn(&format!("{}: {problem}", server.name));
        } else if !server.registered && server.source.is_none() {
            world.ui.warn(&format!(
                "{}: it is not registered here, so its tools are off; `wharf add` registers it",
                server.name
            ));
        }
    }
    Ok(())
}

async fn confirm(world: &World, name: &str) -> Result<(), Failure> {
    let client = world.paths.client();
    let value = client.post(&path(name, "/confirm"), None).await?;
    if world.ui.json {
        return Ok(world.ui.answer_json(&value)?);
    }
    let runs: Vec<String> = read(&value["runs"])?;
    if runs.is_empty() {
        return Ok(world
            .ui
            .answer(&format!("confirmed {name}, which runs nothing of its own"))?);
    }
    let runs: Vec<String> = runs.iter().map(|run| format!("\n  {run}")).collect();
    Ok(world
        .ui
        .answer(&format!("confirmed {name}; may run now:{}", runs.concat()))?)
}

async fn remove(world: &World, name: &str) -> Result<(), Failure> {
    let client = world.paths.client();
    let (path, what) = (path(name, ""), format!("ending the sessions of {name}"));
    world.ui.wait(&what, client.delete(&path)).await?;
    if world.ui.json {
        return Ok(world.ui.answer_json(&json!({"removed": name}))?);
    }
    Ok(world.ui.answer(&format!("removed {name} and its file"))?)
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
         Clients that are known, as `wharf clients --all` lists them:\n  wharf connect claude-code --agent {agent}\n\
         \n\
         Clients that start a command:\n{own}\n\
         \n\
         Clients that connect by HTTP:\n{remote}"
    )
}
