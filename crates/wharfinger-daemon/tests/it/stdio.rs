//! MCP over stdio, as `wharf stdio` carries it.

use std::collections::BTreeSet;

use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, ReadHalf, WriteHalf};
use wharfinger_testkit::Home;

use crate::dock::{
    Dock, LOG_KEY, MODERN, SERVER_KEY, SUBSCRIPTION_KEY, VERSION_KEY, enveloped, fake, initialize,
    mode, names, plain, refused, request,
};
use crate::http::within;

pub(crate) struct Pipe {
    reader: BufReader<ReadHalf<TokioIo<Upgraded>>>,
    writer: WriteHalf<TokioIo<Upgraded>>,
}

impl Pipe {
    async fn new(dock: &Dock) -> Self {
        Self::of(dock, "default").await
    }

    pub(crate) async fn of(dock: &Dock, agent: &str) -> Self {
        let stream = within("a connection", dock.client().attach(agent))
            .await
            .unwrap();
        let (reader, writer) = tokio::io::split(stream);
        Self {
            reader: BufReader::new(reader),
            writer,
        }
    }

    /// After the handshake.
    async fn initialized(dock: &Dock) -> Self {
        let mut pipe = Self::new(dock).await;
        let reply = pipe.ask(&initialize("i", "2025-11-25")).await;
        assert_eq!(reply["result"]["protocolVersion"], "2025-11-25", "{reply}");
        pipe.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
            .await;
        pipe
    }

    async fn bytes(&mut self, bytes: &[u8]) {
        within("a write", self.writer.write_all(bytes))
            .await
            .unwrap();
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.bytes(format!("{message}\n").as_bytes()).await;
    }

    /// The next message; none at the end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        let read = match within("the next line", self.reader.read_line(&mut line)).await {
            // What was written to a connection that is cut off makes its end a reset.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => 0,
            read => read.unwrap(),
        };
        (read > 0).then(|| serde_json::from_str(&line).unwrap())
    }

    async fn ask(&mut self, message: &Value) -> Value {
        self.send(message).await;
        self.next().await.unwrap()
    }

    /// Shows that the connection lives and that nothing came before this reply.
    async fn lives(&mut self, era: Era) {
        let message = match era {
            Era::Handshake => request("alive", "ping", json!({})),
            Era::Stateless => enveloped("alive", "server/discover", json!({})),
        };
        let reply = self.ask(&message).await;
        assert_eq!(reply["id"], "alive", "{reply}");
        assert!(reply["result"].is_object(), "{reply}");
    }

    /// Closes our end.
    pub(crate) async fn close(&mut self) {
        self.writer.shutdown().await.unwrap();
    }
}

#[derive(Clone, Copy)]
enum Era {
    Handshake,
    Stateless,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_agent_has_no_connection() {
    let dock = Dock::new(json!({})).await;
    let (status, _) = refused(dock.client().attach("none").await.map(|_| ()));
    assert_eq!(status, 404);
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handshake_client_is_served() {
    let dock = Dock::new(plain()).await;
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut pipe = Pipe::new(&dock).await;
        // Allowed before the handshake.
        let reply = pipe.ask(&initialize(0, version)).await;
        assert_eq!(reply["result"]["protocolVersion"], version);
        assert_eq!(reply["result"]["serverInfo"]["name"], "wharfinger");
        pipe.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
            .await;
        let expect = json!({ "jsonrpc": "2.0", "id": 1, "result": {} });
        assert_eq!(pipe.ask(&request(1, "ping", json!({}))).await, expect);
        let list = pipe.ask(&request(2, "tools/list", json!({}))).await;
        assert_eq!(names(&list["result"]).len(), 5);
        let params = json!({ "name": "echo", "arguments": { "message": "hi" } });
        let reply = pipe.ask(&request("c", "tools/call", params)).await;
        let result = json!({ "content": [{ "type": "text", "text": "hi" }] });
        assert_eq!(
            reply,
            json!({ "jsonrpc": "2.0", "id": "c", "result": result })
        );
        let reply = pipe.ask(&request(3, "no/such", json!({}))).await;
        assert_eq!(
            (&reply["id"], &reply["error"]["code"]),
            (&json!(3), &json!(-32601))
        );
        let reply = pipe.ask(&initialize(4, version)).await;
        assert_eq!(
            (&reply["id"], &reply["error"]["code"]),
            (&json!(4), &json!(-32600))
        );
        pipe.close().await;
        assert_eq!(pipe.next().await, None);
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stateless_client_is_served() {
    let dock = Dock::new(plain()).await;
    let mut pipe = Pipe::new(&dock).await;
    let list = pipe.ask(&enveloped(0, "tools/list", json!({}))).await;
    assert_eq!(list["id"], 0);
    assert_eq!(list["result"]["ttlMs"], 0);
    assert_eq!(names(&list["result"]).len(), 5);
    let params = json!({ "name": "echo", "arguments": { "message": "hi" } });
    let reply = pipe.ask(&enveloped("c", "tools/call", params)).await;
    assert_eq!(reply["result"]["resultType"], "complete");
    assert_eq!(reply["result"]["_meta"][SERVER_KEY]["name"], "wharfinger");
    for (id, message, code) in [
        (1, enveloped(1, "ping", json!({})), -32601),
        (
            2,
            enveloped(2, "logging/setLevel", json!({ "level": "info" })),
            -32601,
        ),
        (3, enveloped(3, "initialize", json!({})), -32601),
        (4, request(4, "tools/list", json!({})), -32602),
        (
            5,
            enveloped(5, "tools/list", json!({ "_meta": { VERSION_KEY: "v9" } })),
            -32022,
        ),
        (6, enveloped(6, "subscriptions/listen", json!({})), -32602),
    ] {
        let reply = pipe.ask(&message).await;
        assert_eq!(
            (&reply["id"], &reply["error"]["code"]),
            (&json!(id), &json!(code)),
            "{reply}"
        );
    }
    let reply = pipe.ask(&initialize(7, "2025-11-25")).await;
    assert_eq!(
        (&reply["id"], &reply["error"]["code"]),
        (&json!(7), &json!(-32022))
    );
    let data = json!({ "supported": [MODERN], "requested": "2025-11-25" });
    assert_eq!(reply["error"]["data"], data);
    pipe.lives(Era::Stateless).await;
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_about_the_server_decides_no_era() {
    let dock = Dock::new(plain()).await;
    let discover = |id: &str| enveloped(id, "server/discover", json!({}));
    let mut pipe = Pipe::new(&dock).await;
    for id in ["server-discover-probe-1", "server-discover-probe-2"] {
        let reply = pipe.ask(&discover(id)).await;
        assert_eq!(reply["id"], id);
        assert_eq!(reply["result"]["supportedVersions"], json!([MODERN]));
    }
    for (message, code) in [
        (request("bare", "server/discover", json!({})), -32602),
        (
            enveloped(
                "bad",
                "server/discover",
                json!({ "_meta": { VERSION_KEY: "v9" } }),
            ),
            -32022,
        ),
        (
            enveloped(
                "bad",
                "tools/list",
                json!({ "_meta": { VERSION_KEY: "v9" } }),
            ),
            -32022,
        ),
    ] {
        assert_eq!(pipe.ask(&message).await["error"]["code"], code, "{message}");
    }
    let reply = pipe.ask(&initialize(1, "2025-06-18")).await;
    assert_eq!(reply["result"]["protocolVersion"], "2025-06-18");
    let reply = pipe.ask(&enveloped(2, "tools/list", json!({}))).await;
    assert_eq!(
        (&reply["id"], &reply["error"]["code"]),
        (&json!(2), &json!(-32600))
    );
    pipe.lives(Era::Handshake).await;
    // It still does not, after the handshake or without one.
    assert!(pipe.ask(&discover("late")).await.get("result").is_some());
    pipe.lives(Era::Handshake).await;
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions_about_the_server_leave_no_session_behind() {
    let dock = Dock::new(json!({})).await;
    let mut pipe = Pipe::new(&dock).await;
    for n in 0..10 {
        pipe.ask(&enveloped(n, "server/discover", json!({}))).await;
    }
    pipe.close().await;
    assert_eq!(pipe.next().await, None);
    assert_eq!(dock.get("/api/status").await["sessions"], 0);
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_lines_leave_the_connection_alive() {
    let dock = Dock::with(plain(), json!({ "maxBodyBytes": 5000 })).await;
    let long = |head: &str| format!("{head}{}\"}}", "x".repeat(20_000));
    // What can't be read is not answered, as no client waits for it.
    let silent: Vec<Vec<u8>> = [
        "",
        " \t ",
        "\r",
        "nonsense",
        "{",
        "}",
        "[",
        "null",
        "7",
        "\"text\"",
        "{}",
        "[]",
        "{\"jsonrpc\":\"2.0\"}",
        // Rather an answer than a question.
        "{\"jsonrpc\":\"2.0\",\"id\":\"q\"}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/no/such\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}",
        "{\"jsonrpc\":\"2.0\",\"id\":99,\"error\":{}}",
        &long("{\"jsonrpc\":\"2.0\",\"method\":\"n\",\"x\":\""),
        &"[".repeat(4000),
        &"z".repeat(100_000),
    ]
    .iter()
    .map(|line| line.as_bytes().to_vec())
    .chain([
        b"\xff\xfe".to_vec(),
        b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}".to_vec(),
    ])
    .collect();
    let answered = [
        (
            long("{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"ping\",\"x\":\""),
            -32600,
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":7}".into(),
            -32600,
        ),
    ];
    let mut pipe = Pipe::initialized(&dock).await;
    for line in silent {
        pipe.bytes(&[&*line, b"\n"].concat()).await;
        pipe.lives(Era::Handshake).await;
    }
    for (line, code) in answered {
        pipe.bytes(format!("{line}\n").as_bytes()).await;
        let reply = pipe.next().await.unwrap();
        assert_eq!(
            (&reply["id"], &reply["error"]["code"]),
            (&json!("q"), &json!(code)),
            "{reply}"
        );
    }
    pipe.lives(Era::Handshake).await;
    // Lines may end as on Windows, and the last one not at all.
    pipe.bytes(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r\n")
        .await;
    assert_eq!(pipe.next().await.unwrap()["id"], 1);
    pipe.bytes(b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}")
        .await;
    pipe.close().await;
    assert_eq!(pipe.next().await.unwrap()["id"], 2);
    assert_eq!(pipe.next().await, None);
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn v60_the_end_of_input_ends_the_session_and_stops_its_server() {
    let dock = Dock::new(plain()).await;
    for era in [Era::Handshake, Era::Stateless] {
        let call = json!({ "name": "work" });
        let mut pipe = match era {
            Era::Handshake => Pipe::initialized(&dock).await,
            Era::Stateless => Pipe::new(&dock).await,
        };
        let message = match era {
            Era::Handshake => request(1, "tools/call", call),
            Era::Stateless => enveloped(1, "tools/call", call),
        };
        assert_eq!(pipe.ask(&message).await["id"], 1);
        assert_eq!(dock.processes().len(), 1);
        pipe.close().await;
        assert_eq!(pipe.next().await, None);
        assert_eq!(dock.processes(), Vec::<u32>::new());
        assert_eq!(dock.get("/api/status").await["sessions"], 0);
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_asked_before_the_end_of_input_is_still_answered() {
    let dock = Dock::new(json!({ "a": fake(&["slow-call=0.2"], json!({})) })).await;
    let mut pipe = Pipe::initialized(&dock).await;
    pipe.send(&request(1, "tools/call", json!({ "name": "work" })))
        .await;
    pipe.close().await;
    assert_eq!(pipe.next().await.unwrap()["id"], 1);
    assert_eq!(pipe.next().await, None);
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_subscription_does_not_outlive_the_input() {
    let dock = Dock::new(plain()).await;
    let mut pipe = Pipe::new(&dock).await;
    assert_eq!(
        pipe.ask(&enveloped(1, "tools/call", json!({ "name": "work" })))
            .await["id"],
        1
    );
    let wanted = json!({ "notifications": { "toolsListChanged": true } });
    let reply = pipe
        .ask(&enveloped("L", "subscriptions/listen", wanted))
        .await;
    assert_eq!(reply["method"], "notifications/subscriptions/acknowledged");
    pipe.close().await;
    while pipe.next().await.is_some() {}
    dock.until_no_process().await;
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_gone_leaves_its_call_behind_no_longer_than_its_limit() {
    let dock = Dock::new(
        json!({ "a": fake(&["hang-call", "progress=1"], json!({ "callTimeoutSeconds": 0.5 })) }),
    )
    .await;
    let mut pipe = Pipe::initialized(&dock).await;
    let params = json!({ "name": "work", "_meta": { "progressToken": 1 } });
    let note = pipe.ask(&request(1, "tools/call", params)).await;
    assert_eq!(note["method"], "notifications/progress");
    drop(pipe);
    dock.until_no_process().await;
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_requests_at_once_are_all_answered() {
    let dock = Dock::new(plain()).await;
    for era in [Era::Handshake, Era::Stateless] {
        let mut pipe = match era {
            Era::Handshake => Pipe::initialized(&dock).await,
            Era::Stateless => Pipe::new(&dock).await,
        };
        let mut open = BTreeSet::new();
        for n in 0..60 {
            let id = if n % 2 == 0 {
                json!(n)
            } else {
                json!(format!("{n}"))
            };
            open.insert(id.to_string());
            let arguments = json!({ "message": id.to_string() });
            let params = json!({ "name": "echo", "arguments": arguments });
            let message = match era {
                Era::Handshake => request(id, "tools/call", params),
                Era::Stateless => enveloped(id, "tools/call", params),
            };
            pipe.send(&message).await;
        }
        while !open.is_empty() {
            let reply = pipe.next().await.unwrap();
            let id = reply["id"].to_string();
            assert_eq!(reply["result"]["content"][0]["text"], *id, "{reply}");
            assert!(open.remove(&id), "{id} was answered before");
        }
        pipe.close().await;
        assert_eq!(pipe.next().await, None);
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn v65_what_was_taken_back_is_cancelled_at_the_server_and_not_answered() {
    let home = Home::new();
    let files = [
        mode(&home, "cancel-file", "cancelled"),
        mode(&home, "wait-for", "gate"),
    ];
    home.add_fake("a", &[&files[0], &files[1], "progress=1"]);
    let dock = Dock::at(home).await;
    for (count, era) in (1..).zip([Era::Handshake, Era::Stateless]) {
        let params = json!({ "name": "work", "_meta": { "progressToken": 1 } });
        let (mut pipe, message) = match era {
            Era::Handshake => (
                Pipe::initialized(&dock).await,
                request(1, "tools/call", params),
            ),
            Era::Stateless => (Pipe::new(&dock).await, enveloped(1, "tools/call", params)),
        };
        assert_eq!(pipe.ask(&message).await["method"], "notifications/progress");
        let cancel = json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 },
        });
        pipe.send(&cancel).await;
        dock.until_lines("cancelled", count).await;
        pipe.lives(era).await;
        pipe.close().await;
        assert_eq!(pipe.next().await, None);
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_are_told_in_the_way_of_each_era() {
    let dock = Dock::new(plain()).await;
    let mut older = Pipe::initialized(&dock).await;
    older.ask(&request(1, "tools/list", json!({}))).await;
    let mut newer = Pipe::new(&dock).await;
    newer.ask(&enveloped(1, "tools/list", json!({}))).await;
    let mut deaf = Pipe::new(&dock).await;
    deaf.ask(&enveloped(1, "tools/list", json!({}))).await;
    let wanted = json!({ "notifications": { "toolsListChanged": true } });
    let reply = newer
        .ask(&enveloped(2, "subscriptions/listen", wanted))
        .await;
    assert_eq!(reply["params"]["_meta"][SUBSCRIPTION_KEY], 2);
    dock.client().delete("/api/servers/a").await.unwrap();
    let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    assert_eq!(older.next().await, Some(changed.clone()));
    let note = newer.next().await.unwrap();
    assert_eq!(note["method"], changed["method"]);
    assert_eq!(note["params"]["_meta"][SUBSCRIPTION_KEY], 2);
    newer.lives(Era::Stateless).await;
    deaf.lives(Era::Stateless).await;
    // The end of the daemon ends what is left.
    dock.stop.cancel();
    let end = newer.next().await.unwrap();
    assert_eq!(
        (&end["id"], &end["result"]["resultType"]),
        (&json!(2), &json!("complete"))
    );
    assert_eq!(newer.next().await, None);
    dock.closed().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_subscription_of_a_connection_is_told_until_it_is_taken_back() {
    let dock = Dock::new(plain()).await;
    let mut pipe = Pipe::new(&dock).await;
    pipe.ask(&enveloped(1, "tools/list", json!({}))).await;
    let wanted = json!({ "notifications": { "toolsListChanged": true } });
    for id in [json!("L"), json!(2)] {
        let listen = enveloped(id.clone(), "subscriptions/listen", wanted.clone());
        assert_eq!(
            pipe.ask(&listen).await["params"]["_meta"][SUBSCRIPTION_KEY],
            id
        );
    }
    dock.client().delete("/api/servers/a").await.unwrap();
    let mut told = BTreeSet::new();
    for _ in 0..2 {
        let note = pipe.next().await.unwrap();
        assert_eq!(note["method"], "notifications/tools/list_changed");
        told.insert(note["params"]["_meta"][SUBSCRIPTION_KEY].to_string());
    }
    assert_eq!(told, BTreeSet::from(["2".into(), "\"L\"".into()]));
    let cancel = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "L" },
    });
    pipe.send(&cancel).await;
    pipe.lives(Era::Stateless).await;
    dock.post("/api/servers", &json!({ "servers": plain() }))
        .await;
    let note = pipe.next().await.unwrap();
    assert_eq!(note["params"]["_meta"][SUBSCRIPTION_KEY], 2);
    pipe.lives(Era::Stateless).await;
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_messages_follow_the_rules_of_each_era() {
    let dock = Dock::new(json!({ "a": fake(&["log=warning"], json!({})) })).await;
    let mut older = Pipe::initialized(&dock).await;
    let call = |meta: Value| json!({ "name": "work", "_meta": meta });
    for (level, told) in [("warning", true), ("error", false), ("debug", true)] {
        older
            .ask(&request(0, "logging/setLevel", json!({ "level": level })))
            .await;
        older.send(&request(1, "tools/call", call(json!({})))).await;
        if told {
            assert_eq!(
                older.next().await.unwrap()["method"],
                "notifications/message"
            );
        }
        assert_eq!(older.next().await.unwrap()["id"], 1);
    }
    let mut newer = Pipe::new(&dock).await;
    for (meta, told) in [
        (json!({}), false),
        (json!({ LOG_KEY: "info" }), true),
        (json!({ LOG_KEY: "error" }), false),
    ] {
        newer.send(&enveloped(1, "tools/call", call(meta))).await;
        if told {
            assert_eq!(
                newer.next().await.unwrap()["method"],
                "notifications/message"
            );
        }
        assert_eq!(newer.next().await.unwrap()["id"], 1);
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_agent_is_cut_off() {
    let dock = Dock::new(plain()).await;
    dock.post("/api/agents", &json!({ "name": "b" })).await;
    let mut pipe = Pipe::of(&dock, "b").await;
    assert!(pipe.ask(&initialize(1, "2025-11-25")).await["result"].is_object());
    assert_eq!(
        pipe.ask(&request(2, "tools/call", json!({ "name": "work" })))
            .await["id"],
        2
    );
    dock.client().delete("/api/agents/b").await.unwrap();
    dock.until_no_process().await;
    pipe.writer.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/call\",\"params\":{\"name\":\"work\"}}\n").await.ok();
    let reply = pipe.next().await;
    let served = reply
        .as_ref()
        .is_some_and(|reply| reply["result"]["isError"].is_null() && reply["result"].is_object());
    assert!(!served, "{reply:?}");
    assert_eq!(dock.processes(), Vec::<u32>::new());
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_in_flight_are_answered_when_the_daemon_stops() {
    let dock =
        Dock::new(json!({ "a": fake(&["hang-call", "progress=1"], json!({ "parallel": true })) }))
            .await;
    let mut pipes = vec![];
    for _ in 0..8 {
        let mut pipe = Pipe::initialized(&dock).await;
        let params = json!({ "name": "work", "_meta": { "progressToken": 1 } });
        let note = pipe.ask(&request(1, "tools/call", params)).await;
        assert_eq!(note["method"], "notifications/progress", "{note}");
        pipes.push(pipe);
    }
    dock.stop.cancel();
    for mut pipe in pipes {
        assert_eq!(pipe.next().await.expect("a reply")["id"], 1);
    }
    dock.closed().await;
}
