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
