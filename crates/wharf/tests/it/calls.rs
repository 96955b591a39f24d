//! `wharf call`, and how the tools look.

use insta::assert_snapshot;

use crate::support::Wharf;

#[test]
fn a_tool_is_called_by_either_of_its_names() {
    let wharf = Wharf::new();
    let _daemon = wharf.up();
    wharf.add_fake("io.github.a/b", &[]);
    assert_snapshot!(wharf.run(&["call", "io.github.a/b/echo", "message=5"]), @"
    $ wharf call io.github.a/b/echo message=5
    5
    ");
    assert_snapshot!(wharf.run(&["call", "echo", "--args", "{\"message\": \"hello there\"}"]), @r#"
    $ wharf call echo --args {"message": "hello there"}
    hello there
    "#);
    assert_snapshot!(wharf.run(&["call", "echo", "message=x", "--json"]), @r#"
    $ wharf call echo message=x --json
    {"content":[{"type":"text","text":"x"}]}
    "#);
    assert_snapshot!(wharf.run(&["call", "io.github.a/b/nope"]), @r#"
    $ wharf call io.github.a/b/nope
    ! error: Unknown tool: "nope"
    ! hint: `wharf tools` lists what there is
    [exit 4]
    "#);
    assert_snapshot!(wharf.run(&["call", "io.github.a/nope"]), @"
    $ wharf call io.github.a/nope
    ! error: there is no server `io.github.a`; did you mean `io.github.a/b`?
    ! hint: `wharf tools` lists what there is
    [exit 4]
    ");
    assert_snapshot!(wharf.run(&["call", "ecko"]), @"
    $ wharf call ecko
    ! error: there is no tool `ecko`; did you mean `echo`?
    ! hint: `wharf tools` lists what there is
    [exit 4]
    ");
    assert_snapshot!(wharf.run(&["call", "echo", "--agent", "nobody"]), @"
    $ wharf call echo --agent nobody
    ! error: there is no agent `nobody`
    [exit 4]
    ");
    assert_snapshot!(wharf.run(&["tools", "--schema"]), @r#"
    $ wharf tools --schema
    work (io.github.a/b/work)
      Does work
      {
        "type": "object",
        "properties": {
          "x": {
            "type": "string"
          }
        }
      }

    echo (io.github.a/b/echo)
      Answers with the message
      {
        "type": "object",
        "properties": {
          "message": {
            "type": "string"
          }
        },
        "required": [
          "message"
        ]
      }

    env (io.github.a/b/env)
      Answers with the whole environment, as JSON
      {
        "type": "object",
        "properties": {}
      }

    cwd (io.github.a/b/cwd)
      Answers with the working directory
      {
        "type": "object",
        "properties": {}
      }

    pid (io.github.a/b/pid)
      Answers with the process id
      {
        "type": "object",
        "properties": {}
      }
    "#);
}

#[test]
fn arguments_are_what_the_schema_wants() {
    let wharf = Wharf::new();
    let _daemon = wharf.up();
    wharf.add_fake("weird", &["weird-tools"]);
    assert_snapshot!(wharf.run(&["call", "weird/slash/name", "a=1"]), @r#"
    $ wharf call weird/slash/name a=1
    called slash/name {"a":"1"}
    "#);
    assert_snapshot!(wharf.run(&["call", "weird/ref", "a={\"n\": 1}"]), @r#"
    $ wharf call weird/ref a={"n": 1}
    called ref {"a":{"n":1}}
    "#);
    assert_snapshot!(wharf.run(&["call", "weird/prefix_items", "p=[\"a\", 2]", "q=2"]), @r#"
    $ wharf call weird/prefix_items p=["a", 2] q=2
    called prefix_items {"p":["a",2],"q":"2"}
    "#);
}

#[test]
fn errors_of_a_tool_are_an_exit_code() {
    let wharf = Wharf::new();
    let _daemon = wharf.up();
    wharf.add_fake("failing", &["tool-error"]);
    assert_snapshot!(wharf.run(&["call", "failing/work"]), @"
    $ wharf call failing/work
    it failed
    ! error: the tool returned an error
    [exit 1]
    ");
    assert_snapshot!(wharf.run(&["call", "failing/work", "--json"]), @r#"
    $ wharf call failing/work --json
    {"content":[{"type":"text","text":"it failed"}],"isError":true}
    [exit 1]
    "#);
    wharf.add_fake("crashing", &["crash-after=1"]);
    assert_snapshot!(wharf.run(&["call", "crashing/work"]), @"
    $ wharf call crashing/work
    ! error: crashing: the MCP server exited (code 42). It restarts on the next call; its state was lost.
    !   Its standard error ends with:
    !     Segfault (simulated)
    [exit 1]
    ");
    wharf.run(&["disable", "failing"]);
    assert_snapshot!(wharf.run(&["call", "failing/work"]), @"
    $ wharf call failing/work
    ! error: failing: this MCP server is disabled; its owner can switch it on with `wharf enable failing`
    [exit 1]
    ");
}

#[test]
fn progress_and_log_messages_come_on_standard_error() {
    let wharf = Wharf::new();
    let _daemon = wharf.up();
    wharf.add_fake("slow", &["progress=2", "log=warning"]);
    assert_snapshot!(wharf.run(&["call", "slow/work"]), @r#"
    $ wharf call slow/work
    ok 1
    ! warning: fake: working on "work"
    ! progress 1/2 step 1
    ! progress 2/2 step 2
    "#);
}

#[test]
fn what_takes_a_while_is_said() {
    let wharf = Wharf::new();
    let _daemon = wharf.up();
    wharf.add_fake("slow", &["slow-call=1.2"]);
    assert_snapshot!(wharf.run(&["call", "slow/work"]), @"
    $ wharf call slow/work
    ok 1
    ! waiting for slow/work…
    ");
}
