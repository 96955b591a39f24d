use serde_json::{Value, json};
use wharfinger_testkit::{Home, wait_until};

use crate::client::Client;

fn call(modes: &[&str]) -> Value {
    Client::ready(modes).call("work", &json!({}))
}

/// The line that answers a call of `work`.
fn line(modes: &[&str]) -> String {
    let mut client = Client::ready(modes);
    client.ask("tools/call", &json!({"name": "work"}));
    client.line()
}

#[test]
fn results() {
    let text = |modes: &[&str]| call(modes)["result"]["content"][0]["text"].clone();
    assert_eq!(text(&[]), "ok 1");
    assert_eq!(text(&["say=hello"]), "hello");
    assert_eq!(text(&["huge=5"]), "xxxxx");
    assert_eq!(text(&["error-as-result"]), "Error: it failed");
    assert_eq!(text(&["slow-call=0.01"]), "ok 1");
    assert_eq!(call(&["tool-error"])["result"]["isError"], true);
    assert_eq!(call(&["null-result"])["result"], json!(null));
    assert_eq!(
        call(&["error-no-message"])["error"],
        json!({"code": -32000})
    );
    assert_eq!(
        call(&["tool=other"])["error"]["message"],
        "Unknown tool: \"work\""
    );
    assert_eq!(call(&["wrong-id"])["id"], 99999);
}

#[test]
fn built_in_tools() {
    let mut client = Client::start_with(&[], &[("MARK", "here")]);
    client.initialize();
    let echo = client.call("echo", &json!({"message": "hi"}));
    assert_eq!(
        echo["result"]["content"],
        json!([{"type": "text", "text": "hi"}])
    );
    let environment: Value = serde_json::from_str(&client.text("env")).unwrap();
    assert_eq!(environment["MARK"], "here");
    assert_eq!(
        client.text("cwd"),
        std::env::current_dir().unwrap().display().to_string()
    );
    assert_eq!(client.text("pid"), client.pid().to_string());
    let mut named = Client::ready(&["tool=a/b"]);
    assert_eq!(named.text("a/b"), "called a/b {}");
}

#[test]
fn bytes_that_are_no_messages() {
    assert_eq!(line(&["crlf"]).as_bytes().last_chunk(), Some(b"\r\n"));
    assert_eq!(
        line(&["garbage"]),
        "DEBUG: about to work \u{1b}[31mcolour\u{1b}[0m\n"
    );
    assert!(line(&["utf8-bad"]).contains('\u{fffd}'));
    assert_eq!(
        line(&["invalid-json-reply"]),
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"content\":[}}\n",
    );
    assert!(line(&["batch-reply"]).starts_with("[{"));
    assert!(line(&["nan"]).contains(r#""structuredContent":{"v":NaN}"#));
    assert!(line(&["big-int"]).contains(r#""structuredContent":{"v":1180591620717411303424}"#));
    let mut twice = Client::ready(&["dup-reply"]);
    twice.ask("tools/call", &json!({"name": "work"}));
    assert_eq!(twice.line(), twice.line());
    assert_eq!(
        Client::start(&["banner"]).line(),
        "Welcome to BadServer v0!\n"
    );
}

#[test]
fn deaths_during_a_call() {
    for (modes, code, ends_with) in [
        (["crash-mid-line"], 41, "[{\"ty"),
        (["truncated-reply"], 3, ""),
        (["crash-after=1"], 42, ""),
    ] {
        let mut client = Client::ready(&modes);
        client.ask("tools/call", &json!({"name": "work"}));
        let last = client.line();
        assert!(
            last.ends_with(ends_with) && !last.ends_with('\n'),
            "{modes:?}: {last:?}"
        );
        assert_eq!(client.exit_code(), Some(code), "{modes:?}");
    }
    let mut second = Client::ready(&["crash-after=2"]);
    assert_eq!(second.text("work"), "ok 1");
    second.ask("tools/call", &json!({"name": "work"}));
    assert_eq!(second.exit_code(), Some(42));
    assert_eq!(second.stderr(), "Segfault (simulated)\n");
}

#[test]
fn progress_and_log_come_before_the_answer() {
    let mut client = Client::ready(&["progress=2", "progress-pause-ms=1", "log=warning"]);
    client.ask(
        "tools/call",
        &json!({"name": "work", "_meta": {"progressToken": "t"}}),
    );
    assert_eq!(client.message()["params"]["level"], "warning");
    for step in 1..=2 {
        let progress = &client.message()["params"];
        assert_eq!(
            (&progress["progressToken"], &progress["progress"]),
            (&json!("t"), &json!(step))
        );
    }
    assert_eq!(client.message()["id"], 2);
    client.ask("tools/call", &json!({"name": "work"}));
    assert_eq!(client.message()["method"], "notifications/message");
    assert_eq!(client.message()["id"], 3);
}

#[test]
fn a_held_call_waits_for_its_file_and_others_go_on() {
    let home = Home::new();
    let go = home.file("go");
    let mut client = Client::ready(&[&format!("wait-for={}", go.display())]);
    client.ask("tools/call", &json!({"name": "work"}));
    assert_eq!(client.request("ping", &json!({}))["id"], 3);
    home.write("go", "");
    assert_eq!(client.message()["id"], 2);
}

#[test]
fn a_cancelled_call_is_not_answered() {
    let home = Home::new();
    let modes = [
        format!("wait-for={}", home.file("go").display()),
        format!("cancel-file={}", home.file("cancelled").display()),
    ];
    let mut client = Client::ready(&modes.each_ref().map(String::as_str));
    client.ask("tools/call", &json!({"name": "work"}));
    client.ask("tools/call", &json!({"name": "work"}));
    client.notify(
        "notifications/cancelled",
        &json!({"requestId": 2, "reason": "enough"}),
    );
    wait_until("the cancellation", || home.lines("cancelled") == ["2"]);
    home.write("go", "");
    assert_eq!(client.message()["id"], 3);
    client.close_input();
    assert_eq!(client.line(), "");
}

#[test]
fn a_hanging_call_leaves_the_connection_alive() {
    let mut client = Client::ready(&["hang-call"]);
    client.ask("tools/call", &json!({"name": "work"}));
    assert_eq!(client.request("ping", &json!({}))["id"], 3);
}

#[test]
fn a_call_may_ask_the_client() {
    let mut client = Client::ready(&["ask=sampling/createMessage"]);
    let question = client.request("tools/call", &json!({"name": "work"}));
    assert_eq!(question["method"], "sampling/createMessage");
    let error = json!({"code": -1, "message": "no"});
    client.send(&json!({"jsonrpc": "2.0", "id": question["id"], "error": error}));
    let answer = client.message();
    assert_eq!(
        answer["result"]["content"][0]["text"],
        r#"{"error":{"code":-1,"message":"no"}}"#,
    );
}
