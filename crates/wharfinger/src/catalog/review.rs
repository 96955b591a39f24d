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
            let is_seen =
                |seen: &String| pin.current.as_deref().and_then(hash_of).as_ref() == Some(seen);
            if !seen.as_ref().is_none_or(is_seen) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Class, Difference, ServerName, ToolName};

    const SEEN: &str = r#"{"name":"a","v":2}"#;

    fn waiting() -> (Vec<Declaration>, Vec<Pin>) {
        let row = Declaration {
            name: "mcp_s_a".into(),
            restricted: true,
            mcp_tool_hash: Some("hash".into()),
            mcp_tool_status: Some(ToolStatus::Changed),
            ..Declaration::default()
        };
        let pin = Pin {
            server: ServerName::new("s").unwrap(),
            tool: ToolName::new("a").unwrap(),
            exposed: "mcp_s_a".into(),
            listed_for: String::new(),
            reviewed: Some(r#"{"name":"a","v":1}"#.into()),
            current: Some(SEEN.into()),
            change: Some(Difference {
                class: Class::Narrower,
                lines: vec![],
            }),
            changed_at: Some(7),
            on_before: None,
        };
        let other = Declaration {
            name: "other".into(),
            ..Declaration::default()
        };
        (vec![other, row], vec![pin])
    }

    #[test]
    fn an_accepted_tool_is_on_and_reviewed_and_as_restricted_as_it_was() {
        let shown = serde_json::from_str(r#"{ "v":2,"name":"a"}"#).unwrap();
        for seen in [None, Some(crate::catalog::definition_hash(shown))] {
            let (mut rows, mut pins) = waiting();
            review("mcp_s_a", &Decision::Accept { seen }, &mut rows, &mut pins).unwrap();
            let (before, pins_before) = waiting();
            let expect = Declaration {
                enabled: true,
                visible: true,
                mcp_tool_status: None,
                ..before[1].clone()
            };
            assert_eq!(rows, [before[0].clone(), expect]);
            let expect = Pin {
                reviewed: Some(SEEN.into()),
                change: None,
                ..pins_before[0].clone()
            };
            assert_eq!(pins, [expect]);
            assert!(pins[0].is_reviewed());
        }
        let (mut rows, mut pins) = waiting();
        rows[1].restricted = false;
        review(
            "mcp_s_a",
            &Decision::Accept { seen: None },
            &mut rows,
            &mut pins,
        )
        .unwrap();
        assert!(!rows[1].restricted);
    }

    #[test]
    fn a_rejected_tool_stays_off_and_its_difference_is_not_shown_again() {
        for status in ToolStatus::ALL {
            let (mut rows, mut pins) = waiting();
            rows[1].mcp_tool_status = Some(status);
            rows[1].locked = true;
            rows[1].enabled = true;
            rows[1].visible = true;
            review("mcp_s_a", &Decision::Reject, &mut rows, &mut pins).unwrap();
            let (before, pins_before) = waiting();
            let expect = Declaration {
                locked: true,
                mcp_tool_status: Some(status),
                ..before[1].clone()
            };
            assert_eq!(rows[1], expect);
            assert_eq!(
                pins,
                [Pin {
                    change: None,
                    ..pins_before[0].clone()
                }]
            );
        }
    }

    #[test]
    fn what_cannot_be_accepted_stays_as_it_is() {
        let check = |change: &dyn Fn(&mut Declaration), seen: Option<&str>, expect: &str| {
            let (mut rows, mut pins) = waiting();
            change(&mut rows[1]);
            let before = (rows.clone(), pins.clone());
            let accept = Decision::Accept {
                seen: seen.map(str::to_owned),
            };
            let refused = review("mcp_s_a", &accept, &mut rows, &mut pins).unwrap_err();
            assert!(refused.to_string().contains(expect), "{refused}");
            assert_eq!((rows, pins), before);
        };
        check(&|row| row.locked = true, None, "locked");
        check(
            &|row| row.mcp_tool_status = Some(ToolStatus::Removed),
            None,
            "not listed",
        );
        check(&|_| (), Some("0"), "changed since");
        check(
            &|row| row.name = "b".into(),
            None,
            "no tool `mcp_s_a` waits",
        );
        let (mut rows, _) = waiting();
        let refused = review("mcp_s_a", &Decision::Reject, &mut rows, &mut []);
        assert_eq!(refused, Err(ReviewError::Unknown("mcp_s_a".into())));
        let (mut rows, mut pins) = waiting();
        pins[0].current = None;
        let accept = Decision::Accept {
            seen: Some("0".into()),
        };
        assert_eq!(
            review("mcp_s_a", &accept, &mut rows, &mut pins),
            Err(ReviewError::Outdated("mcp_s_a".into()))
        );
    }
}
