//! Story 2: a change of configuration, from what was read to what runs.
//!
//! `config` has read and checked it; here a bad entry leaves the last good one in force, what is gone or switched off
//! is stopped, what is new is found out, and everybody is told. Nothing that works is touched.

use std::sync::Arc;

use crate::config::{Config, Difference, Loaded, difference};
use crate::journal::EventKind;
use crate::model::{Declared, Problem, Source};
use crate::wharf::{Wharf, lock};

/// What a change came to.
#[derive(Clone, Debug)]
pub struct Change {
    /// Servers by what became of them.
    pub difference: Difference,
    /// Complaints about what was read.
    pub problems: Vec<Problem>,
}

/// When new servers are connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connect {
    /// At once, in the background.
    Now,
    /// When somebody first lists tools.
    Later,
}

impl Wharf {
    /// Puts a configuration in force while everything runs (C26). Host settings, which are read at start, stay. An
    /// entry that can't be used leaves the last good one in force (V23); an instance that runs keeps its entry until it
    /// stops. Waits for servers that are gone or switched off to end, not for new ones to be listed.
    pub async fn change(&self, loaded: Loaded) -> Change {
        self.change_to(loaded, Connect::Now).await
    }

    /// The same; what is new may also wait for whoever lists it first.
    pub async fn change_to(&self, loaded: Loaded, connect: Connect) -> Change {
        let before = self.config();
        let (after, problems) = keep_last_good(&before, loaded);
        let difference = difference(&before, &after);
        self.0.problems.store(Arc::new(problems.clone()));
        self.learn_secrets(&after);
        self.0.config.store(Arc::new(after));
        let config = self.config();
        let switched_off = |name: &&crate::model::ServerName| {
            config
                .server(name.as_str())
                .is_some_and(|entry| !entry.enabled)
        };
        let off = difference.changed.iter().filter(switched_off);
        let stopped: Vec<_> = difference.removed.iter().chain(off).cloned().collect();
        for name in difference.removed.iter().chain(&difference.changed) {
            self.forget(name);
        }
        for name in &difference.removed {
            lock(&self.0.claims).forget(name);
            self.forget_trials(name);
        }
        // From here on nobody sees them; only then is waited for their end.
        self.changed();
        self.0.events.tell(EventKind::ConfigChanged {
            added: difference.added.clone(),
            changed: difference.changed.clone(),
            removed: difference.removed.clone(),
            problems: problems.len(),
        });
        self.record_change(&difference, &config).await;
        for name in &stopped {
            self.drop_server(name.as_str()).await;
        }
        for name in &difference.removed {
            if let Err(error) = self.0.store.forget_discoveries(name.to_string()).await {
                tracing::warn!(server = %name, "its kept tools could not be forgotten: {error}");
            }
        }
        // In the background: whoever changes the configuration need not wait for servers to start.
        let anything = !difference.added.is_empty() || !difference.changed.is_empty();
        if connect == Connect::Now && anything {
            let wharf = self.clone();
            self.0.context.tasks.spawn(async move {
                let wait = wharf.limits().list_wait;
                let config = wharf.config();
                wharf
                    .discover_all(&config, &Declared::default(), wait)
                    .await;
            });
        }
        Change {
            difference,
            problems,
        }
    }
}

/// The new configuration, with the last good entry in place of each that can't be used now.
fn keep_last_good(before: &Config, loaded: Loaded) -> (Config, Vec<Problem>) {
    let mut after = loaded.config;
    after.daemon = before.daemon.clone();
    let lost = |name: &str| {
        let taken = after
            .servers
            .iter()
            .any(|entry| entry.name.as_str() == name);
        let broken = after
            .broken
            .iter()
            .any(|(known, ..)| known.as_str() == name);
        !taken && (broken || loaded.settings_unreadable)
    };
    let kept: Vec<_> = before
        .servers
        .iter()
        .enumerate()
        .filter(|(_, entry)| lost(entry.name.as_str()) && entry.source == Source::Settings)
        .map(|(index, entry)| (index, entry.clone()))
        .collect();
    for (index, entry) in kept {
        after.servers.insert(index.min(after.servers.len()), entry);
    }
    // Sources keep their order even so.
    after.servers.sort_by_key(|entry| entry.source);
    (after, loaded.problems)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{File, Inputs, load};

    fn read(settings: &str) -> Loaded {
        let settings = Some(File {
            name: "s".into(),
            text: settings.to_owned(),
        });
        load(&Inputs {
            settings,
            ..Inputs::default()
        })
    }

    fn check(before: &str, after: &str, expect: &[&str], problems: usize) {
        let (config, found) = keep_last_good(&read(before).config, read(after));
        let servers: Vec<String> = config
            .servers
            .iter()
            .map(|entry| format!("{}:{}", entry.name, entry.call_timeout.as_secs()))
            .collect();
        assert_eq!(
            (servers, found.len()),
            (expect.iter().map(|s| (*s).to_owned()).collect(), problems)
        );
    }

    #[test]
    fn v23_a_bad_live_edit_leaves_the_last_good_entry_in_force() {
        let good = r#"{"mcpServers":{"a":{"command":"x"},"b":{"command":"x"}}}"#;
        let bad = r#"{"mcpServers":{"a":{"command":"x","callTimeoutSeconds":0},"b":{"command":"x","callTimeoutSeconds":7}}}"#;
        check(good, bad, &["a:120", "b:7"], 1);
        check(good, "{ not json", &["a:120", "b:120"], 1);
        check(good, r#"{"mcpServers":[]}"#, &[], 1);
        check(good, r#"{"mcpServers":{"c":{"args":[]}}}"#, &[], 1);
        check(good, r#"{"mcpServers":{}}"#, &[], 0);
    }
}
