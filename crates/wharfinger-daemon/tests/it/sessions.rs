//! Sessions at the admin API.

use hyper::Method;
use serde_json::{Value, json};
use wharfinger_daemon::client::Messages;

use crate::dock::{Dock, fake, refused};
use crate::http::within;

const SESSIONS: &str = "/api/agents/default/sessions";

async fn begin(dock: &Dock, body: Value) -> Value {
    dock.post(SESSIONS, &body).await
}

/// The text of the result of a call in a session.
async fn call(dock: &Dock, session: &str, tool: &str) -> String {
    let body = json!({ "name": tool, "session": session });
    let mut messages: Messages = dock
        .client()
        .stream(Method::POST, "/api/agents/default/call", Some(&body))
        .await
        .unwrap();
    let last = within("the result", async {
        loop {
            let message = messages.next().await.unwrap().expect("a result");
            if matches!(message.event.as_str(), "result" | "error") {
                return message.data;
            }
        }
    });
    let last = last.await;
    let text = last["content"][0]["text"].as_str();
    text.map_or_else(|| last.to_string(), str::to_owned)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn v60_a_session_is_begun_used_gone_on_with_and_ended() {
    let entry = fake(&[], json!({ "scope": "session" }));
    let dock = Dock::new(json!({ "a": entry })).await;
    let begun = begin(&dock, json!({})).await;
    let id = begun["id"].as_str().unwrap();
    assert_eq!(
        (&begun["servers"], &begun["calls"]),
        (&json!([]), &json!(0))
    );
    let pid = call(&dock, id, "pid").await;
    let shown = dock.get(&format!("{SESSIONS}/{id}")).await;
    assert_eq!(shown["servers"], json!(["a"]));
    // Whoever comes back with its id goes on with it.
    assert_eq!(begin(&dock, json!({ "id": id })).await["id"], id);
    assert_eq!(call(&dock, id, "pid").await, pid);
    // The next conversation has a fresh server, and this one is over.
    let next = dock
        .post(&format!("{SESSIONS}/{id}/next"), &json!({ "id": "second" }))
        .await;
    assert_eq!(next["id"], "second");
    assert_ne!(call(&dock, "second", "pid").await, pid);
    let path = format!("{SESSIONS}/{id}");
    assert_eq!(refused(dock.client().get(&path).await).0, 404);
    let path = format!("{SESSIONS}/second");
    dock.client().delete(&path).await.unwrap();
    dock.until_no_process().await;
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn v65_the_calls_of_a_clients_session_are_stopped_from_outside() {
    let dock = Dock::new(json!({ "a": fake(&["hang-call"], json!({ "parallel": true })) })).await;
    let (caller, other) = (
        dock.handshake("2025-11-25").await,
        dock.handshake("2025-11-25").await,
    );
    let ask = |caller: &crate::dock::Caller<'_>| {
        caller
            .ask(1, "tools/call", json!({ "name": "work" }))
            .send()
    };
    let stopping = async {
        let calls =
            async |session: &str| dock.get(&format!("{SESSIONS}/{session}")).await["calls"].clone();
        while calls(&caller.session).await != 1 || calls(&other.session).await != 1 {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
        let path = format!("{SESSIONS}/{}/stop", caller.session);
        assert_eq!(dock.post(&path, &json!({})).await, json!({ "stopped": 1 }));
        assert_eq!(calls(&other.session).await, 1, "nobody else's is touched");
        let path = format!("{SESSIONS}/{}", other.session);
        dock.client().delete(&path).await.unwrap();
    };
    let all = Box::pin(async { tokio::join!(ask(&caller), ask(&other), stopping) });
    let (one, two, ()) = within("both to end", all).await;
    for (response, text) in [(one, "the call was stopped"), (two, "the call was stopped")] {
        let reply = response.messages().await.pop().unwrap();
        assert_eq!(reply["result"]["content"][0]["text"], text, "{reply}");
    }
    // The client whose session was ended finds out with its next request.
    let gone = other.ask(2, "tools/list", json!({})).send().await;
    assert_eq!(gone.status, 404);
    let list = dock.get(SESSIONS).await;
    let ids: Vec<&Value> = list["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|session| session["shared"] == false)
        .map(|session| &session["id"])
        .collect();
    assert_eq!(ids, [&json!(caller.session)]);
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_are_none_are_refused() {
    let dock = Dock::new(json!({})).await;
    dock.post("/api/agents", &json!({ "name": "other" })).await;
    begin(&dock, json!({ "id": "mine" })).await;
    let client = dock.client();
    let post = async |path: &str, body: Value| refused(client.post(path, Some(&body)).await);
    let (status, problem) = post(SESSIONS, json!({ "id": "é" })).await;
    assert_eq!(status, 422);
    assert!(problem["fields"]["id"][0].is_string(), "{problem}");
    let foreign = "/api/agents/other/sessions";
    assert_eq!(post(foreign, json!({ "id": "mine" })).await.0, 409);
    for path in ["mine/stop", "mine/next"] {
        assert_eq!(post(&format!("{foreign}/{path}"), json!({})).await.0, 404);
    }
    assert_eq!(post("/api/agents/none/sessions", json!({})).await.0, 404);
    let call = json!({ "name": "x", "session": "none" });
    assert_eq!(post("/api/agents/default/call", call).await.0, 404);
    // An MCP client goes on with its session, and begins its next one, itself.
    let caller = dock.handshake("2025-11-25").await;
    let path = format!("{SESSIONS}/{}/next", caller.session);
    assert_eq!(post(&path, json!({})).await.0, 409);
    assert_eq!(post(SESSIONS, json!({ "id": caller.session })).await.0, 409);
    // What is shared by all who have none never ends.
    assert_eq!(
        dock.stateless(1, "tools/list", json!({}))
            .send()
            .await
            .status,
        200
    );
    let list = dock.get(SESSIONS).await;
    let shared = list["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["shared"] == true);
    let path = format!("{SESSIONS}/{}", shared.unwrap()["id"].as_str().unwrap());
    assert_eq!(refused(dock.client().delete(&path).await).0, 409);
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_nobody_uses_is_ended() {
    let dock = Dock::with(json!({}), json!({ "sessionIdleSeconds": 0.3 })).await;
    begin(&dock, json!({ "id": "mine" })).await;
    dock.until_sessions(0).await;
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn v60_the_end_of_a_session_in_a_call_stops_its_server_too() {
    let dock = Dock::new(json!({ "a": fake(&["hang-call"], json!({})) })).await;
    for how in ["end", "next", "goodbye"] {
        begin(&dock, json!({ "id": how })).await;
        let caller = dock.handshake("2025-11-25").await;
        let path = match how {
            "goodbye" => format!("{SESSIONS}/{}", caller.session),
            id => format!("{SESSIONS}/{id}"),
        };
        let calling = async {
            if how == "goodbye" {
                let params = json!({ "name": "work" });
                drop(caller.ask(1, "tools/call", params).send().await);
            } else {
                call(&dock, how, "work").await;
            }
        };
        let ending = async {
            while dock.get(&path).await["calls"] != 1 || dock.processes().is_empty() {
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
            match how {
                "end" => drop(dock.client().delete(&path).await.unwrap()),
                "next" => drop(dock.post(&format!("{path}/next"), &json!({})).await),
                _ => assert_eq!(caller.delete().send().await.status, 200),
            }
        };
        within(
            "the call to end",
            Box::pin(async { tokio::join!(calling, ending) }),
        )
        .await;
        dock.until_no_process().await;
    }
    dock.close().await;
}
