//! What servers ask in the middle of a call, in every pairing of eras.

use serde_json::{Value, json};

use crate::dock::{Caller, Dock, fake, mode};
use crate::http::Response;
use crate::stdio::Pipe;
use wharfinger_testkit::Home;

const LATEST: &str = "2025-11-25";
/// What a tool of the fake server asks for, and what a client declares for it.
const ASKS: [(&str, &str); 3] = [
    ("elicitation/create", "elicitation"),
    ("sampling/createMessage", "sampling"),
    ("roots/list", "roots"),
];

/// One server of this era that asks for something.
async fn asking(era: &[&str], method: &str) -> Dock {
    let ask = format!("ask={method}");
    let modes: Vec<&str> = era.iter().copied().chain([ask.as_str()]).collect();
    Dock::new(json!({ "a": fake(&modes, json!({ "roots": "client" })) })).await
}

/// What a client may answer.
fn answer(method: &str) -> Value {
    match method {
        "elicitation/create" => json!({ "action": "accept", "content": { "yes": true } }),
        "roots/list" => json!({ "roots": [{ "uri": "file:///somewhere" }] }),
        _ => {
            json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "hi" } })
        }
    }
}

/// What the server was told, which is the text of its result.
fn told(reply: &Value) -> Value {
    let text = reply["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("no text in {reply}"));
    serde_json::from_str(text).unwrap_or_else(|_| panic!("not JSON: {text}"))
}

async fn work(caller: &Caller<'_>, id: i64) -> Response {
    let params = json!({ "name": "work" });
    caller.ask(id, "tools/call", params).send().await
}

/// Answers the question of a call that `stream` replies to; the reply tells the answer.
async fn decide(caller: &Caller<'_>, stream: &mut Response, asked: &Value, action: &str) {
    let answer = json!({ "action": action });
    caller.answer(asked, &answer).await;
    assert_eq!(told(&stream.message().await.unwrap()), answer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handshake_client_is_asked_in_its_own_way_whatever_the_server_speaks() {
    for era in [&[][..], &["modern-only"]] {
        for (method, capability) in ASKS {
            let dock = asking(era, method).await;
            let caller = dock.handshake_as(LATEST, json!({ capability: {} })).await;
            let mut stream = work(&caller, 7).await;
            let asked = stream.message().await.unwrap();
            assert_eq!(asked["method"], method, "{era:?} {asked}");
            caller.answer(&asked, &answer(method)).await;
            let reply = stream.message().await.unwrap();
            assert_eq!(reply["id"], 7);
            assert_eq!(told(&reply), answer(method), "{era:?} {method}");
            // A second answer, and one to nothing at all, change nothing.
            caller.answer(&asked, &json!({})).await;
            caller
                .answer(&json!({ "id": "wharfinger-99" }), &json!({}))
                .await;
            dock.close().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stateless_client_is_asked_in_its_own_way_whatever_the_server_speaks() {
    for era in [&[][..], &["modern-only"]] {
        for (method, capability) in ASKS {
            let dock = asking(era, method).await;
            let call = |id: i64, params: Value| {
                dock.stateless_as(json!({ capability: {} }), id, "tools/call", params)
            };
            let first = call(1, json!({ "name": "work" })).send().await;
            let asked = first.json().await["result"].clone();
            assert_eq!(asked["resultType"], "input_required", "{era:?} {asked}");
            let requests = asked["inputRequests"].as_object().unwrap();
            let (name, request) = requests.iter().next().unwrap();
            assert_eq!((requests.len(), &request["method"]), (1, &json!(method)));
            let state = asked["requestState"].as_str().unwrap();
            assert!(
                !state.contains("state-1"),
                "the server's own state is sealed"
            );
            let again = json!({
                "name": "work", "requestState": state, "inputResponses": { name: answer(method) },
            });
            let reply = call(2, again.clone()).send().await.json().await;
            assert_eq!(told(&reply), answer(method), "{era:?} {method}");
            assert_eq!(reply["result"]["resultType"], "complete");
            dock.close().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_to_one_client_is_nobody_elses_to_answer() {
    let dock = asking(&[], "elicitation/create").await;
    let can = || json!({ "elicitation": {} });
    let caller = dock.handshake_as(LATEST, can()).await;
    let other = dock.handshake_as(LATEST, can()).await;
    let mut stream = work(&caller, 1).await;
    let asked = stream.message().await.unwrap();
    other.answer(&asked, &json!({ "action": "decline" })).await;
    decide(&caller, &mut stream, &asked, "accept").await;
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_is_of_use_to_whom_it_was_given_once_and_for_the_same_request() {
    for era in [&[][..], &["modern-only"]] {
        let dock = asking(era, "elicitation/create").await;
        let can = || json!({ "elicitation": {} });
        let call = |id: i64, params: Value| dock.stateless_as(can(), id, "tools/call", params);
        let first = call(1, json!({ "name": "work" })).send().await.json().await;
        let asked = &first["result"];
        let name = asked["inputRequests"]
            .as_object()
            .unwrap()
            .keys()
            .next()
            .unwrap();
        let again = |tool: &str, state: &str| {
            json!({
                "name": tool, "requestState": state,
                "inputResponses": { name: answer("elicitation/create") },
            })
        };
        let state = asked["requestState"].as_str().unwrap();
        let refused = |reply: Value| assert_eq!(reply["error"]["code"], -32602, "{reply}");
        for odd in [
            "",
            "x",
            "wharf-park.0",
            &format!("{state}x"),
            &state[..state.len() - 1],
        ] {
            refused(call(2, again("work", odd)).send().await.json().await);
        }
        refused(call(3, again("echo", state)).send().await.json().await);
        let odd = json!({ "name": "work", "requestState": state, "inputResponses": 7 });
        if era.is_empty() {
            refused(call(4, odd).send().await.json().await);
        }
        // Another description is another session, and another agent is none of this one's business.
        let others = json!({ "elicitation": {}, "sampling": {} });
        let reply = dock.stateless_as(others, 5, "tools/call", again("work", state));
        refused(reply.send().await.json().await);
        let reply = call(6, again("work", state)).send().await.json().await;
        assert_eq!(told(&reply), answer("elicitation/create"));
        if era.is_empty() {
            refused(call(7, again("work", state)).send().await.json().await);
        }
        dock.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_out_is_asked_again() {
    let dock = Dock::new(json!({
        "a": fake(&["ask=elicitation/create", "ask=sampling/createMessage"], json!({})),
    }))
    .await;
    let can = || json!({ "elicitation": {}, "sampling": {} });
    let call = |params: Value| dock.stateless_as(can(), 1, "tools/call", params);
    let mut params = json!({ "name": "work" });
    let mut methods = vec![];
    // One that brings nothing, then one answer at a time.
    for bring in [false, true, true] {
        let asked = call(params.clone()).send().await.json().await["result"].clone();
        let requests = asked["inputRequests"].as_object().unwrap();
        let (name, request) = requests.iter().next().unwrap();
        let method = request["method"].as_str().unwrap().to_owned();
        params["requestState"] = asked["requestState"].clone();
        params["inputResponses"] = if bring {
            json!({ name: answer(&method), "unasked": {} })
        } else {
            json!({})
        };
        methods.push(method);
    }
    let expect = [
        "elicitation/create",
        "elicitation/create",
        "sampling/createMessage",
    ];
    assert_eq!(methods, expect);
    let reply = call(params).send().await.json().await;
    let both = json!([
        answer("elicitation/create"),
        answer("sampling/createMessage")
    ]);
    assert_eq!(told(&reply), both);
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_may_ask_only_what_its_client_declared() {
    // A server of the handshake era is told no, and makes the best of it.
    let dock = asking(&[], "sampling/createMessage").await;
    let caller = dock
        .handshake_as(LATEST, json!({ "elicitation": {} }))
        .await;
    let reply = work(&caller, 1).await.messages().await.pop().unwrap();
    assert_eq!(told(&reply)["error"]["code"], -32601, "{reply}");
    dock.close().await;
    // One of the stateless era asks by its answer, which is an error then.
    let dock = asking(&["modern-only"], "sampling/createMessage").await;
    let caller = dock
        .handshake_as(LATEST, json!({ "elicitation": {} }))
        .await;
    let reply = work(&caller, 1).await.messages().await.pop().unwrap();
    assert_eq!(reply["error"]["code"], -32603, "{reply}");
    let call = dock.stateless_as(json!({}), 1, "tools/call", json!({ "name": "work" }));
    let response = call.send().await;
    assert_eq!(response.status, 400);
    let reply = response.json().await;
    assert_eq!(reply["error"]["code"], -32021, "{reply}");
    let needed = &reply["error"]["data"]["requiredCapabilities"];
    assert_eq!(*needed, json!({ "sampling": {} }));
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn v50_a_call_that_waits_for_its_client_lets_others_by() {
    let home = Home::new();
    let record = mode(&home, "record", "lines");
    let entry = fake(&["ask=elicitation/create", &record], json!({}));
    home.write_settings(&json!({ "mcpServers": { "a": entry } }));
    let dock = Dock::at(home).await;
    let can = || json!({ "elicitation": {} });
    // Nobody ever comes back for this one.
    let call = dock.stateless_as(can(), 1, "tools/call", json!({ "name": "work" }));
    let asked = call.send().await.json().await;
    assert_eq!(asked["result"]["resultType"], "input_required");
    let caller = dock.handshake_as(LATEST, can()).await;
    let mut first = work(&caller, 1).await;
    let one = first.message().await.unwrap();
    let mut second = work(&caller, 2).await;
    let two = second.message().await.unwrap();
    for (asked, stream, id) in [(&two, &mut second, 2), (&one, &mut first, 1)] {
        caller
            .answer(asked, &json!({ "action": "accept", "id": id }))
            .await;
        let reply = stream.message().await.unwrap();
        assert_eq!(
            (&reply["id"], &told(&reply)["id"]),
            (&json!(id), &json!(id))
        );
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn v65_taking_a_call_back_takes_its_question_back() {
    let home = Home::new();
    let cancelled = mode(&home, "cancel-file", "cancelled");
    let entry = fake(&["ask=elicitation/create", &cancelled], json!({}));
    home.write_settings(&json!({ "mcpServers": { "a": entry } }));
    let dock = Dock::at(home).await;
    let caller = dock
        .handshake_as(LATEST, json!({ "elicitation": {} }))
        .await;
    let mut stream = work(&caller, 1).await;
    let asked = stream.message().await.unwrap();
    let cancel = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 },
    });
    assert_eq!(caller.message(&cancel).send().await.status, 202);
    dock.until_lines("cancelled", 1).await;
    let back = stream.message().await.unwrap();
    assert_eq!(back["method"], "notifications/cancelled");
    assert_eq!(back["params"]["requestId"], asked["id"]);
    // The server is free for the next one.
    let mut stream = work(&caller, 2).await;
    let asked = stream.message().await.unwrap();
    decide(&caller, &mut stream, &asked, "decline").await;
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_answer_is_not_waited_for_for_ever() {
    let home = Home::new();
    let cancelled = mode(&home, "cancel-file", "cancelled");
    let entry = fake(&["ask=elicitation/create", &cancelled], json!({}));
    home.write_settings(&json!({ "mcpServers": { "a": entry } }));
    home.write_config(&json!({ "daemon": { "inputWaitSeconds": 0.3 } }));
    let dock = Dock::at(home).await;
    let can = || json!({ "elicitation": {} });
    let caller = dock.handshake_as(LATEST, can()).await;
    let messages = work(&caller, 1).await.messages().await;
    let methods: Vec<&Value> = messages.iter().map(|message| &message["method"]).collect();
    let expect = [
        json!("elicitation/create"),
        json!("notifications/cancelled"),
        Value::Null,
    ];
    assert_eq!(methods, expect.iter().collect::<Vec<_>>());
    assert_eq!(told(&messages[2])["error"]["code"], -32603);
    // A parked call is given up, and its server told so.
    let call = |params: Value| dock.stateless_as(can(), 1, "tools/call", params);
    let asked = call(json!({ "name": "work" })).send().await.json().await;
    dock.until_lines("cancelled", 1).await;
    let state = &asked["result"]["requestState"];
    let back = json!({ "name": "work", "requestState": state });
    let reply = call(back).send().await.json().await;
    assert_eq!(reply["error"]["code"], -32602, "{reply}");
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roots_are_the_owners_to_decide() {
    let home = Home::new();
    let workspace = format!("file://{}", home.file("workspaces/default").display());
    home.write_settings(&json!({ "mcpServers": {} }));
    let dock = Dock::at(home).await;
    for era in [&[][..], &["modern-only"]] {
        for (roots, expect) in [
            ("none", None),
            ("workspace", Some(workspace.as_str())),
            ("client", Some("file:///somewhere")),
        ] {
            let modes: Vec<&str> = era.iter().copied().chain(["ask=roots/list"]).collect();
            let servers = json!({ "a": fake(&modes, json!({ "roots": roots })) });
            dock.post(
                "/api/servers",
                &json!({ "servers": servers, "replace": true }),
            )
            .await;
            let caller = dock.handshake_as(LATEST, json!({ "roots": {} })).await;
            let mut stream = work(&caller, 1).await;
            let message = if roots == "client" {
                let asked = stream.message().await.unwrap();
                assert_eq!(asked["method"], "roots/list");
                caller.answer(&asked, &answer("roots/list")).await;
                stream.message().await.unwrap()
            } else {
                stream.messages().await.pop().unwrap()
            };
            let said = told(&message);
            assert_eq!(
                said["roots"][0]["uri"].as_str(),
                expect,
                "{era:?} {roots} {said}"
            );
            let call =
                |params: Value| dock.stateless_as(json!({ "roots": {} }), 1, "tools/call", params);
            let mut reply = call(json!({ "name": "work" })).send().await.json().await;
            if roots == "client" {
                let asked = &reply["result"];
                let name = asked["inputRequests"]
                    .as_object()
                    .unwrap()
                    .keys()
                    .next()
                    .unwrap();
                let again = json!({
                    "name": "work", "requestState": asked["requestState"],
                    "inputResponses": { name: answer("roots/list") },
                });
                reply = call(again).send().await.json().await;
            }
            assert_eq!(told(&reply), said, "{era:?} {roots}");
            assert_eq!(caller.delete().send().await.status, 200);
        }
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_owner_answers_is_not_asked_of_the_client() {
    let modes = ["modern-only", "ask=roots/list", "ask=elicitation/create"];
    let dock = Dock::new(json!({ "a": fake(&modes, json!({})) })).await;
    let can = || json!({ "roots": {}, "elicitation": {} });
    let call = |params: Value| dock.stateless_as(can(), 1, "tools/call", params);
    let asked = call(json!({ "name": "work" })).send().await.json().await["result"].clone();
    let requests = asked["inputRequests"].as_object().unwrap();
    let methods: Vec<&Value> = requests
        .values()
        .map(|request| &request["method"])
        .collect();
    assert_eq!(methods, [&json!("elicitation/create")]);
    let again = json!({
        "name": "work", "requestState": asked["requestState"],
        "inputResponses": { "q2": answer("elicitation/create") },
    });
    let said = told(&call(again).send().await.json().await);
    assert_eq!(said["q2"], answer("elicitation/create"));
    let root = said["q"]["roots"][0]["uri"].as_str().unwrap();
    assert!(root.ends_with("/workspaces/default"), "{root}");
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_over_stdio_is_asked_too() {
    let dock = asking(&[], "elicitation/create").await;
    let mut line = Pipe::of(&dock, "default").await;
    let hello = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": { "protocolVersion": LATEST, "capabilities": { "elicitation": {} }, "clientInfo": {} },
    });
    line.send(&hello).await;
    line.next().await.unwrap();
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "work" },
    });
    line.send(&call).await;
    let asked = line.next().await.unwrap();
    assert_eq!(asked["method"], "elicitation/create");
    let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "cancel" } });
    line.send(&answer).await;
    let reply = line.next().await.unwrap();
    assert_eq!(told(&reply), json!({ "action": "cancel" }));
    drop(line);
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_nobody_asked_for_do_not_reach_a_server() {
    let home = Home::new();
    let record = mode(&home, "record", "lines");
    home.write_settings(&json!({ "mcpServers": { "a": fake(&[&record], json!({})) } }));
    let dock = Dock::at(home).await;
    let params = json!({ "name": "work", "inputResponses": { "q": {} } });
    let call = dock.stateless_as(json!({ "elicitation": {} }), 1, "tools/call", params);
    assert_eq!(
        call.send().await.json().await["result"]["resultType"],
        "complete"
    );
    let lines = dock.home.lines("lines");
    assert!(
        !lines.iter().any(|line| line.contains("inputResponses")),
        "{lines:?}"
    );
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn v64_people_may_take_longer_than_a_call() {
    let entry = fake(
        &["ask=elicitation/create"],
        json!({ "callTimeoutSeconds": 0.2 }),
    );
    let dock = Dock::new(json!({ "a": entry })).await;
    let caller = dock
        .handshake_as(LATEST, json!({ "elicitation": {} }))
        .await;
    let mut stream = work(&caller, 1).await;
    let asked = stream.message().await.unwrap();
    // Twice its limit, and it still waits.
    let later = tokio::time::Instant::now() + std::time::Duration::from_millis(500);
    while tokio::time::Instant::now() < later {
        let path = format!("/api/agents/default/sessions/{}", caller.session);
        assert_eq!(dock.get(&path).await["calls"], 1);
    }
    decide(&caller, &mut stream, &asked, "accept").await;
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_hangs_up_is_not_asked() {
    let home = Home::new();
    let (record, gate) = (
        mode(&home, "record", "lines"),
        mode(&home, "wait-for", "gate"),
    );
    // It asks first, and is held after that: the question finds nobody.
    let entry = fake(
        &["slow-init=0.5", "ask=elicitation/create", &record, &gate],
        json!({}),
    );
    home.write_settings(&json!({ "mcpServers": { "a": entry } }));
    home.write("gate", "");
    let dock = Dock::at(home).await;
    let caller = dock
        .handshake_as(LATEST, json!({ "elicitation": {} }))
        .await;
    caller.names().await;
    let mut hung_up = Box::pin(work(&caller, 1));
    let path = format!("/api/agents/default/sessions/{}", caller.session);
    tokio::select! {
        _ = &mut hung_up => panic!("its server is not even there"),
        () = async {
            while dock.get(&path).await["calls"] != 1 {
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
        } => {}
    }
    drop(hung_up);
    // It ends on its own: the server is told that nobody answers.
    let over = async {
        while dock.get(&path).await["calls"] != 0 {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    crate::http::within("the call to end", over).await;
    let lines = dock.home.lines("lines");
    assert!(
        lines
            .iter()
            .any(|line| line.contains("the client does not read")),
        "{lines:?}"
    );
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roots_asked_for_at_the_start_are_answered_however_short_the_first_call() {
    let dock = Dock::new(json!({ "a": fake(&["roots"], json!({ "roots": "client" })) })).await;
    let caller = dock.handshake_as(LATEST, json!({ "roots": {} })).await;
    let params = json!({ "name": "work" });
    let mut stream = caller.ask(1, "tools/call", params).send().await;
    // The call is over before anybody has answered.
    let (mut asked, mut replied) = (None, false);
    while asked.is_none() || !replied {
        let message = stream.message().await.unwrap();
        match message.get("method") {
            Some(method) => {
                assert_eq!(method, "roots/list");
                asked = Some(message);
            }
            None => replied = true,
        }
    }
    caller.answer(&asked.unwrap(), &answer("roots/list")).await;
    let params = json!({ "name": "roots" });
    let reply = caller
        .ask(2, "tools/call", params)
        .send()
        .await
        .messages()
        .await
        .pop()
        .unwrap();
    assert_eq!(told(&reply), answer("roots/list"));
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_client_gets_another_ones_roots() {
    let dock = Dock::new(json!({ "a": fake(&["roots"], json!({ "roots": "client" })) })).await;
    // Clients without sessions share a server, which asks when it starts.
    let call = dock.stateless_as(
        json!({ "roots": {} }),
        1,
        "tools/call",
        json!({ "name": "roots" }),
    );
    let reply = call.send().await.json().await;
    assert_eq!(told(&reply)["error"]["code"], -32601, "{reply}");
    dock.close().await;
}
