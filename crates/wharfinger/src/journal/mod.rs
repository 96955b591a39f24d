//! What is kept and what is told: the database of this installation, and events as they happen.

mod events;
mod store;

pub use events::{Event, EventKind, Events};
pub use store::{AgentRow, ClaimRow, DiscoveryRow, Store, StoreError};
