//! The emergency stop (A190): every server ends at once, and none starts until somebody says so.
//!
//! That is kept in a file beside the database, so that a restart of the program does not open the gate. Every start
//! passes [`Gate::enter`](crate::servers::Gate::enter): of instances, of discoveries, and of whatever else runs
//! something for an agent.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::config::files::{Readers, replace};
use crate::journal::{EventKind, Kind, Record, Who};
use crate::model::Profile;
use crate::servers::{Gate, Halted};
use crate::session::Session;
use crate::wharf::{Wharf, lock};

/// The file's name.
const FILE: &str = "halted";

/// Far more than an emergency stop gives the most stubborn server.
const PATIENCE: Duration = Duration::from_secs(15);

/// Why an emergency stop will not outlive the program, or could not be ended.
#[derive(Debug, thiserror::Error)]
pub enum HaltError {
    /// Everything was stopped and stays so, but only until the program ends.
    #[error("every MCP server was stopped, but can't keep that in {}: {source}", .path.display())]
    NotKept {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Everything stays stopped.
    #[error("MCP servers stay stopped: can't remove {}: {source}", .path.display())]
    NotReleased {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Wharf {
    /// Emergency stop: ends every call and every server at once and waits until nothing is left of them, about 6 s at
    /// most: a server has 4 s to leave by itself and 1 s after SIGTERM. From then on nothing starts, in this program
    /// and, after that has ended, in the next one over the same database, until [`release`](Self::release).
    ///
    /// Gives how it stands: halted already, the first reason stays.
    pub async fn halt(&self, reason: &str) -> Result<Halted, HaltError> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let halted = Halted {
            since: u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX),
            reason: self.redactor().text(reason).into_owned(),
        };
        let before = self.is_halted();
        // First, so that nothing that happens from here on starts anything.
        let halted = self.0.context.gate.shut(halted);
        let path = &self.0.halt_file;
        let kept = keep(path, &halted);
        if before.is_none() {
            tracing::warn!("emergency stop: {}", halted.reason);
            let reason = halted.reason.clone();
            self.0.events.tell(EventKind::Halted { reason });
        }
        let sessions: Vec<_> = lock(&self.0.sessions).values().cloned().collect();
        for state in sessions {
            let wharf = self.clone();
            Session { wharf, state }.stop_calls();
        }
        if before.is_none() {
            let record = Record {
                text: Some(halted.reason.clone()),
                ..Record::new(Kind::EmergencyStop, Who::Owner)
            };
            self.0.journal.write(record).await;
        }
        // Nobody approves what can't be done any more (A230).
        for agent in self.agents() {
            self.withdraw(&agent, "every server was stopped").await;
        }
        let empty = self.0.context.gate.until_empty();
        if tokio::time::timeout(PATIENCE, empty).await.is_err() {
            tracing::error!("some servers could not be ended");
        }
        match kept {
            Ok(()) => Ok(halted),
            Err(source) => Err(HaltError::NotKept {
                path: path.clone(),
                source,
            }),
        }
    }

    /// Whether everything was stopped, since when and why.
    pub fn is_halted(&self) -> Option<Halted> {
        self.0.context.gate.halted()
    }

    /// Ends an emergency stop: servers may start again, each when it is next wanted. False when there was none.
    pub fn release(&self) -> Result<bool, HaltError> {
        let path = &self.0.halt_file;
        let removed = match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        };
        removed.map_err(|source| HaltError::NotReleased {
            path: path.clone(),
            source,
        })?;
        let released = self.0.context.gate.open();
        if released {
            // What was not found out meanwhile has not failed.
            for entry in &self.config().servers {
                self.forget_failure(entry.name.as_str());
            }
            tracing::info!("the emergency stop is over");
            self.0.events.tell(EventKind::Released);
            // Agents that are active have their servers back.
            let sessions: Vec<_> = lock(&self.0.sessions).values().cloned().collect();
            for state in sessions
                .into_iter()
                .filter(|state| state.own.profile == Profile::Agent)
            {
                let session = Session {
                    wharf: self.clone(),
                    state,
                };
                self.0
                    .context
                    .tasks
                    .spawn(async move { session.become_active().await });
            }
            let record = Record::new(Kind::EmergencyRelease, Who::Owner);
            self.0.journal.write_now(record);
        }
        Ok(released)
    }
}

/// Where it is kept.
pub(crate) fn file(database: &Path) -> PathBuf {
    database.with_file_name(FILE)
}

/// The gate as it was left. A file that can't be read is one, too: what was stopped must not start by an accident.
pub(crate) fn recall(path: &Path) -> Gate {
    let gate = Gate::default();
    let halted = match std::fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return gate,
        Err(error) => Err(error.to_string()),
        Ok(text) => serde_json::from_slice(&text).map_err(|error| error.to_string()),
    };
    let halted = halted.unwrap_or_else(|error| Halted {
        since: 0,
        reason: format!("{} says so, but can't be read: {error}", path.display()),
    });
    tracing::warn!("an emergency stop is in force: {}", halted.reason);
    gate.shut(halted);
    gate
}

/// Blocks for a moment, as it is not done often.
fn keep(path: &Path, halted: &Halted) -> io::Result<()> {
    replace(path, &serde_json::to_string(halted)?, Readers::Owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a190_what_was_kept_shuts_the_gate_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = file(&folder.path().join("wharfinger.db"));
        assert_eq!(recall(&path).halted(), None);
        let halted = Halted {
            since: 7,
            reason: "it deletes everything".into(),
        };
        keep(&path, &halted).unwrap();
        assert_eq!(recall(&path).halted(), Some(halted));
    }

    #[test]
    fn a190_a_file_that_cannot_be_read_shuts_it_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = file(&folder.path().join("wharfinger.db"));
        std::fs::File::create(&path).unwrap();
        let halted = recall(&path).halted().unwrap();
        assert!(halted.reason.contains("can't be read"), "{halted:?}");
    }
}
