//! The endpoint over HTTP for clients of 2026-07-28.

use serde_json::{Value, json};
use wharfinger_testkit::Home;

use crate::dock::{
    CAPABILITIES_KEY, Dock, LOG_KEY, MODERN, SERVER_KEY, SUBSCRIPTION_KEY, VERSION_KEY, enveloped,
    fake, mode, names, plain, request,
};
use crate::http::{Ask, Response};

fn server_info() -> Value {
    json!({ "name": "wharfinger", "title": "Wharfinger", "version": env!("CARGO_PKG_VERSION") })
}

/// Checks that a request is refused in plain JSON, under its own id, and gives `error.data`.
async fn refused(what: &str, ask: Ask, status: u16, code: i64) -> Value {
    let response = ask.send().await;
    assert_eq!(
        (response.status, response.kind()),
        (status, "application/json"),
        "{what}"
    );
    assert_eq!(response.header("mcp-session-id"), None);
    let reply = response.json().await;
    assert_eq!(
        (&reply["id"], &reply["error"]["code"]),
        (&json!("q"), &json!(code)),
        "{what}: {reply}"
    );
    reply["error"]["data"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn discover_tells_what_there_is() {
    let dock = Dock::new(plain()).await;
    let response = dock.stateless(0, "server/discover", json!({})).send().await;
    assert_eq!(
        (response.status, response.kind()),
        (200, "application/json")
    );
    assert_eq!(response.header("mcp-session-id"), None);
    let expect = json!({ "jsonrpc": "2.0", "id": 0, "result": {
        "resultType": "complete",
        "supportedVersions": [MODERN],
        "capabilities": { "logging": {}, "tools": { "listChanged": true } },
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": { SERVER_KEY: server_info() },
    } });
    assert_eq!(response.json().await, expect);
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_describes_itself_or_is_refused() {
    let dock = Dock::new(json!({})).await;
    let ask = |params: Value| {
        let message =
            json!({ "jsonrpc": "2.0", "id": "q", "method": "tools/list", "params": params });
        dock.mcp(&message)
            .header("MCP-Protocol-Version", MODERN)
            .header("Mcp-Method", "tools/list")
    };
    for params in [
        json!(null),
        json!({}),
        json!([]),
        json!({ "_meta": null }),
        json!({ "_meta": [] }),
        json!({ "_meta": {} }),
        json!({ "_meta": { "progressToken": 1 } }),
        json!({ "_meta": { CAPABILITIES_KEY: {} } }),
        json!({ "_meta": { VERSION_KEY: MODERN } }),
        json!({ "_meta": { VERSION_KEY: MODERN, CAPABILITIES_KEY: null } }),
        json!({ "_meta": { VERSION_KEY: MODERN, CAPABILITIES_KEY: [] } }),
    ] {
        refused(&params.to_string(), ask(params), 400, -32602).await;
    }
    // Who asks is not required.
    let bare = json!({ "_meta": { VERSION_KEY: MODERN, CAPABILITIES_KEY: {} } });
    assert_eq!(ask(bare).send().await.status, 200);
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_version_is_refused_with_those_that_are_known() {
    let dock = Dock::new(json!({})).await;
    for version in ["v999.0.0", "2026-07-29", "2025-11-25", "2030-01-01"] {
        let meta = json!({ VERSION_KEY: version });
        let message = enveloped("q", "tools/list", json!({ "_meta": meta }));
        let ask = dock
            .mcp(&message)
            .header("MCP-Protocol-Version", version)
            .header("Mcp-Method", "tools/list");
        let data = refused(version, ask, 400, -32022).await;
        assert_eq!(data, json!({ "supported": [MODERN], "requested": version }));
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_repeat_what_the_body_says() {
    let dock = Dock::new(json!({ "a": fake(&["tool=work", "tool=größe"], json!({})) })).await;
    let call = |name: &str| dock.stateless("q", "tools/call", json!({ "name": name }));
    let (version, method, name) = ("MCP-Protocol-Version", "Mcp-Method", "Mcp-Name");
    for (what, ask) in [
        ("version missing", call("work").without(version)),
        ("version other", call("work").header(version, "2025-11-25")),
        ("version unknown", call("work").header(version, "v9")),
        ("version twice", call("work").also(version, MODERN)),
        ("method missing", call("work").without(method)),
        ("method other", call("work").header(method, "tools/list")),
        (
            "method in capitals",
            call("work").header(method, "TOOLS/CALL"),
        ),
        ("method twice", call("work").also(method, "tools/call")),
        ("name missing", call("work").without(name)),
        ("name other", call("work").header(name, "echo")),
        ("name in capitals", call("work").header(name, "Work")),
        ("name twice", call("work").also(name, "work")),
        (
            "padding missing",
            call("work").header(name, "=?base64?d29yaw?="),
        ),
        (
            "not base64",
            call("work").header(name, "=?base64?d29y!!==?="),
        ),
        (
            "prefix in capitals",
            call("work").header(name, "=?BASE64?d29yaw==?="),
        ),
        ("prefix missing", call("work").header(name, "d29yaw==?=")),
        (
            "suffix missing",
            call("work").header(name, "=?base64?d29yaw=="),
        ),
    ] {
        refused(what, ask, 400, -32020).await;
    }
    for (what, ask) in [
        ("plain", call("work")),
        (
            "in base64",
            call("work").header(name, "=?base64?d29yaw==?="),
        ),
        ("with spaces", call("work").header(name, "  work \t")),
        (
            "headers in small letters",
            call("work")
                .without(method)
                .header("mcp-method", "tools/call"),
        ),
        (
            "headers in capitals",
            call("work")
                .without(method)
                .header("MCP-METHOD", "tools/call"),
        ),
        (
            "a session id, which is ignored",
            call("work").header("Mcp-Session-Id", "x"),
        ),
    ] {
        let response = ask.send().await;
        assert_eq!(response.status, 200, "{what}");
        assert!(
            response.json().await["result"]["isError"].is_null(),
            "{what}"
        );
    }
    // A name that a header can't hold as it is; the tool is offered under a plain one.
    let odd = call("größe").header(name, "=?base64?Z3LDtsOfZQ==?=");
    assert_eq!(odd.send().await.status, 200);
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_there_or_not_there_any_more_is_not_found() {
    let dock = Dock::new(plain()).await;
    for (method, params) in [
        ("unknown/method", json!({})),
        ("ping", json!({})),
        ("logging/setLevel", json!({ "level": "info" })),
        ("resources/subscribe", json!({ "uri": "file:///a" })),
        ("resources/unsubscribe", json!({ "uri": "file:///a" })),
        ("prompts/list", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("completion/complete", json!({})),
        (
            "initialize",
            json!({ "protocolVersion": MODERN, "capabilities": {}, "clientInfo": {} }),
        ),
    ] {
        refused(method, dock.stateless("q", method, params), 404, -32601).await;
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_is_no_stream_and_no_goodbye() {
    let dock = Dock::new(json!({})).await;
    for method in ["GET", "DELETE"] {
        let ask = dock
            .raw("")
            .method(method)
            .header("MCP-Protocol-Version", MODERN);
        let response = ask.send().await;
        assert_eq!(response.status, 405, "{method}");
        assert_eq!(response.header("allow"), Some("POST"), "{method}");
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notification_is_taken_and_dropped() {
    let dock = Dock::new(json!({})).await;
    for params in [
        json!({ "requestId": 1 }),
        json!({ "_meta": { VERSION_KEY: MODERN } }),
        json!(null),
    ] {
        let message =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
        let ask = dock.mcp(&message).header("MCP-Protocol-Version", MODERN);
        let response = ask.send().await;
        assert_eq!(
            (response.status, response.text().await),
            (202, String::new())
        );
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_and_posted_responses_are_invalid() {
    let dock = Dock::new(json!({})).await;
    let list = enveloped(1, "tools/list", json!({}));
    for message in [
        json!([list]),
        json!([]),
        json!({ "jsonrpc": "2.0", "id": 1, "result": {} }),
    ] {
        let ask = dock.mcp(&message).header("MCP-Protocol-Version", MODERN);
        let response = ask.send().await;
        assert_eq!(response.status, 400, "{message}");
        assert_eq!(response.json().await["error"]["code"], -32600, "{message}");
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_and_a_call_are_complete() {
    let dock = Dock::new(plain()).await;
    for _ in 0..100 {
        let reply = dock.stateless("l", "tools/list", json!({})).send().await;
        assert_eq!((reply.status, reply.kind()), (200, "application/json"));
        let result = reply.json().await["result"].clone();
        assert_eq!(names(&result), ["work", "echo", "env", "cwd", "pid"]);
        let mut rest = result;
        rest.as_object_mut().unwrap().shift_remove("tools");
        let expect = json!({
            "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "_meta": { SERVER_KEY: server_info() },
        });
        assert_eq!(rest, expect);
        let params = json!({ "name": "echo", "arguments": { "message": "hi" } });
        let reply = dock.stateless(7, "tools/call", params).send().await;
        assert_eq!((reply.status, reply.kind()), (200, "application/json"));
        let expect = json!({ "jsonrpc": "2.0", "id": 7, "result": {
            "resultType": "complete",
            "content": [{ "type": "text", "text": "hi" }],
            "_meta": { SERVER_KEY: server_info() },
        } });
        assert_eq!(reply.json().await, expect);
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_leave_no_session_behind() {
    let dock = Dock::new(plain()).await;
    for n in 0..20 {
        assert_eq!(
            dock.stateless(n, "tools/list", json!({}))
                .send()
                .await
                .status,
            200
        );
    }
    // One that holds the agent's instances, at most.
    let sessions = dock.get("/api/status").await["sessions"].as_u64().unwrap();
    assert!(sessions <= 1, "{sessions}");
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_can_not_be_made_says_why() {
    let dock = Dock::new(plain()).await;
    for params in [
        json!({}),
        json!({ "name": 7 }),
        json!({ "name": "work", "arguments": 1 }),
    ] {
        for _ in 0..30 {
            let ask = dock.stateless("q", "tools/call", params.clone());
            refused(&params.to_string(), ask, 400, -32602).await;
        }
    }
    let unknown = dock.stateless(1, "tools/call", json!({ "name": "none" }));
    let reply = unknown.send().await.json().await;
    assert_eq!(reply["result"]["isError"], true, "{reply}");
    assert_eq!(reply["result"]["resultType"], "complete");
    dock.close().await;
}

/// A call that has reached the fake server and waits there.
async fn held(dock: &Dock, id: i64) -> Response {
    let params = json!({ "name": "work", "_meta": { "progressToken": "t" } });
    let mut response = dock.stateless(id, "tools/call", params).send().await;
    let note = response.message().await.unwrap();
    assert_eq!(note["params"]["progressToken"], "t");
    response
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_the_response_cancels_the_call_at_the_server() {
    for era in [None, Some("modern")] {
        let home = Home::new();
        let files = [
            mode(&home, "cancel-file", "cancelled"),
            mode(&home, "wait-for", "gate"),
        ];
        let mut modes = vec![&*files[0], &*files[1], "progress=1"];
        modes.extend(era);
        home.add_fake("a", &modes);
        let dock = Dock::at(home).await;
        for count in 1..=3 {
            drop(held(&dock, 1).await);
            dock.until_lines("cancelled", count).await;
        }
        // A posted one takes nothing back: whoever knows an id need not be who asked.
        let mut call = held(&dock, 1).await;
        let cancel = json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 },
        });
        let cancel = dock.mcp(&cancel).header("MCP-Protocol-Version", MODERN);
        assert_eq!(cancel.send().await.status, 202);
        dock.home.write("gate", "");
        assert_eq!(call.message().await.unwrap()["id"], 1);
        assert_eq!(dock.home.lines("cancelled").len(), 3);
        dock.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_messages_come_only_with_a_request_that_asks_for_them() {
    for era in [None, Some("modern")] {
        let modes: Vec<&str> = ["log=warning"].into_iter().chain(era).collect();
        let dock = Dock::new(json!({ "a": fake(&modes, json!({})) })).await;
        for (level, told) in [
            (None, 0),
            (Some("debug"), 1),
            (Some("warning"), 1),
            (Some("error"), 0),
            (Some("loud"), 0),
            (None, 0),
        ] {
            let meta = level.map_or(json!({}), |level| json!({ LOG_KEY: level }));
            let params = json!({ "name": "work", "_meta": meta });
            let reply = dock.stateless(1, "tools/call", params).send().await;
            let messages = reply.messages().await;
            assert_eq!(messages.len(), told + 1, "{era:?} {level:?}: {messages:?}");
            assert_eq!(messages[told]["id"], 1);
        }
        dock.close().await;
    }
}

async fn listen(dock: &Dock, id: Value, wanted: Value) -> Response {
    let params = json!({ "notifications": wanted });
    let response = dock
        .stateless(id, "subscriptions/listen", params)
        .send()
        .await;
    assert_eq!(
        (response.status, response.kind()),
        (200, "text/event-stream")
    );
    response
}

fn acknowledged(id: &Value, honoured: Value) -> Value {
    let params = json!({ "notifications": honoured, "_meta": { SUBSCRIPTION_KEY: id } });
    let method = "notifications/subscriptions/acknowledged";
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

fn changed(id: &Value) -> Value {
    let params = json!({ "_meta": { SUBSCRIPTION_KEY: id } });
    let method = "notifications/tools/list_changed";
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_is_acknowledged_then_told_of_changes_and_ended() {
    let dock = Dock::new(plain()).await;
    assert_eq!(
        dock.stateless(0, "tools/list", json!({}))
            .send()
            .await
            .status,
        200
    );
    let ids = [json!("L1"), json!(1), json!("1"), json!(0)];
    let mut streams = vec![];
    for id in &ids {
        let wanted = json!({
            "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": false,
            "resourceSubscriptions": ["file:///a"], "other": true,
        });
        let mut stream = listen(&dock, id.clone(), wanted).await;
        let expect = Some(acknowledged(id, json!({ "toolsListChanged": true })));
        assert_eq!(stream.message().await, expect);
        streams.push(stream);
    }
    let servers = json!({ "b": fake(&["tool=extra"], json!({})) });
    dock.post("/api/servers", &json!({ "servers": servers }))
        .await;
    for (id, stream) in ids.iter().zip(&mut streams) {
        assert_eq!(stream.message().await, Some(changed(id)));
    }
    dock.client().delete("/api/servers/b").await.unwrap();
    for (id, stream) in ids.iter().zip(&mut streams) {
        assert_eq!(stream.message().await, Some(changed(id)));
    }
    dock.stop.cancel();
    for (id, mut stream) in ids.iter().zip(streams) {
        let end = stream.message().await;
        let result = json!({
            "resultType": "complete",
            "_meta": { SUBSCRIPTION_KEY: id, SERVER_KEY: server_info() },
        });
        assert_eq!(
            end,
            Some(json!({ "jsonrpc": "2.0", "id": id, "result": result }))
        );
        assert_eq!(stream.message().await, None);
    }
    dock.closed().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_is_told_nothing_it_did_not_ask_for() {
    let dock = Dock::new(plain()).await;
    let list = dock.stateless(0, "tools/list", json!({})).send().await;
    assert_eq!(list.status, 200);
    let mut quiet = listen(&dock, json!("quiet"), json!({})).await;
    assert_eq!(
        quiet.message().await,
        Some(acknowledged(&json!("quiet"), json!({})))
    );
    let off = json!({ "toolsListChanged": false });
    let mut off = listen(&dock, json!("off"), off).await;
    assert_eq!(
        off.message().await,
        Some(acknowledged(&json!("off"), json!({})))
    );
    let mut loud = listen(&dock, json!("loud"), json!({ "toolsListChanged": true })).await;
    loud.message().await;
    dock.client().delete("/api/servers/a").await.unwrap();
    assert_eq!(loud.message().await, Some(changed(&json!("loud"))));
    dock.stop.cancel();
    for stream in [&mut quiet, &mut off] {
        // Either it was closed at once, or it is now; there is nothing between.
        let end = stream.message().await.unwrap();
        assert_eq!(end["result"]["resultType"], "complete", "{end}");
    }
    dock.closed().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_says_what_it_wants() {
    let dock = Dock::new(json!({})).await;
    for params in [
        json!({}),
        json!({ "notifications": null }),
        json!({ "notifications": [] }),
    ] {
        let ask = dock.stateless("q", "subscriptions/listen", params.clone());
        refused(&params.to_string(), ask, 400, -32602).await;
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_is_told_of_a_servers_own_change() {
    for era in [None, Some("modern")] {
        let modes: Vec<&str> = ["list-changed-on-call"].into_iter().chain(era).collect();
        let dock = Dock::new(json!({ "a": fake(&modes, json!({})) })).await;
        let list = async || {
            dock.stateless(0, "tools/list", json!({}))
                .send()
                .await
                .json()
                .await
        };
        assert_eq!(names(&list().await["result"]).len(), 5);
        let id = json!("L");
        let mut stream = listen(&dock, id.clone(), json!({ "toolsListChanged": true })).await;
        stream.message().await.unwrap();
        let call = dock.stateless(1, "tools/call", json!({ "name": "work" }));
        assert_eq!(call.send().await.status, 200);
        assert_eq!(stream.message().await, Some(changed(&id)), "{era:?}");
        assert_eq!(names(&list().await["result"]).len(), 6);
        dock.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_era_is_told_by_body_and_header() {
    let dock = Dock::new(json!({})).await;
    let bare = |version: &str| {
        let ask = dock.mcp(&request("q", "tools/list", json!({})));
        ask.header("MCP-Protocol-Version", version)
    };
    // A header that only the stateless era could mean.
    refused("modern header", bare(MODERN), 400, -32602).await;
    refused("unknown header", bare("v9"), 400, -32602).await;
    // A header of the handshake era wants a session.
    refused("older header", bare("2025-11-25"), 400, -32000).await;
    dock.close().await;
}
