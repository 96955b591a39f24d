//! Starting a daemon: what keeps it from it, and what it finds.

use std::process::Stdio;

use serde_json::json;
use wharfinger::launch::OWNER;
use wharfinger::model::Severity;
use wharfinger_daemon::{HomeError, ServeError};
use wharfinger_testkit::{Home, fake_server, processes};

use crate::dock::{Dock, fake, mark, options, plain, refusal};
use crate::http::Ask;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn v23_an_invalid_configuration_is_refused_with_all_that_is_wrong() {
    let home = Home::new();
    home.write_config(&json!({
        "mcp": { "servers": { "h": { "command": "x", "callTimeoutSeconds": 0 } } },
        "daemon": { "listen": "nowhere", "maxToolz": 1 },
    }));
    home.write_settings(&json!({ "mcpServers": { "s": { "args": [] }, "t": { "command": 5 } } }));
    let mut options = options(home.path().to_owned());
    let name = "Mcp__Servers__e__IdleTimeoutSeconds";
    options.environment.insert(name.into(), "-1".into());
    let ServeError::Config(problems) = refusal(options).await else {
        panic!("another error");
    };
    let told: Vec<String> = problems
        .iter()
        .filter(|problem| problem.severity == Severity::Error)
        .map(ToString::to_string)
        .collect();
    let all = told.join("\n");
    for part in [
        "callTimeoutSeconds",
        "listen",
        "maxToolz",
        name,
        "mcpServers.s",
        "mcpServers.t.command",
    ] {
        assert!(all.contains(part), "{part} in:\n{all}");
    }
    assert!(all.contains("maxTools"), "the nearest known name:\n{all}");
    for line in &told {
        let placed = line.contains("config.json:")
            || line.contains("settings.json:")
            || line.contains("environment variable");
        assert!(placed, "{line}");
    }
    assert!(!home.file("wharf.sock").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_source_alone_can_keep_it_from_starting() {
    for (file, text) in [
        ("config.json", "{"),
        ("config.json", "[]"),
        ("config.json", r#"{"daemon":{"maxTools":0}}"#),
        ("config.json", r#"{"unknown":{}}"#),
        ("settings.json", "{ not json"),
        ("settings.json", r#"{"mcpServers":[]}"#),
        ("settings.json", r#"{"mcpServers":{"a":{"command":""}}}"#),
    ] {
        let home = Home::new();
        home.write(file, text);
        let refused = refusal(options(home.path().to_owned())).await;
        assert!(
            matches!(refused, ServeError::Config(_)),
            "{file} {text}: {refused}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_home_has_one_daemon() {
    let dock = Dock::new(plain()).await;
    let refused = refusal(options(dock.home.path().to_owned())).await;
    assert!(
        matches!(refused, ServeError::Home(HomeError::Held { .. })),
        "{refused}"
    );
    assert!(refused.to_string().contains("runs for"), "{refused}");
    // The first one does not notice.
    assert_eq!(dock.get("/api/status").await["servers"], 1);
    let home = dock.close().await;
    Dock::at(home).await.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_in_use_is_named() {
    let dock = Dock::new(json!({})).await;
    let home = Home::new();
    let mut options = options(home.path().to_owned());
    options.listen = Some(dock.address);
    let refused = refusal(options).await;
    let text = refused.to_string();
    assert!(matches!(refused, ServeError::Listen { .. }), "{text}");
    assert!(
        text.contains(&dock.address.to_string()) && text.contains("in use"),
        "{text}"
    );
    // Nothing of the attempt stays in the way.
    Dock::at(home).await.close().await;
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_home_that_is_a_file_is_refused() {
    let home = Home::new();
    let refused = refusal(options(home.write("file", ""))).await;
    assert!(
        matches!(refused, ServeError::Home(HomeError::Io { .. })),
        "{refused}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_file_of_a_dead_daemon_is_no_obstacle() {
    let home = Home::new();
    drop(std::os::unix::net::UnixListener::bind(home.file("wharf.sock")).unwrap());
    assert!(home.file("wharf.sock").exists());
    home.write("daemon.lock", "1\n");
    Dock::at(home).await.close().await;
}

/// An id that no process has.
fn nobody() -> u32 {
    let mut gone = spawn(OWNER, "nobody", &["die-before-init=0"]);
    gone.wait().unwrap();
    gone.id()
}

#[expect(clippy::disallowed_methods, reason = "what another daemon left behind")]
fn spawn(key: &str, value: &str, modes: &[&str]) -> std::process::Child {
    std::process::Command::new(fake_server())
        .args(modes)
        .env(key, value)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_daemon_of_this_home_left_is_swept_at_start() {
    let home = Home::new();
    let (mark, dead) = (mark(home.path()), nobody());
    let mut left = [
        spawn(OWNER, &format!("{mark}-{dead}"), &[]),
        spawn(OWNER, &format!("{mark}-{dead}"), &["ignore-term"]),
    ];
    let mut others = [
        spawn(OWNER, &format!("{}-{dead}", "0".repeat(12)), &[]),
        spawn(OWNER, &format!("{mark}0-{dead}"), &[]),
        spawn("OTHER", &format!("{mark}-{dead}"), &[]),
    ];
    // Its mark shows once it runs its own program.
    wharfinger_testkit::poll_until("marks", tokio::time::sleep, || {
        let marked = processes::environment_marks(OWNER);
        left.iter()
            .all(|child| marked.iter().any(|(pid, _)| *pid == child.id()))
    })
    .await;
    let dock = Dock::at(home).await;
    for child in &left {
        assert!(
            !processes::alive(child.id()),
            "{}",
            processes::command_line(child.id())
        );
    }
    for (number, child) in others.iter().enumerate() {
        assert!(processes::alive(child.id()), "number {number}");
    }
    for child in left.iter_mut().chain(&mut others) {
        child.kill().ok();
        child.wait().unwrap();
    }
    dock.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn v18_certificate_and_registry_variables_of_a_person_are_remembered_for_others() {
    let home = Home::new();
    home.write_settings(&json!({ "mcpServers": plain() }));
    let variables = async |home: Home, options: wharfinger_daemon::Options| {
        let dock = Dock::start(home, options).await;
        let caller = dock.handshake("2025-11-25").await;
        let text = caller.call("env", json!({})).await;
        drop(caller);
        let environment: serde_json::Value = serde_json::from_str(&text).unwrap();
        (dock.close().await, environment)
    };
    let path = home.path().to_owned();
    let mut first = options(path.clone());
    first.remember_environment = true;
    for (name, value) in [
        ("NODE_EXTRA_CA_CERTS", "/certs.pem"),
        ("PRIVATE_THING", "x"),
        ("OPENAI_API_KEY", "sk-very-long-secret"),
    ] {
        first.environment.insert(name.into(), value.into());
    }
    let (home, seen) = variables(home, first).await;
    assert_eq!(seen["NODE_EXTRA_CA_CERTS"], "/certs.pem");
    assert!(seen["PRIVATE_THING"].is_null() && seen["OPENAI_API_KEY"].is_null());
    let kept: serde_json::Value = serde_json::from_str(&home.read("environment.json")).unwrap();
    let expect = json!({ "NODE_EXTRA_CA_CERTS": "/certs.pem", "PATH": seen["PATH"] });
    assert_eq!(kept, expect);
    // Started by a client, from nothing.
    let mut second = options(path.clone());
    second.environment.clear();
    second
        .environment
        .insert("PATH".into(), "/clients/own".into());
    let (home, seen) = variables(home, second).await;
    assert_eq!(seen["NODE_EXTRA_CA_CERTS"], "/certs.pem");
    let path_of_both = format!("/clients/own:{}", expect["PATH"].as_str().unwrap());
    assert_eq!(
        seen["PATH"], path_of_both,
        "programs that a person's shell finds are found"
    );
    // What the client has itself is better, and is not remembered.
    let mut third = options(path.clone());
    third
        .environment
        .insert("NODE_EXTRA_CA_CERTS".into(), "/own.pem".into());
    let (home, seen) = variables(home, third).await;
    assert_eq!(seen["NODE_EXTRA_CA_CERTS"], "/own.pem");
    let mut fourth = options(path);
    fourth.environment.clear();
    let (home, seen) = variables(home, fourth).await;
    assert_eq!(seen["NODE_EXTRA_CA_CERTS"], "/certs.pem");
    drop(home);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_for_this_run_is_written_nowhere() {
    let home = Home::new();
    let mut options = options(home.path().to_owned());
    let text = json!({ "mcpServers": { "run": fake(&["tools=1"], json!({})) } }).to_string();
    let pasted = wharfinger::config::pasted(&text).unwrap();
    options.run = pasted.into_iter().map(|server| server.entry).collect();
    options.run[0].source = wharfinger::model::Source::Run;
    let dock = Dock::start(home, options).await;
    assert_eq!(dock.handshake("2025-11-25").await.names().await, ["tool_0"]);
    assert_eq!(dock.get("/api/servers/run").await["source"], "run");
    let home = dock.close().await;
    assert!(!home.file("settings.json").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_do_not_read_do_not_keep_it_from_stopping() {
    let dock = Dock::new(json!({ "a": fake(&["huge=3000000"], json!({})) })).await;
    let caller = dock.handshake("2025-11-25").await;
    let slow = caller
        .ask(1, "tools/call", json!({ "name": "work" }))
        .send()
        .await;
    let idle = tokio::net::TcpStream::connect(dock.address).await.unwrap();
    let stream = caller.stream().await;
    dock.stop.cancel();
    let address = dock.address;
    dock.closed().await;
    drop((slow, idle, stream));
    let gone = tokio::net::TcpStream::connect(address).await;
    assert!(gone.is_err(), "nobody listens any more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_starts_no_server() {
    let home = Home::new();
    let starts = crate::dock::mode(&home, "count-starts", "starts");
    home.add_fake("a", &[&starts]);
    let dock = Dock::at(home).await;
    let ask = Ask::new(dock.address, "GET", "/nothing").bearer(&dock.owner().await);
    assert_eq!(ask.send().await.status, 404);
    dock.get("/api/servers").await;
    assert_eq!(dock.home.read("starts"), "");
    dock.close().await;
}
