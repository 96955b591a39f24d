//! The plain words: names, values, states. Imports nobody; every room may use it.

mod canonical;
mod declared;
mod entry;
pub mod expand;
mod limits;
mod names;
mod problem;
mod secret;
mod status;

pub use canonical::canonical;
pub use declared::{Declared, Roots};
pub use entry::{
    BLOCKED, EffectivePolicy, KnownName, OnClash, Profile, Restart, Scope, ServerEntry, Source,
    StartMode, StderrLevel, Transport, is_blocked,
};
pub use limits::Limits;
pub use names::{AgentName, NameError, ServerName, SessionId, ToolName, nearest};
pub use problem::{Place, Problem, Severity};
pub use secret::Secret;
pub use status::{Exit, Status};
