//! Pings (A186), and the logs of servers (A188, A189).

use std::time::Duration;

use serde_json::json;
use tokio::sync::broadcast::error::RecvError;
use wharfinger::model::{EffectivePolicy, Health, Status};
use wharfinger::servers::Ping;
use wharfinger::{LogLevel, LogStream};
use wharfinger_testkit::{Home, poll_until};

use crate::rig::{Rig, ask};
use crate::yard::{Yard, fake, host, say};

fn often(policy: &mut EffectivePolicy) {
    policy.health = Some(Health {
        every: Duration::from_millis(20),
        limit: Duration::from_millis(20),
    });
}

fn methods(home: &Home, method: &str) -> usize {
    let method = json!(method).to_string();
    let asks = |line: &String| line.contains(&format!("\"method\":{method}"));
    home.lines("received")
        .iter()
        .filter(|line| asks(line))
        .count()
}

fn record(home: &Home) -> String {
    format!("record={}", home.file("received").display())
}

async fn until(what: &str, check: impl FnMut() -> bool) {
    poll_until(what, tokio::time::sleep, check).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a186_a_running_server_is_pinged_and_never_listed_for_it() {
    let rig = Rig::new();
    let server = rig.server(&[&[&record(&rig.home)]], often);
    assert_eq!(server.last_ping(), None);
    server.start().await.unwrap();
    rig.until_listed(1).await;
    until("some pings", || methods(&rig.home, "ping") > 3).await;
    until("an answer", || server.last_ping().is_some()).await;
    let Ping { at, failed, .. } = server.last_ping().unwrap();
    assert!(at > 0 && failed == 0);
    assert_eq!(methods(&rig.home, "tools/list"), 1);
    let told = rig.told();
    assert!(!told.iter().any(|line| line.contains("ping")), "{told:?}");
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a186_pings_neither_keep_a_server_running_nor_start_it() {
    let rig = Rig::new();
    let server = rig.server(&[&[&record(&rig.home)]], |policy| {
        often(policy);
        policy.idle_timeout = Some(Duration::from_millis(300));
    });
    server.start().await.unwrap();
    until("it to idle", || server.status() == Status::NotStarted).await;
    let pings = methods(&rig.home, "ping");
    assert!(pings > 0, "{pings}");
    // A whole life of another one later, nobody has woken it.
    let other = rig.server(&[&[]], |policy| {
        policy.idle_timeout = Some(Duration::from_millis(300));
    });
    other.start().await.unwrap();
    until("the other to idle", || other.status() == Status::NotStarted).await;
    assert_eq!(server.status(), Status::NotStarted);
    assert_eq!(methods(&rig.home, "ping"), pings);
    assert_eq!(rig.starts(), 2, "one each");
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a186_a_ping_without_an_answer_is_told_and_counted_and_nothing_else() {
    let rig = Rig::new();
    let server = rig.server(&[&["no-pong"]], often);
    server.start().await.unwrap();
    until("four in a row", || {
        server.last_ping().is_some_and(|ping| ping.failed >= 4)
    })
    .await;
    let told = rig.told();
    let line = "ping failed: no answer within 0.02 s (3 in a row)";
    assert!(told.iter().any(|told| told == line), "{told:?}");
    assert_eq!(ask(&server, "work").await.unwrap(), "ok 1");
    assert_eq!(rig.starts(), 1);
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a186_a_server_of_the_stateless_era_is_not_pinged() {
    let rig = Rig::new();
    let server = rig.modern_server(&["modern", &record(&rig.home)], |policy| {
        often(policy);
        policy.idle_timeout = Some(Duration::from_millis(300));
    });
    server.start().await.unwrap();
    until("it to idle", || server.status() == Status::NotStarted).await;
    assert_eq!((methods(&rig.home, "ping"), server.last_ping()), (0, None));
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a189_a_listener_hears_every_entry() {
    let home = Home::new();
    let entry = fake(
        &["stderr=token SECRET_VALUE", "garbage"],
        json!({"env": {"API_KEY": "SECRET_VALUE"}}),
    );
    let yard = Yard::at(home, json!({ "s": entry }), json!({}), host()).await;
    let mut heard = yard.wharf.log_entries();
    let session = yard.session("s");
    say(&session, "work", json!({})).await;
    let mut entries = vec![];
    while entries.len() < 3 {
        let logged = heard.recv().await.unwrap();
        assert_eq!(logged.server.as_str(), "s");
        entries.push(logged.entry);
    }
    let seen = |n: usize| {
        let entry = &entries[n];
        let agent = entry
            .agent
            .as_ref()
            .map(wharfinger::model::AgentName::as_str);
        (agent, entry.stream, entry.level, entry.text.as_str())
    };
    let said = (LogStream::Stderr, LogLevel::Warn, "token [REDACTED]");
    assert_eq!(seen(0), (None, said.0, said.1, said.2), "its discovery");
    assert_eq!(seen(1), (Some("default"), said.0, said.1, said.2));
    let garbage = "DEBUG: about to work \u{1b}[31mcolour\u{1b}[0m";
    assert_eq!(
        seen(2),
        (Some("default"), LogStream::Stdout, LogLevel::Warn, garbage)
    );
    assert_eq!(yard.wharf.log_of("s", 10), entries);
    assert_eq!(yard.wharf.log_of("s", 1), entries[2..]);
    assert_eq!(
        yard.wharf.log_tail("s", 2),
        ["token [REDACTED]".to_owned(), format!("(stdout) {garbage}")]
    );
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p22_a_listener_that_does_not_read_holds_nobody_up() {
    // Two thousand lines.
    let yard = Yard::new(json!({ "s": fake(&["stderr-flood=400000"], json!({})) })).await;
    let mut lazy = yard.wharf.log_entries();
    let session = yard.session("s");
    assert_eq!(say(&session, "work", json!({})).await, "ok 1");
    until("more lines than are held", || lazy.len() > 1024).await;
    assert_eq!(say(&session, "work", json!({})).await, "ok 2");
    let next = lazy.recv().await;
    assert!(matches!(next, Err(RecvError::Lagged(_))), "{next:?}");
    yard.close().await;
}
