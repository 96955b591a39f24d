//! `wharf secret`: its words.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Keep the keys of servers sealed, and out of settings.json
///
/// A server's entry says where a key goes: `"env": {"GITHUB_TOKEN": "${secret:GITHUB_TOKEN}"}`, or `${secret:KEY?}`
/// where the variable is left out as long as the key is not set. `wharf add … --env GITHUB_TOKEN` writes that. The value
/// is sealed here, reaches that server alone when it starts, and is shown by no command.
///
/// An agent may have a value of its own, which takes the place of the one for all.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  wharf secret set github GITHUB_TOKEN            asks for it
  pass show github | wharf secret set github GITHUB_TOKEN
  wharf secret set github GITHUB_TOKEN --agent bot
  wharf secret list                               which are set, and which are needed")]
pub(crate) enum Secret {
    Set(SetSecret),
    List(ListSecrets),
    Remove(RemoveSecret),
    Import(ImportSecrets),
    /// Open the vault with its passphrase, or look for its key once more
    ///
    /// Asks for the passphrase, or reads it from standard input. Where there is no vault yet, the new one is put under
    /// it. A vault whose key is in the keyring or in a file needs none: then this looks whether it is there now.
    Unlock,
}

/// Set a key of a server
///
/// Asks for the value on a terminal, without showing it; else reads it from standard input. One line end after it is
/// dropped. The server need not be registered yet. Processes that run keep what they have until `wharf restart`.
#[derive(Args, Debug)]
pub(crate) struct SetSecret {
    /// The server
    pub(crate) server: String,
    /// Which of its keys
    pub(crate) key: String,
    /// For this agent alone, which gets the server with it
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Take the value from this file
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// List the keys that are set and those that servers need
#[derive(Args, Debug)]
pub(crate) struct ListSecrets {
    /// Only of this server
    pub(crate) server: Option<String>,
}

/// Move secrets that stand plain in settings.json into the vault
///
/// Shows what it would take, by the names of variables and headers and by the looks of their values, and asks. Each
/// leaves `${secret:KEY}` in its place; the rest of the file, comments too, stays as it is. Other clients' files are for
/// `wharf import`.
#[derive(Args, Debug)]
pub(crate) struct ImportSecrets {
    /// Do it without asking
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Remove a key of a server
///
/// An agent that has no key of the server left loses the server with it.
#[derive(Args, Debug)]
pub(crate) struct RemoveSecret {
    /// The server
    pub(crate) server: String,
    /// Which of its keys
    pub(crate) key: String,
    /// The one of this agent
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
}
