//! Arguments of commands about packages.

use clap::Args;

/// What `wharf add` takes in place of a command.
#[derive(Args, Debug, Default)]
pub(crate) struct OfPackage {
    /// Install this package of npm and run it; what stands after `--` are its arguments
    #[arg(long, value_name = "PACKAGE[@VERSION]", conflicts_with_all = ["pypi", "entry"])]
    pub(crate) npm: Option<String>,
    /// Install this package of Python's index and run it
    #[arg(long, value_name = "PACKAGE[==VERSION]", conflicts_with = "entry")]
    pub(crate) pypi: Option<String>,
    /// Requirement beside a package of Python, `mcp<2` say. May be repeated
    #[arg(long, value_name = "REQUIREMENT", requires = "pypi")]
    pub(crate) with: Vec<String>,
    /// Let scripts of the package and of what it needs run while it is installed
    #[arg(long)]
    pub(crate) allow_scripts: bool,
}

/// Install the package of a server, or of all of them
///
/// A package that is installed is left alone. One that `mcp.lock` has is installed exactly so again; any other is
/// resolved, installed and locked. What was in force stays so until an install is whole.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wharf install memory
  wharf install --all --frozen      exactly what mcp.lock has, and nothing else")]
pub(crate) struct Install {
    /// The server
    #[arg(required_unless_present = "all")]
    pub(crate) name: Option<String>,
    /// Every server that is a package
    #[arg(long, conflicts_with = "name")]
    pub(crate) all: bool,
    /// Refuse what is not in mcp.lock
    #[arg(long)]
    pub(crate) frozen: bool,
    /// Limit for each package
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub(crate) timeout: u64,
}

/// List installed packages that there is a newer version of
#[derive(Args, Debug)]
pub(crate) struct Outdated {
    /// Limit for each package
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub(crate) timeout: u64,
}

/// Go to another version of a server's package, or back
///
/// The other version is installed beside the one in force and started for a moment, and how its tools differ is shown.
/// Nothing changes before you say yes; the version before is kept, for `--back`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wharf upgrade memory                    to the newest version
  wharf upgrade memory --to 2026.8.31
  wharf upgrade memory --back")]
pub(crate) struct Upgrade {
    /// The server
    pub(crate) name: String,
    /// To this version [default: the newest]
    #[arg(long, value_name = "VERSION")]
    pub(crate) to: Option<String>,
    /// Don't ask
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Back to the version before the last upgrade
    #[arg(long, conflicts_with = "to")]
    pub(crate) back: bool,
    /// Limit for the install
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub(crate) timeout: u64,
}

/// Remove a server from `settings.json` and stop its processes
///
/// In a terminal it asks whether the install of its package goes too, if no other server uses it.
#[derive(Args, Debug)]
pub(crate) struct Remove {
    /// The server
    pub(crate) name: String,
    /// Remove the install of its package too, unless another server uses it
    #[arg(long, conflicts_with = "keep")]
    pub(crate) uninstall: bool,
    /// Keep the install of its package
    #[arg(long)]
    pub(crate) keep: bool,
}
