//! The conformance suite, against the fixture alone and against the daemon with the fixture behind
//! it: see `README.md`.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "these tests start programs, and say what they leave out"
)]
#![expect(clippy::unwrap_used, reason = "everything here is part of a test")]

mod cells;
mod expected;
mod forwarder;
mod installed;
mod started;
mod suite;
