//! Finding out what servers offer (V51–V56, V24).

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use wharfinger::SessionOptions;
use wharfinger::model::{AgentName, Declared, SessionId, Status};
use wharfinger_testkit::{Home, fake_server, poll_until};

use crate::yard::{Yard, fake, host, names, quick, say, starts};

#[tokio::test(flavor = "multi_thread")]
async fn v51_it_happens_once_in_a_directory_of_its_own_and_survives_a_restart() {
    let home = Home::new();
    let count = Yard::mode(&home, "count-starts", "starts");
    let servers = json!({ "s": fake(&[&count, "--", "${workspace}/x"], json!({"args": [count, Yard::mode(&home, "record", "lines")]})) });
    let yard = Yard::at(home, servers.clone(), json!({}), host()).await;
    assert_eq!(names(&yard.session("a")).await.len(), 5);
    assert_eq!(names(&yard.session("b")).await.len(), 5);
    assert_eq!(starts(&yard.home, "starts"), 1);
    yard.until_no_process().await;
    let home = yard.close().await;
    let yard = Yard::at(home, servers, json!({}), host()).await;
    assert_eq!(names(&yard.session("a")).await.len(), 5);
    assert_eq!(
        starts(&yard.home, "starts"),
        1,
        "a restart starts no server to list tools"
    );
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v51_the_directory_is_temporary_and_not_the_workspace() {
    let home = Home::new();
    let file = home.file("where");
    let entry = json!({
        "command": "sh",
        "args": ["-c", format!("echo ${{workspace}} $PWD >> {}; exec {}", file.display(), wharfinger_testkit::fake_server().display())],
    });
    let yard = Yard::at(home, json!({ "s": entry }), json!({}), host()).await;
    let session = yard.session("s");
    names(&session).await;
    let lines = yard.home.lines("where");
    let (workspace, cwd) = lines[0].split_once(' ').unwrap();
    assert_eq!(workspace, cwd);
    assert!(workspace.contains("wharfinger-discovery-"), "{workspace}");
    poll_until("the directory to be removed", tokio::time::sleep, || {
        !std::path::Path::new(workspace).exists()
    })
    .await;
    let cwd = say(&session, "cwd", json!({})).await;
    let expect = yard.wharf.workspace(session.agent());
    assert_eq!(
        cwd,
        expect.display().to_string(),
        "V57: a call's process runs in the workspace"
    );
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v52_many_sessions_share_one_attempt() {
    let home = Home::new();
    let count = Yard::mode(&home, "count-starts", "starts");
    let yard = Yard::at(
        home,
        json!({ "s": fake(&["slow-init=0.2", &count], json!({})) }),
        json!({}),
        host(),
    )
    .await;
    let listing: Vec<_> = (0..20)
        .map(|n| {
            let session = yard.session(&format!("s{n}"));
            tokio::spawn(async move { names(&session).await.len() })
        })
        .collect();
    for listed in listing {
        assert_eq!(listed.await.unwrap(), 5);
    }
    assert_eq!(starts(&yard.home, "starts"), 1);
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v53_a_failure_is_shown_and_not_tried_again_at_once() {
    let home = Home::new();
    let count = Yard::mode(&home, "count-starts", "starts");
    let yard = Yard::at(
        home,
        json!({
            "bad": fake(&["die-before-init=7", &count], json!({})),
            "good": fake(&["tool=x"], json!({})),
        }),
        json!({}),
        host(),
    )
    .await;
    let session = yard.session("s");
    assert_eq!(names(&session).await, ["x"], "others are not affected");
    let once = starts(&yard.home, "starts");
    assert_eq!(names(&session).await, ["x"]);
    assert_eq!(starts(&yard.home, "starts"), once, "not within a minute");
    let report = yard.wharf.reports(session.agent()).remove(0);
    let Status::Failed { reason } = &report.status else {
        panic!("{report:?}")
    };
    assert!(
        reason.starts_with("it exited (code 7) before it was ready"),
        "{reason}"
    );
    assert!(reason.contains("BAD_API_KEY"), "its own words: {reason}");
    assert!(session.instructions().contains("- bad: it exited (code 7)"));
    // The owner need not wait.
    yard.wharf.forget_failure("bad");
    names(&session).await;
    assert!(starts(&yard.home, "starts") > once);
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v53_every_way_to_fail_has_its_reason() {
    for (mode, expect) in [
        ("init-error", "it could not be initialized: not today"),
        (
            "init-bad-version",
            "it could not be initialized: the server wants protocol version \"1999-01-01\"",
        ),
        ("never-init", "it was not ready within 1 s"),
        ("no-reply-to-list", "it was not ready within 1 s"),
        (
            "die-before-init=7",
            "it exited (code 7) before it was ready",
        ),
    ] {
        // Only those that never answer are to run into their limit.
        let limit = if expect.starts_with("it was not ready") {
            1
        } else {
            20
        };
        let entry = fake(&[mode], json!({ "startupTimeoutSeconds": limit }));
        let config = json!({ "daemon": { "exitWaitSeconds": 0.3, "termWaitSeconds": 0.3, "probeWaitSeconds": 0.2 } });
        let yard = Yard::with_config(json!({ "s": entry }), config).await;
        let error = yard.wharf.discover("s").await.unwrap_err();
        assert!(error.starts_with(expect), "{mode}: {error}");
        yard.close().await;
    }
    let yard = Yard::new(json!({
        "s": { "command": "no-such-program-here" },
        "d": { "command": "/proc/self/maps" },
    }))
    .await;
    assert_eq!(
        yard.wharf.discover("s").await.unwrap_err(),
        "`no-such-program-here` was not found"
    );
    let error = yard.wharf.discover("d").await.unwrap_err();
    assert!(
        error.starts_with("`/proc/self/maps` may not be run: "),
        "{error}"
    );
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v54_servers_are_asked_at_the_same_time() {
    let servers: serde_json::Map<String, serde_json::Value> = (0..8)
        .map(|n| {
            (
                format!("s{n}"),
                fake(&["slow-init=0.5", &format!("tool=t{n}")], json!({})),
            )
        })
        .collect();
    let yard = Yard::new(servers.into()).await;
    let at = Instant::now();
    assert_eq!(names(&yard.session("s")).await.len(), 8);
    assert!(
        at.elapsed() < Duration::from_millis(8 * 500),
        "{:?}",
        at.elapsed()
    );
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v55_a_list_does_not_wait_for_ever_and_what_is_late_joins() {
    let home = Home::new();
    let config = json!({ "daemon": { "listWaitSeconds": 0.2 } });
    let yard = Yard::at(
        home,
        json!({ "slow": fake(&["slow-init=1", "tool=late"], json!({})), "quick": fake(&["tool=now"], json!({})) }),
        config,
        host(),
    )
    .await;
    let session = yard.session("s");
    let mut changes = yard.wharf.generation();
    assert_eq!(names(&session).await, ["now"]);
    changes
        .wait_for(|_| {
            session
                .known_tools()
                .tools
                .iter()
                .any(|tool| tool.name == "late")
        })
        .await
        .unwrap();
    assert_eq!(names(&session).await, ["late", "now"]);
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v56_all_pages_are_read_and_a_page_without_end_is_not() {
    let yard = Yard::with_config(
        json!({
            "pages": fake(&["tools=10", "pages=5"], json!({})),
            "loop": fake(&["page-loop", "tool=once"], json!({})),
        }),
        quick(),
    )
    .await;
    let names = names(&yard.session("s")).await;
    assert_eq!(names.len(), 11, "{names:?}");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_tools_do_not_blank_a_list() {
    let yard = Yard::new(json!({ "s": fake(&["odd-tool"], json!({})) })).await;
    let session = yard.session("s");
    let names = names(&session).await;
    assert!(names.len() > 3, "{names:?}");
    let details = yard.wharf.details("s", session.agent()).unwrap();
    assert!(!details.warnings.is_empty());
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_the_capability_has_no_tools_and_is_not_asked() {
    let home = Home::new();
    let record = Yard::mode(&home, "record", "lines");
    let yard = Yard::at(
        home,
        json!({ "s": fake(&["no-tools-capability", &record], json!({})) }),
        json!({}),
        host(),
    )
    .await;
    assert!(names(&yard.session("s")).await.is_empty());
    assert!(
        !yard
            .home
            .lines("lines")
            .iter()
            .any(|line| line.contains("tools/list"))
    );
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_list_refreshes_what_is_known_and_reaches_sessions() {
    let yard = Yard::new(json!({ "s": fake(&["list-changed-on-call"], json!({})) })).await;
    let session = yard.session("s");
    assert_eq!(names(&session).await.len(), 5);
    let mut changes = yard.wharf.generation();
    changes.mark_unchanged();
    say(&session, "work", json!({})).await;
    changes
        .wait_for(|_| session.known_tools().tools.len() == 6)
        .await
        .unwrap();
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_differs_at_the_next_start_is_kept() {
    let home = Home::new();
    let by_start = Yard::mode(&home, "schema-by-start", "count");
    let servers = json!({ "s": fake(&[&by_start], json!({})) });
    let yard = Yard::at(home, servers.clone(), json!({}), host()).await;
    let session = yard.session("s");
    let first = session.tools().await.list.get().to_owned();
    let changes = yard.wharf.generation();
    say(&session, "work", json!({})).await;
    let mut seen = changes;
    seen.wait_for(|_| session.known_tools().list.get() != first)
        .await
        .unwrap();
    let second = session.known_tools().list.get().to_owned();
    let home = yard.close().await;
    let yard = Yard::at(home, servers, json!({}), host()).await;
    assert_eq!(
        yard.session("s").tools().await.list.get(),
        second,
        "after a restart too"
    );
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_declared_is_part_of_what_is_known() {
    let home = Home::new();
    let count = Yard::mode(&home, "count-starts", "starts");
    let yard = Yard::at(
        home,
        json!({ "s": fake(&[&count], json!({})) }),
        json!({}),
        host(),
    )
    .await;
    names(&yard.session("a")).await;
    let declared = Declared::with_roots(vec!["file:///x".into()]);
    names(&yard.session_as("default", "b", declared)).await;
    assert_eq!(starts(&yard.home, "starts"), 2);
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v25_prompt_sections_of_active_servers_are_told() {
    let yard = Yard::new(json!({
        "a": fake(&[], json!({"promptSection": "Use a wisely."})),
        "b": fake(&["die-before-init=1"], json!({"promptSection": "Never seen."})),
        "c": fake(&[], json!({"promptSection": "Off.", "enabled": false})),
    }))
    .await;
    let session = yard.session("s");
    names(&session).await;
    let text = session.instructions();
    assert!(
        text.starts_with("Use a wisely.\n\nThese MCP servers are not available"),
        "{text}"
    );
    assert!(
        text.contains("- b: ") && !text.contains("Never seen") && !text.contains("Off."),
        "{text}"
    );
    yard.close().await;
}

/// The preset with the fake server in place of the real one, whose options it would not know.
async fn with_browser(modes: &str, servers: Value) -> Yard {
    let home = Home::new();
    let fake = fake_server();
    let script = format!("#!/bin/sh\nexec '{}' {modes}\n", fake.display());
    let script = home.write("playwright-mcp", &script);
    let runnable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&script, runnable).unwrap();
    let config = json!({ "mcp": { "playwright": { "enabled": true, "command": script } } });
    Yard::at(home, servers, config, host()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn v40_the_browsers_section_is_told_while_it_is_active_and_mentions_a_send_tool_if_one_is() {
    let yard = with_browser("tool=browser_click", json!({})).await;
    let session = yard.session("s");
    assert_eq!(session.instructions(), "", "its tools are not known yet");
    names(&session).await;
    let text = session.instructions();
    assert!(text.starts_with("## Browser\n"), "{text}");
    assert!(!text.contains("deliver"), "{text}");
    let host = yard.wharf.session(SessionOptions {
        agent: AgentName::new("default").unwrap(),
        id: SessionId::new("of-a-host-that-sends").unwrap(),
        declared: Declared::default(),
        reserved: vec!["send".into()],
        lasting: false,
    });
    let text = host.instructions();
    assert!(text.ends_with(" `send` can deliver such files."), "{text}");
    yard.close().await;

    let chat = fake(&["tool=send"], json!({"toolPrefix": "chat_"}));
    let yard = with_browser("tool=browser_click", json!({ "chat": chat })).await;
    let session = yard.session("s");
    assert_eq!(names(&session).await, ["browser_click", "chat_send"]);
    let text = session.instructions();
    let expect = " `chat_send` can deliver such files.";
    assert!(text.ends_with(expect), "{text}");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_has_one_browser_whatever_its_clients_declare() {
    let yard = with_browser("roots", json!({})).await;
    let plain = yard.session("plain");
    let roots = Declared::with_roots(vec!["file:///somewhere".into()]);
    let rooted = yard.session_as("default", "rooted", roots);
    let pid = say(&plain, "pid", json!({})).await;
    assert_eq!(say(&rooted, "pid", json!({})).await, pid);
    let told = say(&rooted, "roots", json!({})).await;
    assert!(!told.contains("file:///somewhere"), "{told}");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v9_a_settings_file_in_a_workspace_is_not_read() {
    let home = Home::new();
    let evil = json!({ "mcpServers": { "evil": fake(&["tool=evil"], json!({})) } }).to_string();
    for place in [
        "workspaces/default/settings.json",
        "workspaces/default/.wharfinger/settings.json",
        "workspaces/settings.json",
    ] {
        home.write(place, &evil);
    }
    let yard = Yard::at(
        home,
        json!({ "s": fake(&["tool=good"], json!({})) }),
        json!({}),
        host(),
    )
    .await;
    let session = yard.session("s");
    assert_eq!(names(&session).await, ["good"]);
    say(&session, "good", json!({})).await;
    assert_eq!(names(&session).await, ["good"]);
    yard.close().await;
}

/// Keeps what is logged.
#[derive(Clone, Default)]
struct Kept(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

// On one thread, so that the subscriber of this test hears all of it and nothing else.
#[tokio::test]
async fn v24_lines_of_stderr_are_logged_at_their_level() {
    let kept = Kept::default();
    let writer = kept.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let guard = tracing::subscriber::set_default(subscriber);
    let levels = [
        "Trace",
        "Debug",
        "Information",
        "Warning",
        "Error",
        "Critical",
        "None",
    ];
    let servers: serde_json::Map<String, serde_json::Value> = levels
        .iter()
        .map(|level| {
            let line = format!("stderr=line of {level}");
            (
                level.to_lowercase(),
                fake(&[&line], json!({ "stderrLevel": level })),
            )
        })
        .collect();
    let yard = Yard::new(servers.into()).await;
    names(&yard.session("s")).await;
    let logged = || String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
    poll_until("all lines", tokio::time::sleep, || {
        !yard.wharf.log_tail("none", 1).is_empty() && logged().matches("line of").count() == 6
    })
    .await;
    for (level, expect) in [
        ("Trace", "TRACE"),
        ("Debug", "DEBUG"),
        ("Information", "INFO"),
        ("Warning", "WARN"),
        ("Error", "ERROR"),
        ("Critical", "ERROR"),
    ] {
        let text = logged();
        let line = text
            .lines()
            .find(|line| line.contains(&format!("line of {level}")))
            .unwrap();
        assert!(line.contains(&format!(" {expect} ")), "{line}");
    }
    assert!(!logged().contains("line of None"), "kept, not logged");
    yard.close().await;
    drop(guard);
}

#[tokio::test(flavor = "multi_thread")]
async fn v20_secrets_leave_neither_by_lists_nor_into_the_database() {
    let home = Home::new();
    let mut host = host();
    host.insert("LIST_TOKEN".into(), "list-secret-1234".into());
    // It says its token in the description of itself.
    let entry = fake(
        &[
            "instructions=use list-secret-1234",
            "tool=x-list-secret-1234",
        ],
        json!({}),
    );
    let yard = Yard::at(home, json!({ "s": entry }), json!({}), host).await;
    let session = yard.session("s");
    let list = session.tools().await.list.get().to_owned();
    assert!(
        list.contains("[REDACTED]") && !list.contains("list-secret"),
        "{list}"
    );
    let home = yard.close().await;
    for file in ["wharfinger.db", "wharfinger.db-wal"] {
        let bytes = std::fs::read(home.file(file)).unwrap_or_default();
        let found = bytes.windows(11).any(|part| part == b"list-secret");
        assert!(!found, "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_start_has_all_of_its_time() {
    let entry = fake(&["slow-init=2.4"], json!({ "startupTimeoutSeconds": 4 }));
    let yard = Yard::with_config(
        json!({ "s": entry }),
        json!({ "daemon": { "probeWaitSeconds": 0.1 } }),
    )
    .await;
    assert_eq!(yard.wharf.discover("s").await, Ok(5));
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shutting_down_does_not_wait_for_a_list_that_never_comes() {
    let home = Home::new();
    let record = Yard::mode(&home, "record", "lines");
    let yard = Yard::at(
        home,
        json!({ "s": fake(&["no-reply-to-list", &record], json!({})) }),
        quick(),
        host(),
    )
    .await;
    let wharf = yard.wharf.clone();
    let asking = tokio::spawn(async move { wharf.discover("s").await });
    let asked = || {
        yard.home
            .lines("lines")
            .iter()
            .any(|line| line.contains("tools/list"))
    };
    poll_until("the list to be asked for", tokio::time::sleep, asked).await;
    let at = Instant::now();
    yard.close().await;
    assert!(
        at.elapsed() < Duration::from_secs(20),
        "far below the limit of 60 s: {:?}",
        at.elapsed()
    );
    assert!(asking.await.unwrap().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_list_changes_all_the_time_is_listed_now_and_then() {
    let home = Home::new();
    let record = Yard::mode(&home, "record", "lines");
    let entry = fake(&["list-changed=0.02", &record], json!({}));
    let yard = Yard::at(home, json!({ "s": entry }), json!({}), host()).await;
    let session = yard.session("s");
    names(&session).await;
    let lists = || {
        yard.home
            .lines("lines")
            .iter()
            .filter(|line| line.contains("tools/list"))
            .count()
    };
    let before = lists();
    say(&session, "work", json!({})).await;
    poll_until("it to be listed again", tokio::time::sleep, || {
        lists() >= before + 3
    })
    .await;
    assert!(
        lists() < before + 20,
        "the pause grows: {}",
        lists() - before
    );
    yard.close().await;
}
