//! How long a client waits for the answer to a call before it gives up, as far as that is known: it is answered before.

use std::time::Duration;

/// Clients by a part of the name they give themselves, and how long one of their calls may wait for a person. Claude Code
/// gives up near 120 s, the others at 60 s.
const KNOWN: [(&str, Duration); 6] = [
    ("claude-code", Duration::from_secs(100)),
    ("codex", Duration::from_secs(50)),
    ("cursor", Duration::from_secs(50)),
    ("inspector", Duration::from_secs(50)),
    ("cline", Duration::from_secs(50)),
    ("windsurf", Duration::from_secs(50)),
];

/// How long a call of a client of that name may wait; `unknown` for one that nothing is known of, and never longer.
pub(super) fn of_client(name: &str, unknown: Duration) -> Duration {
    let name = name.to_ascii_lowercase();
    let known = KNOWN.iter().find(|(part, _)| name.contains(part));
    known.map_or(unknown, |(_, patience)| (*patience).min(unknown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_answered_before_they_give_up() {
        let check = |name: &str, unknown: u64, expect: u64| {
            let patience = of_client(name, Duration::from_secs(unknown));
            assert_eq!(patience.as_secs(), expect, "{name}");
        };
        check("claude-code", 100, 100);
        check("claude-code", 3600, 100);
        check("codex-mcp-client", 100, 50);
        check("Cursor", 100, 50);
        check("inspector-client", 100, 50);
        check("somebody", 100, 100);
        check("somebody", 3600, 3600);
        check("codex-mcp-client", 3, 3);
        check("", 7, 7);
    }
}
