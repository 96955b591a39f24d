//! The bodies of the fuzz targets, and what runs them where there is no fuzzer.
//!
//! - [`wire`]: any bytes, read and written by `wharfinger-wire`.
//! - [`endpoint`]: a daemon, and a hostile client of it.
//! - [`corpus`]: committed inputs, and variations of them.
//! - [`dock`]: a daemon in this process, [`client`] and [`http`] to speak to it, and [`mirror`], a server behind it.
//!
//! A body returns normally or panics; the panic says which rule was broken. `cargo fuzz` calls the bodies from the
//! folder `fuzz`, the tests of this crate call them with the corpus.

pub mod client;
pub mod corpus;
pub mod dock;
pub mod endpoint;
pub mod helper;
pub mod http;
pub mod mirror;
pub mod wire;
