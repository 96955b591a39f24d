//! The book, step by step.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::*;
use crate::model::{AgentName, ServerName, SessionId};

pub(super) fn binding() -> Binding {
    Binding {
        agent: AgentName::new("a").unwrap(),
        session: SessionId::new("s").unwrap(),
        serial: 1,
        server: ServerName::new("server").unwrap(),
        tool: "echo".into(),
        exposed: "mcp_server_echo".into(),
        tool_hash: "hash".into(),
        policy: "policy".into(),
        arguments: "digest".into(),
    }
}

fn raw(text: &str) -> Arc<RawValue> {
    Arc::from(RawValue::from_string(text.to_owned()).unwrap())
}

fn new(id: &str, binding: Binding) -> NewApproval {
    NewApproval {
        id: ApprovalId::new(id),
        binding,
        reason: Reason::Restricted,
        arguments: raw(r#"{"secret":1}"#),
        shown: raw(r#"{"secret":"hidden"}"#),
        why: "it is restricted".into(),
        said: None,
        expires: 1000,
    }
}

fn yes() -> Decision {
    Decision::Approve {
        arguments: None,
        scope: Scope::Once,
    }
}

fn book() -> Book<&'static str> {
    Book::new(4)
}

fn id(text: &str) -> ApprovalId {
    ApprovalId::new(text)
}

#[test]
fn a223_a_call_waits_until_it_is_approved_and_begins_once() {
    let mut book = book();
    let given = book.add(new("1", binding()), 10).unwrap();
    assert!(matches!(*given.borrow(), Given::Nothing));
    assert!(book.begin(&id("1")).is_none(), "nobody has said yes");
    let decided = book.decide(&id("1"), yes(), 20).unwrap();
    assert_eq!(
        (decided.scope, decided.runs_now),
        (Some(Scope::Once), false),
        "its caller runs it"
    );
    assert!(matches!(*given.borrow(), Given::Approved));
    let (bound, arguments) = book.begin(&id("1")).unwrap();
    assert_eq!(
        (bound, arguments.get()),
        (binding(), r#"{"secret":1}"#),
        "what was asked, not what was shown"
    );
    let shown = book.get(&id("1")).unwrap();
    assert_eq!(shown.arguments.get(), r#"{"secret":"hidden"}"#);
    assert!(book.get(&id("2")).is_none());
    assert!(book.begin(&id("1")).is_none(), "used once");
    assert_eq!(
        book.decide(&id("1"), yes(), 20).unwrap_err(),
        DecideError::Decided(id("1"))
    );
    assert_eq!(book.close(&id("1")).unwrap().stage, Stage::Running);
    assert_eq!(
        book.decide(&id("1"), yes(), 20).unwrap_err(),
        DecideError::Unknown(id("1"))
    );
}

#[test]
fn a228_a_no_is_told_in_its_words_and_ends_it() {
    let mut book = book();
    let given = book.add(new("1", binding()), 10).unwrap();
    let reason = Some("not on a Friday".to_owned());
    let decided = book
        .decide(&id("1"), Decision::Deny { reason }, 20)
        .unwrap();
    assert_eq!((decided.scope, decided.runs_now), (None, false));
    let given = given.borrow().clone();
    assert!(matches!(given, Given::Denied(Some(text)) if text == "not on a Friday"));
    assert!(book.list().is_empty());
}

#[test]
fn a227_whoever_approves_may_change_the_arguments() {
    let mut book = book();
    drop(book.add(new("1", binding()), 10));
    let decision = Decision::Approve {
        arguments: Some(raw("{}")),
        scope: Scope::Once,
    };
    book.decide(&id("1"), decision, 20).unwrap();
    assert_eq!(book.arguments(&id("1")).unwrap().get(), "{}");
    assert_eq!(book.begin(&id("1")).unwrap().1.get(), "{}");
}

#[test]
fn equal_calls_at_once_are_separate_approvals() {
    let mut book = book();
    drop(book.add(new("1", binding()), 10));
    assert!(book.attach(&binding(), |_| true, 20).is_none());
    drop(book.add(new("2", binding()), 11));
    assert_eq!(book.list().len(), 2);
}

#[test]
fn a_call_that_was_told_to_wait_is_gone_on_with_by_the_same_call_alone() {
    let check = |change: fn(&mut Binding), open: bool, expect: bool| {
        let mut book = book();
        drop(book.add(new("1", binding()), 10));
        assert_eq!(book.tell(&id("1")), Told::Waits);
        let mut call = binding();
        change(&mut call);
        let attached = book.attach(&call, |_| open, 20);
        assert_eq!(attached.is_some(), expect, "{call:?}");
        if attached.is_some() {
            assert_eq!(book.list()[0].binding.serial, call.serial);
            assert!(book.attach(&call, |_| open, 20).is_none(), "by one of them");
        }
    };
    check(|_| (), true, true);
    check(|call| call.arguments = "other".into(), true, false);
    check(|call| call.tool = "other".into(), true, false);
    check(|call| call.exposed = "other".into(), true, false);
    check(
        |call| call.server = ServerName::new("x").unwrap(),
        true,
        false,
    );
    check(
        |call| call.agent = AgentName::new("x").unwrap(),
        false,
        false,
    );
    check(|call| call.tool_hash = "other".into(), true, false);
    check(|call| call.policy = "other".into(), true, false);
    check(|call| call.serial = 2, true, false);
    check(|call| call.serial = 2, false, true);
}

#[test]
fn what_was_told_to_wait_runs_when_it_is_approved_and_its_result_is_collected_once() {
    let mut book = book();
    drop(book.add(new("1", binding()), 10));
    assert_eq!(book.tell(&id("1")), Told::Waits);
    let decided = book.decide(&id("1"), yes(), 20).unwrap();
    assert!(decided.runs_now);
    book.begin(&id("1")).unwrap();
    book.finish(&id("1"), "result", 30);
    // It waits for ten minutes, and no longer.
    assert_eq!(COLLECT, 600_000);
    assert_eq!(book.next_due(), Some(30 + COLLECT));
    assert!(book.expire(29 + COLLECT).is_empty());
    let attached = book.attach(&binding(), |_| true, 29 + COLLECT);
    assert!(matches!(attached, Some(Attached::Result(_, _, "result"))));
    assert!(book.attach(&binding(), |_| true, 40).is_none());
}

#[test]
fn a_result_is_not_given_after_its_time_nor_for_a_call_of_another_tool_but_for_a_tool_that_changed_since()
 {
    let mut book = book();
    let finished = |book: &mut Book<&'static str>| {
        drop(book.add(new("1", binding()), 10));
        book.tell(&id("1"));
        book.decide(&id("1"), yes(), 20).unwrap();
        book.begin(&id("1")).unwrap();
        book.finish(&id("1"), "result", 30);
    };
    finished(&mut book);
    assert!(book.attach(&binding(), |_| true, 30 + COLLECT).is_none());
    assert!(book.expire(30 + COLLECT).is_empty(), "it has ended before");
    assert!(book.list().is_empty());
    finished(&mut book);
    let mut changed = binding();
    changed.tool_hash = "other".into();
    let attached = book.attach(&changed, |_| true, 40);
    assert!(
        matches!(attached, Some(Attached::Result(..))),
        "{attached:?}"
    );
}

#[test]
fn a_call_that_comes_again_while_it_runs_hears_its_result() {
    let mut book = book();
    drop(book.add(new("1", binding()), 10));
    book.tell(&id("1"));
    book.decide(&id("1"), yes(), 20).unwrap();
    book.begin(&id("1")).unwrap();
    let Some(Attached::Waits(_, given)) = book.attach(&binding(), |_| true, 25) else {
        panic!("it runs");
    };
    assert_eq!(book.tell(&id("1")), Told::Waits, "patience is over again");
    assert!(
        book.expire(u64::MAX - 1).is_empty(),
        "what runs has no limit here"
    );
    assert_eq!(book.next_due(), None);
    book.finish(&id("1"), "result", 30);
    assert!(matches!(*given.borrow(), Given::Done("result")));
    assert_eq!(book.tell(&id("1")), Told::Decided);
    assert_eq!(book.close(&id("1")).unwrap().stage, Stage::Completed);
}

#[test]
fn patience_that_ends_with_the_decision_hears_the_decision() {
    let mut book = book();
    drop(book.add(new("1", binding()), 10));
    book.decide(&id("1"), yes(), 20).unwrap();
    assert_eq!(book.tell(&id("1")), Told::Decided);
    drop(book.add(new("2", binding()), 10));
    book.decide(&id("2"), Decision::Deny { reason: None }, 20)
        .unwrap();
    assert_eq!(book.tell(&id("2")), Told::Decided);
}

#[test]
fn nothing_runs_for_a_call_that_gave_up_until_it_comes_again() {
    let mut book = book();
    drop(book.add(new("1", binding()), 10));
    book.leave(&id("1"));
    assert_eq!(book.list()[0].caller, Caller::Gone);
    let decided = book.decide(&id("1"), yes(), 20).unwrap();
    assert!(!decided.runs_now);
    assert_eq!(book.next_due(), Some(20 + COLLECT));
    let Some(Attached::Waits(again, given)) = book.attach(&binding(), |_| true, 30) else {
        panic!("it was approved");
    };
    assert!(matches!(*given.borrow(), Given::Approved));
    assert!(book.begin(&again).is_some());
}

#[test]
fn one_that_was_told_to_wait_is_not_gone() {
    let mut book = book();
    drop(book.add(new("1", binding()), 10));
    book.tell(&id("1"));
    book.leave(&id("1"));
    assert_eq!(book.list()[0].caller, Caller::Told);
}

#[test]
fn what_nobody_answers_expires_and_cannot_be_answered_then() {
    let mut book = book();
    let given = book.add(new("1", binding()), 10).unwrap();
    assert_eq!(book.next_due(), Some(1000));
    assert!(book.expire(999).is_empty());
    assert_eq!(
        book.decide(&id("1"), yes(), 1000).unwrap_err(),
        DecideError::Unknown(id("1"))
    );
    let ended = book.expire(1000);
    assert_eq!(
        ended
            .iter()
            .map(|ended| (ended.approval.id.as_str(), ended.was_approved))
            .collect::<Vec<_>>(),
        [("1", false)]
    );
    assert!(matches!(*given.borrow(), Given::Expired));
    assert_eq!(book.next_due(), None);
}

#[test]
fn a_yes_for_a_call_that_gave_up_expires_too() {
    let mut book = book();
    drop(book.add(new("1", binding()), 10));
    book.leave(&id("1"));
    book.decide(&id("1"), yes(), 20).unwrap();
    let ended = book.expire(20 + COLLECT);
    assert!(ended.len() == 1 && ended[0].was_approved);
}

#[test]
fn a_stop_takes_back_what_waits_and_leaves_what_runs() {
    let mut book = book();
    let given = book.add(new("1", binding()), 10).unwrap();
    drop(book.add(new("2", binding()), 10));
    book.decide(&id("2"), yes(), 20).unwrap();
    book.begin(&id("2")).unwrap();
    let none = book.cancel(|approval| approval.binding.serial == 2, "stopped");
    assert!(none.is_empty());
    let ended = book.cancel(|_| true, "stopped");
    assert_eq!(ended.len(), 1);
    assert!(matches!(&*given.borrow(), Given::Cancelled(why) if why == "stopped"));
    assert_eq!(book.list()[0].stage, Stage::Running);
}

#[test]
fn an_agent_has_so_many_open_and_no_more() {
    let mut book = book();
    for n in 0..4 {
        assert!(book.add(new(&n.to_string(), binding()), 10).is_some());
    }
    assert!(book.add(new("5", binding()), 10).is_none());
    let mut other = binding();
    other.agent = AgentName::new("b").unwrap();
    assert!(book.add(new("6", other), 10).is_some(), "another agent's");
}

#[test]
fn a231_one_of_an_earlier_run_waits_on_and_is_gone_on_with() {
    let mut book = book();
    let mut bound = binding();
    bound.serial = 0;
    book.restore(new("1", bound), 10, Caller::Told);
    assert_eq!(book.list()[0].caller, Caller::Told);
    let attached = book.attach(&binding(), |serial| serial != 0, 20);
    assert!(matches!(attached, Some(Attached::Waits(..))));
    assert_eq!(book.list()[0].binding.serial, 1);
}

#[test]
fn the_oldest_of_equal_ones_is_gone_on_with_first() {
    let mut book = book();
    drop(book.add(new("1", binding()), 11));
    drop(book.add(new("2", binding()), 10));
    book.tell(&id("1"));
    book.tell(&id("2"));
    let ids: Vec<_> = book.list().into_iter().map(|one| one.id).collect();
    assert_eq!(ids, [id("2"), id("1")]);
    let attached = book.attach(&binding(), |_| true, 20);
    assert!(matches!(attached, Some(Attached::Waits(first, _)) if first == id("2")));
}

#[test]
fn a_decision_is_checked_against_what_is_there_when_it_is_carried_out() {
    let check = |change: fn(&mut Binding), expect: Result<(), Mismatch>| {
        let mut now = binding();
        change(&mut now);
        assert_eq!(binding().check(&now), expect);
    };
    check(|_| (), Ok(()));
    check(|now| now.arguments = "edited".into(), Ok(()));
    check(|now| now.tool_hash = "x".into(), Err(Mismatch::Definition));
    check(|now| now.policy = "x".into(), Err(Mismatch::Policy));
    check(|now| now.tool = "x".into(), Err(Mismatch::Call));
    check(
        |now| now.server = ServerName::new("x").unwrap(),
        Err(Mismatch::Call),
    );
    check(
        |now| now.agent = AgentName::new("x").unwrap(),
        Err(Mismatch::Call),
    );
}

#[test]
fn a_policy_that_the_decision_itself_changed_is_no_mismatch() {
    let mut book = book();
    drop(book.add(new("1", binding()), 10));
    let mut other = binding();
    other.exposed = "other".into();
    drop(book.add(new("2", other), 10));
    let mut another = binding();
    another.agent = AgentName::new("b").unwrap();
    drop(book.add(new("3", another), 10));
    book.rebind("a", "mcp_server_echo", "policy", "looser");
    book.rebind("a", "other", "something else", "looser");
    let policies: Vec<_> = book
        .list()
        .into_iter()
        .map(|one| one.binding.policy)
        .collect();
    assert_eq!(policies, ["looser", "policy", "policy"]);
}

#[test]
fn why_a_decision_was_not_taken_names_the_approval() {
    let unknown = DecideError::Unknown(id("task_1")).to_string();
    assert!(unknown.contains("`task_1`"), "{unknown}");
    let decided = DecideError::Decided(id("task_1")).to_string();
    assert!(decided.contains("`task_1`"), "{decided}");
}

#[test]
fn a224_reasons_have_the_words_of_the_agents_file() {
    for (reason, word) in [
        (Reason::Restricted, "restricted"),
        (Reason::Protection, "protection"),
    ] {
        assert_eq!(reason.as_str(), word);
        assert_eq!(Reason::parse(word), Some(reason));
    }
    assert_eq!(Reason::parse("other"), None);
}

#[test]
fn a228_a_caller_that_was_told_to_wait_comes_again_to_hear_the_no() {
    let mut book = book();
    drop(book.add(new("1", binding()), 10));
    book.tell(&id("1"));
    let reason = Some("no".to_owned());
    book.decide(&id("1"), Decision::Deny { reason }, 20)
        .unwrap();
    let Some(Attached::Waits(again, given)) = book.attach(&binding(), |_| true, 30) else {
        panic!("it was denied");
    };
    assert!(matches!(&*given.borrow(), Given::Denied(Some(text)) if text == "no"));
    assert_eq!(
        book.decide(&again, yes(), 30).unwrap_err(),
        DecideError::Decided(again.clone())
    );
    assert!(book.begin(&again).is_none());
    book.leave(&again);
    assert!(book.expire(20 + COLLECT).is_empty(), "it has ended before");
    assert!(book.list().is_empty());
}

#[test]
fn whoever_is_about_to_decide_is_alone() {
    let mut book = book();
    drop(book.add(new("1", binding()), 10));
    book.claim(&id("1"), 20).unwrap();
    let decided = DecideError::Decided(id("1"));
    assert_eq!(book.claim(&id("1"), 20), Err(decided.clone()));
    assert_eq!(book.decide(&id("1"), yes(), 20).unwrap_err(), decided);
    assert!(book.expire(5000).is_empty(), "not meanwhile");
    book.let_go(&id("1"));
    assert_eq!(
        book.claim(&id("1"), 1000),
        Err(DecideError::Unknown(id("1")))
    );
    book.decide(&id("1"), yes(), 20).unwrap();
    assert_eq!(book.claim(&id("1"), 20), Err(decided));
}
