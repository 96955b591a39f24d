//! The doors over HTTP.

pub mod client;
