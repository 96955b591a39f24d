//! Where a server's process runs and how it is started, watched and ended. The only room that starts processes.
//!
//! On the stair `servers → launch → vault`: it may use `vault`, nobody else of the rooms. What differs between
//! operating systems sits here, in `tree`.

mod environment;
pub mod guard;
pub mod packages;
mod probe;
mod process;
mod profile;
pub mod scratch;
mod spawn;
mod tree;

pub use environment::{INHERITED, Inherit, REGISTRY};
pub use guard::{Guard, GuardError};
pub use probe::{Probed, probe};
pub use process::{Grace, Process};
pub(crate) use profile::unlock;
pub use scratch::{Scratch, ScratchError};
pub use spawn::{Launched, Plan, Request, SpawnError, find_on, has_program, plan, spawn};
pub use tree::{INSTANCE, OWNER, Owner};
