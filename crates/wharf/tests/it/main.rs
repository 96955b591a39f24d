//! The real `wharf`, in a home of its own, and everything it says.
//!
//! The snapshots stand in the tests; `cargo insta test --accept -p wharf` brings them up to date.
#![expect(clippy::disallowed_methods, reason = "these tests start programs")]
#![expect(clippy::unwrap_used, reason = "everything here is part of a test")]

mod agents;
mod approvals;
mod background;
mod calls;
mod clients;
mod crash;
mod doctor;
mod gated;
mod gone;
mod journal;
mod known;
mod offline;
mod pages;
mod planted;
mod secrets;
mod servers;
mod stdio;
mod support;
mod up;
