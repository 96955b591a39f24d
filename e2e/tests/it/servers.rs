//! Real servers: added, listed, called, stopped without a trace.

use std::process::Command;

use serde_json::{Value, json};

use crate::daemon::{Daemon, exposed};
use crate::installed;

/// What one server is expected to do.
struct Case<'a> {
    name: &'a str,
    command: &'a [&'a str],
    environment: Value,
    /// How many tools it has, where that is known; what we declare to it changes some.
    tools: Option<usize>,
    tool: &'a str,
    arguments: Value,
}

impl Case<'_> {
    /// Adds the server, lists its tools, calls one, stops. Returns the text of the result.
    #[track_caller]
    fn run(self) -> String {
        let daemon = Daemon::start();
        daemon.add(self.name, &self.environment, self.command);
        daemon.wait_for_tool(self.tool);
        let mut session = daemon.session();
        let names = session.tool_names();
        if let Some(count) = self.tools {
            assert_eq!(names.len(), count, "{names:?}");
        }
        let tool = exposed(&names, self.tool).expect("it was there a moment ago");
        let reply = session.call(&tool, &self.arguments);
        let text = reply["result"]["content"][0]["text"].as_str();
        let text = text
            .unwrap_or_else(|| panic!("no text in {reply}"))
            .to_owned();
        daemon.stop();
        text
    }
}

#[test]
fn everything() {
    let Some(server) = installed::npm("reference", "mcp-server-everything") else {
        return;
    };
    let text = Case {
        name: "everything",
        command: &[&server.to_string_lossy()],
        environment: json!({}),
        tools: None,
        tool: "echo",
        arguments: json!({"message": "hi"}),
    }
    .run();
    assert_eq!(text, "Echo: hi");
}

#[test]
fn filesystem() {
    let Some(server) = installed::npm("reference", "mcp-server-filesystem") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("note.txt");
    std::fs::write(&file, "kept on the quay\n").unwrap();
    let text = Case {
        name: "files",
        command: &[&server.to_string_lossy(), &folder.path().to_string_lossy()],
        environment: json!({}),
        tools: Some(14),
        tool: "read_text_file",
        arguments: json!({"path": file}),
    }
    .run();
    assert_eq!(text, "kept on the quay\n");
}

#[test]
fn memory() {
    let Some(server) = installed::npm("reference", "mcp-server-memory") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("memory.jsonl");
    let quay = json!({"name": "quay", "entityType": "place", "observations": ["it is long"]});
    let text = Case {
        name: "memory",
        command: &[&server.to_string_lossy()],
        environment: json!({"MEMORY_FILE_PATH": file}),
        tools: Some(9),
        tool: "create_entities",
        arguments: json!({"entities": [quay]}),
    }
    .run();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), json!([quay]));
    assert!(
        std::fs::read_to_string(file)
            .unwrap()
            .contains("it is long")
    );
}

#[test]
fn time() {
    let Some(server) = installed::pypi("servers", "mcp-server-time") else {
        return;
    };
    let text = Case {
        name: "time",
        command: &[&server.to_string_lossy()],
        environment: json!({}),
        tools: Some(2),
        tool: "get_current_time",
        arguments: json!({"timezone": "UTC"}),
    }
    .run();
    assert_eq!(
        serde_json::from_str::<Value>(&text).unwrap()["timezone"],
        "UTC"
    );
}

#[test]
fn git() {
    let Some(server) = installed::pypi("servers", "mcp-server-git") else {
        return;
    };
    let Some(git) = installed::git() else { return };
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new(git)
        .args(["init", "--quiet", "--initial-branch=quay"])
        .current_dir(folder.path())
        .status()
        .unwrap();
    assert!(made.success());
    let text = Case {
        name: "git",
        command: &[
            &server.to_string_lossy(),
            "--repository",
            &folder.path().to_string_lossy(),
        ],
        environment: json!({}),
        tools: Some(12),
        tool: "git_status",
        arguments: json!({"repo_path": folder.path()}),
    }
    .run();
    assert!(text.contains("On branch quay"), "{text}");
}

/// Reports a failure as an ordinary result; speaks both eras.
#[test]
fn context7() {
    let Some(server) = installed::npm("context7", "context7-mcp") else {
        return;
    };
    let text = Case {
        name: "context7",
        command: &[&server.to_string_lossy()],
        environment: json!({}),
        tools: Some(2),
        tool: "resolve-library-id",
        arguments: json!({"libraryName": "tokio", "query": "spawn a task"}),
    }
    .run();
    assert!(!text.is_empty());
}

/// Writes plain text to its standard output, at start and during each call.
#[test]
fn code_runner() {
    let Some(server) = installed::npm("code-runner", "mcp-server-code-runner") else {
        return;
    };
    let text = Case {
        name: "code",
        command: &[&server.to_string_lossy()],
        environment: json!({}),
        tools: Some(1),
        tool: "run-code",
        arguments: json!({"code": "console.log(6 * 7)", "languageId": "javascript"}),
    }
    .run();
    assert_eq!(text, "42\n");
}

/// Lists 188 tools in a single line of a megabyte.
#[test]
fn ms_365() {
    let Some(server) = installed::npm("ms-365", "ms-365-mcp-server") else {
        return;
    };
    let text = Case {
        name: "office",
        command: &[&server.to_string_lossy()],
        environment: json!({}),
        tools: Some(188),
        tool: "verify-login",
        arguments: json!({}),
    }
    .run();
    assert_eq!(
        serde_json::from_str::<Value>(&text).unwrap()["success"],
        false
    );
}

#[test]
fn several_at_once() {
    let Some(everything) = installed::npm("reference", "mcp-server-everything") else {
        return;
    };
    let Some(time) = installed::pypi("servers", "mcp-server-time") else {
        return;
    };
    let daemon = Daemon::start();
    daemon.add("everything", &json!({}), &[&everything.to_string_lossy()]);
    daemon.add("time", &json!({}), &[&time.to_string_lossy()]);
    let echo = daemon.wait_for_tool("echo");
    let clock = daemon.wait_for_tool("get_current_time");
    let mut session = daemon.session();
    let reply = session.call(&echo, &json!({"message": "both"}));
    assert_eq!(reply["result"]["content"][0]["text"], "Echo: both");
    let reply = session.call(&clock, &json!({"timezone": "UTC"}));
    assert_eq!(reply["result"]["structuredContent"]["timezone"], "UTC");
    daemon.stop();
}

#[test]
fn a_call_from_the_command_line() {
    let Some(server) = installed::npm("reference", "mcp-server-everything") else {
        return;
    };
    let (daemon, _) = Daemon::with_server("everything", &[&server.to_string_lossy()], "echo");
    let tools = daemon.wharf(&["tools", "--json"]).json();
    assert!(tools.to_string().contains("\"echo\""), "{tools}");
    let result = daemon
        .wharf(&["call", "everything/echo", "message=hi", "--json"])
        .json();
    assert_eq!(
        result["content"],
        json!([{"type": "text", "text": "Echo: hi"}])
    );
    let status = daemon.wharf(&["list", "--json"]).json();
    assert!(status.to_string().contains("everything"), "{status}");
    daemon.stop();
}

#[test]
fn a_newcomer_sees_tools_and_calls_one() {
    if installed::warm("npx").is_none() {
        return;
    }
    let daemon = Daemon::start_with(&["--try"]);
    daemon.wait_for_tool("get-sum");
    let result = daemon
        .wharf(&["call", "everything/get-sum", "a=2", "b=3", "--json"])
        .json();
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    assert!(text.contains('5'), "{result}");
    // For this run alone.
    assert!(!daemon.home().join("settings.json").exists());
    daemon.stop();
}

#[test]
fn a_block_of_a_readme_is_taken_as_it_is() {
    let Some(server) = installed::npm("reference", "mcp-server-filesystem") else {
        return;
    };
    let daemon = Daemon::start();
    let folder = daemon.home().join("files");
    std::fs::create_dir_all(&folder).unwrap();
    let block = json!({"mcpServers": {"My Files": {
        "type": "stdio",
        "command": server,
        "args": [&folder],
        "env": {"LOG": "1"},
        "autoApprove": ["read_file"],
    }}});
    daemon.wharf(&["add", "--json", &block.to_string()]);
    let tool = daemon.wait_for_tool("list_directory");
    let reply = daemon.session().call(&tool, &json!({"path": folder}));
    assert_eq!(reply["result"]["isError"], json!(null), "{reply}");
    let settings = std::fs::read_to_string(daemon.home().join("settings.json")).unwrap();
    let settings: serde_json::Value = serde_json::from_str(&settings).unwrap();
    assert_eq!(settings, block, "every member as it was pasted");
    daemon.stop();
}
