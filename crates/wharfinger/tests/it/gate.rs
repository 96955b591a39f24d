//! Agents of the agent profile, from the file to the call: what they see, and what waits for a person.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use wharfinger::approvals::{Approval, Caller, Decision, Scope, Stage};
use wharfinger::journal::{Filter, Part};
use wharfinger::model::{AgentName, Declared, Profile, ToolStatus};
use wharfinger::policy::Flag;
use wharfinger::{Decider, DecisionError, Refusal, Session, ToolCall, Wharf, Which};
use wharfinger_testkit::{Home, poll_until};

use crate::yard::{Yard, call, fake, host, names, text};

pub(crate) const ECHO: &str = "mcp_s_echo";

/// An agent `bot` of the agent profile, to which the server `s` is attached.
pub(crate) async fn bot(modes: &[&str]) -> Yard {
    let yard = Yard::new(json!({ "s": fake(modes, json!({})) })).await;
    make_bot(&yard).await;
    yard
}

pub(crate) async fn make_bot(yard: &Yard) {
    let name = AgentName::new("bot").unwrap();
    yard.wharf.add_agent(name, Profile::Agent).await.unwrap();
    yard.wharf.attach("bot", "s").await.unwrap();
}

pub(crate) fn session(yard: &Yard, id: &str) -> Session {
    yard.session_as("bot", id, Declared::default())
}

/// A call on a task of its own; the tools were listed before.
fn calling(
    session: &Session,
    name: &str,
    arguments: Value,
    patience: Option<Duration>,
) -> tokio::task::JoinHandle<Result<Value, Refusal>> {
    let (session, name) = (session.clone(), name.to_owned());
    tokio::spawn(async move {
        let params = json!({ "name": name, "arguments": arguments }).to_string();
        let params = serde_json::value::RawValue::from_string(params).unwrap();
        let call = ToolCall {
            patience,
            ..ToolCall::new(&name, &params)
        };
        let result = session.call(call, |_| ()).await?;
        Ok(serde_json::from_str(result.get()).unwrap())
    })
}

/// The approvals that are open, as soon as there are so many.
async fn open(wharf: &Wharf, count: usize) -> Vec<Approval> {
    poll_until("approvals", tokio::time::sleep, || {
        wharf.approvals().len() == count
    })
    .await;
    wharf.approvals()
}

fn yes() -> Decision {
    Decision::Approve {
        arguments: None,
        scope: Scope::Once,
    }
}

async fn approve(wharf: &Wharf, approval: &Approval, scope: Scope) {
    let decision = Decision::Approve {
        arguments: None,
        scope,
    };
    wharf
        .decide(&approval.id, decision, Decider::Owner)
        .await
        .unwrap();
}

async fn rows(wharf: &Wharf, kind: &str) -> Vec<wharfinger::journal::Row> {
    wharf.journal().flush().await;
    let filter = Filter {
        kind: Some(kind.into()),
        ..Filter::default()
    };
    wharf
        .journal()
        .rows(filter, Part::Latest, 100)
        .await
        .unwrap()
}

/// Until there are so many rows of a kind.
async fn poll_async(wharf: &Wharf, kind: &str, count: usize) {
    let limit = Duration::from_secs(30);
    let all = async {
        while rows(wharf, kind).await.len() < count {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(limit, all).await.expect(kind);
}

/// Whoever calls is told at once that it waits.
const NO_PATIENCE: Option<Duration> = Some(Duration::ZERO);

#[tokio::test(flavor = "multi_thread")]
async fn a144_a150_tools_of_an_attached_server_arrive_restricted_under_names_of_their_own() {
    let yard = bot(&[]).await;
    let session = session(&yard, "one");
    let mut seen = names(&session).await;
    seen.sort();
    assert_eq!(
        seen,
        [
            "mcp_s_cwd",
            "mcp_s_echo",
            "mcp_s_env",
            "mcp_s_pid",
            "mcp_s_work"
        ]
    );
    for tool in yard.wharf.agent_tools("bot").unwrap() {
        if tool.server.is_some() {
            assert_eq!(
                (tool.enabled, tool.visible, tool.restricted, tool.status),
                (true, true, true, Some(ToolStatus::New)),
                "{}",
                tool.name
            );
        } else {
            // A89
            assert!(!tool.enabled && !tool.visible, "{}", tool.name);
        }
    }
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a223_a_restricted_call_waits_for_one_yes_and_a_repeat_for_another() {
    let yard = bot(&[]).await;
    let session = session(&yard, "one");
    names(&session).await;
    let waiting = calling(&session, ECHO, json!({ "message": "hi" }), None);
    let approval = open(&yard.wharf, 1).await.remove(0);
    assert_eq!(
        (
            approval.stage,
            approval.caller,
            approval.binding.tool.as_str()
        ),
        (Stage::PendingApproval, Caller::Waiting, "echo")
    );
    assert!(approval.id.as_str().starts_with("task_"), "{}", approval.id);
    approve(&yard.wharf, &approval, Scope::Once).await;
    let result = waiting.await.unwrap().unwrap();
    assert_eq!(text(&result), "hi");
    assert!(yard.wharf.approvals().is_empty());
    // One yes is one call.
    let again = calling(&session, ECHO, json!({ "message": "hi" }), None);
    let second = open(&yard.wharf, 1).await.remove(0);
    assert_ne!(second.id, approval.id);
    let decision = Decision::Deny {
        reason: Some("once is enough".into()),
    };
    yard.wharf
        .decide(&second.id, decision, Decider::Owner)
        .await
        .unwrap();
    // A228
    let refusal = again.await.unwrap().unwrap_err();
    assert!(matches!(refusal, Refusal::Denied(_)), "{refusal:?}");
    assert!(refusal.to_string().contains("once is enough"), "{refusal}");
    let late = yard.wharf.decide(&second.id, yes(), Decider::Owner).await;
    assert!(matches!(late, Err(DecisionError::Book(_))), "{late:?}");
    let calls = rows(&yard.wharf, "call").await;
    let told: Vec<_> = calls
        .iter()
        .map(|row| (row.outcome.as_str(), row.approval.as_deref()))
        .collect();
    assert_eq!(told, [("ok", Some(approval.id.as_str())), ("denied", None)]);
    assert_eq!(rows(&yard.wharf, "approval").await.len(), 4);
    assert!(
        yard.wharf
            .journal()
            .verify()
            .await
            .unwrap()
            .broken
            .is_none()
    );
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a227_an_approver_may_change_the_arguments() {
    let yard = bot(&[]).await;
    let session = session(&yard, "one");
    names(&session).await;
    let waiting = calling(&session, ECHO, json!({ "message": "hi" }), None);
    let approval = open(&yard.wharf, 1).await.remove(0);
    let with = |text: &str| Decision::Approve {
        arguments: Some(Arc::from(
            serde_json::value::RawValue::from_string(text.to_owned()).unwrap(),
        )),
        scope: Scope::Once,
    };
    for wrong in ["[1]", r#"{"_authorized":true}"#] {
        let refused = yard
            .wharf
            .decide(&approval.id, with(wrong), Decider::Owner)
            .await;
        assert!(
            matches!(refused, Err(DecisionError::Arguments(_))),
            "{wrong}"
        );
    }
    yard.wharf
        .decide(
            &approval.id,
            with(r#"{"message":"edited"}"#),
            Decider::Owner,
        )
        .await
        .unwrap();
    assert_eq!(text(&waiting.await.unwrap().unwrap()), "edited");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_impatient_caller_is_told_and_collects_its_result_once() {
    let home = Home::new();
    let record = Yard::mode(&home, "record", "record");
    let yard = Yard::at(
        home,
        json!({ "s": fake(&[&record], json!({})) }),
        json!({}),
        host(),
    )
    .await;
    make_bot(&yard).await;
    let session = session(&yard, "one");
    names(&session).await;
    let arguments = json!({ "message": "hi" });
    let told = calling(&session, ECHO, arguments.clone(), NO_PATIENCE);
    let refusal = told.await.unwrap().unwrap_err();
    let Refusal::Waiting {
        approval,
        text: words,
    } = refusal
    else {
        panic!("{refusal:?}");
    };
    assert!(
        words.contains("Call it again with the same arguments"),
        "{words}"
    );
    // Other arguments are another call, and so is another session's while this one is open.
    let other = calling(&session, ECHO, json!({ "message": "ho" }), NO_PATIENCE);
    assert!(other.await.unwrap().is_err());
    assert_eq!(yard.wharf.approvals().len(), 2);
    yard.wharf
        .decide(&approval, yes(), Decider::Owner)
        .await
        .unwrap();
    poll_until("the call to be made", tokio::time::sleep, || {
        let all = yard.wharf.approvals();
        all.iter()
            .any(|one| one.id == approval && one.stage == Stage::Completed)
    })
    .await;
    // The order of members does not count.
    let collected = calling(&session, ECHO, arguments.clone(), NO_PATIENCE);
    assert_eq!(text(&collected.await.unwrap().unwrap()), "hi");
    let again = calling(&session, ECHO, arguments, NO_PATIENCE);
    assert!(
        matches!(again.await.unwrap(), Err(Refusal::Waiting { .. })),
        "a result is collected once"
    );
    let calls = yard.home.lines("record");
    let made = calls.iter().filter(|line| line.contains("tools/call"));
    assert_eq!(made.count(), 1, "{calls:?}");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_at_once_are_asked_about_one_by_one_and_a_told_one_is_gone_on_with() {
    let yard = bot(&[]).await;
    let session = session(&yard, "one");
    names(&session).await;
    let arguments = json!({ "message": "hi" });
    let first = calling(&session, ECHO, arguments.clone(), None);
    open(&yard.wharf, 1).await;
    let second = calling(&session, ECHO, arguments.clone(), None);
    let both = open(&yard.wharf, 2).await;
    for one in &both {
        approve(&yard.wharf, one, Scope::Once).await;
    }
    assert!(first.await.unwrap().is_ok() && second.await.unwrap().is_ok());
    let told = calling(&session, ECHO, arguments.clone(), NO_PATIENCE);
    assert!(told.await.unwrap().is_err());
    let attached = calling(&session, ECHO, arguments, None);
    poll_until("the same call to wait again", tokio::time::sleep, || {
        let all = yard.wharf.approvals();
        all.len() == 1 && all[0].caller == Caller::Waiting
    })
    .await;
    let one = yard.wharf.approvals().remove(0);
    approve(&yard.wharf, &one, Scope::Once).await;
    assert_eq!(text(&attached.await.unwrap().unwrap()), "hi");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_hangs_up_leaves_an_approval_that_runs_nothing_by_itself() {
    let yard = bot(&[]).await;
    let session = session(&yard, "one");
    names(&session).await;
    let arguments = json!({ "message": "hi" });
    let waiting = calling(&session, ECHO, arguments.clone(), None);
    let approval = open(&yard.wharf, 1).await.remove(0);
    waiting.abort();
    waiting.await.ok();
    assert_eq!(yard.wharf.approvals()[0].caller, Caller::Gone);
    approve(&yard.wharf, &approval, Scope::Once).await;
    assert_eq!(yard.wharf.approvals()[0].stage, Stage::Approved);
    let again = calling(&session, ECHO, arguments, None);
    assert_eq!(text(&again.await.unwrap().unwrap()), "hi");
    assert!(yard.wharf.approvals().is_empty());
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_comes_back_while_its_call_is_made_gets_the_result() {
    let home = Home::new();
    let gate = Yard::mode(&home, "wait-for", "gate");
    let record = Yard::mode(&home, "record", "record");
    let servers = json!({ "s": fake(&[&gate, &record], json!({})) });
    let yard = Yard::at(home, servers, json!({}), host()).await;
    make_bot(&yard).await;
    let session = session(&yard, "one");
    names(&session).await;
    let arguments = json!({ "message": "hi" });
    let told = calling(&session, ECHO, arguments.clone(), NO_PATIENCE);
    told.await.unwrap().unwrap_err();
    approve(&yard.wharf, &open(&yard.wharf, 1).await[0], Scope::Once).await;
    poll_until("it to run", tokio::time::sleep, || {
        yard.wharf.approvals()[0].stage == Stage::Running
    })
    .await;
    // It still takes longer than this one waits.
    let still = calling(&session, ECHO, arguments.clone(), NO_PATIENCE);
    let still = still.await.unwrap();
    assert!(matches!(still, Err(Refusal::Waiting { .. })), "{still:?}");
    let back = calling(&session, ECHO, arguments, None);
    poll_until("it to wait again", tokio::time::sleep, || {
        yard.wharf.approvals()[0].caller == Caller::Waiting
    })
    .await;
    std::fs::File::create(yard.home.file("gate")).unwrap();
    assert_eq!(text(&back.await.unwrap().unwrap()), "hi");
    assert!(yard.wharf.approvals().is_empty());
    let lines = yard.home.lines("record");
    let made = lines.iter().filter(|line| line.contains("tools/call"));
    assert_eq!(made.count(), 1);
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_taken_back_while_it_is_made_leaves_nothing_open() {
    let home = Home::new();
    let never = Yard::mode(&home, "wait-for", "never");
    let servers = json!({ "s": fake(&[&never], json!({})) });
    let yard = Yard::at(home, servers, json!({}), host()).await;
    make_bot(&yard).await;
    let session = session(&yard, "one");
    names(&session).await;
    let waiting = calling(&session, ECHO, json!({ "message": "hi" }), None);
    let approval = open(&yard.wharf, 1).await.remove(0);
    approve(&yard.wharf, &approval, Scope::Once).await;
    poll_until("it to run", tokio::time::sleep, || {
        yard.wharf.approvals()[0].stage == Stage::Running
    })
    .await;
    waiting.abort();
    waiting.await.ok();
    assert!(yard.wharf.approvals().is_empty());
    let home = yard.close().await;
    let keys = wharfinger::agentfile::Keys::load_or_create(home.path()).unwrap();
    let path = home.file("agents/bot.adf");
    let file = wharfinger::agentfile::AgentFile::open(&path, &keys).unwrap();
    let task = file.task(approval.id.as_str()).unwrap().unwrap();
    assert_eq!(task.status, wharfinger::agentfile::TaskStatus::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a233_always_lifts_the_restriction_but_not_of_a_locked_tool() {
    let yard = bot(&[]).await;
    let session = session(&yard, "one");
    names(&session).await;
    yard.wharf.lock_tool("bot", ECHO, true).await.unwrap();
    let waiting = calling(&session, ECHO, json!({ "message": "hi" }), None);
    let approval = open(&yard.wharf, 1).await.remove(0);
    let always = || Decision::Approve {
        arguments: None,
        scope: Scope::Always,
    };
    let refused = yard
        .wharf
        .decide(&approval.id, always(), Decider::Owner)
        .await;
    assert!(
        matches!(refused, Err(DecisionError::Scope { .. })),
        "{refused:?}"
    );
    yard.wharf.lock_tool("bot", ECHO, false).await.unwrap();
    // What was asked about is not what it was.
    approve(&yard.wharf, &approval, Scope::Once).await;
    let refusal = waiting.await.unwrap().unwrap_err();
    assert!(
        refusal.to_string().contains("has changed since"),
        "{refusal}"
    );
    let waiting = calling(&session, ECHO, json!({ "message": "hi" }), None);
    let approval = open(&yard.wharf, 1).await.remove(0);
    yard.wharf
        .decide(&approval.id, always(), Decider::Owner)
        .await
        .unwrap();
    assert_eq!(text(&waiting.await.unwrap().unwrap()), "hi");
    let free = call(&session, ECHO, json!({ "message": "free" })).await;
    assert_eq!(text(&free.unwrap()), "free");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_yes_for_the_session_or_the_arguments_is_good_for_them_alone() {
    let yard = bot(&[]).await;
    let one = session(&yard, "one");
    let two = session(&yard, "two");
    names(&one).await;
    names(&two).await;
    let say = |words: &str| json!({ "message": words });
    let waiting = calling(&one, ECHO, say("a"), None);
    approve(&yard.wharf, &open(&yard.wharf, 1).await[0], Scope::Session).await;
    waiting.await.unwrap().unwrap();
    assert!(
        calling(&one, ECHO, say("b"), NO_PATIENCE)
            .await
            .unwrap()
            .is_ok()
    );
    assert!(
        calling(&one, "mcp_s_pid", json!({}), NO_PATIENCE)
            .await
            .unwrap()
            .is_err()
    );
    assert!(
        calling(&two, ECHO, say("b"), NO_PATIENCE)
            .await
            .unwrap()
            .is_err()
    );
    let waiting = calling(&two, ECHO, say("c"), None);
    let asked = open(&yard.wharf, 3).await;
    let asked = asked
        .iter()
        .find(|one| one.arguments.get().contains("\"c\""));
    approve(&yard.wharf, asked.unwrap(), Scope::Arguments).await;
    waiting.await.unwrap().unwrap();
    assert!(
        calling(&two, ECHO, say("c"), NO_PATIENCE)
            .await
            .unwrap()
            .is_ok()
    );
    assert!(
        calling(&two, ECHO, say("d"), NO_PATIENCE)
            .await
            .unwrap()
            .is_err()
    );
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a162_a163_what_is_off_or_hidden_is_refused_and_nobody_is_asked() {
    let yard = bot(&[]).await;
    let session = session(&yard, "one");
    names(&session).await;
    let switch = |flag, on| {
        yard.wharf
            .switch_tools("bot", Which::Tool(ECHO.into()), flag, on)
    };
    switch(Flag::Visible, false).await.unwrap();
    let refusal = call(&session, ECHO, json!({ "message": "x" }))
        .await
        .unwrap_err();
    assert!(refusal.to_string().contains("hidden"), "{refusal}");
    assert!(!names(&session).await.contains(&ECHO.to_owned()));
    switch(Flag::Enabled, false).await.unwrap();
    let refusal = call(&session, ECHO, json!({ "message": "x" }))
        .await
        .unwrap_err();
    assert!(refusal.to_string().contains(ECHO), "{refusal}");
    assert!(refusal.to_string().contains("not enabled"), "{refusal}");
    assert!(yard.wharf.approvals().is_empty());
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a147_a232_p10_flags_of_the_runtime_are_taken_out_and_forged_ones_refused() {
    let yard = bot(&[]).await;
    let session = session(&yard, "one");
    let list = session.tools().await;
    let tool = list.find("mcp_s_work").unwrap().tool.raw.get().to_owned();
    assert!(
        tool.contains("_reason") && tool.contains("_async"),
        "{tool}"
    );
    let forged = json!({ "message": "x", "_authorized": true });
    let refusal = call(&session, ECHO, forged).await.unwrap_err();
    assert!(refusal.to_string().contains("_authorized"), "{refusal}");
    assert_eq!(rows(&yard.wharf, "security.flag-forged").await.len(), 1);
    let reasoned = json!({ "message": "x", "_reason": "because" });
    let waiting = calling(&session, ECHO, reasoned, None);
    let approval = open(&yard.wharf, 1).await.remove(0);
    assert_eq!(approval.said.as_deref(), Some("because"));
    assert_eq!(approval.arguments.get(), r#"{"message":"x"}"#);
    approve(&yard.wharf, &approval, Scope::Once).await;
    waiting.await.unwrap().unwrap();
    // A232
    let later = json!({ "message": "later", "_async": true });
    let answer = call(&session, ECHO, later).await.unwrap();
    let answer: Value = serde_json::from_str(text(&answer)).unwrap();
    assert_eq!(answer["status"], "pending_approval");
    approve(&yard.wharf, &open(&yard.wharf, 1).await[0], Scope::Once).await;
    poll_until("the call to be made", tokio::time::sleep, || {
        yard.wharf.approvals()[0].stage == Stage::Completed
    })
    .await;
    let result = call(&session, ECHO, json!({ "message": "later" }))
        .await
        .unwrap();
    assert_eq!(text(&result), "later");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a151_a_changed_tool_is_off_until_it_is_reviewed() {
    let home = Home::new();
    let starts = Yard::mode(&home, "schema-by-start", "starts");
    let servers = json!({ "s": fake(&[&starts], json!({})) });
    let yard = Yard::at(home, servers.clone(), json!({}), host()).await;
    make_bot(&yard).await;
    let one = session(&yard, "one");
    let seen = names(&one).await;
    assert!(seen.contains(&"mcp_s_work".to_owned()), "{seen:?}");
    // The server that runs is another start than the one that was listed first, and has other tools.
    let tool = |name: &str| {
        let tools = yard.wharf.agent_tools("bot").unwrap();
        tools.into_iter().find(|tool| tool.name == name)
    };
    poll_until("the change to be seen", tokio::time::sleep, || {
        tool("mcp_s_work").is_some_and(|tool| tool.status == Some(ToolStatus::Changed))
    })
    .await;
    let changed = tool("mcp_s_work").unwrap();
    assert!(!changed.enabled && !changed.visible && changed.restricted);
    let lines = changed.change.unwrap().to_string();
    assert!(lines.contains("inputSchema"), "{lines}");
    let refusal = call(&one, "mcp_s_work", json!({})).await.unwrap_err();
    assert!(refusal.to_string().contains("changed"), "{refusal}");
    assert!(!names(&one).await.contains(&"mcp_s_work".to_owned()));
    let by_hand = yard
        .wharf
        .switch_tools("bot", Which::Tool("mcp_s_work".into()), Flag::Enabled, true)
        .await;
    assert!(by_hand.is_err(), "a switch is no review");
    let stale = wharfinger::catalog::Decision::Accept {
        seen: Some("other".into()),
    };
    assert!(
        yard.wharf
            .review_tool("bot", "mcp_s_work", stale)
            .await
            .is_err()
    );
    let accept = wharfinger::catalog::Decision::Accept { seen: changed.hash };
    yard.wharf
        .review_tool("bot", "mcp_s_work", accept)
        .await
        .unwrap();
    assert!(names(&one).await.contains(&"mcp_s_work".to_owned()));
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a93_a97_a_server_comes_and_goes_while_the_agent_runs() {
    let servers = json!({ "s": fake(&[], json!({})), "t": fake(&["tool=only"], json!({})) });
    let yard = Yard::new(servers).await;
    make_bot(&yard).await;
    let session = session(&yard, "one");
    names(&session).await;
    yard.wharf.attach("bot", "t").await.unwrap();
    poll_until("the tools of the new one", tokio::time::sleep, || {
        session.known_tools().find("mcp_t_only").is_some()
    })
    .await;
    poll_until("both to run", tokio::time::sleep, || {
        session.servers_in_use().len() == 2
    })
    .await;
    yard.wharf.detach("bot", "s").await.unwrap();
    assert!(session.known_tools().find(ECHO).is_none(), "at once");
    poll_until("the other to stop", tokio::time::sleep, || {
        session.servers_in_use().len() == 1
    })
    .await;
    let again = yard.wharf.detach("bot", "s").await;
    assert!(again.is_err());
    // A92: what was declared of it went with it.
    let left = yard.wharf.agent_tools("bot").unwrap();
    assert!(
        left.iter()
            .all(|tool| tool.server.as_ref().is_none_or(|s| s.as_str() == "t"))
    );
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a180_servers_of_an_agent_run_while_a_session_is_open() {
    let yard = bot(&[]).await;
    assert_eq!(yard.processes().len(), 0);
    let one = session(&yard, "one");
    poll_until("the server to run", tokio::time::sleep, || {
        one.servers_in_use().len() == 1
    })
    .await;
    one.end().await;
    yard.until_no_process().await;
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a180_what_a_client_without_sessions_started_idles_and_what_a_session_keeps_does_not() {
    let servers = json!({ "s": fake(&["tool=work"], json!({ "idleTimeoutSeconds": 0.1 })) });
    let yard = Yard::new(servers).await;
    make_bot(&yard).await;
    let mut options = wharfinger::SessionOptions::new(
        AgentName::new("bot").unwrap(),
        wharfinger::model::SessionId::new("owner").unwrap(),
    );
    options.lasting = true;
    let owner = yard.wharf.session(options);
    names(&owner).await;
    let call = || {
        let call = calling(&owner, "mcp_s_work", json!({}), None);
        async {
            approve(&yard.wharf, &open(&yard.wharf, 1).await[0], Scope::Once).await;
            text(&call.await.unwrap().unwrap()).to_owned()
        }
    };
    assert_eq!(call().await, "ok 1");
    yard.until_no_process().await;
    let one = session(&yard, "one");
    poll_until("the server to run", tokio::time::sleep, || {
        one.servers_in_use().len() == 1
    })
    .await;
    let began = std::time::Instant::now();
    assert_eq!(call().await, "ok 1");
    poll_until("it to be idle for long enough", tokio::time::sleep, || {
        began.elapsed() > std::time::Duration::from_millis(400)
    })
    .await;
    // The same process: it counts its calls.
    assert_eq!(call().await, "ok 2");
    one.end().await;
    yard.until_no_process().await;
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a231_what_waits_outlives_the_program_and_what_ran_is_unknown() {
    let home = Home::new();
    let never = Yard::mode(&home, "wait-for", "never");
    let servers = json!({ "s": fake(&[&never], json!({})) });
    let yard = Yard::at(home, servers.clone(), json!({}), host()).await;
    make_bot(&yard).await;
    let one = session(&yard, "one");
    names(&one).await;
    let told = calling(&one, ECHO, json!({ "message": "hi" }), NO_PATIENCE);
    told.await.unwrap().unwrap_err();
    let waits = yard.wharf.approvals()[0].id.clone();
    let running = calling(&one, "mcp_s_work", json!({}), None);
    let asked = open(&yard.wharf, 2).await;
    let runs = asked.iter().find(|one| one.id != waits).unwrap().clone();
    approve(&yard.wharf, &runs, Scope::Once).await;
    poll_until("it to run", tokio::time::sleep, || {
        let all = yard.wharf.approvals();
        all.iter().any(|one| one.stage == Stage::Running)
    })
    .await;
    // As after a crash: nothing of it was settled.
    let file = yard.home.file("agents/bot.adf");
    let copy = yard.home.file("copy.adf");
    yard.wharf.export_agent("bot", copy.clone()).await.unwrap();
    let home = yard.close().await;
    running.await.unwrap().unwrap_err();
    std::fs::rename(&copy, &file).unwrap();
    let yard = Yard::at(home, servers, json!({}), host()).await;
    let left = yard.wharf.approvals();
    let told: Vec<_> = left
        .iter()
        .map(|one| (one.id.clone(), one.stage, one.caller))
        .collect();
    assert_eq!(
        told,
        [(waits.clone(), Stage::PendingApproval, Caller::Told)]
    );
    let unknown = rows(&yard.wharf, "call").await;
    assert!(
        unknown.iter().any(
            |row| row.outcome == "unknown" && row.approval.as_deref() == Some(runs.id.as_str())
        ),
        "{unknown:?}"
    );
    // The same call, in a new conversation, goes on with it.
    let two = session(&yard, "two");
    names(&two).await;
    std::fs::File::create(yard.home.file("never")).unwrap();
    let again = calling(&two, ECHO, json!({ "message": "hi" }), None);
    poll_until("it to be gone on with", tokio::time::sleep, || {
        yard.wharf.approvals()[0].caller == Caller::Waiting
    })
    .await;
    yard.wharf
        .decide(&waits, yes(), Decider::Owner)
        .await
        .unwrap();
    assert_eq!(text(&again.await.unwrap().unwrap()), "hi");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p24_an_owner_calls_past_the_gate_and_the_journal_says_so() {
    let yard = bot(&[]).await;
    let session = session(&yard, "one");
    names(&session).await;
    let params = json!({ "name": ECHO, "arguments": { "message": "mine" } }).to_string();
    let params = serde_json::value::RawValue::from_string(params).unwrap();
    let owners = ToolCall {
        as_owner: true,
        ..ToolCall::new(ECHO, &params)
    };
    let result = session.call(owners, |_| ()).await.unwrap();
    assert!(result.get().contains("mine"));
    let bypassed = rows(&yard.wharf, "bypass").await;
    assert_eq!(bypassed.len(), 1);
    assert_eq!(bypassed[0].who, "owner");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_that_nobody_answers_expires_and_its_call_ends() {
    let servers = json!({ "s": fake(&[], json!({})) });
    let config = json!({ "daemon": { "approvalSeconds": 0.3 } });
    let yard = Yard::with_config(servers, config).await;
    make_bot(&yard).await;
    let session = session(&yard, "one");
    names(&session).await;
    let refusal = call(&session, ECHO, json!({ "message": "hi" }))
        .await
        .unwrap_err();
    assert!(refusal.to_string().contains("in time"), "{refusal}");
    assert!(yard.wharf.approvals().is_empty());
    poll_async(&yard.wharf, "approval.expired", 1).await;
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn chat_agents_have_every_server_and_nobody_is_asked() {
    let yard = bot(&[]).await;
    let chat = yard.session("chat");
    assert!(names(&chat).await.contains(&"echo".to_owned()));
    let result = call(&chat, "echo", json!({ "message": "hi" }))
        .await
        .unwrap();
    assert_eq!(text(&result), "hi");
    assert!(yard.wharf.attach("default", "s").await.is_err());
    assert!(yard.home.file("agents/default.adf").exists());
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_sits_at_the_client_approves_only_where_the_owner_allows_it() {
    let yard = bot(&[]).await;
    let declared = Declared::by_client(r#"{"elicitation":{}}"#);
    let session = yard.session_as("bot", "one", declared);
    names(&session).await;
    let ask = |answer: &'static str| {
        let session = session.clone();
        tokio::spawn(async move {
            let params = json!({ "name": ECHO, "arguments": { "message": "hi" } }).to_string();
            let params = serde_json::value::RawValue::from_string(params).unwrap();
            let call = ToolCall {
                patience: NO_PATIENCE.filter(|_| answer.is_empty()),
                ..ToolCall::new(ECHO, &params)
            };
            let mut asked = vec![];
            let reply = session
                .call(call, |note| {
                    if let wharfinger::CallNote::Asked(question) = note {
                        asked.push(question.params.clone().unwrap().get().to_owned());
                        let answer = serde_json::value::RawValue::from_string(answer.into());
                        question.answer(Ok(answer.unwrap()));
                    }
                })
                .await;
            (reply.map(|result| result.get().to_owned()), asked)
        })
    };
    let (reply, asked) = ask("").await.unwrap();
    assert!(matches!(reply, Err(Refusal::Waiting { .. })), "{reply:?}");
    assert!(asked.is_empty(), "not unless the owner allows it");
    let waits = yard.wharf.approvals().remove(0);
    let no = Decision::Deny { reason: None };
    yard.wharf
        .decide(&waits.id, no, Decider::Owner)
        .await
        .unwrap();
    let (reply, _) = ask("").await.unwrap();
    assert!(matches!(reply, Err(Refusal::Denied(_))), "{reply:?}");
    let settings = wharfinger::AgentSettings {
        ask_client: Some(true),
        ..wharfinger::AgentSettings::default()
    };
    yard.wharf.set_agent("bot", settings).await.unwrap();
    let yes = r#"{"action":"accept","content":{"decision":"approve"}}"#;
    let (reply, asked) = ask(yes).await.unwrap();
    assert!(reply.unwrap().contains("hi"));
    assert!(
        asked[0].contains(ECHO) && asked[0].contains("hi"),
        "{asked:?}"
    );
    let no = r#"{"action":"accept","content":{"decision":"deny","reason":"not now"}}"#;
    let (reply, _) = ask(no).await.unwrap();
    assert!(reply.unwrap_err().to_string().contains("not now"));
    let rows = rows(&yard.wharf, "approval.approved").await;
    assert_eq!(rows[0].who, "agent:bot", "the client is the approver");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a190_an_emergency_stop_takes_back_what_waits_and_nothing_starts_after_it() {
    let yard = bot(&[]).await;
    let session = session(&yard, "one");
    names(&session).await;
    let waiting = calling(&session, ECHO, json!({ "message": "hi" }), None);
    open(&yard.wharf, 1).await;
    yard.wharf.halt("enough").await.unwrap();
    waiting.await.unwrap().unwrap_err();
    assert!(yard.wharf.approvals().is_empty());
    assert!(yard.processes().is_empty());
    let refusal = call(&session, ECHO, json!({ "message": "hi" })).await;
    assert!(refusal.is_err());
    assert!(yard.wharf.release().unwrap());
    poll_until("its tools to come back", tokio::time::sleep, || {
        session.known_tools().find(ECHO).is_some()
    })
    .await;
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a189_lines_of_an_agents_servers_are_in_its_own_file() {
    let yard = bot(&["stderr=a word"]).await;
    let session = session(&yard, "one");
    names(&session).await;
    session.end().await;
    let home = yard.close().await;
    let keys = wharfinger::agentfile::Keys::load_or_create(home.path()).unwrap();
    let path = home.file("agents/bot.adf");
    let file = wharfinger::agentfile::AgentFile::open(&path, &keys).unwrap();
    let logs = file.logs(100).unwrap();
    let word = logs.iter().find(|row| row.message == "a word").unwrap();
    assert_eq!(
        (
            word.level.as_str(),
            word.origin.as_deref(),
            word.target.as_deref()
        ),
        ("warn", Some("mcp"), Some("s"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_call_is_asked_about_while_the_first_starts_its_server() {
    let home = Home::new();
    let go = Yard::mode(&home, "wait-for", "go");
    let servers = json!({ "s": fake(&["slow-init=1", &go], json!({})) });
    let yard = Yard::at(home, servers, json!({}), host()).await;
    make_bot(&yard).await;
    // As an owner calls: nothing was started beforehand.
    let mut options = wharfinger::SessionOptions::new(
        AgentName::new("bot").unwrap(),
        wharfinger::model::SessionId::new("owner").unwrap(),
    );
    options.lasting = true;
    let session = yard.wharf.session(options);
    names(&session).await;
    let first = calling(&session, ECHO, json!({ "message": "a" }), None);
    approve(&yard.wharf, &open(&yard.wharf, 1).await[0], Scope::Once).await;
    poll_until("its server to start", tokio::time::sleep, || {
        yard.wharf.approvals()[0].stage == Stage::Running && yard.processes().len() == 1
    })
    .await;
    let second = calling(&session, ECHO, json!({ "message": "b" }), None);
    let both = open(&yard.wharf, 2).await;
    approve(&yard.wharf, &both[1], Scope::Once).await;
    std::fs::File::create(yard.home.file("go")).unwrap();
    assert_eq!(text(&first.await.unwrap().unwrap()), "a");
    assert_eq!(text(&second.await.unwrap().unwrap()), "b");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a75_attaching_writes_no_value_of_a_credential() {
    let servers = json!({ "s": fake(&[], json!({ "env": { "MY_TOKEN": "s3cret-s3cret-1" } })) });
    let yard = Yard::new(servers).await;
    make_bot(&yard).await;
    let copy = yard.home.file("copy.adf");
    yard.wharf.export_agent("bot", copy.clone()).await.unwrap();
    let keys = wharfinger::agentfile::Keys::load_or_create(yard.home.path()).unwrap();
    let peek = wharfinger::agentfile::peek(&copy, &keys).unwrap();
    assert_eq!(peek.servers[0]["name"], "s");
    assert_eq!(
        peek.servers[0]["env_schema"],
        json!([{ "key": "MY_TOKEN", "scope": "app" }])
    );
    let bytes = std::fs::read(&copy).unwrap();
    assert!(!bytes.windows(15).any(|part| part == b"s3cret-s3cret-1"));
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a94_an_edit_waits_for_no_server_and_one_that_fails_keeps_no_other_back() {
    let servers = json!({
        "s": fake(&[], json!({})),
        "stuck": fake(&["never-init", "discover-silent"], json!({ "startupTimeoutSeconds": 1 })),
        "t": fake(&["tool=only"], json!({})),
    });
    let yard = Yard::new(servers).await;
    make_bot(&yard).await;
    let session = session(&yard, "one");
    let began = std::time::Instant::now();
    yard.wharf.attach("bot", "stuck").await.unwrap();
    yard.wharf.attach("bot", "t").await.unwrap();
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "it waits for a server"
    );
    poll_until("the other one", tokio::time::sleep, || {
        session.known_tools().find("mcp_t_only").is_some()
    })
    .await;
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a141_a164_tools_of_a_server_that_is_down_are_left_out_and_stay_declared() {
    let yard = bot(&["crash-after=1"]).await;
    let session = session(&yard, "one");
    names(&session).await;
    let unrestrict =
        yard.wharf
            .switch_tools("bot", Which::Server("s".into()), Flag::Restricted, false);
    assert_eq!(unrestrict.await.unwrap(), 5);
    let lost = call(&session, ECHO, json!({ "message": "x" }))
        .await
        .unwrap_err();
    assert!(lost.to_string().contains("Connection lost"), "{lost}");
    assert!(session.known_tools().find(ECHO).is_none());
    let refusal = call(&session, ECHO, json!({ "message": "x" }))
        .await
        .unwrap_err();
    // A165
    assert!(refusal.to_string().contains("status: "), "{refusal}");
    let declared = yard.wharf.agent_tools("bot").unwrap();
    let echo = declared.iter().find(|tool| tool.name == ECHO).unwrap();
    assert!(echo.enabled && echo.visible, "what it was declared stays");
    poll_until("it to come back", tokio::time::sleep, || {
        session.known_tools().find(ECHO).is_some()
    })
    .await;
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a140_a202_servers_that_nobody_registered_are_skipped_and_their_tools_switched_off() {
    let yard = bot(&[]).await;
    names(&session(&yard, "one")).await;
    let copy = yard.home.file("copy.adf");
    yard.wharf.export_agent("bot", copy.clone()).await.unwrap();
    let home = yard.close().await;
    // Another machine, with the same owner's file and without the server.
    let elsewhere = Yard::new(json!({})).await;
    let name = elsewhere
        .wharf
        .import_agent(copy, None, false)
        .await
        .unwrap();
    drop(home);
    let state = elsewhere.wharf.agent_state(name.as_str()).unwrap();
    assert_eq!(state.attached.len(), 1);
    assert!(!state.attached[0].registered);
    let tools = elsewhere.wharf.agent_tools("bot").unwrap();
    let off = tools.iter().filter(|tool| tool.server.is_some());
    assert!(off.clone().count() == 5 && off.clone().all(|tool| !tool.enabled));
    let session = session(&elsewhere, "one");
    assert!(names(&session).await.is_empty());
    let refusal = call(&session, ECHO, json!({ "message": "x" }))
        .await
        .unwrap_err();
    assert!(refusal.to_string().contains("not registered"), "{refusal}");
    assert!(elsewhere.processes().is_empty(), "nothing ran");
    elsewhere.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t1_a_file_of_another_owner_runs_nothing_of_its_own_before_that_is_confirmed() {
    let yard = Yard::with_config(json!({}), json!({ "daemon": { "hostAccess": true } })).await;
    // A file as another owner has it, with a server that is in it alone.
    let keys = wharfinger::agentfile::Keys::generate();
    let path = yard.home.file("theirs.adf");
    let new = wharfinger::agentfile::NewAgent {
        name: "theirs".into(),
        meta: vec![],
        config: json!({
            "compute": { "host_access": true },
            "mcp": { "servers": [{
                "name": "own", "transport": "stdio", "source": "custom", "run_location": "host",
                "command": wharfinger_testkit::fake_server(), "args": ["tool=only"],
            }] },
        }),
    };
    let made = wharfinger::agentfile::AgentFile::create(&path, &new, &keys).unwrap();
    made.close().unwrap();
    let refused = yard.wharf.import_agent(path.clone(), None, false).await;
    let Err(wharfinger::AgentError::Unconfirmed { runs }) = refused else {
        panic!("{refused:?}");
    };
    assert!(runs[0].contains("tool=only"), "{runs:?}");
    // Put into the folder by hand, it runs nothing either.
    std::fs::copy(&path, yard.home.file("agents/theirs.adf")).unwrap();
    let servers = json!({});
    let home = yard.close().await;
    let config = json!({ "daemon": { "hostAccess": true } });
    let yard = Yard::at(home, servers, config, host()).await;
    let session = yard.session_as("theirs", "one", Declared::default());
    assert!(names(&session).await.is_empty());
    let state = yard.wharf.agent_state("theirs").unwrap();
    let problem = state.attached[0].problem.clone().unwrap();
    assert!(problem.contains("wharf agent confirm theirs"), "{problem}");
    assert!(yard.processes().is_empty());
    yard.wharf.confirm_agent("theirs").await.unwrap();
    poll_until("its tools", tokio::time::sleep, || {
        session.known_tools().find("mcp_own_only").is_some()
    })
    .await;
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a146_a_tool_without_a_description_gets_one() {
    let yard = bot(&["weird-tools"]).await;
    let session = session(&yard, "one");
    let catalog = session.tools().await;
    for tool in &catalog.tools {
        assert!(!tool.tool.description().is_empty(), "{}", tool.name);
    }
    assert!(catalog.tools.len() > 10);
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a191_an_owner_sees_state_tools_and_log_of_an_agents_server() {
    let yard = bot(&["stderr=a word"]).await;
    let session = session(&yard, "one");
    names(&session).await;
    poll_until("it to run", tokio::time::sleep, || {
        session.servers_in_use().len() == 1
    })
    .await;
    let bot = AgentName::new("bot").unwrap();
    let details = yard.wharf.details("s", &bot).unwrap();
    assert_eq!(details.report.status.word(), "connected");
    assert_eq!(details.report.tools, Some(5));
    assert!(details.pid.is_some());
    let log = yard.wharf.log_of("s", 100);
    assert!(log.iter().any(|entry| entry.text == "a word"));
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_comes_again_while_it_is_made_waits_for_its_result() {
    let home = Home::new();
    let (go, record) = (
        Yard::mode(&home, "wait-for", "go"),
        Yard::mode(&home, "record", "record"),
    );
    let servers = json!({ "s": fake(&[&go, &record], json!({})) });
    let yard = Yard::at(home, servers, json!({}), host()).await;
    make_bot(&yard).await;
    let session = session(&yard, "one");
    names(&session).await;
    let same = || calling(&session, ECHO, json!({ "message": "hi" }), NO_PATIENCE);
    same().await.unwrap().unwrap_err();
    let approval = open(&yard.wharf, 1).await.remove(0);
    approve(&yard.wharf, &approval, Scope::Once).await;
    poll_until("it to be made", tokio::time::sleep, || {
        yard.wharf.approvals()[0].stage == Stage::Running
    })
    .await;
    for _ in 0..3 {
        let refusal = same().await.unwrap().unwrap_err();
        assert!(matches!(refusal, Refusal::Waiting { .. }), "{refusal:?}");
    }
    let waiting = calling(&session, ECHO, json!({ "message": "hi" }), None);
    std::fs::File::create(yard.home.file("go")).unwrap();
    assert_eq!(text(&waiting.await.unwrap().unwrap()), "hi");
    assert!(yard.wharf.approvals().is_empty());
    let lines = yard.home.lines("record");
    let made = lines.iter().filter(|line| line.contains("tools/call"));
    assert_eq!(made.count(), 1);
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a228_a_caller_that_was_told_hears_the_no_when_it_comes_again() {
    let yard = bot(&[]).await;
    let session = session(&yard, "one");
    names(&session).await;
    let same = || calling(&session, ECHO, json!({ "message": "hi" }), NO_PATIENCE);
    same().await.unwrap().unwrap_err();
    let approval = open(&yard.wharf, 1).await.remove(0);
    let no = Decision::Deny {
        reason: Some("not on a Friday".into()),
    };
    yard.wharf
        .decide(&approval.id, no, Decider::Owner)
        .await
        .unwrap();
    let refusal = same().await.unwrap().unwrap_err();
    assert!(matches!(refusal, Refusal::Denied(_)), "{refusal:?}");
    assert!(refusal.to_string().contains("not on a Friday"), "{refusal}");
    assert!(yard.wharf.approvals().is_empty());
    let asked = same().await.unwrap().unwrap_err();
    assert!(matches!(asked, Refusal::Waiting { .. }), "it is asked anew");
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_granted_is_what_was_allowed_and_not_what_was_asked() {
    let yard = bot(&[]).await;
    let session = session(&yard, "one");
    names(&session).await;
    let say = |words: &str| calling(&session, ECHO, json!({ "message": words }), NO_PATIENCE);
    let waiting = calling(&session, ECHO, json!({ "message": "bad" }), None);
    let approval = open(&yard.wharf, 1).await.remove(0);
    let edited = serde_json::value::RawValue::from_string(r#"{"message":"good"}"#.into());
    let decision = Decision::Approve {
        arguments: Some(Arc::from(edited.unwrap())),
        scope: Scope::Arguments,
    };
    yard.wharf
        .decide(&approval.id, decision, Decider::Owner)
        .await
        .unwrap();
    assert_eq!(text(&waiting.await.unwrap().unwrap()), "good");
    assert!(say("good").await.unwrap().is_ok());
    assert!(
        say("bad").await.unwrap().is_err(),
        "nobody has allowed that"
    );
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_a_session_gets_no_yes_for_one() {
    let yard = bot(&[]).await;
    let mut options = wharfinger::SessionOptions::new(
        AgentName::new("bot").unwrap(),
        wharfinger::model::SessionId::new("shared").unwrap(),
    );
    options.lasting = true;
    let session = yard.wharf.session(options);
    names(&session).await;
    let waiting = calling(&session, ECHO, json!({ "message": "hi" }), None);
    let approval = open(&yard.wharf, 1).await.remove(0);
    let session_wide = Decision::Approve {
        arguments: None,
        scope: Scope::Session,
    };
    let refused = yard
        .wharf
        .decide(&approval.id, session_wide, Decider::Owner)
        .await;
    assert!(
        matches!(refused, Err(DecisionError::Scope { .. })),
        "{refused:?}"
    );
    approve(&yard.wharf, &approval, Scope::Once).await;
    waiting.await.unwrap().unwrap();
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a190_an_emergency_stop_ends_what_is_made_for_a_caller_that_was_told() {
    let home = Home::new();
    let never = Yard::mode(&home, "wait-for", "never");
    let servers = json!({ "s": fake(&[&never], json!({})) });
    let yard = Yard::at(home, servers, json!({}), host()).await;
    make_bot(&yard).await;
    let session = session(&yard, "one");
    names(&session).await;
    let same = || calling(&session, ECHO, json!({ "message": "hi" }), NO_PATIENCE);
    same().await.unwrap().unwrap_err();
    let approval = open(&yard.wharf, 1).await.remove(0);
    approve(&yard.wharf, &approval, Scope::Once).await;
    poll_until("it to be made", tokio::time::sleep, || {
        yard.wharf.approvals()[0].stage == Stage::Running
    })
    .await;
    yard.wharf.halt("enough").await.unwrap();
    poll_until("it to end", tokio::time::sleep, || {
        let all = yard.wharf.approvals();
        all.iter().all(|one| one.stage == Stage::Completed)
    })
    .await;
    assert!(yard.processes().is_empty());
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_approves_is_asked_and_a_call_that_does_not_wait_is_made_all_the_same() {
    let approver = wharfinger::Approver::new(|approval| {
        Box::pin(async move {
            let fine = !approval.arguments.get().contains("bad");
            Some(if fine {
                yes()
            } else {
                Decision::Deny {
                    reason: Some("the program says no".into()),
                }
            })
        })
    });
    let servers = json!({ "s": fake(&[], json!({})) });
    let yard = Yard::asking(Home::new(), servers, json!({}), host(), Some(approver)).await;
    make_bot(&yard).await;
    let session = session(&yard, "one");
    names(&session).await;
    let result = call(&session, ECHO, json!({ "message": "good" }))
        .await
        .unwrap();
    assert_eq!(text(&result), "good");
    let refusal = call(&session, ECHO, json!({ "message": "bad" }))
        .await
        .unwrap_err();
    assert!(
        refusal.to_string().contains("the program says no"),
        "{refusal}"
    );
    // However fast it is, the call is made, and its result is there for whoever collects it.
    let later = json!({ "message": "later", "_async": true });
    let answer = call(&session, ECHO, later).await.unwrap();
    if text(&answer) != "later" {
        let result = call(&session, ECHO, json!({ "message": "later" }))
            .await
            .unwrap();
        assert_eq!(text(&result), "later");
    }
    yard.close().await;
}
