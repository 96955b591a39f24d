//! One switch for all tools of a server (A160).

use crate::model::Declaration;

/// What is switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// Calls wait for a person. Any tool.
    Restricted,
    /// The model is told of it. Only of tools that are on.
    Visible,
    /// It may be called. Any tool; on also makes it visible.
    Enabled,
}

/// How the switch stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tri {
    /// Every tool that it moves has it.
    On,
    /// None has.
    Off,
    /// Some have.
    Mixed,
    /// It moves no tool, so it should not be offered.
    Nothing,
}

/// The declarations that the switch changes, as they are then. Locked ones stay. What waits for a review is only ever
/// made stricter: a switch for many tools is no review of one.
pub fn bulk(declarations: &[Declaration], flag: Flag, on: bool) -> Vec<Declaration> {
    let loosens = match flag {
        Flag::Restricted => !on,
        Flag::Visible | Flag::Enabled => on,
    };
    let moved = declarations.iter().filter(|declaration| {
        is_eligible(declaration, flag) && !(loosens && declaration.is_pending())
    });
    moved
        .filter_map(|before| {
            let mut after = before.clone();
            match flag {
                Flag::Restricted => after.restricted = on,
                Flag::Visible => after.visible = on,
                Flag::Enabled => {
                    after.enabled = on;
                    after.visible |= on;
                }
            }
            (after != *before).then_some(after)
        })
        .collect()
}

/// How the switch stands for the tools of a server.
pub fn tri_state(declarations: &[Declaration], flag: Flag) -> Tri {
    let mut moved = declarations
        .iter()
        .filter(|declaration| is_eligible(declaration, flag))
        .map(|declaration| match flag {
            Flag::Restricted => declaration.restricted,
            Flag::Visible => declaration.visible,
            Flag::Enabled => declaration.enabled,
        });
    match moved.next() {
        None => Tri::Nothing,
        Some(first) if moved.any(|next| next != first) => Tri::Mixed,
        Some(true) => Tri::On,
        Some(false) => Tri::Off,
    }
}

fn is_eligible(declaration: &Declaration, flag: Flag) -> bool {
    !declaration.locked
        && match flag {
            Flag::Restricted | Flag::Enabled => true,
            Flag::Visible => declaration.enabled,
        }
}
