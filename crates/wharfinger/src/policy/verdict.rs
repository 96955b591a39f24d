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

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: Caller = Caller::Model;
    const CODE: Caller = Caller::Code { authorized: false };
    const TRUSTED: Caller = Caller::Code { authorized: true };

    /// Flags as letters: enabled, visible, restricted, locked, not pinned.
    fn rights(flags: &str, status: Option<ToolStatus>) -> Rights {
        let has = |letter| flags.contains(letter);
        Rights {
            declaration: Some(Declaration {
                name: "mcp_s_t".into(),
                enabled: has('e'),
                visible: has('v'),
                restricted: has('r'),
                locked: has('l'),
                mcp_tool_hash: None,
                mcp_tool_status: status,
            }),
            server_restricted: has('s'),
            pinned: !has('!'),
        }
    }

    #[test]
    fn a161_a163_who_may_call_what_is_declared() {
        use Verdict::{Ask, Refuse, Run};
        let rows = [
            ("ev", Run, Run, Run, true),
            ("evl", Run, Run, Run, true),
            ("evs", Run, Run, Run, true),
            (
                "evr",
                Ask(Reason::Restricted),
                Refuse(Why::NotAuthorized),
                Run,
                true,
            ),
            ("e", Refuse(Why::Hidden), Run, Run, false),
            (
                "er",
                Refuse(Why::Hidden),
                Refuse(Why::NotAuthorized),
                Run,
                false,
            ),
            (
                "",
                Refuse(Why::NotEnabled),
                Refuse(Why::NotEnabled),
                Run,
                false,
            ),
            (
                "v",
                Refuse(Why::NotEnabled),
                Refuse(Why::NotEnabled),
                Run,
                false,
            ),
            (
                "vrs",
                Refuse(Why::NotEnabled),
                Refuse(Why::NotEnabled),
                Run,
                false,
            ),
        ];
        for (flags, model, code, trusted, listed) in rows {
            for status in [None, Some(ToolStatus::New), Some(ToolStatus::Changed)] {
                let rights = rights(flags, status);
                let verdicts =
                    [MODEL, CODE, TRUSTED, Caller::Owner].map(|caller| verdict(&rights, caller));
                assert_eq!(verdicts, [model, code, trusted, Run], "{flags} {status:?}");
                assert_eq!(is_listed(&rights), listed, "{flags} {status:?}");
            }
        }
    }

    #[test]
    fn nobody_but_the_owner_calls_what_was_not_reviewed() {
        for (flags, status, why) in [
            ("ev!", None, Why::NotReviewed),
            ("ev!", Some(ToolStatus::New), Why::NotReviewed),
            ("ev!", Some(ToolStatus::Changed), Why::Changed),
            ("!", Some(ToolStatus::Changed), Why::Changed),
            ("ev!", Some(ToolStatus::Removed), Why::Removed),
            ("ev", Some(ToolStatus::Removed), Why::Removed),
        ] {
            let rights = rights(flags, status);
            for caller in [MODEL, CODE, TRUSTED] {
                assert_eq!(
                    verdict(&rights, caller),
                    Verdict::Refuse(why),
                    "{flags} {status:?} {caller:?}"
                );
            }
            assert_eq!(verdict(&rights, Caller::Owner), Verdict::Run);
            assert!(!is_listed(&rights));
        }
    }

    #[test]
    fn a166_a_restricted_server_gates_tools_without_a_declaration() {
        use Verdict::{Ask, Refuse, Run};
        for pinned in [true, false] {
            let rights = |server_restricted| Rights {
                declaration: None,
                server_restricted,
                pinned,
            };
            for (caller, restricted, free) in [
                (
                    MODEL,
                    Ask(Reason::ServerRestricted),
                    Refuse(Why::NotDeclared),
                ),
                (CODE, Refuse(Why::NotAuthorized), Refuse(Why::NotDeclared)),
                (TRUSTED, Run, Run),
                (Caller::Owner, Run, Run),
            ] {
                assert_eq!(verdict(&rights(true), caller), restricted, "{caller:?}");
                assert_eq!(verdict(&rights(false), caller), free, "{caller:?}");
            }
            assert!(!is_listed(&rights(true)) && !is_listed(&rights(false)));
        }
    }

    #[test]
    fn a162_a_refusal_names_the_tool_and_the_way_out() {
        for why in [
            Why::NotDeclared,
            Why::NotEnabled,
            Why::Hidden,
            Why::Changed,
            Why::Removed,
            Why::NotReviewed,
            Why::NotAuthorized,
        ] {
            let message = why.message("mcp_s_t");
            assert!(message.starts_with("tool `mcp_s_t` is "), "{message}");
            assert!(message.ends_with("agent's configuration"), "{message}");
        }
        let off = "tool `x` is not enabled; the owner can enable it in the agent's configuration";
        assert_eq!(Why::NotEnabled.message("x"), off);
        assert_eq!(Reason::ServerRestricted.as_str(), "restricted");
        assert_eq!(Reason::Restricted.as_str(), "restricted");
    }
}
