//! `wharf doctor`

use clap::Args;

/// Find out what is wrong, why, and what mends it
///
/// Looks at the machine, the home folder, the configuration and what became of each server, with a daemon or without.
/// With a name, starts that server for a moment and tells how far it comes, in what time, and what it wrote.
///
/// Each finding has a code that `docs/errors.md` explains, a cause, and a command that mends it where one does. Exits
/// with 0 when nothing is wrong, and with 1 when something is.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wharf doctor                what is wrong here
  wharf doctor github         start one server, and see what happens
  wharf doctor --fix          mend what needs no decision: modes of private files, the socket of a dead daemon
  wharf doctor --json         for programs, and for who helps you; no secret is in it")]
pub(crate) struct Doctor {
    /// The server to start for a moment
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Mend what needs no decision of yours
    #[arg(long, conflicts_with = "name")]
    pub(crate) fix: bool,
    /// Print everything that was looked at, also where nothing is wrong
    #[arg(long, conflicts_with = "name")]
    pub(crate) all: bool,
}
