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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ToolStatus;

    /// Flags as letters; `c` is changed, `g` gone, `n` new.
    fn rows(all: &[&str]) -> Vec<Declaration> {
        let row = |(index, flags): (usize, &&str)| Declaration {
            name: index.to_string(),
            enabled: flags.contains('e'),
            visible: flags.contains('v'),
            restricted: flags.contains('r'),
            locked: flags.contains('l'),
            mcp_tool_hash: None,
            mcp_tool_status: match flags.chars().last() {
                Some('c') => Some(ToolStatus::Changed),
                Some('g') => Some(ToolStatus::Removed),
                Some('n') => Some(ToolStatus::New),
                _ => None,
            },
        };
        all.iter().enumerate().map(row).collect()
    }

    #[test]
    fn a160_a_switch_moves_all_that_it_may() {
        let before = [
            "", "ev", "evr", "e", "evrl", "r", "c", "evrg", "evn", "evrn",
        ];
        let check = |flag, on, expect: &[(usize, &str)]| {
            let mut wanted = vec![];
            for (index, flags) in expect {
                let mut row = rows(&[flags]).remove(0);
                row.name = index.to_string();
                wanted.push(row);
            }
            assert_eq!(bulk(&rows(&before), flag, on), wanted, "{flag:?} {on}");
        };
        check(
            Flag::Restricted,
            true,
            &[(0, "r"), (1, "evr"), (3, "er"), (6, "rc"), (8, "evrn")],
        );
        check(Flag::Restricted, false, &[(2, "ev"), (5, ""), (9, "evn")]);
        check(Flag::Visible, true, &[(3, "ev")]);
        check(
            Flag::Visible,
            false,
            &[(1, "e"), (2, "er"), (7, "erg"), (8, "en"), (9, "ern")],
        );
        check(Flag::Enabled, true, &[(0, "ev"), (3, "ev"), (5, "evr")]);
        check(
            Flag::Enabled,
            false,
            &[
                (1, "v"),
                (2, "vr"),
                (3, ""),
                (7, "vrg"),
                (8, "vn"),
                (9, "vrn"),
            ],
        );
    }

    #[test]
    fn a160_a_switch_shows_how_it_stands() {
        use Tri::{Mixed, Nothing, Off, On};
        let check = |all: &[&str], expect: [Tri; 3]| {
            let rows = rows(all);
            let flags = [Flag::Restricted, Flag::Visible, Flag::Enabled];
            assert_eq!(flags.map(|flag| tri_state(&rows, flag)), expect, "{all:?}");
        };
        check(&[], [Nothing; 3]);
        check(&["evrl", "l"], [Nothing; 3]);
        check(&["evr", "evr", "l"], [On; 3]);
        check(&["evr", "e"], [Mixed, Mixed, On]);
        check(&["e", "evr"], [Mixed, Mixed, On]);
        check(&["", "v"], [Off, Nothing, Off]);
        check(&["r", "ev"], [Mixed, On, Mixed]);
        check(&["e", "v"], [Off, Off, Mixed]);
        check(&["c", "er"], [Mixed, Off, Mixed]);
    }
}
