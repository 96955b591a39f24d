//! The era of the client times the era of the server. The same suite passes as a whole against the
//! fixture alone, so whatever fails in a cell is the daemon's, or can't be had across the eras.

use std::collections::BTreeSet;

use crate::expected;
use crate::forwarder::Forwarder;
use crate::started::{BareFixture, Daemon};
use crate::suite::{HANDSHAKE, Requirements, STATELESS, Suite};

#[test]
fn fixture_of_the_handshake_era_alone() {
    alone(HANDSHAKE, "handshake");
}

#[test]
fn fixture_of_the_stateless_era_alone() {
    alone(STATELESS, "stateless");
}

#[test]
fn handshake_client_handshake_server() {
    cell(HANDSHAKE, "handshake", "handshake-handshake", 80);
}

#[test]
fn handshake_client_stateless_server() {
    cell(HANDSHAKE, "stateless", "handshake-stateless", 80);
}

#[test]
fn stateless_client_handshake_server() {
    cell(STATELESS, "handshake", "stateless-handshake", 166);
}

#[test]
fn stateless_client_stateless_server() {
    cell(STATELESS, "stateless", "stateless-stateless", 196);
}

fn alone(requirements: Requirements, era: &str) {
    let Some(suite) = Suite::find() else { return };
    let fixture = BareFixture::start(era);
    let passed = suite.check(fixture.url(), requirements, &BTreeSet::new());
    assert_eq!(passed, requirements.checks);
}

/// The suite says nothing of checks that it does not come to, hence how many are to pass. Even if
/// all do, they are fewer than of the fixture alone: the daemon answers in one piece where it can,
/// and the checks of streams look at streams only.
fn cell(requirements: Requirements, era: &str, expected: &str, passing: usize) {
    let Some(suite) = Suite::find() else { return };
    let daemon = Daemon::with_fixture(era);
    let endpoint = daemon.endpoint();
    let forwarder = Forwarder::start(&endpoint.address, &endpoint.token);
    let url = forwarder.url(&endpoint.path);
    let passed = suite.check(&url, requirements, &expected::read(expected));
    assert_eq!(passed, passing, "other checks passed than before");
}
