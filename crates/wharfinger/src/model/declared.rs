//! What a session tells servers about its client.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Capabilities and roots a session declares to servers. Sessions of one agent share an instance only when theirs
/// are equal, since servers offer different tools to different clients.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Declared {
    /// The `capabilities` object as JSON text.
    pub capabilities: Arc<str>,
    /// `file://` URIs answered to `roots/list`; only asked for when `capabilities` has `roots`.
    pub roots: Arc<[String]>,
}

impl Default for Declared {
    fn default() -> Self {
        Self {
            capabilities: "{}".into(),
            roots: Arc::new([]),
        }
    }
}

impl Declared {
    /// A client with these roots.
    pub fn with_roots(roots: Vec<String>) -> Self {
        Self {
            capabilities: r#"{"roots":{}}"#.into(),
            roots: roots.into(),
        }
    }

    /// A short key for maps of this process; not stable over versions.
    pub fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}
