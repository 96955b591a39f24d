//! A stdio MCP server that misbehaves on request, for tests.
//!
//! Arguments are modes, `mode` or `mode=value`, and they combine; `modes.rs` lists them all.
//! Without any it is a small, well-behaved server of the handshake protocols with the tools
//! `work`, `echo`, `env`, `cwd` and `pid`. Plain threads and blocking reads: it starts in about a
//! millisecond, so a test may start hundreds.
#![expect(
    clippy::disallowed_methods,
    reason = "a program for tests, which is started alone and starts its own children"
)]

mod call;
mod children;
mod era;
mod handshake;
mod modes;
mod offers;
mod output;
mod server;
mod startup;
mod tools;

use std::io::{BufRead as _, Write as _};
use std::sync::Arc;

use crate::modes::Modes;
use crate::server::Server;

fn main() {
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.next_if(|first| first == "sleeper").is_some() {
        children::sleep_for_ever(arguments);
    }
    let modes = match Modes::read(arguments) {
        Ok(modes) => modes,
        Err(unknown) => {
            complain(&format!("fake-server: unknown mode `{unknown}`"));
            leave(64);
        }
    };
    startup::run(&modes);
    let server = Arc::new(Server::new(modes));
    read_lines(&server);
    startup::end_of_input(server.modes());
}

/// Hands over one line after the other until the client closes our input.
fn read_lines(server: &Arc<Server>) {
    let mut input = std::io::stdin().lock();
    let mut line = Vec::new();
    loop {
        line.clear();
        match input.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => server.receive(&line),
        }
    }
}

/// A line for standard error; whoever closed it doesn't want to know.
fn complain(line: &str) {
    drop(writeln!(std::io::stderr(), "{line}"));
}

#[expect(
    clippy::exit,
    reason = "dying without a word is what half of the modes are for"
)]
fn leave(code: i32) -> ! {
    std::process::exit(code)
}
