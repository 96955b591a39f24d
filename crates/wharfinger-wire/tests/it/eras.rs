//! How a connection begins.

use std::time::Duration;

use wharfinger_wire::connection::CallError;
use wharfinger_wire::era::{
    ClientDescription, InitializeError, Probe, ServerDescription, Version, discover, initialize,
    supported_versions,
};

use crate::support::{Pair, pair, raw};

fn client() -> ClientDescription {
    ClientDescription {
        info: raw(r#"{"name":"me","version":"1"}"#),
        capabilities: raw("{}"),
    }
}

const LIMIT: Duration = Duration::from_secs(3);

/// What comes of a probe that is answered so.
async fn probe(answer: &str) -> Result<ServerDescription, Probe> {
    let Pair {
        connection,
        mut server,
        ..
    } = pair();
    let asking = async {
        server.request().await;
        server.say(answer).await;
    };
    let client = client();
    tokio::join!(discover(&connection, &client, LIMIT), asking).0
}

/// What comes of a handshake that is answered so, and what the server heard next.
async fn shake(answer: &str) -> (Result<ServerDescription, InitializeError>, String) {
    let Pair {
        connection,
        mut server,
        ..
    } = pair();
    let asking = async {
        server.request().await;
        server.say(answer).await;
    };
    let client = client();
    let (described, ()) = tokio::join!(initialize(&connection, &client), asking);
    connection.close();
    (described, server.line().await)
}

fn told(server: &ServerDescription) -> String {
    let ServerDescription {
        version,
        capabilities,
        info,
        instructions,
        ..
    } = server;
    format!(
        "{version} {capabilities} {info} {}",
        instructions.as_deref().unwrap_or("-")
    )
}

#[tokio::test]
async fn a_stateless_server_is_discovered() {
    let Pair {
        connection,
        mut server,
        ..
    } = pair();
    let asking = async {
        let line = server.line().await;
        server
            .say(r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2099-01-01","2026-07-28"],"capabilities":{"tools":{"x":1}},"instructions":"hi","ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"}}}}"#)
            .await;
        line
    };
    let client = client();
    let (described, line) = tokio::join!(discover(&connection, &client, LIMIT), asking);
    let expected = r#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"me","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    assert_eq!(line, expected);
    let described = described.unwrap();
    assert_eq!(
        told(&described),
        r#"2026-07-28 {"tools":{"x":1}} {"name":"s"} hi"#
    );
    assert!(described.raw.get().contains("2099-01-01"));
}

#[tokio::test]
async fn a_probe_may_lead_nowhere() {
    for code in ["-32601", "-32602", "-32001", "0", "-32022"] {
        let answer = format!(r#"{{"id":1,"error":{{"code":{code},"message":"x"}}}}"#);
        assert!(
            matches!(probe(&answer).await, Err(Probe::Refused(_))),
            "{code}"
        );
    }
    for result in ["{}", "null", "[]", r#"{"supportedVersions":"2026-07-28"}"#] {
        let answer = format!(r#"{{"id":1,"result":{result}}}"#);
        assert!(
            matches!(probe(&answer).await, Err(Probe::Odd { .. })),
            "{result}"
        );
    }
    assert!(matches!(
        probe(r#"{"id":1,"result":NaN}"#).await,
        Err(Probe::Odd { .. })
    ));
    let other = probe(r#"{"id":1,"result":{"supportedVersions":["2025-11-25",7]}}"#).await;
    let Err(Probe::OtherVersions(versions)) = other else {
        panic!("{other:?}")
    };
    assert_eq!(versions, ["2025-11-25"]);
    let bare = probe(r#"{"id":1,"result":{"supportedVersions":["2026-07-28"]}}"#)
        .await
        .unwrap();
    assert_eq!(told(&bare), "2026-07-28 {} {} -");
}

#[tokio::test]
async fn a_refusal_tells_the_versions() {
    let refused = probe(r#"{"id":1,"error":{"code":-32022,"message":"x","data":{"supported":["2099-01-01"],"requested":"2026-07-28"}}}"#).await;
    let Err(Probe::Refused(error)) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(supported_versions(&error), ["2099-01-01"]);
}

#[tokio::test(start_paused = true)]
async fn silence_ends_a_probe() {
    let Pair {
        connection,
        mut server,
        ..
    } = pair();
    let silent = discover(&connection, &client(), LIMIT).await;
    assert!(matches!(silent, Err(Probe::Silent)));
    connection.close();
    assert_eq!(server.request().await, 1);
    assert_eq!(server.line().await, "end");
}

#[tokio::test]
async fn a_server_may_die_of_a_probe() {
    let Pair {
        connection, server, ..
    } = pair();
    let client = client();
    let (probed, ()) = tokio::join!(discover(&connection, &client, LIMIT), server.say_last(""));
    assert!(matches!(probed, Err(Probe::Closed)));
    assert!(matches!(
        discover(&connection, &client, LIMIT).await,
        Err(Probe::Closed)
    ));
}

#[tokio::test]
async fn a_handshake_is_made() {
    let Pair {
        connection,
        mut server,
        ..
    } = pair();
    let asking = async {
        let line = server.line().await;
        server.say(r#"{"id":1,"result":{"protocolVersion":"2024-11-05","capabilities":{"x":true},"serverInfo":{"name":"s"},"instructions":"hi"}}"#).await;
        line
    };
    let client = client();
    let (described, line) = tokio::join!(initialize(&connection, &client), asking);
    let expected = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"me","version":"1"}}}"#;
    assert_eq!(line, expected);
    assert_eq!(
        told(&described.unwrap()),
        r#"2024-11-05 {"x":true} {"name":"s"} hi"#
    );
    let line = server.line().await;
    assert_eq!(
        line,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#
    );
}

#[tokio::test]
async fn handshakes_are_tolerant_but_for_the_version() {
    let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    for version in Version::ALL {
        let answer =
            format!(r#"{{"id":1,"result":{{"protocolVersion":"{version}","serverInfo":7}}}}"#);
        let (described, next) = shake(&answer).await;
        if version.is_modern() {
            assert!(matches!(described, Err(InitializeError::Version(_))));
            assert_eq!(next, "end");
        } else {
            assert_eq!(told(&described.unwrap()), format!("{version} {{}} {{}} -"));
            assert_eq!(next, initialized);
        }
    }
    let (unknown, _) = shake(r#"{"id":1,"result":{"protocolVersion":"2024-10-07"}}"#).await;
    let expected = r#"the server wants protocol version "2024-10-07""#;
    assert_eq!(unknown.unwrap_err().to_string(), expected);
    let (odd, _) = shake(r#"{"id":1,"result":{}}"#).await;
    assert!(matches!(odd, Err(InitializeError::Odd)));
    let (refused, next) = shake(r#"{"id":1,"error":{"code":-32022,"message":"x"}}"#).await;
    assert!(matches!(
        refused,
        Err(InitializeError::Call(CallError::Server(_)))
    ));
    assert_eq!(next, "end");
}
