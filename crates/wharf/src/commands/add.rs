//! `wharf add`

use serde::Deserialize;
use serde_json::{Map, Value, json};
use wharfinger::config::{PastedError, pasted};
use wharfinger::import::take_secrets;
use wharfinger::model::expand::take;
use wharfinger::vault::SecretNames;

use super::{doctor, known, packages, read, secret};
use crate::World;
use crate::cli::{Add, is_block};
use crate::failure::{Exit, Failure};
use crate::paths::quoted;
use crate::ui::{count, read_input};

#[derive(Deserialize)]
pub(super) struct Added {
    pub(super) name: String,
    tools: Option<usize>,
    pub(super) error: Option<String>,
    verified: Option<u64>,
    finding: Option<Value>,
}

pub(super) async fn run(world: &World, add: Add) -> Result<(), Failure> {
    let is_package = add.package.npm.is_some() || add.package.pypi.is_some();
    if !is_package
        && add.entry.is_empty()
        && add.command.is_empty()
        && add.name != "-"
        && !is_block(&add.name)
    {
        return known::run(world, &add).await;
    }
    let servers = servers(&add)?;
    ask_keys(world, &add, &servers).await?;
    let names: Vec<&str> = servers.keys().map(String::as_str).collect();
    // Other places to run do not exist yet, so whoever adds one is told once which one it is.
    let is_here = servers.values().any(|entry| entry.get("url").is_none());
    let connect = !add.known.no_connect;
    let body = json!({"servers": servers, "replace": add.replace, "connect": connect});
    let client = world.paths.client();
    let what = format!("starting {} to list its tools", names.join(", "));
    let value = world
        .ui
        .wait(&what, client.post("/api/servers", Some(&body)))
        .await?;
    let outcome = told(world, &value, connect);
    warn_of_plain(world, &servers);
    if !world.ui.json && is_here {
        world.ui.say(match names.len() {
            1 => "it runs on this machine, with your rights",
            _ => "they run on this machine, with your rights",
        });
    }
    outcome
}

/// Secrets that were typed into entries stand there for everybody who can read the file.
fn warn_of_plain(world: &World, servers: &Map<String, Value>) {
    let names = SecretNames::default();
    for (name, entry) in servers {
        let mut entry = entry.as_object().cloned().unwrap_or_default();
        let moved = take_secrets(&mut entry, &names);
        let keys: Vec<&str> = moved.iter().map(|one| one.key.as_str()).collect();
        if keys.is_empty() {
            continue;
        }
        let verb = if keys.len() == 1 { "stands" } else { "stand" };
        world.ui.warn(&format!(
            "{name}: {} {verb} plain in settings.json",
            keys.join(", ")
        ));
        world
            .ui
            .hint("`wharf secret import` moves what is secret into the vault");
    }
}

/// Says what became of new servers; a failure where one can't be connected to.
pub(super) fn told(world: &World, value: &Value, connect: bool) -> Result<(), Failure> {
    let added: Vec<Added> = read(&value["servers"])?;
    if world.ui.json {
        world.ui.answer_json(value)?;
    } else {
        tell(world, &added, value, connect)?;
    }
    if added.iter().any(|server| server.error.is_some()) {
        return Err(Failure::Known(Exit::Failed));
    }
    Ok(())
}

pub(super) fn tell(
    world: &World,
    added: &[Added],
    value: &Value,
    connect: bool,
) -> Result<(), Failure> {
    for server in added {
        let Added {
            name,
            tools,
            error,
            verified,
            ..
        } = server;
        let tools = match (tools, error, verified) {
            (Some(tools), ..) => count(*tools, "tool"),
            (None, Some(_), _) => "but its tools can't be listed".to_owned(),
            (None, None, None) if !connect => "not verified".to_owned(),
            (None, None, Some(_)) if !connect => "verified before".to_owned(),
            (None, None, _) => "switched off".to_owned(),
        };
        world.ui.answer(&format!("added {name}, {tools}"))?;
    }
    for problem in value["problems"].as_array().into_iter().flatten() {
        let text = |key: &str| problem[key].as_str().unwrap_or_default();
        world
            .ui
            .warn(&format!("{}: {}", text("key"), text("message")));
    }
    for Added {
        name,
        error,
        verified,
        finding,
        ..
    } in added
    {
        if let Some(error) = error {
            world.ui.warn(&format!("{name}: {error}"));
            if let Some(finding) = finding {
                doctor::tell(world, finding)?;
            }
            world.ui.hint(&format!(
                "`wharf logs {name}` shows what it wrote; `wharf add --replace {name} …` corrects the entry, \
                 `wharf test {name}` tries it again, `wharf remove {name}` removes it"
            ));
        } else if !connect && verified.is_none() {
            world
                .ui
                .hint(&format!("`wharf test {name}` connects to it"));
        }
    }
    Ok(())
}

/// Entries by name, with every member that was given.
fn servers(add: &Add) -> Result<Map<String, Value>, Failure> {
    let package = packages::entry(&add.package, &add.command)?;
    let block = match (
        add.name.as_str(),
        add.entry.as_slice(),
        add.command.as_slice(),
    ) {
        ("-", [], []) => Some(
            read_input()
                .map_err(|error| Failure::usage("can't read standard input").because(&error))?,
        ),
        (text, [], []) if is_block(text) => Some(text.to_owned()),
        (name, [entry], []) if entry.trim_start().starts_with('{') => {
            Some(format!("{{{}: {entry}}}", Value::from(name)))
        }
        (_, [], [_, ..]) => None,
        (_, [], []) if package.is_some() => None,
        (name, words, command) => return Err(nothing_to_run(name, words, command)),
    };
    let mut servers = Map::new();
    match block {
        None => {
            let entry = package
                .unwrap_or_else(|| json!({"command": add.command[0], "args": add.command[1..]}));
            servers.insert(
                add.known.called.clone().unwrap_or_else(|| add.name.clone()),
                entry,
            );
        }
        Some(text) => {
            for server in pasted(&text).map_err(refused)? {
                // The daemon finds the same, and says it in its answer.
                drop(server.problems);
                servers.insert(server.entry.name.to_string(), server.json);
            }
        }
    }
    for entry in servers.values_mut() {
        let Value::Object(entry) = entry else {
            continue;
        };
        variables(add, entry);
        options(add, entry);
    }
    Ok(servers)
}

fn variables(add: &Add, entry: &mut Map<String, Value>) {
    if add.env.is_empty() {
        return;
    }
    let env = entry.entry("env").or_insert_with(|| json!({}));
    if !env.is_object() {
        *env = json!({});
    }
    for (key, value) in &add.env {
        env[key] = match value {
            Some(value) => json!(value),
            None => json!(take(key, true)),
        };
    }
}

/// What the options say goes over what a block says.
pub(super) fn options(add: &Add, entry: &mut Map<String, Value>) {
    if let Some(prefix) = &add.prefix {
        entry.insert("toolPrefix".into(), json!(prefix));
    }
    if let Some(cwd) = &add.cwd {
        entry.insert("cwd".into(), json!(cwd));
    }
    if let Some(roots) = &add.roots {
        entry.insert("roots".into(), json!(roots));
    }
    if add.parallel {
        entry.insert("parallel".into(), json!(true));
    }
    if add.disabled {
        entry.insert("enabled".into(), json!(false));
    }
}

/// Asks for keys that were named without a value, where somebody can be asked and they are not set yet. They are set
/// before the server is added, so that it starts at once.
async fn ask_keys(world: &World, add: &Add, servers: &Map<String, Value>) -> Result<(), Failure> {
    let named: Vec<&String> = add
        .env
        .iter()
        .filter(|(_, value)| value.is_none())
        .map(|(key, _)| key)
        .collect();
    if named.is_empty() || !world.ui.can_ask() {
        return Ok(());
    }
    let known = world.paths.client().get("/api/secrets").await?;
    let known = known["secrets"].as_array().cloned().unwrap_or_default();
    for server in servers.keys() {
        for key in &named {
            let is_it = |one: &Value| one["server"] == **server && one["key"] == ***key;
            let is_set = |one: &Value| one["agent"].is_null() && one["set"] == true;
            if known.iter().any(|one| is_it(one) && is_set(one)) {
                continue;
            }
            let value = secret::prompt(&format!("{key} of {server} (empty for later)"))?;
            if !value.is_empty() {
                secret::put(world, server, key, &value, None).await?;
            }
        }
    }
    Ok(())
}

/// What was probably meant, as a command.
pub(crate) fn nothing_to_run(name: &str, words: &[String], command: &[String]) -> Failure {
    let words: Vec<String> = words
        .iter()
        .chain(command)
        .map(|word| quoted(word))
        .collect();
    let (message, words) = if words.is_empty() {
        (
            format!("nothing to run for `{name}`"),
            "npx -y some-mcp-server".to_owned(),
        )
    } else {
        (
            format!("the command of `{name}` must stand after `--`"),
            words.join(" "),
        )
    };
    Failure::usage(message).hint(format!("`wharf add {} -- {words}`", quoted(name)))
}

fn refused(error: PastedError) -> Failure {
    match error {
        PastedError::Syntax { line, message } => {
            Failure::usage(format!("the block is not JSON: line {line}: {message}"))
        }
        PastedError::Nothing => Failure::usage("there is no server in the block")
            .hint("it should look like `{\"mcpServers\": {\"name\": {\"command\": \"npx\", \"args\": []}}}`"),
        PastedError::Invalid(problems) => {
            let mut problems = problems.into_iter().map(|p| (format!("{}: {}", p.key, p.message), p.hint));
            let (first, hint) = problems.next().unwrap_or_default();
            let rest = problems.map(|(text, _)| format!("\n{text}"));
            let failure = Failure::usage(rest.fold(first, |text, line| text + &line));
            match hint {
                Some(hint) => failure.hint(hint),
                None => failure,
            }
        }
    }
}
