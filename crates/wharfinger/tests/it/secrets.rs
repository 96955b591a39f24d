//! Secrets from where they are set to the process that gets them, and to nobody else (A99–A112).

use std::collections::BTreeMap;

use serde_json::{Value, json};
use wharfinger::agentfile::{AgentFile, Keys, SetBy};
use wharfinger::config::load;
use wharfinger::model::{AgentName, Declared, Profile, Secret, ServerName, Status};
use wharfinger::vault::{self, Vault, VaultState};
use wharfinger::{SecretError, Session, Wharf};
use wharfinger_testkit::Home;

use crate::yard::{Yard, call, fake, host, inputs, names, say, text};

// Values of fewer than eight bytes are not kept out of what servers say, so that tests can see who got which.

fn secret(text: &str) -> Secret {
    Secret::new(text.to_owned())
}

async fn set(yard: &Yard, key: &str, value: &str, agent: Option<&str>) {
    let server = ServerName::new("s").unwrap();
    yard.wharf
        .set_secret(&server, key, secret(value), agent)
        .await
        .unwrap();
}

fn taking(env: &Value) -> Value {
    json!({ "s": fake(&["tool=env"], json!({ "env": env })) })
}

/// What a session's process of `s` has in its environment.
async fn env(session: &Session, tool: &str) -> BTreeMap<String, String> {
    let said = say(session, tool, json!({})).await;
    serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"))
}

async fn bot(yard: &Yard) {
    let name = AgentName::new("bot").unwrap();
    yard.wharf.add_agent(name, Profile::Agent).await.unwrap();
    let settings = wharfinger::AgentSettings {
        new_tools_restricted: Some(false),
        ..wharfinger::AgentSettings::default()
    };
    yard.wharf.set_agent("bot", settings).await.unwrap();
}

fn of_bot(yard: &Yard, id: &str) -> Session {
    yard.session_as("bot", id, Declared::default())
}

fn needed(wharf: &Wharf, agent: &str) -> (Vec<String>, Status) {
    let report = wharf.reports(&AgentName::new(agent).unwrap()).remove(0);
    (report.needs_keys, report.status)
}

#[tokio::test(flavor = "multi_thread")]
async fn a99_a_server_starts_with_its_secrets_or_not_at_all() {
    let started = Home::new();
    let count = format!("count-starts={}", started.file("starts").display());
    let more = json!({ "env": {
        "TOKEN": "${secret:TOKEN}", "BEARER": "Bearer ${secret:TOKEN}", "MAYBE": "${secret:MAYBE?}",
    }});
    let servers = json!({ "s": fake(&["tool=env", &count], more) });
    let yard = Yard::new(servers.clone()).await;
    let session = yard.session("one");
    assert_eq!(names(&session).await, Vec::<String>::new());
    let (needs, status) = needed(&yard.wharf, "default");
    assert_eq!(needs, ["TOKEN"]);
    assert_eq!(status.to_string(), "needs TOKEN");
    let missing = yard.wharf.unavailable().remove(0).1;
    assert!(
        missing.contains("it needs TOKEN, which is not set: `wharf secret set s TOKEN` sets it"),
        "{missing}"
    );
    assert!(started.lines("starts").is_empty(), "nothing was started");

    set(&yard, "TOKEN", "t-1", None).await;
    // Without waiting for the next attempt of what had failed.
    assert_eq!(names(&session).await, ["env"]);
    let got = env(&session, "env").await;
    assert_eq!((&*got["TOKEN"], &*got["BEARER"]), ("t-1", "Bearer t-1"));
    assert!(!got.contains_key("MAYBE"), "{got:?}");
    assert_eq!(needed(&yard.wharf, "default").0, Vec::<String>::new());

    // A change is for the next start.
    set(&yard, "TOKEN", "t-2", None).await;
    set(&yard, "MAYBE", "m-1", None).await;
    assert_eq!(env(&session, "env").await["TOKEN"], "t-1");
    yard.wharf.restart_server("s", None).await;
    let got = env(&session, "env").await;
    assert_eq!((&*got["TOKEN"], &*got["MAYBE"]), ("t-2", "m-1"));

    // After a restart, the tools are known without a start.
    let home = yard.close().await;
    let before = started.lines("starts").len();
    let yard = Yard::at(home, servers, json!({}), host()).await;
    assert_eq!(names(&yard.session("two")).await, ["env"]);
    assert_eq!(started.lines("starts").len(), before);
    assert_eq!(env(&yard.session("two"), "env").await["TOKEN"], "t-2");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a102_the_agents_own_value_comes_before_the_owners() {
    let yard = Yard::new(taking(&json!({ "TOKEN": "${secret:TOKEN}", "PLAIN": "p" }))).await;
    bot(&yard).await;
    set(&yard, "TOKEN", "app", None).await;
    yard.wharf.attach("bot", "s").await.unwrap();
    let session = of_bot(&yard, "one");
    assert_eq!(env(&session, "mcp_s_env").await["TOKEN"], "app");
    set(&yard, "TOKEN", "own", Some("bot")).await;
    assert_eq!(
        env(&session, "mcp_s_env").await["TOKEN"],
        "app",
        "what runs keeps it"
    );
    yard.wharf.restart_server("s", None).await;
    let own = env(&session, "mcp_s_env").await;
    assert_eq!((&*own["TOKEN"], &*own["PLAIN"]), ("own", "p"));
    assert_eq!(
        env(&yard.session("d"), "env").await["TOKEN"],
        "app",
        "others have the owner's"
    );
    let listed = yard.wharf.secrets().secrets;
    let listed: Vec<_> = listed
        .iter()
        .map(|one| (one.agent.as_deref(), one.required, one.set))
        .collect();
    assert_eq!(listed, [(None, true, true), (Some("bot"), false, true)]);
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a99_a_server_for_which_only_an_agent_has_the_key_works_for_that_agent() {
    let yard = Yard::new(taking(&json!({ "TOKEN": "${secret:TOKEN}" }))).await;
    bot(&yard).await;
    set(&yard, "TOKEN", "own", Some("bot")).await;
    assert_eq!(needed(&yard.wharf, "bot").0, Vec::<String>::new());
    assert_eq!(needed(&yard.wharf, "default").0, ["TOKEN"]);
    let session = of_bot(&yard, "one");
    assert_eq!(env(&session, "mcp_s_env").await["TOKEN"], "own");
    let refused = say(&yard.session("d"), "env", json!({})).await;
    assert!(refused.contains("it needs TOKEN"), "{refused}");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a100_credentials_are_found_under_the_package_first_and_then_under_the_servers_name() {
    let yard = Yard::new(taking(&json!({ "TOKEN": "${secret:TOKEN}" }))).await;
    bot(&yard).await;
    yard.wharf.attach("bot", "s").await.unwrap();
    let home = yard.close().await;
    let file = open_bot(&home);
    file.set_secret("mcp:s:TOKEN", b"name", SetBy::Owner)
        .unwrap();
    file.edit(|draft| {
        draft.config["mcp"]["servers"][0]["npm_package"] = json!("@scope/pack");
        Ok::<_, ()>(())
    })
    .unwrap();
    file.close().unwrap();
    let servers = taking(&json!({ "TOKEN": "${secret:TOKEN}" }));
    let yard = Yard::at(home, servers, json!({}), host()).await;
    let session = of_bot(&yard, "one");
    assert_eq!(env(&session, "mcp_s_env").await["TOKEN"], "name");
    set(&yard, "TOKEN", "pack", Some("bot")).await;
    yard.wharf.restart_server("s", None).await;
    assert_eq!(env(&session, "mcp_s_env").await["TOKEN"], "pack");
    // Removing it removes both, and with the last one the server goes.
    let server = ServerName::new("s").unwrap();
    let removed = yard
        .wharf
        .remove_secret(&server, "TOKEN", Some("bot"))
        .await;
    assert_eq!(removed.unwrap().attached, Some(false));
    assert_eq!(yard.wharf.secrets().secrets.len(), 1, "only what is needed");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a103_a105_values_are_in_no_file_and_the_agent_sees_none() {
    let yard = Yard::new(taking(
        &json!({ "TOKEN": "${secret:TOKEN}", "OWN": "${secret:OWN}" }),
    ))
    .await;
    bot(&yard).await;
    set(&yard, "TOKEN", "hunter2-hunter2-app", None).await;
    set(&yard, "OWN", "hunter2-hunter2-own", Some("bot")).await;
    let session = of_bot(&yard, "one");
    let got = env(&session, "mcp_s_env").await;
    assert_eq!((&*got["TOKEN"], &*got["OWN"]), ("[REDACTED]", "[REDACTED]"));
    let shown = serde_json::to_string(&yard.wharf.secrets()).unwrap();
    assert!(!shown.contains("hunter2"), "{shown}");
    let home = yard.close().await;
    let mut folders = vec![home.path().to_owned()];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for found in std::fs::read_dir(folder).unwrap() {
            let path = found.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.is_file() {
                let bytes = std::fs::read(&path).unwrap();
                let is_there = bytes.windows(7).any(|part| part == b"hunter2");
                assert!(!is_there, "it is in {}", path.display());
                files += 1;
            }
        }
    }
    assert!(files >= 4, "vault, key, database and the agent's file");
}

#[tokio::test(flavor = "multi_thread")]
async fn a104_what_a_server_was_given_is_named_in_the_agents_row() {
    let yard = Yard::new(json!({ "s": fake(&["tool=env"], json!({})) })).await;
    bot(&yard).await;
    yard.wharf.attach("bot", "s").await.unwrap();
    let later = taking(&json!({ "TOKEN": "${secret:TOKEN}", "PLAIN": "p", "NO": "${secret:NO?}" }));
    let change = yard.wharf.change(load(&inputs(&later, &json!({}), host())));
    change.await;
    set(&yard, "TOKEN", "app", None).await;
    let session = of_bot(&yard, "one");
    assert_eq!(env(&session, "mcp_s_env").await["TOKEN"], "app");
    // What was begun is made to its end.
    let home = yard.close().await;
    let schema = open_bot(&home).config()["mcp"]["servers"][0]["env_schema"].clone();
    let app = |key: &str| json!({ "key": key, "scope": "app" });
    assert_eq!(schema, json!([app("TOKEN"), app("PLAIN")]));
}

/// The file of `bot`, while no wharf has it.
fn open_bot(home: &Home) -> AgentFile {
    let keys = Keys::load_or_create(home.path()).unwrap();
    AgentFile::open(&home.file("agents/bot.adf"), &keys).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a107_a_variable_that_the_owner_leaves_to_the_agent_is_set_for_it() {
    let yard = Yard::new(taking(&json!({ "PLAIN": "p" }))).await;
    bot(&yard).await;
    set(&yard, "EXTRA", "x-1", Some("bot")).await;
    let got = env(&of_bot(&yard, "one"), "mcp_s_env").await;
    assert_eq!((&*got["EXTRA"], &*got["PLAIN"]), ("x-1", "p"));
    let server = ServerName::new("s").unwrap();
    let refuse = async |key: &str, agent: &str| {
        let set = yard
            .wharf
            .set_secret(&server, key, secret("x"), Some(agent));
        set.await.unwrap_err()
    };
    for key in ["PLAIN", "plain", "LD_PRELOAD", "PATH"] {
        let refused = refuse(key, "bot").await;
        assert!(matches!(refused, SecretError::Useless { .. }), "{refused}");
    }
    assert!(matches!(
        refuse("TOKEN", "nobody").await,
        SecretError::Agent(wharfinger::AgentError::Unknown { .. })
    ));
    let server = ServerName::new("other").unwrap();
    let unset = yard.wharf.remove_secret(&server, "K", None).await;
    assert!(matches!(unset, Err(SecretError::Unset { .. })));
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a108_a_credential_brings_the_server_and_the_last_one_takes_it_away() {
    let servers = json!({
        "s": fake(&["tool=env"], json!({ "env": { "TOKEN": "${secret:TOKEN}" } })),
        "s_2": fake(&[], json!({})),
    });
    let yard = Yard::new(servers.clone()).await;
    bot(&yard).await;
    let server = ServerName::new("s").unwrap();
    let attached = || {
        let state = yard.wharf.agent_state("bot").unwrap();
        let all = state.attached.iter();
        all.map(|one| one.name.to_string()).collect::<Vec<_>>()
    };
    let first = yard
        .wharf
        .set_secret(&server, "TOKEN", secret("a"), Some("bot"));
    assert_eq!(first.await.unwrap().attached, Some(true));
    let second = yard
        .wharf
        .set_secret(&server, "MORE", secret("b"), Some("bot"));
    assert_eq!(second.await.unwrap().attached, None);
    assert_eq!(attached(), ["s"]);
    let removed = yard.wharf.remove_secret(&server, "MORE", Some("bot")).await;
    assert_eq!(removed.unwrap().attached, None);
    let removed = yard
        .wharf
        .remove_secret(&server, "TOKEN", Some("bot"))
        .await;
    assert_eq!(removed.unwrap().attached, Some(false));
    assert_eq!(attached(), Vec::<String>::new());

    // Detaching forgets them: by the exact name.
    yard.wharf.attach("bot", "s_2").await.unwrap();
    set(&yard, "TOKEN", "a", Some("bot")).await;
    let home = yard.close().await;
    let file = open_bot(&home);
    for purpose in ["mcp:s_2:K", "mcp:sX2:K", "mcp:s_2:file:~/k"] {
        file.set_secret(purpose, b"1", SetBy::Owner).unwrap();
    }
    file.close().unwrap();
    let yard = Yard::at(home, servers, json!({}), host()).await;
    yard.wharf.detach("bot", "s_2").await.unwrap();
    let home = yard.close().await;
    let left = open_bot(&home).purposes("mcp:").unwrap();
    assert_eq!(left, ["mcp:s:TOKEN", "mcp:sX2:K"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a109_credentials_are_written_by_the_program_that_has_the_file() {
    let servers = taking(&json!({ "TOKEN": "${secret:TOKEN}" }));
    let yard = Yard::new(servers.clone()).await;
    bot(&yard).await;
    // While it is open here, nobody else opens it, and what is set goes through here.
    let keys = Keys::load_or_create(yard.home.path()).unwrap();
    let path = yard.home.file("agents/bot.adf");
    let second = AgentFile::open(&path, &keys).unwrap_err().to_string();
    assert!(second.contains("another program has"), "{second}");
    set(&yard, "TOKEN", "own", Some("bot")).await;
    let home = yard.close().await;
    let elsewhere = open_bot(&home);
    assert_eq!(elsewhere.purposes("mcp:").unwrap(), ["mcp:s:TOKEN"]);
    // While it is open there, nothing is set here.
    let yard = Yard::at(home, servers, json!({}), host()).await;
    let server = ServerName::new("s").unwrap();
    let set = yard
        .wharf
        .set_secret(&server, "TOKEN", secret("new"), Some("bot"));
    let refused = set.await.unwrap_err().to_string();
    assert!(refused.contains("another program has"), "{refused}");
    elsewhere.close().unwrap();
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a112_a_locked_envelope_gives_nothing_and_says_what_to_do() {
    let servers = taking(&json!({ "TOKEN": "${secret:TOKEN}", "MAYBE": "${secret:MAYBE?}" }));
    let yard = Yard::new(servers.clone()).await;
    bot(&yard).await;
    set(&yard, "TOKEN", "own", Some("bot")).await;
    set(&yard, "MAYBE", "own", Some("bot")).await;
    let home = yard.close().await;
    // Another machine's keys: what is sealed in the file is foreign here.
    std::fs::remove_file(home.file("identity.json")).unwrap();
    let yard = Yard::at(home, servers, json!({}), host()).await;
    let server = ServerName::new("s").unwrap();
    let store = yard
        .wharf
        .set_secret(&server, "TOKEN", secret("new"), Some("bot"));
    let refused = store.await.unwrap_err().to_string();
    assert!(refused.contains("foreign"), "{refused}");
    // Without a key of its own it has its owner's.
    set(&yard, "TOKEN", "app", None).await;
    let got = env(&of_bot(&yard, "one"), "mcp_s_env").await;
    assert_eq!(got["TOKEN"], "app");
    assert!(!got.contains_key("MAYBE"), "{got:?}");
    yard.wharf
        .remove_secret(&server, "TOKEN", None)
        .await
        .unwrap();
    yard.wharf.restart_server("s", None).await;
    names(&of_bot(&yard, "one")).await;
    let missing = yard.wharf.unavailable().remove(0).1;
    assert!(missing.contains("it needs TOKEN"), "{missing}");
    assert!(missing.contains("foreign"), "{missing}");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a112_a_locked_vault_keeps_what_needs_it_from_starting_until_it_is_unlocked() {
    let home = Home::new();
    let file = home.file("vault.json");
    let under = vault::Options {
        file,
        passphrase: Some(secret("correct horse")),
        ..vault::Options::default()
    };
    let made = Vault::open(under).await;
    made.set("s", "TOKEN", &secret("t-1")).await.unwrap();
    drop(made);
    let servers = taking(&json!({ "TOKEN": "${secret:TOKEN}" }));
    let yard = Yard::at(home, servers, json!({}), host()).await;
    assert_eq!(yard.wharf.vault().state, VaultState::Locked);
    let session = yard.session("one");
    names(&session).await;
    let missing = yard.wharf.unavailable().remove(0).1;
    assert!(missing.contains("`wharf secret unlock`"), "{missing}");
    assert_eq!(needed(&yard.wharf, "default").0, Vec::<String>::new());
    let wrong = secret("wrong horse");
    assert!(yard.wharf.unlock_vault(Some(&wrong)).await.is_err());
    let right = secret("correct horse");
    let opened = yard.wharf.unlock_vault(Some(&right)).await.unwrap();
    assert_eq!(opened.state, VaultState::Unlocked);
    assert_eq!(env(&session, "env").await["TOKEN"], "t-1");
    let result = call(&session, "env", json!({})).await.unwrap();
    assert!(text(&result).contains("t-1"));
    yard.close().await;
}
