//! Why a package is not installed.

use std::path::PathBuf;
use std::time::Duration;

use crate::launch::SpawnError;

/// Why a package is not installed. What was there before is there still.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// A program that installs is missing.
    #[error(transparent)]
    Program(#[from] SpawnError),
    /// A program that installs has failed.
    #[error("{doing} failed ({how}){}", shown(.output))]
    Failed {
        /// What was being done.
        doing: &'static str,
        /// How it ended.
        how: String,
        /// The end of what it said.
        output: String,
    },
    /// It takes too long.
    #[error("{doing} took longer than {} s{}", .limit.as_secs(), shown(.output))]
    TimedOut {
        /// What was being done.
        doing: &'static str,
        /// All of the time that was given.
        limit: Duration,
        /// The end of what it had said.
        output: String,
    },
    /// The package is not what it says, or reaches where it may not.
    #[error("the package is refused: {0}")]
    Refused(String),
    /// Only what is in the lock file was to be installed.
    #[error("`{0}` is not in mcp.lock")]
    NotLocked(String),
    /// There is nothing to go back to.
    #[error("no earlier version of `{0}` was kept")]
    NoEarlier(String),
    /// The lock file can't be read or says what can't be.
    #[error("mcp.lock can't be used: {0}")]
    Lock(String),
    /// A file or folder can't be used.
    #[error("can't use {}: {source}", .path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// The system's word.
        source: std::io::Error,
    },
    /// Everything stops, or nothing may start.
    #[error("it was stopped before it was done")]
    Stopped,
}

impl InstallError {
    /// The way out, where there is one.
    pub fn hint(&self) -> Option<String> {
        let output = match self {
            Self::Failed { output, .. } => output,
            Self::TimedOut { .. } => {
                return Some("give it longer: `wharf install NAME --timeout SECONDS`".into());
            }
            Self::NotLocked(_) => {
                return Some("without `--frozen` it is resolved and locked".into());
            }
            Self::Lock(_) => {
                return Some(
                    "mend mcp.lock, or remove it and install anew with `wharf install --all`"
                        .into(),
                );
            }
            Self::Program(_)
            | Self::Refused(_)
            | Self::NoEarlier(_)
            | Self::Io { .. }
            | Self::Stopped => return None,
        };
        let is = |words: &[&str]| words.iter().any(|word| output.contains(word));
        if is(&[
            "E404",
            "ETARGET",
            "was not found in the package registry",
            "there is no version of",
        ]) {
            return Some("look whether the name and the version are right".into());
        }
        if is(&["EINTEGRITY", "Hash mismatch"]) {
            return Some(
                "what came is not what its registry announced; don't trust it before you know why"
                    .into(),
            );
        }
        if is(&[
            "building source distributions is disabled",
            "no usable wheels",
            "has no wheels",
            "--no-build",
        ]) {
            return Some(
                "it comes as source code alone, whose build runs its scripts; `\"allowScripts\": true` in the entry allows that"
                    .into(),
            );
        }
        if is(&[
            "ENOTFOUND",
            "EAI_AGAIN",
            "ECONNREFUSED",
            "ETIMEDOUT",
            "error sending request",
            "dns error",
        ]) {
            return Some("its registry can't be reached; what is installed runs without".into());
        }
        None
    }
}

fn shown(output: &str) -> String {
    if output.is_empty() {
        String::new()
    } else {
        format!(":\n{output}")
    }
}
