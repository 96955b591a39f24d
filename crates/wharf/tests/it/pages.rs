//! What is made from the definition of the command line.

use std::io::Read as _;

use insta::assert_snapshot;

use crate::support::Wharf;

#[test]
fn the_reference_page_is_up_to_date() {
    let output = Wharf::new().command(&["__docs"]).output().unwrap();
    let made = String::from_utf8(output.stdout).unwrap();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(made == kept, "docs/cli.md is stale: `cargo run -p wharf -- __docs > docs/cli.md` refreshes it");
}

#[test]
fn help_is_documentation() {
    let wharf = Wharf::new();
    assert_snapshot!(wharf.run(&["-h"]), @"");
    assert_snapshot!(wharf.run(&["call", "--help"]), @"");
}

#[test]
fn man_pages_and_completions_are_made() {
    let wharf = Wharf::new();
    let page = wharf.run(&["man"]);
    assert!(page.contains(".TH wharf 1") && page.contains("wharf\\-agent(1)"), "{page}");
    let page = wharf.run(&["man", "agent", "endpoint"]);
    assert!(page.contains(".TH wharf-agent-endpoint 1"), "{page}");
    assert_snapshot!(wharf.run(&["man", "agents"]), @"");
    for shell in ["bash", "zsh", "fish"] {
        let script = wharf.run(&["completions", shell]);
        assert!(script.contains("endpoint"), "{shell}: {script}");
    }
}

#[test]
fn a_reader_that_has_enough_is_no_failure() {
    let mut child = Wharf::new().command(&["__docs"]).spawn().unwrap();
    drop(child.stdout.take());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(0), ""));
}
