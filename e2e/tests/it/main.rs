//! The real daemon, real servers from npm and `PyPI`, real clients, real Chromium.
//!
//! What is real but can't be reached without an account or the internet (models, mostly) is played
//! by the scripts in `../scripts`, on free ports of the loopback interface.
#![expect(clippy::disallowed_methods, reason = "these tests start programs")]
#![expect(clippy::unwrap_used, reason = "everything here is part of a test")]

mod agents;
mod clients;
mod daemon;
mod faithful;
mod http;
mod installed;
mod orphans;
mod packages;
mod playwright;
mod program;
mod servers;
mod site;
mod wired;
