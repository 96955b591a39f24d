//! The library against real child processes.
#![expect(
    clippy::unwrap_used,
    reason = "in tests, a panic that shows the error is the report"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "a test waits for what it spawns, and runs real programs"
)]

mod agentfile;
mod calls;
mod clients;
mod discovery;
mod emergency;
mod environment;
mod errors_page;
mod examples;
mod gate;
mod guarded;
mod journal;
mod lifecycle;
mod own;
mod packages;
mod protocol;
mod reference;
mod reports;
mod requirements;
mod rig;
mod secrets;
mod sessions;
mod stopping;
mod structure;
mod supervised;
mod trial;
mod watched;
mod yard;
