//! The emergency stop (A190).

use std::time::{Duration, Instant};

use serde_json::json;
use wharfinger::journal::EventKind;
use wharfinger::model::Status;
use wharfinger_testkit::{Home, poll_until};

use crate::yard::{Yard, fake, host, names, quick, say};

#[tokio::test(flavor = "multi_thread")]
async fn a190_everything_ends_at_once_whatever_it_is_doing() {
    let yard = Yard::with_config(
        json!({
            "hangs": fake(&["hang-call", "tool=hang", "ignore-eof", "ignore-term"], json!({})),
            "rests": fake(&["tool=rest", "ignore-eof"], json!({})),
            "starts": fake(&["never-init", "ignore-eof", "ignore-term"], json!({})),
        }),
        json!({ "daemon": { "exitWaitSeconds": 60, "termWaitSeconds": 60, "listWaitSeconds": 0.5 } }),
    )
    .await;
    let mut events = yard.wharf.events().listen();
    let session = yard.session("s");
    names(&session).await;
    say(&session, "rest", json!({})).await;
    let called = session.clone();
    let call = tokio::spawn(async move { say(&called, "hang", json!({})).await });
    let agent = session.agent().clone();
    poll_until("the call to run", tokio::time::sleep, || {
        matches!(yard.wharf.reports(&agent)[0].status, Status::Running { .. })
    })
    .await;
    let began = Instant::now();
    let halted = yard.wharf.halt("it deletes everything").await.unwrap();
    let took = began.elapsed();
    assert!(took < Duration::from_secs(9), "{took:?}");
    assert_eq!(yard.processes(), Vec::<u32>::new());
    assert_eq!(halted.reason, "it deletes everything");
    assert_eq!(yard.wharf.is_halted(), Some(halted));
    let said = call.await.unwrap();
    assert!(said.starts_with("refused: "), "{said}");
    loop {
        if let EventKind::Halted { reason } = events.recv().await.unwrap().kind {
            assert_eq!(reason, "it deletes everything");
            break;
        }
    }
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a190_nothing_starts_until_it_is_released_not_even_after_a_restart() {
    let home = Home::new();
    let count = Yard::mode(&home, "count-starts", "starts");
    let servers = json!({ "known": fake(&[&count, "tool=known"], json!({})) });
    let yard = Yard::at(home, servers, quick(), host()).await;
    let session = yard.session("s");
    assert_eq!(say(&session, "known", json!({})).await, "called known {}");
    let first = yard.wharf.halt("fire").await.unwrap();
    assert_eq!(yard.wharf.halt("smoke").await.unwrap(), first);
    let refused = say(&session, "known", json!({})).await;
    for part in ["fire", "`wharf release`"] {
        assert!(refused.contains(part), "{refused}");
    }
    let status = yard.wharf.reports(session.agent()).remove(0).status;
    assert_eq!(status, Status::NotStarted);
    let starts = yard.home.lines("starts").len();
    let home = yard.close().await;

    let servers = json!({
        "known": fake(&[&count, "tool=known"], json!({})),
        "new": fake(&[&count, "tool=new"], json!({})),
    });
    let yard = Yard::at(home, servers, quick(), host()).await;
    assert_eq!(yard.wharf.is_halted(), Some(first));
    let session = yard.session("s");
    assert_eq!(
        names(&session).await,
        ["known"],
        "nobody could ask the new one"
    );
    let why = yard.wharf.unavailable();
    assert!(why[0].1.contains("`wharf release`"), "{why:?}");
    let refused = say(&session, "known", json!({})).await;
    assert!(refused.contains("`wharf release`"), "{refused}");
    assert_eq!(yard.home.lines("starts").len(), starts);

    let mut events = yard.wharf.events().listen();
    assert!(yard.wharf.release().unwrap());
    assert!(!yard.wharf.release().unwrap());
    // What the refused attempts tell may come before it.
    while !matches!(events.recv().await.unwrap().kind, EventKind::Released) {}
    assert_eq!(names(&session).await, ["known", "new"]);
    assert_eq!(say(&session, "known", json!({})).await, "called known {}");
    let home = yard.close().await;
    let yard = Yard::at(home, json!({}), quick(), host()).await;
    assert_eq!(yard.wharf.is_halted(), None);
    yard.close().await;
}
