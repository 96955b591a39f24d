//! Calls that wait for a person, and what that person types (A236).

use std::io::{BufRead as _, BufReader};

use insta::assert_snapshot;
use serde_json::Value;
use wharfinger_testkit::{processes, wait_until};

use crate::support::Wharf;

const CALL: [&str; 5] = ["call", "s/echo", "message=hi", "--agent", "bot"];

#[test]
fn a236_a_call_waits_until_it_is_approved_elsewhere() {
    let wharf = Wharf::new();
    let _daemon = wharf.up();
    wharf.make_bot(&[]);
    assert_snapshot!(wharf.run(&["approvals"]), @"
    $ wharf approvals
    ! nothing waits for an approval
    ");
    let (call, id) = wharf.ask(&CALL);
    assert_snapshot!(wharf.run(&["approvals"]), @r#"
    $ wharf approvals
    ID                 AGENT  TOOL        WAITS  EXPIRES  ARGUMENTS
    [TASK]  bot    mcp_s_echo  [DURATION]    in 24 h  {"message":"hi"}
    ! hint: `wharf approve [TASK]` or `wharf deny [TASK]`
    "#);
    assert_snapshot!(wharf.run(&["agent", "list"]), @"
    $ wharf agent list
    NAME     PROFILE  STATE               SESSIONS  WORKSPACE
    bot      agent    waits for approval  0         [HOME]/workspaces/bot
    default  chat     idle                0         [HOME]/workspaces/default
    ");
    assert_snapshot!(wharf.run(&["agent", "show", "bot"]), @"
    $ wharf agent show bot
    name      bot
    profile   agent
    state     waits for approval
    workspace [HOME]/workspaces/bot
    file      [HOME]/agents/bot.adf
    has       0 open sessions
    servers   s
    settings  new-tools-restricted on
              accept-changes nothing
              ask-client off
              always-active off
              host-access off
    waits     [TASK], a call of mcp_s_echo
    ");
    let start = &id[..8];
    assert_snapshot!(wharf.run(&["approve", start]).replace(start, "[START]"), @"
    $ wharf approve [START]
    approved the call of mcp_s_echo by bot
    ");
    assert_snapshot!(wharf.said(&CALL, &call.wait_with_output().unwrap()), @"
    $ wharf call s/echo message=hi --agent bot
    hi
    ! waiting for approval [TASK]: `wharf approve [TASK]` or `wharf deny [TASK]`
    ");
    assert_snapshot!(wharf.run(&["approve", &id]), @"
    $ wharf approve [TASK]
    ! error: the approval `[TASK]` is not pending: it is completed
    [exit 1]
    ");
    assert_snapshot!(wharf.run(&["deny", "task_no"]), @"
    $ wharf deny task_no
    ! error: there is no approval `task_no`; it may have been answered or have expired
    ! hint: `wharf approvals` lists what waits
    [exit 4]
    ");
    let rows = wharf.json(&["approvals", "--all"]);
    assert_eq!(rows, Value::Array(vec![]));
}

#[test]
fn a228_a_denied_call_fails_with_the_reason() {
    let wharf = Wharf::new();
    let _daemon = wharf.up();
    wharf.make_bot(&[]);
    let (call, id) = wharf.ask(&CALL);
    assert_snapshot!(wharf.run(&["deny", &id, "--reason", "not on a Friday"]), @"
    $ wharf deny [TASK] --reason not on a Friday
    denied the call of mcp_s_echo by bot
    ");
    assert_snapshot!(wharf.said(&CALL, &call.wait_with_output().unwrap()), @"
    $ wharf call s/echo message=hi --agent bot
    ! waiting for approval [TASK]: `wharf approve [TASK]` or `wharf deny [TASK]`
    ! error: the call of `mcp_s_echo` was rejected by its authorizer: not on a Friday
    [exit 1]
    ");
}

#[test]
fn a227_arguments_are_edited_and_a_yes_is_good_for_more() {
    let wharf = Wharf::new();
    let _daemon = wharf.up();
    wharf.make_bot(&[]);
    let (call, id) = wharf.ask(&CALL);
    assert_snapshot!(wharf.run(&["approve", &id, "--args", "[1]"]), @"
    $ wharf approve [TASK] --args [1]
    ! error: `--args` must be a JSON object
    [exit 2]
    ");
    assert_snapshot!(wharf.run(&["approve", &id, "--args", "{\"message\": \"edited\"}"]), @r#"
    $ wharf approve [TASK] --args {"message": "edited"}
    approved the call of mcp_s_echo by bot
    "#);
    assert_snapshot!(wharf.said(&CALL, &call.wait_with_output().unwrap()), @"
    $ wharf call s/echo message=hi --agent bot
    edited
    ! waiting for approval [TASK]: `wharf approve [TASK]` or `wharf deny [TASK]`
    ");
    let (call, id) = wharf.ask(&CALL);
    assert_snapshot!(wharf.run(&["approve", &id, "--session"]), @"
    $ wharf approve [TASK] --session
    ! error: `mcp_s_echo` can't be approved for its session: its client has no session of its own; approve it once
    [exit 1]
    ");
    assert_snapshot!(wharf.run(&["approve", &id, "--arguments"]), @"
    $ wharf approve [TASK] --arguments
    approved the call of mcp_s_echo by bot, and every call of it with these arguments until the daemon ends
    ");
    assert!(call.wait_with_output().unwrap().status.success());
    assert_snapshot!(wharf.run(&CALL), @"
    $ wharf call s/echo message=hi --agent bot
    hi
    ");
    let words = ["call", "s/pid", "--agent", "bot"];
    let (call, id) = wharf.ask(&words);
    assert_snapshot!(wharf.run(&["approve", &id, "--always"]), @"
    $ wharf approve [TASK] --always
    approved the call of mcp_s_pid by bot, which needs no approval from now on
    ");
    assert!(call.wait_with_output().unwrap().status.success());
    assert_eq!(wharf.json(&["tools", "show", "s/pid"])["restricted"], false);
}

#[test]
fn an_owner_may_pass_the_gate() {
    let wharf = Wharf::new();
    let _daemon = wharf.up();
    wharf.make_bot(&[]);
    let words = [
        "call",
        "s/echo",
        "message=hi",
        "--agent",
        "bot",
        "--as-owner",
    ];
    assert_snapshot!(wharf.run(&words), @"
    $ wharf call s/echo message=hi --agent bot --as-owner
    hi
    ");
    let rows = wharf.command(&["journal", "--kind", "bypass", "--json"]);
    let rows = { rows }.output().unwrap().stdout;
    let rows = String::from_utf8(rows).unwrap();
    assert_eq!(rows.lines().count(), 1, "{rows}");
}

#[test]
fn what_comes_and_goes_is_watched() {
    let wharf = Wharf::new();
    let _daemon = wharf.up();
    wharf.make_bot(&[]);
    let (first, one) = wharf.ask(&CALL);
    let watch = |words: &[&str]| {
        let mut child = wharf.command(words).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        (child, lines, first)
    };
    let (mut people, mut lines, seen) = watch(&["approvals", "--watch"]);
    assert_snapshot!(wharf.filter(&seen), @r#"
    [TASK]  waits  bot  mcp_s_echo  {"message":"hi"}
    "#);
    let (mut programs, mut objects, seen) = watch(&["approvals", "--watch", "--json"]);
    let seen: Value = serde_json::from_str(&seen).unwrap();
    assert_eq!([&seen["event"], &seen["id"]], ["approvalRequested", &*one]);
    wharf.run(&["deny", &one]);
    assert_snapshot!(wharf.filter(&lines.next().unwrap().unwrap()), @"
    [TASK]  denied  bot  mcp_s_echo
    ");
    let gone: Value = serde_json::from_str(&objects.next().unwrap().unwrap()).unwrap();
    assert_eq!(
        [&gone["event"], &gone["id"], &gone["status"]],
        ["approvalResolved", &*one, "denied"]
    );
    let (second, two) = wharf.ask(&CALL);
    assert_snapshot!(wharf.filter(&lines.next().unwrap().unwrap()), @r#"
    [TASK]  waits  bot  mcp_s_echo  {"message":"hi"}
    "#);
    let came: Value = serde_json::from_str(&objects.next().unwrap().unwrap()).unwrap();
    assert_eq!([&came["id"], &came["agent"]], [&*two, "bot"]);
    wharf.run(&["approve", &two]);
    for call in [first, second] {
        call.wait_with_output().unwrap();
    }
    for watcher in [&mut people, &mut programs] {
        processes::terminate(watcher.id());
        watcher.wait().unwrap();
    }
}

#[test]
fn a190_everything_is_stopped_and_released() {
    let wharf = Wharf::new();
    let daemon = wharf.up();
    wharf.make_bot(&[]);
    let (call, _) = wharf.ask(&CALL);
    let stop = ["stop", "--all", "--reason", "bot ran wild"];
    assert_snapshot!(wharf.run(&stop), @"
    $ wharf stop --all --reason bot ran wild
    stopped every server; nothing starts until `wharf release`
    ");
    let said = wharf.said(&CALL, &call.wait_with_output().unwrap());
    assert_snapshot!(said, @"
    $ wharf call s/echo message=hi --agent bot
    ! waiting for approval [TASK]: `wharf approve [TASK]` or `wharf deny [TASK]`
    ! error: the approval [TASK] of `mcp_s_echo` was taken back: every server was stopped; nothing was done
    [exit 1]
    ");
    assert_snapshot!(wharf.run(&["status"]), @"
    $ wharf status
    running   version 0.1.0, pid [PID]
    listening http://127.0.0.1:[PORT]
    home      [HOME]
    has       1 server, 2 agents, 0 open sessions
    ! warning: EMERGENCY STOP since [TIME] UTC: bot ran wild
    ! hint: no server starts until `wharf release`
    ");
    assert_snapshot!(wharf.run(&["call", "echo", "message=hi"]), @"
    $ wharf call echo message=hi
    ! error: s: the MCP server did not start: every MCP server was stopped (bot ran wild); `wharf release` lets them start again
    [exit 1]
    ");
    processes::terminate(daemon.pid());
    daemon.ended();
    let daemon = wharf.up();
    assert_snapshot!(wharf.run(&["release"]), @"
    $ wharf release
    released; servers start when they are next wanted
    ");
    assert_snapshot!(wharf.run(&["release"]), @"
    $ wharf release
    nothing was stopped
    ");
    assert_snapshot!(wharf.run(&["call", "echo", "message=hi"]), @"
    $ wharf call echo message=hi
    hi
    ");
    processes::terminate(daemon.pid());
    let (_, log) = daemon.ended();
    assert!(log.contains("warning: EMERGENCY STOP since 20"), "{log}");
    wait_until("nothing to be left", || wharf.left().is_empty());
}
