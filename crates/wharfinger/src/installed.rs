//! Servers as an agent has them: those of its owner that are attached, and those that are in its file alone.

use serde_json::{Value, json};

use crate::agent::Agent;
use crate::config::Config;
use crate::manage;
use crate::model::{
    Package, PackageKind, Place, Problem, ServerEntry, ServerName, Severity, Source, Transport,
    is_blocked,
};
use crate::rights::{Attached, Rights};
use crate::wharf::Wharf;

/// The configuration as an agent sees it. What runs under the name of a server of the owner is what the owner has
/// registered, whatever the file says (A27); what is in the file alone runs where it was installed by this agent, under
/// this owner, and may run here (A29, A140).
pub(crate) fn view(agent: &Agent, config: &Config, rights: &Rights, wharf: &Wharf) -> Config {
    let mut view = Config {
        daemon: config.daemon.clone(),
        playwright: config.playwright.clone(),
        ..Config::default()
    };
    for attached in &rights.attached {
        let name = attached.name.as_str();
        if let Some(entry) = config.server(name) {
            view.servers.push(entry.clone());
        } else if let Some(broken) = config
            .broken
            .iter()
            .find(|(known, ..)| known.as_str() == name)
        {
            view.broken.push(broken.clone());
        } else if attached.source.is_some() {
            match own(agent, attached, rights, wharf) {
                Ok(entry) => view.servers.push(entry),
                Err(why) => {
                    let broken = (attached.name.clone(), Source::Agent, problem(name, why));
                    view.broken.push(broken);
                }
            }
        }
    }
    view
}

fn problem(name: &str, message: String) -> Problem {
    Problem {
        severity: Severity::Error,
        place: Place::Default,
        key: format!("mcp.servers.{name}"),
        message,
        hint: None,
    }
}

/// A server that is in the agent's file alone.
fn own(
    agent: &Agent,
    attached: &Attached,
    rights: &Rights,
    wharf: &Wharf,
) -> Result<ServerEntry, String> {
    if !agent.is_trusted() {
        return Err(format!(
            "the file of the agent comes from elsewhere; `wharf agent confirm {}` lets its own servers run",
            agent.name
        ));
    }
    if attached.is_shadowed() {
        return Err(
            "its owner had registered another server of this name, which its tools were reviewed for; uninstall it, then install it anew"
                .into(),
        );
    }
    let transport = transport(&attached.row)?;
    let package = package(&attached.row).map(|(package, _)| package);
    if matches!(transport, Transport::Stdio { .. }) {
        let source = manage::identity(&attached.row);
        let app = crate::own::compute(wharf);
        manage::host_gate(&app, rights.host_access, attached.name.as_str(), &source)
            .map_err(|denied| denied.text)?;
    }
    let mut entry = ServerEntry::plain(attached.name.clone(), Source::Agent, transport);
    entry.installed_by = Some(agent.name.clone());
    entry.package = package;
    let timeout = attached.row.get("tool_call_timeout_ms");
    if let Some(millis) = timeout.and_then(Value::as_u64).filter(|millis| *millis > 0) {
        entry.call_timeout = std::time::Duration::from_millis(millis);
    }
    let env = attached.row.get("env").and_then(Value::as_object);
    for (name, value) in env.into_iter().flatten() {
        let Some(value) = value.as_str() else {
            continue;
        };
        // Variables of the host are for its owner's entries; an agent's file copies none.
        if !is_blocked(name) && !value.contains("${") {
            entry.env.push((name.clone(), Some(value.to_owned())));
        }
    }
    Ok(entry)
}

fn transport(row: &Value) -> Result<Transport, String> {
    let text = |key: &str| row.get(key).and_then(Value::as_str);
    if text("transport") == Some("http") {
        let url = text("url").filter(|url| !url.is_empty());
        return Ok(Transport::Http {
            url: url.ok_or("it has no url")?.to_owned(),
        });
    }
    let launch = match package(row) {
        Some((package, args)) => Some(package.fetched(&args)),
        None => command(row),
    };
    let (command, args) = launch.ok_or("its file does not say what to run")?;
    Ok(Transport::Stdio {
        command,
        args,
        cwd: None,
    })
}

/// The package that an entry names, and what it is given (A58, A60). Its version stands in its command line, if
/// anywhere; whoever names one package and fetches another names none.
fn package(row: &Value) -> Option<(Package, Vec<String>)> {
    let text = |key: &str| row.get(key).and_then(Value::as_str);
    let (kind, name) = match (text("npm_package"), text("pypi_package")) {
        (Some(name), _) => (PackageKind::Npm, name),
        (None, Some(name)) => (PackageKind::Pypi, name),
        (None, None) => return None,
    };
    let named = Package::parse(kind, name).ok()?;
    match text("command").filter(|command| !command.trim().is_empty()) {
        None => Some((named, args(row))),
        Some(command) => {
            let (fetched, args) = Package::fetched_by(command, &args(row))?;
            (fetched.kind == named.kind && fetched.name == named.name).then_some((fetched, args))
        }
    }
}

fn command(row: &Value) -> Option<(String, Vec<String>)> {
    let command = row.get("command").and_then(Value::as_str);
    let command = command.filter(|command| !command.trim().is_empty())?;
    Some((command.to_owned(), args(row)))
}

fn args(row: &Value) -> Vec<String> {
    let args = row.get("args").and_then(Value::as_array);
    let args = args.into_iter().flatten().filter_map(Value::as_str);
    args.filter(|arg| !arg.is_empty())
        .map(str::to_owned)
        .collect()
}

/// What a server of the owner is known as, where agents ask for it.
pub(crate) fn source(entry: &ServerEntry) -> String {
    if let Some(package) = &entry.package {
        return match package.kind {
            PackageKind::Npm => format!("npm:{}", package.name),
            PackageKind::Pypi => format!("uvx:{}", package.name),
        };
    }
    match &entry.transport {
        Transport::Http { url } => format!("http:{url}"),
        Transport::Stdio { command, args, .. } => {
            let package = args.iter().find(|arg| !arg.starts_with('-'));
            match (command.as_str(), package) {
                ("npx", Some(package)) => {
                    format!("npm:{}", manage::package_name(manage::Kind::Npm, package))
                }
                ("uvx", Some(package)) => {
                    format!("uvx:{}", manage::package_name(manage::Kind::Pypi, package))
                }
                _ => command.clone(),
            }
        }
    }
}

/// What an agent's file says of a server of its owner (A25, A75): where it comes from, and no value of a variable.
pub(crate) fn row(entry: &ServerEntry) -> Value {
    let mut row = json!({ "name": entry.name });
    match &entry.transport {
        Transport::Http { url } => {
            row["transport"] = json!("http");
            row["url"] = json!(url);
        }
        Transport::Stdio { command, args, .. } => {
            row["transport"] = json!("stdio");
            row["command"] = json!(command);
            row["args"] = json!(args);
        }
    }
    let scopes: Vec<Value> = entry
        .env
        .iter()
        .filter(|(_, value)| value.is_some())
        .map(|(name, _)| json!({ "key": name, "scope": "app" }))
        .collect();
    if !scopes.is_empty() {
        row["env_schema"] = json!(scopes);
    }
    row["run_location"] = json!("host");
    if entry.call_timeout != ServerEntry::CALL_TIMEOUT {
        row["tool_call_timeout_ms"] = json!(entry.call_timeout.as_millis());
    }
    row
}

/// What servers of a file would run that the owner has not registered, for people who are asked whether they may.
pub(crate) fn would_run(rows: &[Value], config: &Config) -> Vec<String> {
    let own = rows.iter().filter(|row| {
        let name = row["name"].as_str().unwrap_or_default();
        row["source"].is_string() && config.server(name).is_none()
    });
    own.map(|row| {
        let name = row["name"].as_str().unwrap_or_default();
        match transport(row) {
            Ok(Transport::Stdio { command, args, .. }) => {
                let words =
                    std::iter::once(command.as_str()).chain(args.iter().map(String::as_str));
                format!("{name}: {}", shell_words::join(words))
            }
            Ok(Transport::Http { url }) => format!("{name}: {url}"),
            Err(why) => format!("{name}: {why}"),
        }
    })
    .collect()
}

/// A name of a file's agent as a name of ours.
pub(crate) fn agent_name(text: &str) -> String {
    let legal = |c: char| {
        if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') {
            c
        } else {
            '-'
        }
    };
    let name: String = text.trim().chars().map(legal).take(64).collect();
    name.trim_start_matches(['.', '_', '-']).to_owned()
}

impl Wharf {
    /// Servers of an agent that came or went (A93): the order does not count, and neither does what became of those
    /// that stay (A95).
    pub(crate) fn apply(&self, agent: &std::sync::Arc<Agent>, before: &Rights) {
        let after = agent.rights();
        let names = |rights: &Rights| -> Vec<ServerName> {
            let attached = rights.attached.iter();
            attached.map(|attached| attached.name.clone()).collect()
        };
        let (before, after) = (names(before), names(&after));
        let removed: Vec<_> = before
            .iter()
            .filter(|name| !after.contains(name))
            .cloned()
            .collect();
        let added = after.iter().any(|name| !before.contains(name));
        if removed.is_empty() && !added {
            return;
        }
        let (wharf, agent) = (self.clone(), agent.clone());
        self.0.context.tasks.spawn(async move {
            for name in removed {
                wharf.drop_server_of(name.as_str(), &agent.name).await;
            }
            if added {
                for session in wharf.sessions_of(&agent.name) {
                    // What fails is logged where it happens, and the others go on.
                    session.become_active().await;
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a212_an_entry_of_each_kind_says_what_is_run() {
        let check = |row: Value, expect: Result<(&str, &[&str]), &str>| {
            let found = transport(&row);
            let told = match &found {
                Ok(Transport::Stdio { command, args, .. }) => {
                    let args: Vec<&str> = args.iter().map(String::as_str).collect();
                    Ok((command.as_str(), args))
                }
                Ok(Transport::Http { url }) => Ok((url.as_str(), vec![])),
                Err(why) => Err(why.as_str()),
            };
            assert_eq!(
                told,
                expect.map(|(command, args)| (command, args.to_vec())),
                "{row}"
            );
        };
        check(
            json!({ "npm_package": "@a/b", "args": ["", "--x"] }),
            Ok(("npx", &["-y", "@a/b", "--x"])),
        );
        check(
            json!({ "pypi_package": "mcp-b", "args": ["--x"] }),
            Ok(("uvx", &["mcp-b", "--x"])),
        );
        check(
            json!({ "command": "node", "args": ["x.js"], "source": "custom" }),
            Ok(("node", &["x.js"])),
        );
        check(
            json!({ "transport": "http", "url": "https://example.com/mcp" }),
            Ok(("https://example.com/mcp", &[])),
        );
        check(json!({ "transport": "http" }), Err("it has no url"));
        check(
            json!({ "name": "x" }),
            Err("its file does not say what to run"),
        );
    }

    #[test]
    fn a23_the_limit_of_a_registered_servers_calls_is_told_in_milliseconds() {
        let transport = Transport::Stdio {
            command: "x".into(),
            args: vec![],
            cwd: None,
        };
        let name = ServerName::new("x").unwrap();
        let mut entry = ServerEntry::plain(name, Source::Settings, transport);
        assert_eq!(row(&entry).get("tool_call_timeout_ms"), None);
        entry.call_timeout = std::time::Duration::from_secs(90);
        assert_eq!(row(&entry)["tool_call_timeout_ms"], 90_000);
    }

    #[test]
    fn a_registered_server_is_known_by_its_package() {
        let check = |command: &str, args: &[&str], expect: &str| {
            let transport = Transport::Stdio {
                command: command.into(),
                args: args.iter().map(|arg| (*arg).to_owned()).collect(),
                cwd: None,
            };
            let name = ServerName::new("x").unwrap();
            let entry = ServerEntry::plain(name, Source::Settings, transport);
            assert_eq!(source(&entry), expect);
        };
        check("npx", &["-y", "@a/b@1.2.3", "--x"], "npm:@a/b");
        check("uvx", &["mcp-b"], "uvx:mcp-b");
        check("node", &["x.js"], "node");
    }

    #[test]
    fn names_of_files_become_names_of_agents() {
        let check = |text: &str, expect: &str| assert_eq!(agent_name(text), expect);
        check("My Agent", "My-Agent");
        check("  .hidden", "hidden");
        check("a/b\\c", "a-b-c");
        check(&"x".repeat(70), &"x".repeat(64));
    }
}
