//! A daemon that is killed without warning leaves nothing behind, whatever it had started:
//! launchers that don't pass signals on, browsers in process groups of their own.

use std::time::Duration;

use serde_json::json;
use wharfinger_testkit::{Home, fake_server, processes, wait_until};

use crate::daemon::{Daemon, assert_gone};
use crate::{installed, site};

/// How long the processes of a killed daemon may live on.
const LIMIT: Duration = Duration::from_secs(5);

/// Kills the daemon while a process runs that has `words` in its command line.
#[track_caller]
fn kill_and_look(mut daemon: Daemon, words: &str) {
    wait_until(&format!("a process `{words}`"), || {
        daemon
            .started()
            .into_iter()
            .any(|pid| processes::command_line(pid).contains(words))
    });
    let pid = daemon.pid();
    let started = daemon.kill();
    assert_gone(LIMIT, pid, &started);
}

#[test]
fn npx() {
    let Some(npx) = installed::warm("npx") else {
        return;
    };
    let package = "@modelcontextprotocol/server-everything@2026.8.31";
    let command = [&npx.to_string_lossy(), "-y", package];
    let (daemon, echo) = Daemon::with_server("everything", &command, "echo");
    let reply = daemon.session().call(&echo, &json!({"message": "hi"}));
    assert_eq!(reply["result"]["content"][0]["text"], "Echo: hi");
    // npm and a shell are above it, and it doesn't end when they do.
    kill_and_look(daemon, "/.bin/mcp-server-everything");
}

#[test]
fn uvx() {
    let Some(uvx) = installed::warm("uvx") else {
        return;
    };
    let command = [&uvx.to_string_lossy(), "mcp-server-time@2026.10.19"];
    let (daemon, clock) = Daemon::with_server("time", &command, "get_current_time");
    let reply = daemon.session().call(&clock, &json!({"timezone": "UTC"}));
    assert_eq!(reply["result"]["isError"], false, "{reply}");
    kill_and_look(daemon, "bin/mcp-server-time");
}

/// A daemon whose browser shows a page.
fn with_browser() -> Option<Daemon> {
    let server = installed::npm("playwright", "playwright-mcp")?;
    let chromium = installed::chromium()?;
    let command = [
        &server.to_string_lossy(),
        "--headless",
        "--no-sandbox",
        "--isolated",
        "--executable-path",
        &chromium.to_string_lossy(),
    ];
    let (daemon, navigate) = Daemon::with_server("playwright", &command, "browser_navigate");
    let evaluate = daemon.wait_for_tool("browser_evaluate");
    let mut session = daemon.session();
    let reply = session.call(&navigate, &json!({"url": site::serve()}));
    assert_ne!(reply["result"]["isError"], true, "{reply}");
    let heading = json!({"function": "() => document.querySelector('h1').textContent"});
    let reply = session.call(&evaluate, &heading);
    let text = reply["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_default();
    assert!(text.contains(site::HEADING), "{reply}");
    Some(daemon)
}

#[test]
fn browser() {
    let Some(daemon) = with_browser() else { return };
    kill_and_look(daemon, "--type=renderer");
}

#[test]
fn a_browser_closes_with_a_daemon_that_stops() {
    let Some(daemon) = with_browser() else { return };
    daemon.stop();
}

/// Neither the end of its input nor SIGTERM ends it or its grandchild, and the grandchild isn't in
/// its process group.
#[test]
fn a_grandchild_in_a_session_of_its_own() {
    let notes = Home::new();
    let mode = format!("child-pid={}", notes.file("child").display());
    let fake = fake_server();
    let command = [
        &fake.to_string_lossy(),
        "ignore-eof",
        "ignore-term",
        "setsid-child",
        "stubborn-child",
        &mode,
    ];
    let (daemon, work) = Daemon::with_server("fake", &command, "work");
    daemon.session().call(&work, &json!({}));
    wait_until("the grandchild", || notes.file("child").exists());
    let child: u32 = notes.read("child").parse().unwrap();
    assert!(processes::alive(child));
    kill_and_look(daemon, " sleeper own-session");
    assert!(!processes::alive(child));
}
