use serde_json::json;
use wharfinger_testkit::Home;

use crate::client::{Client, names};

fn list(modes: &[&str]) -> Vec<String> {
    Client::ready(modes).tool_names()
}

#[test]
fn the_list_can_be_chosen() {
    assert_eq!(list(&[]), ["work", "echo", "env", "cwd", "pid"]);
    assert_eq!(list(&["tools=2"]), ["tool_0", "tool_1"]);
    assert_eq!(list(&["tool=read", "tool=write"]), ["read", "write"]);
    assert_eq!(list(&["tool=a", "dup-tools"]), ["a", "a"]);
    assert_eq!(list(&["tool=a", "huge-line-tools=2"]), ["a", "t0", "t1"]);
}

#[test]
fn awkward_and_illegal_tools() {
    let weird = list(&["weird-tools"]);
    assert_eq!(weird.len(), 15);
    assert_eq!(weird[1..4], ["dot.name", "slash/name", "with space"]);
    assert_eq!(
        list(&["odd-tool"]),
        [
            "good_first",
            "no_schema",
            "schema_is_true",
            "bool_property",
            "-",
            "-",
            "good_last"
        ],
    );
    let mut deep = Client::ready(&["deep=3"]);
    let list = deep.request("tools/list", &json!({}));
    let schema = &list["result"]["tools"][0]["inputSchema"];
    assert_eq!(
        schema
            .pointer("/properties/a/properties/a/properties/a/type")
            .unwrap(),
        "string"
    );
}

#[test]
fn pages_end_and_a_loop_does_not() {
    let mut client = Client::ready(&["tools=5", "pages=3"]);
    let mut pages = Vec::new();
    let mut cursor = json!(null);
    loop {
        let answer = client.request("tools/list", &json!({"cursor": cursor}));
        pages.push(names(&answer["result"]["tools"]));
        let Some(next) = answer["result"].get("nextCursor") else {
            break;
        };
        cursor = next.clone();
    }
    assert_eq!(
        pages,
        [
            vec!["tool_0", "tool_1"],
            vec!["tool_2", "tool_3"],
            vec!["tool_4"]
        ]
    );

    let mut client = Client::ready(&["page-loop"]);
    for _ in 0..2 {
        let answer = client.request("tools/list", &json!({"cursor": "again"}));
        assert_eq!(answer["result"]["nextCursor"], "again");
    }
}

#[test]
fn a_list_that_never_comes() {
    let mut client = Client::ready(&["no-reply-to-list"]);
    client.ask("tools/list", &json!({}));
    assert_eq!(client.request("ping", &json!({}))["id"], 3);
}

#[test]
fn definitions_differ_from_start_to_start() {
    let home = Home::new();
    let mode = format!("schema-by-start={}", home.file("starts").display());
    let tools: Vec<_> = (0..3)
        .map(|_| {
            let mut client = Client::ready(&[&mode]);
            client.request("tools/list", &json!({}))["result"]["tools"].clone()
        })
        .collect();
    assert_eq!(names(&tools[0]), ["work", "only_on_odd_starts"]);
    assert_eq!(names(&tools[1]), ["work"]);
    assert_ne!(tools[0][0], tools[1][0]);
    assert_ne!(tools[0][0], tools[2][0]);
}

#[test]
fn tools_appear_while_it_runs() {
    let mut client = Client::ready(&["list-changed-on-call"]);
    client.ask("tools/call", &json!({"name": "work"}));
    assert_eq!(
        client.message()["method"],
        "notifications/tools/list_changed"
    );
    assert_eq!(client.message()["id"], 2);
    assert_eq!(client.tool_names().last().unwrap(), "added_1");

    let mut client = Client::ready(&["list-changed=0.001"]);
    assert_eq!(
        client.message()["method"],
        "notifications/tools/list_changed"
    );
}
