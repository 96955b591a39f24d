//! What a row of the journal tells, and the words it is told in.
//!
//! The words are written to the database and read by programs: they stay.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::model::{AgentName, ServerName, SessionId};

/// Whose doing it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// An agent's: `agent:NAME`.
    Agent(AgentName),
    /// The owner's, by any door: `owner`.
    Owner,
    /// Our own: `system`.
    System,
    /// A server's: `server`.
    Server,
}

impl Who {
    pub(super) fn wire(&self) -> String {
        match self {
            Self::Agent(name) => format!("agent:{name}"),
            Self::Owner => "owner".into(),
            Self::System => "system".into(),
            Self::Server => "server".into(),
        }
    }
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$of])* #[doc = concat!(" `", $word, "`.")] $variant,)*
        }

        impl $name {
            /// All there are, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// How it is written.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }
    };
}

words! {
    /// What happened. What stands before the point is the group; one can ask for rows of a whole group.
    Kind {
        /// A tool was called.
        Call = "call",
        /// A prompt, a resource or anything else was asked for.
        Request = "request",
        /// A call waits for a person.
        ApprovalRequested = "approval.requested",
        /// A person said yes.
        ApprovalApproved = "approval.approved",
        /// A person said no.
        ApprovalDenied = "approval.denied",
        /// Nobody said anything in time.
        ApprovalExpired = "approval.expired",
        /// The result of an approved call was fetched by a later one.
        ApprovalCollected = "approval.collected",
        /// A server's tools were declared for an agent.
        ToolsDeclared = "tools.declared",
        /// A tool's definition, or what an agent may do with it, changed.
        ToolsChanged = "tools.changed",
        /// A changed definition was reviewed.
        ToolsReviewed = "tools.reviewed",
        /// Many tools were switched at once.
        ToolsBulk = "tools.bulk",
        /// A server is new in the configuration.
        ServerAdded = "config.server-added",
        /// A server has another entry.
        ServerChanged = "config.server-changed",
        /// A server is gone from the configuration.
        ServerRemoved = "config.server-removed",
        /// A server was given to an agent.
        ServerAttached = "config.server-attached",
        /// A server was taken from an agent.
        ServerDetached = "config.server-detached",
        /// A secret of a server was set; the subject says which, never what.
        SecretSet = "config.secret-set",
        /// A secret of a server was removed.
        SecretRemoved = "config.secret-removed",
        /// An agent was made.
        AgentAdded = "config.agent-added",
        /// An agent was removed.
        AgentRemoved = "config.agent-removed",
        /// An agent's file was brought in.
        AgentImported = "config.agent-imported",
        /// An agent's file was given out.
        AgentExported = "config.agent-exported",
        /// A process runs; without a server, the wharf itself.
        Started = "lifecycle.started",
        /// It was stopped, or the wharf shuts down.
        Stopped = "lifecycle.stopped",
        /// It ended by itself.
        Exited = "lifecycle.exited",
        /// It could not be started.
        Failed = "lifecycle.failed",
        /// Somebody had it started afresh.
        Restarted = "lifecycle.restarted",
        /// A call carried a flag that only we may set.
        FlagForged = "security.flag-forged",
        /// Somebody came with a wrong token.
        TokenWrong = "security.token-wrong",
        /// What an agent may do did not allow it.
        GateRefused = "security.gate-refused",
        /// Everything was stopped by a person.
        EmergencyStop = "security.emergency-stop",
        /// That was taken back.
        EmergencyRelease = "security.emergency-release",
        /// A call went past the gate with the authority of its caller.
        Bypass = "bypass",
        /// Rows are missing here, since the disk did not take them; the subject says how many.
        Gap = "gap",
    }
}

words! {
    /// What came of it.
    Outcome {
        /// It worked.
        Ok = "ok",
        /// It failed, or the tool said that it did.
        Error = "error",
        /// It was not done: unknown, disabled, not allowed.
        Refused = "refused",
        /// It waits for a person.
        Waiting = "waiting",
        /// A person said no.
        Denied = "denied",
        /// Nobody answered in time.
        Expired = "expired",
        /// Whoever asked for it hung up or stopped it; it may have been done.
        Cancelled = "cancelled",
        /// Nobody knows: it was sent, and no answer came.
        Unknown = "unknown",
    }
}

/// What something was done with. The digest and the preview are made of it where the row is written, so handing it
/// over costs its caller a copy and no more.
#[derive(Clone, Debug, Default)]
pub enum Arguments {
    /// With nothing.
    #[default]
    None,
    /// With this value.
    Value(Box<RawValue>),
    /// With the member `arguments` of these params.
    OfCall(Box<RawValue>),
    /// With these params, but for `_meta`.
    Params(Box<RawValue>),
}

impl Arguments {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Value(raw) | Self::OfCall(raw) | Self::Params(raw) => raw.get().len(),
        }
    }
}

/// Something that happened, as it is handed to the journal. Secrets may be in it; they are not in what is written.
#[derive(Clone, Debug)]
pub struct Record {
    /// Milliseconds since 1970, UTC: when it ended.
    pub at: u64,
    /// What happened.
    pub kind: Kind,
    /// Whose doing it was.
    pub who: Who,
    /// Which agent it is about.
    pub agent: Option<AgentName>,
    /// In which session.
    pub session: Option<SessionId>,
    /// About which server.
    pub server: Option<ServerName>,
    /// About which tool, as its server names it; as the agent does, where that is unknown.
    pub tool: Option<String>,
    /// Small details, as JSON.
    pub subject: Option<Box<RawValue>>,
    /// What it was done with.
    pub arguments: Arguments,
    /// What came of it.
    pub outcome: Outcome,
    /// How long it took.
    pub millis: Option<u64>,
    /// By which approval it was allowed, or which one this is about.
    pub approval: Option<String>,
    /// An error or a reason.
    pub text: Option<String>,
}

impl Record {
    /// Something that worked, now.
    pub fn new(kind: Kind, who: Who) -> Self {
        let agent = match &who {
            Who::Agent(name) => Some(name.clone()),
            Who::Owner | Who::System | Who::Server => None,
        };
        Self {
            at: now(),
            kind,
            who,
            agent,
            session: None,
            server: None,
            tool: None,
            subject: None,
            arguments: Arguments::None,
            outcome: Outcome::Ok,
            millis: None,
            approval: None,
            text: None,
        }
    }
}

/// Milliseconds since 1970, UTC.
pub(super) fn now() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// A row of the journal.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Its number; each is one more than the one before.
    pub seq: u64,
    /// Milliseconds since 1970, UTC: when it ended.
    pub at: u64,
    /// What happened, such as `call` or `lifecycle.started`.
    pub kind: String,
    /// Whose doing it was: `agent:NAME`, `owner`, `system` or `server`.
    pub who: String,
    /// Which agent it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// In which session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// About which server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// About which tool, as its server names it; as the agent does, where that is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// What came of it: `ok`, `error`, `refused`, `waiting`, `denied`, `expired`, `cancelled` or `unknown`.
    pub outcome: String,
    /// How long it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub millis: Option<u64>,
    /// By which approval it was allowed, or which one it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    /// SHA-256 of the arguments in canonical JSON, in hex.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args_digest: Option<String>,
    /// The beginning of the arguments in canonical JSON, without known secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
    /// Small details.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<Box<RawValue>>,
    /// An error or a reason, without known secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// SHA-256 of the hash of the row before and of everything in this one, in hex.
    pub hash: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_lowercase_and_each_is_one_of_its_own() {
        let kinds = Kind::ALL.iter().map(|kind| kind.as_str());
        let outcomes = Outcome::ALL.iter().map(|outcome| outcome.as_str());
        let words: Vec<&str> = kinds.chain(outcomes).collect();
        for (index, word) in words.iter().enumerate() {
            let fine = |c: char| c.is_ascii_lowercase() || c == '.' || c == '-';
            assert!(word.chars().all(fine), "{word}");
            assert!(!words[index + 1..].contains(word), "{word} is there twice");
        }
    }

    #[test]
    fn the_documentation_names_every_word() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/journal.md");
        let page = std::fs::read_to_string(page).unwrap();
        let kinds = Kind::ALL.iter().map(|kind| kind.as_str());
        let outcomes = Outcome::ALL.iter().map(|outcome| outcome.as_str());
        for word in kinds.chain(outcomes) {
            assert!(
                page.contains(&format!("`{word}`")),
                "`{word}` is not in docs/journal.md"
            );
        }
    }
}
