//! One value that naming, starting and calling read.

use std::time::Duration;

use crate::model::{
    Again, EffectivePolicy, Health, OnClash, Profile, Restart, ServerEntry, StartMode,
};

/// The policy of a server for agents of a profile. What the owner set in the entry counts for every profile; what nobody
/// set is the profile's own: an agent's server has 20 s to start and 60 s for a call (A182, A187).
pub fn effective(entry: &ServerEntry, profile: Profile) -> EffectivePolicy {
    match profile {
        Profile::Chat => EffectivePolicy {
            name_limit: 48,
            prefix: entry.tool_prefix.clone(),
            on_clash: OnClash::SkipAndWarn,
            start: StartMode::OnFirstCall,
            restart: Restart::OnNextCall,
            startup_timeout: entry.startup_timeout,
            call_timeout: entry.call_timeout,
            progress_extends: false,
            idle_timeout: entry.idle_timeout,
            health: None,
            log_calls: false,
            parallel_calls: parallel_calls(entry),
            retry_after: Duration::from_secs(60),
            scope: entry.scope,
            roots: entry.roots,
        },
        Profile::Agent => EffectivePolicy {
            name_limit: 64,
            prefix: format!("mcp_{}_", entry.name),
            on_clash: OnClash::Suffix,
            start: StartMode::WhenActive,
            restart: Restart::Backoff {
                waits: [2, 4, 8].map(Duration::from_secs),
                again: [(2, 20, true), (2, 60, false), (4, 120, false)].map(
                    |(wait, limit, inline)| Again {
                        wait: Duration::from_secs(wait),
                        limit: Duration::from_secs(limit),
                        inline,
                    },
                ),
            },
            startup_timeout: unless_set(
                entry.startup_timeout,
                ServerEntry::STARTUP_TIMEOUT,
                Duration::from_secs(20),
            ),
            call_timeout: unless_set(
                entry.call_timeout,
                ServerEntry::CALL_TIMEOUT,
                Duration::from_secs(60),
            ),
            progress_extends: true,
            idle_timeout: entry.idle_timeout,
            health: Some(Health {
                every: Duration::from_secs(60),
                limit: Duration::from_secs(10),
            }),
            log_calls: true,
            parallel_calls: parallel_calls(entry),
            retry_after: Duration::from_secs(60),
            scope: entry.scope,
            roots: entry.roots,
        },
    }
}

fn parallel_calls(entry: &ServerEntry) -> usize {
    if entry.parallel { 64 } else { 1 }
}

fn unless_set(entry: Duration, nobody: Duration, profile: Duration) -> Duration {
    if entry == nobody { profile } else { entry }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{File, Inputs, load};
    use crate::model::{Roots, Scope};

    fn entry(members: &str) -> ServerEntry {
        let text = format!(r#"{{"mcpServers":{{"my server":{{"command":"x"{members}}}}}}}"#);
        let inputs = Inputs {
            settings: Some(File {
                name: "s".into(),
                text,
            }),
            ..Inputs::default()
        };
        load(&inputs).config.servers.remove(0)
    }

    const SECONDS: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn a144_a180_a183_a186_an_agents_server_is_gated_and_supervised() {
        let entry = entry(r#","toolPrefix":"x_""#);
        let expect = EffectivePolicy {
            name_limit: 64,
            prefix: "mcp_my server_".into(),
            on_clash: OnClash::Suffix,
            start: StartMode::WhenActive,
            restart: Restart::Backoff {
                waits: [2, 4, 8].map(SECONDS),
                again: [
                    Again {
                        wait: SECONDS(2),
                        limit: SECONDS(20),
                        inline: true,
                    },
                    Again {
                        wait: SECONDS(2),
                        limit: SECONDS(60),
                        inline: false,
                    },
                    Again {
                        wait: SECONDS(4),
                        limit: SECONDS(120),
                        inline: false,
                    },
                ],
            },
            startup_timeout: SECONDS(20),
            call_timeout: SECONDS(60),
            progress_extends: true,
            idle_timeout: Some(SECONDS(1800)),
            health: Some(Health {
                every: SECONDS(60),
                limit: SECONDS(10),
            }),
            log_calls: true,
            parallel_calls: 1,
            retry_after: SECONDS(60),
            scope: Scope::Agent,
            roots: Roots::Workspace,
        };
        assert_eq!(effective(&entry, Profile::Agent), expect);
        let chat = EffectivePolicy {
            name_limit: 48,
            prefix: "x_".into(),
            on_clash: OnClash::SkipAndWarn,
            start: StartMode::OnFirstCall,
            restart: Restart::OnNextCall,
            startup_timeout: ServerEntry::STARTUP_TIMEOUT,
            call_timeout: ServerEntry::CALL_TIMEOUT,
            progress_extends: false,
            health: None,
            log_calls: false,
            ..expect
        };
        assert_eq!(effective(&entry, Profile::Chat), chat);
    }

    #[test]
    fn a182_a187_what_the_owner_set_counts() {
        let entry = entry(r#","startupTimeoutSeconds":61,"callTimeoutSeconds":5,"parallel":true"#);
        let policy = effective(&entry, Profile::Agent);
        assert_eq!(
            (
                policy.startup_timeout,
                policy.call_timeout,
                policy.parallel_calls
            ),
            (SECONDS(61), SECONDS(5), 64)
        );
    }
}
