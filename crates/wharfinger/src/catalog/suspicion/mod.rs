//! What is suspicious about a tool's definition, whether it is new or changed.

mod imitation;
mod looks;
mod orders;

use std::fmt::Write as _;

use serde_json::value::RawValue;

pub use self::imitation::{Other, Others};
use self::imitation::{imitated, mentioned};
pub(super) use self::looks::shown;
use self::looks::unseen;
use self::orders::order;
use super::tree::{DEPTH, Node, SIZE};
use crate::model::{ServerName, Suspicion, SuspicionKind, ToolName};

/// Suspicions that are told of one tool.
const MOST: usize = 20;

/// What is suspicious about a definition of a server's tool: characters that nobody sees, orders for the model, and
/// tools of other servers that it may be taken for or speaks of. Names, descriptions and every other text count, those
/// deep in schemas too. At most twenty are told.
///
/// Two servers may well have tools of the same name. That is not suspicious; a name that only looks the same is.
pub fn suspicions(server: &ServerName, tool: &RawValue, others: &Others) -> Vec<Suspicion> {
    let node = Node::of(tool);
    let mut search = Search {
        server,
        others,
        path: vec![],
        found: vec![],
    };
    let name = node.get("name").and_then(Node::text);
    if let Some(like) = name.and_then(|name| imitated(server, &ToolName::new(name).ok()?, others)) {
        search.path.push(Step::Key("name"));
        search.add(SuspicionKind::Imitates, &like);
        search.path.pop();
    }
    search.node(&node);
    search.found
}

enum Step<'a> {
    Key(&'a str),
    Item(usize),
}

struct Search<'a> {
    server: &'a ServerName,
    others: &'a Others,
    path: Vec<Step<'a>>,
    found: Vec<Suspicion>,
}

impl<'a> Search<'a> {
    fn node(&mut self, node: &'a Node<'_>) {
        if self.found.len() >= MOST {
            return;
        }
        match node {
            Node::Text(text) => {
                let is_name = matches!(self.path.as_slice(), [Step::Key("name")]);
                self.text(text, !is_name);
            }
            Node::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.path.push(Step::Item(index));
                    self.node(item);
                    self.path.pop();
                }
            }
            Node::Object(members) => {
                for (index, (key, value)) in members.iter().enumerate() {
                    self.path.push(Step::Key(key));
                    self.text(key, false);
                    if members.get(index + 1).is_some_and(|(next, _)| next == key) {
                        self.add(SuspicionKind::Hidden, "the same member more than once");
                    }
                    self.node(value);
                    self.path.pop();
                }
            }
            // A string that is no Unicode.
            Node::Plain(text) if text.starts_with('"') => {
                self.add(SuspicionKind::Hidden, "half a character");
            }
            Node::Plain(_) => {}
            Node::Opaque(text) if text.len() > SIZE => {
                self.add(SuspicionKind::Unreadable, &format!("{} bytes", text.len()));
            }
            Node::Opaque(_) => {
                self.add(
                    SuspicionKind::Unreadable,
                    &format!("more than {DEPTH} levels"),
                );
            }
        }
    }

    fn text(&mut self, text: &str, prose: bool) {
        if let Some(c) = unseen(text, prose) {
            self.add(SuspicionKind::Hidden, &format!("U+{:04X}", u32::from(c)));
        }
        if let Some(order) = order(text) {
            self.add(SuspicionKind::Orders, &order);
        }
        if let Some(other) = mentioned(self.server, text, self.others) {
            self.add(SuspicionKind::Imitates, &other);
        }
    }

    fn add(&mut self, kind: SuspicionKind, found: &str) {
        if self.found.len() >= MOST {
            return;
        }
        let mut path = String::new();
        for step in &self.path {
            match step {
                Step::Key(key) => push_key(&mut path, key),
                Step::Item(index) => push(&mut path, format_args!("[{index}]")),
            }
        }
        if path.is_empty() {
            path.push_str("definition");
        }
        self.found.push(Suspicion {
            kind,
            path,
            found: shown(found),
        });
    }
}

/// Appends a member to a path: `.key`, or quoted where it could be misread.
pub(super) fn push_key(path: &mut String, key: &str) {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$');
    if !key.is_empty() && key.len() <= 80 && key.chars().all(is_word) {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(key);
    } else {
        let cut: String = key.chars().take(80).collect();
        push(path, format_args!("[\"{}\"]", shown(&cut)));
    }
}

fn push(path: &mut String, step: std::fmt::Arguments<'_>) {
    path.write_fmt(step).expect("a string takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(tool: &str) -> Vec<String> {
        let raw = RawValue::from_string(tool.to_owned()).unwrap();
        let others = Others::new(vec![Other {
            server: ServerName::new("mail").unwrap(),
            tool: ToolName::new("send_mail").unwrap(),
            exposed: "mcp_mail_send_mail".into(),
        }]);
        let found = suspicions(&ServerName::new("me").unwrap(), &raw, &others);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_text_of_a_definition_is_looked_at() {
        let check = |tool: &str, expect: &[&str]| assert_eq!(found(tool), expect, "{tool}");
        check(
            r#"{"name":"t","description":"Reads a file ⚠️","inputSchema":{"type":"object"}}"#,
            &[],
        );
        check(
            r#"{"name":"t\u200d"}"#,
            &["name holds what cannot be seen: U+200D"],
        );
        check(
            r#"{"name":"⚠️"}"#,
            &["name holds what cannot be seen: U+FE0F"],
        );
        check(
            r#"{"title":"\u202e"}"#,
            &["title holds what cannot be seen: U+202E"],
        );
        check(
            r#"{"title":"\ud800"}"#,
            &["title holds what cannot be seen: half a character"],
        );
        check(
            r#"{"inputSchema":{"properties":{"a":{"enum":["x","<system>"]}}}}"#,
            &["inputSchema.properties.a.enum[1] gives the model orders: <system>"],
        );
        check(
            r#"{"inputSchema":{"properties":{"ignore_previous_instructions":{}}}}"#,
            &[
                "inputSchema.properties.ignore_previous_instructions gives the model orders: ignore previous instructions",
            ],
        );
        check(
            r#"{"inputSchema":{"properties":{"a\u200b":{}}}}"#,
            &["inputSchema.properties[\"a\\u{200B}\"] holds what cannot be seen: U+200B"],
        );
        check(
            r#"{"annotations":{"title":"see mcp_mail_send_mail"}}"#,
            &[
                "annotations.title may be taken for another server's tool: speaks of `mcp_mail_send_mail` of `mail`",
            ],
        );
        check(
            r#"{"name":"send_maiI"}"#,
            &[
                "name may be taken for another server's tool: `send_maiI` looks like `send_mail` of `mail`",
            ],
        );
        check(
            r#"{"a":1,"a":2}"#,
            &["a holds what cannot be seen: the same member more than once"],
        );
        check(r#"{"name":""}"#, &[]);
        check(
            r#""<system>""#,
            &["definition gives the model orders: <system>"],
        );
    }

    #[test]
    fn what_cannot_be_looked_through_is_suspicious() {
        let deep = format!(r#"{{"x":{}{}}}"#, "[".repeat(DEPTH), "]".repeat(DEPTH));
        let told = found(&deep);
        assert_eq!(told.len(), 1);
        assert!(
            told[0].ends_with("[0] cannot be looked through: more than 64 levels"),
            "{told:?}"
        );
        assert_eq!(
            found(&deep.replacen('[', "", 1).replacen(']', "", 1)),
            Vec::<String>::new()
        );
        let large = format!(r#"{{"x":"{}"}}"#, "x".repeat(SIZE));
        assert_eq!(
            found(&large),
            [format!(
                "definition cannot be looked through: {} bytes",
                SIZE + 8
            )]
        );
    }

    #[test]
    fn not_everything_is_told() {
        let members: Vec<String> = (0..30).map(|n| format!(r#""m{n}":"<system>""#)).collect();
        assert_eq!(found(&format!("{{{}}}", members.join(","))).len(), MOST);
    }

    #[test]
    fn keys_are_written_so_that_they_cannot_be_misread() {
        let check = |keys: &[&str], expect: &str| {
            let mut path = String::new();
            for key in keys {
                push_key(&mut path, key);
            }
            assert_eq!(path, expect);
        };
        check(&["a", "$defs", "b-c_1"], "a.$defs.b-c_1");
        check(&["a.b", "c"], r#"["a.b"].c"#);
        check(&["a", ""], r#"a[""]"#);
        check(&["é"], r#"["é"]"#);
        let (just, long) = ("x".repeat(80), "x".repeat(81));
        check(&[&just], &just);
        check(&[&long], &format!("[\"{just}\"]"));
    }
}
