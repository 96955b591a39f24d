//! `wharf search`, `registry` and `test`, and what `add` takes for a server that is known.

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

/// Test the connection to a server: start it once, as for its first listing, and say how that went
///
/// Its processes that run are left alone. Says how long each step took and what it offers, or what it wrote to standard
/// error. A server that was never connected to is `not verified` until this works, or until an agent has listed it.
#[derive(Args, Debug)]
pub(crate) struct Test {
    /// The server
    pub(crate) name: String,
}

/// Options of `wharf add NAME` where NAME is a known server.
#[derive(Args, Debug)]
#[command(next_help_heading = "Options for known servers")]
pub(crate) struct Known {
    /// What to call the server [default: its name in the list]
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) called: Option<String>,
    /// Fill in a part of its arguments. May be repeated
    #[arg(long = "arg", value_name = "PART=VALUE", value_parser = super::argument)]
    pub(crate) args: Vec<(String, String)>,
    /// Read a credential from a file, or from standard input where FILE is `-`. May be repeated
    #[arg(long, value_name = "KEY=FILE", value_parser = secret_file)]
    pub(crate) secret_file: Vec<(String, String)>,
    /// Save it without connecting to it
    #[arg(long)]
    pub(crate) no_connect: bool,
    /// Add it although it should not be installed any more
    #[arg(long)]
    pub(crate) deprecated: bool,
    /// Where it runs; containers come later
    #[arg(long, value_name = "WHERE", value_parser = ["host", "container"])]
    pub(crate) location: Option<String>,
}

fn secret_file(text: &str) -> Result<(String, String), String> {
    super::pair(text).ok_or_else(|| "expected KEY=FILE, for example `API_KEY=key.txt`".to_owned())
}
