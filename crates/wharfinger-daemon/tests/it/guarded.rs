//! Clients that come late: what they were let in for may be gone.

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::dock::{Dock, initialize, plain};
use crate::http::within;
use crate::stdio::Pipe;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_was_let_in_before_its_agent_was_removed_begins_nothing() {
    let mut dock = Dock::new(plain()).await;
    dock.make_bot().await;
    dock.serves("bot").await;
    let mut pipe = Pipe::of(&dock, "bot").await;
    let body = initialize("i", "2025-11-25").to_string();
    let head = format!(
        "POST /agents/bot/mcp HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         Expect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        dock.address,
        dock.token,
        body.len()
    );
    let mut slow = TcpStream::connect(dock.address).await.unwrap();
    slow.write_all(head.as_bytes()).await.unwrap();
    // It is let in: now its body is awaited.
    let mut said = [0; 12];
    within("a yes", slow.read_exact(&mut said)).await.unwrap();
    assert_eq!(&said, b"HTTP/1.1 100");
    dock.client().delete("/api/agents/bot").await.unwrap();
    slow.write_all(body.as_bytes()).await.unwrap();
    let mut answer = String::new();
    within("an answer", slow.read_to_string(&mut answer))
        .await
        .unwrap();
    assert!(answer.contains("HTTP/1.1 404"), "{answer}");
    assert!(answer.contains("no agent `bot`"), "{answer}");
    for message in [
        initialize("i", "2025-11-25"),
        crate::dock::request("t", "tools/list", json!({})),
        crate::dock::enveloped("e", "tools/list", json!({})),
    ] {
        pipe.send(&message).await;
        let reply = pipe.next().await.unwrap();
        let text = reply["error"]["message"].as_str().unwrap();
        assert!(text.contains("no agent `bot`"), "{reply}");
    }
    drop(pipe);
    dock.close().await;
}
