use serde_json::{Value, json};

use crate::client::{Client, names};

fn with_meta(params: Value) -> Value {
    let mut params = params;
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}

#[test]
fn discover_locks_the_connection() {
    let mut client = Client::start(&["modern"]);
    let found = client.request("server/discover", &with_meta(json!({})));
    assert_eq!(
        found["result"],
        json!({
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {"listChanged": true}},
            "resultType": "complete",
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "fake-server", "version": "1.0.0"}},
        }),
    );
    assert_eq!(client.initialize()["error"]["code"], -32022);
    assert_eq!(
        client.request("tools/list", &json!({}))["error"]["code"],
        -32602
    );

    let list = client.request("tools/list", &with_meta(json!({})));
    assert_eq!(
        names(&list["result"]["tools"]),
        ["work", "echo", "env", "cwd", "pid"]
    );
    assert_eq!(list["result"]["resultType"], "complete");
    let call = with_meta(json!({"name": "work", "arguments": {}}));
    let answer = client.request("tools/call", &call);
    assert_eq!(
        answer["result"]["content"],
        json!([{"type": "text", "text": "ok 1"}])
    );
    assert_eq!(answer["result"]["resultType"], "complete");
}

#[test]
fn a_modern_server_still_shakes_hands_first() {
    let mut client = Client::start(&["modern"]);
    assert_eq!(
        client.initialize()["result"]["protocolVersion"],
        "2025-11-25"
    );
    let list = client.request("tools/list", &json!({}));
    assert_eq!(list["result"].get("resultType"), None);

    assert_eq!(
        Client::start(&["modern-only"]).initialize()["error"]["code"],
        -32022
    );

    let mut both = Client::start(&["modern-unlocked"]);
    both.request("server/discover", &with_meta(json!({})));
    assert_eq!(both.initialize()["result"]["protocolVersion"], "2025-11-25");
}

#[test]
fn an_unknown_version_is_refused() {
    let mut client = Client::start(&["modern"]);
    let params = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2031-01-01"}});
    assert_eq!(
        client.request("tools/list", &params)["error"]["code"],
        -32022
    );
}

#[test]
fn changes_reach_those_who_listen() {
    let mut client = Client::start(&["modern", "list-changed-on-call"]);
    let listen = with_meta(json!({"notifications": {"toolsListChanged": true}}));
    let acknowledged = client.request("subscriptions/listen", &listen);
    assert_eq!(
        acknowledged["params"],
        json!({
            "_meta": {"io.modelcontextprotocol/subscriptionId": 1},
            "notifications": {"toolsListChanged": true},
        }),
    );
    let call = with_meta(json!({"name": "work"}));
    let changed = client.request("tools/call", &call);
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    assert_eq!(
        changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
        1
    );
    assert_eq!(client.message()["id"], 2);

    client.notify("notifications/cancelled", &json!({"requestId": 1}));
    assert_eq!(client.request("tools/call", &call)["id"], 3);
}

#[test]
fn a_question_takes_two_rounds() {
    let mut client = Client::start(&["modern", "ask=elicitation/create"]);
    let mut call = with_meta(json!({"name": "work"}));
    let question = client.request("tools/call", &call);
    assert_eq!(question["result"]["resultType"], "input_required");
    assert_eq!(
        question["result"]["inputRequests"]["q"]["method"],
        "elicitation/create"
    );
    call["requestState"] = question["result"]["requestState"].clone();
    call["inputResponses"] = json!({"q": {"action": "accept", "content": {"yes": true}}});
    let answer = client.request("tools/call", &call);
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(text, r#"{"action":"accept","content":{"yes":true}}"#);
}
