//! `wharf show`, `remove`, `enable`, `disable`, `restart`, `stop NAME`: about one server.

use serde::Deserialize;
use serde_json::Value;

use super::list::{State, status};
use super::{doctor, part, read};
use crate::World;
use crate::failure::{Exit, Failure};
use crate::ui::{Ui, count, plain};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Details {
    name: String,
    status: State,
    status_text: String,
    #[serde(default)]
    verified: Option<u64>,
    command: String,
    error: Option<String>,
    place: String,
    cwd: Option<String>,
    #[serde(default)]
    env_names: Vec<String>,
    protocol: Option<String>,
    #[serde(default)]
    server_info: Value,
    #[serde(default)]
    tool_names: Vec<Tool>,
    #[serde(default)]
    warnings: Vec<String>,
    #[serde(default)]
    stderr_tail: Vec<String>,
    pid: Option<u32>,
    finding: Option<Value>,
    #[serde(default)]
    tools: Option<usize>,
    #[serde(default)]
    package: Option<Package>,
}

#[derive(Deserialize)]
struct Package {
    kind: String,
    name: String,
    version: Option<String>,
    installed: bool,
    managed: bool,
}

#[derive(Deserialize)]
struct Tool {
    name: String,
    #[serde(rename = "tool")]
    own_name: String,
    description: String,
}

/// What every change of a server is answered with.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    status_text: String,
    tools: Option<usize>,
}

pub(super) async fn show(world: &World, name: &str, agent: &str) -> Result<(), Failure> {
    let path = format!("/api/servers/{}?agent={}", part(name), part(agent));
    let value = world.paths.client().get(&path).await?;
    if world.ui.json {
        return Ok(world.ui.answer_json(&value)?);
    }
    let details: Details = read(&value)?;
    world.ui.answer(&in_full(&world.ui, &details))?;
    if let Some(finding) = &details.finding {
        doctor::tell(world, finding)?;
    }
    Ok(())
}

fn in_full(ui: &Ui, details: &Details) -> String {
    let mut lines = vec![];
    let mut line = |label: &str, value: &str| {
        if !value.is_empty() {
            lines.push(format!("{label:10}{}", value.replace('\n', "\n          ")));
        }
    };
    line("name", &details.name);
    let status = status(
        &details.status_text,
        &details.status.state,
        details.verified,
    );
    line("status", &status);
    line(
        "pid",
        &details.pid.map(|pid| pid.to_string()).unwrap_or_default(),
    );
    line("error", details.error.as_deref().unwrap_or_default());
    let package = details.package.as_ref();
    // A command that fetches it says enough.
    let package = package.filter(|package| package.managed || package.installed);
    line("package", &package.map(of_package).unwrap_or_default());
    line("command", &details.command);
    line("env", &details.env_names.join(", "));
    line("cwd", details.cwd.as_deref().unwrap_or_default());
    line("from", &details.place);
    let info = &details.server_info;
    let info = match info["name"].as_str() {
        Some(name) => format!("{name} {}", plain(&info["version"])),
        None => info.as_str().unwrap_or_default().to_owned(),
    };
    line("server", &info);
    line("protocol", details.protocol.as_deref().unwrap_or_default());
    let count = details
        .tools
        .map_or_else(|| "not listed yet".to_owned(), |tools| count(tools, "tool"));
    line("tools", &count);
    let width = details
        .tool_names
        .iter()
        .map(|tool| tool.name.chars().count())
        .max()
        .unwrap_or(0);
    lines.extend(details.tool_names.iter().map(|tool| {
        let own = if tool.name == tool.own_name {
            String::new()
        } else {
            format!(" ({})", tool.own_name)
        };
        let line = format!("  {:width$}{own}  ", tool.name);
        let description = ui.rest_of_line(&tool.description, line.chars().count());
        format!("{line}{description}").trim_end().to_owned()
    }));
    lines.extend(
        details
            .warnings
            .iter()
            .map(|warning| format!("warning   {warning}")),
    );
    if !details.stderr_tail.is_empty() {
        lines.push("last words on standard error".to_owned());
        lines.extend(details.stderr_tail.iter().map(|line| format!("  {line}")));
    }
    lines.join("\n")
}

fn of_package(package: &Package) -> String {
    let Package {
        kind,
        name,
        version,
        installed,
        ..
    } = package;
    let version = version.as_deref().unwrap_or("of any version");
    let state = if *installed {
        "installed"
    } else {
        "not installed"
    };
    format!("{name} {version}, {kind}, {state}")
}

/// What can be done to a server.
#[derive(Clone, Copy)]
pub(super) enum Verb {
    Enable,
    Disable,
    Restart,
    Stop,
}

/// Does it; of one agent's process where that makes a difference and an agent is named.
pub(super) async fn change(
    world: &World,
    name: &str,
    verb: Verb,
    agent: Option<&str>,
) -> Result<(), Failure> {
    let (path, doing, done) = match verb {
        Verb::Enable => ("enable", "starting", "enabled"),
        Verb::Disable => ("disable", "stopping", "disabled"),
        Verb::Restart => ("restart", "stopping", "stopped"),
        Verb::Stop => ("stop", "stopping", "stopped"),
    };
    let agent = agent
        .map(|agent| format!("?agent={}", part(agent)))
        .unwrap_or_default();
    let path = format!("/api/servers/{}/{path}{agent}", part(name));
    let client = world.paths.client();
    let value = world
        .ui
        .wait(&format!("{doing} {name}"), client.post(&path, None))
        .await?;
    if world.ui.json {
        return Ok(world.ui.answer_json(&value)?);
    }
    let report: Report = read(&value)?;
    let rest = match (verb, report.tools) {
        (Verb::Enable, Some(tools)) => format!(", {}", count(tools, "tool")),
        (Verb::Enable, None) => ", but its tools can't be listed".to_owned(),
        (Verb::Disable, _) => String::new(),
        (Verb::Restart | Verb::Stop, _) => "; the next call starts a fresh process".to_owned(),
    };
    world.ui.answer(&format!("{done} {name}{rest}"))?;
    if let (Verb::Enable, None) = (verb, report.tools) {
        world.ui.warn(&format!("{name}: {}", report.status_text));
        return Err(Failure::Known(Exit::Failed));
    }
    Ok(())
}
