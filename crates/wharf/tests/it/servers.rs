//! Servers, from `add` to `remove`.

use std::io::{BufRead as _, BufReader};

use insta::assert_snapshot;
use wharfinger_testkit::{fake_server, processes, wait_until};

use crate::support::Wharf;

fn fake() -> String {
    fake_server().display().to_string()
}

#[test]
fn a_server_is_added_listed_shown_and_removed() {
    let wharf = Wharf::new();
    let _daemon = wharf.up();
    let fake = fake();
    let words = ["add", "one", "--env", "API_KEY=hunter2-hunter2", "--prefix", "one_", "--", &fake, "stderr=hello"];
    assert_snapshot!(wharf.run(&words), @"");
    assert_snapshot!(wharf.run(&["add", "one", "--", &fake]), @"");
    assert_snapshot!(wharf.run(&["add", "--replace", "--prefix", "o_", "one", "--", &fake, "stderr=hello"]), @"");
    let block = format!("\"mcpServers\": {{\"two\": {{\"type\": \"stdio\", \"command\": \"{fake}\", \"autoApprove\": []}}}}");
    assert_snapshot!(wharf.run_with_input(&["add", "-", "--prefix=two_"], &block), @"");
    let entry = format!("{{\"command\": \"{fake}\"}}");
    assert_snapshot!(wharf.run(&["add", "three", &entry, "--disabled"]), @"");
    assert_snapshot!(wharf.filter(&wharf.home.read("settings.json")), @"");
    assert_snapshot!(wharf.run(&["list"]), @"");
    assert_snapshot!(wharf.run(&["show", "one"]), @"");
    assert_snapshot!(wharf.run(&["tools"]), @"");
    assert_snapshot!(wharf.run(&["enable", "three"]), @"");
    assert_snapshot!(wharf.run(&["disable", "two"]), @"");
    assert_snapshot!(wharf.run(&["list"]), @"");
    assert_snapshot!(wharf.run(&["remove", "three"]), @"");
    assert_snapshot!(wharf.run(&["remove", "three"]), @"");
    assert_snapshot!(wharf.run(&["show", "thre"]), @"");
    let list = wharf.json(&["list"]);
    assert_eq!(list["servers"].as_array().unwrap().len(), 2);
}

#[test]
fn a_server_that_does_not_start_is_kept_and_explained() {
    let wharf = Wharf::new();
    let _daemon = wharf.up();
    assert_snapshot!(wharf.run(&["add", "lost", "--", "/nowhere/server"]), @"");
    assert_snapshot!(wharf.run(&["add", "dead", "--", &fake(), "die-before-init=3"]), @"");
    assert_snapshot!(wharf.run(&["list"]), @"");
    assert_snapshot!(wharf.run(&["tools"]), @"");
    assert_snapshot!(wharf.run(&["call", "dead/work"]), @"");
    assert_snapshot!(wharf.run(&["enable", "dead"]), @"");
    assert_snapshot!(wharf.run(&["logs", "dead", "-n", "1"]), @"");
    let status = wharf.run(&["status"]);
    assert!(status.contains("! warning: lost: failed"), "{status}");
}

#[test]
fn an_entry_that_can_not_be_used_is_refused() {
    let wharf = Wharf::new();
    let _daemon = wharf.up();
    assert_snapshot!(wharf.run(&["add", "_hidden", "--prefix", "mcp__x", "--", "x"]), @"");
    assert_snapshot!(wharf.run(&["add", "_hidden", "--prefix", "mcp__x", "--json", "--", "x"]), @"");
    assert_eq!(wharf.home.read("settings.json"), "");
}

#[test]
fn processes_are_stopped_and_started_again() {
    let wharf = Wharf::new();
    let daemon = wharf.up();
    wharf.add_fake("one", &[]);
    assert_snapshot!(wharf.run(&["mcp"]), @"");
    wharf.run(&["call", "one/work"]);
    assert_snapshot!(wharf.run(&["mcp"]), @"");
    assert_snapshot!(wharf.run(&["mcp", "one"]), @"");
    assert_snapshot!(wharf.run(&["mcp", "restart", "one"]), @"");
    assert_snapshot!(wharf.run(&["mcp", "tow"]), @"");
    wharf.run(&["call", "one/work"]);
    let is_running = || processes::children_of(daemon.pid()).iter().any(|pid| processes::command_line(*pid) == fake());
    assert!(is_running());
    assert_snapshot!(wharf.run(&["stop", "one"]), @"");
    wait_until("the process to be gone", || !is_running());
    assert_snapshot!(wharf.run(&["restart", "one"]), @"");
    assert_snapshot!(wharf.run(&["restart", "tow"]), @"");
}

#[test]
fn logs_are_told_and_followed() {
    let wharf = Wharf::new();
    let _daemon = wharf.up();
    wharf.add_fake("one", &["stderr=first", "stderr=second"]);
    assert_snapshot!(wharf.run(&["logs", "one", "-n", "1"]), @"");
    assert_snapshot!(wharf.run(&["logs"]), @"");
    assert_snapshot!(wharf.run(&["logs", "--json"]), @"");
    assert_snapshot!(wharf.run(&["logs", "two"]), @"");
    let mut following = wharf.command(&["logs", "--follow", "-n", "0"]).spawn().unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    let mut seen = vec![];
    // Until the listener is connected, what happens is not told.
    while seen.is_empty() {
        wharf.run(&["restart", "one"]);
        wharf.run(&["call", "one/work"]);
        seen.push(lines.next().unwrap().unwrap());
    }
    while !seen.last().unwrap().contains("work called by default, answered") {
        seen.push(lines.next().unwrap().unwrap());
    }
    assert!(seen.iter().any(|line| line == "one: second"), "{seen:?}");
    assert!(seen.iter().any(|line| line.starts_with("one: [running, pid ")), "{seen:?}");
    following.kill().unwrap();
    following.wait().unwrap();
}
