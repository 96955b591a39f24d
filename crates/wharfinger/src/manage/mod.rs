//! Tools with which an agent manages itself: what they take, what they say, and what they may touch.
//!
//! Pure but for [`fetch`]: configuration comes in as the tree of the agent's file and goes out as a tree or as a list of
//! changes, so that whoever owns the file applies them to what it holds at that moment (A98). Starting servers, sealing
//! credentials, asking a person and keeping files are others' work; here is what they are told to do.
//!
//! | tool | read by | decided by |
//! |---|---|---|
//! | `mcp_install` | [`Install`] | [`plan`], [`host_gate`] |
//! | `mcp_available` | [`Available`] | the list of known servers |
//! | `mcp_restart`, `mcp_uninstall` | [`Restart`], [`Uninstall`] | [`find`], [`remove`] |
//! | `sys_get_config` | [`GetConfig`] | [`tree::read`] |
//! | `sys_update_config` | [`UpdateConfig`] | [`tree::update`] |
//! | `fs_read`, `fs_write` | [`FsRead`], [`FsWrite`] | [`files`] |
//! | `sys_fetch` | [`Fetch`] | [`fetch::Client`] |

mod arguments;
mod definitions;
mod entry;
mod error;
pub mod fetch;
pub mod files;
mod hidden;
mod host;
mod outcome;
mod package;
mod plan;
pub mod tree;

pub use arguments::{
    Action, Attach, Available, CredentialFile, CredentialGet, CredentialSet, Detach, Encoding,
    Fetch, FsRead, FsWrite, GetConfig, HeaderEnv, Install, Kind, Method, PackageNamed, Probe,
    ProbeTarget, Protection, Restart, Section, Uninstall, UpdateConfig, WriteMode,
};
pub use definitions::{
    Declaration, Tool, declaration, default_declarations, definitions, merge_missing,
};
pub use entry::{Removed, Server, find, identity, put, remove};
pub use error::{Complaint, Error};
pub use hidden::without_credentials;
pub use host::{AppCompute, Approved, HostDenied, HostReason, Location, host_gate, suggested};
pub use outcome::{
    AlreadyInstalled, Connection, InstallFailed, Installed, Persisted, Restarted, Uninstalled,
    Updated,
};
pub use package::{check_name, is_sensitive_header, name_for, package_name};
pub use plan::{
    Envelope, NewServer, Plan, Registration, Rerun, SealedFile, SealedValue, Situation, plan,
};
