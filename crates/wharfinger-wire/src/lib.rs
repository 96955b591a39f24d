//! MCP on the wire, losing nothing.
//!
//! This crate owns how messages of the Model Context Protocol look and travel. Payloads stay raw
//! JSON from the pipe to whoever reads them, so that members, member order and number text that
//! nobody here knows come out as they went in. What a message is for, who may send it and which
//! process is at the other end is left to others.
//!
//! - [`json`]: shallow objects over raw JSON.
//! - [`message`]: the JSON-RPC envelope, its ids and errors.
//! - [`lines`]: one message a line, with a limit.
//! - [`connection`]: the client's side of a server that speaks over two byte streams.
//! - [`era`]: protocol versions, how to begin, and what differs between the two eras.
//! - [`server`]: what somebody who answers requests needs.

#![deny(missing_docs)]

pub mod connection;
pub mod era;
pub mod json;
pub mod lines;
pub mod message;
pub mod server;
