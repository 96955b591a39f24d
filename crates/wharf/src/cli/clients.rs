//! Other programs that speak MCP: what they have, and our entry in them.

use std::path::PathBuf;

use clap::Args;

/// List the MCP clients of this machine, and whether they are connected
///
/// For each that is found: its file, whether our entry is in it, and how many other servers it has. Nothing is changed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wharf clients              those that are found here
  wharf clients --all        every client that is known, with where its file would be")]
pub(crate) struct Clients {
    /// Also those that are not found here
    #[arg(long)]
    pub(crate) all: bool,
}

/// Take over the servers that an MCP client has
///
/// Shows what would be taken before anything is done, and starts nothing until then. Secrets in variables and headers
/// move into the vault; the entry keeps a reference. A server that is here already is skipped, one whose name is taken
/// by another gets a number, and what is switched off stays so. The client's file is only read.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wharf import                          from every client that is found
  wharf import claude-code --dry-run    what it would take from one
  wharf import cursor --only github     one server
  wharf import ./mcp.json --yes         a file, without asking")]
pub(crate) struct Import {
    /// A client, as `wharf clients` names it, or a file of one [default: every client that is found]
    #[arg(value_name = "CLIENT|FILE")]
    pub(crate) from: Option<String>,
    /// Only the server of this name. May be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Vec<String>,
    /// Leave a server whose name is taken by another one, instead of giving it a number
    #[arg(long)]
    pub(crate) skip_conflicts: bool,
    /// Show what would be taken, and take nothing
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// Write our entry into an MCP client's configuration
///
/// One entry, `wharf`, that starts `wharf stdio`. What would change is shown first; everything else in the file stays
/// byte for byte, and the file as it was is kept beside it as `NAME.wharf-backup`. Doing it again changes nothing.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wharf connect claude-code               as the agent `default`
  wharf connect cursor --agent bot        as another agent
  wharf connect vscode --project .        for one project
  wharf connect --all --dry-run           what it would write, for every client that is found")]
pub(crate) struct Connect {
    #[command(flatten)]
    pub(crate) which: Which,
    /// As this agent
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) agent: String,
    /// Write the address and the agent's token instead of a command; the token can then be read in that file
    #[arg(long)]
    pub(crate) http: bool,
    /// Show what would be written, and write nothing
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// Take our entry out of an MCP client's configuration
///
/// If nothing else has changed in the file since `wharf connect`, it becomes again what it was, byte for byte.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wharf disconnect claude-code
  wharf disconnect vscode --project .
  wharf disconnect --all")]
pub(crate) struct Disconnect {
    #[command(flatten)]
    pub(crate) which: Which,
    /// Show what would be taken out, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

// No doc comment on what is shared by commands: it would become the help of each.
#[derive(Args, Debug)]
pub(crate) struct Which {
    /// The client, as `wharf clients --all` names it
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub(crate) client: Option<String>,
    /// Every client that is found
    #[arg(long)]
    pub(crate) all: bool,
    /// The client's file of this project, instead of the one for all of them
    #[arg(long, value_name = "DIR")]
    pub(crate) project: Option<PathBuf>,
}
