//! What `/mcp` prints (V69–V73).

use serde_json::json;
use wharfinger_testkit::{Filters, poll_until};

use crate::yard::{Yard, fake, names, say};

#[tokio::test(flavor = "multi_thread")]
async fn v69_v72_every_state_has_its_word() {
    let yard = Yard::new(json!({
        "up": fake(&["tool=one"], json!({})),
        "idle": fake(&["tool=a", "tool=b"], json!({})),
        "dead": fake(&["tool=die", "crash-after=1"], json!({})),
        "bad": fake(&["die-before-init=1"], json!({})),
        "off": fake(&[], json!({"enabled": false})),
        "far": { "url": "https://example.com/mcp" },
    }))
    .await;
    let session = yard.session("s");
    let agent = session.agent().clone();
    names(&session).await;
    say(&session, "one", json!({})).await;
    say(&session, "die", json!({})).await;
    let text = yard.wharf.mcp_list(&agent);
    let expect = "\
up    running (1 tool)
idle  not started (2 tools)
dead  exited (code 42) (1 tool)
bad   failed: it exited (code 1) before it was ready
off   disabled
far   failed: remote servers come later";
    assert_eq!(text, expect);
    let unknown = yard.wharf.mcp_show("upp", &agent).unwrap_err();
    assert_eq!(
        unknown,
        "there is no MCP server `upp`, did you mean `up`? Known: up, idle, dead, bad, off, far"
    );
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v70_one_server_in_full_without_values_of_variables() {
    let entry = fake(
        &["tool=a", "version=7.1", "stderr=hello from the server"],
        json!({"env": {"PLAIN": "hidden-value"}}),
    );
    let yard = Yard::new(json!({ "s": entry })).await;
    let session = yard.session("s");
    let agent = session.agent().clone();
    say(&session, "a", json!({})).await;
    poll_until("its stderr", tokio::time::sleep, || {
        yard.wharf
            .mcp_show("s", &agent)
            .is_ok_and(|text| text.contains("hello"))
    })
    .await;
    let text = yard.wharf.mcp_show("s", &agent).unwrap();
    let fake = wharfinger_testkit::fake_server();
    let text = Filters::new().path(&fake, "[fake]").apply(&text);
    assert!(text.starts_with("s: running\ncommand: [fake] 'tool=a' 'version=7.1' 'stderr=hello from the server'\nenv: PLAIN\nfrom: settings.json:1\n"), "{text}");
    assert!(
        text.contains(" 7.1\nprotocol: 2025-11-25\ntools: a\n"),
        "{text}"
    );
    assert!(text.contains("hello from the server"), "{text}");
    assert!(!text.contains("hidden-value"), "{text}");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v69_what_was_found_for_a_client_that_declares_something_is_told() {
    let yard = Yard::new(json!({
        "good": fake(&["tool=a", "tool=b"], json!({})),
        "bad": fake(&["die-before-init=1"], json!({})),
    }))
    .await;
    let declared = wharfinger::model::Declared::by_client(r#"{"elicitation": {}}"#);
    let session = yard.session_as("default", "s", declared);
    assert_eq!(names(&session).await, ["a", "b"]);
    let agent = session.agent();
    assert_eq!(
        yard.wharf.mcp_list(agent),
        "good  not started (2 tools)\nbad   failed: it exited (code 1) before it was ready"
    );
    let good = yard.wharf.mcp_show("good", agent).unwrap();
    assert!(good.ends_with("tools: a, b"), "{good}");
    let missing = session.unavailable();
    assert_eq!(missing.len(), 1);
    assert_eq!(missing[0].0, "bad");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v71_restart_stops_and_the_next_call_starts_afresh() {
    let yard = Yard::new(json!({ "s": fake(&[], json!({})) })).await;
    let session = yard.session("s");
    let agent = session.agent().clone();
    assert_eq!(
        yard.wharf.mcp_restart("s", &agent).await.unwrap(),
        "s: was not running; the next call starts it"
    );
    let pid = say(&session, "pid", json!({})).await;
    assert_eq!(
        yard.wharf.mcp_restart("s", &agent).await.unwrap(),
        "s: stopped; the next call starts a fresh one"
    );
    assert!(yard.wharf.mcp_list(&agent).contains("not started"));
    assert_ne!(say(&session, "pid", json!({})).await, pid);
    assert_eq!(
        yard.wharf.mcp_restart("other", &agent).await.unwrap_err(),
        "there is no MCP server `other`; known: s"
    );
    yard.close().await;
}
