//! What a decision hangs on, as one short text: an approval holds only while it stays the same.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use crate::model::{Declaration, ToolStatus};

/// The digest, in hex, of a tool's declaration, of whether its server is restricted, and of whatever else counts.
pub fn policy_digest(
    declaration: Option<&Declaration>,
    server_restricted: bool,
    extra: &[&str],
) -> String {
    let mut hash = Sha256::new();
    // Each text follows its length, so that no two lists of texts look the same.
    let mut add = |text: &str| {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text.as_bytes());
    };
    add("policy 1");
    match declaration {
        None => add("undeclared"),
        Some(declaration) => {
            let Declaration {
                name,
                enabled,
                visible,
                restricted,
                locked,
                mcp_tool_hash,
                mcp_tool_status,
            } = declaration;
            add("declared");
            add(name);
            let flags = [enabled, visible, restricted, locked];
            add(&flags
                .map(|flag| if *flag { '1' } else { '0' })
                .iter()
                .collect::<String>());
            add(if mcp_tool_hash.is_some() {
                "hash"
            } else {
                "no hash"
            });
            add(mcp_tool_hash.as_deref().unwrap_or_default());
            add(mcp_tool_status.map_or("", ToolStatus::as_str));
        }
    }
    add(if server_restricted { "1" } else { "0" });
    for text in extra {
        add(text);
    }
    hex(&hash.finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes everything");
        text
    })
}
