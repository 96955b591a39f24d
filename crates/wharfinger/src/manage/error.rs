//! Why a request was refused.

use std::fmt;

use serde_json::{Map, Value, json};

/// One thing wrong with one argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// The argument, with the way to it: `credential_files[0].path`.
    pub field: String,
    /// What is wrong; completes "`field` …".
    pub text: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.field, self.text)
    }
}

/// A request that was not carried out. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The arguments do not have the shape of the tool's schema; all that is wrong with them.
    #[error("{}", list(.0))]
    Arguments(Vec<Complaint>),
    /// The arguments are sound, but this may not be done; the text says why and what would do.
    #[error("{0}")]
    Refused(String),
    /// No server of this name is in the agent's configuration.
    #[error("no server `{name}` is installed{}", nearest_text(.nearest.as_ref(), .installed))]
    UnknownServer {
        /// As it was asked for.
        name: String,
        /// A name near to it.
        nearest: Option<String>,
        /// All there are.
        installed: Vec<String>,
    },
}

impl Error {
    /// A refusal.
    pub(super) fn refused(text: impl Into<String>) -> Self {
        Self::Refused(text.into())
    }

    /// What is wrong by field, for a problem document or a form (A199). Empty where no field is to blame.
    pub fn fields(&self) -> Map<String, Value> {
        let Self::Arguments(complaints) = self else {
            return Map::new();
        };
        let mut fields = Map::new();
        for complaint in complaints {
            let texts = fields
                .entry(&complaint.field)
                .or_insert_with(|| Value::Array(vec![]));
            if let Value::Array(texts) = texts {
                texts.push(complaint.text.clone().into());
            }
        }
        fields
    }

    /// The result an agent gets (A80): `success`, `error`, and `fields` where some are to blame.
    pub fn to_value(&self) -> Value {
        let mut value = json!({"success": false, "error": self.to_string()});
        let fields = self.fields();
        if !fields.is_empty() {
            value["fields"] = Value::Object(fields);
        }
        value
    }
}

fn list(complaints: &[Complaint]) -> String {
    let texts: Vec<String> = complaints.iter().map(Complaint::to_string).collect();
    texts.join("; ")
}

fn nearest_text(nearest: Option<&String>, installed: &[String]) -> String {
    match (nearest, installed) {
        (Some(near), _) => format!("; did you mean `{near}`?"),
        (None, []) => "; none is, `mcp_install` adds one".to_owned(),
        (None, names) => format!("; there are: `{}`", names.join("`, `")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a199_complaints_are_a_map_by_field_and_one_readable_line() {
        let complaint = |field: &str, text: &str| Complaint {
            field: field.into(),
            text: text.into(),
        };
        let error = Error::Arguments(vec![
            complaint("name", "is missing"),
            complaint("args[1]", "must be a string, not a number"),
            complaint("name", "is needed"),
        ]);
        assert_eq!(
            error.to_value(),
            json!({
                "success": false,
                "error": "`name` is missing; `args[1]` must be a string, not a number; `name` is needed",
                "fields": {
                    "name": ["is missing", "is needed"],
                    "args[1]": ["must be a string, not a number"],
                },
            })
        );
        assert_eq!(
            Error::refused("no").to_value(),
            json!({"success": false, "error": "no"})
        );
    }
}
