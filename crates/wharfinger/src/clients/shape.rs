//! How an entry looks in each client's file: what we write, and where everybody's entries keep their parts.

use serde_json::{Map, Value, json};

use super::NAME;

/// The ways in which clients write an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `command`, `args`; over HTTP `type: "http"`, `url`.
    Typed,
    /// The same with `type: "stdio"` written out.
    Stdio,
    /// `command`, `args` alone; it has no HTTP of its own.
    CommandOnly,
    /// `command`, `args`; over HTTP `url` alone.
    Url,
    /// `command`, `args`; over HTTP `serverUrl`.
    ServerUrl,
    /// Codex: `command`, `args`; over HTTP `url`, `http_headers`.
    Codex,
    /// Zed: with `source: "custom"`.
    Zed,
    /// Goose: `cmd`, `args`; over HTTP `uri`.
    Goose,
    /// opencode: one list for program and arguments.
    OpenCode,
    /// Cline: over HTTP `type: "streamableHttp"`.
    Cline,
    /// Copilot CLI: `type` and the list of tools.
    Copilot,
}

/// Where our entry leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A command that the client starts.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
    },
    /// An address with a token.
    Http {
        /// The address.
        url: String,
        /// Sent as `Authorization: Bearer`.
        token: String,
    },
}

/// Our entry. `None` of the shapes needs more than what is written here.
pub(super) fn entry(shape: Shape, endpoint: &Endpoint) -> Value {
    match endpoint {
        Endpoint::Stdio { command, args } => stdio(shape, command, args),
        Endpoint::Http { url, token } => http(shape, url, &format!("Bearer {token}")),
    }
}

fn stdio(shape: Shape, command: &str, args: &[String]) -> Value {
    match shape {
        Shape::Typed | Shape::CommandOnly | Shape::Url | Shape::ServerUrl | Shape::Codex => {
            json!({"command": command, "args": args})
        }
        Shape::Stdio => json!({"type": "stdio", "command": command, "args": args}),
        Shape::Zed => json!({"source": "custom", "command": command, "args": args, "env": {}}),
        Shape::Goose => json!({
            "name": NAME, "description": "", "type": "stdio", "cmd": command, "args": args,
            "enabled": true, "timeout": 300,
        }),
        Shape::OpenCode => {
            let words: Vec<&str> = std::iter::once(command)
                .chain(args.iter().map(String::as_str))
                .collect();
            json!({"type": "local", "command": words, "enabled": true})
        }
        Shape::Cline => json!({"command": command, "args": args, "disabled": false}),
        Shape::Copilot => {
            json!({"type": "stdio", "command": command, "args": args, "tools": ["*"]})
        }
    }
}

fn http(shape: Shape, url: &str, bearer: &str) -> Value {
    let headers = json!({"Authorization": bearer});
    match shape {
        Shape::Typed | Shape::Stdio => json!({"type": "http", "url": url, "headers": headers}),
        // A bridge that speaks stdio: the header is given in a variable, since arguments show in lists of processes.
        Shape::CommandOnly => json!({
            "command": "npx",
            "args": ["-y", "mcp-remote", url, "--header", "Authorization:${WHARF_AUTHORIZATION}"],
            "env": {"WHARF_AUTHORIZATION": bearer},
        }),
        Shape::Url => json!({"url": url, "headers": headers}),
        Shape::ServerUrl => json!({"serverUrl": url, "headers": headers}),
        Shape::Codex => json!({"url": url, "http_headers": headers}),
        Shape::Zed => {
            json!({"source": "custom", "type": "http", "url": url, "headers": headers})
        }
        Shape::Goose => json!({
            "name": NAME, "description": "", "type": "streamable_http", "uri": url,
            "headers": headers, "enabled": true, "timeout": 300,
        }),
        Shape::OpenCode => {
            json!({"type": "remote", "url": url, "headers": headers, "enabled": true})
        }
        Shape::Cline => {
            json!({"type": "streamableHttp", "url": url, "headers": headers, "disabled": false})
        }
        Shape::Copilot => {
            json!({"type": "http", "url": url, "headers": headers, "tools": ["*"]})
        }
    }
}

/// Program and arguments, wherever a client keeps them; empty where it has none.
pub(super) fn words(entry: &Value) -> Vec<String> {
    let list = |value: &Value| -> Vec<String> {
        let items = value.as_array().into_iter().flatten();
        items.filter_map(word).collect()
    };
    let command = entry.get("command").or_else(|| entry.get("cmd"));
    let mut words = match command {
        Some(Value::String(program)) => vec![program.clone()],
        Some(Value::Array(_)) => list(&entry["command"]),
        // As Zed wrote it once.
        Some(Value::Object(nested)) => {
            let program = nested
                .get("path")
                .and_then(Value::as_str)
                .map(str::to_owned);
            let args = nested.get("args").map(list).unwrap_or_default();
            return program.into_iter().chain(args).collect();
        }
        Some(_) | None => return vec![],
    };
    words.extend(entry.get("args").map(list).unwrap_or_default());
    words
}

/// Ports and flags are commonly written bare.
fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The address of a remote server.
pub(super) fn address(entry: &Value) -> Option<&str> {
    ["url", "serverUrl", "httpUrl", "uri"]
        .iter()
        .find_map(|key| entry.get(*key)?.as_str())
}

/// Members of an object of strings, wherever a client keeps it.
pub(super) fn pairs(entry: &Value, keys: &[&str]) -> Vec<(String, String)> {
    let objects = keys.iter().filter_map(|key| entry.get(*key)?.as_object());
    let members = objects.flat_map(Map::iter);
    members
        .filter_map(|(key, value)| Some((key.clone(), word(value)?)))
        .collect()
}
