//! What calls, changes and the lives of servers leave in the journal.

use serde_json::json;
use wharfinger::config::load;
use wharfinger::journal::{Filter, Part, Row};
use wharfinger::model::{AgentName, Profile};
use wharfinger::wire::json::raw;
use wharfinger::{Request, Target, ToolCall, Wharf};
use wharfinger_testkit::{Home, poll_until};

use crate::yard::{Yard, call, fake, host, inputs, say};

async fn rows(wharf: &Wharf, kind: &str) -> Vec<Row> {
    let journal = wharf.journal();
    journal.flush().await;
    let filter = Filter {
        kind: Some(kind.to_owned()).filter(|kind| !kind.is_empty()),
        ..Filter::default()
    };
    journal.rows(filter, Part::After(0), 1000).await.unwrap()
}

/// Who, what of which server, and what came of it.
fn brief(row: &Row) -> String {
    let about = [&row.server, &row.tool].map(|part| part.as_deref().unwrap_or("-"));
    format!(
        "{} {} {} {} {}",
        row.who, row.kind, about[0], about[1], row.outcome
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn each_call_leaves_a_row_whatever_came_of_it() {
    let yard = Yard::new(json!({
        "good": fake(&["tool=a.b"], json!({})),
        "bad": fake(&["tool=fails", "tool-error"], json!({})),
        "dead": fake(&["tool=dies", "crash-after=1"], json!({})),
        "slow": fake(&["tool=hangs", "hang-call"], json!({})),
        "off": fake(&[], json!({"enabled": false})),
    }))
    .await;
    let session = yard.session("s-1");
    say(&session, "a_b", json!({ "z": 1, "a": [1.0] })).await;
    call(&session, "fails", json!({})).await.unwrap();
    call(&session, "dies", json!({})).await.unwrap_err();
    call(&session, "nobody", json!({})).await.unwrap_err();
    let params = raw(&json!({ "name": "x" }));
    let direct = |server| ToolCall {
        target: Target::Direct { server, tool: "x" },
        ..ToolCall::new("x", &params)
    };
    session.call(direct("off"), |_| ()).await.unwrap_err();
    // Taken back by dropping it, and by stopping the session's calls.
    for stop in [false, true] {
        let hanging = session.clone();
        let hanging = tokio::spawn(async move { call(&hanging, "hangs", json!({})).await });
        poll_until("the call to be on its way", tokio::time::sleep, || {
            session.calls_in_flight() > 0
        })
        .await;
        if stop {
            session.stop_calls();
            hanging.await.unwrap().unwrap_err();
        } else {
            hanging.abort();
            hanging.await.unwrap_err();
        }
    }
    let found = rows(&yard.wharf, "call").await;
    let lines: Vec<String> = found.iter().map(brief).collect();
    assert_eq!(
        lines,
        [
            "agent:default call good a.b ok",
            "agent:default call bad fails error",
            "agent:default call dead dies unknown",
            "agent:default call - nobody refused",
            "owner call off x refused",
            "agent:default call slow hangs cancelled",
            "agent:default call slow hangs cancelled",
        ]
    );
    let first = &found[0];
    assert_eq!(first.preview.as_deref(), Some(r#"{"a":[1.0],"z":1}"#));
    assert_eq!(first.args_digest.as_deref().map(str::len), Some(64));
    assert_eq!(
        (first.agent.as_deref(), first.session.as_deref()),
        (Some("default"), Some("s-1"))
    );
    assert!(first.millis.is_some() && first.text.is_none());
    let why = found[2].text.as_deref().unwrap();
    assert!(
        why.starts_with("dead: the MCP server exited (code 42)"),
        "{why}"
    );
    let why = found[4].text.as_deref().unwrap();
    assert!(why.starts_with("off: this MCP server is disabled"), "{why}");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_changes_agents_and_lives_leave_rows() {
    let entry = fake(&["prompt=p", "resource=x://1"], json!({}));
    let yard = Yard::new(json!({ "s": entry })).await;
    let session = yard.session("s");
    let ask = async |method: &str, params| {
        let params = raw(&params);
        let request = Request {
            method,
            params: Some(&params),
            progress: false,
            log_level: None,
        };
        session.request(request, |_| ()).await.is_ok()
    };
    assert!(
        ask(
            "prompts/get",
            json!({ "name": "p", "_meta": { "progressToken": 1 } })
        )
        .await
    );
    assert!(!ask("resources/read", json!({ "uri": "y://2" })).await);
    assert!(!ask("tasks/get", json!({ "taskId": "t" })).await);
    let requests = rows(&yard.wharf, "request").await;
    let lines: Vec<String> = requests.iter().map(brief).collect();
    assert_eq!(
        lines,
        [
            "agent:default request s - ok",
            "agent:default request s - error"
        ]
    );
    assert_eq!(
        requests[0].subject.as_ref().unwrap().get(),
        r#"{"method":"prompts/get"}"#
    );
    assert_eq!(requests[0].preview.as_deref(), Some(r#"{"name":"p"}"#));

    yard.wharf
        .add_agent(AgentName::new("bot").unwrap(), Profile::Chat)
        .await
        .unwrap();
    yard.wharf.remove_agent("bot").await.unwrap();
    yard.wharf.mcp_restart("s", session.agent()).await.unwrap();
    let servers = json!({ "t": fake(&[], json!({})) });
    yard.wharf
        .change(load(&inputs(&servers, &json!({}), host())))
        .await;
    let lines: Vec<String> = rows(&yard.wharf, "config")
        .await
        .iter()
        .map(brief)
        .collect();
    assert_eq!(
        lines,
        [
            "owner config.agent-added - - ok",
            "owner config.agent-removed - - ok",
            "owner config.server-added t - ok",
            "owner config.server-removed s - ok",
        ]
    );
    let lives = rows(&yard.wharf, "lifecycle").await;
    let lines: Vec<String> = lives.iter().map(brief).collect();
    assert_eq!(
        lines,
        [
            "system lifecycle.started - - ok",
            "system lifecycle.started s - ok",
            "owner lifecycle.restarted s - ok",
            "system lifecycle.stopped s - ok",
        ]
    );
    assert!(lives[0].subject.is_none());
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_fails_or_dies_leaves_rows() {
    let yard = Yard::new(json!({
        "gone": { "command": "/no/such/program" },
        "dead": fake(&["tool=dies", "crash-after=1"], json!({})),
    }))
    .await;
    let session = yard.session("s");
    say(&session, "dies", json!({})).await;
    let lives = rows(&yard.wharf, "lifecycle").await;
    let mut lines: Vec<String> = lives.iter().skip(1).map(brief).collect();
    lines.sort();
    assert_eq!(
        lines,
        [
            "server lifecycle.exited dead - error",
            "server lifecycle.failed gone - error",
            "system lifecycle.started dead - ok",
        ]
    );
    yard.close().await;
}

/// The secret reaches its server, and no row.
#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_in_any_row() {
    let mut environment = host();
    environment.insert("API_TOKEN".into(), "tok-0123456789".into());
    let entry = fake(&[], json!({ "env": { "KEY": "${env:API_TOKEN}" } }));
    let home = Home::new();
    let yard = Yard::at(home, json!({ "s": entry }), json!({}), environment).await;
    let session = yard.session("s");
    let long = format!("{}tok-0123456789", "x".repeat(180));
    say(
        &session,
        "echo",
        json!({ "message": "tok-0123456789", "long": long }),
    )
    .await;
    say(&session, "tok-0123456789", json!({})).await;
    let all = rows(&yard.wharf, "").await;
    let text = serde_json::to_string(&all).unwrap();
    assert!(
        text.contains("[REDACTED]") && text.contains("echo"),
        "{text}"
    );
    assert!(!text.contains("tok-0"), "{text}");
    let home = yard.close().await;
    for file in ["wharfinger.db", "wharfinger.db-wal"] {
        let bytes = std::fs::read(home.file(file)).unwrap_or_default();
        assert!(
            !bytes.windows(14).any(|part| part == b"tok-0123456789"),
            "{file}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wharf_that_shuts_down_has_written_everything() {
    let servers = json!({ "s": fake(&["tool=t"], json!({})) });
    let yard = Yard::new(servers.clone()).await;
    let session = yard.session("s");
    for _ in 0..20 {
        say(&session, "t", json!({})).await;
    }
    let home = yard.close().await;
    // The database has what the next start finds, and nothing was in flight.
    let yard = Yard::at(home, servers.clone(), json!({}), host()).await;
    assert_eq!(rows(&yard.wharf, "call").await.len(), 20);
    assert_eq!(yard.wharf.journal().verify().await.unwrap().broken, None);
    let starts = rows(&yard.wharf, "lifecycle.started").await;
    let own: Vec<&Row> = starts.iter().filter(|row| row.server.is_none()).collect();
    assert!(own.len() == 2 && own[1].subject.is_none(), "{own:?}");
    let ends = rows(&yard.wharf, "lifecycle.stopped").await;
    assert!(ends.iter().any(|row| row.server.is_none()));
    // As a crash would, this one ends without a word.
    let home = Home::new();
    std::fs::copy(yard.home.file("wharfinger.db"), home.file("wharfinger.db")).unwrap();
    std::fs::copy(
        yard.home.file("wharfinger.db-wal"),
        home.file("wharfinger.db-wal"),
    )
    .unwrap();
    yard.close().await;
    let yard = Yard::at(home, servers, json!({}), host()).await;
    let starts = rows(&yard.wharf, "lifecycle.started").await;
    let last = starts.last().unwrap().subject.as_ref().unwrap();
    assert_eq!(last.get(), r#"{"afterCrash":true}"#);
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_as_many_rows_as_configured_are_kept() {
    let config = json!({ "daemon": { "journalRows": 10 } });
    let yard = Yard::with_config(json!({ "s": fake(&["tool=t"], json!({})) }), config).await;
    let session = yard.session("s");
    for _ in 0..30 {
        say(&session, "t", json!({})).await;
    }
    assert_eq!(rows(&yard.wharf, "").await.len(), 10);
    assert_eq!(yard.wharf.journal().verify().await.unwrap().broken, None);
    yard.close().await;
}
