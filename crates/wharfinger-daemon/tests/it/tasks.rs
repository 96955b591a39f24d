//! Tasks: of 2025-11-25, and of the tasks extension.

use serde_json::{Value, json};

use crate::dock::{Caller, Dock, fake};

const LATEST: &str = "2025-11-25";
const EXTENSION: &str = "io.modelcontextprotocol/tasks";

async fn begin(caller: &Caller<'_>) -> String {
    let params = json!({ "name": "work", "task": { "ttl": 60_000 } });
    let result = caller.result(1, "tools/call", params).await;
    result["task"]["taskId"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_of_the_handshake_era_belongs_to_the_session_that_began_it() {
    let dock = Dock::new(json!({ "a": fake(&["tasks"], json!({})) })).await;
    let caller = dock.handshake(LATEST).await;
    let task = begin(&caller).await;
    let about = json!({ "taskId": task });
    let got = caller.result(2, "tasks/get", about.clone()).await;
    assert_eq!(
        (&got["taskId"], &got["status"]),
        (&json!(task), &json!("working"))
    );
    let result = caller.result(3, "tasks/result", about.clone()).await;
    assert_eq!(result["content"][0]["text"], format!("result of {task}"));
    let other = dock.handshake(LATEST).await;
    let another = begin(&other).await;
    let listed = caller.result(4, "tasks/list", json!({})).await;
    let ids: Vec<&Value> = listed["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| &task["taskId"])
        .collect();
    assert_eq!(ids, [&json!(task)], "the other session's is not listed");
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let reply = caller
            .ask(5, method, json!({ "taskId": another }))
            .send()
            .await;
        assert_eq!(reply.json().await["error"]["code"], -32602, "{method}");
    }
    let over = caller.result(6, "tasks/cancel", about).await;
    assert_eq!(over["status"], "cancelled");
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_ids_of_two_servers_are_told_apart() {
    let servers = json!({
        "a": fake(&["tasks"], json!({})), "b": fake(&["tasks"], json!({ "toolPrefix": "b_" })),
    });
    let dock = Dock::new(servers).await;
    let caller = dock.handshake(LATEST).await;
    let one = begin(&caller).await;
    let params = json!({ "name": "b_work", "task": {} });
    let result = caller.result(1, "tools/call", params).await;
    let two = result["task"]["taskId"].as_str().unwrap();
    assert_eq!((one.as_str(), two), ("task-1", "b/task-1"));
    let got = caller
        .result(2, "tasks/get", json!({ "taskId": two }))
        .await;
    assert_eq!(got["taskId"], two);
    let result = caller
        .result(3, "tasks/result", json!({ "taskId": two }))
        .await;
    assert_eq!(result["content"][0]["text"], "result of task-1");
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn v59_a_server_at_work_on_a_task_is_not_idle() {
    let entry = fake(&["tasks"], json!({ "idleTimeoutSeconds": 0.1 }));
    let dock = Dock::new(json!({ "a": entry })).await;
    let caller = dock.handshake(LATEST).await;
    let task = begin(&caller).await;
    let idle = tokio::time::Instant::now() + std::time::Duration::from_millis(400);
    while tokio::time::Instant::now() < idle {
        assert!(dock.get("/api/servers/a").await["pid"].is_u64());
    }
    // Once it is over, the server may go.
    caller
        .result(2, "tasks/cancel", json!({ "taskId": task }))
        .await;
    dock.until_no_process().await;
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_of_the_extension_belongs_to_its_agent() {
    let dock = Dock::new(json!({ "a": fake(&["modern-only", "tasks"], json!({})) })).await;
    dock.post("/api/agents", &json!({ "name": "other" })).await;
    let can = || json!({ "extensions": { EXTENSION: {} } });
    let ask = |method: &'static str, params: Value| dock.stateless_as(can(), 1, method, params);
    let begun = ask("tools/call", json!({ "name": "work" }))
        .send()
        .await
        .json()
        .await;
    let task = begun["result"]["taskId"].as_str().unwrap().to_owned();
    assert_eq!(begun["result"]["resultType"], "task");
    // Also when it describes itself otherwise, as each request may.
    let more = json!({ "extensions": { EXTENSION: {} }, "sampling": {} });
    for can in [can(), more] {
        let about = json!({ "taskId": task });
        let reply = dock
            .stateless_as(can, 2, "tasks/get", about)
            .send()
            .await
            .json()
            .await;
        assert_eq!(reply["result"]["status"], "working", "{reply}");
    }
    let update = json!({ "taskId": task, "inputResponses": {} });
    let reply = ask("tasks/update", update).send().await.json().await;
    assert_eq!(reply["result"]["resultType"], "complete", "{reply}");
    let undeclared = dock.stateless(3, "tasks/get", json!({ "taskId": task }));
    assert_eq!(
        undeclared.send().await.json().await["error"]["code"],
        -32021
    );
    let token = dock.token_of("other").await;
    let foreign = ask("tasks/get", json!({ "taskId": task }))
        .to("/agents/other/mcp")
        .bearer(&token);
    assert_eq!(foreign.send().await.json().await["error"]["code"], -32602);
    for method in ["tasks/list", "tasks/result"] {
        let reply = ask(method, json!({ "taskId": task })).send().await;
        assert_eq!(reply.status, 404, "{method} is of the other era");
    }
    dock.close().await;
}
