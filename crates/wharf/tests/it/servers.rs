//! Servers, from `add` to `remove`.

use std::io::{BufRead as _, BufReader};

use insta::assert_snapshot;
use wharfinger_testkit::{fake_server, processes, wait_until};

use crate::support::Wharf;

fn fake() -> String {
    fake_server().display().to_string()
}

#[test]
fn a_server_is_added_listed_and_shown() {
    let wharf = Wharf::new();
    let _daemon = wharf.up();
    let fake = fake();
    let words = [
        "add",
        "one",
        "--env",
        "API_KEY=hunter2-hunter2",
        "--prefix",
        "one_",
        "--",
        &fake,
        "stderr=hello",
    ];
    assert_snapshot!(wharf.run(&words), @"
    $ wharf add one --env API_KEY=hunter2-hunter2 --prefix one_ -- [FAKE] stderr=hello
    added one, 5 tools
    ! warning: one: API_KEY stands plain in settings.json
    ! hint: `wharf secret import` moves what is secret into the vault
    ! it runs on this machine, with your rights
    ");
    assert_snapshot!(wharf.run(&["add", "one", "--", &fake]), @"
    $ wharf add one -- [FAKE]
    ! error: there is a server `one` already ([HOME]/settings.json:3)
    ! hint: give it another name, or add it with `--replace`
    [exit 1]
    ");
    assert_snapshot!(wharf.run(&["add", "--replace", "--prefix", "o_", "one", "--", &fake, "stderr=hello"]), @"
    $ wharf add --replace --prefix o_ one -- [FAKE] stderr=hello
    added one, 5 tools
    ! it runs on this machine, with your rights
    ");
    let block = format!(
        "\"mcpServers\": {{\"two\": {{\"type\": \"stdio\", \"command\": \"{fake}\", \"autoApprove\": []}}}}"
    );
    assert_snapshot!(wharf.run_with_input(&["add", "-", "--prefix=two_"], &block), @"
    $ wharf add - --prefix=two_
    added two, 5 tools
    ! warning: mcpServers.two.autoApprove: unknown member, kept but not used
    ! it runs on this machine, with your rights
    ");
    let entry = format!("{{\"command\": \"{fake}\"}}");
    assert_snapshot!(wharf.run(&["add", "three", &entry, "--disabled"]), @r#"
    $ wharf add three {"command": "[FAKE]"} --disabled
    added three, switched off
    ! it runs on this machine, with your rights
    "#);
    assert_snapshot!(wharf.filter(&wharf.home.read("settings.json")), @r#"
    {
      "mcpServers": {
        "one": {
          "command": "[FAKE]",
          "args": ["stderr=hello"],
          "toolPrefix": "o_"
        },
        "two": {
          "type": "stdio",
          "command": "[FAKE]",
          "autoApprove": [],
          "toolPrefix": "two_"
        },
        "three": {
          "command": "[FAKE]",
          "enabled": false
        }
      }
    }
    "#);
    assert_snapshot!(wharf.run(&["list"]), @"
    $ wharf list
    NAME   STATUS       TOOLS  SOURCE    COMMAND
    one    not started  5      settings  [FAKE] 'stderr=hello'
    two    not started  5      settings  [FAKE]
    three  disabled     -      settings  [FAKE]
    ");
    assert_snapshot!(wharf.run(&["show", "one"]), @"
    $ wharf show one
    name      one
    status    not started
    command   [FAKE] 'stderr=hello'
    from      [HOME]/settings.json:3
    server    fake-server 1.0.0
    protocol  2025-11-25
    tools     5 tools
      o_work (work)  Does work
      o_echo (echo)  Answers with the message
      o_env  (env)  Answers with the whole environment, as JSON
      o_cwd  (cwd)  Answers with the working directory
      o_pid  (pid)  Answers with the process id
    last words on standard error
      hello
      hello
    ");
}

#[test]
fn a_server_is_switched_and_removed() {
    let wharf = Wharf::new();
    let _daemon = wharf.up();
    for name in ["one", "two", "three"] {
        wharf.add_fake(name, &["tools=1"]);
    }
    wharf.run(&["disable", "three"]);
    assert_snapshot!(wharf.run(&["enable", "three"]), @"
    $ wharf enable three
    enabled three, 1 tool
    ");
    assert_snapshot!(wharf.run(&["disable", "two"]), @"
    $ wharf disable two
    disabled two
    ");
    assert_snapshot!(wharf.run(&["list"]), @"
    $ wharf list
    NAME   STATUS       TOOLS  SOURCE    COMMAND
    one    not started  1      settings  [FAKE] 'tools=1'
    two    disabled     -      settings  [FAKE] 'tools=1'
    three  not started  1      settings  [FAKE] 'tools=1'
    ");
    assert_snapshot!(wharf.run(&["remove", "three"]), @"
    $ wharf remove three
    removed three
    ");
    assert_snapshot!(wharf.run(&["remove", "three"]), @"
    $ wharf remove three
    ! error: there is no MCP server `three`; known: one, two
    [exit 4]
    ");
    assert_snapshot!(wharf.run(&["show", "thre"]), @"
    $ wharf show thre
    ! error: there is no MCP server `thre`; known: one, two
    [exit 4]
    ");
    let list = wharf.json(&["list"]);
    assert_eq!(list["servers"].as_array().unwrap().len(), 2);
}

#[test]
fn a_server_that_does_not_start_is_kept_and_explained() {
    let wharf = Wharf::new();
    let _daemon = wharf.up();
    assert_snapshot!(wharf.run(&["add", "lost", "--", "/nowhere/server"]), @"
    $ wharf add lost -- /nowhere/server
    added lost, but its tools can't be listed
    ! warning: lost: `/nowhere/server` was not found
    ! cause: there is no program `/nowhere/server` where the daemon looks (WF-105)
    ! hint: install it, or give its whole path in the entry ([HOME]/settings.json:3): `command -v /nowhere/server`
    ! hint: `wharf logs lost` shows what it wrote; `wharf add --replace lost …` corrects the entry, `wharf test lost` tries it again, `wharf remove lost` removes it
    ! it runs on this machine, with your rights
    [exit 1]
    ");
    assert_snapshot!(wharf.run(&["add", "dead", "--", &fake(), "die-before-init=3"]), @"
    $ wharf add dead -- [FAKE] die-before-init=3
    added dead, but its tools can't be listed
    ! warning: dead: it exited (code 3) before it was ready
    !   Its standard error ends with:
    !     fatal: missing BAD_API_KEY
    ! cause: the server does not start without BAD_API_KEY (WF-301)
    ! hint: give it BAD_API_KEY; it is asked for, and kept in the vault: `wharf add --replace dead --env BAD_API_KEY -- [FAKE] 'die-before-init=3'`
    ! hint: `wharf logs dead` shows what it wrote; `wharf add --replace dead …` corrects the entry, `wharf test dead` tries it again, `wharf remove dead` removes it
    ! it runs on this machine, with your rights
    [exit 1]
    ");
    assert_snapshot!(wharf.run(&["list"]), @"
    $ wharf list
    NAME  STATUS                                   TOOLS  SOURCE    COMMAND
    lost  failed: `/nowhere/server` was not found  -      settings  /nowhere/server
    dead  failed: it exited (code 3) before it was ready  -      settings  [FAKE] 'die-before-init=3'
    ");
    assert_snapshot!(wharf.run(&["tools"]), @"
    $ wharf tools
    ! no tools
    ! warning: no tools of lost: `/nowhere/server` was not found
    ! warning: no tools of dead: it exited (code 3) before it was ready
    !   Its standard error ends with:
    !     fatal: missing BAD_API_KEY
    ");
    assert_snapshot!(wharf.run(&["call", "dead/work"]), @"
    $ wharf call dead/work
    ! error: dead: the MCP server did not start: it exited (code 3) before it was ready
    !   Its standard error ends with:
    !     fatal: missing BAD_API_KEY
    [exit 1]
    ");
    assert_snapshot!(wharf.run(&["enable", "dead"]), @"
    $ wharf enable dead
    enabled dead, but its tools can't be listed
    ! warning: dead: failed: it exited (code 3) before it was ready
    !   Its standard error ends with:
    !     fatal: missing BAD_API_KEY
    [exit 1]
    ");
    assert_snapshot!(wharf.run(&["logs", "dead", "-n", "1"]), @"
    $ wharf logs dead -n 1
    fatal: missing BAD_API_KEY
    ");
    let status = wharf.run(&["status"]);
    assert!(status.contains("! warning: lost: failed"), "{status}");
}

#[test]
fn an_entry_that_can_not_be_used_is_refused() {
    let wharf = Wharf::new();
    let _daemon = wharf.up();
    assert_snapshot!(wharf.run(&["add", "_hidden", "--prefix", "mcp__x", "--", "x"]), @r#"
    $ wharf add _hidden --prefix mcp__x -- x
    ! error: an entry can't be used
    ! caused by: _hidden: the server's name "_hidden" may not start with `_`
    ! caused by: _hidden.toolPrefix: may not start with `mcp__`, not "mcp__x"
    [exit 2]
    "#);
    assert_snapshot!(wharf.run(&["add", "_hidden", "--prefix", "mcp__x", "--json", "--", "x"]), @r#"
    $ wharf add _hidden --prefix mcp__x --json -- x
    ! {"type":"about:blank","title":"Unprocessable Entity","status":422,"detail":"an entry can't be used","fields":{"_hidden":["the server's name \"_hidden\" may not start with `_`"],"_hidden.toolPrefix":["may not start with `mcp__`, not \"mcp__x\""]},"exitCode":2}
    [exit 2]
    "#);
    assert_eq!(wharf.home.read("settings.json"), "");
}

#[test]
fn processes_are_stopped_and_started_again() {
    let wharf = Wharf::new();
    let daemon = wharf.up();
    wharf.add_fake("one", &[]);
    assert_snapshot!(wharf.run(&["mcp"]), @"
    $ wharf mcp
    one  not started (5 tools)
    ");
    wharf.run(&["call", "one/work"]);
    assert_snapshot!(wharf.run(&["mcp"]), @"
    $ wharf mcp
    one  running (5 tools)
    ");
    assert_snapshot!(wharf.run(&["mcp", "one"]), @"
    $ wharf mcp one
    one: running
    command: [FAKE]
    from: [HOME]/settings.json:3
    server: fake-server 1.0.0
    protocol: 2025-11-25
    tools: work, echo, env, cwd, pid
    ");
    assert_snapshot!(wharf.run(&["mcp", "restart", "one"]), @"
    $ wharf mcp restart one
    one: stopped; the next call starts a fresh one
    ");
    assert_snapshot!(wharf.run(&["mcp", "tow"]), @"
    $ wharf mcp tow
    ! error: there is no MCP server `tow`; known: one
    [exit 4]
    ");
    wharf.run(&["call", "one/work"]);
    let is_running = || {
        processes::children_of(daemon.pid())
            .iter()
            .any(|pid| processes::command_line(*pid) == fake())
    };
    assert!(is_running());
    assert_snapshot!(wharf.run(&["stop", "one"]), @"
    $ wharf stop one
    stopped one; the next call starts a fresh process
    ");
    wait_until("the process to be gone", || !is_running());
    assert_snapshot!(wharf.run(&["restart", "one"]), @"
    $ wharf restart one
    stopped one; the next call starts a fresh process
    ");
    assert_snapshot!(wharf.run(&["restart", "tow"]), @"
    $ wharf restart tow
    ! error: there is no MCP server `tow`; known: one
    [exit 4]
    ");
}

#[test]
fn logs_are_told_and_followed() {
    let wharf = Wharf::new();
    let _daemon = wharf.up();
    wharf.add_fake("one", &["stderr=first", "stderr=second"]);
    assert_snapshot!(wharf.run(&["logs", "one", "-n", "1"]), @"
    $ wharf logs one -n 1
    second
    ");
    assert_snapshot!(wharf.run(&["logs"]), @"
    $ wharf logs
    one: first
    one: second
    ");
    assert_snapshot!(wharf.run(&["logs", "--json"]), @r#"
    $ wharf logs --json
    {"server":"one","line":"first"}
    {"server":"one","line":"second"}
    "#);
    assert_snapshot!(wharf.run(&["logs", "two"]), @"
    $ wharf logs two
    ! error: there is no MCP server `two`; known: one
    [exit 4]
    ");
    let mut following = wharf
        .command(&["logs", "--follow", "-n", "1"])
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    // It listens before it looks back.
    let mut seen = vec![lines.next().unwrap().unwrap()];
    wharf.run(&["call", "one/work"]);
    while seen.len() < 6 {
        seen.push(lines.next().unwrap().unwrap());
    }
    following.kill().unwrap();
    following.wait().unwrap();
    // What it writes and what it does come by different ways.
    seen.sort();
    assert_snapshot!(wharf.filter(&seen.join("\n")), @"
    one: [running, pid [PID] for default]
    one: [starting for default]
    one: [work called by default, answered after [DURATION]]
    one: first
    one: second
    one: second
    ");
}
