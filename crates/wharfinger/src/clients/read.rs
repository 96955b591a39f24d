//! What a client's file has, as entries of ours. One odd entry does not hide the others.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::edit::{is_ours, parse};
use super::references::{Syntax, Translated, translate};
use super::shape::{address, pairs, words};
use super::{CLIENTS, Client, Format, Refused, client, json as json_text, places, unmarked};

/// A server of a client's file.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// As the client calls it.
    pub name: String,
    /// The project that it belongs to, if to one alone.
    pub project: Option<String>,
    /// It leads to us.
    pub is_ours: bool,
    /// Our entry, or why there can be none.
    pub entry: Result<Map<String, Value>, String>,
    /// Variables and headers whose values only their owner can give; the entry has `${secret:KEY}` for them.
    pub asked: Vec<String>,
    /// Variables of the environment that it reads.
    pub variables: Vec<String>,
    /// What is lost or different, as sentences.
    pub remarks: Vec<String>,
}

/// What was read of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// In the order of the file.
    pub servers: Vec<Found>,
    /// What is wrong with the file as a whole.
    pub problems: Vec<String>,
}

impl Reading {
    /// Whether our entry is in it, under whatever name.
    pub fn has_ours(&self) -> bool {
        self.servers.iter().any(|server| server.is_ours)
    }

    /// How many are somebody else's.
    pub fn others(&self) -> usize {
        self.servers.iter().filter(|server| !server.is_ours).count()
    }
}

/// Members that say what a client shows or allows of a server, which is said elsewhere here.
const RULES: &[&str] = &[
    "alwaysAllow",
    "autoApprove",
    "available_tools",
    "disabledTools",
    "disabled_tools",
    "enabled_tools",
    "excludeTools",
    "includeTools",
    "tools",
    "trust",
];

/// Nobody has more servers than this.
const MOST: usize = 1000;

/// Reads a client's file; `home` stands where a value names the home folder.
pub fn read(client: &Client, text: &str, home: &str) -> Result<Reading, Refused> {
    let root = parse(client.format, text)?;
    let Value::Object(top) = &root else {
        return Err(Refused::NotAnObject("the file".into()));
    };
    let mut reading = Reading::default();
    let mut take = |holder: Option<&Value>, project: Option<&str>| match holder {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Object(servers)) => {
            for (name, entry) in servers {
                let mut found = found(client, name, entry, home);
                found.project = project.map(str::to_owned);
                reading.servers.push(found);
            }
            Ok(())
        }
        Some(_) => Err(Refused::NotAnObject(format!("`{}`", client.key))),
    };
    // Settings of VS Code held its servers once.
    let nested = top.get("mcp").and_then(|mcp| mcp.get("servers"));
    take(
        top.get(client.key)
            .or(nested.filter(|_| client.key == "servers")),
        None,
    )?;
    if client.id == "claude-code" {
        for (project, its) in top
            .get("projects")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            take(its.get(client.key), Some(project))?;
        }
    }
    if reading.servers.len() > MOST {
        return Err(Refused::Unsafe("it has more than a thousand servers"));
    }
    if client.format == Format::Json {
        let twice = json_text::twice(unmarked(text).0, client.key)?;
        reading.problems = twice
            .into_iter()
            .map(|name| format!("`{name}` is there twice; the last one counts"))
            .collect();
    }
    Ok(reading)
}

/// The client whose file this is, by its name, else by what is in it.
pub fn guess(path: &Path, text: &str) -> Option<&'static Client> {
    if let Some(client) = places::by_name(path)
        && let Ok(Value::Object(top)) = parse(client.format, text)
        && top.contains_key(client.key)
    {
        return Some(client);
    }
    for format in [Format::Json, Format::Toml, Format::Yaml] {
        let Ok(Value::Object(top)) = parse(format, text) else {
            continue;
        };
        let of_key = |c: &&Client| c.format == format && top.contains_key(c.key);
        let old = top
            .get("mcp")
            .is_some_and(|mcp| mcp.get("servers").is_some());
        let found = if old {
            client("vscode")
        } else {
            CLIENTS.iter().find(of_key)
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

fn found(client: &Client, name: &str, entry: &Value, home: &str) -> Found {
    let mut found = Found {
        name: name.to_owned(),
        project: None,
        is_ours: is_ours(entry),
        entry: Err(String::new()),
        asked: vec![],
        variables: vec![],
        remarks: vec![],
    };
    found.entry = match entry {
        Value::Object(members) => ours(client, members, entry, home, &mut found),
        _ => Err("it is not an object".into()),
    };
    found
}

fn ours(
    client: &Client,
    members: &Map<String, Value>,
    entry: &Value,
    home: &str,
    found: &mut Found,
) -> Result<Map<String, Value>, String> {
    let text = |key: &str| members.get(key).and_then(Value::as_str);
    let mut out = Map::new();
    let plain = |value: &str, found: &mut Found, what: &str| {
        let translated = translate(value, client.syntax, home);
        // Variables are read in values of `env` and `headers` alone.
        if translated.is_asked || !translated.variables.is_empty() {
            let message = format!("{what} reads a variable, which only `env` can here");
            found.remarks.push(message);
            return value.to_owned();
        }
        found.remarks.extend(translated.remarks);
        translated.text
    };
    let words = words(entry);
    match (words.split_first(), address(entry)) {
        (Some((command, args)), _) if !command.trim().is_empty() => {
            let command = plain(command, found, "the command");
            let args: Vec<String> = args
                .iter()
                .enumerate()
                .map(|(index, arg)| plain(arg, found, &format!("argument {}", index + 1)))
                .collect();
            out.insert("command".into(), command.into());
            out.insert("args".into(), args.into());
        }
        (_, Some(url)) => {
            let is_sse = text("type") == Some("sse")
                || (client.id == "gemini" && text("url").is_some() && text("type").is_none());
            out.insert("type".into(), json!(if is_sse { "sse" } else { "http" }));
            out.insert("url".into(), plain(url, found, "the address").into());
        }
        (_, None) => {
            return Err(match text("type").or(text("source")) {
                Some(kind) => format!("`{kind}` is something of {}'s own", client.name),
                None => "it has neither a command nor an address".into(),
            });
        }
    }
    values(client, entry, home, found, &mut out);
    if let Some(cwd) = text("cwd").filter(|cwd| !cwd.is_empty()) {
        let cwd = plain(cwd, found, "`cwd`");
        if !cwd.starts_with(['/', '$']) {
            let message = format!("`cwd` {cwd} is relative, here to the agent's workspace");
            found.remarks.push(message);
        }
        out.insert("cwd".into(), cwd.into());
    }
    limits(client, members, &mut out);
    let is_off = members.get("disabled") == Some(&Value::Bool(true))
        || members.get("enabled") == Some(&Value::Bool(false));
    if is_off {
        out.insert("enabled".into(), false.into());
    }
    for rule in RULES
        .iter()
        .filter(|rule| members.get(**rule).is_some_and(says_something))
    {
        let message = format!("`{rule}` is not taken over; `wharf tools` has the switches");
        found.remarks.push(message);
    }
    for file in ["envFile", "env_file"].iter().filter_map(|key| text(key)) {
        let message = format!("the variables in {file} are not taken over");
        found.remarks.push(message);
    }
    Ok(out)
}

fn says_something(rule: &Value) -> bool {
    match rule {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Array(items) => !items.is_empty() && items != &[json!("*")],
        Value::Number(_) | Value::String(_) | Value::Object(_) => true,
    }
}

/// Variables and headers.
fn values(
    client: &Client,
    entry: &Value,
    home: &str,
    found: &mut Found,
    out: &mut Map<String, Value>,
) {
    let mut read = |key: &str, value: &str, place: &str, secret: &str| {
        let Translated {
            text,
            is_asked,
            variables,
            remarks,
        } = translate(value, client.syntax, home);
        let remark = |remark| format!("{place} `{key}`: {remark}");
        found.remarks.extend(remarks.into_iter().map(remark));
        if client.syntax == Syntax::None && text.contains("${") {
            found.remarks.push(remark(format!(
                "`${{…}}` has a meaning here, and none in {}",
                client.name
            )));
        }
        if is_asked {
            found.asked.push(secret.to_owned());
            return format!("${{secret:{secret}}}");
        }
        for name in variables {
            if !found.variables.contains(&name) {
                found.variables.push(name);
            }
        }
        text
    };
    let mut env = Map::new();
    for (key, value) in pairs(entry, &["env", "environment", "envs"]) {
        let value = read(&key, &value, "variable", &key);
        env.insert(key, value.into());
    }
    let nested = entry.get("command").filter(|command| command.is_object());
    for (key, value) in nested
        .map(|nested| pairs(nested, &["env"]))
        .unwrap_or_default()
    {
        let value = read(&key, &value, "variable", &key);
        env.insert(key, value.into());
    }
    let mut headers = Map::new();
    for (key, value) in pairs(entry, &["headers", "http_headers"]) {
        let value = read(&key, &value, "header", &secret_of(&key));
        headers.insert(key, value.into());
    }
    let copied = |found: &mut Found, name: &str| {
        if !found.variables.iter().any(|known| known == name) {
            found.variables.push(name.to_owned());
        }
        format!("${{env:{name}}}")
    };
    // Codex: variables that are passed on, by name.
    for item in entry
        .get("env_vars")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let name = item.as_str().or_else(|| item.get("name")?.as_str());
        if let Some(name) = name {
            let value = copied(found, name);
            env.entry(name).or_insert_with(|| value.into());
        }
    }
    for (header, name) in pairs(entry, &["env_http_headers"]) {
        let value = copied(found, &name);
        headers.insert(header, value.into());
    }
    if let Some(name) = entry.get("bearer_token_env_var").and_then(Value::as_str) {
        let value = format!("Bearer {}", copied(found, name));
        headers.insert("Authorization".into(), value.into());
    }
    // Goose: variables in a keyring of its own.
    for key in entry
        .get("env_keys")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        if let Some(key) = key.as_str().filter(|key| !env.contains_key(*key)) {
            env.insert(key.to_owned(), format!("${{secret:{key}}}").into());
            found.asked.push(key.to_owned());
        }
    }
    for (key, values) in [("env", env), ("headers", headers)] {
        if !values.is_empty() {
            out.insert(key.into(), values.into());
        }
    }
}

/// The key under which the value of a header is kept.
pub(crate) fn secret_of(header: &str) -> String {
    header
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_uppercase()
            } else {
                '_'
            }
        })
        .collect()
}

/// Time limits, which clients count in seconds or milliseconds.
fn limits(client: &Client, members: &Map<String, Value>, out: &mut Map<String, Value>) {
    let seconds = |key: &str| {
        let value = members.get(key)?.as_f64()?;
        (value > 0.0 && value <= 1e9).then_some(value)
    };
    let whole = |value: f64| {
        if value.fract() == 0.0 {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "it is whole and at most a thousand million"
            )]
            let value = value as i64;
            json!(value)
        } else {
            json!(value)
        }
    };
    let call = match client.id {
        "codex" => seconds("tool_timeout_sec"),
        "goose" | "cline" | "cline-cli" => seconds("timeout"),
        "gemini" => seconds("timeout").map(|value| value / 1000.0),
        _ => None,
    };
    if let Some(value) = seconds("startup_timeout_sec") {
        out.insert("startupTimeoutSeconds".into(), whole(value));
    }
    if let Some(value) = call {
        out.insert("callTimeoutSeconds".into(), whole(value));
    }
}
