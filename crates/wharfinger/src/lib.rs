//! Wharfinger runs MCP servers on behalf of AI agents.
//!
//! A program that embeds it opens a [`Wharf`] with a [`config::Config`], begins a [`Session`] for an agent, lists the
//! tools of all its servers, and calls them. Servers start with their first call and stop when idle.
//!
//! ```no_run
//! use serde_json::json;
//! use wharfinger::config::{File, Inputs, load};
//! use wharfinger::model::SessionId;
//! use wharfinger::wire::json::raw;
//! use wharfinger::{Options, SessionOptions, ToolCall, Wharf};
//!
//! # async fn embed(folder: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
//! let environment: std::collections::BTreeMap<_, _> = std::env::vars().collect();
//! let settings = File {
//!     name: "settings.json".into(),
//!     text: r#"{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}"#.into(),
//! };
//! let loaded = load(&Inputs {
//!     settings: Some(settings),
//!     environment: environment.clone(),
//!     ..Inputs::default()
//! });
//! for problem in &loaded.problems {
//!     eprintln!("{problem}");
//! }
//! let wharf = Wharf::open(Options::in_folder(folder, loaded, environment)).await?;
//!
//! let options = SessionOptions::new(wharf.agent("default")?, SessionId::new("chat-1")?);
//! let session = wharf.session(options);
//! // The list for the model; nothing is started where the servers were listed before.
//! println!("{}", session.tools().await.list);
//! let params = raw(&json!({"name": "get_current_time", "arguments": {"timezone": "UTC"}}));
//! let call = ToolCall::new("get_current_time", &params);
//! println!("{}", session.call(call, |_| ()).await?);
//!
//! // No process is left after this.
//! wharf.shut_down().await;
//! # Ok(())
//! # }
//! ```
//!
//! Two examples in this crate run: `embed` is the program above with its errors told, and `chat` is a host with
//! sections for the prompt, built-in tools, questions of servers, and `/mcp`, `/stop`, `/new` and `/resume`.
//! `docs/library.md` tells what to know beyond the types.
//!
//! The library prints nothing, reads no environment variable and no home folder, and installs no handler: it gets
//! paths, variables and limits from whoever embeds it.
//!
//! # The map
//!
//! Two stories, each a file that reads from top to bottom as the rooms it passes: [`call`], a tool call, and
//! [`change`], a change of configuration. The rooms do not know each other, but for the stair `servers → launch →
//! vault`; every room may use [`model`].
//!
//! | room | owns |
//! |---|---|
//! | [`model`] | names, values, states |
//! | [`clients`] | the files of MCP clients, and our entry in them |
//! | [`config`] | sources, presets, validation, differences, edits |
//! | [`catalog`] | tools and the names agents see |
//! | [`policy`] | what an entry and a profile decide together |
//! | [`approvals`] | calls that wait for a person |
//! | [`servers`] | one actor an instance: starting, calls, stopping |
//! | [`launch`] | processes, their environment, their end |
//! | [`vault`] | sealed secrets, which values are secret, and keeping them in |
//! | [`journal`] | the database, what was done, and the events |
//! | [`agentfile`] | the agent's `.adf` file |
//! | [`doctor`] | known failures: how they look, why, the way out |
//! | [`manage`] | tools with which an agent manages itself |
//! | [`registry`] | servers that are known, and the entries made from them |

#![deny(missing_docs)]

mod active;
mod agent;
pub mod agentfile;
mod agentlog;
mod agents;
pub mod approvals;
mod bound;
pub mod call;
pub mod catalog;
pub mod change;
pub mod clients;
pub mod config;
mod conversation;
mod decide;
mod declare;
mod desk;
mod diagnosis;
mod discover;
pub mod doctor;
mod exchange;
mod gate;
mod gated;
mod halt;
pub mod import;
mod installed;
mod instances;
pub mod journal;
mod kept;
mod keys;
mod known;
pub mod launch;
mod links;
mod log;
pub mod manage;
pub mod model;
mod own;
mod packages;
pub mod policy;
mod record;
mod refresh;
pub mod registry;
mod report;
mod request;
mod rights;
mod secrets;
pub mod servers;
mod session;
mod subscriptions;
mod target;
mod tasks;
mod tell;
mod tools;
mod trial;
mod upgrade;
pub mod vault;
mod waiting;
mod wharf;

pub use agents::{AgentError, AgentState, AttachedServer};
pub use call::{CallNote, Refusal, Target, ToolCall};
pub use change::{Change, Connect};
pub use decide::{Decider, DecisionError};
pub use desk::{Approver, Deciding};
pub use diagnosis::{Trial, TrialStep, programs};
pub use halt::HaltError;
pub use log::{LogEntry, LogLevel, LogStream, Logged};
pub use packages::{Installing, LIMIT as INSTALL_LIMIT, PackageError, PackageReport};
pub use report::{Details, Report, ToolReport};
pub use request::Request;
pub use secrets::{SecretChange, SecretError, SecretReport, Secrets, VaultReport};
pub use session::{Session, SessionNote, SessionOptions};
pub use subscriptions::Watch;
pub use tools::{AgentSettings, AgentTool, Definitions, ServerSettings, Switches, Which};
pub use trial::Connected;
pub use upgrade::{ChangedTool, Outdated, Upgrade};
pub use wharf::{OpenError, Options, Wharf};
/// MCP on the wire: raw JSON ([`wire::json`]) and the protocol's errors ([`wire::message`]), in which calls, results
/// and answers are told.
pub use wharfinger_wire as wire;
