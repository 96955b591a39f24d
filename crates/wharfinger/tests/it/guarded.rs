//! What an agent, its file, or whoever comes late must not get around.

use std::task::Poll;

use serde_json::{Value, json};
use wharfinger::agentfile::{AgentFile, Keys, NewAgent};
use wharfinger::model::{AgentName, Profile, ToolStatus};
use wharfinger::policy::Flag;
use wharfinger::{AgentError, AgentSettings, AgentTool, Refusal, Session, Target, ToolCall, Which};
use wharfinger_testkit::{Home, fake_server, poll_until};

use crate::gate::{ECHO, bot, session};
use crate::yard::{Yard, call, fake, host, names, text};

/// A home in which agents may run what they install on this machine.
async fn open_yard(home: Home) -> Yard {
    let config = json!({ "daemon": { "hostAccess": true } });
    Yard::at(home, json!({}), config, host()).await
}

/// With an agent `bot` that may install what it likes, and asks nobody.
async fn installer(home: Home) -> Yard {
    let yard = open_yard(home).await;
    let name = AgentName::new("bot").unwrap();
    yard.wharf.add_agent(name, Profile::Agent).await.unwrap();
    let settings = AgentSettings {
        host_access: Some(true),
        new_tools_restricted: Some(false),
        ..AgentSettings::default()
    };
    yard.wharf.set_agent("bot", settings).await.unwrap();
    for tool in ["mcp_install", "mcp_restart", "mcp_uninstall"] {
        switch(&yard, tool, Flag::Enabled, true).await;
        switch(&yard, tool, Flag::Restricted, false).await;
    }
    yard
}

async fn switch(yard: &Yard, tool: &str, flag: Flag, on: bool) {
    let which = Which::Tool(tool.into());
    yard.wharf
        .switch_tools("bot", which, flag, on)
        .await
        .unwrap();
}

/// What a tool of its own answers the agent.
async fn ask(session: &Session, tool: &str, arguments: Value) -> Value {
    let result = call(session, tool, arguments).await.unwrap();
    serde_json::from_str(text(&result)).unwrap()
}

/// Installs the fake server as `mine`.
async fn install(session: &Session, modes: &[&str]) -> Value {
    let mine = json!({
        "type": "custom", "name": "mine", "package": fake_server(), "args": modes, "host": true,
    });
    ask(session, "mcp_install", mine).await
}

fn tool(yard: &Yard, name: &str) -> Option<AgentTool> {
    let tools = yard.wharf.agent_tools("bot").unwrap();
    tools.into_iter().find(|tool| tool.name == name)
}

/// What the only server of an agent does not run for.
fn problem(yard: &Yard, agent: &str) -> Option<String> {
    let state = yard.wharf.agent_state(agent).unwrap();
    state.attached[0].problem.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_still_has_the_name_of_a_removed_agent_gets_no_server() {
    let yard = bot(&[]).await;
    let early = session(&yard, "early");
    yard.wharf.remove_agent("bot").await.unwrap();
    assert!(!early.is_open());
    // A connection that was opened before begins its session now.
    let late = session(&yard, "late");
    assert!(names(&late).await.is_empty());
    let params = serde_json::value::RawValue::from_string("{\"name\":\"echo\"}".into()).unwrap();
    let direct = ToolCall {
        target: Target::Direct {
            server: "s",
            tool: "pid",
        },
        ..ToolCall::new("pid", &params)
    };
    let refusals = [
        call(&late, "pid", json!({})).await.unwrap_err(),
        late.call(direct, |_| ()).await.unwrap_err(),
    ];
    for refusal in refusals {
        assert!(matches!(refusal, Refusal::Unavailable(_)), "{refusal:?}");
        assert!(refusal.to_string().contains("removed"), "{refusal}");
    }
    // Another one of that name is another one.
    let name = AgentName::new("bot").unwrap();
    yard.wharf.add_agent(name, Profile::Chat).await.unwrap();
    let again = session(&yard, "again");
    assert!(!names(&again).await.is_empty());
    yard.wharf.shut_down().await;
    let after = session(&yard, "after");
    assert!(names(&after).await.is_empty());
    let refusal = call(&after, "pid", json!({})).await.unwrap_err();
    assert!(refusal.to_string().contains("stopping"), "{refusal}");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_agent_has_installed_and_is_another_after_a_restart_is_off() {
    let home = Home::new();
    let starts = Yard::mode(&home, "schema-by-start", "starts");
    let yard = installer(home).await;
    let session = session(&yard, "one");
    names(&session).await;
    let said = install(&session, &[&starts]).await;
    assert_eq!(said["success"], true, "{said}");
    let said = ask(&session, "mcp_restart", json!({ "name": "mine" })).await;
    assert_eq!(said["success"], true, "{said}");
    poll_until("the change to be seen", tokio::time::sleep, || {
        tool(&yard, "mcp_mine_work").unwrap().status == Some(ToolStatus::Changed)
    })
    .await;
    let changed = tool(&yard, "mcp_mine_work").unwrap();
    assert!(!changed.enabled && !changed.visible && changed.restricted);
    let refusal = call(&session, "mcp_mine_work", json!({}))
        .await
        .unwrap_err();
    assert!(refusal.to_string().contains("changed"), "{refusal}");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_says_its_agent_is_a_chat_is_asked_about() {
    let yard = open_yard(Home::new()).await;
    let path = yard.home.file("theirs.adf");
    let new = NewAgent {
        name: "theirs".into(),
        meta: vec![("wharfinger_profile".into(), "chat".into())],
        config: json!({}),
    };
    let keys = Keys::load_or_create(yard.home.path()).unwrap();
    AgentFile::create(&path, &new, &keys)
        .unwrap()
        .close()
        .unwrap();
    let refused = yard.wharf.import_agent(path.clone(), None, false).await;
    let Err(AgentError::Unconfirmed { runs }) = refused else {
        panic!("{refused:?}");
    };
    assert!(
        runs[0].starts_with("every server that is registered"),
        "{runs:?}"
    );
    let name = yard.wharf.import_agent(path, None, true).await.unwrap();
    let state = yard.wharf.agent_state(name.as_str()).unwrap();
    assert_eq!(state.profile, wharfinger::model::Profile::Chat);
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_file_says_of_its_owner_is_no_reason_to_run_it() {
    let yard = open_yard(Home::new()).await;
    let here = Keys::load_or_create(yard.home.path()).unwrap();
    let other = Keys::from_words(&here.owner_words()).unwrap();
    assert_eq!(here.owner_did(), other.owner_did());
    let path = yard.home.file("theirs.adf");
    let new = NewAgent {
        name: "theirs".into(),
        meta: vec![],
        config: json!({
            "compute": { "host_access": true },
            "mcp": { "servers": [{
                "name": "own", "source": "custom", "run_location": "host", "command": fake_server(), "args": [],
            }] },
        }),
    };
    let made = AgentFile::create(&path, &new, &other).unwrap();
    // What anybody could write.
    made.set_meta("wharfinger_confirmed", here.owner_did())
        .unwrap();
    made.close().unwrap();
    let refused = yard.wharf.import_agent(path.clone(), None, false).await;
    assert!(
        matches!(refused, Err(AgentError::Unconfirmed { .. })),
        "{refused:?}"
    );
    std::fs::copy(&path, yard.home.file("agents/theirs.adf")).unwrap();
    let yard = open_yard(yard.close().await).await;
    let said = problem(&yard, "theirs").unwrap();
    assert!(said.contains("wharf agent confirm theirs"), "{said}");
    // What was confirmed stays so here, and does not go with a copy.
    yard.wharf.confirm_agent("theirs").await.unwrap();
    let yard = open_yard(yard.close().await).await;
    assert_eq!(problem(&yard, "theirs"), None);
    let copy = yard.home.file("copy.adf");
    yard.wharf
        .export_agent("theirs", copy.clone())
        .await
        .unwrap();
    yard.wharf.remove_agent("theirs").await.unwrap();
    let refused = yard.wharf.import_agent(copy.clone(), None, false).await;
    assert!(
        matches!(refused, Err(AgentError::Unconfirmed { .. })),
        "{refused:?}"
    );
    yard.wharf.import_agent(copy, None, true).await.unwrap();
    let yard = open_yard(yard.close().await).await;
    assert_eq!(problem(&yard, "theirs"), None);
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_agent_of_this_home_has_installed_runs_after_a_restart() {
    let yard = installer(Home::new()).await;
    let one = session(&yard, "one");
    names(&one).await;
    let said = install(&one, &[]).await;
    assert_eq!(said["success"], true, "{said}");
    let yard = open_yard(yard.close().await).await;
    assert_eq!(problem(&yard, "bot"), None);
    let two = session(&yard, "two");
    assert!(names(&two).await.contains(&"mcp_mine_work".to_owned()));
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_was_begun_is_made_whoever_goes_away() {
    let yard = installer(Home::new()).await;
    for on in [true, false, true, false] {
        let settings = AgentSettings {
            new_tools_restricted: Some(on),
            ..AgentSettings::default()
        };
        {
            let mut change = std::pin::pin!(yard.wharf.set_agent("bot", settings));
            // It is begun, and dropped.
            std::future::poll_fn(|cx| {
                drop(change.as_mut().poll(cx));
                Poll::Ready(())
            })
            .await;
        }
        poll_until("the change", tokio::time::sleep, || {
            let state = yard.wharf.agent_state("bot").unwrap();
            state.new_tools_restricted == on
        })
        .await;
    }
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_too_large_to_be_kept_is_refused_before_it_is_written() {
    let yard = bot(&[]).await;
    let one = session(&yard, "one");
    names(&one).await;
    let large = json!({ "message": "x".repeat(1 << 20) });
    let refusal = call(&one, ECHO, large).await.unwrap_err();
    assert!(refusal.to_string().contains("1048576"), "{refusal}");
    assert!(yard.wharf.approvals().is_empty());
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_an_agent_does_not_wait_for_its_copy() {
    let yard = bot(&[]).await;
    let one = session(&yard, "one");
    names(&one).await;
    let waits = json!({ "message": "x", "_async": true });
    call(&one, ECHO, waits).await.unwrap();
    let copy = yard.home.file("twin.adf");
    yard.wharf.export_agent("bot", copy.clone()).await.unwrap();
    let twin = AgentName::new("twin").unwrap();
    let imported = yard.wharf.import_agent(copy, Some(twin), true).await;
    imported.unwrap();
    let yard = open_yard(yard.close().await).await;
    let agents: Vec<_> = yard.wharf.approvals().into_iter().collect();
    let agents: Vec<_> = agents
        .iter()
        .map(|one| one.binding.agent.as_str())
        .collect();
    assert_eq!(agents, ["bot"]);
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_does_not_lose_what_its_owner_decided_by_installing_anew() {
    let yard = installer(Home::new()).await;
    let one = session(&yard, "one");
    names(&one).await;
    let said = install(&one, &[]).await;
    assert_eq!(said["success"], true, "{said}");
    switch(&yard, "mcp_mine_work", Flag::Enabled, false).await;
    switch(&yard, "mcp_mine_echo", Flag::Restricted, true).await;
    let said = ask(&one, "mcp_uninstall", json!({ "name": "mine" })).await;
    assert_eq!(said["success"], true, "{said}");
    let said = install(&one, &[]).await;
    assert_eq!(said["success"], true, "{said}");
    let flags = |name: &str| {
        let tool = tool(&yard, name).unwrap();
        (tool.enabled, tool.restricted)
    };
    assert_eq!(flags("mcp_mine_work"), (false, false));
    assert_eq!(flags("mcp_mine_echo"), (true, true));
    assert_eq!(flags("mcp_mine_pid"), (true, false));
    // The owner takes all of it away.
    yard.wharf.detach("bot", "mine").await.unwrap();
    assert!(tool(&yard, "mcp_mine_work").is_none());
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_agent_has_installed_does_not_take_the_place_of_a_server_of_its_owner() {
    let yard = installer(Home::new()).await;
    let one = session(&yard, "one");
    names(&one).await;
    let said = install(&one, &["say=own"]).await;
    assert_eq!(said["success"], true, "{said}");
    // The owner registers another one of that name, with the same tools.
    let home = yard.close().await;
    let servers = json!({ "mine": fake(&["say=owner"], json!({})) });
    let config = json!({ "daemon": { "hostAccess": true } });
    let yard = Yard::at(home, servers, config, host()).await;
    let two = session(&yard, "two");
    names(&two).await;
    let result = call(&two, "mcp_mine_work", json!({})).await.unwrap();
    assert_eq!(text(&result), "owner");
    // And takes it away again.
    let yard = open_yard(yard.close().await).await;
    let said = problem(&yard, "bot").unwrap();
    assert!(said.contains("install it anew"), "{said}");
    let three = session(&yard, "three");
    names(&three).await;
    assert!(call(&three, "mcp_mine_work", json!({})).await.is_err());
    assert!(yard.processes().is_empty());
    yard.close().await;
}
