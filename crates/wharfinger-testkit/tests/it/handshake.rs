use serde_json::{Value, json};
use wharfinger_testkit::Home;

use crate::client::Client;

fn hello(modes: &[&str]) -> Value {
    Client::start(modes).initialize()
}

#[test]
fn a_plain_server_introduces_itself() {
    assert_eq!(
        hello(&[]),
        json!({"jsonrpc": "2.0", "id": 1, "result": {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {"listChanged": true}},
            "serverInfo": {"name": "fake-server", "version": "1.0.0"},
        }}),
    );
}

#[test]
fn the_introduction_can_be_changed() {
    let modes = [
        "name=other",
        "version=9",
        "protocol=2024-11-05",
        "instructions=Be kind",
        "no-tools-capability",
    ];
    assert_eq!(
        hello(&modes)["result"],
        json!({
            "protocolVersion": "2024-11-05",
            "capabilities": {},
            "instructions": "Be kind",
            "serverInfo": {"name": "other", "version": "9"},
        }),
    );
    assert_eq!(
        hello(&["init-bad-version"])["result"]["protocolVersion"],
        "1999-01-01"
    );
    assert_eq!(
        hello(&["slow-init=0.01"])["result"]["protocolVersion"],
        "2025-11-25"
    );
    assert_eq!(
        hello(&["init-error"])["error"],
        json!({"code": -32000, "message": "not today"}),
    );
}

#[test]
fn a_server_that_never_answers_initialize_still_answers_pings() {
    let mut client = Client::start(&["never-init"]);
    client.ask("initialize", &json!({"protocolVersion": "2025-11-25"}));
    assert_eq!(client.request("ping", &json!({}))["id"], 2);
}

#[test]
fn a_plain_server_does_not_know_discover() {
    let mut client = Client::start(&[]);
    assert_eq!(
        client.request("server/discover", &json!({}))["error"]["code"],
        -32601
    );
    assert_eq!(client.initialize()["id"], 2);

    let mut client = Client::start(&["discover-error=-32001"]);
    assert_eq!(
        client.request("server/discover", &json!({}))["error"]["code"],
        -32001
    );
}

#[test]
fn discover_can_mute_or_kill() {
    let home = Home::new();
    let record = format!("record={}", home.file("record").display());
    let mut mute = Client::start(&["discover-silent", &record]);
    mute.ask("server/discover", &json!({}));
    mute.ask("initialize", &json!({"protocolVersion": "2025-11-25"}));
    mute.close_input();
    assert_eq!(mute.line(), "");
    let methods: Vec<Value> = home
        .lines("record")
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["method"].clone())
        .collect();
    assert_eq!(methods, ["server/discover", "initialize"]);

    let mut dying = Client::start(&["discover-dies"]);
    dying.ask("server/discover", &json!({}));
    assert_eq!(dying.exit_code(), Some(3));
}

#[test]
fn some_servers_talk_right_after_the_handshake() {
    let mut client = Client::ready(&["notify-after-init=3", "notify-flood=2"]);
    let flood: Vec<Value> = (0..2)
        .map(|_| client.message()["params"]["data"].clone())
        .collect();
    assert_eq!(flood, ["flood 0", "flood 1"]);
    for _ in 0..3 {
        assert_eq!(
            client.message()["method"],
            "notifications/tools/list_changed"
        );
    }

    let mut client = Client::ready(&["ping-me=0.001"]);
    let ping = client.message();
    assert_eq!(
        (&ping["method"], &ping["id"]),
        (&json!("ping"), &json!("srv-0"))
    );
}

#[test]
fn roots_are_asked_for_and_told() {
    let mut client = Client::ready(&["roots"]);
    let question = client.message();
    assert_eq!(question["method"], "roots/list");
    let roots = json!({"roots": [{"uri": "file:///tmp"}]});
    client.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": roots}));
    assert_eq!(client.text("roots"), roots.to_string());
}
