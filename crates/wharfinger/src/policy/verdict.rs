//! Who may call which tool (A161–A163, A166).

use std::fmt;

use crate::model::{Declaration, ToolStatus};

/// What there is to know of a tool before it is called. Its server is looked up in the map of names, never read from its
/// name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// Its row in the agent's configuration.
    pub declaration: Option<Declaration>,
    /// Its server's entry says `restricted`: tools without a row wait for a person.
    pub server_restricted: bool,
    /// What is listed is what was reviewed; see [`Pin::is_reviewed`](crate::model::Pin::is_reviewed).
    pub pinned: bool,
}

/// Who wants to call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// The agent's model.
    Model,
    /// A program of the agent.
    Code {
        /// The owner authorized it.
        authorized: bool,
    },
    /// The owner, by hand.
    Owner,
}

/// What becomes of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is made.
    Run,
    /// A person is asked first.
    Ask(Reason),
    /// It is not made, and nobody is asked.
    Refuse(Why),
}

/// Why a person is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The tool is restricted.
    Restricted,
    /// Its server is, and the tool has no declaration of its own.
    ServerRestricted,
}

/// Why a call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It has no declaration.
    NotDeclared,
    /// It is switched off.
    NotEnabled,
    /// It is on, but not for the model.
    Hidden,
    /// It changed since it was reviewed.
    Changed,
    /// Its server does not list it any more.
    Removed,
    /// It was never reviewed.
    NotReviewed,
    /// It is restricted, and the code that calls is not authorized.
    NotAuthorized,
}

impl Reason {
    /// The word that a waiting call's record has for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Restricted | Self::ServerRestricted => "restricted",
        }
    }
}

impl Why {
    /// For whoever called: names the tool and the way out.
    pub fn message(self, tool: &str) -> String {
        format!("tool `{tool}` {self}")
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotDeclared => {
                "is not among this agent's tools; its owner can declare and enable it in the agent's configuration"
            }
            Self::NotEnabled => {
                "is not enabled; the owner can enable it in the agent's configuration"
            }
            Self::Hidden => {
                "is hidden from the model; the owner can make it visible in the agent's configuration"
            }
            Self::Changed => {
                "is off because its definition changed; the owner can review it in the agent's configuration"
            }
            Self::Removed => {
                "is off because its server does not list it any more; restart the server or remove the tool from the agent's configuration"
            }
            Self::NotReviewed => {
                "is off until the owner has reviewed it in the agent's configuration"
            }
            Self::NotAuthorized => {
                "is restricted, and only authorized code may call it; the owner can authorize the code or lift the restriction in the agent's configuration"
            }
        })
    }
}

/// What becomes of a call.
///
/// Authorized code may call what is restricted or off, but nobody except the owner calls a tool whose definition is not
/// the reviewed one: a server that changed a tool decides nothing by it.
pub fn verdict(rights: &Rights, caller: Caller) -> Verdict {
    let authorized = match caller {
        Caller::Owner => return Verdict::Run,
        Caller::Model => false,
        Caller::Code { authorized } => authorized,
    };
    let Some(declaration) = &rights.declaration else {
        return undeclared(rights.server_restricted, caller);
    };
    if let Some(why) = unreviewed(declaration, rights.pinned) {
        return Verdict::Refuse(why);
    }
    if authorized {
        return Verdict::Run;
    }
    match (declaration.enabled, caller) {
        (false, _) => Verdict::Refuse(Why::NotEnabled),
        (true, Caller::Model) if !declaration.visible => Verdict::Refuse(Why::Hidden),
        (true, Caller::Model) if declaration.restricted => Verdict::Ask(Reason::Restricted),
        (true, _) if declaration.restricted => Verdict::Refuse(Why::NotAuthorized),
        (true, _) => Verdict::Run,
    }
}

fn undeclared(server_restricted: bool, caller: Caller) -> Verdict {
    match (caller, server_restricted) {
        (Caller::Owner | Caller::Code { authorized: true }, _) => Verdict::Run,
        (Caller::Model, true) => Verdict::Ask(Reason::ServerRestricted),
        (Caller::Code { authorized: false }, true) => Verdict::Refuse(Why::NotAuthorized),
        (Caller::Model | Caller::Code { authorized: false }, false) => {
            Verdict::Refuse(Why::NotDeclared)
        }
    }
}

fn unreviewed(declaration: &Declaration, pinned: bool) -> Option<Why> {
    match declaration.mcp_tool_status {
        Some(ToolStatus::Removed) => Some(Why::Removed),
        _ if pinned => None,
        Some(ToolStatus::Changed) => Some(Why::Changed),
        Some(ToolStatus::New) | None => Some(Why::NotReviewed),
    }
}

/// Whether the model is told of a tool (A161).
pub fn is_listed(rights: &Rights) -> bool {
    let declaration = rights.declaration.as_ref();
    declaration.is_some_and(|declaration| {
        declaration.enabled
            && declaration.visible
            && unreviewed(declaration, rights.pinned).is_none()
    })
}
