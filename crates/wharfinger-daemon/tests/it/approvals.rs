//! Calls that wait for their owner, as the admin API has them.

use hyper::Method;
use serde_json::{Value, json};
use wharfinger_daemon::client::{Message, Messages};

use crate::dock::{Dock, plain, refused};
use crate::http::within;

async fn next(messages: &mut Messages) -> Message {
    let message = within("the next event", messages.next()).await.unwrap();
    message.expect("one more")
}

/// A call of `mcp_a_echo` by the owner as `bot`, which waits: its stream, and the approval's id.
async fn waiting(dock: &Dock, message: &str) -> (Messages, String) {
    let body = json!({ "name": "mcp_a_echo", "arguments": { "message": message } });
    let client = dock.client();
    let stream = client.stream(Method::POST, "/api/agents/bot/call", Some(&body));
    let mut stream = within("a stream", stream).await.unwrap();
    let told = next(&mut stream).await;
    assert_eq!(
        (&*told.event, &told.data["tool"]),
        ("waiting", &json!("mcp_a_echo"))
    );
    let id = told.data["approval"].as_str().unwrap().to_owned();
    (stream, id)
}

fn text(message: &Message) -> &str {
    assert_eq!(message.event, "result", "{message:?}");
    message.data["content"][0]["text"].as_str().unwrap()
}

async fn bot() -> Dock {
    let dock = Dock::new(plain()).await;
    dock.make_bot().await;
    dock
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a225_a_call_waits_is_listed_and_is_made_when_it_is_approved() {
    let dock = bot().await;
    assert_eq!(dock.get("/api/approvals").await, json!({ "approvals": [] }));
    let client = dock.client();
    let mut events = client
        .stream(Method::GET, "/api/events", None)
        .await
        .unwrap();
    let (mut stream, id) = waiting(&dock, "hi").await;
    let mut listed = dock.get("/api/approvals").await["approvals"][0].clone();
    let path = format!("/api/approvals/{id}");
    assert_eq!(dock.get(&path).await, listed);
    for time in ["created", "expires"] {
        let taken = listed.as_object_mut().unwrap().shift_remove(time);
        assert!(taken.unwrap().as_u64().unwrap() > 1_700_000_000_000);
    }
    let expect = json!({
        "id": id, "agent": "bot", "session": "owner-bot", "server": "a", "tool": "echo", "name": "mcp_a_echo",
        "reason": "restricted", "why": "The agent `bot` wants to call `mcp_a_echo`: the tool is restricted.",
        "arguments": { "message": "hi" }, "stage": "pending_approval", "caller": "waiting",
    });
    assert_eq!(listed, expect);
    assert_eq!(
        dock.get("/api/agents/bot").await["state"],
        "awaiting_approval"
    );
    let approved = dock.post(&path, &json!({ "action": "approve" })).await;
    assert_eq!(approved["id"], *id);
    assert_eq!(text(&next(&mut stream).await), "hi");
    assert_eq!(dock.get("/api/agents/bot").await["state"], "idle");
    // Exactly one of each is told.
    let mut told = vec![];
    while told.last().is_none_or(|last| last != "called") {
        let event = next(&mut events).await.data;
        let name = event["event"].as_str().unwrap().to_owned();
        if name.starts_with("approval") {
            assert_eq!(
                [&event["id"], &event["agent"], &event["tool"]],
                [&*id, "bot", "mcp_a_echo"]
            );
        }
        if name == "approvalResolved" {
            assert_eq!(event["status"], "approved");
        }
        if name.starts_with("approval") || name == "called" {
            told.push(name);
        }
    }
    assert_eq!(told, ["approvalRequested", "approvalResolved", "called"]);
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a227_a228_an_answer_may_change_the_arguments_or_say_why_not() {
    let dock = bot().await;
    let (mut stream, id) = waiting(&dock, "hi").await;
    let path = format!("/api/approvals/{id}");
    for wrong in [json!([1]), json!("x"), json!({ "_authorized": true })] {
        let body = json!({ "action": "approve", "modifiedArgs": wrong });
        let (status, problem) = dock.refusal(&path, &body).await;
        assert_eq!(status, 422, "{wrong}");
        assert!(problem["fields"]["modifiedArgs"].is_array(), "{problem}");
    }
    let edited = json!({ "action": "approve", "modifiedArgs": { "message": "edited" } });
    dock.post(&path, &edited).await;
    assert_eq!(text(&next(&mut stream).await), "edited");
    let (mut stream, id) = waiting(&dock, "ho").await;
    let no = json!({ "action": "deny", "reason": "not today" });
    dock.post(&format!("/api/approvals/{id}"), &no).await;
    let end = next(&mut stream).await;
    assert_eq!(
        (&*end.event, &end.data["kind"]),
        ("error", &json!("denied"))
    );
    let said = end.data["message"].as_str().unwrap();
    assert!(
        said.ends_with("was rejected by its authorizer: not today"),
        "{said}"
    );
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a226_the_guides_path_answers_with_the_guides_codes() {
    let dock = bot().await;
    let (mut stream, id) = waiting(&dock, "hi").await;
    let path = format!("/api/agents/bot/tasks/{id}/resolve");
    for action in [json!("maybe"), json!(7), json!(null)] {
        let (status, problem) = dock.refusal(&path, &json!({ "action": action })).await;
        assert_eq!(status, 400, "{action}");
        assert!(problem["fields"]["action"].is_array(), "{problem}");
    }
    assert_eq!(dock.refusal(&path, &json!({})).await.0, 400);
    let yes = json!({ "action": "approve" });
    for unknown in [
        "/api/agents/bot/tasks/task_000000000000/resolve".to_owned(),
        format!("/api/agents/default/tasks/{id}/resolve"),
        format!("/api/agents/nobody/tasks/{id}/resolve"),
    ] {
        assert_eq!(dock.refusal(&unknown, &yes).await.0, 404, "{unknown}");
    }
    let left = dock
        .post(&path, &json!({ "action": "pending_approval" }))
        .await;
    assert_eq!(left["stage"], "pending_approval");
    dock.post(&path, &yes).await;
    assert_eq!(text(&next(&mut stream).await), "hi");
    for action in ["approve", "deny", "pending_approval"] {
        let body = json!({ "action": action });
        let (status, problem) = dock.refusal(&path, &body).await;
        assert_eq!(status, 409, "{action}: {problem}");
    }
    let own = format!("/api/approvals/{id}");
    assert_eq!(dock.refusal(&own, &yes).await.0, 409);
    let shown = dock.client().get(&own).await;
    let (status, problem) = refused(shown);
    assert_eq!(status, 409);
    let said = problem["detail"].as_str().unwrap();
    assert!(said.ends_with("is not pending: it is completed"), "{said}");
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a233_a_yes_may_be_good_for_more_than_one_call() {
    let dock = bot().await;
    let (mut stream, id) = waiting(&dock, "hi").await;
    let always = json!({ "action": "approve", "scope": "always" });
    dock.post(&format!("/api/approvals/{id}"), &always).await;
    assert_eq!(text(&next(&mut stream).await), "hi");
    let body = json!({ "name": "mcp_a_echo", "arguments": { "message": "again" } });
    let client = dock.client();
    let stream = client.stream(Method::POST, "/api/agents/bot/call", Some(&body));
    let mut stream = within("a stream", stream).await.unwrap();
    assert_eq!(text(&next(&mut stream).await), "again");
    let tool = dock.get("/api/agents/bot/tools/mcp_a_echo").await;
    assert_eq!(tool["restricted"], false);
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_may_pass_the_gate_and_the_journal_says_so() {
    let dock = bot().await;
    let body =
        json!({ "server": "a", "tool": "echo", "arguments": { "message": "hi" }, "asOwner": true });
    let client = dock.client();
    let stream = client.stream(Method::POST, "/api/agents/bot/call", Some(&body));
    let mut stream = within("a stream", stream).await.unwrap();
    assert_eq!(text(&next(&mut stream).await), "hi");
    let rows = dock.get("/api/journal?kind=bypass").await;
    let rows: &Vec<Value> = rows["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(
        [&rows[0]["agent"], &rows[0]["tool"]],
        ["bot", "echo"],
        "{rows:?}"
    );
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a230_an_emergency_stop_leaves_nothing_waiting() {
    let dock = bot().await;
    let (mut stream, id) = waiting(&dock, "hi").await;
    dock.post("/api/halt", &json!({})).await;
    assert_eq!(next(&mut stream).await.event, "error");
    assert_eq!(dock.get("/api/approvals").await, json!({ "approvals": [] }));
    let yes = json!({ "action": "approve" });
    assert_eq!(
        dock.refusal(&format!("/api/approvals/{id}"), &yes).await.0,
        409
    );
    dock.close().await;
}
