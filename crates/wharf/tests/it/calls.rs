//! `wharf call`, and how the tools look.

use insta::assert_snapshot;

use crate::support::Wharf;

#[test]
fn a_tool_is_called_by_either_of_its_names() {
    let wharf = Wharf::new();
    let _daemon = wharf.up();
    wharf.add_fake("io.github.a/b", &[]);
    assert_snapshot!(wharf.run(&["call", "io.github.a/b/echo", "message=5"]), @"");
    assert_snapshot!(wharf.run(&["call", "echo", "--args", "{\"message\": \"hello there\"}"]), @"");
    assert_snapshot!(wharf.run(&["call", "echo", "message=x", "--json"]), @"");
    assert_snapshot!(wharf.run(&["call", "io.github.a/b/nope"]), @"");
    assert_snapshot!(wharf.run(&["call", "io.github.a/nope"]), @"");
    assert_snapshot!(wharf.run(&["call", "ecko"]), @"");
    assert_snapshot!(wharf.run(&["call", "echo", "--agent", "nobody"]), @"");
    assert_snapshot!(wharf.run(&["tools", "--schema"]), @"");
}

#[test]
fn arguments_are_what_the_schema_wants() {
    let wharf = Wharf::new();
    let _daemon = wharf.up();
    wharf.add_fake("weird", &["weird-tools"]);
    assert_snapshot!(wharf.run(&["call", "weird/slash/name", "a=1"]), @"");
    assert_snapshot!(wharf.run(&["call", "weird/ref", "a={\"n\": 1}"]), @"");
    assert_snapshot!(wharf.run(&["call", "weird/prefix_items", "p=[\"a\", 2]", "q=2"]), @"");
}

#[test]
fn errors_of_a_tool_are_an_exit_code() {
    let wharf = Wharf::new();
    let _daemon = wharf.up();
    wharf.add_fake("failing", &["tool-error"]);
    assert_snapshot!(wharf.run(&["call", "failing/work"]), @"");
    assert_snapshot!(wharf.run(&["call", "failing/work", "--json"]), @"");
    wharf.add_fake("crashing", &["crash-after=1"]);
    assert_snapshot!(wharf.run(&["call", "crashing/work"]), @"");
    wharf.run(&["disable", "failing"]);
    assert_snapshot!(wharf.run(&["call", "failing/work"]), @"");
}

#[test]
fn progress_and_log_messages_come_on_standard_error() {
    let wharf = Wharf::new();
    let _daemon = wharf.up();
    wharf.add_fake("slow", &["progress=2", "log=warning"]);
    assert_snapshot!(wharf.run(&["call", "slow/work"]), @"");
}

#[test]
fn what_takes_a_while_is_said() {
    let wharf = Wharf::new();
    let _daemon = wharf.up();
    wharf.add_fake("slow", &["slow-call=1.2"]);
    assert_snapshot!(wharf.run(&["call", "slow/work"]), @"");
}
