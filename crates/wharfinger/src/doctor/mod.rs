//! Known failures: how each looks, what causes it, and what mends it.
//!
//! Takes facts and returns findings; others look at the machine, start servers and print. The table ([`known`]) is the
//! reference that `docs/errors.md` is made from, and its codes stay what they are.

mod diagnose;
mod failure;
pub mod known;
mod machine;
mod page;

use serde::Serialize;

use crate::model::{Exit, Package};

pub use diagnose::diagnose;
pub use failure::{Command, Failure, Is, Look};
pub use machine::{
    Check, Daemon, Facts, HomeFacts, Mark, OpenFile, Port, Program, Runtime, Vault, examine,
    program_finding,
};
pub use page::page;

/// How sure a finding is of its cause.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Certainty {
    /// It looks like this for no other reason.
    Certain,
    /// It mostly has this reason.
    Likely,
}

/// Something that is wrong, why, and the way out.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// As `docs/errors.md` lists it, `WF-101`; `WF-000` where nothing is known about it.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub code: &'static str,
    /// In a few words.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub title: &'static str,
    /// The server it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Why, in one sentence.
    pub cause: String,
    /// What to do, in one sentence.
    pub fix: String,
    /// The command that does it, where one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// How sure that is.
    pub certainty: Certainty,
    /// What was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
    /// The file or folder it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Whether `wharf doctor --fix` mends it.
    pub fixable: bool,
}

/// What a server that does not work looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symptom {
    /// Its name.
    pub server: String,
    /// What its entry runs.
    pub command: String,
    /// With these arguments.
    pub args: Vec<String>,
    /// The package it is; the arguments are its own then.
    pub package: Option<Package>,
    /// Variables of its entry, as they are written.
    pub env: Vec<(String, Option<String>)>,
    /// Whether `wharf add --replace` can say all that its entry says, and may show it.
    pub is_simple: bool,
    /// File and line of its entry.
    pub place: String,
    /// What happened.
    pub what: What,
    /// The end of its standard error.
    pub stderr: Vec<String>,
    /// What it wrote to standard output that is no message.
    pub noise: Vec<String>,
}

/// What happened to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// There is no such program.
    NotFound,
    /// The program is there but may not be run.
    NotExecutable(String),
    /// Its working directory can't be used.
    Directory(String),
    /// The system did not start it.
    NotStarted(String),
    /// It ended by itself.
    Exited(Exit),
    /// It was not ready in time.
    TimedOut,
    /// It did not speak the protocol.
    Protocol(String),
    /// It was up, and its tools could not be listed.
    List(String),
    /// What it runs could not be made ready.
    Prepare(String),
    /// Something else, in our words.
    Other(String),
}

impl What {
    /// Our own words for it, where there are some.
    fn words(&self) -> Option<&str> {
        match self {
            Self::NotFound | Self::Exited(_) | Self::TimedOut => None,
            Self::NotExecutable(text)
            | Self::Directory(text)
            | Self::NotStarted(text)
            | Self::Protocol(text)
            | Self::List(text)
            | Self::Prepare(text)
            | Self::Other(text) => Some(text),
        }
    }
}
