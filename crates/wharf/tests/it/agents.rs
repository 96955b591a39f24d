//! Agents and how clients connect as one.

use insta::assert_snapshot;

use crate::support::Wharf;

#[test]
fn agents_come_and_go() {
    let wharf = Wharf::new();
    let _daemon = wharf.up();
    assert_snapshot!(wharf.run(&["agent", "new", "bob"]), @"");
    assert_snapshot!(wharf.run(&["agent", "new", "bob"]), @"");
    assert_snapshot!(wharf.run(&["agent", "new", "b/b"]), @"");
    assert_snapshot!(wharf.run(&["agent", "list"]), @"");
    assert_snapshot!(wharf.run(&["agent", "show", "bob"]), @"");
    assert_snapshot!(wharf.run(&["agent", "remove", "bob"]), @"");
    assert_snapshot!(wharf.run(&["agent", "show", "bob"]), @"");
    assert_snapshot!(wharf.run(&["agent", "remove", "default"]), @"");
}

#[test]
fn an_endpoint_tells_how_to_connect() {
    let wharf = Wharf::new();
    let _daemon = wharf.up();
    let endpoint = wharf.json(&["agent", "endpoint"]);
    let token = endpoint["token"].as_str().unwrap();
    assert_snapshot!(wharf.run(&["agent", "endpoint"]).replace(token, "[TOKEN]"), @"");
    assert_snapshot!(wharf.run(&["agent", "endpoint", "nobody"]), @"");
}
