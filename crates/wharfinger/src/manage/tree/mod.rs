//! The agent's configuration as a tree: what it may read of it, and what it may change.

mod redact;
mod restore;
mod rules;
mod schema;
mod secret;
mod target;
mod update;

use serde_json::{Value, json};

use super::Section;

pub use redact::redacted;
pub use restore::restore;
pub use schema::violations;
pub use secret::is_secret_name;
pub use update::{Change, Changes, review, update};

/// What stands where a secret value stood. Written back, it means the value that is kept (A111).
pub const MARKER: &str = "__redacted__";

/// A section as `sys_get_config` answers it.
pub fn read(config: &Value, section: Section) -> Value {
    // Hidden first and cut afterwards: what is secret in one section may stand in another.
    let hidden = redacted(config);
    let part = |key: &str, empty: Value| hidden.get(key).cloned().unwrap_or(empty);
    match section {
        Section::Config => hidden,
        Section::Tools => part("tools", json!([])),
        Section::Limits => part("limits", json!({})),
        Section::Mcp => part("mcp", json!({"servers": []})),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a110_a_section_is_read_without_secrets() {
        let config = json!({
            "limits": {"a": 1},
            "tools": [{"name": "t", "note": "sekret-12345"}],
            "mcp": {"servers": [{"name": "x", "env": {"K": "sekret-12345"}}]},
        });
        assert_eq!(read(&config, Section::Limits), json!({"a": 1}));
        assert_eq!(
            read(&config, Section::Tools),
            json!([{"name": "t", "note": MARKER}])
        );
        assert_eq!(
            read(&config, Section::Mcp),
            json!({"servers": [{"name": "x", "env": {"K": MARKER}}]})
        );
        assert_eq!(read(&config, Section::Config)["limits"], json!({"a": 1}));
        assert_eq!(read(&json!({}), Section::Mcp), json!({"servers": []}));
        assert_eq!(read(&json!({}), Section::Tools), json!([]));
    }
}
