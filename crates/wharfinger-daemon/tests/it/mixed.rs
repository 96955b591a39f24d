//! Clients of one era and servers of the other.

use serde_json::json;

use crate::dock::{CAPABILITIES_KEY, Dock, SERVER_KEY, fake, names};

const MODERN_KINDS: [&str; 3] = ["modern", "modern-only", "modern-unlocked"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handshake_client_uses_a_stateless_server() {
    for kind in MODERN_KINDS {
        let dock = Dock::new(json!({ "a": fake(&[kind, "progress=2"], json!({})) })).await;
        let caller = dock.handshake("2025-06-18").await;
        let list = caller.result(1, "tools/list", json!({})).await;
        assert_eq!(names(&list).len(), 5);
        for member in ["resultType", "ttlMs", "cacheScope", "_meta"] {
            assert!(list.get(member).is_none(), "{kind}: {member} in {list}");
        }
        let params = json!({ "name": "echo", "arguments": { "message": "hi" } });
        let result = caller.result(2, "tools/call", params).await;
        let expect = json!({ "content": [{ "type": "text", "text": "hi" }] });
        assert_eq!(result["content"], expect["content"], "{kind}");
        assert!(result.get("resultType").is_none(), "{kind}: {result}");
        let params = json!({ "name": "work", "_meta": { "progressToken": 9 } });
        let messages = caller
            .ask(3, "tools/call", params)
            .send()
            .await
            .messages()
            .await;
        let tokens: Vec<_> = messages
            .iter()
            .map(|m| &m["params"]["progressToken"])
            .collect();
        assert_eq!(tokens, [&json!(9), &json!(9), &json!(null)], "{kind}");
        dock.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stateless_client_uses_a_server_of_each_kind_alike() {
    for kind in [None].into_iter().chain(MODERN_KINDS.map(Some)) {
        let modes: Vec<&str> = ["progress=2"].into_iter().chain(kind).collect();
        let dock = Dock::new(json!({ "a": fake(&modes, json!({})) })).await;
        let list = dock.stateless(1, "tools/list", json!({})).send().await;
        let list = list.json().await["result"].clone();
        assert_eq!(names(&list).len(), 5);
        assert_eq!(list["resultType"], "complete");
        let params = json!({ "name": "work", "_meta": { "progressToken": "p" } });
        let messages = dock.stateless(2, "tools/call", params).send().await;
        let messages = messages.messages().await;
        let tokens: Vec<_> = messages
            .iter()
            .map(|m| &m["params"]["progressToken"])
            .collect();
        assert_eq!(tokens, [&json!("p"), &json!("p"), &json!(null)], "{kind:?}");
        let result = &messages[2]["result"];
        assert_eq!(result["resultType"], "complete", "{kind:?}");
        assert_eq!(
            result["_meta"][SERVER_KEY]["name"], "wharfinger",
            "{kind:?}"
        );
        dock.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_wants_input_tells_a_handshake_client_that_it_can_not() {
    let dock =
        Dock::new(json!({ "a": fake(&["modern", "ask=elicitation/create"], json!({})) })).await;
    let caller = dock.handshake("2025-11-25").await;
    let reply = caller
        .ask(1, "tools/call", json!({ "name": "work" }))
        .send()
        .await;
    let reply = reply.messages().await.pop().unwrap();
    let text = reply.to_string();
    assert!(
        reply["error"].is_object() || reply["result"]["isError"] == true,
        "{reply}"
    );
    assert!(
        text.contains("input_required") || text.contains("input"),
        "{reply}"
    );
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stateless_client_is_asked_for_input_and_answers() {
    let dock =
        Dock::new(json!({ "a": fake(&["modern", "ask=elicitation/create"], json!({})) })).await;
    let call = |id: i64, mut params: serde_json::Value| {
        params["_meta"] = json!({ CAPABILITIES_KEY: { "elicitation": {} } });
        dock.stateless(id, "tools/call", params)
    };
    let asked = call(1, json!({ "name": "work" })).send().await.json().await;
    let asked = &asked["result"];
    assert_eq!(asked["resultType"], "input_required");
    assert_eq!(asked["inputRequests"]["q"]["method"], "elicitation/create");
    let answer = json!({ "action": "accept", "content": { "yes": true } });
    let params = json!({
        "name": "work", "requestState": asked["requestState"], "inputResponses": { "q": answer },
    });
    let told = call(2, params).send().await.json().await;
    assert_eq!(told["result"]["resultType"], "complete", "{told}");
    let text = told["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(text).unwrap(),
        answer
    );
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_both_eras_share_an_agents_server() {
    let dock = Dock::new(json!({ "a": fake(&[], json!({})) })).await;
    let caller = dock.handshake("2024-11-05").await;
    let pid = caller.call("pid", json!({})).await;
    let other = dock
        .stateless(1, "tools/call", json!({ "name": "pid" }))
        .send()
        .await;
    assert_eq!(other.json().await["result"]["content"][0]["text"], *pid);
    dock.close().await;
}
