//! Servers that are kept running: attempts, unasked ends, the way back (A141, A143, A165, A180–A185).

use std::pin::pin;
use std::time::{Duration, Instant};

use tokio::time::timeout;
use wharfinger::model::{Again, EffectivePolicy, Restart, Status};
use wharfinger::servers::{CallError, ServerHandle, StartError, start_all};
use wharfinger_testkit::{poll_until, processes};

use crate::rig::{Rig, ask, kill};

const DIES: &[&str] = &["die-before-init=9"];
const WORKS: &[&str] = &[];

fn millis(waits: [u64; 3]) -> [Duration; 3] {
    waits.map(Duration::from_millis)
}

/// Attempts that follow each other at once, limited as they are.
fn at_once(policy: &mut EffectivePolicy) {
    let again = |inline| Again {
        wait: Duration::from_millis(1),
        limit: policy.startup_timeout,
        inline,
    };
    policy.restart = Restart::Backoff {
        waits: millis([1, 1, 1]),
        again: [again(true), again(false), again(false)],
    };
}

/// As [`at_once`], but nothing happens after an unasked end.
fn slowly(policy: &mut EffectivePolicy) {
    at_once(policy);
    if let Restart::Backoff { waits, .. } = &mut policy.restart {
        *waits = [Duration::from_secs(600); 3];
    }
}

async fn until(what: &str, check: impl FnMut() -> bool) {
    poll_until(what, tokio::time::sleep, check).await;
}

async fn until_given_up(server: &ServerHandle) -> String {
    until("it to be given up", || reason(server).contains("given up")).await;
    reason(server)
}

fn reason(server: &ServerHandle) -> String {
    match server.status() {
        Status::Failed { reason } => reason,
        _ => String::new(),
    }
}

fn pid(server: &ServerHandle) -> Option<u32> {
    match server.status() {
        Status::Running { pid } => Some(pid),
        _ => None,
    }
}

async fn until_another(server: &ServerHandle, than: u32) -> u32 {
    until("another process", || {
        pid(server).is_some_and(|pid| pid != than)
    })
    .await;
    pid(server).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a180_a_server_is_ready_without_a_call() {
    let rig = Rig::new();
    let server = rig.server(&[WORKS], |_| ());
    assert_eq!(server.status(), Status::NotStarted);
    server.start().await.unwrap();
    let first = pid(&server).unwrap();
    server.start().await.unwrap();
    assert_eq!(pid(&server), Some(first), "it runs already");
    assert_eq!(ask(&server, "pid").await.unwrap(), first.to_string());
    rig.until_listed(1).await;
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a182_who_starts_it_waits_for_a_second_attempt() {
    let rig = Rig::new();
    let server = rig.server(&[DIES, WORKS], at_once);
    server.start().await.unwrap();
    assert!(pid(&server).is_some());
    assert_eq!(rig.starts(), 2);
    let told = rig.told();
    let again = "It is tried again in 0.001 s (2 of 4)";
    assert!(told.iter().any(|line| line.contains(again)), "{told:?}");
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a182_later_attempts_come_behind_and_its_tools_with_them() {
    let rig = Rig::new();
    let server = rig.server(&[DIES, DIES, DIES, WORKS], at_once);
    let error = server.start().await.unwrap_err().to_string();
    assert!(error.contains("exited (code 9)"), "{error}");
    assert!(error.contains("(3 of 4)"), "{error}");
    until("it to run", || pid(&server).is_some()).await;
    assert_eq!(rig.starts(), 4);
    rig.until_listed(1).await;
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a182_after_the_last_attempt_it_is_given_up() {
    let rig = Rig::new();
    let server = rig.server(&[DIES], at_once);
    server.start().await.unwrap_err();
    let text = until_given_up(&server).await;
    assert!(text.contains("given up after 4 attempts"), "{text}");
    for way in ["exited (code 9)", "`mcp_restart`", "`wharf restart s`"] {
        assert!(text.contains(way), "{text}");
    }
    for refused in [server.start().await.unwrap_err(), {
        ask(&server, "work").await.unwrap_err()
    }] {
        assert!(refused.to_string().contains(&text), "{refused}");
    }
    assert_eq!(rig.starts(), 4, "A141: whoever asks only hears why");
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a182_each_attempt_has_its_own_limit() {
    let rig = Rig::new();
    let server = rig.server(&[&["never-init", "ignore-eof"]], |policy| {
        policy.startup_timeout = Duration::from_millis(100);
        at_once(policy);
        if let Restart::Backoff { again, .. } = &mut policy.restart {
            again[2].limit = Duration::from_millis(250);
        }
    });
    let error = server.start().await.unwrap_err().to_string();
    assert!(error.contains("not ready within 0.1 s"), "{error}");
    let text = until_given_up(&server).await;
    assert!(text.contains("not ready within 0.25 s"), "{text}");
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a143_servers_start_side_by_side_within_a_budget() {
    let rig = Rig::new();
    let late = rig.home.file("go").display().to_string();
    let slow = format!("while [ ! -e {late} ]; do sleep 0.01; done; exec \"$0\" \"$@\"");
    let all = [
        rig.server(&[WORKS], at_once),
        rig.shell_server(&slow, at_once),
        rig.server(&[DIES], at_once),
    ];
    let began = Instant::now();
    let started = start_all(&all, Duration::from_secs(3)).await;
    assert!(began.elapsed() < Duration::from_secs(10));
    assert!(matches!(started[0], Some(Ok(()))), "{started:?}");
    assert!(started[1].is_none(), "{started:?}");
    assert!(matches!(started[2], Some(Err(_))), "{started:?}");
    rig.home.write("go", "");
    until("the late one to join", || pid(&all[1]).is_some()).await;
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a183_a_server_that_ends_unasked_comes_back() {
    let rig = Rig::new();
    let server = rig.server(&[WORKS], at_once);
    server.start().await.unwrap();
    rig.until_listed(1).await;
    let first = pid(&server).unwrap();
    kill(first);
    let second = until_another(&server, first).await;
    assert_eq!(ask(&server, "pid").await.unwrap(), second.to_string());
    rig.until_listed(2).await;
    assert_eq!(rig.starts(), 2);
    let told = rig.told();
    let lost = "Connection lost. It is started again in 0.001 s (1 of 3).";
    let exited = "exited (killed by signal 9, SIGKILL)";
    for line in [exited, lost] {
        assert!(told.iter().any(|told| told == line), "{line}: {told:?}");
    }
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a183_p34_p53_one_counter_for_all_that_goes_wrong_and_then_it_stays_down() {
    let rig = Rig::new();
    let server = rig.server(&[WORKS, DIES, DIES, DIES, WORKS], at_once);
    server.start().await.unwrap();
    rig.until_listed(1).await;
    kill(pid(&server).unwrap());
    let text = until_given_up(&server).await;
    assert!(text.contains("given up after 3 attempts"), "{text}");
    assert_eq!(rig.starts(), 4);
    let refused = ask(&server, "work").await.unwrap_err();
    let told = matches!(
        &refused,
        CallError::Start {
            error: StartError::GaveUp { .. },
            ..
        }
    );
    assert!(told, "{refused}");
    assert_eq!(rig.starts(), 4, "no call starts it");

    server.restart().await.unwrap();
    rig.until_listed(2).await;
    assert_eq!(
        (rig.starts(), rig.listed()),
        (5, 2),
        "announced once a start"
    );
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a91_a_restart_by_hand_begins_to_count_anew() {
    let rig = Rig::new();
    let server = rig.server(&[WORKS], |policy| {
        at_once(policy);
        if let Restart::Backoff { waits, .. } = &mut policy.restart {
            // The last one is so long that it has never been up for as long.
            *waits = millis([1, 1, 600_000]);
        }
    });
    server.start().await.unwrap();
    let mut last = pid(&server).unwrap();
    for _ in 0..2 {
        kill(last);
        last = until_another(&server, last).await;
    }
    kill(last);
    until("the long wait", || reason(&server).contains("(3 of 3)")).await;
    server.restart().await.unwrap();
    let last = pid(&server).unwrap();
    kill(last);
    until_another(&server, last).await;
    let counted = |step: &str| rig.told().iter().filter(|line| line.contains(step)).count();
    assert_eq!((counted("(1 of 3)"), counted("(3 of 3)")), (2, 1));
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a183_a_server_that_never_stays_up_is_given_up() {
    let rig = Rig::new();
    let server = rig.server(&[WORKS], |policy| {
        at_once(policy);
        if let Restart::Backoff { waits, .. } = &mut policy.restart {
            *waits = millis([1, 1, 2000]);
        }
    });
    server.start().await.unwrap();
    let mut last = pid(&server).unwrap();
    for _ in 0..3 {
        kill(last);
        last = until_another(&server, last).await;
    }
    kill(last);
    until("it to be given up", || {
        reason(&server).contains("is given up")
    })
    .await;
    let text = reason(&server);
    assert!(text.contains("was started again 3 times"), "{text}");
    assert!(text.contains("`wharf restart s`"), "{text}");
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a165_calls_of_a_lost_server_say_so_and_later_ones_wait_for_its_return() {
    let rig = Rig::new();
    let server = rig.server(
        &[&["crash-after=1"], &["die-before-init=9"], WORKS],
        |policy| {
            at_once(policy);
            if let Restart::Backoff { waits, .. } = &mut policy.restart {
                waits[1] = Duration::from_millis(100);
            }
        },
    );
    let text = ask(&server, "work").await.unwrap_err().to_string();
    let says = [
        "s: status: error: Connection lost",
        "exited (code 42)",
        "its state was lost",
        "started again in 0.001 s (1 of 3)",
        "Segfault (simulated)",
    ];
    for part in says {
        assert!(text.contains(part), "{text}");
    }
    until("the next attempt to have failed", || rig.starts() > 1).await;
    until("a wait", || !matches!(server.status(), Status::Starting)).await;
    assert_eq!(ask(&server, "work").await.unwrap(), "ok 1");
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a165_the_first_call_after_the_end_is_refused_and_others_wait_no_longer_than_they_may() {
    let rig = Rig::new();
    let server = rig.server(&[WORKS], |policy| {
        slowly(policy);
        policy.call_timeout = Duration::from_millis(200);
    });
    server.start().await.unwrap();
    kill(pid(&server).unwrap());
    until("its end to be seen", || pid(&server).is_none()).await;
    assert!(
        reason(&server).contains("Connection lost"),
        "{}",
        reason(&server)
    );
    let first = ask(&server, "work").await.unwrap_err();
    assert!(matches!(first, CallError::Lost { .. }), "{first}");
    let second = ask(&server, "work").await.unwrap_err();
    assert!(matches!(second, CallError::NotReady { .. }), "{second}");
    let text = second.to_string();
    assert!(
        text.starts_with("s: status: failed: Connection lost"),
        "{text}"
    );
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a184_each_start_is_made_anew_and_what_was_made_for_it_goes_with_it() {
    let rig = Rig::new();
    let (one, two) = (&["say=first"][..], &["say=second"][..]);
    let server = rig.server(&[one, two], at_once);
    assert_eq!(ask(&server, "work").await.unwrap(), "first");
    assert_eq!((rig.made(), rig.kept()), (1, 1));
    let first = pid(&server).unwrap();
    kill(first);
    until_another(&server, first).await;
    assert_eq!(ask(&server, "work").await.unwrap(), "second");
    assert_eq!((rig.made(), rig.kept()), (2, 1), "the first one's are gone");
    server.stop().await;
    assert_eq!(rig.kept(), 0);
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a184_what_cannot_be_made_is_told_and_tried_again() {
    let rig = Rig::new();
    let server = rig.server(&[&["?no engine"], WORKS], at_once);
    server.start().await.unwrap();
    let told = rig.told();
    assert!(
        told.iter()
            .any(|line| line.starts_with("no engine. It is tried again")),
        "{told:?}"
    );
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a185_p1_a_start_that_is_stopped_changes_nothing_any_more() {
    let rig = Rig::new();
    let server = rig.server(&[&["never-init", "ignore-eof"], WORKS], at_once);
    let starting = server.clone();
    let started = tokio::spawn(async move { starting.start().await });
    until("a process", || rig.starts() == 1).await;
    let stale: u32 = rig.home.lines("starts")[0].parse().unwrap();
    server.stop().await;
    let error = started.await.unwrap().unwrap_err();
    assert!(
        error.to_string().contains("stopped while it started"),
        "{error}"
    );
    assert!(!processes::alive(stale));
    assert_eq!(server.status(), Status::NotStarted);
    server.start().await.unwrap();
    assert_eq!((rig.starts(), rig.processes().len()), (2, 1));
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a185_p1_a_stop_takes_back_the_attempt_that_was_to_come() {
    let rig = Rig::new();
    let server = rig.server(&[WORKS], slowly);
    server.start().await.unwrap();
    kill(pid(&server).unwrap());
    until("its end to be seen", || pid(&server).is_none()).await;
    let mut waits = pin!(server.start());
    assert!(
        timeout(Duration::ZERO, &mut waits).await.is_err(),
        "for the attempt"
    );
    server.stop().await;
    let error = waits.await.unwrap_err().to_string();
    assert!(error.contains("was stopped"), "{error}");
    assert_eq!((server.status(), rig.starts()), (Status::NotStarted, 1));
    server.start().await.unwrap();
    assert_eq!((rig.starts(), rig.processes().len()), (2, 1));
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a185_p1_one_that_nobody_holds_any_more_says_nothing_of_its_end() {
    let rig = Rig::new();
    let server = rig.server(&[WORKS], slowly);
    server.start().await.unwrap();
    kill(pid(&server).unwrap());
    until("its end to be seen", || pid(&server).is_none()).await;
    drop(server);
    until("its actor to end", || rig.actors() == 0).await;
    let last = rig.statuses().pop().unwrap();
    assert!(matches!(last, Status::Failed { .. }), "{last:?}");
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a187_progress_extends_a_call_and_silence_cancels_it() {
    let rig = Rig::new();
    let limit = |policy: &mut EffectivePolicy| policy.call_timeout = Duration::from_secs(1);
    // A second and a half in all.
    let talks = rig.server(&[&["progress=15", "progress-pause-ms=100"]], limit);
    let began = Instant::now();
    assert_eq!(ask(&talks, "work").await.unwrap(), "ok 1");
    assert!(began.elapsed() > Duration::from_secs(1));
    let file = format!("cancel-file={}", rig.home.file("cancelled").display());
    let silent = rig.server(&[&["hang-call", &file]], limit);
    let error = ask(&silent, "work").await.unwrap_err();
    assert!(matches!(error, CallError::TimedOut { .. }), "{error}");
    until("the server to hear of it", || {
        rig.home.lines("cancelled").len() == 1
    })
    .await;
    assert!(pid(&silent).is_some(), "it still runs");
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a188_calls_and_results_leave_a_line_each() {
    let rig = Rig::new();
    let server = rig.server(&[WORKS], |_| ());
    ask(&server, "work").await.unwrap();
    let lines = rig.exchanges();
    assert_eq!(lines.len(), 2, "{lines:?}");
    let (head, body, failed) = &lines[0];
    assert_eq!((head.as_str(), *failed), ("call", false));
    assert_eq!(body, r#"{"name":"work","arguments":{}}"#);
    assert!(lines[1].0.starts_with("result after "), "{lines:?}");
    assert!(lines[1].1.contains("ok 1"), "{lines:?}");
    let silent = rig.server(&[WORKS], |policy| policy.log_calls = false);
    ask(&silent, "work").await.unwrap();
    assert_eq!(rig.exchanges().len(), 2);
    let told = rig.told();
    assert!(
        told.iter().any(|line| line.starts_with("running (pid ")),
        "{told:?}"
    );
    rig.close().await;
}
