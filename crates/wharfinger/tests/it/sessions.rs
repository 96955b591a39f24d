//! What a session hears between calls, and changes while it lives.

use serde_json::json;
use wharfinger::SessionNote;
use wharfinger::config::load;
use wharfinger::model::Status;
use wharfinger_testkit::{Home, poll_until, processes};

use crate::yard::{Yard, call, fake, host, inputs, names, say};

async fn change(yard: &Yard, servers: serde_json::Value) -> wharfinger::Change {
    yard.wharf
        .change(load(&inputs(&servers, &json!({}), host())))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn c26_changes_apply_live_and_leave_alone_what_works() {
    let stay = fake(&["tool=stay"], json!({}));
    let yard = Yard::new(json!({ "stay": stay, "gone": fake(&["tool=gone"], json!({})) })).await;
    let session = yard.session("s");
    let stay_pid = say(&session, "stay", json!({})).await;
    say(&session, "gone", json!({})).await;
    let before = yard.processes();
    assert_eq!(before.len(), 2);
    let done = change(
        &yard,
        json!({ "stay": stay, "new": fake(&["tool=new"], json!({})) }),
    )
    .await;
    let names_of = |list: &[wharfinger::model::ServerName]| {
        list.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(names_of(&done.difference.added), ["new"]);
    assert_eq!(names_of(&done.difference.removed), ["gone"]);
    let left = yard.processes();
    assert!(
        left.iter().any(|pid| before.contains(pid)),
        "what works is left alone"
    );
    assert_eq!(names(&session).await, ["stay", "new"]);
    assert_eq!(say(&session, "stay", json!({})).await, stay_pid);
    let refused = call(&session, "gone", json!({}))
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains("there is no tool `gone`"), "{refused}");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c26_a_running_instance_keeps_its_configuration_until_it_stops() {
    let yard = Yard::new(json!({ "s": fake(&["say=old"], json!({})) })).await;
    let session = yard.session("s");
    assert_eq!(say(&session, "work", json!({})).await, "old");
    change(&yard, json!({ "s": fake(&["say=new"], json!({})) })).await;
    assert_eq!(say(&session, "work", json!({})).await, "old");
    let words = |yard: &Yard| yard.wharf.reports(session.agent()).remove(0).status_text;
    assert_eq!(
        words(&yard),
        "running with an older configuration; a restart applies the new one"
    );
    yard.wharf.stop_server("s", None).await;
    assert_eq!(say(&session, "work", json!({})).await, "new");
    assert_eq!(words(&yard), "running");
    // Who replaces an entry means it to be used.
    change(&yard, json!({ "s": fake(&["say=newer"], json!({})) })).await;
    yard.wharf.renew_server("s").await;
    assert_eq!(say(&session, "work", json!({})).await, "newer");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn switching_off_stops_at_once() {
    let yard = Yard::new(json!({ "s": fake(&[], json!({})) })).await;
    let session = yard.session("s");
    let pid: u32 = say(&session, "pid", json!({})).await.parse().unwrap();
    change(&yard, json!({ "s": fake(&[], json!({"enabled": false})) })).await;
    assert!(!processes::alive(pid));
    let refused = call(&session, "pid", json!({}))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("s: this MCP server is disabled"),
        "{refused}"
    );
    assert_eq!(
        yard.wharf.reports(session.agent())[0].status,
        Status::Disabled
    );
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn log_messages_between_calls_reach_the_session_at_its_level() {
    let yard = Yard::new(json!({ "s": fake(&["notify-flood=3"], json!({})) })).await;
    let session = yard.session("s");
    names(&session).await;
    let mut notes = session.notes();
    // The flood comes right after the handshake, so during the first call or before it.
    call(&session, "work", json!({})).await.unwrap();
    assert!(session.set_log_level("error") && !session.set_log_level("loud"));
    yard.wharf.stop_server("s", None).await;
    while let Ok(note) = notes.try_recv() {
        let SessionNote::Notification { method, .. } = note;
        assert_eq!(method, "notifications/message");
    }
    let mut heard = 0;
    crate::yard::call_with(&session, "work", json!({}), |_| heard += 1)
        .await
        .unwrap();
    assert_eq!(heard, 0, "info is below error");
    assert!(notes.try_recv().is_err());
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mended_entry_counts_once_the_death_was_told() {
    let yard = Yard::new(json!({ "s": fake(&["crash-after=1"], json!({})) })).await;
    let session = yard.session("s");
    assert!(
        say(&session, "work", json!({}))
            .await
            .contains("exited (code 42)")
    );
    change(&yard, json!({ "s": fake(&["say=mended"], json!({})) })).await;
    assert_eq!(say(&session, "work", json!({})).await, "mended");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v60_a_session_that_never_ends_keeps_nothing_running() {
    let yard = Yard::new(json!({ "s": fake(&[], json!({})) })).await;
    let lasting = yard.wharf.session(wharfinger::SessionOptions {
        agent: yard.wharf.agent("default").unwrap(),
        id: wharfinger::model::SessionId::new("lasting").unwrap(),
        declared: wharfinger::model::Declared::default(),
        reserved: vec![],
        lasting: true,
    });
    let session = yard.session("s");
    let pid = say(&lasting, "pid", json!({})).await;
    assert_eq!(say(&session, "pid", json!({})).await, pid);
    session.end().await;
    assert!(!processes::alive(pid.parse().unwrap()));
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ended_session_calls_nothing() {
    let yard = Yard::new(json!({ "s": fake(&[], json!({})) })).await;
    let session = yard.session("s");
    say(&session, "work", json!({})).await;
    session.end().await;
    let refused = call(&session, "work", json!({}))
        .await
        .unwrap_err()
        .to_string();
    assert_eq!(refused, "this session is over");
    assert_eq!(yard.processes(), Vec::<u32>::new());
    yard.close().await;
}

/// Two calls in flight at a server each, one of each session.
async fn waiting(yard: &Yard, server: &str) -> [tokio::task::JoinHandle<String>; 2] {
    let calls = ["one", "two"].map(|id| {
        let (session, tool) = (yard.session(id), format!("{server}_work"));
        tokio::spawn(async move { say(&session, &tool, json!({})).await })
    });
    poll_until("both calls to arrive", tokio::time::sleep, || {
        let lines = yard.home.lines("lines");
        lines
            .iter()
            .filter(|line| line.contains("tools/call"))
            .count()
            >= 2
    })
    .await;
    calls
}

/// One that serves two sessions at once, and holds each call.
async fn holding(scope: &str) -> Yard {
    let home = Home::new();
    let (gate, record, cancelled) = (
        Yard::mode(&home, "wait-for", "gate"),
        Yard::mode(&home, "record", "lines"),
        Yard::mode(&home, "cancel-file", "cancelled"),
    );
    let more = json!({ "parallel": true, "toolPrefix": "s_", "scope": scope });
    let entry = fake(&[&gate, &record, &cancelled], more);
    Yard::at(home, json!({ "s": entry }), json!({}), host()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn v65_stopping_one_sessions_calls_touches_nobody_elses() {
    for scope in ["agent", "session"] {
        let yard = holding(scope).await;
        let [one, two] = waiting(&yard, "s").await;
        assert_eq!(yard.session("one").calls_in_flight(), 1);
        assert_eq!(yard.session("one").stop_calls(), 1);
        assert_eq!(one.await.unwrap(), "refused: the call was stopped");
        poll_until("the server to be told", tokio::time::sleep, || {
            yard.home.lines("cancelled").len() == 1
        })
        .await;
        assert_eq!(yard.session("two").calls_in_flight(), 1, "{scope}");
        yard.home.write("gate", "");
        assert!(two.await.unwrap().starts_with("ok"), "{scope}");
        // It goes on afterwards.
        assert!(
            say(&yard.session("one"), "s_work", json!({}))
                .await
                .starts_with("ok")
        );
        yard.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn v60_the_next_conversation_starts_afresh_and_leaves_others_alone() {
    let yard = Yard::new(json!({
        "own": fake(&[], json!({ "scope": "session", "toolPrefix": "own_" })),
        "shared": fake(&[], json!({})),
    }))
    .await;
    let id = |text: &str| wharfinger::model::SessionId::new(text).unwrap();
    let (mut session, other) = (yard.session("one"), yard.session("other"));
    let own = say(&session, "own_pid", json!({})).await;
    let shared = say(&session, "pid", json!({})).await;
    assert_eq!(say(&other, "pid", json!({})).await, shared);
    let others = say(&other, "own_pid", json!({})).await;
    // `/new`, then `/resume` of the first.
    for next in ["two", "one"] {
        let before = session.clone();
        session = session.next(id(next)).await;
        assert!(!before.is_open());
        assert_eq!(session.servers_in_use(), []);
        let refused = call(&before, "pid", json!({})).await.unwrap_err();
        assert_eq!(refused.to_string(), "this session is over");
        assert_ne!(say(&session, "own_pid", json!({})).await, own);
        assert_eq!(
            say(&session, "pid", json!({})).await,
            shared,
            "others use it"
        );
        assert_eq!(say(&other, "own_pid", json!({})).await, others);
    }
    // The one that it is already is gone on with.
    let pid = say(&session, "own_pid", json!({})).await;
    let same = session.next(id("one")).await;
    assert_eq!(say(&same, "own_pid", json!({})).await, pid);
    assert!(yard.wharf.find_session(session.agent(), "one").is_some());
    let foreign = wharfinger::model::AgentName::new("somebody").unwrap();
    assert!(yard.wharf.find_session(&foreign, "one").is_none());
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_server_is_told_the_least_severe_level_that_anybody_wants() {
    let home = Home::new();
    let record = Yard::mode(&home, "record", "lines");
    let entry = fake(&["log=debug", &record], json!({}));
    let yard = Yard::at(home, json!({ "s": entry }), json!({}), host()).await;
    let (one, two) = (yard.session("one"), yard.session("two"));
    for session in [&one, &two] {
        say(session, "work", json!({})).await;
    }
    let levels = || -> Vec<String> {
        let lines = yard.home.lines("lines");
        let set = lines
            .iter()
            .filter(|line| line.contains("logging/setLevel"));
        set.map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line["params"]["level"].as_str().unwrap().to_owned()
        })
        .collect()
    };
    for (session, level, expect) in [
        (&one, "debug", "debug"),
        (&two, "error", "debug"),
        (&one, "warning", "warning"),
    ] {
        let before = levels().len();
        assert!(session.set_log_level(level));
        poll_until("the server to be told", tokio::time::sleep, || {
            levels().len() > before
        })
        .await;
        assert_eq!(levels().last().unwrap(), expect);
    }
    yard.close().await;
}
