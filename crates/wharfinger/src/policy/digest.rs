//! What a decision hangs on, as one short text: an approval holds only while it stays the same.

use sha2::{Digest, Sha256};

use crate::model::{Declaration, ToolStatus, hex};

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

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn whatever_counts_changes_the_digest_and_nothing_else_does() {
        let base = Declaration {
            name: "a".into(),
            ..Declaration::default()
        };
        let with = |change: fn(&mut Declaration)| {
            let mut row = base.clone();
            change(&mut row);
            policy_digest(Some(&row), false, &[])
        };
        let all = [
            policy_digest(None, false, &[]),
            policy_digest(None, true, &[]),
            policy_digest(None, false, &["a"]),
            policy_digest(None, false, &["a", ""]),
            policy_digest(None, false, &["", "a"]),
            policy_digest(None, false, &["ab", "c"]),
            policy_digest(None, false, &["a", "bc"]),
            policy_digest(Some(&base), false, &[]),
            policy_digest(Some(&base), true, &[]),
            with(|row| row.name = "b".into()),
            with(|row| row.enabled = true),
            with(|row| row.visible = true),
            with(|row| row.restricted = true),
            with(|row| row.locked = true),
            with(|row| row.mcp_tool_hash = Some(String::new())),
            with(|row| row.mcp_tool_hash = Some("h".into())),
            with(|row| row.mcp_tool_status = Some(ToolStatus::New)),
            with(|row| row.mcp_tool_status = Some(ToolStatus::Changed)),
            with(|row| row.mcp_tool_status = Some(ToolStatus::Removed)),
        ];
        let different: HashSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        assert!(
            all.iter()
                .all(|digest| digest.len() == 64 && digest.bytes().all(|b| b.is_ascii_hexdigit()))
        );
        assert_eq!(policy_digest(Some(&base.clone()), false, &[]), all[7]);
    }

    #[test]
    fn the_digest_is_the_same_in_every_run() {
        let row = Declaration {
            name: "a".into(),
            enabled: true,
            ..Declaration::default()
        };
        assert_eq!(
            policy_digest(Some(&row), false, &["x"]),
            "8b9693b422a54b455ff90b48af907d327a599b3b187424759da83d85302d92e5"
        );
    }
}
