//! Connecting to servers from the API, and what wrong requests are told (A17, A19, A21, A199).

use serde_json::{Value, json};
use wharfinger_testkit::fake_server;

use crate::dock::{Dock, fake, refused};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a17_a21_a_new_server_is_connected_to_and_tested_again() {
    let dock = Dock::new(json!({})).await;
    let body = json!({"servers": {
        "good": fake(&["tools=2", "stderr=hello"], json!({})),
        "dead": fake(&["die-before-init=3"], json!({})),
    }});
    let added = dock.post("/api/servers", &body).await;
    let [good, dead] = [&added["servers"][0], &added["servers"][1]];
    assert!(
        good["verified"].as_u64().is_some() && dead["verified"].is_null(),
        "{added}"
    );
    assert_eq!(
        (&good["connection"]["success"], &good["connection"]["tools"]),
        (&json!(true), &json!(["tool_0", "tool_1"]))
    );
    let steps = good["connection"]["steps"].as_array().unwrap().iter();
    assert_eq!(
        steps.map(|step| &step["step"]).collect::<Vec<_>>(),
        ["start", "initialize", "list"]
    );
    assert_eq!(
        dead["connection"]["stderrTail"],
        json!(["fatal: missing BAD_API_KEY"])
    );
    let tested = dock.post("/api/servers/good/test", &Value::Null).await;
    let keys: Vec<&String> = tested.as_object().unwrap().keys().collect();
    let expect = [
        "success",
        "tools",
        "location",
        "authRan",
        "notes",
        "stderrTail",
        "serverVersion",
        "protocol",
        "steps",
    ];
    assert_eq!(keys, expect);
    assert_eq!(
        (&tested["location"], &tested["authRan"]),
        (&json!("host"), &json!(false))
    );
    let tested = dock.post("/api/servers/dead/test", &Value::Null).await;
    assert_eq!(
        (
            &tested["success"],
            &tested["steps"].as_array().unwrap().last().unwrap()["step"]
        ),
        (&json!(false), &json!("initialize"))
    );
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a19_a_server_can_be_saved_without_connecting() {
    let dock = Dock::new(json!({})).await;
    let started = dock.home.file("starts");
    let count = format!("count-starts={}", started.display());
    let body = json!({"servers": {"s": fake(&[&count], json!({}))}, "connect": false});
    let added = dock.post("/api/servers", &body).await;
    let server = &added["servers"][0];
    assert_eq!(
        (&server["tools"], &server["verified"], &server["connection"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    assert!(!started.exists(), "nothing was started");
    let report = dock.get("/api/servers/s").await;
    assert_eq!(
        (&report["verified"], &report["status"]["state"]),
        (&Value::Null, &json!("notStarted"))
    );
    dock.get("/api/tools").await;
    assert!(
        dock.get("/api/servers/s").await["verified"]
            .as_u64()
            .is_some(),
        "whoever lists it connects to it"
    );
    // What it runs is another thing now.
    let body =
        json!({"servers": {"s": fake(&["tools=1"], json!({}))}, "replace": true, "connect": false});
    dock.post("/api/servers", &body).await;
    assert!(dock.get("/api/servers").await["servers"][0]["verified"].is_null());
    dock.close().await;
}

/// A call that is refused, and what is said of which field.
async fn check(dock: &Dock, path: &str, body: Value, status: u16, field: &str, expect: &str) {
    let (found, problem) = dock.refusal(path, &body).await;
    let text = problem["fields"][field][0]
        .as_str()
        .or_else(|| problem["detail"].as_str());
    let text = text.unwrap_or_default();
    assert!(
        found == status && text.contains(expect),
        "{path} {body}: {problem}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a199_management_calls_say_what_is_wrong() {
    let dock = Dock::new(json!({"a": fake(&[], json!({}))})).await;
    let (probe, servers) = ("/api/probe", "/api/servers");
    let odd = json!({"command": "x", "location": "container"});
    for (path, body, status, field, expect) in [
        (probe, json!({"command": "x"}), 422, "name", "is missing"),
        (
            probe,
            json!({"name": "p"}),
            422,
            "command",
            "transport `stdio` needs it",
        ),
        (
            probe,
            json!({"name": "p", "transport": "http"}),
            422,
            "url",
            "transport `http` needs it",
        ),
        (
            probe,
            json!({"name": "p", "command": "x", "args": "y"}),
            422,
            "args",
            "must be",
        ),
        (
            probe,
            json!({"name": "p", "command": "x", "envs": {}}),
            422,
            "envs",
            "did you mean `env`",
        ),
        (
            probe,
            json!({"name": "_p", "command": "x"}),
            422,
            "name",
            "may not start with",
        ),
        (probe, json!([]), 422, "arguments", "must be an object"),
        (servers, json!({}), 422, "servers", "is required"),
        (servers, json!({"servers": {}}), 422, "", "no server in it"),
        (
            servers,
            json!({"servers": {"b": {"args": []}}}),
            422,
            "b",
            "`command` is required",
        ),
        (
            servers,
            json!({"servers": {"b": odd}}),
            422,
            "b.location",
            "containers come later",
        ),
        (
            servers,
            json!({"servers": {"a": {"command": "x"}}}),
            409,
            "",
            "there is a server `a` already",
        ),
    ] {
        check(&dock, path, body, status, field, expect).await;
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a199_what_is_not_there_is_named_and_a_probe_keeps_nothing() {
    let dock = Dock::new(json!({"a": fake(&[], json!({}))})).await;
    for verb in ["restart", "stop", "test", "discover", "enable"] {
        check(
            &dock,
            &format!("/api/servers/b/{verb}"),
            json!({}),
            404,
            "",
            "there is no MCP server `b`, did you mean `a`? Known: a",
        )
        .await;
    }
    assert_eq!(
        refused(dock.client().get("/api/servers/b/logs").await).0,
        404
    );
    assert_eq!(refused(dock.client().delete("/api/servers/b").await).0, 404);
    dock.make_bot().await;
    check(
        &dock,
        "/api/agents/bot/servers",
        json!({}),
        422,
        "name",
        "is required",
    )
    .await;
    check(
        &dock,
        "/api/agents/bot/servers",
        json!({"name": "b"}),
        404,
        "",
        "`b`",
    )
    .await;
    let (status, problem) = refused(dock.client().delete("/api/agents/bot/servers/b").await);
    assert_eq!(status, 409, "{problem}");
    assert!(problem.to_string().contains("`b`"), "{problem}");
    // And a good one, which keeps nothing.
    let good = dock
        .post(
            "/api/probe",
            &json!({"name": "p", "command": fake_server(), "args": ["tools=1"]}),
        )
        .await;
    assert_eq!(
        (&good["success"], &good["tools"]),
        (&json!(true), &json!(["tool_0"]))
    );
    assert_eq!(
        dock.get("/api/servers").await["servers"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    dock.close().await;
}
