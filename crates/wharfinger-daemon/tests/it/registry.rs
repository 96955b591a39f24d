//! Known servers: the list, the one from elsewhere, and the official registry, each behind a stand-in.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use wharfinger_testkit::Home;

use crate::dock::{Dock, refused};
use crate::http::within;

/// What a stand-in answers.
#[derive(Clone)]
enum Reply {
    /// Status and more headers, and a body.
    Text(&'static str, String),
    /// A body without end.
    Endless,
    /// Nothing, ever.
    Silent,
    /// Something else than HTTP.
    Noise,
}

fn ok(body: &Value) -> Reply {
    Reply::Text("200 OK\r\ncontent-type: application/json", body.to_string())
}

/// A web server that answers everything the same way until told otherwise.
struct Standin {
    url: String,
    reply: Arc<Mutex<Reply>>,
    asked: Arc<Mutex<Vec<String>>>,
    _stop: DropGuard,
}

impl Standin {
    async fn new(reply: Reply) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (reply, asked) = (
            Arc::new(Mutex::new(reply)),
            Arc::<Mutex<Vec<String>>>::default(),
        );
        let stop = CancellationToken::new();
        let (answers, hears, stopped) = (reply.clone(), asked.clone(), stop.clone());
        let tasks = TaskTracker::new();
        let each = tasks.clone();
        tasks.spawn(async move {
            while let Some(Ok((stream, _))) = stopped.run_until_cancelled(listener.accept()).await {
                let (answers, hears, stopped) = (answers.clone(), hears.clone(), stopped.clone());
                each.spawn(async move {
                    stopped
                        .run_until_cancelled(serve(stream, &answers, &hears))
                        .await;
                });
            }
        });
        Self {
            url,
            reply,
            asked,
            _stop: stop.drop_guard(),
        }
    }

    fn answer(&self, reply: Reply) {
        *self.reply.lock().unwrap() = reply;
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

async fn serve(mut stream: TcpStream, reply: &Mutex<Reply>, asked: &Mutex<Vec<String>>) {
    let mut head = vec![];
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else {
            return;
        };
        head.push(byte);
    }
    asked
        .lock()
        .unwrap()
        .push(String::from_utf8_lossy(&head).into_owned());
    let reply = reply.lock().unwrap().clone();
    match reply {
        Reply::Text(head, body) => {
            let text = format!(
                "HTTP/1.1 {head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(text.as_bytes()).await.ok();
        }
        Reply::Endless => {
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n[";
            stream.write_all(head.as_bytes()).await.ok();
            let piece = vec![b' '; 64 * 1024];
            while stream.write_all(&piece).await.is_ok() {}
        }
        Reply::Silent => std::future::pending().await,
        Reply::Noise => drop(stream.write_all(b"SSH-2.0-Standin\r\n").await),
    }
}

fn list(names: &[&str]) -> Value {
    let entries: Vec<Value> = names
        .iter()
        .map(|name| json!({"name": name, "npmPackage": name}))
        .collect();
    json!({"schemaVersion": 1, "updatedAt": "2026-11-30", "entries": entries})
}

async fn dock(list: &str, official: &str) -> Dock {
    Dock::with(
        json!({}),
        json!({"registryUrl": list, "officialRegistryUrl": official}),
    )
    .await
}

fn names(value: &Value) -> Vec<&str> {
    let entries = value["entries"].as_array().unwrap().iter();
    entries
        .map(|entry| entry["name"].as_str().unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a9_a12_the_list_in_the_program_is_searched_and_shown() {
    let dock = dock("", "").await;
    let all = dock.get("/api/registry").await;
    assert_eq!(
        (&all["origin"], &all["dropped"]),
        (&json!("bundled"), &json!(0))
    );
    assert!(
        all["official"].is_null() && all["count"].as_u64() > Some(50),
        "{all}"
    );
    assert!(
        !names(&all).contains(&"puppeteer"),
        "what should not be installed is not offered"
    );
    let found = dock.get("/api/registry?q=time").await;
    let time = &found["entries"][0];
    assert_eq!(
        (&time["name"], &time["badges"], &time["location"]),
        (
            &json!("time"),
            &json!(["Official", "Python"]),
            &json!("container")
        )
    );
    let github = dock
        .get("/api/registry/%40modelcontextprotocol%2Fserver-github")
        .await;
    assert_eq!(github["suggestedName"], "github");
    assert!(
        github["entry"]["advisory"]
            .as_str()
            .unwrap()
            .contains("archived")
    );
    // Whoever has one that should not be installed finds it, and its text.
    let old = dock.get("/api/registry/puppeteer").await;
    assert!(
        old["entry"]["deprecated"]
            .as_str()
            .unwrap()
            .contains("playwright")
    );
    let error = refused(dock.client().get("/api/registry/githb").await);
    assert_eq!(
        (error.0, &error.1["detail"]),
        (404, &json!("no server is known as `githb`"))
    );
    assert_eq!(error.1["hint"], "did you mean `github`?");
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a8_a_list_from_elsewhere_takes_the_place_of_the_one_in_the_program_and_is_kept() {
    let standin = Standin::new(Reply::Text(
        "200 OK\r\netag: \"v1\"",
        list(&["one", "two"]).to_string(),
    ))
    .await;
    let dock = dock(&standin.url, "").await;
    assert!(
        standin.asked().is_empty(),
        "nobody is asked before somebody wants to know"
    );
    let all = dock.get("/api/registry").await;
    assert_eq!(
        (&all["origin"], &all["updatedAt"]),
        (&json!("remote"), &json!("2026-11-30"))
    );
    assert_eq!(names(&all), ["one", "two"]);
    assert!(!standin.asked()[0].to_lowercase().contains("if-none-match"));
    // It is good for a day.
    dock.get("/api/registry").await;
    assert!(standin.asked().is_empty());
    // Nothing new.
    standin.answer(Reply::Text(
        "304 Not Modified\r\netag: \"v1\"",
        String::new(),
    ));
    let same = dock.post("/api/registry/refresh", &json!({})).await;
    assert_eq!(
        (&same["count"], &same["problem"]),
        (&json!(2), &Value::Null)
    );
    assert!(
        standin.asked()[0]
            .to_lowercase()
            .contains("if-none-match: \"v1\"")
    );
    // The next daemon has it without asking.
    let home = dock.close().await;
    standin.answer(Reply::Silent);
    let dock = Dock::at(home).await;
    let kept = dock.get("/api/registry").await;
    assert_eq!(
        (&kept["origin"], names(&kept)),
        (&json!("cache"), vec!["one", "two"])
    );
    assert!(standin.asked().is_empty());
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a8_a_fetch_that_fails_fails_nobody_and_the_list_stays() {
    let standin = Standin::new(ok(&list(&["one"]))).await;
    let dock = dock(&standin.url, "").await;
    assert_eq!(names(&dock.get("/api/registry").await), ["one"]);
    let newer = json!({"schemaVersion": 2, "entries": []});
    let useless = json!({"schemaVersion": 1, "entries": [{"name": "x"}, 7]});
    let cases = [
        (
            Reply::Text("500 Oops", "{}".into()),
            "it answered with status 500",
        ),
        (
            Reply::Text("200 OK", "<html>".into()),
            "the list is not JSON",
        ),
        (
            ok(&newer),
            "the list has schema 2, and this program knows 1",
        ),
        (ok(&json!([])), "the list is not an object"),
        (ok(&useless), "none of its 2 entries can be used"),
        (Reply::Endless, "longer than 4194304 bytes"),
        (Reply::Noise, "cannot be read"),
        (
            Reply::Text(
                "302 Found\r\nlocation: http://169.254.169.254/latest",
                String::new(),
            ),
            "not a public address",
        ),
    ];
    for (reply, expect) in cases {
        standin.answer(reply);
        let refreshed = dock.post("/api/registry/refresh", &json!({})).await;
        let problem = refreshed["problem"].as_str().unwrap_or_default();
        assert!(problem.contains(expect), "{expect}: {refreshed}");
        assert_eq!(
            (&refreshed["origin"], &refreshed["count"]),
            (&json!("remote"), &json!(1))
        );
        assert_eq!(names(&dock.get("/api/registry").await), ["one"], "{expect}");
    }
    // One bad entry is left out and counted.
    let mut some = list(&["one", "two"]);
    some["entries"][0]["npmPackage"] = json!("--evil");
    standin.answer(ok(&some));
    let refreshed = dock.post("/api/registry/refresh", &json!({})).await;
    assert_eq!(
        (
            &refreshed["count"],
            &refreshed["dropped"],
            &refreshed["problem"]
        ),
        (&json!(1), &json!(1), &Value::Null)
    );
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a8_a_server_that_does_not_answer_is_waited_for_ten_seconds_and_then_left_alone() {
    let standin = Standin::new(Reply::Silent).await;
    let dock = dock(&standin.url, "").await;
    let begun = std::time::Instant::now();
    let all = dock.get("/api/registry").await;
    assert!(begun.elapsed() >= Duration::from_secs(10));
    assert_eq!(all["origin"], "bundled");
    assert_eq!(
        all["problem"],
        "nothing was fetched in 10 s, the most that is waited"
    );
    standin.asked();
    // Whoever comes next does not wait again.
    dock.get("/api/registry").await;
    assert!(standin.asked().is_empty());
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_kept_and_broken_is_as_if_it_were_not_there() {
    let home = Home::new();
    home.write_settings(&json!({"mcpServers": {}}));
    home.write_config(
        &json!({"daemon": {"registryUrl": "http://127.0.0.1:9/list", "officialRegistryUrl": ""}}),
    );
    let kept = json!({"url": "http://127.0.0.1:9/other", "at": 9_999_999_999_999_u64, "document": list(&["one"]).to_string()});
    let mut home = home;
    for text in ["{", "[]", &kept.to_string()] {
        home.write("registry.json", text);
        let dock = Dock::at(home).await;
        let all = dock.get("/api/registry").await;
        assert_eq!(all["origin"], "bundled", "{text}");
        assert!(
            all["problem"]
                .as_str()
                .unwrap()
                .contains("cannot be reached"),
            "{all}"
        );
        home = dock.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_official_registry_is_asked_beside_the_list() {
    let page = json!({"servers": [
        {"server": {"name": "io.github.a/github-mcp", "description": "Theirs", "version": "1.0.0", "packages": [
            {"registryType": "npm", "identifier": "@a/github-mcp", "version": "1.0.0", "transport": {"type": "stdio"},
             "environmentVariables": [{"name": "TOKEN", "isRequired": true, "isSecret": true}]}]},
         "_meta": {"io.modelcontextprotocol.registry/official": {"status": "active"}}},
        {"server": {"name": "b/image", "description": "", "packages": [{"registryType": "oci", "identifier": "x"}]}},
        {"server": 7}], "metadata": {"count": 3}});
    let standin = Standin::new(ok(&page)).await;
    let dock = dock("", &standin.url).await;
    let found = dock.get("/api/registry?q=git%20hub").await;
    assert!(
        standin.asked()[0]
            .starts_with("GET /v0.1/servers?search=git%20hub&version=latest&limit=30 ")
    );
    let official = &found["official"];
    assert_eq!(
        (
            &official["dropped"],
            official["servers"].as_array().unwrap().len()
        ),
        (&json!(1), 2)
    );
    assert_eq!(
        official["servers"][0]["entry"]["requiredEnvKeys"],
        json!(["TOKEN"])
    );
    assert_eq!(
        official["servers"][1]["problem"],
        "it is a container image, and containers come later"
    );
    // Nobody is asked where that is not wanted, nor for the list as a whole.
    dock.get("/api/registry?q=github&from=list").await;
    dock.get("/api/registry").await;
    assert!(standin.asked().is_empty());
    let only = dock.get("/api/registry?q=github&from=official").await;
    assert_eq!(names(&only), Vec::<&str>::new());
    // One of them by its whole name.
    standin.asked();
    standin.answer(ok(&page["servers"][0]));
    let one = dock.get("/api/registry/io.github.a%2Fgithub-mcp").await;
    assert!(
        standin.asked()[0]
            .starts_with("GET /v0.1/servers/io.github.a%2Fgithub-mcp/versions/latest ")
    );
    assert_eq!(
        (&one["from"], &one["suggestedName"]),
        (&json!("official"), &json!("github"))
    );
    standin.answer(Reply::Text("404 Not Found", "{}".into()));
    assert_eq!(
        refused(dock.client().get("/api/registry/a%2Fb").await).0,
        404
    );
    standin.answer(ok(&page["servers"][1]));
    let error = refused(dock.client().get("/api/registry/b%2Fimage").await);
    assert_eq!(
        (error.0, error.1["detail"].as_str().unwrap()),
        (
            422,
            "`b/image` can't be used here: it is a container image, and containers come later"
        )
    );
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_official_registry_that_misbehaves_costs_its_own_part_alone() {
    let standin = Standin::new(Reply::Silent).await;
    let dock = dock("", &standin.url).await;
    let cases = [
        (Reply::Silent, "nothing was fetched in 5 s"),
        (Reply::Endless, "longer than 4194304 bytes"),
        (Reply::Noise, "cannot be read"),
        (Reply::Text("503 Busy", String::new()), "status 503"),
        (ok(&json!({"servers": "many"})), "invalid type"),
        (ok(&json!([])), "invalid"),
    ];
    for (reply, expect) in cases {
        standin.answer(reply);
        let found = within("an answer", dock.client().get("/api/registry?q=time"))
            .await
            .unwrap();
        assert_eq!(found["entries"][0]["name"], "time");
        let problem = found["official"]["problem"].as_str().unwrap();
        assert!(
            problem.contains(expect) && problem.contains("official registry"),
            "{expect}: {problem}"
        );
    }
    standin.answer(Reply::Endless);
    assert_eq!(
        refused(dock.client().get("/api/registry/a%2Fb").await).0,
        502
    );
    dock.close().await;
}
