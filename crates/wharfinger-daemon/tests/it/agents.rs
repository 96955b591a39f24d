//! Agents of the agent profile at the admin API: their servers, settings, tools and files.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use wharfinger::agentfile::{AgentFile, Keys, NewAgent};
use wharfinger_testkit::{Home, fake_server};

use crate::dock::{Dock, fake, mode, plain, refused};
use crate::http::within;

/// The tool of that name in a listing.
fn tool<'a>(tools: &'a Value, name: &str) -> &'a Value {
    let mut all = tools["tools"].as_array().unwrap().iter();
    all.find(|tool| tool["name"] == name).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a142_servers_are_attached_and_detached() {
    let dock = Dock::new(plain()).await;
    let client = dock.client();
    dock.make_bot().await;
    let home = dock.home.path().canonicalize().unwrap();
    let expect = json!({
        "name": "bot", "profile": "agent", "file": home.join("agents/bot.adf"), "state": "idle", "sessions": 0,
        "workspace": home.join("workspaces/bot"),
        "attached": [{ "name": "a", "registered": true, "restricted": false }],
        "newToolsRestricted": true, "acceptChanges": "nothing", "askClient": false, "alwaysActive": false,
        "hostAccess": false,
    });
    assert_eq!(dock.get("/api/agents/bot").await, expect);
    let tools = dock.get("/api/agents/bot/tools").await;
    assert_eq!(
        tools["servers"],
        json!([{ "name": "a", "restricted": "on", "visible": "on", "enabled": "on" }])
    );
    let again = dock
        .refusal("/api/agents/bot/servers", &json!({ "name": "a" }))
        .await;
    assert_eq!(again.0, 409);
    let unknown = dock
        .refusal("/api/agents/bot/servers", &json!({ "name": "b" }))
        .await;
    assert_eq!(unknown.0, 404);
    let chat = dock
        .refusal("/api/agents/default/servers", &json!({ "name": "a" }))
        .await;
    assert_eq!(chat.0, 409);
    let bot = client.delete("/api/agents/bot/servers/a").await.unwrap();
    assert_eq!(bot["attached"], json!([]));
    let gone = client.delete("/api/agents/bot/servers/a").await;
    assert_eq!(refused(gone).0, 409);
    let tools = dock.get("/api/agents/bot/tools").await;
    assert_eq!(tools["servers"], json!([]));
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_are_changed_one_by_one() {
    let dock = Dock::new(plain()).await;
    dock.make_bot().await;
    let path = "/api/agents/bot";
    for (key, value) in [
        ("newToolsRestricted", json!(false)),
        ("acceptChanges", json!("wider")),
        ("askClient", json!(true)),
        ("hostAccess", json!(true)),
        ("alwaysActive", json!(true)),
        ("alwaysActive", json!(false)),
    ] {
        let bot = dock.patch(path, &json!({ key: value })).await;
        assert_eq!(bot[key], value, "{bot}");
    }
    let bot = dock.get(path).await;
    assert_eq!(
        [&bot["newToolsRestricted"], &bot["acceptChanges"]],
        [&json!(false), &json!("wider")],
        "what is left out stays"
    );
    let server = dock
        .patch(
            "/api/agents/bot/servers/a",
            &json!({ "restricted": true, "acceptChanges": "cosmetic" }),
        )
        .await;
    assert_eq!(
        server["attached"],
        json!([{ "name": "a", "registered": true, "restricted": true, "acceptChanges": "cosmetic" }])
    );
    let client = dock.client();
    let off = client
        .patch("/api/agents/bot/servers/b", &json!({ "restricted": true }))
        .await;
    assert_eq!(refused(off).0, 409);
    let chat = client
        .patch("/api/agents/default", &json!({ "askClient": true }))
        .await;
    assert_eq!(refused(chat).0, 409);
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a199_what_is_wrong_with_a_request_has_the_name_of_its_field() {
    let dock = Dock::new(plain()).await;
    dock.make_bot().await;
    let client = dock.client();
    for (path, body, field) in [
        ("", json!({ "acceptChanges": "all" }), "acceptChanges"),
        ("", json!({ "askClient": "yes" }), "askClient"),
        ("", json!({ "askCleint": true }), "askCleint"),
        ("/servers/a", json!({ "restricted": 1 }), "restricted"),
    ] {
        let answer = client.patch(&format!("/api/agents/bot{path}"), &body).await;
        let (status, problem) = refused(answer);
        assert_eq!(status, 422, "{body}");
        assert!(problem["fields"][field].is_array(), "{body}: {problem}");
    }
    for (path, body, field) in [
        ("/api/agents/bot/servers", json!({}), "name"),
        ("/api/agents/bot/servers", json!({ "name": 7 }), "name"),
        (
            "/api/agents/bot/tools",
            json!({ "tool": "mcp_a_echo", "on": true }),
            "flag",
        ),
        (
            "/api/agents/bot/tools",
            json!({ "tool": "mcp_a_echo", "flag": "loud", "on": true }),
            "flag",
        ),
        (
            "/api/agents/bot/tools",
            json!({ "flag": "visible", "on": true }),
            "tool",
        ),
        (
            "/api/agents/bot/tools",
            json!({ "tool": "x", "server": "a", "flag": "visible", "on": true }),
            "tool",
        ),
        (
            "/api/agents/bot/tools/mcp_a_echo/lock",
            json!({ "locked": "x" }),
            "locked",
        ),
        (
            "/api/agents/bot/tools/mcp_a_echo/review",
            json!({}),
            "accept",
        ),
        ("/api/agents/bot/export", json!({}), "path"),
        ("/api/agents/import", json!({ "name": "x" }), "path"),
        ("/api/approvals/task_x", json!({}), "action"),
        (
            "/api/approvals/task_x",
            json!({ "action": "approve", "scope": "forever" }),
            "scope",
        ),
        ("/api/halt", json!({ "reason": 7 }), "reason"),
        ("/api/agents/bot/call", json!({ "asOwner": 1 }), "asOwner"),
    ] {
        let (status, problem) = dock.refusal(path, &body).await;
        assert_eq!(status, 422, "{path} {body}");
        assert!(problem["fields"][field].is_array(), "{body}: {problem}");
    }
    assert_eq!(dock.get("/api/status").await["halted"], json!(null));
    // An agent may be named like the path of the import.
    dock.post("/api/agents", &json!({ "name": "import" })).await;
    assert_eq!(dock.get("/api/agents/import").await["name"], "import");
    assert_eq!(
        dock.refusal("/api/agents/bot", &json!({ "path": "/x" }))
            .await
            .0,
        405
    );
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a160_tools_are_switched_one_by_one_and_all_of_a_server() {
    let dock = Dock::new(json!({ "a": fake(&["tool=x", "tool=y"], json!({})) })).await;
    dock.make_bot().await;
    let path = "/api/agents/bot/tools";
    let switch = async |what: Value, flag: &str, on: bool| {
        let mut body = what;
        body["flag"] = flag.into();
        body["on"] = on.into();
        dock.post(path, &body).await["changed"].clone()
    };
    let switches = async || dock.get(path).await["servers"][0].clone();
    let (one, all) = (|| json!({ "tool": "mcp_a_x" }), || json!({ "server": "a" }));
    assert_eq!(switch(one(), "restricted", false).await, 1);
    assert_eq!(switches().await["restricted"], "mixed");
    assert_eq!(switch(all(), "restricted", false).await, 1);
    assert_eq!(switches().await["restricted"], "off");
    // What is off is not shown, and switching on shows.
    assert_eq!(switch(all(), "enabled", false).await, 2);
    assert_eq!(
        switches().await,
        json!({ "name": "a", "restricted": "off", "visible": "none", "enabled": "off" })
    );
    assert_eq!(switch(one(), "enabled", true).await, 1);
    let tools = dock.get(path).await;
    assert_eq!(tool(&tools, "mcp_a_x")["visible"], true);
    // Locked ones are passed over, and refuse by themselves.
    let lock = json!({ "locked": true });
    dock.post(&format!("{path}/mcp_a_x/lock"), &lock).await;
    assert_eq!(switch(all(), "enabled", false).await, 0);
    let body = json!({ "tool": "mcp_a_x", "flag": "enabled", "on": false });
    let (status, problem) = dock.refusal(path, &body).await;
    assert_eq!(status, 409);
    let said = problem["detail"].as_str().unwrap();
    assert!(said.contains("wharf tools unlock mcp_a_x"), "{said}");
    let lock = json!({ "locked": false });
    let unlocked = dock.post(&format!("{path}/mcp_a_x/lock"), &lock).await;
    assert_eq!(unlocked["locked"], false);
    for (tool, status) in [("mcp_a_z", 404), ("", 404)] {
        let body = json!({ "tool": tool, "flag": "enabled", "on": true });
        assert_eq!(dock.refusal(path, &body).await.0, status);
    }
    let chat = dock.client().get("/api/agents/default/tools").await;
    assert_eq!(refused(chat).0, 409);
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a159_a_definition_is_shown_while_its_server_does_not_run() {
    let dock = Dock::new(plain()).await;
    dock.make_bot().await;
    dock.post("/api/halt", &json!({ "reason": "none may run" }))
        .await;
    assert_eq!(dock.processes(), Vec::<u32>::new());
    let shown = dock.get("/api/agents/bot/tools/mcp_a_echo").await;
    assert_eq!(
        [&shown["server"], &shown["tool"], &shown["status"]],
        ["a", "echo", "new"]
    );
    let schema = &shown["current"]["inputSchema"];
    assert_eq!(schema["required"], json!(["message"]));
    let own = dock.get("/api/agents/bot/tools/mcp_install").await;
    assert_eq!(own["server"], json!(null));
    assert!(own["current"]["inputSchema"].is_object(), "{own}");
    let none = dock.client().get("/api/agents/bot/tools/mcp_a_ecko").await;
    let (status, problem) = refused(none);
    assert_eq!(status, 404);
    let said = problem["detail"].as_str().unwrap();
    assert!(said.ends_with("did you mean `mcp_a_echo`?"), "{said}");
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_tool_is_shown_and_reviewed() {
    let home = Home::new();
    let starts = mode(&home, "schema-by-start", "starts");
    home.add_fake("a", &[&starts]);
    let dock = Dock::at(home).await;
    dock.make_bot().await;
    let path = "/api/agents/bot/tools/mcp_a_work";
    // It starts anew, and lists something else.
    let call = json!({ "server": "a", "tool": "work", "asOwner": true });
    let client = dock.client();
    let stream = client.stream(hyper::Method::POST, "/api/agents/bot/call", Some(&call));
    let mut stream = within("a stream", stream).await.unwrap();
    within("an end", stream.next()).await.unwrap();
    let changed = async || dock.get(path).await["status"] == "changed";
    let looking = async {
        while !changed().await {
            tokio::task::yield_now().await;
        }
    };
    within("the change to be seen", looking).await;
    let changed = dock.get(path).await;
    assert_eq!(
        [&changed["status"], &changed["enabled"]],
        [&json!("changed"), &json!(false)]
    );
    assert!(changed["change"]["class"].is_string(), "{changed}");
    assert_ne!(changed["reviewed"], changed["current"]);
    let review = format!("{path}/review");
    let (status, _) = dock
        .refusal(&review, &json!({ "accept": true, "seen": "another" }))
        .await;
    assert_eq!(status, 409);
    let seen = &changed["hash"];
    let accepted = dock
        .post(&review, &json!({ "accept": true, "seen": seen }))
        .await;
    assert_eq!(
        [
            &accepted["change"],
            &accepted["enabled"],
            &accepted["restricted"]
        ],
        [&json!(null), &json!(true), &json!(true)]
    );
    dock.close().await;
}

/// The file of another owner's agent, that brings a server of its own.
fn foreign(folder: &Path) -> PathBuf {
    let keys = Keys::load_or_create(&folder.join("keys-of-another")).unwrap();
    let server = json!({
        "name": "own", "transport": "stdio", "source": "custom", "command": fake_server(), "args": ["tool=x"],
        "run_location": "host",
    });
    let new = NewAgent {
        name: "visitor".into(),
        config: json!({ "mcp": { "servers": [server] } }),
        ..NewAgent::default()
    };
    let path = folder.join("visitor.adf");
    AgentFile::create(&path, &new, &keys)
        .unwrap()
        .close()
        .unwrap();
    path
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a201_an_agent_leaves_and_comes_as_a_file() {
    let dock = Dock::new(plain()).await;
    dock.make_bot().await;
    let file = dock.home.file("copy.adf");
    let export = json!({ "path": file });
    let exported = dock.post("/api/agents/bot/export", &export).await;
    assert_eq!(exported, json!({ "agent": "bot", "path": file }));
    assert_eq!(dock.refusal("/api/agents/bot/export", &export).await.0, 409);
    let again = dock.refusal("/api/agents/import", &export).await;
    assert_eq!(again.0, 409, "its name is taken");
    assert!(again.1["hint"].is_string());
    let import = json!({ "path": file, "name": "twin" });
    let twin = dock.post("/api/agents/import", &import).await;
    assert_eq!([&twin["name"], &twin["attached"][0]["name"]], ["twin", "a"]);
    let folder = dock.home.file("folder.adf");
    std::fs::create_dir(&folder).unwrap();
    let other = dock.home.file("settings.json");
    let text = dock.home.file("text.adf");
    std::fs::copy(&other, &text).unwrap();
    for path in [
        json!("relative.adf"),
        json!(other),
        json!(folder),
        json!(text),
        json!("/nowhere/at/all.adf"),
        json!("/proc/self/mem"),
    ] {
        let body = json!({ "path": path, "name": "x" });
        let (status, problem) = dock.refusal("/api/agents/import", &body).await;
        assert_eq!(status, 422, "{path}");
        assert!(problem["fields"]["path"].is_array(), "{path}: {problem}");
    }
    for path in [json!("relative.adf"), json!("/tmp/x.json")] {
        let (status, problem) = dock
            .refusal("/api/agents/bot/export", &json!({ "path": path }))
            .await;
        assert_eq!(status, 422, "{path}");
        assert!(problem["fields"]["path"].is_array(), "{path}: {problem}");
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_file_of_another_owner_would_run_is_confirmed_first() {
    let dock = Dock::with(plain(), json!({ "hostAccess": true })).await;
    let file = foreign(dock.home.path());
    let mut body = json!({ "path": file });
    let (status, problem) = dock.refusal("/api/agents/import", &body).await;
    assert_eq!(status, 409);
    let runs = json!([format!("own: {} 'tool=x'", fake_server().display())]);
    assert_eq!(problem["runs"], runs, "{problem}");
    assert_eq!(
        dock.get("/api/agents").await["agents"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    body["confirmed"] = json!(true);
    let visitor = dock.post("/api/agents/import", &body).await;
    assert_eq!(visitor["name"], "visitor");
    assert_eq!(visitor["attached"][0]["registered"], false);
    let confirmed = dock.post("/api/agents/visitor/confirm", &json!({})).await;
    assert_eq!(confirmed, json!({ "agent": "visitor", "runs": runs }));
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a190_everything_is_stopped_and_released() {
    let dock = Dock::new(plain()).await;
    let call = json!({ "name": "pid" });
    let client = dock.client();
    let talk = async || {
        let stream = client.stream(hyper::Method::POST, "/api/agents/default/call", Some(&call));
        let mut stream = within("a stream", stream).await.unwrap();
        within("an end", stream.next())
            .await
            .unwrap()
            .unwrap()
            .event
    };
    assert_eq!(talk().await, "result");
    assert_ne!(dock.processes(), Vec::<u32>::new());
    let halted = dock.post("/api/halt", &json!({ "reason": "fire" })).await;
    assert_eq!(dock.processes(), Vec::<u32>::new());
    assert_eq!(halted["reason"], "fire");
    assert_eq!(dock.get("/api/status").await["halted"], halted);
    assert_eq!(talk().await, "error");
    // A hurried owner gives no reason, and the first one stays.
    let again = within("halt", client.post("/api/halt", None)).await;
    assert_eq!(again.unwrap(), halted);
    let home = dock.close().await;
    let dock = Dock::at(home).await;
    assert_eq!(dock.get("/api/status").await["halted"], halted);
    let released = dock.post("/api/release", &json!({})).await;
    assert_eq!(released, json!({ "released": true }));
    let released = dock.post("/api/release", &json!({})).await;
    assert_eq!(released, json!({ "released": false }));
    assert_eq!(dock.get("/api/status").await["halted"], json!(null));
    // The socket's client is the same for every daemon of a home.
    assert_eq!(talk().await, "result");
    dock.close().await;
}
