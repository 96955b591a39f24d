//! Why a server did not start, or did not answer. The texts go to agents and to people.

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use wharfinger_wire::era::InitializeError;
use wharfinger_wire::message::ErrorObject;

use super::Halted;
use super::connect::TAIL;
use crate::launch::SpawnError;
use crate::model::{Exit, ServerName, Status};

/// The end of what a process that did not come up wrote. As text, it is the last of its standard error.
#[derive(Clone, Debug, Default)]
pub struct LastWords {
    /// To standard error, more than is shown.
    pub stderr: Vec<String>,
    /// To standard output, where it was no message.
    pub noise: Vec<String>,
}

impl fmt::Display for LastWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.stderr.len().saturating_sub(TAIL);
        f.write_str(&tail(&self.stderr[shown..]))
    }
}

/// Why a server did not start or list its tools. Cheap to clone: everybody who waited gets it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StartError {
    /// There is no process.
    #[error("{0}")]
    Spawn(Arc<SpawnError>),
    /// It ended before it was ready.
    #[error("it exited ({exit}) before it was ready{}", .words)]
    Exited {
        /// How.
        exit: Exit,
        /// What it wrote.
        words: Box<LastWords>,
    },
    /// It was not ready in time.
    #[error("it was not ready within {} s{}", .limit.as_secs_f64(), .words)]
    TimedOut {
        /// The limit.
        limit: Duration,
        /// What it wrote.
        words: Box<LastWords>,
    },
    /// It answered, but not as the protocol has it.
    #[error("it could not be initialized: {error}{}", .words)]
    Protocol {
        /// What it said.
        error: InitializeError,
        /// What it wrote.
        words: Box<LastWords>,
    },
    /// Its list of tools could not be read.
    #[error("its tools could not be listed: {reason}{}", .words)]
    List {
        /// What it said.
        reason: String,
        /// What it wrote.
        words: Box<LastWords>,
    },
    /// What it runs could not be made ready.
    #[error("{0}")]
    Prepare(String),
    /// It did not start, and is tried again by itself (A182, A183).
    #[error("{reason}. It is tried again in {} s ({number} of {of})", .wait.as_secs_f64())]
    Again {
        /// What came of the last attempt.
        reason: String,
        /// Until the next one.
        wait: Duration,
        /// Which that is, from 1.
        number: usize,
        /// Of how many.
        of: usize,
    },
    /// It was tried as often as its policy has it, and stays down until somebody starts it.
    #[error(
        "{reason}. It was given up after {tries} attempts; `mcp_restart` or `wharf restart {server}` starts it"
    )]
    GaveUp {
        /// Which.
        server: ServerName,
        /// How many.
        tries: usize,
        /// What came of the last one.
        reason: String,
    },
    /// An emergency stop is in force (A190).
    #[error("every MCP server was stopped ({}); `wharf release` lets them start again", .0.reason)]
    Halted(Halted),
    /// Somebody stopped it meanwhile.
    #[error("it was stopped while it started")]
    Stopped,
}

impl StartError {
    /// What came of the last attempt, without what comes next.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Again { reason, .. } | Self::GaveUp { reason, .. } => reason.clone(),
            Self::Spawn(_)
            | Self::Exited { .. }
            | Self::TimedOut { .. }
            | Self::Protocol { .. }
            | Self::List { .. }
            | Self::Prepare(_)
            | Self::Halted(_)
            | Self::Stopped => self.to_string(),
        }
    }
}

/// Why a call has no result. Nothing is ever tried again by us (V63).
#[derive(Clone, Debug, thiserror::Error)]
pub enum CallError {
    /// The server did not start; the call was not made.
    #[error("{server}: the MCP server did not start: {error}")]
    Start {
        /// Which.
        server: ServerName,
        /// Why.
        error: StartError,
    },
    /// The server ended during the call, or had ended unasked before it (V61).
    #[error(
        "{server}: the MCP server exited ({exit}). It restarts on the next call; {} was lost.{}",
        if *.browser { "browser state" } else { "its state" }, tail(.stderr)
    )]
    Exited {
        /// Which.
        server: ServerName,
        /// How.
        exit: Exit,
        /// Keeps state in a browser (V62).
        browser: bool,
        /// The end of its standard error.
        stderr: Vec<String>,
    },
    /// The server ended during the call, or had ended unasked before it, and is started again by itself (A165).
    #[error(
        "{server}: status: error: Connection lost. The MCP server exited ({exit}), and {} was lost. {next}{}",
        if *.browser { "browser state" } else { "its state" }, tail(.stderr)
    )]
    Lost {
        /// Which.
        server: ServerName,
        /// How.
        exit: Exit,
        /// Keeps state in a browser (V62).
        browser: bool,
        /// What happens next.
        next: String,
        /// The end of its standard error.
        stderr: Vec<String>,
    },
    /// The call waited for its server to come up, for as long as it may take; nothing was sent.
    #[error("{server}: status: {status}. The MCP server was not ready within {} s; nothing was sent", .limit.as_secs_f64())]
    NotReady {
        /// Which.
        server: ServerName,
        /// What it does instead.
        status: Status,
        /// The limit.
        limit: Duration,
    },
    /// An emergency stop ended the call (A190).
    #[error("{server}: the call was ended: every MCP server was stopped ({}). `wharf release` lets them start again", .halted.reason)]
    Halted {
        /// Which.
        server: ServerName,
        /// Since when, and why.
        halted: Halted,
    },
    /// It was stopped on purpose during the call.
    #[error("{server}: the MCP server was stopped during the call; the next call starts it again")]
    Stopped {
        /// Which.
        server: ServerName,
    },
    /// It took too long and was told to cancel; it still runs (V64).
    #[error("{server}: the call took longer than {} s (callTimeoutSeconds) and was cancelled", .limit.as_secs_f64())]
    TimedOut {
        /// Which.
        server: ServerName,
        /// The limit.
        limit: Duration,
    },
    /// It waited for its turn for as long as a call may take; nothing was sent.
    #[error("{server}: other calls kept this MCP server busy for {} s; set `parallel` if it can take several at once", .limit.as_secs_f64())]
    NoTurn {
        /// Which.
        server: ServerName,
        /// The limit.
        limit: Duration,
    },
    /// Too many calls wait already; nothing was sent.
    #[error("{server}: {limit} calls are waiting for this MCP server already; try again later")]
    Busy {
        /// Which.
        server: ServerName,
        /// How many may wait.
        limit: usize,
    },
    /// The server's own protocol error, to be passed on unchanged.
    #[error("{server}: {error}")]
    Server {
        /// Which.
        server: ServerName,
        /// Its words.
        error: ErrorObject,
    },
    /// The reply could not be read; the server lives.
    #[error("{server}: {reason}")]
    Unreadable {
        /// Which.
        server: ServerName,
        /// What is wrong with it.
        reason: String,
    },
}

fn tail(lines: &[String]) -> String {
    let mut text = String::new();
    if !lines.is_empty() {
        text.push_str("\nIts standard error ends with:");
        for line in lines {
            write!(text, "\n  {line}").expect("a string takes everything");
        }
    }
    text
}
