//! A real server, directly and through the endpoint: what it offers and answers is the same, whatever its client can do.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::daemon::Daemon;
use crate::installed;
use crate::program::program;

/// The server's own pipes.
struct Direct {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    requests: u64,
}

impl Direct {
    fn start(server: &str, folder: &std::path::Path, capabilities: &Value) -> Self {
        let mut command = program(server, folder);
        command.stdin(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let mut direct = Self {
            process,
            input,
            output,
            requests: 0,
        };
        let hello = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities,
            "clientInfo": {"name": "e2e", "version": "0"},
        });
        direct.request("initialize", &hello);
        direct.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        // What it does once it knows its client, it has done when this is answered.
        direct.request("ping", &json!({}));
        direct
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.input, "{message}").unwrap();
    }

    /// The reply; what the server asks meanwhile is declined.
    fn request(&mut self, method: &str, params: &Value) -> Value {
        self.requests += 1;
        let id = self.requests;
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let mut line = String::new();
            assert!(
                self.output.read_line(&mut line).unwrap() > 0,
                "it ended in {method}"
            );
            let message: Value = serde_json::from_str(&line).unwrap();
            if message.get("method").is_some() {
                if message.get("id").is_some() {
                    let error = json!({"code": -32603, "message": "not now"});
                    self.say(&json!({"jsonrpc": "2.0", "id": message["id"], "error": error}));
                }
            } else if message["id"] == id {
                return message;
            }
        }
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// What is asked of both; the names are those of the reference server.
fn questions() -> Vec<(&'static str, Value)> {
    vec![
        ("prompts/list", json!({})),
        ("resources/templates/list", json!({})),
        ("prompts/get", json!({"name": "simple-prompt"})),
        (
            "prompts/get",
            json!({"name": "args-prompt", "arguments": {"city": "Bremen"}}),
        ),
        ("prompts/get", json!({"name": "no-such-prompt"})),
        (
            "resources/read",
            json!({"uri": "demo://resource/dynamic/blob/x"}),
        ),
        (
            "completion/complete",
            json!({
                "ref": {"type": "ref/prompt", "name": "completable-prompt"},
                "argument": {"name": "department", "value": "S"},
            }),
        ),
        (
            "tools/call",
            json!({"name": "echo", "arguments": {"message": "é\u{1F600}"}}),
        ),
        (
            "tools/call",
            json!({"name": "get-sum", "arguments": {"a": 1, "b": 2.5}}),
        ),
        (
            "tools/call",
            json!({"name": "get-sum", "arguments": {"a": "x"}}),
        ),
        (
            "tools/call",
            json!({"name": "get-tiny-image", "arguments": {}}),
        ),
        (
            "tools/call",
            json!({"name": "get-structured-content", "arguments": {"location": "Chicago"}}),
        ),
        (
            "tools/call",
            json!({"name": "get-annotated-message", "arguments": {"messageType": "error"}}),
        ),
        (
            "tools/call",
            json!({"name": "get-resource-links", "arguments": {"count": 2}}),
        ),
    ]
}

#[test]
fn the_reference_server_is_the_same_through_the_endpoint() {
    let Some(server) = installed::npm("reference", "mcp-server-everything") else {
        return;
    };
    let server = server.to_string_lossy();
    let daemon = Daemon::start();
    daemon.add("everything", &json!({}), &[&server]);
    let mut counts = vec![];
    for capabilities in [
        json!({}),
        json!({"roots": {"listChanged": true}}),
        json!({"sampling": {}, "elicitation": {"form": {}, "url": {}}}),
        json!({
            "roots": {}, "sampling": {}, "elicitation": {},
            "tasks": {"requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}}},
        }),
    ] {
        let mut direct = Direct::start(&server, daemon.home(), &capabilities);
        let mut session = daemon.session_as(&capabilities);
        let tools = direct.request("tools/list", &json!({}))["result"]["tools"].clone();
        let seen = session.request("tools/list", &json!({}))["result"]["tools"].clone();
        let by_name = |tools: &Value| {
            let mut tools = tools.as_array().unwrap().clone();
            tools.sort_by_key(|tool| tool["name"].to_string());
            tools
        };
        assert_eq!(by_name(&seen), by_name(&tools), "{capabilities}");
        counts.push(by_name(&tools).len());
        for (method, params) in questions() {
            let ours = session.request(method, &params);
            let theirs = direct.request(method, &params);
            let told = format!("{capabilities} {method} {params}");
            if ours.get("error").is_some() || theirs.get("error").is_some() {
                assert_eq!(ours["error"]["code"], theirs["error"]["code"], "{told}");
            } else {
                assert_eq!(ours["result"], theirs["result"], "{told}");
            }
        }
        session.end();
    }
    assert!(counts.is_sorted() && counts[0] < counts[3], "{counts:?}");
    daemon.stop();
}
