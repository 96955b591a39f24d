//! Agents that are not fully trusted, with real clients: what they may call, and how a person allows it.

use std::path::Path;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use wharfinger_testkit::{Home, fake_server, wait_for, wait_within};

use crate::clients::{ask_claude, entries};
use crate::daemon::Daemon;
use crate::installed;
use crate::program::{StandIn, program, run};

const MESSAGE: &str = r#"{"message":"hi"}"#;

/// A daemon with the agent `bot` of the agent profile, to which a server is attached.
fn bot(daemon: &Value, server: &str, command: &[&str]) -> Daemon {
    let home = Home::new();
    home.write_config(&json!({ "daemon": daemon }));
    let daemon = Daemon::start_in(home, &[], &[]);
    daemon.add(server, &json!({}), command);
    daemon.wharf(&["agent", "new", "bot", "--profile", "agent"]);
    daemon.wharf(&["agent", "attach", "bot", server]);
    daemon
}

/// The same with the fake server `fake`; what that gets is in the file `record`.
fn fake_bot(daemon: &Value) -> (Home, Daemon) {
    let beside = Home::new();
    let record = format!("record={}", beside.file("record").display());
    let server = fake_server().display().to_string();
    (beside, bot(daemon, "fake", &[&server, &record]))
}

fn calls(beside: &Home) -> usize {
    let lines = beside.lines("record");
    let calls = lines.iter().filter(|line| line.contains("\"tools/call\""));
    calls.count()
}

/// The tools of servers that the agent has, as its owner sees them.
fn tools(daemon: &Daemon) -> Vec<Value> {
    let all = daemon.wharf(&["tools", "list", "--agent", "bot", "--json"]);
    let all = all.json()["tools"].as_array().unwrap().clone();
    let of_servers = all.into_iter().filter(|tool| tool["server"].is_string());
    of_servers.collect()
}

/// Clients are slow to start, slower still on a busy machine.
const LIMIT: Duration = Duration::from_secs(90);

/// The one approval there is, as soon as it is in this stage and its caller like this.
#[track_caller]
fn until(daemon: &Daemon, stage: &str, caller: &str) -> Value {
    let mut found = None;
    wait_within(LIMIT, &format!("an approval {stage}, {caller}"), || {
        let all = daemon.wharf(&["approvals", "--all", "--json"]).json();
        let all = all.as_array().unwrap();
        assert!(all.len() <= 1, "{all:?}");
        let is_it = |one: &&Value| one["stage"] == stage && one["caller"] == caller;
        found = all.iter().find(is_it).cloned();
        found.is_some()
    });
    found.unwrap()
}

fn id(approval: &Value) -> &str {
    approval["id"].as_str().unwrap()
}

fn assert_journal_holds(daemon: &Daemon) {
    let verified = daemon.wharf(&["journal", "verify", "--json"]).json();
    assert_eq!(verified["broken"], Value::Null, "{verified}");
}

/// The latest result of each request to the model that had one.
fn results(log: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    // The last line may be on its way.
    let requests = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    requests
        .filter_map(|request| {
            let results = request["results"].as_array()?.iter();
            let mut own = results.filter(|result| result["tool_use_id"] != "toolu_wait");
            own.next_back().cloned()
        })
        .collect()
}

#[test]
fn a144_a150_a223_a228_what_a_model_calls_waits_for_the_command_line() {
    let (Some(claude), Some(server)) = (
        installed::npm("claude", "claude"),
        installed::npm("reference", "mcp-server-everything"),
    ) else {
        return;
    };
    let daemon = bot(&json!({}), "everything", &[&server.to_string_lossy()]);
    let tools = tools(&daemon);
    assert!(tools.len() > 5, "{tools:?}");
    for tool in &tools {
        let name = tool["name"].as_str().unwrap();
        assert!(name.starts_with("mcp_everything_"), "{name}");
        let flags = ["enabled", "visible", "restricted"].map(|flag| tool[flag] == true);
        assert_eq!(
            (flags, &tool["status"]),
            ([true; 3], &json!("new")),
            "{name}"
        );
    }
    let tool = "mcp__wharf__mcp_everything_echo";
    for entry in entries(&daemon.endpoint_of("bot")) {
        let home = tempfile::tempdir().unwrap();
        let log = home.path().join("log");
        let more = ["--calls", "2", "--log", &log.to_string_lossy()];
        let model = StandIn::start_with("fake_anthropic.py", tool, MESSAGE, home.path(), &more);
        let mut command = ask_claude(&claude, home.path(), &model, &entry, tool);
        let asking = thread::spawn(move || run(&mut command));
        let first = until(&daemon, "pending_approval", "waiting");
        assert_eq!(first["tool"], "echo");
        assert_eq!(first["arguments"], json!({"message": "hi"}));
        assert_eq!(results(&log), Vec::<Value>::new(), "it waits");
        daemon.wharf(&["approve", id(&first)]);
        // One yes is one call.
        let second = wait_for("a second approval", || {
            let open = until(&daemon, "pending_approval", "waiting");
            (open["id"] != first["id"]).then_some(open)
        });
        let result = results(&log).remove(0);
        assert!(result.to_string().contains("Echo: hi"), "{result}");
        assert_ne!(result["is_error"], true, "{result}");
        daemon.wharf(&["deny", id(&second), "--reason", "once is enough"]);
        let said = asking.join().unwrap();
        assert!(
            said.stdout.contains("Echo: hi") && said.stdout.contains("once is enough"),
            "{said:#?}"
        );
        let result = results(&log).pop().unwrap();
        assert_eq!(result["is_error"], true, "{result}");
        assert!(result.to_string().contains("once is enough"), "{result}");
    }
    assert_journal_holds(&daemon);
    daemon.stop();
}

#[test]
fn a_model_that_is_told_to_call_again_gets_what_was_done_once() {
    let Some(claude) = installed::npm("claude", "claude") else {
        return;
    };
    let (beside, daemon) = fake_bot(&json!({ "approvalPatienceSeconds": 0.5 }));
    let tool = "mcp__wharf__mcp_fake_echo";
    for (nth, entry) in entries(&daemon.endpoint_of("bot")).iter().enumerate() {
        let home = tempfile::tempdir().unwrap();
        let (log, gate) = (home.path().join("log"), home.path().join("gate"));
        let more = [
            "--calls",
            "2",
            "--log",
            &log.to_string_lossy(),
            "--gate",
            &gate.to_string_lossy(),
        ];
        let model = StandIn::start_with("fake_anthropic.py", tool, MESSAGE, home.path(), &more);
        let mut command = ask_claude(&claude, home.path(), &model, entry, tool);
        let asking = thread::spawn(move || run(&mut command));
        wait_within(LIMIT, "the model to be told", || results(&log).len() == 1);
        let told = results(&log).remove(0);
        assert_ne!(told["is_error"], true, "{told}");
        let open = until(&daemon, "pending_approval", "told");
        let words = told.to_string();
        assert!(words.contains(id(&open)), "{words}");
        assert!(words.contains("again with the same arguments"), "{words}");
        assert_eq!(calls(&beside), nth);
        daemon.wharf(&["approve", id(&open)]);
        until(&daemon, "completed", "told");
        std::fs::write(&gate, "").unwrap();
        let said = asking.join().unwrap();
        let result = results(&log).pop().unwrap();
        assert_ne!(result["is_error"], true, "{result}");
        assert!(result["content"].to_string().contains("hi"), "{result}");
        assert!(said.stdout.contains("RESULT: "), "{said:#?}");
        assert_eq!(calls(&beside), nth + 1, "it was made once");
        let left = daemon.wharf(&["approvals", "--all", "--json"]).json();
        assert_eq!(left, json!([]));
    }
    assert_journal_holds(&daemon);
    daemon.stop();
}

/// How the Python SDK connects, and what it speaks then.
const WAYS: [(&str, bool); 4] = [
    ("legacy", false),
    ("legacy", true),
    ("2026-07-28", false),
    ("2026-07-28", true),
];

/// The Python SDK as a client that calls a tool; its answer is JSON.
fn python(
    daemon: &Daemon,
    python: &Path,
    (mode, stdio): (&str, bool),
    more: &[&str],
) -> std::process::Command {
    let endpoint = daemon.endpoint_of("bot");
    let mut command = program(python, daemon.home());
    command.arg(installed::script("python_client.py"));
    command.args(["--mode", mode, "--call", "mcp_fake_echo", MESSAGE]);
    command.args(more);
    if stdio {
        command
            .args(["--stdio", "--", &endpoint.command])
            .args(&endpoint.arguments);
    } else {
        command.args(["--url", &endpoint.url, "--token", &endpoint.token]);
    }
    command
}

#[test]
fn whoever_sits_at_the_python_client_approves_where_the_owner_allows_it() {
    let Some(sdk) = installed::pypi("mcp", "python") else {
        return;
    };
    let (beside, daemon) = fake_bot(&json!({}));
    let yes = ["--answer", r#"{"decision":"approve"}"#];
    let no = ["--answer", r#"{"decision":"deny","reason":"not by me"}"#];
    for way in WAYS {
        // Not unless it is allowed: another door decides.
        daemon.wharf(&["agent", "set", "bot", "--ask-client", "off"]);
        let mut command = python(&daemon, &sdk, way, &yes);
        let asking = thread::spawn(move || run(&mut command).json());
        let open = until(&daemon, "pending_approval", "waiting");
        daemon.wharf(&["deny", id(&open), "--reason", "mine to say"]);
        let answer = asking.join().unwrap();
        assert_eq!(answer["asked"], json!([]), "{way:?} {answer}");
        assert!(
            answer["result"].to_string().contains("mine to say"),
            "{answer}"
        );

        daemon.wharf(&["agent", "set", "bot", "--ask-client", "on"]);
        let before = calls(&beside);
        let answer = run(&mut python(&daemon, &sdk, way, &no)).json();
        assert_eq!(answer["result"]["isError"], true, "{way:?} {answer}");
        assert!(
            answer["result"].to_string().contains("not by me"),
            "{answer}"
        );
        assert_eq!(calls(&beside), before);
        let answer = run(&mut python(&daemon, &sdk, way, &yes)).json();
        assert_eq!(
            answer["result"]["content"][0]["text"], "hi",
            "{way:?} {answer}"
        );
        let asked = answer["asked"].as_array().unwrap();
        assert_eq!(asked.len(), 1, "{way:?} {answer}");
        let words = asked[0].as_str().unwrap();
        assert!(
            words.contains("mcp_fake_echo") && words.contains(r#"{"message":"hi"}"#),
            "{words}"
        );
        assert_eq!(calls(&beside), before + 1);
    }
    assert_journal_holds(&daemon);
    daemon.stop();
}

#[test]
fn a196_p8_clients_of_either_era_by_either_way_and_the_command_line_meet_one_gate() {
    let Some(sdk) = installed::pypi("mcp", "python") else {
        return;
    };
    // Clients of 2026-07-28 come back by themselves.
    let (beside, daemon) = fake_bot(&json!({ "approvalPatienceSeconds": 2 }));
    let mut seen = vec![];
    for (nth, way) in WAYS.into_iter().enumerate() {
        let mut command = python(&daemon, &sdk, way, &[]);
        let asking = thread::spawn(move || run(&mut command).json());
        let modern = way.0 != "legacy";
        let caller = if modern { "told" } else { "waiting" };
        let open = until(&daemon, "pending_approval", caller);
        assert_eq!(calls(&beside), nth);
        daemon.wharf(&["approve", id(&open)]);
        let answer = asking.join().unwrap();
        assert_eq!(
            answer["result"]["content"][0]["text"], "hi",
            "{way:?} {answer}"
        );
        assert_eq!(calls(&beside), nth + 1);
        let names = answer["tools"].as_array().unwrap().iter();
        seen.push(
            names
                .map(|name| name.as_str().unwrap().to_owned())
                .collect::<Vec<_>>(),
        );
    }
    let list = daemon.wharf(&["tools", "--agent", "bot", "--json"]).json();
    let names = list["tools"].as_array().unwrap().iter();
    seen.push(
        names
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect(),
    );
    assert_eq!(seen[0].len(), 5);
    assert!(seen.iter().all(|names| *names == seen[0]), "{seen:?}");
    let home = daemon.home().to_owned();
    let calling = thread::spawn(move || {
        let words = ["call", "mcp_fake_echo", "message=hi", "--agent", "bot"];
        run(crate::daemon::wharf(&home).args(words)).stdout
    });
    let open = until(&daemon, "pending_approval", "waiting");
    assert_eq!(calls(&beside), 4);
    daemon.wharf(&["approve", id(&open)]);
    assert_eq!(calling.join().unwrap(), "hi");
    assert_journal_holds(&daemon);
    daemon.stop();
}
