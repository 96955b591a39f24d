//! Edits of settings.json while the daemon runs, by hand and by the API.

use serde_json::{Value, json};
use wharfinger_daemon::client::Messages;
use wharfinger_testkit::{Home, fake_server};

use crate::dock::{Dock, fake, plain, refused};
use crate::http::within;

/// The next change of the configuration.
async fn change(events: &mut Messages) -> Value {
    loop {
        let event = within("the next event", events.next())
            .await
            .unwrap()
            .unwrap();
        if event.data["event"] == "configChanged" {
            return event.data;
        }
    }
}

async fn listen(dock: &Dock) -> Messages {
    let client = dock.client();
    let mut events = client
        .stream(hyper::Method::GET, "/api/events", None)
        .await
        .unwrap();
    // The first write shows that it listens, and is waited for, as the daemon's own start may be seen late.
    let body = json!({ "servers": { "probe": fake(&[], json!({ "enabled": false })) } });
    dock.post("/api/servers", &body).await;
    assert_eq!(change(&mut events).await["added"], json!(["probe"]));
    client.delete("/api/servers/probe").await.unwrap();
    assert_eq!(change(&mut events).await["removed"], json!(["probe"]));
    events
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c26_an_edit_by_hand_is_in_force_without_a_restart() {
    let dock = Dock::new(plain()).await;
    let caller = dock.handshake("2025-11-25").await;
    caller.call("work", json!({})).await;
    let mut events = listen(&dock).await;
    dock.home.add_fake("b", &["tool=extra"]);
    let event = change(&mut events).await;
    assert_eq!(
        (&event["added"], &event["removed"]),
        (&json!(["b"]), &json!([]))
    );
    assert_eq!(caller.names().await.last().unwrap(), "extra");
    // As editors do it: another file that takes the name.
    let text = json!({ "mcpServers": { "b": fake(&["tool=other"], json!({})) } }).to_string();
    let next = dock.home.write("settings.json.new", &text);
    std::fs::rename(next, dock.home.file("settings.json")).unwrap();
    let event = change(&mut events).await;
    assert_eq!(
        (&event["changed"], &event["removed"]),
        (&json!(["b"]), &json!(["a"]))
    );
    assert_eq!(caller.names().await, ["other"]);
    dock.until_no_process().await;
    // And gone as a whole.
    std::fs::remove_file(dock.home.file("settings.json")).unwrap();
    assert_eq!(change(&mut events).await["removed"], json!(["b"]));
    assert_eq!(caller.names().await, Vec::<String>::new());
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn v23_a_bad_edit_by_hand_leaves_the_last_good_entry_in_force_and_shows_the_error() {
    let dock = Dock::new(plain()).await;
    let caller = dock.handshake("2025-11-25").await;
    let pid = caller.call("pid", json!({})).await;
    let mut events = listen(&dock).await;
    let bad = fake(&[], json!({ "callTimeoutSeconds": 0 }));
    dock.home
        .write_settings(&json!({ "mcpServers": { "a": bad } }));
    assert_eq!(change(&mut events).await["problems"], 1);
    assert_eq!(caller.call("pid", json!({})).await, pid, "it runs on");
    let report = dock.get("/api/servers/a").await;
    assert!(
        report["error"]
            .as_str()
            .unwrap()
            .contains("callTimeoutSeconds"),
        "{report}"
    );
    let problems = dock.get("/api/status").await["problems"].clone();
    assert_eq!(
        problems[0]["key"], "mcpServers.a.callTimeoutSeconds",
        "{problems}"
    );
    dock.home.write("settings.json", "{ not json");
    change(&mut events).await;
    assert_eq!(caller.call("pid", json!({})).await, pid, "it runs on");
    assert!(
        !dock.get("/api/status").await["problems"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    // The API does not write over what it can't read.
    for (path, body) in [
        (
            "/api/servers",
            Some(json!({ "servers": { "x": fake(&[], json!({})) } })),
        ),
        ("/api/servers/a/disable", None),
    ] {
        let (status, problem) = refused(dock.client().post(path, body.as_ref()).await);
        assert_eq!(status, 409, "{path}: {problem}");
        assert!(problem["hint"].is_string());
    }
    assert_eq!(dock.home.read("settings.json"), "{ not json");
    dock.home.write_settings(&json!({ "mcpServers": plain() }));
    assert_eq!(change(&mut events).await["problems"], 0);
    let report = dock.get("/api/servers/a").await;
    assert_eq!(
        (&report["error"], &report["status"]["state"]),
        (&json!(null), &json!("running"))
    );
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_people_wrote_stays_as_they_wrote_it() {
    let home = Home::new();
    let text = |b: &str| {
        format!(
            "// my servers\n{{\n  \"theme\": \"dark\", // mine\n  \"mcpServers\": {{\n    /* the first */\n    \"a\": {{ \"command\": {:?}, \"args\": [\"tools=1\"] }}{b}\n  }},\n  \"n\": 1.50\n}}\n",
            fake_server().display().to_string()
        )
    };
    home.write("settings.json", &text(""));
    let dock = Dock::at(home).await;
    let body = json!({ "servers": { "b": fake(&["tools=2"], json!({})) } });
    dock.post("/api/servers", &body).await;
    let added = dock.home.read("settings.json");
    for kept in [
        "// my servers",
        "\"theme\": \"dark\", // mine",
        "/* the first */",
        "1.50",
    ] {
        assert!(added.contains(kept), "{kept}: {added}");
    }
    dock.client()
        .post("/api/servers/a/disable", None)
        .await
        .unwrap();
    assert!(dock.home.read("settings.json").contains("/* the first */"));
    dock.client()
        .post("/api/servers/a/enable", None)
        .await
        .unwrap();
    dock.client().delete("/api/servers/b").await.unwrap();
    let end = dock.home.read("settings.json");
    for kept in [
        "// my servers",
        "\"theme\": \"dark\", // mine",
        "/* the first */",
        "1.50",
    ] {
        assert!(end.contains(kept), "{kept}: {end}");
    }
    assert!(!end.contains("\"b\""), "{end}");
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edits_at_the_same_time_come_one_after_the_other() {
    let dock = Dock::new(json!({})).await;
    let names: Vec<String> = (0..12).map(|n| format!("s{n:02}")).collect();
    let adding = names.iter().map(|name| {
        let body = json!({ "servers": { name: fake(&["tools=1"], json!({ "enabled": false })) } });
        let client = dock.client();
        async move { client.post("/api/servers", Some(&body)).await.unwrap() }
    });
    within("all of them", futures_util::future::join_all(adding)).await;
    let kept: Value = serde_json::from_str(&dock.home.read("settings.json")).unwrap();
    let mut found: Vec<&String> = kept["mcpServers"].as_object().unwrap().keys().collect();
    found.sort();
    assert_eq!(found, names.iter().collect::<Vec<_>>());
    dock.close().await;
}
