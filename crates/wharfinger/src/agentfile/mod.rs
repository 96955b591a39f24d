//! The agent's file: an `.adf`, which is one `SQLite` database that other programs read and write too.
//!
//! Here are its tables, its configuration as a tree, its envelopes of secrets, and who may have it open. What the
//! configuration means is left to others. What this room does not know in a file (tables, columns, members, slots)
//! stays as it is.
//!
//! All of it blocks, for as long as a disk takes; a password takes half a second.

mod check;
mod config;
mod envelope;
mod error;
mod file;
mod files;
mod identity;
mod keys;
mod legacy;
mod lock;
mod logs;
mod making;
mod meta;
mod pins;
mod place;
mod random;
mod schema;
mod secrets;
mod slots;
mod tasks;
#[cfg(test)]
mod tests;
mod trust;
mod unlocking;

pub(crate) use check::PROFILE;
pub use check::{Peek, peek};
pub use config::Draft;
pub use envelope::{Envelope, EnvelopeState};
pub use error::{EditError, Error};
pub use file::AgentFile;
pub use files::{FileInfo, FileWrite, Protection, StoredFile, Writing};
pub use keys::Keys;
pub use logs::{LOGS, LogRow};
pub use making::NewAgent;
pub use pins::PinRow;
pub use place::{copy, delete, private_folder};
pub use secrets::{SecretBytes, SetBy, reveal};
pub use tasks::{Task, TaskChange, TaskStatus, task_id};
