//! Limits, and the end of a connection.

use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use wharfinger_wire::connection::{CallError, Counters, Event, Limits};
use wharfinger_wire::message::Id;

use crate::support::{Pair, end, pair, pair_with, raw};

const CLOSED: &str = "error: the server closed the connection";

#[tokio::test]
async fn only_so_many_calls_may_wait() {
    let limits = Limits {
        calls: 2,
        ..Limits::default()
    };
    let Pair {
        connection,
        mut server,
        ..
    } = pair_with(limits, 100);
    let first = connection.call("m", None, false).unwrap();
    let second = connection.call("m", None, false).unwrap();
    assert!(matches!(
        connection.call("m", None, false),
        Err(CallError::Busy { limit: 2 })
    ));
    server.say(r#"{"id":1,"result":1}"#).await;
    assert_eq!(end(first).await, "1");
    drop(second);
    let third = connection.call("m", None, false).unwrap();
    let fourth = connection.call("m", None, false).unwrap();
    assert_eq!((third.id(), fourth.id()), (Id::number(3), Id::number(4)));
}

#[tokio::test]
async fn a_server_that_never_reads_fills_the_queue_and_no_more() {
    let limits = Limits {
        queue_bytes: 1000,
        ..Limits::default()
    };
    let Pair {
        connection,
        mut server,
        mut open,
        tasks,
        ..
    } = pair_with(limits, 16);
    server.say(r#"{"id":1,"method":"later"}"#).await;
    let reply = open.recv().await.unwrap();
    let mut calls = Vec::new();
    let full = loop {
        match connection.call("some/method", None, false) {
            Ok(call) => calls.push(call),
            Err(error) => break error,
        }
        tokio::task::yield_now().await;
    };
    assert!(matches!(full, CallError::QueueFull { limit: 1000 }));
    assert!((5..20).contains(&calls.len()), "{}", calls.len());
    assert!(matches!(
        connection.notify("some/method", None),
        Err(CallError::QueueFull { .. })
    ));
    assert!(reply.give(Ok(raw(r#""something""#))).is_err());
    assert_eq!(connection.counters().dropped_answers, 1);
    // Dropping them needs no room; closing does not wait for the server.
    calls.truncate(3);
    connection.close();
    for call in calls {
        assert_eq!(end(call).await, CLOSED);
    }
    connection.abandon();
    tasks.wait().await;
    drop(server);
}

#[tokio::test]
async fn a_message_larger_than_the_queue_goes_when_it_is_alone() {
    let limits = Limits {
        queue_bytes: 1000,
        ..Limits::default()
    };
    let Pair {
        connection,
        mut server,
        ..
    } = pair_with(limits, 16);
    let params = raw(&format!(r#"["{}"]"#, "x".repeat(5000)));
    connection.notify("big", Some(&params)).unwrap();
    assert!(connection.notify("big", Some(&params)).is_err());
    assert!(server.line().await.len() > 5000);
}

#[tokio::test]
async fn progress_beyond_the_queue_is_counted() {
    let limits = Limits {
        notifications: 2,
        ..Limits::default()
    };
    let Pair {
        connection,
        mut server,
        mut heard,
        ..
    } = pair_with(limits, 1000);
    let mut call = connection.call("m", None, true).unwrap();
    for n in 0..5 {
        let params = format!(r#"{{"progressToken":1,"progress":{n}}}"#);
        let line = format!(r#"{{"method":"notifications/progress","params":{params}}}"#);
        server.say(line).await;
    }
    server.say(r#"{"method":"after"}"#).await;
    assert_eq!(heard.recv().await.unwrap(), "after -");
    server.say(r#"{"id":1,"result":1}"#).await;
    for n in 0..2 {
        let Event::Progress(params) = call.next().await else {
            panic!("no progress")
        };
        assert_eq!(
            params.get(),
            format!(r#"{{"progressToken":1,"progress":{n}}}"#)
        );
    }
    assert_eq!(end(call).await, "1");
    let expected = Counters {
        dropped_progress: 3,
        ..Counters::default()
    };
    assert_eq!(connection.counters(), expected);
}

#[tokio::test]
async fn closing_fails_the_calls_and_flushes_the_rest() {
    let Pair {
        connection,
        mut server,
        mut heard,
        tasks,
        ..
    } = pair_with(Limits::default(), 16);
    let call = connection.call("m", None, false).unwrap();
    connection.notify("last", None).unwrap();
    connection.close();
    assert_eq!(end(call).await, CLOSED);
    connection.closed().await;
    assert_eq!(server.request().await, 1);
    assert_eq!(server.line().await, r#"{"jsonrpc":"2.0","method":"last"}"#);
    assert_eq!(server.line().await, "end");
    // The server may still say something before it goes.
    server.say(r#"{"method":"bye"}"#).await;
    assert_eq!(heard.recv().await.unwrap(), "bye -");
    drop(server);
    assert_eq!(heard.recv().await.unwrap(), "closed");
    tasks.wait().await;
}

#[tokio::test]
async fn a_connection_that_nobody_holds_is_closed() {
    let Pair {
        connection,
        mut server,
        tasks,
        ..
    } = pair();
    let call = connection.call("m", None, false).unwrap();
    drop(connection.clone());
    drop(connection);
    assert_eq!(server.request().await, 1);
    server.say(r#"{"id":1,"result":1}"#).await;
    assert_eq!(end(call).await, "1", "a call holds it");
    assert_eq!(server.line().await, "end");
    drop(server);
    tasks.wait().await;
}

#[tokio::test]
async fn abandoning_does_not_wait_for_pipes_held_open() {
    let Pair {
        connection,
        server,
        mut heard,
        tasks,
        ..
    } = pair();
    connection.abandon();
    tasks.wait().await;
    assert_eq!(heard.recv().await.unwrap(), "closed");
    drop(server);
}

#[tokio::test(start_paused = true)]
async fn last_words_are_read_after_the_pipe_broke() {
    let Pair {
        connection,
        server,
        tasks,
        ..
    } = pair();
    let (first, second) = (
        connection.call("m", None, false).unwrap(),
        connection.call("m", None, false).unwrap(),
    );
    let (input, mut output) = server.split();
    drop(input);
    connection.notify("breaks", None).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(connection.is_closed());
    output
        .write_all(b"{\"id\":1,\"result\":1}\n")
        .await
        .unwrap();
    assert_eq!(end(first).await, "1");
    // Whoever keeps talking but does not listen is given up.
    assert_eq!(end(second).await, CLOSED);
    connection.closed().await;
    drop(output);
    tasks.wait().await;
}
