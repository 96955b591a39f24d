//! Servers that send what they should not: the call ends, the connection lives.

use wharfinger_wire::connection::{CallError, Counters, Limits};
use wharfinger_wire::message::INTERNAL_ERROR;

use crate::support::{Pair, end, pair, pair_with};

/// What becomes of call 1 when the server says `line` instead of an answer, how many things are
/// skipped, and that the next call works.
async fn check(line: impl AsRef<[u8]>, expected: &str, skipped: u64) {
    let Pair {
        connection,
        mut server,
        ..
    } = pair();
    let call = connection.call("m", None, false).unwrap();
    server.request().await;
    server.say(line.as_ref()).await;
    let shown = String::from_utf8_lossy(line.as_ref()).into_owned();
    if expected == "waits" {
        // What follows shows that the line was read.
        server.say(r#"{"id":1,"result":"waits"}"#).await;
        assert_eq!(end(call).await, r#""waits""#, "{shown}");
    } else {
        let told = end(call).await;
        assert!(told.starts_with(expected), "{shown}: {told}");
    }
    let call = connection.call("m", None, false).unwrap();
    let line = server.line().await;
    assert!(
        line.starts_with(r#"{"jsonrpc":"2.0","id":2,"#),
        "{shown} was answered: {line}"
    );
    server.say(r#"{"id":2,"result":2}"#).await;
    assert_eq!(end(call).await, "2");
    assert_eq!(connection.counters().skipped, skipped, "{shown}");
}

const UNREADABLE: &str = "error: the reply could not be read: ";

#[tokio::test]
async fn replies_that_are_readable_after_all() {
    check("{\"id\":1,\"result\":{}}\r", "{}", 0).await;
    check(r#" {"id" : 1 , "result":{}} "#, "{}", 0).await;
    check(r#"[{"method":"a"},{"id":1,"result":{}}]"#, "{}", 0).await;
    check(r#"[7,{"id":1,"result":{}}]"#, "{}", 1).await;
    check(r#"{"id":1.0,"result":{}}"#, "{}", 0).await;
    check(r#"{"id":1,"result":null}"#, "null", 0).await;
    check(
        r#"{"id":1,"result":{"n":1e400,"m":10000000000000000000000000000000000000000}}"#,
        r#"{"n":1e400,"m":10000000000000000000000000000000000000000}"#,
        0,
    )
    .await;
    check(r#"{"id":1,"result":{},"unknown":[]}"#, "{}", 0).await;
    check(
        format!(
            "{{\"id\":1,\"result\":{}{}}}",
            "[".repeat(9999),
            "]".repeat(9999)
        ),
        "[[",
        0,
    )
    .await;
}

#[tokio::test]
async fn errors_of_all_kinds() {
    check(
        r#"{"id":1,"error":{"code":-32000,"message":"no"}}"#,
        "error: no (code -32000)",
        0,
    )
    .await;
    check(
        r#"{"id":1,"error":{"code":-32000}}"#,
        "error: error -32000",
        0,
    )
    .await;
    check(
        r#"{"id":1,"error":{"code":99999999999999999999,"message":"x"}}"#,
        "error: x (code -32603)",
        0,
    )
    .await;
    check(r#"{"id":1,"error":"boom"}"#, "error: boom (code -32603)", 0).await;
    check(
        r#"{"id":1,"result":null,"error":{"message":"x"}}"#,
        "error: x",
        0,
    )
    .await;
}

#[tokio::test]
async fn an_odd_error_can_be_passed_on_unchanged() {
    let Pair {
        connection,
        mut server,
        ..
    } = pair();
    let call = connection.call("m", None, false).unwrap();
    let odd = r#"{"code":99999999999999999999,"x":[ 1 ]}"#;
    server.say(format!(r#"{{"id":1,"error":{odd}}}"#)).await;
    let Err(CallError::Server(error)) = call.reply().await else {
        panic!("no error")
    };
    assert_eq!((error.code, error.to_raw().get()), (INTERNAL_ERROR, odd));
}

#[tokio::test]
async fn replies_that_cannot_be_read_fail_their_call() {
    check(r#"{"id":1,"result":NaN}"#, UNREADABLE, 1).await;
    check(
        r#"{"result":{"x":NaN,"id":7},"jsonrpc":"2.0","id":1}"#,
        UNREADABLE,
        1,
    )
    .await;
    check(r#"{"id":1,"result":{"x":"#, UNREADABLE, 1).await;
    check(r#"{"id":1,"result":1,"result":2}"#, UNREADABLE, 1).await;
    check(r#"{"id":1}"#, UNREADABLE, 1).await;
    check(b"{\"id\":1,\"result\":\"\xff\"}", UNREADABLE, 1).await;
    check(r#"[{"id":1,"result":1,"result":2}]"#, UNREADABLE, 1).await;
}

#[tokio::test]
async fn lines_that_are_no_replies_leave_the_call_waiting() {
    check("Server running on stdio", "waits", 1).await;
    check("", "waits", 0).await;
    check("  \t", "waits", 0).await;
    check("[]", "waits", 1).await;
    check("null", "waits", 1).await;
    check("1", "waits", 1).await;
    check(r#"{"id":"1","result":{}}"#, "waits", 1).await;
    check(r#"{"id":99,"result":{}}"#, "waits", 1).await;
    check(r#"{"id":0,"result":{}}"#, "waits", 1).await;
    check(r#"{"id":null,"result":{}}"#, "waits", 1).await;
    check(
        r#"{"id":null,"error":{"code":-32700,"message":"x"}}"#,
        "waits",
        1,
    )
    .await;
    check(r#"{"id":{},"result":{}}"#, "waits", 1).await;
    check(r#"{"id":null,"method":"x"}"#, "waits", 1).await;
    check(r#"{"id":{},"method":"x"}"#, "waits", 1).await;
    check(r#"{"id":1,"method":5}"#, "waits", 1).await;
    check(r#"{"id":1,"method":"ping","params":NaN}"#, "waits", 1).await;
    check(r#"{"id":99,"result":NaN}"#, "waits", 1).await;
    check(b"\xff\xfe", "waits", 1).await;
}

#[tokio::test]
async fn a_second_reply_is_skipped() {
    let Pair {
        connection,
        mut server,
        mut heard,
        ..
    } = pair();
    let call = connection.call("m", None, false).unwrap();
    server.say(r#"{"id":1,"result":1}"#).await;
    server.say(r#"{"id":1,"result":2}"#).await;
    server.say(r#"{"id":8,"result":2}"#).await;
    assert_eq!(
        heard.recv().await.unwrap(),
        r#"skipped repeated reply 19: {"id":1,"result":2}"#
    );
    assert_eq!(
        heard.recv().await.unwrap(),
        r#"skipped unknown reply 19: {"id":8,"result":2}"#
    );
    assert_eq!(end(call).await, "1");
    assert_eq!(
        connection.counters(),
        Counters {
            skipped: 2,
            ..Counters::default()
        }
    );
}

#[tokio::test]
async fn an_oversized_reply_fails_its_call_wherever_its_id_stands() {
    let limits = Limits {
        line_bytes: 1000,
        ..Limits::default()
    };
    let Pair {
        connection,
        mut server,
        mut heard,
        ..
    } = pair_with(limits, 64);
    let text = "x".repeat(20_000);
    for line in [
        format!(r#"{{"id":1,"result":"{text}"}}"#),
        format!(r#"{{"result":"{text}","jsonrpc":"2.0","id":2}}"#),
    ] {
        let call = connection.call("m", None, false).unwrap();
        let id = server.request().await;
        server.say(&line).await;
        let reply = call.reply().await;
        assert!(
            matches!(reply, Err(CallError::TooLarge { bytes }) if bytes == line.len()),
            "{id}: {reply:?}"
        );
        assert!(
            heard
                .recv()
                .await
                .unwrap()
                .starts_with("skipped oversized 200")
        );
    }
    let call = connection.call("m", None, false).unwrap();
    server.request().await;
    server
        .say(format!(
            r#"{{"id":3,"method":"roots/list","params":"{text}"}}"#
        ))
        .await;
    server.say(r#"{"id":3,"result":3}"#).await;
    assert_eq!(end(call).await, "3", "an oversized request is no reply");
    let expected = Counters {
        skipped: 3,
        oversized: 3,
        ..Counters::default()
    };
    assert_eq!(connection.counters(), expected);
}

#[tokio::test]
async fn the_last_line_counts_without_a_line_end() {
    let Pair {
        connection,
        server,
        mut heard,
        ..
    } = pair();
    let (first, second) = (
        connection.call("m", None, false).unwrap(),
        connection.call("m", None, false).unwrap(),
    );
    server.say_last(r#"{"id":1,"result":{}}"#).await;
    assert_eq!(end(first).await, "{}");
    assert_eq!(end(second).await, "error: the server closed the connection");
    assert_eq!(heard.recv().await.unwrap(), "closed");
}

#[tokio::test]
async fn a_server_that_dies_in_the_middle_of_a_reply_closed_the_connection() {
    let Pair {
        connection,
        server,
        mut heard,
        tasks,
        ..
    } = pair();
    let call = connection.call("m", None, false).unwrap();
    server.say_last(r#"{"id":1,"result":{"te"#).await;
    assert!(matches!(call.reply().await, Err(CallError::Closed)));
    assert_eq!(
        heard.recv().await.unwrap(),
        r#"skipped malformed 21: {"id":1,"result":{"te"#
    );
    assert_eq!(heard.recv().await.unwrap(), "closed");
    connection.closed().await;
    assert!(connection.is_closed());
    assert!(matches!(
        connection.call("m", None, false),
        Err(CallError::Closed)
    ));
    assert!(matches!(
        connection.notify("m", None),
        Err(CallError::Closed)
    ));
    tasks.wait().await;
}
