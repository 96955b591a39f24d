//! What works without a daemon, and what is said about that.

use insta::assert_snapshot;
use serde_json::json;

use crate::support::Wharf;

#[test]
fn a_good_configuration_is_checked_and_shown() {
    let wharf = Wharf::new();
    assert_snapshot!(wharf.run(&["config", "path"]), @"");
    assert_snapshot!(wharf.run(&["config", "check"]), @"");
    wharf.home.write(
        "config.json",
        "{\n  \"daemon\": {\n    \"listen\": \"127.0.0.1:9000\"\n  },\n  \"mcp\": {\"servers\": {\"git\": {\n    \"command\": \"uvx\",\n    \"args\": [\"mcp-server-git\"]\n  }}}\n}\n",
    );
    wharf.home.write_settings(&json!({"mcpServers": {"time": {
        "command": "uvx",
        "args": ["mcp-server-time", "--key=hunter2-hunter2"],
        "env": {"API_KEY": "hunter2-hunter2"},
        "idleTimeoutSeconds": 2.5,
    }}}));
    assert_snapshot!(wharf.run(&["config", "check"]), @"");
    let words = ["config", "show", "--changed"];
    let mut command = wharf.command(&words);
    command.env("Mcp__Servers__git__Args__1", "--verbose").env("PLAYWRIGHT_ENABLED", "true");
    let output = command.output().unwrap();
    assert_snapshot!(wharf.filter(&String::from_utf8(output.stdout).unwrap()), @"");
    let all = wharf.run(&["config", "show"]);
    assert!(all.contains("mcpServers.time.callTimeoutSeconds    120"), "{all}");
    assert!(!all.contains("hunter2"), "{all}");
    let json = wharf.json(&["config", "show"]);
    assert_eq!(json["values"][0]["key"], "daemon.listen");
    assert!(!json.to_string().contains("hunter2"));
}

#[test]
fn every_problem_is_told_at_once() {
    let wharf = Wharf::new();
    wharf.home.write_config(&json!({
        "daemon": {"lisen": "127.0.0.1:9000"},
        "mcp": {"servers": {"a": {"comand": "x"}}},
    }));
    wharf.home.write(
        "settings.json",
        "{\n  // mine\n  \"mcpServers\": {\n    \"b\": {\"command\": \"x\", \"enabled\": \"yes\"},\n    \"c\": {\"command\": \"x\", \"env\": {\"K\": \"${env:NOT_SET}\"}}\n  }\n}\n",
    );
    assert_snapshot!(wharf.run(&["config", "check"]), @"");
    assert_snapshot!(wharf.run(&["config", "check", "--json"]), @"");
    assert_snapshot!(wharf.run(&["up"]), @"");
    wharf.home.write("settings.json", "{\"mcpServers\": {");
    assert_snapshot!(wharf.run(&["up", "--background"]), @"");
}

#[test]
fn without_a_daemon_it_says_how_to_start_one() {
    let wharf = Wharf::new();
    assert_snapshot!(wharf.run(&["list"]), @"");
    for words in [&["status"] as &[&str], &["stop"], &["tools"], &["call", "a/b"], &["agent", "list"], &["logs", "-f"]] {
        let said = wharf.run(words);
        assert!(said.contains("hint: start one with `wharf up`\n[exit 3]"), "{said}");
    }
    assert_snapshot!(wharf.run(&["list", "--json"]), @"");
}

#[test]
fn wrong_usage_is_explained() {
    let wharf = Wharf::new();
    assert_snapshot!(wharf.run(&["add", "time"]), @"");
    assert_snapshot!(wharf.run(&["add", "--json", "{\"mcpServers\": "]), @"");
    assert_snapshot!(wharf.run(&["add", "{\"mcpServers\": {}}"]), @"");
    assert_snapshot!(wharf.run(&["add", "{\"a\": {\"args\": []}, \"b\": {\"command\": 5}}"]), @"");
    assert_snapshot!(wharf.run(&["call", "a/b", "--args", "[1]"]), @"");
    assert_snapshot!(wharf.run(&["call", "a/b", "message"]), @"");
    assert_snapshot!(wharf.run(&["mcp", "start", "a"]), @"");
    assert_snapshot!(wharf.run(&["up", "--log", "loud"]), @"");
    assert_snapshot!(wharf.run(&["lst"]), @"");
}
