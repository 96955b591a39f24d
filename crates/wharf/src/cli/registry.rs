//! `wharf search` and `registry`.

use clap::{Args, Subcommand};

/// Look for servers: in the list of known ones, and in the official registry
///
/// Those of the list were tried with this program, or come from the list that `daemon.registryUrl` names. In the official
/// registry anybody can publish. `wharf add NAME` adds either.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wharf search github
  wharf search web search --offline")]
pub(crate) struct Search {
    /// What to look for
    #[arg(value_name = "WORD", required = true)]
    pub(crate) words: Vec<String>,
    /// Look in the list alone, and ask nobody
    #[arg(long)]
    pub(crate) offline: bool,
}

/// Show the list of known servers; needs no daemon
#[derive(Debug, Subcommand)]
pub(crate) enum Registry {
    /// List them, with what each needs
    List,
    /// Show one in full, by its name, package or address
    Show(ShowKnown),
    /// Fetch the list anew from where `daemon.registryUrl` says (needs the daemon)
    Refresh,
}

#[derive(Args, Debug)]
pub(crate) struct ShowKnown {
    /// The server
    pub(crate) name: String,
}
