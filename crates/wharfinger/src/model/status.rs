//! What a server is doing.

use std::fmt;

use serde::Serialize;

/// How a process ended.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// Not to be found out.
    Unknown,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "code {code}"),
            Self::Signal(9) => f.write_str("killed by signal 9, SIGKILL"),
            Self::Signal(15) => f.write_str("ended by signal 15, SIGTERM"),
            Self::Signal(11) => f.write_str("crashed by signal 11, SIGSEGV"),
            Self::Signal(6) => f.write_str("aborted by signal 6, SIGABRT"),
            Self::Signal(signal) => write!(f, "ended by signal {signal}"),
            Self::Unknown => f.write_str("code unknown"),
        }
    }
}

impl Status {
    /// The word that agents' programs have for it (A181).
    pub fn word(&self) -> &'static str {
        match self {
            Self::NotStarted | Self::Disabled => "stopped",
            Self::Starting => "connecting",
            Self::Running { .. } => "connected",
            Self::Exited { .. } | Self::Failed { .. } | Self::NeedsKeys { .. } => "error",
        }
    }
}

/// The state of a server as `/mcp` shows it (V69).
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum Status {
    /// No process; the next call starts one.
    NotStarted,
    /// A process is coming up.
    Starting,
    /// A process is up.
    Running {
        /// Its process id.
        pid: u32,
    },
    /// Its process ended by itself; the next call starts another.
    Exited {
        /// How.
        exit: Exit,
    },
    /// It could not be started or listed.
    Failed {
        /// Why, in words for people.
        reason: String,
    },
    /// It can't be started before these secrets of it are set.
    NeedsKeys {
        /// Which.
        keys: Vec<String>,
    },
    /// Switched off by its entry.
    Disabled,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted => f.write_str("not started"),
            Self::Starting => f.write_str("starting"),
            Self::Running { .. } => f.write_str("running"),
            Self::Exited { exit } => write!(f, "exited ({exit})"),
            Self::Failed { reason } => write!(f, "failed: {reason}"),
            Self::NeedsKeys { keys } => write!(f, "needs {}", keys.join(", ")),
            Self::Disabled => f.write_str("disabled"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a181_every_state_has_a_word() {
        let check = |status: Status, expect: &str| assert_eq!(status.word(), expect);
        check(Status::NotStarted, "stopped");
        check(Status::Disabled, "stopped");
        check(Status::Starting, "connecting");
        check(Status::Running { pid: 1 }, "connected");
        check(
            Status::Exited {
                exit: Exit::Unknown,
            },
            "error",
        );
        check(
            Status::Failed {
                reason: String::new(),
            },
            "error",
        );
        check(Status::NeedsKeys { keys: vec![] }, "error");
    }
}
