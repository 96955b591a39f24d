//! Running servers: one actor an instance, its states, its calls, and what it says unasked.
//!
//! On the stair `servers → launch → vault`: it may use `launch`. What is called and by whom, names, and what is kept
//! of a discovery are others' business.

mod activity;
mod asked;
mod calling;
mod connect;
mod discovery;
mod error;
mod gate;
mod handle;
mod health;
mod ladder;
mod plans;
mod relay;
mod server;
mod state;
mod stderr;
mod turn;
mod up;

use std::sync::Arc;

use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wharfinger_wire::era::{ServerDescription, Version};

use crate::launch::{Grace, Owner};
use crate::model::{Declared, EffectivePolicy, Limits, ServerName, Status};

pub use asked::Asked;
pub use calling::{Outgoing, Patience};
pub(crate) use discovery::Lists;
pub use discovery::{List, discover};
pub use error::{CallError, LastWords, StartError};
pub use gate::{Gate, Halted, Pass};
pub use handle::{Hold, ServerHandle, start_all};
pub use health::Ping;
pub use plans::{Plans, Prepare, Prepared};
pub use relay::allowed;
pub use stderr::Lines;
pub use turn::Turn;

/// What all servers of an owner share.
#[derive(Clone, Debug)]
pub struct Context {
    /// Whose mark their processes carry.
    pub owner: Owner,
    /// Bounds on what they can make us hold.
    pub limits: Limits,
    /// What we say we are: an `Implementation` object.
    pub client: Arc<RawValue>,
    /// Every task runs on it, so that stopping can wait for all.
    pub tasks: TaskTracker,
    /// Ends everything.
    pub stop: CancellationToken,
    /// What every process passes; shut, it ends every server until it is opened again.
    pub gate: Gate,
}

impl Context {
    /// Why a start that was broken off was that.
    fn stopped(&self) -> StartError {
        let halted = self.gate.halted();
        halted.map_or(StartError::Stopped, StartError::Halted)
    }

    fn grace(&self) -> Grace {
        self.gate.grace(Grace {
            exit: self.limits.exit_wait,
            term: self.limits.term_wait,
        })
    }
}

/// What an instance is made from; it keeps these until it stops.
#[derive(Clone, Debug)]
pub struct Spec {
    /// For messages.
    pub name: ServerName,
    /// What runs, made anew for each start where it may be another (A184).
    pub plan: Plans,
    /// Limits and ways.
    pub policy: EffectivePolicy,
    /// What the server is told about its client.
    pub declared: Declared,
    /// What it is answered when it asks for roots; `None` leaves that to the client.
    pub roots: Option<Vec<String>>,
    /// The protocol version spoken before, so that it need not be found out again.
    pub remembered: Option<Version>,
    /// Keeps state in a browser (V62), and closes it on SIGTERM alone (V38).
    pub browser: bool,
}

/// Hears what a server says and does of its own accord, in order. Must not block.
pub trait Audience: Send + Sync + 'static {
    /// Something happened.
    fn note(&self, note: Note);

    /// Its start has come this far.
    fn step(&self, _: Step) {}

    /// It asks its client something; dropped, the question is answered with an error.
    fn asked(&self, asked: Asked);

    /// Whether it is to run also when nobody has called it for long.
    fn keeps(&self) -> bool {
        false
    }
}

/// How far the start of a server has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// What runs is made ready.
    Prepared,
    /// There is a process; a second one where the first did not stand a question.
    Started,
    /// It has said what it is.
    Initialized,
    /// It has listed what it offers.
    Listed,
}

/// What a server says or does of its own accord.
#[derive(Clone, Debug)]
pub enum Note {
    /// It is in another state.
    Status(Status),
    /// A notification, but for progress of calls and changed tool lists.
    Notification {
        /// Its method.
        method: String,
        /// Its params, as they came.
        params: Option<Arc<RawValue>>,
    },
    /// Its tools as it lists them now.
    Tools(Box<Discovered>),
    /// A line of its standard error.
    Stderr(String),
    /// Something on its standard output that is no message.
    Noise(String),
    /// What became of it, in words for people: starts, stops, ends, attempts, pings that failed. Only where it is
    /// [supervised](EffectivePolicy::is_supervised).
    System {
        /// In words; may quote the server.
        text: String,
        /// It is an error.
        failed: bool,
    },
    /// A call of a tool, or its result. Only where the policy [says so](EffectivePolicy::log_calls).
    Exchange {
        /// Which.
        head: String,
        /// What was sent or came, JSON for the most part; longer than what is worth showing.
        body: String,
        /// It is an error.
        failed: bool,
    },
}

/// What a server is and offers.
#[derive(Clone, Debug)]
pub struct Discovered {
    /// What it said of itself.
    pub description: ServerDescription,
    /// Its tools, as they came.
    pub tools: Vec<Arc<RawValue>>,
    /// Its prompts, as they came; none where it says that it has none.
    pub prompts: List,
    /// Its resources, likewise.
    pub resources: List,
    /// Its resource templates, likewise.
    pub templates: List,
    /// Oddities of the listing.
    pub warnings: Vec<String>,
}
