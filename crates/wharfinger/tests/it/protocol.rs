//! Eras: found out once, remembered, both spoken.

use serde_json::json;
use wharfinger_testkit::Home;

use crate::yard::{Yard, fake, host, names, say, starts};

/// How long the question may stay unanswered. Only for a server that never answers it is that to be short.
fn probe(silent: bool) -> serde_json::Value {
    let wait = if silent { 0.3 } else { 15.0 };
    json!({ "daemon": { "exitWaitSeconds": 0.3, "termWaitSeconds": 0.3, "probeWaitSeconds": wait } })
}

/// What the server is asked first, at discovery and at its later start.
async fn openings(modes: &[&str]) -> (Vec<String>, usize) {
    let home = Home::new();
    let (record, count) = (
        Yard::mode(&home, "record", "lines"),
        Yard::mode(&home, "count-starts", "starts"),
    );
    let mut all = modes.to_vec();
    all.extend([record.as_str(), count.as_str()]);
    let silent = modes.contains(&"discover-silent");
    let entry = fake(
        &all,
        json!({ "startupTimeoutSeconds": if silent { 4 } else { 60 } }),
    );
    let yard = Yard::at(home, json!({ "s": entry }), probe(silent), host()).await;
    let session = yard.session("s");
    names(&session).await;
    assert_eq!(say(&session, "work", json!({})).await, "ok 1", "{modes:?}");
    let lines = yard.home.lines("lines");
    let methods = lines.iter().filter_map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        let method = line["method"].as_str()?;
        matches!(method, "server/discover" | "initialize").then(|| method.to_owned())
    });
    let methods: Vec<String> = methods.collect();
    let starts = starts(&yard.home, "starts");
    yard.close().await;
    (methods, starts)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_era_is_probed_once_and_remembered() {
    let check = |modes: &'static [&'static str],
                 methods: &'static [&'static str],
                 starts: usize| async move {
        let got = openings(modes).await;
        assert_eq!(
            (got.0.iter().map(String::as_str).collect::<Vec<_>>(), got.1),
            (methods.to_vec(), starts),
            "{modes:?}"
        );
    };
    check(&[], &["server/discover", "initialize", "initialize"], 2).await;
    check(&["modern"], &["server/discover", "server/discover"], 2).await;
    check(&["modern-only"], &["server/discover", "server/discover"], 2).await;
    check(
        &["discover-dies"],
        &["server/discover", "initialize", "initialize"],
        3,
    )
    .await;
    // Locked by the question: asked both, then a fresh process.
    check(
        &["discover-silent"],
        &["server/discover", "initialize", "initialize", "initialize"],
        3,
    )
    .await;
    check(
        &["protocol=2024-11-05"],
        &["server/discover", "initialize", "initialize"],
        2,
    )
    .await;
    // Slow, so that both questions wait: no second process is needed.
    check(
        &["slow-init=1"],
        &["server/discover", "initialize", "initialize"],
        2,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_era_that_changed_is_found_out_again() {
    let home = Home::new();
    let switch = home.file("modern");
    let program = wharfinger_testkit::fake_server().display().to_string();
    let script = format!(
        "test -e {} && exec {program} modern-only; exec {program}",
        switch.display()
    );
    let servers = json!({ "s": { "command": "sh", "args": ["-c", script] } });
    let yard = Yard::at(home, servers.clone(), probe(false), host()).await;
    let session = yard.session("s");
    assert_eq!(say(&session, "work", json!({})).await, "ok 1");
    session.end().await;
    yard.home.write("modern", "");
    assert_eq!(say(&yard.session("t"), "work", json!({})).await, "ok 1");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stateless_server_tells_of_changes_and_progress() {
    let yard = Yard::new(
        json!({ "s": fake(&["modern", "list-changed-on-call", "progress=3"], json!({})) }),
    )
    .await;
    let session = yard.session("s");
    assert_eq!(names(&session).await.len(), 5);
    let mut changes = yard.wharf.generation();
    let mut progress = 0;
    crate::yard::call_with(&session, "work", json!({}), |note| {
        progress += usize::from(matches!(note, wharfinger::CallNote::Progress(_)));
    })
    .await
    .unwrap();
    assert_eq!(progress, 3);
    changes
        .wait_for(|_| session.known_tools().tools.len() == 6)
        .await
        .unwrap();
    yard.close().await;
}
