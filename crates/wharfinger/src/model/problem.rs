//! What is wrong with something a person wrote: where, what, and the way out.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

/// Where a configured value came from.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "in")]
pub enum Place {
    /// A line (counted from 1) of a file.
    File {
        /// As it was given to the loader, normally a path.
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        file: Arc<str>,
        /// Counted from 1.
        line: usize,
    },
    /// An environment variable.
    Environment {
        /// As it is set, in its own case.
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        variable: Arc<str>,
    },
    /// The Playwright preset.
    Preset,
    /// Given for this run alone.
    Run,
    /// Nobody set it.
    Default,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file, line } => write!(f, "{file}:{line}"),
            Self::Environment { variable } => write!(f, "environment variable {variable}"),
            Self::Preset => f.write_str("the Playwright preset"),
            Self::Run => f.write_str("the command line"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// How bad it is.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Said, but nothing is refused for it.
    Warning,
    /// The value it is about can't be used.
    Error,
}

/// One complaint about configuration (V23).
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// Error or warning.
    pub severity: Severity,
    /// File and line, or variable.
    pub place: Place,
    /// The dotted path of the key, as the source spells it.
    pub key: String,
    /// What is wrong, one sentence without full stop.
    pub message: String,
    /// The way out, where one is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Problem {
    /// Place, key and message, for where its severity is told otherwise.
    pub fn text(&self) -> String {
        let hint = self
            .hint
            .as_ref()
            .map(|hint| format!(" ({hint})"))
            .unwrap_or_default();
        format!("{}: {}: {}{hint}", self.place, self.key, self.message)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(
            f,
            "{severity}: {}: {}: {}",
            self.place, self.key, self.message
        )?;
        self.hint
            .iter()
            .try_for_each(|hint| write!(f, "\n  hint: {hint}"))
    }
}
