//! The daemon: one process a home, that owns all servers and opens the doors to them over HTTP.
//!
//! - [`serve`]: from a home folder to a running daemon, and back to nothing left.
//! - `gateway`: the MCP endpoint of each agent, over HTTP and over `wharf stdio`.
//! - `api`: the admin API under `/api`.
//! - [`client`]: a client of that API.
//! - [`doctor`]: looks at the machine and the home, also where no daemon runs.

#![deny(missing_docs)]

mod api;
pub mod client;
pub mod doctor;
mod gateway;
mod home;
mod http;
mod registry;
mod serve;
mod settings;

pub use api::openapi;
pub use home::{Home, HomeError};
pub use registry::{known_server, known_servers, search_known_servers};
pub use serve::{Options, Ready, ServeError, serve};
