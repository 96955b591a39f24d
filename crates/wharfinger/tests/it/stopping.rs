//! The end of processes (V67): polite, then firm, then waited for; nothing is left.

use serde_json::json;
use wharfinger_testkit::{Home, poll_until, processes};

use crate::yard::{Yard, fake, host, names, quick, say};

#[tokio::test(flavor = "multi_thread")]
async fn v67_no_orphan_survives_however_stubborn() {
    for modes in [
        &[][..],
        &["ignore-eof"],
        &["ignore-eof", "ignore-term"],
        &["fork-child"],
        &["setsid-child"],
        &[
            "setsid-child",
            "stubborn-child",
            "ignore-eof",
            "ignore-term",
        ],
    ] {
        let home = Home::new();
        let child = Yard::mode(&home, "child-pid", "child");
        let mut all: Vec<&str> = modes.to_vec();
        if modes.iter().any(|mode| mode.ends_with("-child")) {
            all.push(&child);
        }
        let yard = Yard::at(home, json!({ "s": fake(&all, json!({})) }), quick(), host()).await;
        let session = yard.session("s");
        names(&session).await;
        yard.until_no_process().await;
        let before = yard.home.lines("child");
        let pid: u32 = say(&session, "pid", json!({})).await.parse().unwrap();
        if all.contains(&child.as_str()) {
            poll_until("the grandchild", tokio::time::sleep, || {
                !yard.home.lines("child").is_empty() && yard.home.lines("child") != before
            })
            .await;
        }
        let children = yard.home.lines("child");
        session.end().await;
        assert!(
            !processes::alive(pid),
            "{modes:?}: {}",
            processes::command_line(pid)
        );
        for child in children {
            assert!(
                !processes::alive(child.parse().unwrap()),
                "{modes:?}: grandchild {child}"
            );
        }
        yard.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn v67_behind_a_shell_nothing_is_left_either() {
    let fake = wharfinger_testkit::fake_server().display().to_string();
    let entry =
        json!({ "command": "sh", "args": ["-c", format!("{fake} ignore-term ignore-eof; true")] });
    let yard = Yard::with_config(json!({ "s": entry }), quick()).await;
    let session = yard.session("s");
    let pid: u32 = say(&session, "pid", json!({})).await.parse().unwrap();
    assert!(processes::alive(pid));
    session.end().await;
    assert!(!processes::alive(pid));
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_server_leaves_is_ended_too() {
    let home = Home::new();
    let child = Yard::mode(&home, "child-pid", "child");
    let entry = fake(&["setsid-child", &child, "crash-after=1"], json!({}));
    let yard = Yard::at(home, json!({ "s": entry }), quick(), host()).await;
    let session = yard.session("s");
    let said = say(&session, "work", json!({})).await;
    assert!(said.contains("exited (code 42)"), "{said}");
    yard.until_no_process().await;
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shutting_down_ends_calls_and_servers_that_are_starting() {
    let yard = Yard::with_config(
        json!({
            "hangs": fake(&["hang-call", "tool=hang"], json!({})),
            "starts": fake(&["never-init", "ignore-eof"], json!({})),
        }),
        json!({ "daemon": { "exitWaitSeconds": 0.3, "termWaitSeconds": 0.3, "listWaitSeconds": 0.3 } }),
    )
    .await;
    let session = yard.session("s");
    names(&session).await;
    let called = session.clone();
    let call = tokio::spawn(async move { say(&called, "hang", json!({})).await });
    let agent = session.agent().clone();
    poll_until("the call to run", tokio::time::sleep, || {
        matches!(
            yard.wharf.reports(&agent)[0].status,
            wharfinger::model::Status::Running { .. }
        )
    })
    .await;
    yard.close().await;
    let said = call.await.unwrap();
    assert!(said.contains("was stopped"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_closes_its_output_but_lives_is_ended() {
    let entry = json!({
        "command": "sh",
        "args": ["-c", format!("{} crash-after=1; exec >&-; sleep 600", wharfinger_testkit::fake_server().display())],
    });
    let yard = Yard::with_config(json!({ "s": entry }), quick()).await;
    let session = yard.session("s");
    let said = say(&session, "work", json!({})).await;
    assert!(said.contains("the MCP server exited"), "{said}");
    yard.until_no_process().await;
    yard.close().await;
}
