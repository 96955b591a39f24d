//! Why something could not be done with an agent's file.

use std::io;
use std::path::{Path, PathBuf};

use super::envelope::{Envelope, EnvelopeState};

/// Why something could not be done with an agent's file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Somebody else has it.
    #[error("another program has {} open; close it there, or wait until it is done", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// Nothing is written over.
    #[error("{} is there already; choose another name, or move it away", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file system's word.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Something else than an agent's file.
    #[error("{} is not an agent's file: {reason}", path.display())]
    NotAgentFile {
        /// The file.
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// Made by an older program.
    #[error(
        "{} has schema {found}, and 28 is the oldest that works; open it once in the program that made it, in a newer version, which brings it forward",
        path.display()
    )]
    Older {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
    },
    /// Its content cannot be trusted or used.
    #[error("{} was not opened: {reason}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// It has a newer schema than what is written here.
    #[error(
        "{} has schema {found} and is only read; this program writes up to 32: change it with a newer one",
        path.display()
    )]
    ReadOnly {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
    },
    /// `SQLite`'s word.
    #[error("{}: {source}", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: rusqlite::Error,
    },
    /// It was closed.
    #[error("the agent's file is closed")]
    Closed,
    /// The key of an envelope is not at hand.
    #[error("`{purpose}`: the {envelope} envelope of this file is {state}; {}", state.way_out())]
    Sealed {
        /// What was wanted.
        purpose: String,
        /// Where it lies.
        envelope: Envelope,
        /// Its state.
        state: EnvelopeState,
    },
    /// A row cannot be read, so it is not written over either.
    #[error("`{purpose}` cannot be read: {reason}; remove it first if it is to be set anew")]
    Unreadable {
        /// The row.
        purpose: String,
        /// Why.
        reason: String,
    },
    /// A name, path, value or state that the format does not allow.
    #[error("{0}")]
    Refused(String),
    /// Keys of the owner and of this machine.
    #[error("{}: {reason}", path.display())]
    Keys {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl Error {
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io {
            doing,
            path,
            source,
        }
    }

    pub(super) fn sqlite(path: &Path) -> impl Fn(rusqlite::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Sqlite {
            path: path.clone(),
            source,
        }
    }
}

/// Why an edit was not made.
#[derive(Debug, thiserror::Error)]
pub enum EditError<E> {
    /// The edit itself said no; nothing was changed.
    #[error("{0}")]
    Refused(E),
    /// The file said no; nothing was changed.
    #[error(transparent)]
    File(#[from] Error),
}
