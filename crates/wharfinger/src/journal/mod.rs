//! What is kept and what is told: the database of this installation, the journal in it, and events as they happen.
//!
//! The journal is written by a thread of its own ([`Journal`]): a row is handed over in a moment, and digested,
//! cleaned, chained and put on disk there, many at once.

mod chain;
mod events;
mod handle;
mod prepare;
mod queue;
mod record;
mod store;
#[cfg(test)]
mod tests;
mod writer;

pub use chain::{Break, Verified};
pub use events::{Event, EventKind, Events};
pub use handle::{Filter, Journal, Part};
pub use prepare::Redact;
pub use record::{Arguments, Kind, Outcome, Record, Row, Who};
pub use store::{AgentRow, ClaimRow, DiscoveryRow, Store, StoreError, VerifiedRow};
