//! What servers get to see, and what nobody gets to see (V13–V20, A197, A198).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::yard::{Yard, call, fake, host, names, say};

async fn env(yard: &Yard, tool: &str) -> BTreeMap<String, String> {
    let text = say(&yard.session("s"), tool, json!({})).await;
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn with(more: &[(&str, &str)]) -> BTreeMap<String, String> {
    let mut all = host();
    all.extend(more.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn v18_v19_secrets_reach_only_the_server_that_copies_them() {
    let host = with(&[
        ("GITHUB_TOKEN", "ghp_12345678"),
        ("RANDOM_THING", "x"),
        ("LD_PRELOAD", ""),
        ("NODE_OPTIONS", "--x"),
    ]);
    let yard = Yard::with_host(
        json!({
            "one": fake(&["tool=env"], json!({"toolPrefix": "one_", "env": {"MINE": "${env:GITHUB_TOKEN}", "W": "${workspace}", "NONE": "${env:UNSET}"}})),
            "two": fake(&["tool=env"], json!({"toolPrefix": "two_", "env": {"NODE_OPTIONS": "--require evil", "HOME": null, "LIT": "a${env:HOME}b${workspac}"}})),
        }),
        host,
    )
    .await;
    let one = env(&yard, "one_env").await;
    // V20: it reached the server, and its value is kept out of what the agent sees.
    assert_eq!(one["MINE"], "[REDACTED]");
    assert_eq!(one["NONE"], "", "V15");
    assert!(one["W"].ends_with("/workspaces/default"), "V13");
    let two = env(&yard, "two_env").await;
    for name in ["MINE", "GITHUB_TOKEN", "RANDOM_THING", "LD_PRELOAD"] {
        assert!(
            !two.contains_key(name) && (name == "MINE" || !one.contains_key(name)),
            "{name}"
        );
    }
    assert!(!two.contains_key("NODE_OPTIONS"), "A197");
    assert!(!two.contains_key("HOME"), "V17");
    assert_eq!(
        two["LIT"], "a[REDACTED]b${workspac}",
        "V20: every copied value is kept out"
    );
    assert!(two.contains_key("PATH"));
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v18_discovery_gets_the_filtered_environment_too() {
    let home = wharfinger_testkit::Home::new();
    let file = home.file("env");
    let script = format!(
        "env > {}; exec {}",
        file.display(),
        wharfinger_testkit::fake_server().display()
    );
    let servers = json!({ "s": { "command": "sh", "args": ["-c", script] } });
    let yard = Yard::at(
        home,
        servers,
        json!({}),
        with(&[("OPENAI_API_KEY", "sk-12345678")]),
    )
    .await;
    names(&yard.session("s")).await;
    let seen = yard.home.read("env");
    assert!(
        seen.contains("PATH=") && !seen.contains("OPENAI_API_KEY"),
        "{seen}"
    );
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v20_known_secrets_are_redacted_at_every_exit() {
    let secret = "s3cr\"et/value-\\x";
    let host = with(&[
        ("MY_API_KEY", secret),
        ("TELEGRAM_BOT_TOKEN", "123456:telegram"),
        ("SHORT_TOKEN", "abc"),
    ]);
    let yard = Yard::with_host(
        json!({
            "s": fake(&[], json!({"env": {"K": "${env:MY_API_KEY}"}, "args": [format!("say=x {secret} 123456:telegram abc y"), format!("stderr=log {secret}"), "log=info"]})),
            "dies": { "command": "sh", "args": ["-c", "echo oops 123456:telegram >&2; exit 3"] },
            "arg": { "command": "no-such-program", "args": ["--key", "123456:telegram"] },
        }),
        host,
    )
    .await;
    let session = yard.session("s");
    let said = say(&session, "work", json!({})).await;
    assert_eq!(said, "x [REDACTED] [REDACTED] abc y");
    let result = call(&session, "echo", json!({"message": secret}))
        .await
        .unwrap()
        .to_string();
    assert!(!result.contains("value-"), "{result}");
    let agent = session.agent().clone();
    let everything = format!(
        "{}\n{}\n{}\n{}\n{:?}\n{}\n{:?}",
        yard.wharf.mcp_list(&agent),
        yard.wharf.mcp_show("s", &agent).unwrap(),
        yard.wharf.mcp_show("dies", &agent).unwrap(),
        yard.wharf.mcp_show("arg", &agent).unwrap(),
        yard.wharf.log_tail("s", 100),
        session.instructions(),
        yard.wharf.reports(&agent),
    );
    assert!(
        !everything.contains("123456:telegram") && !everything.contains("et/value"),
        "{everything}"
    );
    assert!(
        everything.contains("oops [REDACTED]"),
        "V73: stderr is shown, redacted: {everything}"
    );
    assert!(
        everything.contains("--key '[REDACTED]'") || everything.contains("--key [REDACTED]"),
        "{everything}"
    );
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_may_ask_for_more_of_the_hosts_environment() {
    let yard = Yard::with_host(
        json!({ "s": fake(&[], json!({"inheritEnv": ["DOCKER_HOST"]})) }),
        with(&[("DOCKER_HOST", "unix:///d"), ("OTHER", "x")]),
    )
    .await;
    let seen = env(&yard, "env").await;
    assert_eq!(
        (
            seen.get("DOCKER_HOST").map(String::as_str),
            seen.get("OTHER")
        ),
        (Some("unix:///d"), None)
    );
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v15_env_stays_literal_outside_of_values() {
    let yard = Yard::new(json!({ "s": fake(&[], json!({"args": ["say=${env:PATH}"]})) })).await;
    let result: Value = call_after_listing(&yard).await;
    assert_eq!(result["content"][0]["text"], "${env:PATH}");
    yard.close().await;
}

async fn call_after_listing(yard: &Yard) -> Value {
    let session = yard.session("s");
    names(&session).await;
    call(&session, "work", json!({})).await.unwrap()
}
