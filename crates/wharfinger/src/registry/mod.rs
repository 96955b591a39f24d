//! Servers that are known: the list that comes with the program, one like it from elsewhere, and what the official
//! registry tells.
//!
//! Pure: documents come in as text and go out as entries, and an entry becomes a server's entry of `settings.json`.
//! Fetching, keeping and asking people are others' work.

mod document;
mod entry;
mod fill;
mod find;
mod official;

pub use document::{Document, DocumentError, bundled};
pub use entry::{Category, CredentialFile, Entry, Header, Known, Location, RunLocation, Runtime};
pub use fill::{Answers, FillError, fill};
pub use find::{LOOKALIKES, is_lookalike};
pub use official::{Found, Listed, listed, one};
