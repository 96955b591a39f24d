//! The conformance suite, against the fixture alone and against the daemon with the fixture behind
//! it: see `README.md`.
#![expect(clippy::disallowed_methods, reason = "these tests start programs")]
#![expect(clippy::unwrap_used, reason = "everything here is part of a test")]

mod cells;
mod expected;
mod forwarder;
mod installed;
mod started;
mod suite;
