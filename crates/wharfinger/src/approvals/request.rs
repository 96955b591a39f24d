//! What a person is asked, and what they may say.

use std::fmt;

use serde::Serialize;
use serde_json::value::RawValue;
use std::sync::Arc;

use crate::model::{AgentName, ServerName, SessionId};

/// An approval's name: `task_` and 12 characters, as in the agent's file (A224).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = String))]
pub struct ApprovalId(Arc<str>);

impl ApprovalId {
    /// As it was given out.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ApprovalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Exactly what is approved. A call that differs in any of it is another call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Who calls.
    pub agent: AgentName,
    /// In which conversation.
    pub session: SessionId,
    /// That conversation among all that ever were; 0 for one of an earlier run.
    pub serial: u64,
    /// Whom.
    pub server: ServerName,
    /// What, as its server names it.
    pub tool: String,
    /// What, as the agent names it.
    pub exposed: String,
    /// Hash of the tool's whole definition.
    pub tool_hash: String,
    /// Digest of what the decision to ask hangs on: the declaration, the server's flags, what it runs.
    pub policy: String,
    /// Digest of the canonical arguments.
    pub arguments: String,
}

/// What changed between a decision and its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// The tool is another one.
    #[error("the definition of the tool has changed since it was asked")]
    Definition,
    /// What the agent may do is something else.
    #[error(
        "what the agent may do with this tool, or what its server runs, has changed since it was asked"
    )]
    Policy,
    /// Not the call that was decided about.
    #[error("it is not the call that was approved")]
    Call,
}

impl Binding {
    /// Whether a call is the one that was bound, whoever of the agent makes it now.
    pub fn is_same_call(&self, other: &Self) -> bool {
        self.agent == other.agent
            && self.server == other.server
            && self.tool == other.tool
            && self.exposed == other.exposed
            && self.arguments == other.arguments
    }

    /// Compares what was decided about with what would be done now. Arguments are not compared: whoever approves may
    /// change them (A227).
    pub fn check(&self, now: &Self) -> Result<(), Mismatch> {
        if self.agent != now.agent || self.server != now.server || self.tool != now.tool {
            return Err(Mismatch::Call);
        }
        if self.tool_hash != now.tool_hash {
            return Err(Mismatch::Definition);
        }
        if self.policy != now.policy {
            return Err(Mismatch::Policy);
        }
        Ok(())
    }
}

/// Why a person is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Reason {
    /// The tool is restricted, or its server is.
    Restricted,
    /// The change that the call asks for loosens what the agent may do.
    Protection,
}

impl Reason {
    /// As in the agent's file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Restricted => "restricted",
            Self::Protection => "protection",
        }
    }

    /// From the agent's file.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Restricted, Self::Protection]
            .into_iter()
            .find(|reason| reason.as_str() == text)
    }
}

/// For how much a yes is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, serde::Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// This call.
    #[default]
    Once,
    /// This tool, in this conversation.
    Session,
    /// This tool with exactly these arguments, until the program ends.
    Arguments,
    /// This tool, from now on: its declaration is no longer restricted (A233).
    Always,
}

/// What a person decided.
#[derive(Clone, Debug)]
pub enum Decision {
    /// Yes.
    Approve {
        /// Other arguments than those that were asked about (A227).
        arguments: Option<Arc<RawValue>>,
        /// For how much.
        scope: Scope,
    },
    /// No, and what the model is told.
    Deny {
        /// The words of whoever decided.
        reason: Option<String>,
    },
}

/// Whether somebody waits for the call's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Caller {
    /// The call is open.
    Waiting,
    /// It was answered that it waits; a call with the same arguments goes on with it.
    Told,
    /// It gave up. Nothing runs for it until the same call comes again.
    Gone,
}

/// How far an approval is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Nobody has decided.
    PendingApproval,
    /// Yes; it runs when somebody calls for it.
    Approved,
    /// Yes; it runs.
    Running,
    /// It ran, and its result waits to be collected.
    Completed,
}

/// An approval as people see it.
#[derive(Clone, Debug)]
pub struct Approval {
    /// Its name.
    pub id: ApprovalId,
    /// What it is about.
    pub binding: Binding,
    /// Why it is asked.
    pub reason: Reason,
    /// The arguments, redacted.
    pub arguments: Arc<RawValue>,
    /// In words: what makes this call need a person.
    pub why: String,
    /// What the model says about it, in its own words.
    pub said: Option<String>,
    /// When it was asked, in milliseconds since 1970.
    pub created: u64,
    /// Until when it may be answered.
    pub expires: u64,
    /// How far it is.
    pub stage: Stage,
    /// Whether somebody waits.
    pub caller: Caller,
}
