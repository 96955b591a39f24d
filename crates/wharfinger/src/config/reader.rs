//! Reads checked values out of a tree, and keeps the complaints.

use std::time::Duration;

use super::tree::{Node, Value};
use crate::model::{Place, Problem, Severity, nearest};

/// How strict a source is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Manners {
    /// The host section: names in any case, unknown ones refused; text for numbers and booleans where it came from the environment.
    Host,
    /// A file shared with other programs: names as they are, unknown ones kept and warned about.
    Shared,
}

/// The members of one object, handed out by name.
pub(super) struct Members<'a> {
    path: String,
    place: Place,
    manners: Manners,
    left: Vec<&'a (String, Node)>,
    pub(super) problems: Vec<Problem>,
}

impl<'a> Members<'a> {
    /// Fails when the node is not an object.
    pub(super) fn of(node: &'a Node, path: &str, manners: Manners) -> Result<Self, Problem> {
        match &node.value {
            Value::Object(members) => Ok(Self {
                path: path.to_owned(),
                place: node.place.clone(),
                manners,
                left: members.iter().collect(),
                problems: vec![],
            }),
            other => Err(error(
                &node.place,
                path,
                format!("must be an object, not {}", other.kind()),
            )),
        }
    }

    /// Takes a member out; the last one of that name wins.
    pub(super) fn take(&mut self, name: &str) -> Option<&'a Node> {
        let manners = self.manners;
        let same = |key: &str| match manners {
            Manners::Host => key.eq_ignore_ascii_case(name),
            Manners::Shared => key == name,
        };
        let found = self
            .left
            .iter()
            .rev()
            .find(|(key, _)| same(key))
            .map(|(_, node)| node);
        self.left.retain(|(key, _)| !same(key));
        found
    }

    fn key(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }

    fn wrong(&mut self, node: &Node, name: &str, message: String) {
        self.problems
            .push(error(&node.place, &self.key(name), message));
    }

    fn expected(&mut self, node: &Node, name: &str, what: &str) {
        let message = match &node.value {
            Value::Text(text) => format!("must be {what}, not {text:?}"),
            Value::Number(text) => format!("must be {what}, not {text}"),
            other => format!("must be {what}, not {}", other.kind()),
        };
        self.wrong(node, name, message);
    }

    /// A string; `null` counts as unset.
    pub(super) fn text(&mut self, name: &str) -> Option<(String, Place)> {
        let node = self.take(name)?;
        match &node.value {
            Value::Text(text) => Some((text.clone(), node.place.clone())),
            Value::Null => None,
            _ => {
                self.expected(node, name, "a string");
                None
            }
        }
    }

    /// A boolean.
    pub(super) fn bool(&mut self, name: &str) -> Option<bool> {
        let node = self.take(name)?;
        match (&node.value, &node.place) {
            (Value::Bool(value), _) => Some(*value),
            (Value::Text(text), Place::Environment { .. }) if text.eq_ignore_ascii_case("true") => {
                Some(true)
            }
            (Value::Text(text), Place::Environment { .. })
                if text.eq_ignore_ascii_case("false") =>
            {
                Some(false)
            }
            (Value::Text(text), Place::Environment { .. }) if text.is_empty() => None,
            (Value::Null, _) => None,
            _ => {
                self.expected(node, name, "`true` or `false`");
                None
            }
        }
    }

    /// A number of seconds, fractions allowed, at least `least`, at most about 31 years.
    pub(super) fn seconds(&mut self, name: &str, zero_allowed: bool) -> Option<Duration> {
        let node = self.take(name)?;
        let value = match (&node.value, &node.place) {
            (Value::Number(text), _) | (Value::Text(text), Place::Environment { .. })
                if !text.is_empty() =>
            {
                text.trim()
                    .parse::<f64>()
                    .ok()
                    .filter(|v| v.is_finite() && *v <= 1e9)
            }
            (Value::Text(_), Place::Environment { .. }) | (Value::Null, _) => return None,
            _ => None,
        };
        match value {
            Some(value) if value > 0.0 || (zero_allowed && value == 0.0) => {
                Some(Duration::from_secs_f64(value))
            }
            _ => {
                let what = if zero_allowed {
                    "a number of seconds, 0 (never) or more"
                } else {
                    "a number of seconds above 0"
                };
                self.expected(node, name, what);
                None
            }
        }
    }

    /// A whole number of at least 1.
    pub(super) fn count(&mut self, name: &str) -> Option<usize> {
        let node = self.take(name)?;
        let value = match (&node.value, &node.place) {
            (Value::Number(text), _) | (Value::Text(text), Place::Environment { .. }) => {
                text.trim().parse::<usize>().ok().filter(|v| *v > 0)
            }
            (Value::Null, _) => return None,
            _ => None,
        };
        if value.is_none() {
            self.expected(node, name, "a whole number above 0");
        }
        value
    }

    /// A list of strings.
    pub(super) fn texts(&mut self, name: &str) -> Option<Vec<String>> {
        let node = self.take(name)?;
        match &node.value {
            Value::Null => None,
            Value::List(items) => {
                let mut texts = Vec::with_capacity(items.len());
                for (index, item) in items.iter().enumerate() {
                    match &item.value {
                        // A port or a flag in an argument list is commonly written bare.
                        Value::Text(text) | Value::Number(text) => texts.push(text.clone()),
                        Value::Bool(value) => texts.push(value.to_string()),
                        _ => self.expected(item, &format!("{name}[{index}]"), "a string"),
                    }
                }
                Some(texts)
            }
            _ => {
                self.expected(node, name, "a list of strings");
                None
            }
        }
    }

    /// Variables: strings, or `null` to remove one. Numbers and booleans count as their text.
    pub(super) fn variables(&mut self, name: &str) -> Vec<(String, Option<String>, Place)> {
        let Some(node) = self.take(name) else {
            return vec![];
        };
        let members = match &node.value {
            Value::Null => return vec![],
            Value::Object(members) => members,
            _ => {
                self.expected(node, name, "an object of strings");
                return vec![];
            }
        };
        let mut variables: Vec<(String, Option<String>, Place)> = vec![];
        for (key, item) in members {
            let value = match &item.value {
                Value::Text(text) | Value::Number(text) => Some(text.clone()),
                Value::Bool(value) => Some(value.to_string()),
                Value::Null => None,
                _ => {
                    self.expected(item, &format!("{name}.{key}"), "a string or null");
                    continue;
                }
            };
            if key.is_empty() || key.contains(['=', '\0']) {
                self.wrong(
                    item,
                    &format!("{name}.{key}"),
                    "is no name of a variable".into(),
                );
                continue;
            }
            variables.retain(|(known, ..)| known != key);
            variables.push((key.clone(), value, item.place.clone()));
        }
        variables
    }

    /// One of a few words; in any case in the host section.
    pub(super) fn choice<T: Copy>(&mut self, name: &str, choices: &[(&str, T)]) -> Option<T> {
        let (text, place) = self.text(name)?;
        let found = choices
            .iter()
            .find(|(word, _)| word.eq_ignore_ascii_case(&text));
        if found.is_none() {
            let words: Vec<_> = choices
                .iter()
                .map(|(word, _)| format!("`{word}`"))
                .collect();
            let mut problem = error(
                &place,
                &self.key(name),
                format!("must be one of {}, not {text:?}", words.join(", ")),
            );
            problem.hint = nearest(&text, choices.iter().map(|(word, _)| *word))
                .map(|word| format!("did you mean `{word}`?"));
            self.problems.push(problem);
        }
        found.map(|(_, value)| *value)
    }

    /// An error about the object as a whole or a member of it that was read already.
    pub(super) fn complain(&mut self, name: &str, place: Option<&Place>, message: String) {
        let key = if name.is_empty() {
            self.path.clone()
        } else {
            self.key(name)
        };
        self.problems
            .push(error(place.unwrap_or(&self.place), &key, message));
    }

    /// A warning about a member that was read already.
    pub(super) fn warn(&mut self, name: &str, place: &Place, message: String) {
        self.problems.push(warning(place, &self.key(name), message));
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// What nobody asked for: an error in the host section, a warning elsewhere (V23).
    pub(super) fn finish(mut self, known: &[&str]) -> Vec<Problem> {
        let severity = match self.manners {
            Manners::Host => Severity::Error,
            Manners::Shared => Severity::Warning,
        };
        for (key, node) in std::mem::take(&mut self.left) {
            let hint = nearest(key, known.iter().copied()).map(|n| format!("did you mean `{n}`?"));
            let message = match self.manners {
                Manners::Host => "unknown member".to_owned(),
                Manners::Shared => "unknown member, kept but not used".to_owned(),
            };
            let key = self.key(key);
            self.problems.push(Problem {
                severity,
                place: node.place.clone(),
                key,
                message,
                hint,
            });
        }
        self.problems
    }
}

/// An error without a hint.
pub(super) fn error(place: &Place, key: &str, message: String) -> Problem {
    Problem {
        severity: Severity::Error,
        place: place.clone(),
        key: key.to_owned(),
        message,
        hint: None,
    }
}

/// A warning without a hint.
pub(super) fn warning(place: &Place, key: &str, message: String) -> Problem {
    Problem {
        severity: Severity::Warning,
        ..error(place, key, message)
    }
}
