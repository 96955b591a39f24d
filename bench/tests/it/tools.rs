//! `mcp-load`, `fast-echo` and `floor`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

const ECHO: &str = env!("CARGO_BIN_EXE_fast-echo");
const LOAD: &str = env!("CARGO_BIN_EXE_mcp-load");
const FLOOR: &str = env!("CARGO_BIN_EXE_floor");

#[track_caller]
fn load(arguments: &[&str]) -> Value {
    let mut command = Command::new(LOAD);
    let out = command.args(arguments).output().unwrap();
    let words = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "mcp-load {arguments:?}: {words}");
    serde_json::from_slice(&out.stdout).unwrap()
}

fn direct(environment: &str) -> String {
    format!("direct=stdio:env {environment} {ECHO}")
}

/// A floor that listens, until dropped.
struct Floor {
    process: Child,
    target: String,
}

impl Floor {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(FLOOR);
        let mut process = command
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = process.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let url = line.trim_end().strip_prefix("listening on ").unwrap();
        Self {
            process,
            target: format!("floor={url}"),
        }
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

#[test]
fn every_protocol_is_spoken_over_stdio() {
    let target = direct("X=1");
    for protocol in ["2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28"] {
        let arguments = ["latency", "-t", &target, "--rounds", "2", "-n", "20"];
        let out = load(&[&arguments[..], &["--protocol", protocol]].concat());
        let figures = &out["results"][0];
        let seen = json!([
            figures["errors"],
            figures["latency"]["n"],
            figures["ratio_p50"]
        ]);
        assert_eq!(seen, json!([0, 40, 1.0]), "{out}");
    }
}

#[test]
fn an_old_server_refuses_what_is_new() {
    let arguments = ["call", "-t", &direct("LEGACY=1")];
    let out = load(&[&arguments[..], &["--protocol", "2025-11-25"]].concat());
    assert_eq!(out["outcome"]["ok"], true, "{out}");
}

#[test]
fn payloads_have_their_size() {
    let target = direct("X=1");
    let arguments = ["payload", "-t", &target, "--rounds", "1", "-n", "2"];
    let out = load(&[&arguments[..], &["--sizes", "1k,100k,5m"]].concat());
    for (size, bytes) in [("1k", 1 << 10), ("100k", 100 << 10), ("5m", 5 << 20)] {
        let got = out["sizes"][size][0]["reply_bytes"].as_u64().unwrap();
        assert!(got > bytes && got < bytes + bytes / 50 + 200, "{out}");
    }
    let arguments = ["call", "-t", &target, "--tool", "image"];
    let out = load(&[&arguments[..], &["--args", r#"{"bytes":4}"#]].concat());
    let start = out["outcome"]["start"].as_str().unwrap();
    assert!(start.contains("==\""), "{out}");
}

#[test]
fn lists_are_whole_and_prefixes_are_found() {
    let target = direct("TOOLS=500 PREFIX=s01_");
    let out = load(&["list", "-t", &target, "--rounds", "1", "-n", "3"]);
    assert_eq!(out["results"][0]["tools"], 500);
    let arguments = ["call", "-t", &target, "--tool", "tool_0500"];
    let out = load(&[&arguments[..], &["--args", r#"{"text":"a\"b"}"#]].concat());
    let seen = json!([out["outcome"]["ok"], out["tool"]]);
    assert_eq!(seen, json!([true, "s01_tool_0500"]), "{out}");
}

#[test]
fn failures_are_seen() {
    let target = direct("X=1");
    let check = |arguments: &[&str], expect: &str| {
        let out = load(&[&["call", "-t", &target], arguments].concat());
        let error = out["outcome"]["error"].as_str().unwrap();
        assert!(error.starts_with(expect), "{out}");
    };
    check(&["--args", r#"{"text":1}"#], "tool error");
    let long = ["--tool", "sleep", "--args", r#"{"ms":60000}"#];
    check(&[&long[..], &["--timeout", "0.2"]].concat(), "timed out");
    // A port that was free a moment ago, and where nobody listens.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = format!("gone=http://{}/mcp", port.local_addr().unwrap());
    drop(port);
    let out = load(&["latency", "-t", &gone, "--rounds", "1"]);
    assert_eq!(out["results"][0]["errors"], 1, "{out}");
}

#[test]
fn calls_that_wait_overlap() {
    let arguments = ["throughput", "-t", &direct("X=1"), "-c", "10"];
    let sleep = ["--tool", "sleep", "--args", r#"{"ms":100}"#];
    let length = ["--secs", "0.3", "--rounds", "1"];
    let out = load(&[&arguments[..], &sleep, &length].concat());
    // One after the other, there would be four at most.
    let n = out["results"][0]["latency"]["n"].as_u64().unwrap();
    assert!(n >= 20, "{out}");
}

#[test]
fn progress_comes_whole_and_in_order() {
    let out = load(&["progress", "-t", &direct("X=1"), "-n", "200"]);
    let seen = json!([out["asked"], out["came"], out["in_order"]]);
    assert_eq!(seen, json!([200, 200, true]), "{out}");
}

#[test]
fn the_endpoint_without_a_server_answers() {
    let floor = Floor::start(&["http"]);
    let target = ["-t", &floor.target];
    let out = load(&[&["ready"], &target[..]].concat());
    assert_eq!(out["tools"], 2);
    let arguments = ["payload", "--sizes", "5m", "--rounds", "1", "-n", "1"];
    let out = load(&[&arguments[..], &target].concat());
    let bytes = out["sizes"]["5m"][0]["reply_bytes"].as_u64().unwrap();
    assert!(bytes > 5 << 20, "{out}");
    let arguments = ["throughput", "-c", "8", "--secs", "0.2", "--rounds", "2"];
    let out = load(&[&arguments[..], &["--sessions", "2"], &target].concat());
    let figures = &out["results"][0];
    assert_eq!(figures["errors"], 0, "{out}");
    let connections = figures["connections"].as_u64().unwrap();
    assert!(connections <= 10, "they are kept alive: {out}");
    let out = load(&[&["sessions", "-m", "20", "--rounds", "1"], &target[..]].concat());
    assert_eq!(out["results"][0]["latency"]["n"], 20);
}

#[test]
fn the_bridge_passes_on() {
    let floor = Floor::start(&["bridge", "env", "TOOLS=50", ECHO]);
    let pid = format!("floor={}", floor.process.id());
    let target = ["-t", &floor.target, "--pid", &pid];
    let out = load(&[&["ready"], &target[..]].concat());
    assert_eq!(out["tools"], 50);
    let arguments = ["throughput", "-c", "8", "--secs", "0.2", "--rounds", "1"];
    let out = load(&[&arguments[..], &target].concat());
    let figures = &out["results"][0];
    assert_eq!(figures["errors"], 0, "{out}");
    assert!(figures["cpu_us_per_call"].as_f64().unwrap() > 0.0, "{out}");
    let out = load(&[&["call", "--args", r#"{"text":1}"#], &target[..]].concat());
    let error = out["outcome"]["error"].as_str().unwrap();
    assert!(error.starts_with("tool error"), "{out}");
    let out = load(&["proc", "--pid", &pid]);
    let tree = &out["results"][0];
    let seen = json!([tree["gateway"]["processes"], tree["servers"]["processes"]]);
    assert_eq!(seen, json!([1, 1]), "{out}");
}

#[test]
fn floors_are_measured() {
    for arguments in [["pipe", "-n", "50", ECHO], ["spawn", "-n", "3", ECHO]] {
        let out = Command::new(FLOOR).args(arguments).output().unwrap();
        let figures: Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!(figures["floor"], arguments[0]);
    }
}
