//! Reads members of a JSON object one by one, and remembers everything that is wrong (P30).

use serde_json::{Map, Value};

use crate::manage::{Complaint, Error};
use crate::model::nearest;

/// Members of one object that are still to be read.
pub(super) struct Reader {
    at: String,
    members: Map<String, Value>,
    known: Vec<&'static str>,
    complaints: Vec<Complaint>,
}

impl Reader {
    /// The arguments of a call. No arguments at all are an empty object.
    pub(super) fn new(arguments: &Value) -> Result<Self, Error> {
        match arguments {
            Value::Object(members) => Ok(Self::of("", members.clone())),
            Value::Null => Ok(Self::of("", Map::new())),
            other => Err(Error::Arguments(vec![Complaint {
                field: "arguments".into(),
                text: format!("must be an object, not {}", kind(other)),
            }])),
        }
    }

    fn of(at: &str, members: Map<String, Value>) -> Self {
        Self {
            at: at.into(),
            members,
            known: vec![],
            complaints: vec![],
        }
    }

    fn path(&self, field: &str) -> String {
        if self.at.is_empty() {
            field.into()
        } else {
            format!("{}.{field}", self.at)
        }
    }

    /// Takes a member. `null` is as good as absent: models write it for what they leave out.
    fn take(&mut self, field: &'static str) -> Option<Value> {
        self.known.push(field);
        self.members
            .shift_remove(field)
            .filter(|value| !value.is_null())
    }

    pub(super) fn complain(&mut self, field: &str, text: impl Into<String>) {
        let complaint = Complaint {
            field: self.path(field),
            text: text.into(),
        };
        self.complaints.push(complaint);
    }

    fn wrong(&mut self, field: &str, wanted: &str, value: &Value) {
        self.complain(field, format!("must be {wanted}, not {}", kind(value)));
    }

    /// Any value; `null` counts.
    pub(super) fn value(&mut self, field: &'static str) -> Option<Value> {
        self.known.push(field);
        self.members.shift_remove(field)
    }

    pub(super) fn text(&mut self, field: &'static str) -> Option<String> {
        match self.take(field)? {
            Value::String(text) if text.contains('\0') => {
                self.complain(field, "may not hold a NUL character");
                None
            }
            Value::String(text) => Some(text),
            other => {
                self.wrong(field, "a string", &other);
                None
            }
        }
    }

    /// A string that says something; white space around it is not meant.
    pub(super) fn word(&mut self, field: &'static str) -> Option<String> {
        let text = self.text(field)?;
        let word = text.trim();
        if word.is_empty() {
            self.complain(field, "is empty");
            return None;
        }
        Some(word.to_owned())
    }

    pub(super) fn required(&mut self, field: &'static str) -> String {
        let given = self.members.get(field).is_some_and(|v| !v.is_null());
        let word = self.word(field);
        if !given {
            self.complain(field, "is missing");
        }
        word.unwrap_or_default()
    }

    pub(super) fn flag(&mut self, field: &'static str) -> Option<bool> {
        match self.take(field)? {
            Value::Bool(flag) => Some(flag),
            other => {
                self.wrong(field, "true or false", &other);
                None
            }
        }
    }

    /// A whole number between the two.
    pub(super) fn number(&mut self, field: &'static str, least: u64, most: u64) -> Option<u64> {
        let value = self.take(field)?;
        let number = value.as_u64().filter(|n| (least..=most).contains(n));
        if number.is_none() {
            let text = format!("must be a whole number from {least} to {most}");
            self.complain(field, text);
        }
        number
    }

    /// One of the named things.
    pub(super) fn choice<T: Copy>(
        &mut self,
        field: &'static str,
        choices: &[(&str, T)],
    ) -> Option<T> {
        let text = self.word(field)?;
        let found = choices
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(&text));
        if found.is_none() {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            let text = format!("must be one of {}, not `{text}`", names.join(", "));
            self.complain(field, text);
        }
        found.map(|(_, choice)| *choice)
    }

    pub(super) fn list(&mut self, field: &'static str) -> Vec<Value> {
        match self.take(field) {
            None => vec![],
            Some(Value::Array(items)) => items,
            Some(other) => {
                self.wrong(field, "a list", &other);
                vec![]
            }
        }
    }

    pub(super) fn texts(&mut self, field: &'static str) -> Vec<String> {
        let mut texts = vec![];
        for (i, item) in self.list(field).into_iter().enumerate() {
            match item {
                Value::String(text) if text.contains('\0') => {
                    self.complain(&format!("{field}[{i}]"), "may not hold a NUL character");
                }
                Value::String(text) => texts.push(text),
                other => self.wrong(&format!("{field}[{i}]"), "a string", &other),
            }
        }
        texts
    }

    /// An object of strings, in the order written.
    pub(super) fn pairs(&mut self, field: &'static str) -> Vec<(String, String)> {
        let members = match self.take(field) {
            None => return vec![],
            Some(Value::Object(members)) => members,
            Some(other) => {
                self.wrong(field, "an object of strings", &other);
                return vec![];
            }
        };
        let mut pairs = vec![];
        for (key, value) in members {
            match value {
                Value::String(text) if text.contains('\0') => {
                    self.complain(&format!("{field}.{key}"), "may not hold a NUL character");
                }
                Value::String(text) => pairs.push((key, text)),
                other => self.wrong(&format!("{field}.{key}"), "a string", &other),
            }
        }
        pairs
    }

    /// A list of objects, each read by `read`.
    pub(super) fn rows<T>(
        &mut self,
        field: &'static str,
        mut read: impl FnMut(&mut Self) -> T,
    ) -> Vec<T> {
        let mut rows = vec![];
        for (i, item) in self.list(field).into_iter().enumerate() {
            let at = self.path(&format!("{field}[{i}]"));
            match item {
                Value::Object(members) => {
                    let mut row = Self::of(&at, members);
                    rows.push(read(&mut row));
                    row.leftovers();
                    self.complaints.append(&mut row.complaints);
                }
                other => self.wrong(&format!("{field}[{i}]"), "an object", &other),
            }
        }
        rows
    }

    /// Members nobody asked for.
    fn leftovers(&mut self) {
        let members = std::mem::take(&mut self.members);
        for (name, _) in members {
            let known = self.known.clone();
            let text = match nearest(&name, known.iter().copied()) {
                Some(near) => format!("is not known; did you mean `{near}`?"),
                None if known.is_empty() => "is not known; there are no arguments".to_owned(),
                None => format!("is not known; there are: {}", known.join(", ")),
            };
            self.complain(&name, text);
        }
    }

    /// What was read, if nothing is wrong.
    pub(super) fn done<T>(mut self, read: T) -> Result<T, Error> {
        self.leftovers();
        if self.complaints.is_empty() {
            Ok(read)
        } else {
            Err(Error::Arguments(self.complaints))
        }
    }
}

/// What a value is, with its article.
pub(in crate::manage) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
