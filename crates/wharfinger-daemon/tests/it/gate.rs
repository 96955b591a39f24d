//! Calls that wait for a person, as clients of either era and every other door see them.

use serde_json::{Value, json};
use wharfinger_testkit::Home;

use crate::dock::{Caller, Dock, fake, mode, names};
use crate::http::{Response, within};
use crate::stdio::Pipe;

const LATEST: &str = "2025-11-25";
const ECHO: &str = "mcp_a_echo";
const WORK: &str = "mcp_a_work";

/// Clients that are answered that their call waits are answered within a blink.
fn impatient() -> Value {
    json!({ "approvalPatienceSeconds": 0.1 })
}

/// A daemon whose clients are those of `bot`, an agent of the agent profile that has the fake server `a`; what it gets
/// is in the file `record`.
async fn bot(modes: &[&str], daemon: Value) -> Dock {
    let home = Home::new();
    let record = mode(&home, "record", "record");
    let modes: Vec<&str> = modes.iter().copied().chain([record.as_str()]).collect();
    home.write_settings(&json!({ "mcpServers": { "a": fake(&modes, json!({})) } }));
    home.write_config(&json!({ "daemon": daemon }));
    let mut dock = Dock::at(home).await;
    make(&dock, "bot").await;
    dock.serves("bot").await;
    dock
}

async fn make(dock: &Dock, agent: &str) {
    let new = json!({ "name": agent, "profile": "agent" });
    dock.post("/api/agents", &new).await;
    let servers = format!("/api/agents/{agent}/servers");
    dock.post(&servers, &json!({ "name": "a" })).await;
}

async fn approvals(dock: &Dock) -> Vec<Value> {
    let all = dock.get("/api/approvals").await;
    all["approvals"].as_array().unwrap().clone()
}

/// The one approval there is, as soon as it is in this stage and its caller like this.
async fn until(dock: &Dock, stage: &str, caller: &str) -> Value {
    let looking = async {
        loop {
            let all = approvals(dock).await;
            assert!(all.len() <= 1, "{all:?}");
            let one = all
                .into_iter()
                .find(|one| one["stage"] == stage && one["caller"] == caller);
            if let Some(one) = one {
                return one;
            }
            tokio::task::yield_now().await;
        }
    };
    within(&format!("an approval {stage}, {caller}"), looking).await
}

async fn decide(dock: &Dock, approval: &Value, answer: Value) {
    let id = approval["id"].as_str().unwrap();
    dock.post(&format!("/api/approvals/{id}"), &answer).await;
}

async fn approve(dock: &Dock, approval: &Value) {
    decide(dock, approval, json!({ "action": "approve" })).await;
}

/// How often the server was called.
fn calls(dock: &Dock) -> usize {
    let lines = dock.home.lines("record");
    let calls = lines.iter().filter(|line| line.contains("\"tools/call\""));
    calls.count()
}

/// How many approvals were ever asked for.
async fn asked(dock: &Dock) -> usize {
    let rows = dock.get("/api/journal?kind=approval.requested").await;
    rows["rows"].as_array().unwrap().len()
}

fn text(result: &Value) -> &str {
    let text = result["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("no text in {result}"))
}

/// A call of the stateless era; its result.
async fn call(dock: &Dock, capabilities: &Value, params: &Value) -> Value {
    let ask = dock.stateless_as(capabilities.clone(), 1, "tools/call", params.clone());
    let reply = ask.send().await.messages().await.pop().unwrap();
    assert!(reply.get("result").is_some(), "{reply}");
    reply["result"].clone()
}

/// The state of a result that tells its client to come back, and nothing else.
fn comes_back(result: &Value) -> String {
    assert_eq!(result["resultType"], "input_required", "{result}");
    assert_eq!(result.get("inputRequests"), None, "nothing is asked of it");
    let state = result["requestState"].as_str().unwrap();
    assert!(state.starts_with("wharf-seal."), "{state}");
    assert!(!state.contains("task_"), "{state}");
    state.to_owned()
}

/// A result that asks for what the server wants; the params that answer it.
fn answering(result: &Value, params: &Value) -> Value {
    assert_eq!(result["resultType"], "input_required", "{result}");
    let requests = result["inputRequests"].as_object();
    let requests = requests.unwrap_or_else(|| panic!("it asks for nothing: {result}"));
    let answers = requests.keys().map(|name| (name.clone(), yes()));
    let mut params = params.clone();
    params["inputResponses"] = Value::Object(answers.collect());
    params["requestState"] = result["requestState"].clone();
    params
}

fn yes() -> Value {
    json!({ "action": "accept", "content": { "yes": true } })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a223_a_stateless_client_comes_back_by_itself_until_somebody_has_decided() {
    let dock = bot(&[], impatient()).await;
    let none = json!({});
    let mut params = json!({ "name": ECHO, "arguments": { "message": "hi" } });
    let first = call(&dock, &none, &params).await;
    params["requestState"] = comes_back(&first).into();
    let asked = until(&dock, "pending_approval", "told").await;
    // It goes on with the same approval, however often it comes.
    for _ in 0..2 {
        let again = call(&dock, &none, &params).await;
        params["requestState"] = comes_back(&again).into();
    }
    let still = until(&dock, "pending_approval", "told").await;
    assert_eq!(still["id"], asked["id"]);
    assert_eq!(calls(&dock), 0);
    approve(&dock, &asked).await;
    until(&dock, "completed", "told").await;
    let result = call(&dock, &none, &params).await;
    assert_eq!(
        (text(&result), &result["resultType"]),
        ("hi", &json!("complete"))
    );
    assert_eq!(calls(&dock), 1);
    assert_eq!(approvals(&dock).await, Vec::<Value>::new());
    // The state of a call that is over begins a call like any other.
    comes_back(&call(&dock, &none, &params).await);
    let next = until(&dock, "pending_approval", "told").await;
    assert_ne!(next["id"], asked["id"]);
    // A228
    decide(
        &dock,
        &next,
        json!({ "action": "deny", "reason": "once is enough" }),
    )
    .await;
    assert_eq!(calls(&dock), 1);
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stateless_client_is_told_before_it_makes_an_error_of_coming_back_too_often() {
    let dock = bot(&[], impatient()).await;
    let none = json!({});
    let first = json!({ "name": ECHO, "arguments": { "message": "hi" } });
    let mut params = first.clone();
    let mut back = 0;
    let told = loop {
        let result = call(&dock, &none, &params).await;
        if result["resultType"] == "complete" {
            break result;
        }
        params["requestState"] = comes_back(&result).into();
        back += 1;
        assert!(back <= 10, "clients give up");
    };
    assert_eq!(back, 8);
    assert_eq!(told.get("isError"), None, "{told}");
    assert!(text(&told).contains("same arguments"), "{told}");
    let asked = until(&dock, "pending_approval", "told").await;
    approve(&dock, &asked).await;
    until(&dock, "completed", "told").await;
    assert_eq!(text(&call(&dock, &none, &first).await), "hi");
    assert_eq!(calls(&dock), 1);
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_state_of_a_call_that_waits_is_of_use_for_that_call_of_that_client_alone() {
    let mut dock = bot(&[], impatient()).await;
    make(&dock, "other").await;
    let none = json!({});
    let params = |name: &str, state: &str| json!({ "name": name, "arguments": { "message": "hi" }, "requestState": state });
    let first = json!({ "name": ECHO, "arguments": { "message": "hi" } });
    let state = comes_back(&call(&dock, &none, &first).await);
    let refused = async |dock: &Dock, capabilities: Value, params: Value| {
        let ask = dock.stateless_as(capabilities, 1, "tools/call", params);
        let reply = ask.send().await.json().await;
        assert_eq!(reply["error"]["code"], -32602, "{reply}");
    };
    refused(&dock, none.clone(), params(WORK, &state)).await;
    refused(&dock, json!({ "sampling": {} }), params(ECHO, &state)).await;
    refused(&dock, none.clone(), params(ECHO, &format!("{state}x"))).await;
    dock.serves("other").await;
    refused(&dock, none.clone(), params(ECHO, &state)).await;
    assert_eq!(approvals(&dock).await.len(), 1, "nothing else was asked");
    dock.serves("bot").await;
    comes_back(&call(&dock, &none, &params(ECHO, &state)).await);
    assert_eq!(approvals(&dock).await.len(), 1);
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_approval_is_good_for_all_rounds_of_a_stateless_call() {
    // The server speaks either era; whoever calls waits, or is told to come back.
    for era in [&["modern-only"][..], &[]] {
        for told in [false, true] {
            let daemon = if told { impatient() } else { json!({}) };
            let modes: Vec<&str> = era
                .iter()
                .copied()
                .chain(["ask=elicitation/create"])
                .collect();
            let dock = bot(&modes, daemon).await;
            let can = json!({ "elicitation": {} });
            let mut params = json!({ "name": WORK, "arguments": { "x": "1" } });
            let mut result = if told {
                params["requestState"] = comes_back(&call(&dock, &can, &params).await).into();
                approve(&dock, &until(&dock, "pending_approval", "told").await).await;
                until(&dock, "completed", "told").await;
                call(&dock, &can, &params).await
            } else {
                let calling = call(&dock, &can, &params);
                let approving = async {
                    approve(&dock, &until(&dock, "pending_approval", "waiting").await).await;
                };
                tokio::join!(calling, approving).0
            };
            if told && era.is_empty() {
                // Nobody was there to be asked.
                assert_eq!(result["resultType"], "complete", "{result}");
            } else {
                params = answering(&result, &params);
                result = call(&dock, &can, &params).await;
                assert_eq!(text(&result), yes().to_string(), "{era:?} {told}");
            }
            assert_eq!(asked(&dock).await, 1, "{era:?} {told}");
            assert_eq!(approvals(&dock).await, Vec::<Value>::new());
            let rounds = if era.is_empty() { 1 } else { 2 };
            assert_eq!(calls(&dock), rounds, "{era:?} {told}");
            // The next call is another one, also with those answers; what was parked can be gone on with only once.
            if era.is_empty() {
                params = json!({ "name": WORK, "arguments": { "x": "1" } });
            }
            let calling = call(&dock, &can, &params);
            let denying = async {
                let next = until(
                    &dock,
                    "pending_approval",
                    if told { "told" } else { "waiting" },
                );
                decide(&dock, &next.await, json!({ "action": "deny" })).await;
            };
            tokio::join!(calling, denying);
            assert_eq!(calls(&dock), rounds, "{era:?} {told}");
            dock.close().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a227_one_approval_with_other_arguments_is_good_for_all_rounds_too() {
    let dock = bot(&["modern-only", "ask=elicitation/create"], json!({})).await;
    let can = json!({ "elicitation": {} });
    let params = json!({ "name": WORK, "arguments": { "x": "1" } });
    let edited = json!({ "action": "approve", "modifiedArgs": { "x": "2" } });
    let calling = call(&dock, &can, &params);
    let approving = async {
        decide(
            &dock,
            &until(&dock, "pending_approval", "waiting").await,
            edited,
        )
        .await;
    };
    let (result, ()) = tokio::join!(calling, approving);
    let result = call(&dock, &can, &answering(&result, &params)).await;
    assert_eq!(text(&result), yes().to_string());
    assert_eq!(asked(&dock).await, 1);
    let lines = dock.home.lines("record");
    let sent = lines.iter().filter(|line| line.contains("\"tools/call\""));
    // What was allowed is what its server gets in each round.
    let arguments: Vec<Value> = sent
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["params"]["arguments"].clone())
        .collect();
    assert_eq!(arguments, [json!({ "x": "2" }), json!({ "x": "2" })]);
    dock.close().await;
}

async fn work(caller: &Caller<'_>) -> Response {
    let params = json!({ "name": WORK });
    caller.ask(1, "tools/call", params).send().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_approval_is_good_for_all_rounds_of_a_handshake_clients_call() {
    for era in [&["modern-only"][..], &[]] {
        let modes: Vec<&str> = era
            .iter()
            .copied()
            .chain(["ask=elicitation/create"])
            .collect();
        let dock = bot(&modes, json!({})).await;
        let caller = dock
            .handshake_as(LATEST, json!({ "elicitation": {} }))
            .await;
        let calling = async {
            let mut stream = work(&caller).await;
            let question = stream.message().await.unwrap();
            assert_eq!(question["method"], "elicitation/create", "{question}");
            assert_eq!(question["params"]["message"], "May I?", "the server's own");
            caller.answer(&question, &yes()).await;
            stream.message().await.unwrap()
        };
        let approving = async {
            approve(&dock, &until(&dock, "pending_approval", "waiting").await).await;
        };
        let (reply, ()) = tokio::join!(calling, approving);
        assert_eq!(text(&reply["result"]), yes().to_string());
        assert_eq!(asked(&dock).await, 1, "{era:?}");
        assert_eq!(approvals(&dock).await, Vec::<Value>::new());
        dock.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handshake_client_is_told_that_its_call_waits_and_that_is_no_error() {
    let dock = bot(&[], impatient()).await;
    let caller = dock.handshake(LATEST).await;
    let params = json!({ "name": ECHO, "arguments": { "message": "hi" } });
    let told = caller.result(1, "tools/call", params.clone()).await;
    assert_eq!(told.get("isError"), None, "{told}");
    let asked = until(&dock, "pending_approval", "told").await;
    let id = asked["id"].as_str().unwrap();
    assert!(text(&told).contains(id), "{told}");
    assert!(text(&told).contains("same arguments"), "{told}");
    approve(&dock, &asked).await;
    until(&dock, "completed", "told").await;
    let result = caller.result(2, "tools/call", params).await;
    assert_eq!(text(&result), "hi");
    assert_eq!(calls(&dock), 1);
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_hangs_up_leaves_an_approval_that_runs_nothing() {
    let dock = bot(&[], json!({})).await;
    let caller = dock.handshake(LATEST).await;
    let params = json!({ "name": ECHO, "arguments": { "message": "hi" } });
    for (nth, stateless) in [false, true].into_iter().enumerate() {
        let ask = |id: i64| {
            let mut params = params.clone();
            if id == 2 {
                // Who wants progress is answered with a stream at once.
                params["_meta"] = json!({ "progressToken": 7 });
            }
            if stateless {
                dock.stateless(id, "tools/call", params)
            } else {
                caller.ask(id, "tools/call", params)
            }
        };
        // Before the response has begun, and after that.
        let asked = tokio::select! {
            _ = ask(1).send() => None,
            asked = until(&dock, "pending_approval", "waiting") => Some(asked),
        };
        let asked = match asked {
            Some(asked) => asked,
            None => until(&dock, "pending_approval", "gone").await,
        };
        until(&dock, "pending_approval", "gone").await;
        let stream = ask(2).send().await;
        let same = until(&dock, "pending_approval", "waiting").await;
        assert_eq!(same["id"], asked["id"]);
        drop(stream);
        until(&dock, "pending_approval", "gone").await;
        approve(&dock, &asked).await;
        until(&dock, "approved", "gone").await;
        assert_eq!(calls(&dock), nth, "stateless: {stateless}");
        let reply = ask(3).send().await.messages().await.pop().unwrap();
        assert_eq!(text(&reply["result"]), "hi");
        assert_eq!(calls(&dock), nth + 1);
        assert_eq!(approvals(&dock).await, Vec::<Value>::new());
    }
    dock.close().await;
}

/// The ways in which clients come.
#[derive(Clone, Copy, Debug)]
enum Door {
    Handshake,
    Stateless,
    Stdio,
    Owner,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a196_p8_every_door_has_the_same_tools_and_the_same_gate() {
    let dock = bot(&[], json!({})).await;
    let params = json!({ "name": ECHO, "arguments": { "message": "hi" } });
    let mut seen = vec![];
    for (nth, door) in [Door::Handshake, Door::Stateless, Door::Stdio, Door::Owner]
        .into_iter()
        .enumerate()
    {
        let asking = async {
            match door {
                Door::Handshake => {
                    let caller = dock.handshake(LATEST).await;
                    let list = caller.result(1, "tools/list", json!({})).await;
                    let result = caller.result(2, "tools/call", params.clone()).await;
                    (names(&list), text(&result).to_owned())
                }
                Door::Stateless => {
                    let list = dock.stateless(1, "tools/list", json!({})).send().await;
                    let list = list.json().await["result"].clone();
                    let result = call(&dock, &json!({}), &params).await;
                    (names(&list), text(&result).to_owned())
                }
                Door::Stdio => {
                    let mut pipe = Pipe::of(&dock, "bot").await;
                    let mut ask = async |id: i64, method: &str, params: Value| {
                        pipe.send(&crate::dock::request(id, method, params)).await;
                        loop {
                            let message = pipe.next().await.unwrap();
                            if message["id"] == id {
                                return message["result"].clone();
                            }
                        }
                    };
                    let hello = crate::dock::initialize(0, LATEST)["params"].clone();
                    ask(0, "initialize", hello).await;
                    let list = ask(1, "tools/list", json!({})).await;
                    let result = ask(2, "tools/call", params.clone()).await;
                    (names(&list), text(&result).to_owned())
                }
                Door::Owner => {
                    let list = dock.get("/api/tools?agent=bot").await;
                    let body = json!({ "name": ECHO, "arguments": { "message": "hi" } });
                    let client = dock.client();
                    let mut events = client
                        .stream(hyper::Method::POST, "/api/agents/bot/call", Some(&body))
                        .await
                        .unwrap();
                    let result = loop {
                        let event = within("an event", events.next()).await.unwrap().unwrap();
                        if event.event == "result" {
                            break event.data;
                        }
                        assert_eq!(event.event, "waiting", "{:?}", event.data);
                    };
                    (names(&list), text(&result).to_owned())
                }
            }
        };
        let approving = async {
            let asked = until(&dock, "pending_approval", "waiting").await;
            assert_eq!(calls(&dock), nth, "{door:?}: nothing runs before");
            approve(&dock, &asked).await;
        };
        let ((mut names, said), ()) = tokio::join!(asking, approving);
        assert_eq!((calls(&dock), said.as_str()), (nth + 1, "hi"), "{door:?}");
        names.sort();
        seen.push(names);
    }
    let all = ["mcp_a_cwd", ECHO, "mcp_a_env", "mcp_a_pid", WORK];
    for names in seen {
        assert_eq!(names, all);
    }
    assert_eq!(asked(&dock).await, 4);
    dock.close().await;
}
