//! The daemon, in this process, over real sockets and with real child processes.
#![expect(
    clippy::needless_pass_by_value,
    reason = "`json!` borrows, and tests read better without"
)]
#![expect(
    clippy::unwrap_used,
    reason = "in tests, a panic that shows the error is the report"
)]

mod agents;
mod api;
mod approvals;
mod auth;
mod dock;
mod document;
mod gate;
mod guarded;
mod handshake;
mod http;
mod input;
mod journal;
mod mixed;
mod odd;
mod passthrough;
mod registry;
mod sessions;
mod settings;
mod start;
mod stateless;
mod stdio;
mod tasks;
mod trials;
