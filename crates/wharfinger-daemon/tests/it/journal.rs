//! The journal at the admin API.

use hyper::Method;
use serde_json::{Value, json};

use crate::dock::{Dock, fake, refused};
use crate::http::within;

/// An owner's call; what came of it is nobody's business here.
async fn call(dock: &Dock, tool: &str, x: u64) {
    let body = json!({ "server": "a", "tool": tool, "arguments": { "x": x } });
    let client = dock.client();
    let path = "/api/agents/default/call";
    let mut said = within("the call", client.stream(Method::POST, path, Some(&body)))
        .await
        .unwrap();
    while within("the result", said.next()).await.unwrap().is_some() {}
}

async fn previews(dock: &Dock, query: &str) -> Vec<String> {
    let value = dock.get(&format!("/api/journal?kind=call{query}")).await;
    let rows = value["rows"].as_array().unwrap().iter();
    rows.map(|row| row["preview"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_there_as_soon_as_the_call_has_ended() {
    let dock = Dock::new(json!({ "a": fake(&["tool=work"], json!({})) })).await;
    for x in 1..=4 {
        call(&dock, "work", x).await;
        assert_eq!(
            previews(&dock, "&limit=1").await,
            [format!("{{\"x\":{x}}}")]
        );
    }
    let all = dock.get("/api/journal?kind=call").await;
    let (one, two) = (all["rows"][0]["seq"].as_u64().unwrap(), &all["rows"][1]);
    assert_eq!(
        (
            &two["who"],
            &two["agent"],
            &two["server"],
            &two["tool"],
            &two["outcome"]
        ),
        (
            &json!("owner"),
            &json!("default"),
            &json!("a"),
            &json!("work"),
            &json!("ok")
        )
    );
    for (query, expect) in [
        ("&limit=2", "34"),
        (&format!("&before={}&limit=1", one + 1), "1"),
        (&format!("&after={one}&limit=2"), "23"),
        ("&after=0&agent=default&server=a", "1234"),
        ("&server=b", ""),
        ("&agent=b", ""),
        ("&since=32503680000000", ""),
    ] {
        let found = previews(&dock, query).await.concat();
        let numbers: String = found.chars().filter(char::is_ascii_digit).collect();
        assert_eq!(numbers, expect, "{query}");
    }
    let (status, problem) = refused(dock.client().get("/api/journal?kind=cal").await);
    assert_eq!(status, 422);
    assert_eq!(
        problem["fields"]["kind"],
        json!(["there is no kind `cal`, did you mean `call`?"])
    );
    assert_eq!(
        refused(dock.client().get("/api/journal?before=2&after=1").await).0,
        422
    );
    let verified = dock.get("/api/journal/verify").await;
    assert_eq!(
        (&verified["first"], &verified["broken"]),
        (&json!(1), &Value::Null)
    );
    assert_eq!(verified["rows"], verified["last"]);
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_follows_gets_each_row_once() {
    let dock = Dock::new(json!({ "a": fake(&["tool=work"], json!({})) })).await;
    call(&dock, "work", 1).await;
    call(&dock, "work", 2).await;
    let client = dock.client();
    let follow = async |query: &str| {
        let path = format!("/api/journal/follow?kind=call{query}");
        within("the stream", client.stream(Method::GET, &path, None))
            .await
            .unwrap()
    };
    dock.get("/api/journal").await;
    let (mut past, mut future) = (follow("&after=0").await, follow("").await);
    for x in 3..=5 {
        call(&dock, "work", x).await;
    }
    for (stream, first) in [(&mut past, 1), (&mut future, 3)] {
        for x in first..=5 {
            let row = within("a row", stream.next()).await.unwrap().unwrap();
            assert_eq!(row.event, "row");
            assert_eq!(row.data["preview"], format!("{{\"x\":{x}}}"));
        }
    }
    dock.stop.cancel();
    assert_eq!(within("the end", past.next()).await.unwrap(), None);
    dock.closed().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_owner_does_is_an_owners() {
    let dock = Dock::new(json!({ "a": fake(&[], json!({})) })).await;
    dock.post("/api/agents", &json!({ "name": "bot" })).await;
    dock.post("/api/servers/a/restart?agent=bot", &json!({}))
        .await;
    dock.post("/api/servers/a/disable", &json!({})).await;
    let rows = dock.get("/api/journal").await["rows"].clone();
    let rows = rows
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["who"] == "owner");
    let told: Vec<String> = rows
        .map(|row| format!("{} {} {}", row["kind"], row["server"], row["agent"]).replace('"', ""))
        .collect();
    assert_eq!(
        told,
        [
            "config.agent-added null bot",
            "lifecycle.restarted a bot",
            "config.server-changed a null",
        ]
    );
    dock.close().await;
}
