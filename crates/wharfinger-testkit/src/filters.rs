//! Makes output comparable: what differs from run to run gets a name.

use std::path::Path;

use regex_lite::Regex;

/// Replacements, in the order in which they were added; the general ones come last.
///
/// ```
/// use wharfinger_testkit::Filters;
///
/// let filters = Filters::new().path("/tmp/x1".as_ref(), "[HOME]");
/// assert_eq!(
///     filters.apply("/tmp/x1/a.adf: pid 4711 on 127.0.0.1:8080 at 2026-11-30T14:58:40Z, 12 ms"),
///     "[HOME]/a.adf: pid [PID] on 127.0.0.1:[PORT] at [TIME], [DURATION]",
/// );
/// ```
#[derive(Debug, Default)]
pub struct Filters {
    replacements: Vec<(String, String)>,
}

/// Patterns and what to put in their place.
const GENERAL: &[(&str, &str)] = &[
    (
        r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?",
        "[TIME]",
    ),
    (r"\b(127\.0\.0\.1|\[::1\]|localhost):\d+", "$1:[PORT]"),
    (r#"(?i)("?\bpid\b"?\s*[:=]?\s*)\d+"#, "$1[PID]"),
    (r"\btask_[0-9a-z]{12}\b", "[TASK]"),
    (r"\b\d+(\.\d+)?\s?(ns|µs|us|ms|s|min)\b", "[DURATION]"),
];

impl Filters {
    /// Only the general replacements: times, ports of loopback addresses, pids, approvals, durations.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces a path, as given and with its links resolved.
    #[must_use]
    pub fn path(mut self, path: &Path, name: &str) -> Self {
        let resolved = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        for path in [resolved.as_path(), path] {
            self.replacements
                .push((path.display().to_string(), name.to_owned()));
        }
        self
    }

    /// Replaces a text, for example a token.
    #[must_use]
    pub fn text(mut self, text: &str, name: &str) -> Self {
        self.replacements.push((text.to_owned(), name.to_owned()));
        self
    }

    /// The text with everything replaced.
    pub fn apply(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (from, name) in &self.replacements {
            text = text.replace(from.as_str(), name);
        }
        for (pattern, name) in GENERAL {
            let pattern = Regex::new(pattern).expect("the patterns above are right");
            text = pattern.replace_all(&text, *name).into_owned();
        }
        text
    }
}
