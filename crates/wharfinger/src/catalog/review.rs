//! A person's answer to a tool that is new or changed.

use crate::model::{Declaration, Pin, ToolStatus};

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The tool is trusted as it is now, and on.
    Accept {
        /// The [`definition_hash`](super::definition_hash) of what the person saw. Another one is refused, so that
        /// nobody accepts what came in between. `None` for whatever is there.
        seen: Option<String>,
    },
    /// The tool stays off, and its difference is not shown again.
    Reject,
}

/// Why a tool could not be reviewed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReviewError {
    /// Nothing of that name is declared and pinned.
    #[error("no tool `{0}` waits for a review; list the agent's tools for their names")]
    Unknown(String),
    /// Its row is locked.
    #[error("tool `{0}` is locked, so a review cannot switch it on; unlock its declaration first")]
    Locked(String),
    /// It is not there.
    #[error(
        "tool `{0}` is not listed by its server any more; restart the server to see whether it comes back"
    )]
    Removed(String),
    /// It changed since the person looked.
    #[error("tool `{0}` changed since it was shown; look at it again")]
    Outdated(String),
}

/// Does what a person decided about a tool. Acceptance switches it on and shows it to the model; whether its calls wait
/// for a person stays as it is. A rejected tool keeps its status.
pub fn review(
    exposed: &str,
    decision: &Decision,
    declarations: &mut [Declaration],
    pins: &mut [Pin],
) -> Result<(), ReviewError> {
    let row = declarations.iter_mut().find(|row| row.name == exposed);
    let pin = pins.iter_mut().find(|pin| pin.exposed == exposed);
    let (Some(row), Some(pin)) = (row, pin) else {
        return Err(ReviewError::Unknown(exposed.to_owned()));
    };
    match decision {
        Decision::Reject => {
            row.enabled = false;
            row.visible = false;
            pin.change = None;
        }
        Decision::Accept { seen } => {
            if row.locked {
                return Err(ReviewError::Locked(exposed.to_owned()));
            }
            if row.mcp_tool_status == Some(ToolStatus::Removed) {
                return Err(ReviewError::Removed(exposed.to_owned()));
            }
            if let Some(seen) = seen
                && pin.current.as_deref().and_then(hash_of).as_ref() != Some(seen)
            {
                return Err(ReviewError::Outdated(exposed.to_owned()));
            }
            pin.reviewed.clone_from(&pin.current);
            pin.change = None;
            row.enabled = true;
            row.visible = true;
            row.mcp_tool_status = None;
        }
    }
    Ok(())
}

fn hash_of(definition: &str) -> Option<String> {
    let raw = serde_json::from_str(definition).ok()?;
    Some(super::definition_hash(raw))
}
