//! What is read of files, as tables.

use serde_json::{Value, json};

use super::{http, named, stdio};
use crate::clients::{CLIENTS, Client, Format, connect, guess, is_ours, read};

#[track_caller]
fn check(id: &str, entry: &Value, expect: &Value) {
    let client = named(id);
    let text = json!({client.key: {"s": entry}}).to_string();
    // What a file of another format would say is checked on its tree.
    let json_client = Client {
        format: Format::Json,
        ..*client
    };
    let reading = read(&json_client, &text, "/home/me").unwrap();
    let [found] = reading.servers.as_slice() else {
        panic!("{reading:?}")
    };
    let entry = found
        .entry
        .clone()
        .map_or_else(|why| json!({"refused": why}), Value::Object);
    let mut got = json!({"entry": entry});
    for (key, list) in [
        ("asked", &found.asked),
        ("variables", &found.variables),
        ("remarks", &found.remarks),
    ] {
        if !list.is_empty() {
            got[key] = json!(list);
        }
    }
    assert_eq!(&got, expect, "{id}");
}

#[test]
fn entries_of_clients_that_write_alike_become_ours() {
    check(
        "claude-code",
        &json!({"type": "stdio", "command": "npx", "args": ["-y", 1], "env": {"A": "${B:-c}", "N": 3}}),
        &json!({
            "entry": {"command": "npx", "args": ["-y", "1"], "env": {"A": "${env:B}", "N": "3"}},
            "variables": ["B"],
            "remarks": ["variable `A`: the default of `B` is not taken over"],
        }),
    );
    check(
        "vscode",
        &json!({"type": "http", "url": "https://h/mcp", "headers": {"X-Api-Key": "k-${input:key}"}, "envFile": ".env"}),
        &json!({
            "entry": {"type": "http", "url": "https://h/mcp", "headers": {"X-Api-Key": "${secret:X_API_KEY}"}},
            "asked": ["X_API_KEY"],
            "remarks": ["the variables in .env are not taken over"],
        }),
    );
    check(
        "cursor",
        &json!({"command": "${workspaceFolder}/run", "args": ["${env:X}"], "disabled": true}),
        &json!({
            "entry": {"command": "${workspace}/run", "args": ["${env:X}"], "enabled": false},
            "remarks": [
                "`${workspaceFolder}` becomes the agent's workspace",
                "argument 1 reads a variable, which only `env` can here",
            ],
        }),
    );
    check(
        "gemini",
        &json!({"url": "https://h/sse", "timeout": 1500, "trust": true, "includeTools": ["a"]}),
        &json!({
            "entry": {"type": "sse", "url": "https://h/sse", "callTimeoutSeconds": 1.5},
            "remarks": [
                "`includeTools` is not taken over; `wharf tools` has the switches",
                "`trust` is not taken over; `wharf tools` has the switches",
            ],
        }),
    );
    check(
        "gemini",
        &json!({"httpUrl": "https://h", "headers": {"A": "Bearer $T"}}),
        &json!({
            "entry": {"type": "http", "url": "https://h", "headers": {"A": "Bearer ${env:T}"}},
            "variables": ["T"],
        }),
    );
    check(
        "windsurf",
        &json!({"serverUrl": "https://h"}),
        &json!({"entry": {"type": "http", "url": "https://h"}}),
    );
    check(
        "claude-desktop",
        &json!({"command": "x", "cwd": "sub", "env": {"A": "${env:HOME}"}}),
        &json!({
            "entry": {"command": "x", "args": [], "env": {"A": "${env:HOME}"}, "cwd": "sub"},
            "remarks": [
                "variable `A`: `${…}` has a meaning here, and none in Claude Desktop",
                "`cwd` sub is relative, here to the agent's workspace",
            ],
        }),
    );
    check(
        "cursor",
        &json!([]),
        &json!({"entry": {"refused": "it is not an object"}}),
    );
    check(
        "cursor",
        &json!({}),
        &json!({"entry": {"refused": "it has neither a command nor an address"}}),
    );
}

#[test]
fn entries_of_clients_with_ways_of_their_own_become_ours() {
    check(
        "codex",
        &json!({"command": "x", "env_vars": ["A", {"name": "B"}], "startup_timeout_sec": 20, "tool_timeout_sec": 2.5, "enabled": false}),
        &json!({
            "entry": {"command": "x", "args": [], "env": {"A": "${env:A}", "B": "${env:B}"},
                "startupTimeoutSeconds": 20, "callTimeoutSeconds": 2.5, "enabled": false},
            "variables": ["A", "B"],
        }),
    );
    check(
        "codex",
        &json!({"url": "https://h", "bearer_token_env_var": "T", "env_http_headers": {"X": "Y"}}),
        &json!({
            "entry": {"type": "http", "url": "https://h", "headers": {"X": "${env:Y}", "Authorization": "Bearer ${env:T}"}},
            "variables": ["Y", "T"],
        }),
    );
    check(
        "zed",
        &json!({"source": "custom", "command": {"path": "p", "args": ["a"], "env": {"K": "v"}}}),
        &json!({"entry": {"command": "p", "args": ["a"], "env": {"K": "v"}}}),
    );
    check(
        "zed",
        &json!({"source": "extension", "settings": {}}),
        &json!({"entry": {"refused": "`extension` is something of Zed's own"}}),
    );
    check(
        "goose",
        &json!({"type": "stdio", "cmd": "x", "args": [], "envs": {"A": "b"}, "env_keys": ["K", "A"], "timeout": 300}),
        &json!({
            "entry": {"command": "x", "args": [], "env": {"A": "b", "K": "${secret:K}"}, "callTimeoutSeconds": 300},
            "asked": ["K"],
        }),
    );
    check(
        "goose",
        &json!({"type": "builtin", "name": "developer", "enabled": true}),
        &json!({"entry": {"refused": "`builtin` is something of Goose's own"}}),
    );
    check(
        "opencode",
        &json!({"type": "local", "command": ["x", "y"], "environment": {"A": "{env:B}", "C": "{file:k}"}, "enabled": true}),
        &json!({
            "entry": {"command": "x", "args": ["y"], "env": {"A": "${env:B}", "C": "${secret:C}"}},
            "asked": ["C"],
            "variables": ["B"],
        }),
    );
}

#[test]
fn servers_of_projects_and_names_that_are_there_twice_are_seen() {
    let text = r#"{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}},
        "projects": {"/p": {"mcpServers": {"b": {"command": "z"}}}, "/q": {}}}"#;
    let reading = read(named("claude-code"), text, "").unwrap();
    let seen: Vec<_> = reading
        .servers
        .iter()
        .map(|s| (s.name.as_str(), s.project.as_deref()))
        .collect();
    assert_eq!(seen, [("a", None), ("b", Some("/p"))]);
    assert_eq!(reading.servers[0].entry.as_ref().unwrap()["command"], "y");
    assert_eq!(
        reading.problems,
        ["`a` is there twice; the last one counts"]
    );
}

#[test]
fn our_own_entry_is_known_in_every_shape() {
    for client in CLIENTS {
        for endpoint in [stdio(), http()] {
            let text = connect(client, "", &endpoint).unwrap().text;
            let reading = read(client, &text, "").unwrap();
            assert!(
                reading.has_ours() && reading.others() == 0,
                "{} {text}",
                client.id
            );
        }
    }
    for not in [
        json!({"command": "/x/wharfie", "args": ["stdio"]}),
        json!({"command": "wharf", "args": ["up"]}),
        json!({"url": "https://example.com/agents/a/mcp"}),
        json!({"url": "http://127.0.0.1:1/mcp"}),
    ] {
        assert!(!is_ours(&not), "{not}");
    }
}

#[test]
fn a_file_is_known_by_its_name_or_by_what_is_in_it() {
    let check = |path: &str, text: &str, expect: Option<&str>| {
        assert_eq!(
            guess(path.as_ref(), text).map(|client| client.id),
            expect,
            "{path}"
        );
    };
    check(
        "/h/.cursor/mcp.json",
        "{\"mcpServers\": {}}",
        Some("cursor"),
    );
    check("/x/mcp.json", "{\"servers\": {}}", Some("vscode"));
    check(
        "/x/settings.json",
        "{\"mcp\": {\"servers\": {}}}",
        Some("vscode"),
    );
    check("/x/settings.json", "{\"mcp\": {}}", Some("opencode"));
    check("/x/any", "{\"mcpServers\": {}}", Some("claude-code"));
    check("/x/any", "[mcp_servers.a]\n", Some("codex"));
    check("/x/any", "extensions:\n  a: {}\n", Some("goose"));
    check("/h/.cursor/mcp.json", "{\"servers\": {}}", Some("vscode"));
    check("/x/any", "{}", None);
}
