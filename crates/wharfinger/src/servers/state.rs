//! What an instance is asked, and the state that its callers see.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio::sync::oneshot;

use super::StartError;
use super::connect::Live;
use crate::model::{Exit, Status};

/// What those hear who wait for a server.
pub(super) type Answer = Result<Arc<Live>, StartError>;

/// What others ask of an instance.
pub(super) enum Ask {
    /// Be ready. Many may ask; it starts once (V58).
    Start(oneshot::Sender<Answer>),
    /// End the process; the next start is a fresh one. Answered when it is gone.
    Stop(oneshot::Sender<()>),
    /// Both, one after the other: whatever went wrong before does not count any more (A91).
    Restart(oneshot::Sender<Answer>),
}

/// The state of an instance, as callers see it.
#[derive(Clone, Debug)]
pub(super) enum State {
    Idle,
    Starting,
    Running(Arc<Live>),
    /// It ended unasked; the first to see it tells its agent.
    Exited {
        exit: Exit,
        stderr: Vec<String>,
        told: Arc<AtomicBool>,
    },
    /// It ended unasked, and is started again by itself or was given up.
    Lost(Arc<Lost>),
    /// It did not start, and is tried again.
    Pausing(StartError),
    Failed(StartError),
}

impl State {
    pub(super) fn status(&self) -> Status {
        match self {
            Self::Idle => Status::NotStarted,
            Self::Starting => Status::Starting,
            Self::Running(live) => Status::Running { pid: live.pid },
            Self::Exited { exit, .. } => Status::Exited { exit: *exit },
            Self::Lost(lost) => Status::Failed {
                reason: format!("Connection lost: it exited ({}). {}", lost.exit, lost.next),
            },
            Self::Pausing(error) | Self::Failed(error) => Status::Failed {
                reason: error.to_string(),
            },
        }
    }
}

/// An unasked end of a server that is started again by itself.
#[derive(Debug)]
pub(super) struct Lost {
    pub(super) exit: Exit,
    pub(super) stderr: Vec<String>,
    /// What happens next.
    pub(super) next: String,
    /// Some call was told.
    pub(super) told: AtomicBool,
}
