//! The admin API.

use hyper::Method;
use serde_json::{Value, json};
use wharfinger_daemon::client::Messages;
use wharfinger_testkit::Home;

use crate::dock::{Dock, fake, host, mode, options, plain, refused};
use crate::http::{Ask, within};

async fn next(messages: &mut Messages) -> Option<(String, Value)> {
    let message = within("the next event", messages.next()).await.unwrap();
    message.map(|message| (message.event, message.data))
}

async fn add(dock: &Dock, servers: Value) -> Value {
    dock.post("/api/servers", &json!({ "servers": servers }))
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_tells_how_it_stands() {
    let dock = Dock::new(plain()).await;
    let mut status = dock.get("/api/status").await;
    assert!(status["startedAt"].as_u64().unwrap() > 1_700_000_000_000);
    status.as_object_mut().unwrap().shift_remove("startedAt");
    let home = dock.home.path().canonicalize().unwrap();
    let expect = json!({
        "version": "0",
        "pid": std::process::id(),
        "home": home,
        "listen": dock.address.to_string(),
        "url": format!("http://{}", dock.address),
        "agents": 1,
        "servers": 1,
        "sessions": 0,
        "problems": [],
    });
    assert_eq!(status, expect);
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_asked_for_its_tools_before_add_returns() {
    let dock = Dock::new(json!({})).await;
    let added = add(
        &dock,
        json!({
            "good": fake(&["tools=3"], json!({})),
            "bad": fake(&["die-before-init=3"], json!({})),
            "missing": { "command": "/no/such/program" },
            "off": fake(&[], json!({ "enabled": false })),
        }),
    )
    .await;
    let servers = added["servers"].as_array().unwrap();
    assert_eq!(
        (&servers[0]["name"], &servers[0]["tools"]),
        (&json!("good"), &json!(3))
    );
    assert_eq!(servers[0]["connection"]["success"], true);
    assert_eq!(
        (&servers[1]["name"], &servers[1]["tools"]),
        (&json!("bad"), &json!(null))
    );
    assert!(
        servers[1]["error"]
            .as_str()
            .unwrap()
            .contains("exited (code 3)"),
        "{added}"
    );
    assert!(
        servers[2]["error"]
            .as_str()
            .unwrap()
            .contains("/no/such/program"),
        "{added}"
    );
    assert_eq!(
        servers[3],
        json!({ "name": "off", "tools": null, "verified": null })
    );
    let list = dock.get("/api/servers").await;
    let states: Vec<&Value> = list["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| &s["status"]["state"])
        .collect();
    assert_eq!(states, ["notStarted", "failed", "failed", "disabled"]);
    assert_eq!(
        dock.processes(),
        Vec::<u32>::new(),
        "listing leaves nothing running"
    );
    let kept: Value = serde_json::from_str(&dock.home.read("settings.json")).unwrap();
    let names: Vec<&String> = kept["mcpServers"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["good", "bad", "missing", "off"]);
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_is_taken_once_unless_it_is_to_be_replaced() {
    let home = Home::new();
    home.add_fake("mine", &["tools=1"]);
    home.write_config(&json!({ "mcp": { "servers": { "host": fake(&["tools=1"], json!({})) } } }));
    let dock = Dock::at(home).await;
    let post = async |name: &str, replace: bool| {
        let body =
            json!({ "servers": { name: fake(&["tools=2"], json!({})) }, "replace": replace });
        let client = dock.client();
        within("an answer", client.post("/api/servers", Some(&body))).await
    };
    for (name, replace) in [("mine", false), ("host", false), ("host", true)] {
        let before = dock.home.read("settings.json");
        let (status, problem) = refused(post(name, replace).await);
        assert_eq!(status, 409, "{name}");
        assert!(problem["hint"].is_string(), "{problem}");
        assert_eq!(dock.home.read("settings.json"), before);
    }
    assert_eq!(post("mine", true).await.unwrap()["servers"][0]["tools"], 2);
    assert_eq!(dock.get("/api/servers/mine").await["tools"], 2);
    // One that is taken keeps the others out.
    let body = json!({ "servers": { "new": fake(&[], json!({})), "mine": fake(&[], json!({})) } });
    let (status, _) = refused(dock.client().post("/api/servers", Some(&body)).await);
    assert_eq!(status, 409);
    let (status, _) = refused(dock.client().get("/api/servers/new").await);
    assert_eq!(status, 404);
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_can_not_be_used_is_refused_with_its_fields() {
    let dock = Dock::new(plain()).await;
    let before = dock.home.read("settings.json");
    for (servers, field) in [
        (json!({ "b": {} }), "b"),
        (json!({ "b": { "command": 7 } }), "b.command"),
        (json!({ "b": { "command": "x", "args": "y" } }), "b.args"),
        (
            json!({ "b": { "command": "x", "callTimeoutSeconds": 0 } }),
            "b.callTimeoutSeconds",
        ),
        (
            json!({ "b": { "command": "x", "toolPrefix": "mcp__x" } }),
            "b.toolPrefix",
        ),
        (
            json!({ "b": { "command": "x", "unknown": 1, "idleTimeoutSeconds": -1 } }),
            "b.idleTimeoutSeconds",
        ),
        (json!({ "_name": { "command": "x" } }), "_name"),
        (json!({ "": { "command": "x" } }), ""),
        (
            json!({ "ok": { "command": "x" }, "b": { "command": null } }),
            "b",
        ),
    ] {
        let body = json!({ "servers": servers });
        let (status, problem) = refused(dock.client().post("/api/servers", Some(&body)).await);
        assert_eq!(status, 422, "{servers}");
        let fields = problem["fields"]
            .as_object()
            .unwrap_or_else(|| panic!("{problem}"));
        assert!(
            fields
                .keys()
                .any(|key| key == field || key.starts_with(&format!("{field}."))),
            "{field}: {problem}"
        );
        assert_eq!(dock.home.read("settings.json"), before);
    }
    for body in [
        json!({}),
        json!({ "servers": {} }),
        json!({ "servers": [] }),
        json!({ "servers": "x" }),
        json!([]),
        json!(null),
    ] {
        let (status, _) = refused(dock.client().post("/api/servers", Some(&body)).await);
        assert_eq!(status, 422, "{body}");
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_known_is_kept_and_told() {
    let dock = Dock::new(json!({})).await;
    let entry = fake(&["tools=1"], json!({ "alwaysAllow": ["x"], "comandd": 1 }));
    let added = add(&dock, json!({ "a": entry })).await;
    assert_eq!(added["servers"][0]["tools"], 1);
    assert_eq!(added["problems"].as_array().unwrap().len(), 2, "{added}");
    let kept: Value = serde_json::from_str(&dock.home.read("settings.json")).unwrap();
    assert_eq!(kept["mcpServers"]["a"], entry);
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_server_is_stopped_and_gone() {
    let home = Home::new();
    home.add_fake("mine", &[]);
    home.write_config(
        &json!({ "mcp": { "servers": { "host": fake(&["tool=hosts"], json!({})) } } }),
    );
    let dock = Dock::at(home).await;
    let caller = dock.handshake("2025-11-25").await;
    caller.call("work", json!({})).await;
    assert_eq!(dock.processes().len(), 1);
    let remove = async |name: &str| dock.client().delete(&format!("/api/servers/{name}")).await;
    assert_eq!(remove("mine").await.unwrap(), json!(null));
    assert_eq!(dock.processes(), Vec::<u32>::new());
    for (name, status) in [("mine", 404), ("none", 404), ("b%20d", 404), ("host", 409)] {
        assert_eq!(refused(remove(name).await).0, status, "{name}");
    }
    assert_eq!(caller.names().await, ["hosts"]);
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_servers_name_may_be_what_readmes_use() {
    let dock = Dock::new(json!({})).await;
    for (name, path) in [
        ("github.com/a/b", "github.com%2Fa%2Fb"),
        ("MCP for Figma?", "MCP%20for%20Figma%3F"),
        ("größe", "gr%C3%B6%C3%9Fe"),
        ("..", "%2E%2E"),
        ("100%", "100%25"),
    ] {
        let added = add(&dock, json!({ name: fake(&["tools=1"], json!({})) })).await;
        let first = &added["servers"][0];
        assert_eq!((&first["name"], &first["tools"]), (&json!(name), &json!(1)));
        let path = format!("/api/servers/{path}");
        assert_eq!(dock.get(&path).await["name"], name);
        assert_eq!(dock.get(&format!("{path}/logs")).await["lines"], json!([]));
        let off = dock.client().post(&format!("{path}/disable"), None).await;
        assert_eq!(off.unwrap()["name"], name);
        dock.client().delete(&path).await.unwrap();
        assert_eq!(refused(dock.client().get(&path).await).0, 404);
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn v12_a_server_is_switched_off_and_on() {
    let dock = Dock::new(plain()).await;
    let caller = dock.handshake("2025-11-25").await;
    caller.call("work", json!({})).await;
    let switch = async |name: &str, way: &str| {
        let path = format!("/api/servers/{name}/{way}");
        dock.client().post(&path, None).await
    };
    let off = switch("a", "disable").await.unwrap();
    assert_eq!(
        (&off["enabled"], &off["status"]["state"]),
        (&json!(false), &json!("disabled"))
    );
    assert_eq!(dock.processes(), Vec::<u32>::new());
    assert_eq!(caller.names().await, Vec::<String>::new());
    let on = switch("a", "enable").await.unwrap();
    assert_eq!((&on["enabled"], &on["tools"]), (&json!(true), &json!(5)));
    assert_eq!(caller.call("work", json!({})).await, "ok 1");
    for way in ["enable", "disable", "restart", "stop", "discover"] {
        assert_eq!(refused(switch("none", way).await).0, 404, "{way}");
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn v71_a_restart_stops_what_runs_and_the_next_call_starts_afresh() {
    let dock = Dock::new(plain()).await;
    dock.post("/api/agents", &json!({ "name": "b" })).await;
    let caller = dock.handshake("2025-11-25").await;
    let pid = caller.call("pid", json!({})).await;
    let details = dock.get("/api/servers/a").await;
    assert_eq!(details["pid"].to_string(), pid);
    // Another agent's processes are another matter.
    dock.client()
        .post("/api/servers/a/restart?agent=b", None)
        .await
        .unwrap();
    assert_eq!(caller.call("pid", json!({})).await, pid);
    for (path, times) in [("restart", 2), ("stop", 2), ("restart?agent=default", 1)] {
        for _ in 0..times {
            dock.client()
                .post(&format!("/api/servers/a/{path}"), None)
                .await
                .unwrap();
            assert_eq!(dock.processes(), Vec::<u32>::new(), "{path}");
        }
        let fresh = caller.call("pid", json!({})).await;
        assert_ne!(fresh, pid);
    }
    let (status, _) = refused(
        dock.client()
            .post("/api/servers/a/restart?agent=none", None)
            .await,
    );
    assert_eq!(status, 404);
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_server_is_asked_again_when_told_to() {
    let home = Home::new();
    let program = home.write("program", "#!/bin/sh\nexit 7\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, mode).unwrap();
    home.add_server("a", &json!({ "command": program, "args": ["tools=2"] }));
    let dock = Dock::at(home).await;
    let discover = async || {
        dock.client()
            .post("/api/servers/a/discover", None)
            .await
            .unwrap()
    };
    let failed = discover().await;
    assert_eq!(failed["status"]["state"], "failed");
    assert!(
        failed["statusText"]
            .as_str()
            .unwrap()
            .contains("exited (code 7)"),
        "{failed}"
    );
    let script = format!(
        "#!/bin/sh\nexec '{}' \"$@\"\n",
        wharfinger_testkit::fake_server().display()
    );
    dock.home.write("program", &script);
    assert_eq!(discover().await["tools"], 2);
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_lines_are_kept_and_told() {
    let dock = Dock::new(json!({})).await;
    let client = dock.client();
    let mut events = client
        .stream(Method::GET, "/api/events", None)
        .await
        .unwrap();
    add(
        &dock,
        json!({ "a": fake(&["stderr=one", "stderr=two"], json!({})) }),
    )
    .await;
    let mut seen = vec![];
    while seen.len() < 4 {
        let (name, event) = next(&mut events).await.unwrap();
        assert_eq!(name, "event");
        assert!(event["at"].as_u64().unwrap() > 1_700_000_000_000);
        match event["event"].as_str().unwrap() {
            "stderr" => seen.push(event["line"].as_str().unwrap().to_owned()),
            "configChanged" => {
                assert_eq!(event["added"], json!(["a"]));
                seen.push("configChanged".into());
            }
            "toolsChanged" => {
                assert_eq!(
                    (&event["server"], &event["tools"]),
                    (&json!("a"), &json!(5))
                );
                seen.push("toolsChanged".into());
            }
            _ => {}
        }
    }
    seen.sort();
    assert_eq!(seen, ["configChanged", "one", "toolsChanged", "two"]);
    for (query, expect) in [
        ("", json!(["one", "two"])),
        ("?lines=1", json!(["two"])),
        ("?lines=0", json!([])),
    ] {
        assert_eq!(
            dock.get(&format!("/api/servers/a/logs{query}")).await["lines"],
            expect
        );
    }
    assert_eq!(refused(client.get("/api/servers/none/logs").await).0, 404);
    dock.stop.cancel();
    while next(&mut events).await.is_some() {}
    dock.closed().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_are_listed_with_what_is_missing_and_why() {
    let dock = Dock::new(json!({
        "a": fake(&["tool=work"], json!({ "toolPrefix": "a_" })),
        "b": fake(&["die-before-init=3"], json!({})),
    }))
    .await;
    let list = dock.get("/api/tools").await;
    let expect = json!([{
        "name": "a_work", "server": "a", "tool": "work", "description": "The tool work",
        "inputSchema": { "type": "object" },
    }]);
    assert_eq!(list["tools"], expect);
    assert_eq!(list["unavailable"][0]["server"], "b");
    assert!(
        list["unavailable"][0]["reason"]
            .as_str()
            .unwrap()
            .contains("exited (code 3)")
    );
    assert_eq!(
        refused(dock.client().get("/api/tools?agent=none").await).0,
        404
    );
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_streams_progress_log_and_its_end() {
    let dock = Dock::new(json!({
        "a": fake(&["progress=2", "log=info", "tool=work"], json!({ "toolPrefix": "a_" })),
        "b": fake(&["error-no-message", "tool=no"], json!({})),
        "c": fake(&["die-before-init=3"], json!({})),
    }))
    .await;
    let client = dock.client();
    let call = async |body: Value| {
        let stream = client.stream(Method::POST, "/api/agents/default/call", Some(&body));
        let mut stream = within("a stream", stream).await.unwrap();
        let mut all = vec![];
        while let Some(event) = next(&mut stream).await {
            all.push(event);
        }
        all
    };
    let progress = |n: i64| {
        (
            "progress".to_owned(),
            json!({ "progress": n, "total": 2, "message": format!("step {n}") }),
        )
    };
    let log = (
        "log".to_owned(),
        json!({ "level": "info", "logger": "fake", "data": "working on \"work\"" }),
    );
    for target in [
        json!({ "name": "a_work" }),
        json!({ "server": "a", "tool": "work", "arguments": { "x": 1 } }),
    ] {
        let events = call(target).await;
        assert_eq!(events.len(), 4, "{events:?}");
        assert_eq!(events[..3], [log.clone(), progress(1), progress(2)]);
        assert_eq!(events[3].0, "result");
        assert!(events[3].1["content"].is_array());
    }
    for (body, kind) in [
        (json!({ "server": "b", "tool": "no" }), "server"),
        (json!({ "name": "none" }), "unknown"),
        (json!({ "server": "none", "tool": "x" }), "unknown"),
        (json!({ "server": "c", "tool": "x" }), "failed"),
    ] {
        let events = call(body.clone()).await;
        let (name, data) = events.last().unwrap();
        assert_eq!(
            (events.len(), &**name, &data["kind"]),
            (1, "error", &json!(kind)),
            "{body}: {data}"
        );
        assert!(data["message"].is_string());
    }
    for (body, path, status) in [
        (json!({}), "default", 422),
        (json!({ "server": "a" }), "default", 422),
        (json!({ "name": "a_work", "arguments": [] }), "default", 422),
        (json!({ "name": 7 }), "default", 422),
        (json!({ "name": "a_work" }), "none", 404),
    ] {
        let path = format!("/api/agents/{path}/call");
        assert_eq!(
            refused(client.post(&path, Some(&body)).await).0,
            status,
            "{body}"
        );
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hanging_up_on_a_call_cancels_it() {
    let home = Home::new();
    let file = mode(&home, "cancel-file", "cancelled");
    home.add_fake("a", &[&file, "slow-call=60", "progress=1"]);
    let dock = Dock::at(home).await;
    let body = json!({ "name": "work" });
    let client = dock.client();
    let stream = client.stream(Method::POST, "/api/agents/default/call", Some(&body));
    let mut stream = within("a stream", stream).await.unwrap();
    assert_eq!(next(&mut stream).await.unwrap().0, "progress");
    drop(stream);
    dock.until_lines("cancelled", 1).await;
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_come_and_go() {
    let dock = Dock::new(plain()).await;
    let client = dock.client();
    let home = dock.home.path().canonicalize().unwrap();
    let agent = |name: &str| {
        json!({
            "name": name, "profile": "chat", "file": home.join(format!("agents/{name}.adf")), "state": "idle",
            "sessions": 0, "workspace": home.join("workspaces").join(name), "attached": [],
        })
    };
    assert_eq!(
        dock.post("/api/agents", &json!({ "name": "b" })).await,
        agent("b")
    );
    assert_eq!(dock.get("/api/agents/b").await, agent("b"));
    let list = dock.get("/api/agents").await;
    assert_eq!(list, json!({ "agents": [agent("b"), agent("default")] }));
    for (body, status, field) in [
        (json!({ "name": "b" }), 409, None),
        (json!({ "name": "default", "profile": "chat" }), 409, None),
        (json!({ "name": "" }), 422, Some("name")),
        (json!({ "name": "a/b" }), 422, Some("name")),
        (json!({ "name": ".." }), 422, Some("name")),
        (json!({ "name": "x".repeat(300) }), 422, Some("name")),
        (
            json!({ "name": "c", "profile": "robot" }),
            422,
            Some("profile"),
        ),
        // A199
        (json!({}), 422, Some("name")),
        (json!({ "name": 7 }), 422, Some("name")),
        (
            json!({ "name": "c", "profil": "chat" }),
            422,
            Some("profil"),
        ),
    ] {
        let (answered, problem) = refused(client.post("/api/agents", Some(&body)).await);
        assert_eq!(answered, status, "{body}");
        if let Some(field) = field {
            assert!(problem["fields"][field].is_array(), "{body}: {problem}");
        }
    }
    let token = dock.token_of("b").await;
    assert_eq!(client.delete("/api/agents/b").await.unwrap(), json!(null));
    assert_eq!(refused(client.delete("/api/agents/default").await).0, 409);
    for path in ["", "/endpoint", "/mcp"] {
        assert_eq!(
            refused(client.get(&format!("/api/agents/b{path}")).await).0,
            404,
            "{path}"
        );
    }
    assert_eq!(refused(client.delete("/api/agents/b").await).0, 404);
    // Another one of the same name has another token.
    dock.post("/api/agents", &json!({ "name": "b" })).await;
    assert_ne!(dock.token_of("b").await, token);
    let home = dock.close().await;
    let dock = Dock::at(home).await;
    assert_eq!(
        dock.get("/api/agents").await["agents"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_is_told_in_full() {
    let dock = Dock::new(json!({})).await;
    let home = dock.home.path().canonicalize().unwrap();
    let endpoint = dock.get("/api/agents/default/endpoint").await;
    let expect = json!({
        "agent": "default",
        "url": format!("http://{}/agents/default/mcp", dock.address),
        "token": dock.token,
        "stdio": {
            "command": options(home.clone()).program,
            "args": ["--home", home, "stdio", "--agent", "default"],
        },
    });
    assert_eq!(endpoint, expect);
    assert_eq!(dock.home.read("tokens/agent-default").trim(), dock.token);
    // It stays the same over a restart.
    let (token, home) = (dock.token.clone(), dock.close().await);
    let dock = Dock::at(home).await;
    assert_eq!(dock.token, token);
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn v69_v72_mcp_prints_states_and_details() {
    let dock = Dock::new(json!({ "a": fake(&["tool=one"], json!({ "env": { "KEY": "sealed" } })), "off": fake(&[], json!({ "enabled": false })) })).await;
    let text = async |query: &str| {
        dock.get(&format!("/api/agents/default/mcp{query}")).await["text"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    dock.get("/api/tools").await;
    assert_eq!(text("").await, "a    not started (1 tool)\noff  disabled");
    let caller = dock.handshake("2025-11-25").await;
    caller
        .result(1, "tools/call", json!({ "name": "one" }))
        .await;
    assert_eq!(text("").await, "a    running (1 tool)\noff  disabled");
    let shown = text("?server=a").await;
    for part in ["a: running", "env: KEY", "tools: one", "settings.json:"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("sealed"), "{shown}");
    let restart = async |query: &str| {
        dock.client()
            .post(&format!("/api/agents/default/mcp/restart{query}"), None)
            .await
    };
    let told = restart("?server=a").await.unwrap();
    assert_eq!(told["text"], "a: stopped; the next call starts a fresh one");
    assert_eq!(dock.processes(), Vec::<u32>::new());
    assert_eq!(refused(restart("").await).0, 422);
    let (status, problem) = refused(restart("?server=b").await);
    assert_eq!(status, 404);
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains('a') && detail.contains("off"), "{detail}");
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn v73_secrets_are_in_no_answer() {
    let home = Home::new();
    let args = [
        "--token=s3cret-value-1234",
        "stderr=using s3cret-value-1234",
    ];
    home.add_server(
        "a",
        &fake(&args[1..], json!({ "env": { "K": "${env:MY_TOKEN}" } })),
    );
    home.add_server("b", &json!({ "command": "/no/such", "args": args }));
    let mut options = options(home.path().to_owned());
    options.environment = host();
    options
        .environment
        .insert("MY_TOKEN".into(), "s3cret-value-1234".into());
    let dock = Dock::start(home, options).await;
    dock.get("/api/tools").await;
    let paths = [
        "/api/servers",
        "/api/servers/a",
        "/api/servers/b",
        "/api/servers/a/logs",
        "/api/tools",
        "/api/status",
        "/api/agents/default/mcp",
        "/api/agents/default/mcp?server=a",
        "/api/agents/default/mcp?server=b",
    ];
    for path in paths {
        let text = dock.get(path).await.to_string();
        assert!(!text.contains("s3cret"), "{path}: {text}");
    }
    let logs = dock.get("/api/servers/a/logs").await;
    assert_eq!(logs["lines"], json!(["using [REDACTED]"]));
    let caller = dock.handshake("2025-11-25").await;
    let text = caller.call("env", json!({})).await;
    assert!(
        text.contains("[REDACTED]") && !text.contains("s3cret"),
        "{text}"
    );
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_are_problem_documents() {
    let dock = Dock::new(plain()).await;
    let owner = dock.owner().await;
    let api = |method: &str, path: &str| Ask::new(dock.address, method, path).bearer(&owner);
    let body = |ask: Ask, kind: &str, body: &str| ask.header("Content-Type", kind).body(body);
    let json_kind = "application/json";
    let huge = format!("{{\"servers\":{{\"x\":\"{}\"}}}}", "y".repeat(5 << 20));
    let mut wrong = vec![];
    for (what, ask, status) in [
        (
            "no token",
            api("GET", "/api/status").without("Authorization"),
            401,
        ),
        ("unknown path", api("GET", "/api/none"), 404),
        ("unknown path below", api("GET", "/api/servers/a/none"), 404),
        ("the root", api("GET", "/api"), 404),
        ("the root with a slash", api("GET", "/api/"), 404),
        ("unknown server", api("GET", "/api/servers/none"), 404),
        ("unknown agent", api("GET", "/api/agents/none"), 404),
        ("wrong method", api("PUT", "/api/status"), 405),
        (
            "wrong method on one server",
            api("PATCH", "/api/servers/a"),
            405,
        ),
        (
            "bad query",
            api("GET", "/api/servers/a/logs?lines=many"),
            400,
        ),
        ("bad name", api("GET", "/api/servers/%ff"), 400),
        (
            "not JSON",
            body(api("POST", "/api/servers"), json_kind, "{"),
            400,
        ),
        (
            "empty",
            body(api("POST", "/api/servers"), json_kind, ""),
            400,
        ),
        (
            "not said to be JSON",
            body(api("POST", "/api/servers"), "text/plain", "{}"),
            415,
        ),
        (
            "other JSON",
            body(api("POST", "/api/servers"), json_kind, "{}"),
            422,
        ),
        (
            "too large",
            body(api("POST", "/api/servers"), json_kind, &huge),
            413,
        ),
    ] {
        let response = ask.send().await;
        let answered = (response.status, response.kind().to_owned());
        if answered != (status, "application/problem+json".to_owned()) {
            wrong.push(format!("{what}: {answered:?}"));
            continue;
        }
        let problem = response.json().await;
        assert_eq!(problem["status"], status);
        assert_eq!(problem["type"], "about:blank");
        for member in ["title", "detail"] {
            assert!(problem[member].is_string(), "{what}: {problem}");
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_is_taken_and_leaves_nothing() {
    let dock = Dock::new(plain()).await;
    dock.handshake("2025-11-25")
        .await
        .call("work", json!({}))
        .await;
    assert_eq!(
        dock.client().post("/api/stop", None).await.unwrap(),
        json!(null)
    );
    dock.closed().await;
}
