//! What tests of this workspace share: the fake MCP server, temporary homes, ways to wait for
//! something, looks at processes, and filters that make output comparable.
//!
//! For tests only, so problems are panics that say what to do.
//!
//! ```no_run
//! use wharfinger_testkit::{Home, fake_server, wait_until};
//!
//! let home = Home::new();
//! home.add_fake("slow", &["slow-call=1", "tools=2"]);
//! wait_until("the daemon to write its journal", || home.file("wharfinger.db").exists());
//! assert!(fake_server().exists());
//! ```
#![expect(
    clippy::disallowed_methods,
    reason = "for tests: files in a temporary folder need no whole-file replacement"
)]

mod binaries;
mod filters;
mod home;
pub mod installed;
pub mod processes;
mod wait;

pub use binaries::{binary, fake_server};
pub use filters::Filters;
pub use home::Home;
pub use wait::{PATIENCE, poll_until, wait_for, wait_until, wait_within};
