//! The table: every failure that is known, by group. A symptom is compared with them in this order, and the first one
//! that it looks like is what it is taken for, so what is told apart by more stands before what is told apart by less.
//!
//! What servers print is quoted from servers and installers as they are; tests hold each row to what it was made from.

mod demands;
mod machine;
mod packages;
mod programs;
mod protocol;
mod secrets;

use super::Failure;

/// All rows, and the order in which they are looked at.
pub const TABLE: &[&[Failure]] = &[
    secrets::ROWS,
    programs::ROWS,
    packages::ROWS,
    demands::ROWS,
    protocol::ROWS,
    machine::ROWS,
];

/// Groups by what their codes begin with, for the page.
pub(super) const GROUPS: &[(&str, &str)] = &[
    ("WF-0", "The machine and the daemon"),
    ("WF-1", "Programs that servers need"),
    ("WF-2", "Packages and the network"),
    ("WF-3", "What servers ask for, and how they end"),
    ("WF-4", "The protocol"),
    ("WF-5", "Keys and the vault"),
];

/// The row of a code.
///
/// # Panics
/// When the table has no such row.
pub(super) fn row(code: &str) -> &'static Failure {
    let mut rows = TABLE.iter().flat_map(|group| group.iter());
    rows.find(|row| row.code == code)
        .unwrap_or_else(|| panic!("the table has no {code}"))
}

#[cfg(test)]
mod tests;
