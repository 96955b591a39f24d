//! What an entry and a profile decide together: one value that naming, starting and calling read.
//!
//! Pure. Verdicts about calls (restricted, locked) join it with the agent profile.

use std::time::Duration;

use crate::model::{EffectivePolicy, OnClash, Profile, Restart, ServerEntry, StartMode};

/// The policy of a server for agents of a profile.
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
            parallel_calls: if entry.parallel { 64 } else { 1 },
            retry_after: Duration::from_secs(60),
            scope: entry.scope,
            roots: entry.roots,
        },
    }
}
