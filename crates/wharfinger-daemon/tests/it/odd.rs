//! Bodies that are no messages: each gets its answer, and the next one is served.

use serde_json::{Value, json};

use crate::dock::{Dock, MODERN, enveloped, plain, request};
use crate::http::Ask;

/// Malformed bodies, and the JSON-RPC error of each.
fn malformed() -> Vec<(Vec<u8>, i64)> {
    const PARSE: i64 = -32700;
    const INVALID: i64 = -32600;
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let texts = [
        ("", PARSE),
        (" ", PARSE),
        ("\n\n", PARSE),
        ("{", PARSE),
        ("}", PARSE),
        ("{}}", PARSE),
        ("{} {}", PARSE),
        ("{\"jsonrpc\"", PARSE),
        ("{\"jsonrpc\":\"2.0\",}", PARSE),
        ("{'jsonrpc':'2.0'}", PARSE),
        ("{jsonrpc:\"2.0\"}", PARSE),
        ("// comment\n{}", PARSE),
        ("{\"a\":NaN}", PARSE),
        ("{\"a\":+1}", PARSE),
        ("{\"a\":01}", PARSE),
        ("{\"a\":1.}", PARSE),
        ("{\"a\":.5}", PARSE),
        ("{\"a\":0x1}", PARSE),
        ("{\"a\":Infinity}", PARSE),
        ("{\"a\":\"\\x\"}", PARSE),
        ("{\"a\":\"\n\"}", PARSE),
        ("{\"a\":tru}", PARSE),
        ("nul", PARSE),
        ("ping", PARSE),
        ("<xml/>", PARSE),
        ("id=1&method=ping", PARSE),
        ("\u{feff}{}", PARSE),
        ("null", INVALID),
        ("true", INVALID),
        ("7", INVALID),
        ("-0.0e5", INVALID),
        ("\"ping\"", INVALID),
        ("{}", INVALID),
        ("{\"jsonrpc\":\"2.0\"}", INVALID),
        ("{\"jsonrpc\":\"2.0\",\"id\":1}", INVALID),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":null}", INVALID),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}", INVALID),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":{}}", INVALID),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":[\"ping\"]}",
            INVALID,
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}",
            INVALID,
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"ping\"}",
            INVALID,
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}",
            INVALID,
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":[1],\"method\":\"ping\"}",
            INVALID,
        ),
        ("[]", INVALID),
        ("[", PARSE),
        ("[1", PARSE),
        ("[{}", PARSE),
    ];
    let mut all: Vec<(Vec<u8>, i64)> = texts
        .map(|(text, code)| (text.as_bytes().to_vec(), code))
        .to_vec();
    all.extend([
        (vec![0], PARSE),
        (vec![0xff; 10], PARSE),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}".to_vec(),
            PARSE,
        ),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xed\xa0\x80\"}".to_vec(),
            PARSE,
        ),
        (b"\x1f\x8b\x08\x00".to_vec(), PARSE),
        ("[".repeat(100_000).into_bytes(), PARSE),
        ("{\"a\":".repeat(10_000).into_bytes(), PARSE),
        (format!("{{\"a\":{}}}", deep(10_000)).into_bytes(), INVALID),
    ]);
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_malformed_body_gets_the_protocols_own_error_and_harms_nobody() {
    let dock = Dock::new(plain()).await;
    let caller = dock.handshake("2025-03-26").await;
    for (body, code) in malformed() {
        let text = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        let asks: [(&str, Ask); 3] = [
            ("in a session", caller.dressed(dock.raw(body.clone()))),
            ("of nobody", dock.raw(body.clone())),
            (
                "stateless",
                dock.raw(body).header("MCP-Protocol-Version", MODERN),
            ),
        ];
        for (who, ask) in asks {
            let response = ask.send().await;
            assert_eq!(
                (response.status, response.kind()),
                (400, "application/json"),
                "{who}: {text}"
            );
            let reply = response.json().await;
            assert_eq!(reply["error"]["code"], code, "{who}: {text}: {reply}");
        }
        assert_eq!(
            caller.result(1, "ping", json!({})).await,
            json!({}),
            "after {text}"
        );
    }
    assert_eq!(caller.call("work", json!({})).await, "ok 1");
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_malformed_body_of_the_api_is_a_problem_and_harms_nobody() {
    let dock = Dock::new(plain()).await;
    let owner = dock.owner().await;
    let deep = format!("{}1{}", "{\"a\":".repeat(10_000), "}".repeat(10_000));
    let more = [
        format!("{{\"servers\":{deep}}}"),
        format!("{{\"servers\":{{\"x\":{{\"command\":\"y\",\"z\":{deep}}}}}}}"),
        format!("{{\"servers\":{{\"x\":{{\"command\":\"y\",\"env\":{deep}}}}}}}"),
        "{\"servers\":{\"x\":{\"command\":\"y\",\"args\":[".to_owned()
            + &"[".repeat(10_000)
            + &"]".repeat(10_000)
            + "]}}}",
        "{\"name\":[],\"arguments\":[]}".into(),
        "{\"name\":\"\\ud800\"}".into(),
    ];
    let bodies = malformed().into_iter().map(|(body, _)| body);
    for body in bodies.chain(more.map(String::into_bytes)) {
        let text = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        for path in ["/api/servers", "/api/agents", "/api/agents/default/call"] {
            let ask = Ask::new(dock.address, "POST", path).bearer(&owner);
            let ask = ask
                .header("Content-Type", "application/json")
                .body(body.clone());
            let response = ask.send().await;
            assert!(
                (400..500).contains(&response.status),
                "{path} {text}: {}",
                response.status
            );
            assert_eq!(response.kind(), "application/problem+json", "{path} {text}");
            response.json().await;
        }
    }
    assert_eq!(
        dock.get("/api/servers").await["servers"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deep_params_are_carried_or_refused_but_never_the_end() {
    let dock = Dock::new(json!({})).await;
    let caller = dock.handshake("2025-11-25").await;
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let objects = format!("{}1{}", "{\"_meta\":".repeat(10_000), "}".repeat(10_000));
    for params in [
        format!("{{\"x\":{deep}}}"),
        format!("{{\"_meta\":{{\"x\":{deep}}}}}"),
        format!("{{\"_meta\":{{\"progressToken\":{deep}}}}}"),
        format!("{{\"name\":\"none\",\"arguments\":{{\"x\":{deep}}}}}"),
        objects,
        deep.clone(),
    ] {
        for method in ["ping", "tools/list", "tools/call", "logging/setLevel"] {
            let text = format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\",\"params\":{params}}}"
            );
            let response = caller.dressed(dock.raw(text)).send().await;
            assert!([200, 400].contains(&response.status), "{method}");
            assert_eq!(response.json().await["id"], 1, "{method} {}", &params[..40]);
        }
    }
    assert_eq!(caller.result(1, "ping", json!({})).await, json!({}));
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_comes_back_as_it_was_written() {
    let dock = Dock::new(plain()).await;
    let caller = dock.handshake("2025-11-25").await;
    let long = format!("\"{}\"", "i".repeat(20_000));
    for id in [
        "0",
        "-1",
        "1.5",
        "1.0",
        "1e3",
        "18446744073709551615",
        "9007199254740993",
        "123456789012345678901234567890",
        "-0",
        "1E400",
        "\"\"",
        "\"1\"",
        "\"\\u00e9\"",
        "\"é\"",
        "\"\\n\"",
        "\"null\"",
        &long,
    ] {
        for (method, params) in [
            ("ping", "{}"),
            ("tools/call", "{\"name\":\"work\"}"),
            ("no/such", "{}"),
        ] {
            let text = format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}"
            );
            let reply = caller.dressed(dock.raw(text)).send().await.text().await;
            let expect = format!("\"id\":{id},");
            assert!(
                reply.replace(' ', "").contains(&expect),
                "{method} {id}: {reply}"
            );
        }
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_are_there_twice_or_not_known_confuse_nobody() {
    let dock = Dock::new(plain()).await;
    let caller = dock.handshake("2025-11-25").await;
    for text in [
        r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"no","method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{},"params":{"a":1,"a":2}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","extra":{"x":[1]}}"#,
        r#"{"id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
        r#"{"jsonrpc":2,"id":1,"method":"ping","params":null}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#,
    ] {
        let response = caller.dressed(dock.raw(text)).send().await;
        assert!([200, 202, 400].contains(&response.status), "{text}");
        if response.status != 202 {
            response.json().await;
        }
        assert_eq!(
            caller.result(2, "ping", json!({})).await,
            json!({}),
            "after {text}"
        );
    }
    // What is called is what was checked.
    let text = r#"{"jsonrpc":"2.0","id":"q","method":"tools/call","params":{"name":"echo","name":"work",
        "_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    for name in ["echo", "work"] {
        let ask = dock
            .raw(text)
            .header("MCP-Protocol-Version", MODERN)
            .header("Mcp-Method", "tools/call")
            .header("Mcp-Name", name);
        let response = ask.send().await;
        let status = response.status;
        let reply = response.json().await;
        let called = reply["result"]["content"][0]["text"].clone();
        let agrees = match name {
            "work" => status == 400 || called == "ok 1",
            _ => status == 400 || called == "",
        };
        assert!(agrees, "{name}: {reply}");
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_requests_of_the_stateless_era_are_answered() {
    let dock = Dock::new(plain()).await;
    let long = "m".repeat(5000);
    for (method, status) in [
        ("", 404),
        ("\u{0}", 400),
        ("é", 404),
        (&*long, 404),
        ("tools/list ", 400),
    ] {
        let ask = dock.mcp(&enveloped(1, method, json!({})));
        let plain = method.bytes().all(|byte| byte.is_ascii_graphic());
        let header = if plain { method } else { "=?base64?w6k=?=" };
        let ask = ask
            .header("MCP-Protocol-Version", MODERN)
            .header("Mcp-Method", header);
        let response = ask.send().await;
        assert_eq!(response.status, status, "{method:?}");
        assert_eq!(response.json().await["id"], 1);
    }
    let mut message = request(1, "tools/list", json!({ "cursor": "x" }));
    message["params"]["_meta"] = json!("text");
    let ask = dock.mcp(&message).header("MCP-Protocol-Version", MODERN);
    let reply: Value = ask.send().await.json().await;
    assert_eq!(reply["error"]["code"], -32602);
    dock.close().await;
}
