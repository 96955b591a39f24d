//! The endpoint over HTTP for clients of 2024-11-05 … 2025-11-25.

use serde_json::{Value, json};
use wharfinger_testkit::Home;

use crate::dock::{Caller, Dock, fake, initialize, mode, plain, request};
use crate::http::{Ask, Response};

const LATEST: &str = "2025-11-25";

/// Status and JSON-RPC error code.
async fn code(ask: Ask) -> (u16, Value) {
    let response = ask.send().await;
    let status = response.status;
    let message = response.messages().await.pop().unwrap();
    (status, message["error"]["code"].clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_is_agreed_on() {
    let dock = Dock::new(json!({})).await;
    for (requested, answered) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("2024-10-07", "2025-11-25"),
        ("2030-01-01", "2025-11-25"),
        ("", "2025-11-25"),
    ] {
        let response = dock.mcp(&initialize("i", requested)).send().await;
        assert_eq!(
            (response.status, response.kind()),
            (200, "application/json")
        );
        let session = response.header("mcp-session-id").unwrap();
        assert!(session.bytes().all(|byte| byte.is_ascii_graphic()));
        let reply = response.json().await;
        let info = json!({
            "name": "wharfinger", "title": "Wharfinger", "version": env!("CARGO_PKG_VERSION"),
        });
        let result = json!({
            "protocolVersion": answered,
            // No server is there yet, so any may come.
            "capabilities": {
                "logging": {}, "completions": {}, "prompts": { "listChanged": true },
                "resources": { "listChanged": true, "subscribe": true },
                "tools": { "listChanged": true },
            },
            "serverInfo": info,
        });
        let expect = json!({ "jsonrpc": "2.0", "id": "i", "result": result });
        assert_eq!(reply, expect, "{requested}");
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_initialize_that_is_none_is_refused() {
    let dock = Dock::new(json!({})).await;
    for params in [
        json!({}),
        json!([]),
        json!(null),
        json!({ "protocolVersion": 7 }),
    ] {
        let response = dock
            .mcp(&request(9, "initialize", params.clone()))
            .send()
            .await;
        assert_eq!(response.header("mcp-session-id"), None);
        let reply = response.json().await;
        assert_eq!(
            (&reply["id"], &reply["error"]["code"]),
            (&json!(9), &json!(-32602)),
            "{params}"
        );
    }
    assert_eq!(dock.get("/api/status").await["sessions"], 0);
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_requests_are_answered_in_plain_json() {
    let dock = Dock::new(plain()).await;
    let caller = dock.handshake(LATEST).await;
    for (method, params, expect) in [
        ("ping", json!({}), json!({ "result": {} })),
        (
            "logging/setLevel",
            json!({ "level": "warning" }),
            json!({ "result": {} }),
        ),
        (
            "logging/setLevel",
            json!({ "level": "loud" }),
            json!({ "error": -32602 }),
        ),
        ("logging/setLevel", json!({}), json!({ "error": -32602 })),
        ("no/such", json!({}), json!({ "error": -32601 })),
        ("server/discover", json!({}), json!({ "error": -32601 })),
        ("prompts/list", json!({}), json!({ "error": -32601 })),
        ("resources/list", json!({}), json!({ "error": -32601 })),
        ("tools/call", json!({}), json!({ "error": -32602 })),
        ("tools/call", json!([]), json!({ "error": -32602 })),
        (
            "tools/call",
            json!({ "name": 5 }),
            json!({ "error": -32602 }),
        ),
        (
            "tools/call",
            json!({ "name": "echo", "arguments": [] }),
            json!({ "error": -32602 }),
        ),
    ] {
        for id in [json!(0), json!(7), json!("x"), json!("7"), json!(-3)] {
            let response = caller.ask(id.clone(), method, params.clone()).send().await;
            let told = format!("{method} {params}");
            assert_eq!(
                (response.status, response.kind()),
                (200, "application/json"),
                "{told}"
            );
            assert_eq!(response.header("mcp-session-id"), Some(&*caller.session));
            let mut reply = response.json().await;
            assert_eq!(reply["id"].take(), id, "{told}");
            match expect.get("error") {
                Some(code) => assert_eq!(reply["error"]["code"], *code, "{told}"),
                None => assert_eq!(reply["result"], expect["result"], "{told}"),
            }
        }
    }
    // The latest version does not need its header, and older clients do not send it.
    let bare = dock.mcp(&request(1, "ping", json!({})));
    let bare = bare.header("Mcp-Session-Id", &caller.session).send().await;
    assert_eq!(bare.json().await["result"], json!({}));
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_named_and_known_or_the_request_is_refused() {
    let dock = Dock::new(json!({})).await;
    let caller = dock.handshake(LATEST).await;
    let ping = request(1, "ping", json!({}));
    let notification = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let response = json!({ "jsonrpc": "2.0", "id": 1, "result": {} });
    for message in [&ping, &notification, &response] {
        let check = async |ask: Ask, expect: u16| {
            assert_eq!(ask.send().await.status, expect, "{message}");
        };
        check(dock.mcp(message), 400).await;
        check(dock.mcp(message).header("Mcp-Session-Id", ""), 404).await;
        check(dock.mcp(message).header("Mcp-Session-Id", "unknown"), 404).await;
        check(
            caller
                .message(message)
                .header("MCP-Protocol-Version", "1999-01-01"),
            400,
        )
        .await;
        check(
            caller.message(message),
            if *message == ping { 200 } else { 202 },
        )
        .await;
    }
    let missing = dock.mcp(&ping).send().await.json().await;
    assert_eq!(missing["error"]["code"], -32000);
    let unknown = dock.mcp(&ping).header("Mcp-Session-Id", "x").send().await;
    assert_eq!(unknown.json().await["error"]["code"], -32001);
    let version = caller
        .message(&ping)
        .header("MCP-Protocol-Version", "1999-01-01");
    assert_eq!(version.send().await.json().await["id"], 1);
    assert_eq!(
        code(caller.message(&initialize(5, LATEST))).await,
        (400, json!(-32600))
    );
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notification_gets_an_empty_202() {
    let dock = Dock::new(json!({})).await;
    let caller = dock.handshake(LATEST).await;
    for method in [
        "notifications/initialized",
        "notifications/cancelled",
        "notifications/roots/list_changed",
        "notifications/no/such",
    ] {
        for params in [
            None,
            Some(json!({})),
            Some(json!({ "requestId": 77 })),
            Some(json!([])),
        ] {
            let mut message = json!({ "jsonrpc": "2.0", "method": method });
            if let Some(params) = params {
                message["params"] = params;
            }
            let response = caller.message(&message).send().await;
            assert_eq!(response.status, 202, "{message}");
            assert_eq!(response.text().await, "");
        }
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_ends_once() {
    let dock = Dock::new(json!({})).await;
    dock.post("/api/agents", &json!({ "name": "other" })).await;
    let caller = dock.handshake(LATEST).await;
    let other = Ask::new(dock.address, "DELETE", "/agents/other/mcp");
    let other = caller.dressed(other.bearer(&dock.token_of("other").await));
    assert_eq!(other.send().await.status, 404, "another agent's session");
    assert_eq!(caller.result(1, "ping", json!({})).await, json!({}));
    assert_eq!(
        caller
            .delete()
            .without("Mcp-Session-Id")
            .send()
            .await
            .status,
        400
    );
    assert_eq!(caller.delete().send().await.status, 200);
    assert_eq!(caller.delete().send().await.status, 404);
    assert_eq!(
        code(caller.ask(1, "tools/list", json!({}))).await,
        (404, json!(-32001))
    );
    // Its client may begin another, with the old id still in its hand.
    let again = caller.message(&initialize(1, LATEST)).send().await;
    assert_eq!(again.status, 200);
    assert_ne!(again.header("mcp-session-id"), Some(&*caller.session));
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn v60_the_end_of_a_session_stops_its_servers() {
    let dock = Dock::new(plain()).await;
    let (first, second) = (dock.handshake(LATEST).await, dock.handshake(LATEST).await);
    let pid = first.call("pid", json!({})).await;
    assert_eq!(
        second.call("pid", json!({})).await,
        pid,
        "one agent, one instance"
    );
    assert_eq!(first.delete().send().await.status, 200);
    assert_eq!(second.call("pid", json!({})).await, pid);
    assert_eq!(second.delete().send().await.status, 200);
    assert_eq!(dock.processes(), Vec::<u32>::new());
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_nobody_uses_ends_by_itself_unless_its_stream_is_open() {
    let dock = Dock::with(plain(), json!({ "sessionIdleSeconds": 0.3 })).await;
    let caller = dock.handshake(LATEST).await;
    caller.call("work", json!({})).await;
    dock.until_no_process().await;
    assert_eq!(
        code(caller.ask(1, "ping", json!({}))).await,
        (404, json!(-32001))
    );
    let caller = dock.handshake(LATEST).await;
    let stream = caller.stream().await;
    // Another one that has no stream ends meanwhile.
    let shorter = dock.handshake(LATEST).await;
    dock.until_sessions(1).await;
    assert_eq!(
        code(shorter.ask(1, "ping", json!({}))).await,
        (404, json!(-32001))
    );
    assert_eq!(caller.result(1, "ping", json!({})).await, json!({}));
    drop(stream);
    dock.until_sessions(0).await;
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_of_an_agent_are_bounded() {
    let dock = Dock::with(json!({}), json!({ "maxSessions": 2 })).await;
    let (first, second) = (dock.handshake(LATEST).await, dock.handshake(LATEST).await);
    let third = dock.handshake(LATEST).await;
    assert_eq!(
        code(first.ask(1, "ping", json!({}))).await,
        (404, json!(-32001)),
        "the one not heard of for longest made room"
    );
    let streams = (second.stream().await, third.stream().await);
    assert_eq!(
        code(dock.mcp(&initialize(3, LATEST))).await,
        (503, json!(-32603)),
        "both are in use"
    );
    drop(streams);
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_has_one_stream() {
    let dock = Dock::new(json!({})).await;
    let caller = dock.handshake(LATEST).await;
    let get = || {
        let ask = Ask::new(dock.address, "GET", "/agents/default/mcp").bearer(&dock.token);
        caller.dressed(ask)
    };
    for (ask, status) in [
        (get().without("Mcp-Session-Id"), 400),
        (get().header("Mcp-Session-Id", "x"), 404),
        (get().header("Accept", "application/json"), 406),
    ] {
        assert_eq!(ask.send().await.status, status);
    }
    let stream = caller.stream().await;
    assert_eq!(stream.header("mcp-session-id"), Some(&*caller.session));
    assert_eq!(
        code(get().header("Accept", "text/event-stream")).await,
        (409, json!(-32000))
    );
    drop(stream);
    // Once the first is gone, there may be another.
    loop {
        let next = get().send().await;
        if next.status == 200 {
            break;
        }
        assert_eq!(next.status, 409);
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stream_of_a_session_ends_with_it() {
    let dock = Dock::new(json!({})).await;
    let caller = dock.handshake(LATEST).await;
    let mut stream = caller.stream().await;
    assert_eq!(caller.delete().send().await.status, 200);
    assert_eq!(stream.message().await, None);
    dock.close().await;
}

fn changed() -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stream_tells_of_servers_that_come_and_go() {
    let dock = Dock::new(plain()).await;
    let caller = dock.handshake(LATEST).await;
    assert_eq!(caller.names().await.len(), 5);
    let mut stream = caller.stream().await;
    let servers = json!({ "b": fake(&["tool=extra"], json!({})) });
    dock.post("/api/servers", &json!({ "servers": servers }))
        .await;
    assert_eq!(stream.message().await, Some(changed()));
    assert_eq!(caller.names().await.last().unwrap(), "extra");
    dock.client().delete("/api/servers/b").await.unwrap();
    assert_eq!(stream.message().await, Some(changed()));
    assert_eq!(caller.names().await.len(), 5);
    dock.client()
        .post("/api/servers/a/disable", None)
        .await
        .unwrap();
    assert_eq!(stream.message().await, Some(changed()));
    assert_eq!(caller.names().await, Vec::<String>::new());
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stream_tells_of_a_servers_own_change() {
    let dock = Dock::new(json!({ "a": fake(&["list-changed-on-call"], json!({})) })).await;
    let caller = dock.handshake(LATEST).await;
    assert_eq!(caller.names().await.len(), 5);
    let mut stream = caller.stream().await;
    caller.call("work", json!({})).await;
    assert_eq!(stream.message().await, Some(changed()));
    assert_eq!(caller.names().await.last().unwrap(), "added_1");
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_from_before_the_stream_is_told_on_it() {
    let dock = Dock::new(plain()).await;
    let caller = dock.handshake(LATEST).await;
    caller.names().await;
    dock.client().delete("/api/servers/a").await.unwrap();
    assert_eq!(caller.stream().await.message().await, Some(changed()));
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_messages_come_with_the_call_from_the_level_asked_for() {
    let dock = Dock::new(json!({ "a": fake(&["log=warning"], json!({})) })).await;
    let caller = dock.handshake(LATEST).await;
    let log = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": {
        "level": "warning", "logger": "fake", "data": "working on \"work\"",
    } });
    for (level, told) in [
        (None, true),
        (Some("debug"), true),
        (Some("warning"), true),
        (Some("error"), false),
        (Some("emergency"), false),
        (Some("info"), true),
    ] {
        if let Some(level) = level {
            caller
                .result(1, "logging/setLevel", json!({ "level": level }))
                .await;
        }
        let reply = caller
            .ask(2, "tools/call", json!({ "name": "work" }))
            .send()
            .await;
        let messages = reply.messages().await;
        let notes = &messages[..messages.len() - 1];
        let expect = if told {
            std::slice::from_ref(&log)
        } else {
            &[]
        };
        assert_eq!(notes, expect, "{level:?}");
        assert_eq!(messages.last().unwrap()["id"], 2);
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_comes_before_the_reply_in_order_with_the_clients_token() {
    let dock = Dock::new(json!({ "a": fake(&["progress=20"], json!({})) })).await;
    let caller = dock.handshake(LATEST).await;
    for token in [
        json!(0),
        json!(41),
        json!("p"),
        json!(""),
        json!("41"),
        json!(-5),
    ] {
        let params = json!({ "name": "work", "_meta": { "progressToken": token } });
        let reply = caller.ask(2, "tools/call", params).send().await;
        assert_eq!(reply.status, 200);
        assert_eq!(reply.header("mcp-session-id"), Some(&*caller.session));
        let messages = reply.messages().await;
        assert_eq!(messages.len(), 21);
        for (step, message) in (1..).zip(&messages[..20]) {
            let params = json!({
                "progressToken": token, "progress": step, "total": 20,
                "message": format!("step {step}"),
            });
            let expect = json!({
                "jsonrpc": "2.0", "method": "notifications/progress", "params": params,
            });
            assert_eq!(*message, expect);
        }
        assert_eq!(messages[20]["id"], 2);
    }
    // Without a token there is none.
    for meta in [
        json!({}),
        json!({ "progressToken": true }),
        json!({ "progressToken": null }),
    ] {
        let params = json!({ "name": "work", "_meta": meta });
        let reply = caller.ask(2, "tools/call", params).send().await;
        assert_eq!(reply.kind(), "application/json");
        reply.json().await;
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_without_notifications_is_always_plain_json() {
    let dock = Dock::new(plain()).await;
    let caller = dock.handshake(LATEST).await;
    for n in 0..300 {
        let params = json!({ "name": "echo", "arguments": { "message": "hi" } });
        let reply = caller.ask(n, "tools/call", params).send().await;
        assert_eq!(
            (reply.status, reply.kind()),
            (200, "application/json"),
            "reply {n}"
        );
        let expect = json!({ "content": [{ "type": "text", "text": "hi" }] });
        assert_eq!(reply.json().await["result"], expect);
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_call_comes_to_is_a_result_that_a_model_can_read() {
    let dock = Dock::new(json!({
        "bad": fake(&["tool-error", "tool=bad"], json!({})),
        "dies": fake(&["crash-after=1", "tool=dies"], json!({})),
        "slow": fake(&["hang-call", "tool=slow"], json!({ "callTimeoutSeconds": 0.2 })),
        "refuses": fake(&["error-no-message", "tool=refuses"], json!({})),
    }))
    .await;
    let caller = dock.handshake(LATEST).await;
    for (name, text) in [
        ("bad", "it failed"),
        ("dies", "exited (code 42)"),
        ("slow", "0.2 s"),
        ("none", "none"),
    ] {
        let result = caller
            .result(1, "tools/call", json!({ "name": name }))
            .await;
        assert_eq!(result["isError"], true, "{name}");
        let told = result["content"][0]["text"].as_str().unwrap();
        assert!(told.contains(text), "{name}: {told}");
    }
    let ask = caller.ask(1, "tools/call", json!({ "name": "refuses" }));
    assert_eq!(code(ask).await, (200, json!(-32000)));
    dock.close().await;
}

/// A call that has reached the fake server `a` and waits there.
async fn held(caller: &Caller<'_>, id: Value) -> Response {
    let params = json!({ "name": "work", "_meta": { "progressToken": 1 } });
    let mut response = caller.ask(id, "tools/call", params).send().await;
    let note = response.message().await.unwrap();
    assert_eq!(note["method"], "notifications/progress");
    response
}

fn holding(home: &Home, more: &[&str]) -> Value {
    let (file, gate) = (
        mode(home, "cancel-file", "cancelled"),
        mode(home, "wait-for", "gate"),
    );
    let modes: Vec<&str> = [&*file, &*gate, "progress=1"]
        .into_iter()
        .chain(more.iter().copied())
        .collect();
    json!({ "mcpServers": { "a": fake(&modes, json!({ "parallel": true })) } })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn v65_a_cancelled_call_is_cancelled_at_the_server_and_gets_no_reply() {
    let home = Home::new();
    home.write_settings(&holding(&home, &[]));
    let dock = Dock::at(home).await;
    let caller = dock.handshake(LATEST).await;
    for (count, id) in (1..).zip([json!(3), json!("3"), json!("x")]) {
        let mut call = held(&caller, id.clone()).await;
        let cancel = |id: &Value| {
            let params = json!({ "requestId": id, "reason": "enough" });
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })
        };
        // Another id, or the same in another type, is another request.
        let other = if id == 3 { json!("3") } else { json!(3) };
        for unknown in [json!(99), other, json!(null)] {
            assert_eq!(caller.message(&cancel(&unknown)).send().await.status, 202);
        }
        assert_eq!(dock.home.lines("cancelled").len(), count - 1);
        assert_eq!(caller.message(&cancel(&id)).send().await.status, 202);
        assert_eq!(call.message().await, None);
        dock.until_lines("cancelled", count).await;
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_hangs_up_has_not_taken_its_call_back() {
    let home = Home::new();
    let count = mode(&home, "record", "record");
    home.write_settings(&holding(&home, &[&count]));
    let dock = Dock::at(home).await;
    let caller = dock.handshake(LATEST).await;
    drop(held(&caller, json!(1)).await);
    // The next call is held as well, so the first would have been cancelled by now.
    let mut second = held(&caller, json!(2)).await;
    dock.home.write("gate", "");
    assert_eq!(second.message().await.unwrap()["id"], 2);
    assert_eq!(dock.home.read("cancelled"), "");
    assert_eq!(dock.home.read("record").matches("tools/call").count(), 2);
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_in_flight_are_answered_when_the_daemon_stops() {
    let home = Home::new();
    home.write_settings(&holding(&home, &[]));
    let dock = Dock::at(home).await;
    let caller = dock.handshake(LATEST).await;
    let mut call = held(&caller, json!(1)).await;
    let mut stream = caller.stream().await;
    dock.stop.cancel();
    let reply = call.message().await.unwrap();
    assert_eq!(
        (&reply["id"], call.message().await),
        (&json!(1), None),
        "{reply}"
    );
    assert_eq!(stream.message().await, None);
    dock.closed().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_2025_03_26_has_batches() {
    let dock = Dock::new(plain()).await;
    let call = |id: Value| request(id, "tools/call", json!({ "name": "work" }));
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let batch = json!([
        request(1, "ping", json!({})),
        call(json!("two")),
        note,
        { "jsonrpc": "2.0", "id": 3 },
        call(json!(4)),
        request(5, "no/such", json!({})),
    ]);
    let caller = dock.handshake("2025-03-26").await;
    let response = caller.message(&batch).send().await;
    assert_eq!(response.status, 200);
    let mut replies = response.messages().await;
    replies.sort_by_key(|reply| reply["id"].to_string());
    let ids: Vec<&Value> = replies.iter().map(|reply| &reply["id"]).collect();
    assert_eq!(
        ids,
        [&json!("two"), &json!(1), &json!(3), &json!(4), &json!(5)]
    );
    assert!(replies[0]["result"]["content"].is_array());
    assert_eq!(replies[2]["error"]["code"], -32600);
    assert_eq!(replies[4]["error"]["code"], -32601);
    let silent = caller.message(&json!([note, note])).send().await;
    assert_eq!((silent.status, silent.text().await), (202, String::new()));
    assert_eq!(code(caller.message(&json!([]))).await, (400, json!(-32600)));
    for version in ["2024-11-05", "2025-06-18", LATEST] {
        let caller = dock.handshake(version).await;
        assert_eq!(
            code(caller.message(&batch)).await,
            (400, json!(-32600)),
            "{version}"
        );
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_requests_of_one_session_run_at_once_up_to_its_limit() {
    let home = Home::new();
    home.write_settings(&holding(&home, &[]));
    home.write_config(&json!({ "daemon": { "maxSessionRequests": 3 } }));
    let dock = Dock::at(home).await;
    let caller = dock.handshake(LATEST).await;
    let mut calls = vec![];
    for id in 1..=3 {
        calls.push(held(&caller, json!(id)).await);
    }
    assert_eq!(
        code(caller.ask(4, "ping", json!({}))).await,
        (200, json!(-32603))
    );
    dock.home.write("gate", "");
    for (id, call) in (1..).zip(&mut calls) {
        assert_eq!(call.message().await.unwrap()["id"], id);
    }
    assert_eq!(caller.result(5, "ping", json!({})).await, json!({}));
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn replies_to_many_clients_at_once_are_plain_json_with_their_status() {
    let dock = Dock::new(plain()).await;
    let caller = dock.handshake(LATEST).await;
    caller.names().await;
    let odd = std::sync::Mutex::new(vec![]);
    let client = async |n: usize| {
        for round in 0..60 {
            let id = n * 1000 + round;
            let (ask, status) = match round % 3 {
                0 => (caller.ask(id, "tools/list", json!({})), 200),
                1 => (dock.stateless(id, "tools/list", json!({})), 200),
                _ => (dock.stateless(id, "tools/call", json!({})), 400),
            };
            let response = ask.send().await;
            if (response.status, response.kind()) != (status, "application/json") {
                let told = format!("{} {}", response.status, response.kind());
                odd.lock().unwrap().push(told);
            }
            response.messages().await;
        }
    };
    futures_util::future::join_all((0..32).map(client)).await;
    assert_eq!(odd.into_inner().unwrap(), Vec::<String>::new());
    dock.close().await;
}
