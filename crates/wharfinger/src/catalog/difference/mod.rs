//! How two definitions of a tool differ, and how much that matters.

mod schema;
mod text;

#[cfg(test)]
mod tests;

use serde_json::value::RawValue;

use self::schema::Schemas;
use self::text::{around, class_of_texts, excerpt};
use super::suspicion::{Others, push_key, suspicions};
use super::tree::Node;
use crate::model::{Class, DiffLine, Difference, ServerName};

/// Lines of a difference.
const MOST: usize = 200;

/// How a definition differs from an earlier one of the same tool; `None` where it does so only in spacing and the order
/// of members, which change nothing.
///
/// What an argument may be is compared keyword by keyword. Where it cannot be told whether a change allows more or less,
/// it counts as less. Suspicions count only if the earlier definition did not give rise to them, too.
pub fn difference(
    server: &ServerName,
    old: &RawValue,
    new: &RawValue,
    others: &Others,
) -> Option<Difference> {
    let (before, after) = (Node::of(old), Node::of(new));
    if before == after {
        return None;
    }
    let mut lines = Lines::default();
    if matches!(before, Node::Object(_)) && matches!(after, Node::Object(_)) {
        for (key, old, new) in pairs(&before, &after) {
            member(&mut lines, key, old, new);
        }
    } else {
        lines.add(
            "definition",
            "cannot be compared",
            Class::Narrower,
            None,
            None,
        );
    }
    if lines.told.is_empty() {
        // Only what readers do not see of repeated members.
        lines.add(
            "definition",
            "repeated members changed",
            Class::Narrower,
            None,
            None,
        );
    }
    let known = suspicions(server, old, others);
    for fresh in suspicions(server, new, others) {
        if !known.contains(&fresh) {
            let what = fresh.what();
            lines.add(
                &fresh.path,
                what,
                Class::Suspicious,
                None,
                Some(fresh.found.clone()),
            );
        }
    }
    Some(lines.finish())
}

fn member(lines: &mut Lines, key: &str, old: Option<&Node<'_>>, new: Option<&Node<'_>>) {
    match key {
        "name" | "title" | "description" => lines.text(key, old, new),
        "annotations" => {
            let hints = pairs(old.unwrap_or(&EMPTY), new.unwrap_or(&EMPTY));
            if hints.is_empty() {
                lines.change(key, old, new, Class::Meaning);
            }
            for (hint, old, new) in hints {
                let mut path = String::from(key);
                push_key(&mut path, hint);
                lines.text(&path, old, new);
            }
        }
        "inputSchema" => Schemas::of_input(lines, old, new).compare(key, old, new),
        "outputSchema" => Schemas::of_output(lines).compare(key, old, new),
        _ => {
            let mut path = String::new();
            push_key(&mut path, key);
            lines.change(&path, old, new, Class::Narrower);
        }
    }
}

/// Where there is no object, one without members.
static EMPTY: Node<'static> = Node::Object(vec![]);

/// The members that differ of two objects, each once.
fn pairs<'n>(
    old: &'n Node<'_>,
    new: &'n Node<'_>,
) -> Vec<(&'n str, Option<&'n Node<'n>>, Option<&'n Node<'n>>)> {
    let keys = old
        .members()
        .iter()
        .chain(new.members())
        .map(|(key, _)| &**key);
    let mut keys: Vec<&str> = keys.collect();
    keys.sort_unstable();
    keys.dedup();
    keys.into_iter()
        .map(|key| (key, old.get(key), new.get(key)))
        .filter(|(_, old, new)| old != new)
        .collect()
}

/// The lines of a difference while it is made.
#[derive(Default)]
struct Lines {
    told: Vec<DiffLine>,
    left_out: usize,
    worst: Option<Class>,
}

impl Lines {
    fn add(
        &mut self,
        path: &str,
        what: &str,
        class: Class,
        old: Option<String>,
        new: Option<String>,
    ) {
        self.worst = self.worst.max(Some(class));
        // What is suspicious is always told.
        if self.told.len() >= MOST && class != Class::Suspicious {
            self.left_out += 1;
            return;
        }
        self.told.push(DiffLine {
            path: path.to_owned(),
            what: what.to_owned(),
            class,
            old,
            new,
        });
    }

    /// Something was added, removed or replaced.
    fn change(&mut self, path: &str, old: Option<&Node<'_>>, new: Option<&Node<'_>>, class: Class) {
        let what = match (old, new) {
            (None, _) => "added",
            (_, None) => "removed",
            (Some(_), Some(_)) => "changed",
        };
        self.add(path, what, class, old.map(excerpt), new.map(excerpt));
    }

    /// Something that people and models read.
    fn text(&mut self, path: &str, old: Option<&Node<'_>>, new: Option<&Node<'_>>) {
        let (Some(before), Some(after)) = (old, new) else {
            return self.change(path, old, new, Class::Meaning);
        };
        match (before.text(), after.text()) {
            (Some(before), Some(after)) => {
                let (class, what) = match class_of_texts(before, after) {
                    Class::Cosmetic => (Class::Cosmetic, "spacing or figures changed"),
                    class => (class, "changed"),
                };
                let (old, new) = around(before, after);
                self.add(path, what, class, Some(old), Some(new));
            }
            _ => self.change(path, old, new, Class::Meaning),
        }
    }

    fn finish(mut self) -> Difference {
        let class = self.worst.unwrap_or(Class::Narrower);
        if self.left_out > 0 {
            self.told.push(DiffLine {
                path: "definition".into(),
                what: format!("{} more differences", self.left_out),
                class,
                old: None,
                new: None,
            });
        }
        Difference {
            class,
            lines: self.told,
        }
    }
}
