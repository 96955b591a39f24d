//! Who may come in, and in what form.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use wharfinger_testkit::Home;

use crate::dock::{Dock, initialize, options, plain};
use crate::http::Ask;

const METHODS: [&str; 6] = ["GET", "POST", "DELETE", "PUT", "PATCH", "OPTIONS"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_opens_with_its_agents_token_or_the_owners() {
    let dock = Dock::new(json!({})).await;
    dock.post("/api/agents", &json!({ "name": "other" })).await;
    let (owner, other) = (dock.owner().await, dock.token_of("other").await);
    let own = dock.token.clone();
    let bearer = |token: &str| Some(format!("Bearer {token}"));
    let none = "/agents/none/mcp";
    for (path, authorization, status) in [
        ("/agents/default/mcp", None, 401),
        ("/agents/default/mcp", bearer(""), 401),
        ("/agents/default/mcp", bearer("wrong"), 401),
        ("/agents/default/mcp", bearer(&own[..63]), 401),
        ("/agents/default/mcp", bearer(&format!("{own}0")), 401),
        ("/agents/default/mcp", bearer(&other), 401),
        ("/agents/default/mcp", Some(own.clone()), 401),
        ("/agents/default/mcp", Some(format!("Basic {own}")), 401),
        ("/agents/default/mcp", bearer(&own), 200),
        ("/agents/default/mcp", Some(format!("bearer {own}")), 200),
        ("/agents/default/mcp", bearer(&owner), 200),
        ("/agents/other/mcp", bearer(&own), 401),
        ("/agents/other/mcp", bearer(&other), 200),
        ("/agents/other/mcp", bearer(&owner), 200),
        // Who has no right to know is not told which agents there are.
        (none, None, 401),
        (none, bearer(&own), 401),
        (none, bearer(&owner), 404),
        ("/agents/..%2Fowner/mcp", bearer(&own), 401),
        ("/agents/default/stdio", None, 401),
        ("/agents/default/stdio", bearer(&other), 401),
        ("/agents/default/stdio", bearer(&own), 426),
    ] {
        let ask = Ask::new(dock.address, "POST", path).json(&initialize(1, "2025-11-25"));
        let ask = match &authorization {
            Some(value) => ask.header("Authorization", value),
            None => ask,
        };
        let response = ask.send().await;
        assert_eq!(response.status, status, "{path} {authorization:?}");
        let challenge = response.header("www-authenticate").unwrap_or_default();
        assert_eq!(challenge.starts_with("Bearer"), status == 401, "{path}");
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_request_says_nothing_for_any_method() {
    let dock = Dock::new(json!({})).await;
    for method in METHODS {
        for path in ["/agents/default/mcp", "/api/status", "/api/nonsense"] {
            let ask = Ask::new(dock.address, method, path);
            assert_eq!(ask.send().await.status, 401, "{method} {path}");
        }
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_admin_api_needs_the_owners_token_over_tcp_and_none_over_the_socket() {
    let dock = Dock::new(json!({})).await;
    let owner = dock.owner().await;
    for (token, status) in [(&owner, 200), (&dock.token, 401), (&"0".repeat(64), 401)] {
        let ask = Ask::new(dock.address, "GET", "/api/status").bearer(token);
        assert_eq!(ask.send().await.status, status);
    }
    assert_eq!(dock.get("/api/status").await["version"], "0");
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_that_names_the_token_file_has_made_it() {
    let dock = Dock::new(json!({})).await;
    let response = Ask::new(dock.address, "GET", "/api/status").send().await;
    let problem = response.json().await;
    assert!(problem["hint"].as_str().unwrap().contains("tokens/owner"));
    assert_eq!(dock.home.read("tokens/owner").trim().len(), 64);
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_hosts_and_origins_are_refused_before_anything_else() {
    let dock = Dock::with(json!({}), json!({ "allowedHosts": ["wharf.example"] })).await;
    let port = dock.address.port();
    let own = format!("127.0.0.1:{port}");
    let table = [
        (Some("evil.example.com"), None, false),
        (Some("127.0.0.1.evil.example"), None, false),
        (Some("localhost.evil.example"), None, false),
        (Some(""), None, false),
        (None, None, false),
        (Some(&*own), Some("http://evil.example.com"), false),
        (Some(&*own), Some("null"), false),
        (Some(&*own), Some("file://localhost"), false),
        (Some(&*own), Some("http://localhost.evil.example"), false),
        (Some("evil.example.com"), Some("http://localhost"), false),
        (Some(&*own), None, true),
        (Some("localhost"), Some("http://localhost:3000"), true),
        (Some("LOCALHOST:9"), Some("https://127.0.0.1"), true),
        (Some("[::1]:1"), None, true),
        (Some("wharf.example"), Some("https://wharf.example"), true),
    ];
    for (host, origin, allowed) in table {
        for method in METHODS {
            for path in ["/agents/default/mcp", "/api/status", "/", "/nothing"] {
                let mut ask = Ask::new(dock.address, method, path).without("Host");
                if let Some(host) = host {
                    ask = ask.header("Host", host);
                }
                if let Some(origin) = origin {
                    ask = ask.header("Origin", origin);
                }
                // No token, no content type, no body: none of that is looked at before.
                let status = ask.send().await.status;
                let told = format!("{method} {path} {host:?} {origin:?}: {status}");
                // Without Host, the HTTP library may refuse by itself.
                let refused = status == 403 || (host.is_none() && status == 400);
                assert_eq!(refused, !allowed, "{told}");
            }
        }
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_over_the_limit_is_refused_in_words() {
    let dock = Dock::with(plain(), json!({ "maxBodyBytes": 10_000 })).await;
    let ping = |size: usize| {
        let head = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        format!("{head}{}", " ".repeat(size - head.len()))
    };
    let caller = dock.handshake("2025-11-25").await;
    let fits = caller.dressed(dock.raw(ping(10_000))).send().await;
    assert_eq!(fits.json().await["result"], json!({}));
    for size in [10_001, 3 << 20, 20 << 20] {
        let response = caller.dressed(dock.raw(ping(size))).send().await;
        assert_eq!(response.status, 413, "{size}");
        assert_eq!(response.kind(), "application/json");
        let error = response.json().await;
        let text = error["error"]["message"].as_str().unwrap();
        assert!(text.contains("10000 bytes"), "{text}");
    }
    // The next one is served.
    assert_eq!(caller.result(2, "ping", json!({})).await, json!({}));
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_header_block_that_is_too_large_is_refused() {
    let dock = Dock::new(json!({})).await;
    let check = async |ask: Ask, expect: u16| assert_eq!(ask.send().await.status, expect);
    let ping = || dock.mcp(&initialize(1, "2025-11-25"));
    check(ping().header("X-Large", &"x".repeat(20_000)), 200).await;
    check(ping().header("X-Large", &"x".repeat(200_000)), 431).await;
    let many = (0..500).fold(ping(), |ask, n| ask.header(&format!("X-{n}"), "y"));
    check(many, 431).await;
    check(ping(), 200).await;
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_json_whatever_is_accepted_in_return() {
    let dock = Dock::new(json!({})).await;
    for (kind, status) in [
        (Some("application/json"), 200),
        (Some("application/json; charset=utf-8"), 200),
        (Some("Application/JSON"), 200),
        (None, 415),
        (Some("text/plain"), 415),
        (Some("application/x-www-form-urlencoded"), 415),
        (Some("multipart/form-data; boundary=x"), 415),
        (Some("application/jsonp"), 415),
    ] {
        let ask = dock
            .mcp(&initialize(1, "2025-11-25"))
            .without("Content-Type");
        let ask = match kind {
            Some(kind) => ask.header("Content-Type", kind),
            None => ask,
        };
        assert_eq!(ask.send().await.status, status, "{kind:?}");
    }
    for accept in [
        None,
        Some("*/*"),
        Some("application/json"),
        Some("text/event-stream"),
        Some("application/json, text/event-stream"),
        Some("application/*;q=0.5"),
    ] {
        let ask = dock.mcp(&initialize(1, "2025-11-25")).without("Accept");
        let ask = match accept {
            Some(accept) => ask.header("Accept", accept),
            None => ask,
        };
        let response = ask.send().await;
        assert_eq!(response.status, 200, "{accept:?}");
        assert_eq!(response.kind(), "application/json");
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_lies_in_the_home_is_closed_to_others() {
    let home = Home::new();
    let inner = home.file("made/by/the/daemon");
    let dock = Dock::start(home, options(inner.clone())).await;
    dock.client().get("/api/status").await.unwrap();
    let mode = |name: &str| {
        let found = inner.join(name).metadata().unwrap();
        found.permissions().mode() & 0o777
    };
    assert_eq!(mode(""), 0o700);
    assert_eq!(mode("wharf.sock"), 0o600);
    assert_eq!(mode("tokens/agent-default"), 0o600);
    let knock = Ask::new(dock.address, "GET", "/api/status").bearer("x");
    assert_eq!(knock.send().await.status, 401);
    assert_eq!(mode("tokens/owner"), 0o600);
    dock.close().await;
}
