//! The plain words: names, values, states. Imports nobody; every room may use it.

mod canonical;
mod declaration;
mod declared;
mod entry;
pub mod expand;
mod hex;
mod jsonc;
mod limits;
mod names;
pub mod package;
mod pin;
mod problem;
mod secret;
mod status;

pub use canonical::canonical;
pub use declaration::{Declaration, DeclarationError, ToolStatus, declarations, declare};
pub use declared::{Declared, Roots};
pub use entry::{
    Again, BLOCKED, EffectivePolicy, Health, KnownName, OnClash, Profile, Restart, Scope,
    ServerEntry, Source, StartMode, StderrLevel, Transport, is_blocked, is_delicate,
};
pub use hex::hex;
pub(crate) use jsonc::JSON_OF_PEOPLE;
pub use limits::Limits;
pub use names::{AgentName, NameError, ServerName, SessionId, ToolName, nearest};
pub use package::{Package, PackageKind};
pub use pin::{Class, DiffLine, Difference, Pin, Suspicion, SuspicionKind};
pub use problem::{Place, Problem, Severity};
pub use secret::Secret;
pub use status::{Exit, Status};
