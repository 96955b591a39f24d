//! Calls with servers that behave.

use wharfinger_wire::connection::{CallError, Counters, Event};
use wharfinger_wire::message::Id;

use crate::support::{Pair, end, pair, raw, told};

#[tokio::test]
async fn a_call_is_sent_and_answered_unchanged() {
    let Pair {
        connection,
        mut server,
        ..
    } = pair();
    let params = raw(r#"{"name":"t","arguments":{"n":1e400,"big":10000000000000000000000000}}"#);
    let call = connection.call("tools/call", Some(&params), false).unwrap();
    assert_eq!(call.id(), Id::number(1));
    let sent = server.line().await;
    let expected = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":PARAMS}"#;
    assert_eq!(sent, expected.replace("PARAMS", params.get()));
    server
        .say(r#"{"result":{"z":1,"a":[ 1e400 ]},"jsonrpc":"2.0","id":1}"#)
        .await;
    assert_eq!(end(call).await, r#"{"z":1,"a":[ 1e400 ]}"#);
    assert_eq!(connection.counters(), Counters::default());
}

#[tokio::test]
async fn line_ends_between_tokens_do_not_break_the_line() {
    let Pair {
        connection,
        mut server,
        ..
    } = pair();
    let params = raw("{\n  \"a\": \"x\\n\"\r\n}");
    connection.notify("n", Some(&params)).unwrap();
    let expected = r#"{"jsonrpc":"2.0","method":"n","params":{   "a": "x\n"  }}"#;
    assert_eq!(server.line().await, expected);
}

#[tokio::test]
async fn replies_come_in_any_order() {
    let Pair {
        connection,
        mut server,
        ..
    } = pair();
    let calls: Vec<_> = (0..3)
        .map(|_| connection.call("m", None, false).unwrap())
        .collect();
    for id in [3, 1, 2] {
        server.say(format!(r#"{{"id":{id},"result":{id}}}"#)).await;
    }
    for (call, expected) in calls.into_iter().zip(["1", "2", "3"]) {
        assert_eq!(end(call).await, expected);
    }
}

#[tokio::test]
async fn all_progress_comes_in_order_before_the_reply() {
    let Pair {
        connection,
        mut server,
        mut heard,
        ..
    } = pair();
    let params = raw(r#"{"name":"t","_meta":{"progressToken":"theirs","x":1}}"#);
    let mut call = connection.call("tools/call", Some(&params), true).unwrap();
    let expected = r#""params":{"name":"t","_meta":{"progressToken":1,"x":1}}}"#;
    assert!(server.line().await.ends_with(expected));
    let progress = |n: u32| format!(r#"{{"progressToken":1,"progress":{n}}}"#);
    let notification = |params: String| {
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#)
    };
    for n in 0..200 {
        server.say(notification(progress(n))).await;
    }
    server
        .say(r#"{"jsonrpc":"2.0","id":1,"result":"done"}"#)
        .await;
    server.say(notification(progress(200))).await;
    server
        .say(notification(
            r#"{"progressToken":"other","progress":1}"#.to_owned(),
        ))
        .await;
    server
        .say(notification(
            r#"{"progressToken":99,"progress":1}"#.to_owned(),
        ))
        .await;
    // Only when all of it has been read does the call begin to look.
    let foreign = r#"notifications/progress {"progressToken":"other","progress":1}"#;
    assert_eq!(heard.recv().await.unwrap(), foreign);
    let foreign = r#"notifications/progress {"progressToken":99,"progress":1}"#;
    assert_eq!(heard.recv().await.unwrap(), foreign);
    for n in 0..200 {
        let Event::Progress(params) = call.next().await else {
            panic!("no progress {n}")
        };
        assert_eq!(params.get(), progress(n));
    }
    let Event::Reply(reply) = call.next().await else {
        panic!("progress after the reply")
    };
    assert_eq!(told(reply), r#""done""#);
    assert!(matches!(
        call.next().await,
        Event::Reply(Err(CallError::Closed))
    ));
    assert_eq!(
        connection.counters(),
        Counters {
            late_progress: 1,
            ..Counters::default()
        }
    );
}

#[tokio::test]
async fn progress_that_nobody_asked_the_connection_for_goes_to_the_peer() {
    let Pair {
        connection,
        mut server,
        mut heard,
        ..
    } = pair();
    let params = raw(r#"{"_meta":{"progressToken":"mine"}}"#);
    let call = connection.call("m", Some(&params), false).unwrap();
    assert!(
        server
            .line()
            .await
            .ends_with(r#""params":{"_meta":{"progressToken":"mine"}}}"#)
    );
    server
        .say(r#"{"method":"notifications/progress","params":{"progressToken":"mine"}}"#)
        .await;
    server.say(r#"{"id":1,"result":{}}"#).await;
    assert_eq!(end(call).await, "{}");
    assert_eq!(
        heard.recv().await.unwrap(),
        r#"notifications/progress {"progressToken":"mine"}"#
    );
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_and_its_late_reply_ignored() {
    let Pair {
        connection,
        mut server,
        mut heard,
        ..
    } = pair();
    drop(connection.call("a", None, true).unwrap());
    connection
        .call("b", None, false)
        .unwrap()
        .cancel("too \"slow\"");
    let call = connection.call("c", None, false).unwrap();
    server.request().await;
    let cancelled = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":"#;
    let reason = "the caller no longer waits for it";
    let expected = format!(r#"{cancelled}{{"requestId":1,"reason":"{reason}"}}}}"#);
    assert_eq!(server.line().await, expected);
    server.request().await;
    let expected = format!(r#"{cancelled}{{"requestId":2,"reason":"too \"slow\""}}}}"#);
    assert_eq!(server.line().await, expected);
    assert_eq!(server.request().await, 3);
    for id in [1, 2, 3] {
        server.say(format!(r#"{{"id":{id},"result":{id}}}"#)).await;
    }
    assert_eq!(end(call).await, "3");
    let expected = Counters {
        late_replies: 2,
        ..Counters::default()
    };
    assert_eq!(connection.counters(), expected);
    assert!(
        heard.try_recv().is_err(),
        "late replies are nobody's business"
    );
}

#[tokio::test]
async fn a_call_dropped_after_its_reply_arrived_is_not_cancelled() {
    let Pair {
        connection,
        mut server,
        mut heard,
        ..
    } = pair();
    let call = connection.call("a", None, false).unwrap();
    assert_eq!(server.request().await, 1);
    server.say(r#"{"id":1,"result":1}"#).await;
    server.say(r#"{"method":"after"}"#).await;
    assert_eq!(heard.recv().await.unwrap(), "after -");
    drop(call);
    connection.notify("next", None).unwrap();
    assert_eq!(server.line().await, r#"{"jsonrpc":"2.0","method":"next"}"#);
}

#[tokio::test]
async fn the_first_requests_are_never_cancelled() {
    let Pair {
        connection,
        mut server,
        ..
    } = pair();
    drop(connection.call("initialize", None, false).unwrap());
    drop(connection.call("server/discover", None, false).unwrap());
    connection.notify("next", None).unwrap();
    assert_eq!(server.request().await, 1);
    assert_eq!(server.request().await, 2);
    assert_eq!(server.line().await, r#"{"jsonrpc":"2.0","method":"next"}"#);
}

#[tokio::test]
async fn requests_of_the_server_are_answered() {
    let Pair {
        connection,
        mut server,
        mut heard,
        mut open,
        ..
    } = pair();
    server
        .say(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#)
        .await;
    assert_eq!(
        server.line().await,
        r#"{"jsonrpc":"2.0","id":"p","result":{}}"#
    );
    server
        .say(r#"{"jsonrpc":"2.0","id":1,"method":"known","params":{"a":1}}"#)
        .await;
    assert_eq!(
        server.line().await,
        r#"{"jsonrpc":"2.0","id":1,"result":"yes"}"#
    );
    server
        .say(r#"{"jsonrpc":"2.0","id":-1,"method":"unknown"}"#)
        .await;
    let expected = r#"{"jsonrpc":"2.0","id":-1,"error":{"code":-32601,"message":"no"}}"#;
    assert_eq!(server.line().await, expected);
    server
        .say(r#"{"jsonrpc":"2.0","id":2.50,"method":"later"}"#)
        .await;
    for expected in [r#"1 known {"a":1}"#, "-1 unknown -", "2.50 later -"] {
        assert_eq!(heard.recv().await.unwrap(), expected);
    }
    let reply = open.recv().await.unwrap();
    assert_eq!(reply.id(), &Id::parse(&raw("2.50")).unwrap());
    reply.give(Ok(raw("[ ]"))).unwrap();
    assert_eq!(
        server.line().await,
        r#"{"jsonrpc":"2.0","id":2.50,"result":[ ]}"#
    );
    server.say(r#"{"id":3,"method":"dropped"}"#).await;
    let expected =
        r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"nobody answered"}}"#;
    assert_eq!(server.line().await, expected, "no server waits for ever");
    drop(connection);
}

#[tokio::test]
async fn notifications_come_in_order() {
    let Pair {
        mut server,
        mut heard,
        connection,
        ..
    } = pair();
    for n in 0..300 {
        server
            .say(format!(r#"{{"method":"n","params":[{n}]}}"#))
            .await;
    }
    for n in 0..300 {
        assert_eq!(heard.recv().await.unwrap(), format!("n [{n}]"));
    }
    drop(connection);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_calls_at_once() {
    let Pair {
        connection,
        mut server,
        tasks,
        ..
    } = pair();
    let mut running = tokio::task::JoinSet::new();
    running.spawn(async move {
        // Answers in pairs, the later one first.
        for _ in 0..500 {
            let (first, second) = (server.request().await, server.request().await);
            for id in [second, first] {
                let token = format!(r#"{{"progressToken":{id}}}"#);
                let progress = format!(r#"{{"method":"notifications/progress","params":{token}}}"#);
                server.say(progress).await;
                server.say(format!(r#"{{"id":{id},"result":{id}}}"#)).await;
            }
        }
        assert_eq!(server.line().await, "end");
    });
    for _ in 0..1000 {
        let connection = connection.clone();
        running.spawn(async move {
            let mut call = connection.call("m", None, true).unwrap();
            let id = call.id().to_string();
            let Event::Progress(params) = call.next().await else {
                panic!("no progress")
            };
            assert_eq!(params.get(), format!(r#"{{"progressToken":{id}}}"#));
            assert_eq!(end(call).await, id);
        });
    }
    drop(connection);
    running.join_all().await;
    tasks.wait().await;
}
