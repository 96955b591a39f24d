//! Starting, sharing and idling (V12, V57–V60, V68).

use serde_json::json;
use wharfinger::model::{Declared, Status};
use wharfinger_testkit::{Home, poll_until, processes};

use crate::yard::{Yard, call, fake, host, names, say, starts};

#[tokio::test(flavor = "multi_thread")]
async fn v57_listing_starts_nothing_and_the_first_call_does() {
    let home = Home::new();
    let count = Yard::mode(&home, "count-starts", "starts");
    let yard = Yard::at(
        home,
        json!({ "s": fake(&[&count], json!({})) }),
        json!({}),
        host(),
    )
    .await;
    let session = yard.session("s");
    names(&session).await;
    yard.until_no_process().await;
    names(&session).await;
    assert_eq!(yard.processes().len(), 0);
    assert_eq!(
        yard.wharf.reports(session.agent())[0].status,
        Status::NotStarted
    );
    say(&session, "work", json!({})).await;
    assert_eq!(yard.processes().len(), 1);
    assert_eq!(starts(&yard.home, "starts"), 2);
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v58_concurrent_first_calls_start_one_process() {
    let home = Home::new();
    let count = Yard::mode(&home, "count-starts", "starts");
    let entry = fake(&["slow-init=0.2", &count], json!({ "parallel": true }));
    let yard = Yard::at(home, json!({ "s": entry }), json!({}), host()).await;
    let session = yard.session("s");
    names(&session).await;
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let session = session.clone();
            tokio::spawn(async move { call(&session, "pid", json!({})).await.unwrap() })
        })
        .collect();
    let mut pids = vec![];
    for call in calls {
        pids.push(call.await.unwrap()["content"][0]["text"].to_string());
    }
    pids.dedup();
    assert_eq!(pids.len(), 1);
    assert_eq!(starts(&yard.home, "starts"), 2, "discovery and one");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v59_an_idle_server_stops_and_the_next_call_starts_it_quietly() {
    let home = Home::new();
    let count = Yard::mode(&home, "count-starts", "starts");
    let entry = fake(&[&count], json!({ "idleTimeoutSeconds": 0.2 }));
    let never = fake(&["tool=stay"], json!({ "idleTimeoutSeconds": 0 }));
    let yard = Yard::at(
        home,
        json!({ "s": entry, "never": never }),
        json!({}),
        host(),
    )
    .await;
    let session = yard.session("s");
    say(&session, "stay", json!({})).await;
    assert_eq!(say(&session, "work", json!({})).await, "ok 1");
    let report = |n: usize| yard.wharf.reports(session.agent())[n].status.clone();
    poll_until("it to idle", tokio::time::sleep, || {
        report(0) == Status::NotStarted
    })
    .await;
    assert!(matches!(report(1), Status::Running { .. }), "0 is never");
    assert_eq!(
        say(&session, "work", json!({})).await,
        "ok 1",
        "no error tells of an idle stop"
    );
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v60_the_end_of_a_session_stops_what_nobody_else_uses() {
    let yard = Yard::new(json!({ "s": fake(&[], json!({})) })).await;
    let (one, two) = (yard.session("one"), yard.session("two"));
    let first = say(&one, "pid", json!({})).await;
    assert_eq!(
        say(&two, "pid", json!({})).await,
        first,
        "sessions that declare the same share"
    );
    one.end().await;
    assert_eq!(
        say(&two, "pid", json!({})).await,
        first,
        "somebody still uses it"
    );
    two.end().await;
    assert!(!processes::alive(first.parse().unwrap()), "waited for");
    let three = yard.session("three");
    assert_ne!(say(&three, "pid", json!({})).await, first, "a fresh one");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_declare_something_else_have_their_own_instance() {
    let yard = Yard::new(json!({ "s": fake(&["roots"], json!({})) })).await;
    let plain = yard.session("plain");
    let declared = Declared::with_roots(vec!["file:///somewhere".into()]);
    let rooted = yard.session_as("default", "rooted", declared.clone());
    let same = yard.session_as("default", "same", declared);
    let pid = say(&plain, "pid", json!({})).await;
    let other = say(&rooted, "pid", json!({})).await;
    assert_ne!(pid, other);
    assert_eq!(say(&same, "pid", json!({})).await, other);
    let roots = say(&rooted, "roots", json!({})).await;
    assert!(roots.contains("file:///somewhere"), "{roots}");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_session_scope_is_never_shared() {
    let yard = Yard::new(json!({ "s": fake(&[], json!({"scope": "session"})) })).await;
    let (one, two) = (yard.session("one"), yard.session("two"));
    let first = say(&one, "pid", json!({})).await;
    let second = say(&two, "pid", json!({})).await;
    assert_ne!(first, second);
    one.end().await;
    assert!(!processes::alive(first.parse().unwrap()));
    assert_eq!(say(&two, "pid", json!({})).await, second);
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v68_agents_have_their_own_processes_in_their_own_workspaces() {
    let yard = Yard::new(json!({ "s": fake(&[], json!({})) })).await;
    yard.wharf
        .add_agent(
            wharfinger::model::AgentName::new("other").unwrap(),
            wharfinger::model::Profile::Chat,
        )
        .await
        .unwrap();
    let one = yard.session("one");
    let two = yard.session_as("other", "two", Declared::default());
    assert_ne!(
        say(&one, "pid", json!({})).await,
        say(&two, "pid", json!({})).await
    );
    assert!(
        say(&one, "cwd", json!({}))
            .await
            .ends_with("/workspaces/default")
    );
    assert!(
        say(&two, "cwd", json!({}))
            .await
            .ends_with("/workspaces/other")
    );
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v14_cwd_is_the_workspace_or_relative_to_it() {
    let yard = Yard::new(json!({
        "a": fake(&["tool=cwd"], json!({"cwd": "sub/dir", "toolPrefix": "a_"})),
        "b": fake(&["tool=cwd"], json!({"cwd": "${workspace}/w", "toolPrefix": "b_"})),
        "c": fake(&["tool=cwd"], json!({"cwd": "/tmp", "toolPrefix": "c_"})),
    }))
    .await;
    let session = yard.session("s");
    let workspace = yard.wharf.workspace(session.agent()).display().to_string();
    assert_eq!(
        say(&session, "a_cwd", json!({})).await,
        format!("{workspace}/sub/dir")
    );
    assert_eq!(
        say(&session, "b_cwd", json!({})).await,
        format!("{workspace}/w")
    );
    assert_eq!(say(&session, "c_cwd", json!({})).await, "/tmp");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v12_a_disabled_server_is_not_started_and_keeps_its_name() {
    let home = Home::new();
    let count = Yard::mode(&home, "count-starts", "starts");
    let yard = Yard::at(
        home,
        json!({ "s": fake(&[&count], json!({"enabled": false})) }),
        json!({}),
        host(),
    )
    .await;
    let session = yard.session("s");
    assert!(names(&session).await.is_empty());
    assert_eq!(starts(&yard.home, "starts"), 0);
    let report = yard.wharf.reports(session.agent()).remove(0);
    assert_eq!(
        (report.name.as_str(), report.status),
        ("s", Status::Disabled)
    );
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_servers_cost_no_process_and_are_ready_at_once() {
    let home = Home::new();
    let servers: serde_json::Map<String, serde_json::Value> = (0..20)
        .map(|n| (format!("s{n}"), fake(&[&format!("tool=t{n}")], json!({}))))
        .collect();
    let servers: serde_json::Value = servers.into();
    let yard = Yard::at(home, servers.clone(), json!({}), host()).await;
    assert_eq!(names(&yard.session("s")).await.len(), 20);
    let home = yard.close().await;
    let yard = Yard::at(home, servers, json!({}), host()).await;
    let session = yard.session("s");
    assert_eq!(
        session.known_tools().tools.len(),
        20,
        "known before anybody asks"
    );
    assert_eq!(yard.processes().len(), 0);
    yard.close().await;
}
