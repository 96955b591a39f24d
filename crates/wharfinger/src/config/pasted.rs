//! What people paste: the `mcpServers` block of a README, in any of the shapes that clients use.

use super::entry;
use super::reader::Manners;
use super::tree::{self, Node, Value};
use crate::model::{Problem, ServerEntry, Severity, Source};

/// Why a text could not be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PastedError {
    /// Not JSON.
    #[error("line {line}: {message}")]
    Syntax {
        /// Counted from 1.
        line: usize,
        /// What was expected.
        message: String,
    },
    /// JSON, but no server in it.
    #[error("no server in it: expected `{{\"mcpServers\": {{\"name\": {{\"command\": …}}}}}}`")]
    Nothing,
    /// At least one entry can't be used.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Invalid(Vec<Problem>),
}

/// One server of a pasted text.
#[derive(Clone, Debug, PartialEq)]
pub struct Pasted {
    /// As it was read.
    pub entry: ServerEntry,
    /// As it will be written: every member that was pasted, also those we do not know.
    pub json: serde_json::Value,
    /// Warnings.
    pub problems: Vec<Problem>,
}

/// Reads `{"mcpServers": …}`, VS Code's `{"servers": …}` or `{"mcp": {"servers": …}}`, a bare `{"name": {…}}`, and
/// any of them without the outer braces.
pub fn pasted(text: &str) -> Result<Vec<Pasted>, PastedError> {
    let file = "pasted".into();
    let root = tree::parse(&file, text).or_else(|error| {
        let braced = format!("{{{}}}", text.trim().trim_end_matches(','));
        tree::parse(&file, &braced).map_err(|_| PastedError::Syntax {
            line: error.line,
            message: error.message,
        })
    })?;
    let servers = ["mcpServers", "servers"]
        .iter()
        .find_map(|key| member(&root, key));
    let nested = || member(member(&root, "mcp")?, "servers");
    let Value::Object(members) = &servers.or_else(nested).unwrap_or(&root).value else {
        return Err(PastedError::Nothing);
    };
    let (mut taken, mut errors) = (vec![], vec![]);
    for (name, node) in members {
        let (entry, problems) = entry::read(name, node, name, Source::Settings, Manners::Shared);
        match entry {
            Some(entry) => taken.push(Pasted {
                entry,
                json: json(node),
                problems,
            }),
            None => errors.extend(
                problems
                    .into_iter()
                    .filter(|p| p.severity == Severity::Error),
            ),
        }
    }
    match (taken.is_empty(), errors.is_empty()) {
        (_, false) => Err(PastedError::Invalid(errors)),
        (true, true) => Err(PastedError::Nothing),
        (false, true) => Ok(taken),
    }
}

fn member<'a>(node: &'a Node, key: &str) -> Option<&'a Node> {
    match &node.value {
        Value::Object(members) => members.iter().find(|(k, _)| k == key).map(|(_, node)| node),
        _ => None,
    }
}

fn json(node: &Node) -> serde_json::Value {
    match &node.value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value) => (*value).into(),
        Value::Number(text) => serde_json::from_str(text).unwrap_or_else(|_| text.clone().into()),
        Value::Text(text) => text.clone().into(),
        Value::List(items) => items.iter().map(json).collect(),
        Value::Object(members) => members.iter().map(|(k, v)| (k.clone(), json(v))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_every_shape_are_taken() {
        let entry = r#""time": {"type": "stdio", "command": "uvx", "args": ["mcp-server-time"], "autoApprove": []}"#;
        for text in [
            format!("{{\"mcpServers\": {{{entry}}}}}"),
            format!("\"mcpServers\": {{{entry}}}"),
            format!("{{\"servers\": {{{entry}}}}}"),
            format!("{{\"mcp\": {{\"servers\": {{{entry}}}}}}}"),
            format!("{{{entry}}}"),
            format!("{entry},"),
            format!("// from a README\n{{\"mcpServers\": {{{entry},}}}}"),
        ] {
            let taken = pasted(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(taken.len(), 1, "{text}");
            assert_eq!(taken[0].entry.name.as_str(), "time");
            assert_eq!(
                taken[0].json["autoApprove"],
                serde_json::json!([]),
                "unknown members stay"
            );
            assert_eq!(taken[0].problems.len(), 1);
        }
    }

    #[test]
    fn what_can_not_be_taken_says_why() {
        assert_eq!(pasted("{}"), Err(PastedError::Nothing));
        assert_eq!(pasted("[1]"), Err(PastedError::Nothing));
        assert!(matches!(
            pasted("npx -y x"),
            Err(PastedError::Syntax { line: 1, .. })
        ));
        let error = pasted("{\"a\": {\"args\": []}}").unwrap_err().to_string();
        assert_eq!(error, "error: pasted:1: a: `command` is required");
    }

    #[test]
    fn a_disabled_or_remote_entry_works_as_it_is() {
        let taken = pasted(
            r#"{"mcpServers": {"a": {"command": "x", "disabled": true, "env": {"PORT": 3000}},
                "b": {"type": "http", "url": "https://example.com/mcp", "headers": {"A": "b"}}}}"#,
        )
        .unwrap();
        assert!(!taken[0].entry.enabled);
        assert_eq!(
            taken[0].entry.env,
            [("PORT".to_owned(), Some("3000".to_owned()))]
        );
        assert_eq!(
            taken[1].problems[0].message,
            "remote servers come later; the entry is kept"
        );
    }
}
