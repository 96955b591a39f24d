//! Calls: names, order, time-outs, cancelling, death (V44–V50, V61–V66).

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use wharfinger::CallNote;
use wharfinger::model::Status;
use wharfinger_testkit::{Home, poll_until};

use crate::yard::{Yard, call, call_with, fake, host, names, quick, say, starts, text};

#[tokio::test(flavor = "multi_thread")]
async fn v45_the_server_gets_its_own_name_for_the_tool() {
    let yard = Yard::new(json!({ "w": fake(&["weird-tools"], json!({"toolPrefix": "w_"})) })).await;
    let session = yard.session("s");
    assert!(names(&session).await.contains(&"w_dot_name".to_owned()));
    let said = say(&session, "w_dot_name", json!({"a": 1})).await;
    assert!(said.starts_with("called dot.name"), "{said}");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v47_v48_v49_lists_come_in_order_and_clashes_are_skipped() {
    let yard = Yard::new(json!({
        "two": fake(&["tool=read_file", "tool=b"], json!({})),
        "one": fake(&["tool=read-file", "tool=a"], json!({})),
        "bad name": fake(&["tool=Read_File"], json!({"toolPrefix": "x_"})),
    }))
    .await;
    let session = yard.session("s");
    assert_eq!(
        names(&session).await,
        ["read_file", "b", "a", "x_Read_File"]
    );
    assert_eq!(session.known_tools().warnings.len(), 1);
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v44_names_stay_over_restarts_and_listing_orders() {
    let home = Home::new();
    let servers = |order: &[&str]| json!({ "s": fake(order, json!({})) });
    let yard = Yard::at(home, servers(&["tool=a.b", "tool=a_b"]), json!({}), host()).await;
    assert_eq!(names(&yard.session("s")).await, ["a_b", "a_b_2"]);
    let home = yard.close().await;
    let yard = Yard::at(home, servers(&["tool=a_b", "tool=a.b"]), json!({}), host()).await;
    let session = yard.session("s");
    assert_eq!(names(&session).await, ["a_b_2", "a_b"]);
    assert!(
        say(&session, "a_b", json!({}))
            .await
            .starts_with("called a.b")
    );
    yard.close().await;
}

/// Starts two calls at once, and gives the time from one to the other's end.
async fn overlap(parallel: bool) -> bool {
    let home = Home::new();
    let gate = Yard::mode(&home, "wait-for", "gate");
    let record = Yard::mode(&home, "record", "lines");
    let entry = fake(&[&gate, &record], json!({ "parallel": parallel }));
    let yard = Yard::at(home, json!({ "s": entry }), json!({}), host()).await;
    let session = yard.session("s");
    names(&session).await;
    let both = [session.clone(), session.clone()].map(|session| {
        tokio::spawn(async move { call(&session, "work", json!({})).await.is_ok() })
    });
    let calls = || {
        yard.home
            .lines("lines")
            .iter()
            .filter(|line| line.contains("tools/call"))
            .count()
    };
    poll_until("the first call to arrive", tokio::time::sleep, || {
        calls() > 0
    })
    .await;
    if parallel {
        poll_until("the second call to arrive too", tokio::time::sleep, || {
            calls() == 2
        })
        .await;
    }
    let overlapped = calls() == 2;
    yard.home.write("gate", "");
    for call in both {
        assert!(call.await.unwrap());
    }
    yard.close().await;
    overlapped
}

#[tokio::test(flavor = "multi_thread")]
async fn v50_calls_run_one_at_a_time_unless_parallel() {
    assert!(!overlap(false).await);
    assert!(overlap(true).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn v61_v63_death_in_a_call_is_told_once_and_the_next_call_starts_afresh() {
    let home = Home::new();
    let (count, record) = (
        Yard::mode(&home, "count-starts", "starts"),
        Yard::mode(&home, "record", "lines"),
    );
    let entry = fake(
        &["crash-after=2", "stderr=last words", &count, &record],
        json!({}),
    );
    let yard = Yard::at(home, json!({ "s": entry }), json!({}), host()).await;
    let session = yard.session("s");
    assert_eq!(say(&session, "work", json!({})).await, "ok 1");
    let error = call(&session, "work", json!({}))
        .await
        .unwrap_err()
        .to_string();
    let expect = "s: the MCP server exited (code 42). It restarts on the next call; its state was lost.\nIts standard error ends with:\n";
    assert!(error.starts_with(expect), "{error}");
    assert!(error.contains("last words"), "{error}");
    assert_eq!(
        say(&session, "work", json!({})).await,
        "ok 1",
        "a new process"
    );
    assert_eq!(starts(&yard.home, "starts"), 3, "discovery and two");
    let sent = yard
        .home
        .lines("lines")
        .iter()
        .filter(|l| l.contains("tools/call"))
        .count();
    assert_eq!(sent, 3, "V63: the failed call was not sent again");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v61_v62_death_between_calls_is_told_by_the_next_call() {
    let yard = Yard::new(json!({ "s": fake(&[], json!({})) })).await;
    let session = yard.session("s");
    let pid: u32 = say(&session, "pid", json!({})).await.parse().unwrap();
    wharfinger_testkit::processes::kill(pid);
    let agent = session.agent().clone();
    poll_until("its end to be seen", tokio::time::sleep, || {
        matches!(yard.wharf.reports(&agent)[0].status, Status::Exited { .. })
    })
    .await;
    let error = call(&session, "pid", json!({}))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("s: the MCP server exited (killed by signal 9, SIGKILL)."),
        "{error}"
    );
    let next: u32 = say(&session, "pid", json!({})).await.parse().unwrap();
    assert_ne!(pid, next);
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v62_a_browser_loses_browser_state() {
    let config = json!({ "mcp": { "playwright": {
        "enabled": true, "command": wharfinger_testkit::fake_server(),
        "extraArgs": []
    }}});
    // The preset's own arguments are no modes of the fake, which exits at once, so that its start fails: what counts
    // here is that the error names the state it had.
    let yard = Yard::with_config(json!({}), config).await;
    assert!(yard.wharf.config().server("playwright").unwrap().browser);
    let error = wharfinger::servers::CallError::Exited {
        server: yard
            .wharf
            .config()
            .server("playwright")
            .unwrap()
            .name
            .clone(),
        exit: wharfinger::model::Exit::Code(1),
        browser: true,
        stderr: vec![],
    };
    assert_eq!(
        error.to_string(),
        "playwright: the MCP server exited (code 1). It restarts on the next call; browser state was lost."
    );
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v64_a_call_that_takes_too_long_is_cancelled_and_the_process_stays() {
    let home = Home::new();
    let cancelled = Yard::mode(&home, "cancel-file", "cancelled");
    let gate = Yard::mode(&home, "wait-for", "gate");
    let entry = fake(&[&cancelled, &gate], json!({ "callTimeoutSeconds": 0.3 }));
    let yard = Yard::at(home, json!({ "s": entry }), json!({}), host()).await;
    let session = yard.session("s");
    let said = say(&session, "pid", json!({})).await;
    assert_eq!(
        said,
        "refused: s: the call took longer than 0.3 s (callTimeoutSeconds) and was cancelled"
    );
    poll_until("the server to be told", tokio::time::sleep, || {
        !yard.home.lines("cancelled").is_empty()
    })
    .await;
    let status = |yard: &Yard| yard.wharf.reports(session.agent())[0].status.clone();
    let before = status(&yard);
    assert!(matches!(before, Status::Running { .. }), "{before:?}");
    yard.home.write("gate", "");
    let pid: u32 = say(&session, "pid", json!({})).await.parse().unwrap();
    assert_eq!(before, Status::Running { pid });
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v64_starting_does_not_count() {
    let entry = fake(&["slow-init=0.6"], json!({ "callTimeoutSeconds": 0.4 }));
    let yard = Yard::new(json!({ "s": entry })).await;
    assert_eq!(say(&yard.session("s"), "work", json!({})).await, "ok 1");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v65_v66_a_dropped_call_is_cancelled_and_its_late_answer_dropped() {
    let home = Home::new();
    let cancelled = Yard::mode(&home, "cancel-file", "cancelled");
    let record = Yard::mode(&home, "record", "lines");
    let entry = fake(&["hang-call", &cancelled, &record], json!({}));
    let yard = Yard::at(home, json!({ "s": entry }), json!({}), host()).await;
    let session = yard.session("s");
    names(&session).await;
    let called = session.clone();
    let calling = tokio::spawn(async move { call(&called, "work", json!({})).await });
    let arrived = || {
        yard.home
            .lines("lines")
            .iter()
            .any(|line| line.contains("tools/call"))
    };
    poll_until("the call to arrive", tokio::time::sleep, arrived).await;
    let at = Instant::now();
    calling.abort();
    poll_until("the server to be told", tokio::time::sleep, || {
        !yard.home.lines("cancelled").is_empty()
    })
    .await;
    assert!(at.elapsed() < Duration::from_secs(5));
    let lines = yard.home.lines("lines");
    let call = lines
        .iter()
        .find(|line| line.contains("tools/call"))
        .unwrap();
    let call: serde_json::Value = serde_json::from_str(call).unwrap();
    assert_eq!(yard.home.lines("cancelled"), [call["id"].to_string()]);
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_and_log_messages_come_in_order_before_the_result() {
    let yard = Yard::new(json!({ "s": fake(&["progress=200", "log=info"], json!({})) })).await;
    let session = yard.session("s");
    names(&session).await;
    let heard = Arc::new(Mutex::new((vec![], 0)));
    let ear = heard.clone();
    let result = call_with(&session, "work", json!({}), move |note| {
        let mut heard = ear.lock().unwrap();
        match note {
            CallNote::Progress(params) => {
                let params: serde_json::Value = serde_json::from_str(params.get()).unwrap();
                heard.0.push(params["progress"].as_f64().unwrap());
            }
            CallNote::Notification { method, .. } => {
                assert_eq!(method, "notifications/message");
                heard.1 += 1;
            }
            CallNote::Asked(asked) => panic!("{asked:?}"),
        }
    })
    .await
    .unwrap();
    assert_eq!(text(&result), "ok 1");
    let heard = heard.lock().unwrap().clone();
    assert_eq!(heard.0.len(), 200);
    assert!(heard.0.is_sorted_by(|a, b| a < b), "{:?}", heard.0);
    assert_eq!(heard.1, 1);
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_tool_is_explained() {
    let yard = Yard::new(json!({
        "s": fake(&["tool=read_file"], json!({})),
        "off": fake(&[], json!({"enabled": false})),
        "dead": fake(&["die-before-init=1"], json!({})),
    }))
    .await;
    let session = yard.session("s");
    let said = say(&session, "raed_file", json!({})).await;
    assert!(
        said.contains("there is no tool `raed_file`; did you mean `read_file`?"),
        "{said}"
    );
    assert!(said.contains("off: this MCP server is disabled"), "{said}");
    assert!(
        said.contains("dead: this MCP server is not available: it exited (code 1)"),
        "{said}"
    );
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_waiting_calls_are_refused() {
    let home = Home::new();
    let gate = Yard::mode(&home, "wait-for", "gate");
    let config = json!({ "daemon": { "maxQueuedCalls": 1 } });
    let yard = Yard::at(
        home,
        json!({ "s": fake(&[&gate], json!({})) }),
        config,
        host(),
    )
    .await;
    let session = yard.session("s");
    names(&session).await;
    let calls: Vec<_> = (0..3)
        .map(|_| {
            let session = session.clone();
            tokio::spawn(async move {
                call(&session, "work", json!({}))
                    .await
                    .map_err(|e| e.to_string())
            })
        })
        .collect();
    poll_until("one to be refused", tokio::time::sleep, || {
        calls.iter().any(tokio::task::JoinHandle::is_finished)
    })
    .await;
    yard.home.write("gate", "");
    let mut refused = vec![];
    for call in calls {
        refused.extend(call.await.unwrap().err());
    }
    assert_eq!(
        refused,
        ["s: 1 calls are waiting for this MCP server already; try again later"]
    );
    yard.close().await;
}

/// Odd answers: each fails its call or is passed over, and the next call on the same process works or a new one starts.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_a_server_answers_hangs_or_breaks_the_session() {
    for (mode, expect) in [
        ("garbage", "ok 1"),
        ("banner", "ok 1"),
        ("utf8-bad", "ok 1"),
        ("crlf", "ok 1"),
        ("dup-reply", "ok 1"),
        ("batch-reply", "ok 1"),
        ("error-as-result", "Error: it failed"),
        (
            "invalid-json-reply",
            "refused: s: the reply could not be read",
        ),
        ("nan", "refused: s: the reply could not be read"),
        (
            "truncated-reply",
            "refused: s: the MCP server exited (code 3)",
        ),
        (
            "crash-mid-line",
            "refused: s: the MCP server exited (code 41)",
        ),
        ("error-no-message", "refused:"),
        ("big-int", "ok 1"),
        ("huge=3000000", "xxxx"),
        ("ping-me=0.01", "ok 1"),
        ("notify-flood=2000", "ok 1"),
        ("stderr-flood=1000000", "ok 1"),
        ("deep=2000", "ok 1"),
        ("notify-after-init=7", "ok 1"),
        ("discover-error=-32602", "ok 1"),
        ("discover-error=-32001", "ok 1"),
    ] {
        let entry = fake(
            &[mode],
            json!({ "callTimeoutSeconds": 10, "startupTimeoutSeconds": 10 }),
        );
        let yard = Yard::with_config(json!({ "s": entry }), quick()).await;
        let session = yard.session("s");
        let said = say(&session, "work", json!({})).await;
        let shown: String = said.chars().take(200).collect();
        assert!(said.starts_with(expect), "{mode}: {shown}");
        let again = say(&session, "work", json!({})).await;
        assert!(
            again.starts_with(expect) || again.starts_with("ok"),
            "{mode} again"
        );
        yard.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_under_a_wrong_id_time_out() {
    let entry = fake(&["wrong-id"], json!({ "callTimeoutSeconds": 0.3 }));
    let yard = Yard::with_config(json!({ "s": entry }), quick()).await;
    let said = say(&yard.session("s"), "work", json!({})).await;
    assert_eq!(
        said,
        "refused: s: the call took longer than 0.3 s (callTimeoutSeconds) and was cancelled"
    );
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_over_the_limit_fails_its_call_and_the_server_lives() {
    let config = json!({ "daemon": { "maxLineBytes": 100_000 } });
    let yard = Yard::with_config(json!({ "s": fake(&["huge=200000"], json!({})) }), config).await;
    let session = yard.session("s");
    let said = say(&session, "work", json!({})).await;
    assert!(said.contains("larger than is allowed"), "{said}");
    let pid = say(&session, "pid", json!({})).await;
    assert!(!pid.is_empty());
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn payloads_pass_through_unchanged() {
    let yard = Yard::new(json!({ "s": fake(&["big-int"], json!({})) })).await;
    let session = yard.session("s");
    names(&session).await;
    let result = call(&session, "work", json!({})).await.unwrap();
    assert_eq!(
        result["structuredContent"]["v"].to_string(),
        "1.1805916207174113e+21",
        "as a float here"
    );
    let params =
        serde_json::value::RawValue::from_string(r#"{"name":"work","arguments":{}}"#.into())
            .unwrap();
    let raw = session
        .call(
            wharfinger::ToolCall {
                progress: false,
                ..wharfinger::ToolCall::new("work", &params)
            },
            |_| (),
        )
        .await
        .unwrap();
    assert!(raw.get().contains("1180591620717411303424"), "{raw}");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_message_goes_to_the_call_that_runs_not_to_one_that_waits() {
    let home = Home::new();
    let gate = Yard::mode(&home, "wait-for", "gate");
    let record = Yard::mode(&home, "record", "lines");
    let yard = Yard::at(
        home,
        json!({ "s": fake(&["log=info", &gate, &record], json!({})) }),
        json!({}),
        host(),
    )
    .await;
    let session = yard.session("s");
    names(&session).await;
    let heard = Arc::new(Mutex::new([0, 0]));
    let calls: Vec<_> = (0..2)
        .map(|n| {
            let (session, heard) = (session.clone(), heard.clone());
            tokio::spawn(async move {
                call_with(&session, "work", json!({}), move |note| {
                    if let CallNote::Notification { .. } = note {
                        heard.lock().unwrap()[n] += 1;
                    }
                })
                .await
                .is_ok()
            })
        })
        .collect();
    let arrived = || {
        yard.home
            .lines("lines")
            .iter()
            .any(|line| line.contains("tools/call"))
    };
    poll_until("the first call", tokio::time::sleep, arrived).await;
    yard.home.write("gate", "");
    for call in calls {
        assert!(call.await.unwrap());
    }
    assert_eq!(*heard.lock().unwrap(), [1, 1]);
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_waits_for_its_turn_no_longer_than_a_call_may_take() {
    let home = Home::new();
    let gate = Yard::mode(&home, "wait-for", "gate");
    // The first call holds the server until it is given up; the second waits as long, and is given up at the same time.
    let entry = fake(&[&gate], json!({ "callTimeoutSeconds": 0.4 }));
    let yard = Yard::at(home, json!({ "s": entry }), json!({}), host()).await;
    let session = yard.session("s");
    names(&session).await;
    let waits: Vec<_> = (0..3)
        .map(|_| {
            let session = session.clone();
            tokio::spawn(async move {
                call(&session, "work", json!({}))
                    .await
                    .unwrap_err()
                    .to_string()
            })
        })
        .collect();
    for wait in waits {
        let said = wait.await.unwrap();
        assert!(
            said.contains("took longer than 0.4 s") || said.contains("busy for 0.4 s"),
            "{said}"
        );
    }
    yard.close().await;
}
