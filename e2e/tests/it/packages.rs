//! Real packages of npm and Python, installed into a home and run from there.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use wharfinger_testkit::Home;
use wharfinger_testkit::installed::{cache, present};
use wharfinger_testkit::processes::command_line;

use crate::daemon::{Daemon, exposed};
use crate::installed;

const SPEC: &str = "@modelcontextprotocol/server-memory@2026.8.31";

/// A daemon whose tools to install are those of the set-up, and whose downloads are there.
fn daemon(home: Home) -> Daemon {
    let own = std::env::var("PATH").unwrap();
    let folders = ["npm/node/node_modules/.bin", "venv/uv/bin"];
    let folders = folders.map(|folder| cache().join(folder).display().to_string());
    let path = format!("{}:{own}", folders.join(":"));
    let environment = [
        ("PATH", path.as_str()),
        ("npm_config_prefer_offline", "true"),
    ];
    Daemon::start_in(home, &environment, &[])
}

/// Calls a tool that is there; its text.
fn call(daemon: &Daemon, tool: &str, arguments: &Value) -> String {
    daemon.wait_for_tool(tool);
    let mut session = daemon.session();
    let name = exposed(&session.tool_names(), tool).unwrap();
    let reply = session.call(&name, arguments);
    let text = reply["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("no text in {reply}"))
        .to_owned()
}

/// The file that starts the only package in the lock file.
fn entry(home: &Path) -> String {
    let lock = std::fs::read_to_string(home.join("mcp.lock")).unwrap();
    let lock: Value = serde_json::from_str(&lock).unwrap();
    let entry = lock["packages"][0]["entry"].as_str().unwrap();
    let package = std::fs::read_dir(home.join("mcp-servers")).unwrap();
    let package = package.flatten().map(|folder| folder.path());
    let versions = package.filter_map(|folder| std::fs::read_dir(folder).ok());
    let folder = versions
        .flatten()
        .flatten()
        .map(|version| version.path().join(entry))
        .find(|path| path.is_file());
    folder.unwrap().display().to_string()
}

/// Milliseconds of processor time that a server of stdio takes until it has answered `initialize`, with everything
/// that starts it.
fn processor_time(command: &[&str], path: &str) -> f64 {
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": { "name": "test", "version": "0" } } });
    // The shell's own word, for itself and then for what it has waited for.
    let script = "printf '%s\\n' \"$0\" | \"$@\" >/dev/null 2>&1; times";
    let output = Command::new("bash")
        .args(["-c", script, &initialize.to_string()])
        .args(command)
        .env("PATH", path)
        .env("npm_config_prefer_offline", "true")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let waited_for = said.lines().nth(1).unwrap();
    let seconds = waited_for.split(' ').map(|time| {
        let (minutes, seconds) = time.trim_end_matches('s').split_once('m').unwrap();
        minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
    });
    seconds.sum::<f64>() * 1000.0
}

#[test]
#[expect(
    clippy::print_stderr,
    reason = "the figure is what a reader wants to see"
)]
fn a60_a_package_of_npm_starts_without_npx() {
    if installed::npm("reference", "mcp-server-memory").is_none() {
        return;
    }
    let daemon = daemon(Home::new());
    daemon.wharf(&["add", "memory", "--npm", SPEC]);
    let graph = call(&daemon, "read_graph", &json!({}));
    assert!(graph.contains("entities"), "{graph}");
    let entry = entry(daemon.home());
    let lines: Vec<String> = daemon.started().into_iter().map(command_line).collect();
    assert!(lines.iter().any(|line| line.contains(&entry)), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("npx")), "{lines:?}");
    let home = daemon.stop();
    let path = std::env::var("PATH").unwrap();
    // The first one fetches it.
    processor_time(&["npx", "-y", SPEC], &path);
    let least = |command: &[&str]| {
        let times = [(); 3].map(|()| processor_time(command, &path));
        times.into_iter().fold(f64::INFINITY, f64::min)
    };
    let (fetched, managed) = (least(&["npx", "-y", SPEC]), least(&["node", &entry]));
    eprintln!(
        "processor time of a start: npx {fetched:.0} ms, installed {managed:.0} ms, {:.0} %",
        100.0 * managed / fetched
    );
    // What is locked can be installed anew, exactly.
    let lock = home.read("mcp.lock");
    std::fs::remove_dir_all(home.file("mcp-servers")).unwrap();
    let daemon = self::daemon(home);
    daemon.wharf(&["install", "--all", "--frozen"]);
    assert!(Path::new(&entry).is_file());
    assert_eq!(daemon.stop().read("mcp.lock"), lock);
}

#[test]
fn a60_a67_packages_of_python_have_an_environment_each() {
    let there = ["uv", "servers", "sqlite"];
    if !there
        .iter()
        .all(|group| present(cache().join("venv").join(group)).is_some())
    {
        return;
    }
    let daemon = daemon(Home::new());
    daemon.wharf(&["add", "time", "--pypi", "mcp-server-time==2026.10.19"]);
    let time = call(
        &daemon,
        "convert_time",
        &json!({ "source_timezone": "UTC", "time": "12:00", "target_timezone": "UTC" }),
    );
    assert!(time.contains("12:00"), "{time}");
    // Needs another generation of a library than the first one.
    let spec = "mcp-server-sqlite==2025.4.25";
    daemon.wharf(&[
        "add",
        "db",
        "--pypi",
        spec,
        "--with",
        "mcp<2",
        "--",
        "--db-path",
        "x.db",
    ]);
    let tables = call(&daemon, "list_tables", &json!({}));
    assert_eq!(tables, "[]");
    let lock = std::fs::read_to_string(daemon.home().join("mcp.lock")).unwrap();
    assert!(lock.contains("--hash=sha256:"));
    daemon.stop();
}
