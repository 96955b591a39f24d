//! `fast-echo`: a minimal, very fast MCP server on stdin/stdout.
//!
//! It exists to be the cheapest possible thing behind a gateway, so that what a benchmark measures is the gateway. It
//! serves the handshake protocol (2024-11-05 to 2025-11-25) and the stateless 2026-07-28 one, told apart by the request's
//! `_meta`.
//!
//! Environment:
//! * `TOOLS=N`           list N tools (padded with `tool_0006`, …, which act like `echo`)
//! * `PREFIX=s01_`       put this before every tool name
//! * `START_DELAY_MS=N`  wait before reading the first message (a server that starts slowly)
//! * `LEGACY=1`          refuse 2026-07-28 requests as an old server would
//! * `STUBBORN=1`        ignore SIGTERM and the end of input (leaves by itself after 120 s)
#![expect(
    clippy::disallowed_methods,
    reason = "a program: the environment says what it is to be"
)]

mod answer;
mod content;
mod message;

use std::env;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::answer::Server;

/// As much as a pipe holds.
const FLUSH_AT: usize = 64 << 10;

/// Whole lines go out under one lock: the main loop shares it with calls that sleep.
#[derive(Clone)]
struct Out(Arc<Mutex<File>>);

impl Out {
    /// False when the reader is gone.
    fn write(&self, lines: &[u8]) -> bool {
        let mut out = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_all(lines).is_ok()
    }
}

fn main() -> std::io::Result<()> {
    let variable = |name: &str| env::var(name).ok();
    let number = |name: &str| variable(name).and_then(|value| value.parse::<u64>().ok());
    let stubborn = variable("STUBBORN").is_some();
    if stubborn {
        // Whoever handles a signal does not end by it.
        signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::default())?;
    }
    if let Some(ms) = number("START_DELAY_MS") {
        thread::sleep(Duration::from_millis(ms.min(60_000)));
    }
    // The standard library's own would look for line ends in all that is written.
    let stdout = File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    let out = Out(Arc::new(Mutex::new(stdout)));
    let tools = number("TOOLS").unwrap_or(0).min(100_000);
    let mut server = Server::new(
        out.clone(),
        variable("PREFIX").unwrap_or_default(),
        usize::try_from(tools).unwrap_or(0),
        variable("LEGACY").is_none(),
    );

    let mut input = BufReader::with_capacity(FLUSH_AT, std::io::stdin().lock());
    let (mut line, mut reply) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        if !matches!(input.read_until(b'\n', &mut line), Ok(n) if n > 0) {
            break;
        }
        server.handle(&line, &mut reply);
        // Answered at once, unless another request is already waiting in the buffer.
        if !reply.is_empty() && (reply.len() >= FLUSH_AT || !input.buffer().contains(&b'\n')) {
            if !out.write(&reply) {
                break;
            }
            reply.clear();
        }
    }
    if stubborn {
        thread::sleep(Duration::from_secs(120));
    }
    Ok(())
}
