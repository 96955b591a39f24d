//! A tool's definition as one text, whatever the order and spacing its server sends it in, and the hash of it (A148).

use std::fmt::Write as _;

use serde_json::value::RawValue;

use super::listing::Tool;

/// Which form a stored hash has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The hashed text itself.
    Text,
    /// `sha256:` and the hash in hex.
    Sha256,
}

/// What is stored as `mcp_tool_hash`: the stable JSON text of name, description and input schema, or its hash.
pub fn hash_text(tool: &Tool, form: Stored) -> String {
    format!("{form:?}{}", tool.raw.get())
}

/// Whether a stored hash is that of the tool, in whichever form it was stored.
pub fn matches(stored: &str, tool: &Tool) -> bool {
    stored == hash_text(tool, Stored::Text)
}

/// The hash of all of a definition, in hex: an approval is for one definition.
pub fn definition_hash(tool: &RawValue) -> String {
    hex(tool.get().as_bytes())
}

/// Whether two definitions differ in nothing but spacing and the order of members.
pub fn is_same_definition(one: &RawValue, other: &RawValue) -> bool {
    one.get() == other.get()
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes everything");
        text
    })
}
