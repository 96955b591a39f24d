//! Everything beside tools: prompts, resources, completions, subscriptions.

use serde_json::{Value, json};

use crate::dock::{Dock, SUBSCRIPTION_KEY, enveloped, fake, mode};
use crate::http::{Response, within};
use crate::stdio::Pipe;
use wharfinger_testkit::Home;

const LATEST: &str = "2025-11-25";
const ERAS: [&[&str]; 2] = [&[], &["modern-only"]];

/// A server with a bit of everything.
fn rich(era: &[&str], name: &str, more: &[&str]) -> Value {
    let name = format!("name={name}");
    let modes = [
        "prompt=greet",
        "prompt=bye",
        "resource=x://1",
        "template=x://n/{n}",
        "complete",
        "touch",
        "ttl=60000",
        &name,
    ];
    let all: Vec<&str> = era.iter().chain(&modes).chain(more).copied().collect();
    fake(&all, json!({}))
}

/// The same question to a client of either era.
async fn both(dock: &Dock, method: &str, params: Value) -> [Value; 2] {
    let caller = dock.handshake(LATEST).await;
    let response = caller.ask(1, method, params.clone()).send().await;
    let old = response.messages().await.pop().unwrap();
    let response = dock.stateless(1, method, params).send().await;
    let new = response.messages().await.pop().unwrap();
    [old, new]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_servers_offers_are_seen_unchanged_by_clients_of_both_eras() {
    for era in ERAS {
        let dock = Dock::new(json!({ "a": rich(era, "a", &[]) })).await;
        for (method, params, member, expect) in [
            (
                "prompts/list",
                json!({}),
                "prompts",
                json!([
                    { "name": "greet", "description": "The prompt greet" },
                    { "name": "bye", "description": "The prompt bye" },
                ]),
            ),
            (
                "prompts/get",
                json!({ "name": "bye" }),
                "messages",
                json!([{ "role": "user", "content": { "type": "text", "text": "bye of a" } }]),
            ),
            (
                "resources/list",
                json!({}),
                "resources",
                json!([{ "uri": "x://1", "name": "x://1", "x-odd": 1 }]),
            ),
            (
                "resources/templates/list",
                json!({}),
                "resourceTemplates",
                json!([{ "uriTemplate": "x://n/{n}", "name": "x://n/{n}" }]),
            ),
            (
                "resources/read",
                json!({ "uri": "x://n/7" }),
                "contents",
                json!([{ "uri": "x://n/7", "text": "x://n/7 of a" }]),
            ),
            (
                "completion/complete",
                json!({
                    "ref": { "type": "ref/prompt", "name": "greet" },
                    "argument": { "name": "x", "value": "y" },
                }),
                "completion",
                json!({ "values": ["greet: y"] }),
            ),
        ] {
            let [old, new] = both(&dock, method, params).await;
            assert_eq!(old["result"], json!({ member: expect }), "{era:?} {method}");
            let new = &new["result"];
            assert_eq!(
                (&new[member], &new["resultType"]),
                (&expect, &json!("complete"))
            );
            let cached = method.ends_with("/list") || method == "resources/read";
            assert_eq!(new["cacheScope"] == "private", cached, "{method}");
            // How long it may be kept is the server's to say, if it can.
            let ttl = if era.is_empty() {
                json!(0)
            } else {
                json!(60_000)
            };
            assert_eq!(
                new["ttlMs"],
                if cached { ttl } else { Value::Null },
                "{method}"
            );
        }
        dock.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_is_told_what_there_is() {
    let dock = Dock::new(json!({ "a": rich(&[], "a", &[]), "b": fake(&[], json!({})) })).await;
    let expect = json!({
        "logging": {}, "prompts": { "listChanged": true }, "completions": {},
        "resources": { "listChanged": true, "subscribe": true }, "tools": { "listChanged": true },
    });
    let response = dock.mcp(&crate::dock::initialize(1, LATEST)).send().await;
    assert_eq!(response.json().await["result"]["capabilities"], expect);
    let response = dock.stateless(1, "server/discover", json!({})).send().await;
    assert_eq!(response.json().await["result"]["capabilities"], expect);
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_clashes_stays_apart_over_restarts_and_orders() {
    let servers = json!({ "one": rich(&[], "1", &[]), "two": rich(&["modern"], "2", &[]) });
    let mut dock = Dock::new(servers).await;
    for round in 0..2 {
        let caller = dock.handshake(LATEST).await;
        let result = |method: &'static str, params: Value| caller.result(1, method, params);
        let names = |list: &Value, member: &str, key: &str| -> Vec<String> {
            let mut names: Vec<String> = list[member]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item[key].as_str().unwrap().to_owned())
                .collect();
            names.sort();
            names
        };
        let prompts = result("prompts/list", json!({})).await;
        let expect = ["bye", "greet", "two/bye", "two/greet"];
        assert_eq!(names(&prompts, "prompts", "name"), expect, "round {round}");
        let got = result("prompts/get", json!({ "name": "two/greet" })).await;
        assert_eq!(got["messages"][0]["content"]["text"], "greet of 2");
        let got = result("prompts/get", json!({ "name": "greet" })).await;
        assert_eq!(got["messages"][0]["content"]["text"], "greet of 1");
        let resources = result("resources/list", json!({})).await;
        assert_eq!(
            names(&resources, "resources", "uri"),
            ["wharf.two+x://1", "x://1"]
        );
        for (uri, text) in [
            ("x://1", "x://1 of 1"),
            ("wharf.two+x://1", "x://1 of 2"),
            ("wharf.two+x://n/5", "x://n/5 of 2"),
        ] {
            let read = result("resources/read", json!({ "uri": uri })).await;
            assert_eq!(read["contents"], json!([{ "uri": uri, "text": text }]));
        }
        let about = |kind: &str, key: &str, name: &str| {
            json!({
                "ref": { "type": kind, key: name }, "argument": { "name": "x", "value": "y" },
            })
        };
        let said = result(
            "completion/complete",
            about("ref/prompt", "name", "two/bye"),
        )
        .await;
        assert_eq!(said["completion"]["values"], json!(["bye: y"]));
        let template = about("ref/resource", "uri", "wharf.two+x://n/{n}");
        let said = result("completion/complete", template).await;
        assert_eq!(said["completion"]["values"], json!(["x://n/{n}: y"]));
        // Once more, the other way round.
        let home = dock.close().await;
        home.write_settings(&json!({ "mcpServers": {
            "two": rich(&["modern"], "2", &[]), "one": rich(&[], "1", &[]),
        } }));
        dock = Dock::at(home).await;
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_there_is_told_in_the_clients_way() {
    let dock = Dock::new(json!({ "a": rich(&[], "a", &[]), "b": rich(&[], "b", &[]) })).await;
    let [old, new] = both(&dock, "resources/read", json!({ "uri": "y://" })).await;
    assert_eq!(
        (&old["error"]["code"], &new["error"]["code"]),
        (&json!(-32002), &json!(-32602))
    );
    let [old, new] = both(&dock, "prompts/get", json!({ "name": "gret" })).await;
    for reply in [old, new] {
        assert_eq!(reply["error"]["code"], -32602);
        let text = reply["error"]["message"].as_str().unwrap();
        assert!(text.contains("did you mean `greet`"), "{text}");
    }
    for (method, params) in [
        ("prompts/get", json!({})),
        ("resources/read", json!({ "uri": 7 })),
        ("completion/complete", json!({ "ref": {} })),
        ("prompts/list", json!({ "cursor": "page-9" })),
    ] {
        for reply in both(&dock, method, params.clone()).await {
            assert_eq!(reply["error"]["code"], -32602, "{method} {params}");
        }
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_reaches_its_session_alone_whatever_the_server_speaks() {
    for era in ERAS {
        let dock = Dock::new(json!({ "a": rich(era, "a", &[]), "b": rich(&[], "b", &[]) })).await;
        let caller = dock.handshake(LATEST).await;
        let other = dock.handshake(LATEST).await;
        let (mut stream, mut quiet) = (caller.stream().await, other.stream().await);
        caller
            .result(1, "resources/subscribe", json!({ "uri": "x://1" }))
            .await;
        caller.call("work", json!({})).await;
        let told = until(&mut stream, "notifications/resources/updated").await;
        assert_eq!(told["params"], json!({ "uri": "x://1" }));
        caller
            .result(2, "resources/unsubscribe", json!({ "uri": "x://1" }))
            .await;
        // Both hear of this one; nothing came before it.
        caller.call("work", json!({})).await;
        let servers = json!({ "c": rich(&[], "c", &["prompt=third"]) });
        for caller in [&caller, &other] {
            caller.result(3, "prompts/list", json!({})).await;
        }
        dock.post("/api/servers", &json!({ "servers": servers }))
            .await;
        for stream in [&mut stream, &mut quiet] {
            let message = stream.message().await.unwrap();
            assert_eq!(
                message["method"], "notifications/prompts/list_changed",
                "{era:?}"
            );
        }
        drop((stream, quiet));
        dock.close().await;
    }
}

async fn until(stream: &mut Response, method: &str) -> Value {
    within(method, async {
        loop {
            let message = stream.message().await.expect("the stream has ended");
            if message["method"] == method {
                return message;
            }
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stateless_subscription_hears_of_its_resources_until_it_is_closed() {
    for era in ERAS {
        let home = Home::new();
        let record = mode(&home, "record", "lines");
        let servers = json!({ "a": rich(era, "a", &[&record]) });
        home.write_settings(&json!({ "mcpServers": servers }));
        let dock = Dock::at(home).await;
        let wanted = json!({
            "notifications": {
                "resourceSubscriptions": ["x://1", "y://unknown"], "promptsListChanged": true,
            },
        });
        let mut stream = dock
            .stateless("L", "subscriptions/listen", wanted)
            .send()
            .await;
        let acknowledged = stream.message().await.unwrap();
        let honoured = &acknowledged["params"]["notifications"];
        assert_eq!(honoured["promptsListChanged"], true);
        assert_eq!(honoured["resourceSubscriptions"][0], "x://1", "{era:?}");
        let work = || dock.stateless(1, "tools/call", json!({ "name": "work" }));
        assert_eq!(work().send().await.status, 200);
        let told = until(&mut stream, "notifications/resources/updated").await;
        assert_eq!(told["params"]["uri"], "x://1");
        assert_eq!(told["params"]["_meta"][SUBSCRIPTION_KEY], "L");
        drop(stream);
        // The server is told that nobody listens any more.
        let over = if era.is_empty() {
            "resources/unsubscribe"
        } else {
            "notifications/cancelled"
        };
        let hears = async {
            while !dock
                .home
                .lines("lines")
                .iter()
                .any(|line| line.contains(over))
            {
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
        };
        within("the server to hear of the end", hears).await;
        dock.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn v59_a_subscription_keeps_its_server_and_is_renewed_after_a_crash() {
    let home = Home::new();
    let starts = mode(&home, "count-starts", "starts");
    let mut entry = rich(&[], "a", &[&starts, "crash-after=2"]);
    entry["idleTimeoutSeconds"] = json!(0.2);
    home.write_settings(&json!({ "mcpServers": { "a": entry } }));
    let dock = Dock::at(home).await;
    let caller = dock.handshake(LATEST).await;
    let mut stream = caller.stream().await;
    caller
        .result(1, "resources/subscribe", json!({ "uri": "x://1" }))
        .await;
    let pid = caller.call("pid", json!({})).await;
    until(&mut stream, "notifications/resources/updated").await;
    // Far longer than it may be idle, it is still there: the second call kills it, and not a fresh one.
    let running = async { dock.get("/api/servers/a").await["pid"].to_string() };
    assert_eq!(running.await, pid);
    let idle = tokio::time::Instant::now() + std::time::Duration::from_millis(400);
    while tokio::time::Instant::now() < idle {
        assert_eq!(dock.get("/api/servers/a").await["pid"].to_string(), pid);
    }
    let params = json!({ "name": "work" });
    let reply = caller.result(2, "tools/call", params.clone()).await;
    assert_eq!(reply["isError"], true, "{reply}");
    // The next process is subscribed to again.
    let told = async {
        loop {
            caller.result(3, "tools/call", params.clone()).await;
            let wait = std::time::Duration::from_millis(300);
            let next = tokio::time::timeout(wait, stream.message()).await;
            if next.is_ok_and(|message| {
                message.unwrap()["method"] == "notifications/resources/updated"
            }) {
                return;
            }
        }
    };
    within("the subscription to be renewed", told).await;
    drop(stream);
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_are_told_what_their_client_can_do() {
    let home = Home::new();
    let record = mode(&home, "record", "lines");
    let entry = fake(&["modern-only", &record], json!({}));
    home.write_settings(&json!({ "mcpServers": { "a": entry } }));
    let dock = Dock::at(home).await;
    let can = json!({
        "sampling": {}, "elicitation": { "form": {}, "url": {} },
        "extensions": { "io.modelcontextprotocol/ui": { "mimeTypes": ["text/html"] } },
    });
    let call =
        |can: &Value| dock.stateless_as(can.clone(), 1, "tools/call", json!({ "name": "work" }));
    // With the last call.
    let told = || {
        let lines = dock.home.lines("lines");
        let last = lines
            .iter()
            .rfind(|line| line.contains("tools/call"))
            .unwrap();
        let last: Value = serde_json::from_str(last).unwrap();
        last["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"].clone()
    };
    for can in [&can, &json!({})] {
        assert_eq!(call(can).send().await.status, 200);
        assert_eq!(told(), *can);
    }
    // One program on one connection may describe itself otherwise with each request.
    let mut pipe = Pipe::of(&dock, "default").await;
    for (id, can) in [(1, &can), (2, &json!({})), (3, &can)] {
        let meta = json!({ "io.modelcontextprotocol/clientCapabilities": can });
        let params = json!({ "name": "pid", "_meta": meta });
        pipe.send(&enveloped(id, "tools/call", params)).await;
        assert_eq!(pipe.next().await.unwrap()["id"], id);
        assert_eq!(told(), *can);
    }
    drop(pipe);
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_lead_to_the_server_that_gave_them() {
    // Neither the listed resource nor the other one is told apart by its URI alone.
    for uri in ["x://1", "x://session/2"] {
        let server = |prefix: &str| {
            let modes = [
                "resource=x://1",
                "template=x://session/{n}",
                &format!("link={uri}"),
            ];
            fake(&modes, json!({ "toolPrefix": prefix }))
        };
        let dock = Dock::new(json!({ "a": server("a_"), "b": server("b_") })).await;
        let caller = dock.handshake(LATEST).await;
        caller.result(1, "resources/list", json!({})).await;
        for (tool, expect) in [
            ("a_work", uri.to_owned()),
            ("b_work", format!("wharf.b+{uri}")),
        ] {
            let result = caller
                .result(2, "tools/call", json!({ "name": tool }))
                .await;
            assert_eq!(result["content"][1]["uri"], expect, "{tool}");
        }
        dock.close().await;
    }
}
