//! The environment laid over `config.json` (V4): `Mcp__Servers__<name>__Command` and friends.

use std::collections::BTreeMap;

use super::tree::{Node, Value};
use crate::model::Place;

/// Sections that may be set from the environment.
const SECTIONS: [&str; 2] = ["mcp", "daemon"];

/// Lays every variable of a known section over the tree, per key. Keys match in any case; where the file already has
/// one, its spelling stays. The keys below `Env` are names of variables and keep their case.
pub(super) fn overlay(root: &mut Node, environment: &BTreeMap<String, String>) {
    for (variable, value) in environment {
        let path: Vec<&str> = variable.split("__").collect();
        let section = SECTIONS.iter().any(|s| path[0].eq_ignore_ascii_case(s));
        if section && path.len() > 1 && path.iter().all(|part| !part.is_empty()) {
            let place = Place::Environment {
                variable: variable.as_str().into(),
            };
            set(root, &path, &[], value, &place);
        }
    }
    settle_lists(root);
}

fn set(node: &mut Node, path: &[&str], above: &[&str], value: &str, place: &Place) {
    let Some((key, rest)) = path.split_first() else {
        *node = Node {
            value: Value::Text(value.to_owned()),
            place: place.clone(),
        };
        return;
    };
    // A list is overlaid by index; it becomes a list again in `settle_lists`.
    if let Value::List(items) = &mut node.value {
        let items = std::mem::take(items).into_iter().enumerate();
        node.value = Value::Object(items.map(|(i, item)| (i.to_string(), item)).collect());
    }
    if !matches!(node.value, Value::Object(_)) {
        *node = Node {
            value: Value::Object(vec![]),
            place: place.clone(),
        };
    }
    let Value::Object(members) = &mut node.value else {
        return;
    };
    let exact = above
        .last()
        .is_some_and(|parent| parent.eq_ignore_ascii_case("env"))
        && above.len() == 4;
    let same = |known: &str| {
        if exact {
            known == *key
        } else {
            known.eq_ignore_ascii_case(key)
        }
    };
    let index = members
        .iter()
        .position(|(known, _)| same(known))
        .unwrap_or_else(|| {
            let new = Node {
                value: Value::Null,
                place: place.clone(),
            };
            members.push(((*key).to_owned(), new));
            members.len() - 1
        });
    let above: Vec<&str> = above.iter().chain(std::iter::once(key)).copied().collect();
    set(&mut members[index].1, rest, &above, value, place);
}

/// Options that are lists; below these, indexed variables become a list in the order of their numbers.
const LISTS: [&str; 5] = [
    "args",
    "extraArgs",
    "inheritEnv",
    "secretVariables",
    "passVariables",
];

fn settle_lists(node: &mut Node) {
    let Value::Object(members) = &mut node.value else {
        return;
    };
    for (key, member) in members {
        settle_lists(member);
        if !LISTS.iter().any(|list| list.eq_ignore_ascii_case(key)) {
            continue;
        }
        let Value::Object(items) = &mut member.value else {
            continue;
        };
        let indices: Option<Vec<usize>> =
            items.iter().map(|(index, _)| index.parse().ok()).collect();
        if let Some(indices) = indices {
            let items = std::mem::take(items).into_iter().map(|(_, item)| item);
            let mut items: Vec<_> = indices.into_iter().zip(items).collect();
            items.sort_by_key(|(index, _)| *index);
            member.value = Value::List(items.into_iter().map(|(_, item)| item).collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tree::parse;

    /// Tree as JSON text, places left out.
    fn show(node: &Node) -> String {
        match &node.value {
            Value::Null => "null".into(),
            Value::Bool(value) => value.to_string(),
            Value::Number(text) => text.clone(),
            Value::Text(text) => format!("{text:?}"),
            Value::List(items) => {
                format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(","))
            }
            Value::Object(members) => {
                let members = members.iter().map(|(k, v)| format!("{k:?}:{}", show(v)));
                format!("{{{}}}", members.collect::<Vec<_>>().join(","))
            }
        }
    }

    fn check(file: &str, variables: &[(&str, &str)], expect: &str) {
        let mut root = parse(&"f".into(), file).unwrap();
        let variables = variables
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        overlay(&mut root, &variables);
        assert_eq!(show(&root), expect, "{variables:?}");
    }

    #[test]
    fn v4_variables_bind_to_servers() {
        check(
            "",
            &[
                ("Mcp__Servers__git__Command", "uvx"),
                ("Mcp__Servers__git__Args__1", "b"),
                ("Mcp__Servers__git__Args__0", "a"),
                ("Mcp__Servers__git__Env__Path_X", "1"),
                ("Mcp__Playwright__Enabled", "true"),
                ("OTHER__Servers__x", "no"),
                ("Mcp", "no"),
            ],
            r#"{"Mcp":{"Playwright":{"Enabled":"true"},"Servers":{"git":{"Args":["a","b"],"Command":"uvx","Env":{"Path_X":"1"}}}}}"#,
        );
    }

    #[test]
    fn v4_the_environment_overrides_the_file_key_by_key() {
        check(
            r#"{"mcp":{"servers":{"Git":{"command":"a","args":["1","2"],"env":{"K":"v","L":"w"}}}}}"#,
            &[
                ("MCP__SERVERS__GIT__COMMAND", "b"),
                ("Mcp__Servers__git__args__1", "x"),
                ("Mcp__Servers__git__Env__k", "lower"),
                ("Mcp__Servers__git__Env__L", "new"),
            ],
            r#"{"mcp":{"servers":{"Git":{"command":"b","args":["1","x"],"env":{"K":"v","L":"new","k":"lower"}}}}}"#,
        );
    }

    #[test]
    fn v4_only_names_of_variables_keep_their_case() {
        check(
            r#"{"mcp":{"servers":{"env":{"command":"a","env":{"K":"v"}}}}}"#,
            &[
                ("MCP__SERVERS__ENV__COMMAND", "b"),
                ("Mcp__Servers__env__Env__k", "lower"),
            ],
            r#"{"mcp":{"servers":{"env":{"command":"b","env":{"K":"v","k":"lower"}}}}}"#,
        );
    }

    #[test]
    fn gaps_and_odd_names_do_no_harm() {
        check(
            "",
            &[
                ("Mcp____x", "1"),
                ("mcp__", "2"),
                ("__mcp", "3"),
                ("daemon", "4"),
            ],
            "{}",
        );
        check(
            "",
            &[
                ("mcp__servers__1__args__7", "b"),
                ("mcp__servers__1__args__2", "a"),
            ],
            r#"{"mcp":{"servers":{"1":{"args":["a","b"]}}}}"#,
        );
        check(
            r#"{"mcp":1}"#,
            &[("mcp__servers__a__command", "x")],
            r#"{"mcp":{"servers":{"a":{"command":"x"}}}}"#,
        );
    }
}
