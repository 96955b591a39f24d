//! A list of known servers as one document (A1, A3), and the one that comes with the program (A9, A11).

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::Value;

use super::Entry;

/// The schema that is understood.
const SCHEMA: u64 = 1;

/// A list of known servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// When it was last changed, as it says itself.
    pub updated_at: Option<String>,
    /// In the order written.
    pub entries: Vec<Entry>,
    /// Those that can't be used, by name or place, and why.
    pub dropped: Vec<String>,
}

/// Why a document is of no use as a whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// Not JSON.
    #[error("the list is not JSON: {0}")]
    Syntax(String),
    /// Not what such a list looks like.
    #[error("the list is not an object")]
    NotAnObject,
    /// There is nothing in it.
    #[error("the list has no `entries`")]
    NoEntries,
    /// It does not say which schema it has.
    #[error("the list does not say its `schemaVersion`")]
    NoSchema,
    /// It is of a later time.
    #[error("the list has schema {0}, and this program knows {SCHEMA}")]
    Newer(String),
}

impl Document {
    /// Reads a list. One bad entry is dropped and told; the others stay (A3).
    pub fn read(text: &str) -> Result<Self, DocumentError> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| DocumentError::Syntax(error.to_string()))?;
        let Value::Object(mut members) = value else {
            return Err(DocumentError::NotAnObject);
        };
        let Some(Value::Array(rows)) = members.remove("entries") else {
            return Err(DocumentError::NoEntries);
        };
        match members.get("schemaVersion") {
            None | Some(Value::Null) => return Err(DocumentError::NoSchema),
            Some(version) if version.as_u64() == Some(SCHEMA) => {}
            Some(version) => return Err(DocumentError::Newer(version.to_string())),
        }
        let updated_at = members.get("updatedAt").and_then(Value::as_str);
        let mut document = Self {
            updated_at: updated_at.map(str::to_owned),
            ..Self::default()
        };
        let mut taken = BTreeSet::new();
        for (index, row) in rows.into_iter().enumerate() {
            let name = row["name"].as_str().unwrap_or_default().to_owned();
            let read = serde_json::from_value::<Entry>(row);
            let checked = read.map_err(|error| error.to_string()).and_then(|entry| {
                let twice =
                    || (!taken.insert(entry.name.clone())).then(|| "is there twice".to_owned());
                match entry.wrong().or_else(twice) {
                    None => Ok(entry),
                    Some(why) => Err(why),
                }
            });
            match checked {
                Ok(entry) => document.entries.push(entry.tidy()),
                Err(why) if name.is_empty() => {
                    document.dropped.push(format!("entry {}: {why}", index + 1));
                }
                Err(why) => document.dropped.push(format!("{name}: {why}")),
            }
        }
        Ok(document)
    }
}

impl Entry {
    fn tidy(mut self) -> Self {
        if self.display_name.is_empty() {
            self.display_name.clone_from(&self.name);
        }
        self.args.retain(|arg| !arg.is_empty());
        self
    }
}

/// The list that comes with the program: the same document that others can fetch (A9).
pub fn bundled() -> &'static Document {
    static BUNDLED: LazyLock<Document> =
        LazyLock::new(|| Document::read(include_str!("registry.json")).expect("a test reads it"));
    &BUNDLED
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::registry::{Category, is_lookalike};

    #[test]
    fn a1_what_is_no_list_is_refused_as_a_whole() {
        let check = |text: &str, expect: DocumentError| {
            assert_eq!(Document::read(text), Err(expect), "{text}");
        };
        check("[]", DocumentError::NotAnObject);
        check("\"x\"", DocumentError::NotAnObject);
        check("{}", DocumentError::NoEntries);
        check(
            r#"{"schemaVersion":1,"entries":{}}"#,
            DocumentError::NoEntries,
        );
        check(r#"{"entries":[]}"#, DocumentError::NoSchema);
        check(
            r#"{"schemaVersion":null,"entries":[]}"#,
            DocumentError::NoSchema,
        );
        check(
            r#"{"schemaVersion":2,"entries":[]}"#,
            DocumentError::Newer("2".into()),
        );
        check(
            r#"{"schemaVersion":1.5,"entries":[]}"#,
            DocumentError::Newer("1.5".into()),
        );
        check(
            r#"{"schemaVersion":"1","entries":[]}"#,
            DocumentError::Newer("\"1\"".into()),
        );
        assert!(matches!(Document::read("{"), Err(DocumentError::Syntax(_))));
    }

    #[test]
    fn a1_members_that_are_not_known_are_ignored() {
        let text = r#"{"$notes":"x","schemaVersion":1,"updatedAt":"2026-11-01","entries":[],"more":{"a":[1]}}"#;
        let read = Document::read(text).unwrap();
        assert_eq!(read.updated_at.as_deref(), Some("2026-11-01"));
        assert_eq!((read.entries.len(), read.dropped.len()), (0, 0));
    }

    #[test]
    fn a3_one_bad_entry_is_dropped_and_counted() {
        let text = r#"{"schemaVersion":1,"entries":[
            {"name":"a","npmPackage":"a"}, {"name":"bad","args":3,"npmPackage":"b"}, 7, {"name":"none"},
            {"name":"a","npmPackage":"other"}, {"name":"z","pypiPackage":"z","args":["","x"]}]}"#;
        let read = Document::read(text).unwrap();
        let names: Vec<&str> = read
            .entries
            .iter()
            .map(|entry| entry.name.as_str())
            .collect();
        assert_eq!(names, ["a", "z"]);
        assert_eq!(read.entries[1].args, ["x"]);
        assert_eq!(read.entries[1].display_name, "z");
        assert_eq!(read.dropped.len(), 4, "{:?}", read.dropped);
        assert_eq!(read.dropped[2], "none: has neither a package nor a url");
        assert_eq!(read.dropped[3], "a: is there twice");
    }

    #[test]
    fn a2_a_list_sets_only_harmless_variables() {
        let check = |key: &str, value: &str, is_kept: bool| {
            let entry = json!({"name": "a", "npmPackage": "a", "env": {key: value}});
            let text = json!({"schemaVersion": 1, "entries": [entry]}).to_string();
            let read = Document::read(&text).unwrap();
            assert_eq!(read.entries.len(), usize::from(is_kept), "{key}={value}");
        };
        check("FILE", "${workspace}/a", true);
        check("MODE", "quiet", true);
        check("TAKEN", "${env:AWS_SECRET_ACCESS_KEY}", false);
        check("TAKEN", "${secret:TOKEN}", false);
        check("PATH", "/tmp", false);
        check("NODE_OPTIONS", "--require x", false);
        check("https_proxy", "http://a.example", false);
        check("A B", "x", false);
        check("TEXT", "a\nb", false);
    }

    #[test]
    fn a9_the_bundled_list_is_whole() {
        let bundled = bundled();
        assert_eq!(bundled.dropped, Vec::<String>::new());
        assert!(bundled.updated_at.is_some());
        assert!(bundled.entries.len() >= 50, "{}", bundled.entries.len());
        for entry in &bundled.entries {
            assert!(!is_lookalike(entry), "{}", entry.name);
            assert!(
                !entry.description.is_empty() && !entry.description.ends_with('.'),
                "{}",
                entry.name
            );
            assert!(
                entry.category.is_some() && entry.repo.is_some(),
                "{}",
                entry.name
            );
            assert!(
                entry.name.len() <= 32 && entry.name == entry.name.to_lowercase(),
                "{}",
                entry.name
            );
        }
    }

    #[test]
    fn a11_the_guides_fourteen_are_in_it() {
        let guides = [
            ("google-drive", "Google Drive", Category::Data),
            ("gmail", "Gmail", Category::Communication),
            ("filesystem", "Filesystem", Category::Tools),
            ("github", "GitHub", Category::Dev),
            ("memory", "Memory", Category::Data),
            ("brave-search", "Brave Search", Category::Tools),
            ("playwright", "Playwright", Category::Tools),
            ("slack", "Slack", Category::Communication),
            (
                "sequential-thinking",
                "Sequential Thinking",
                Category::Tools,
            ),
            ("mail", "Mail (IMAP/SMTP)", Category::Communication),
            ("resend", "Resend", Category::Communication),
            ("telegram", "Telegram", Category::Communication),
            ("discord", "Discord", Category::Communication),
            ("twilio", "Twilio SMS", Category::Communication),
        ];
        for (name, display, category) in guides {
            let entry = bundled().find(name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(
                (entry.display_name.as_str(), entry.category),
                (display, Some(category))
            );
            assert!(entry.deprecated.is_none());
        }
    }
}
