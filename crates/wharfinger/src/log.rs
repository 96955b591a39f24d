//! What servers write to standard error, and what they should not have written to standard output: kept, told, logged.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::journal::EventKind;
use crate::model::{ServerName, StderrLevel};
use crate::servers::Lines;
use crate::wharf::{Wharf, lock};

impl Wharf {
    /// Keeps a line of a server's output, tells it, and logs it at the level its entry has (V24).
    pub(crate) fn log(&self, server: &ServerName, line: &str) {
        let line = self.redactor().text(line).into_owned();
        let limit = self.0.context.limits.stderr_lines;
        lock(&self.0.logs)
            .entry(server.clone())
            .or_insert_with(|| Lines::new(limit))
            .push(line.clone());
        let config = self.0.config.load();
        let level = config
            .server(server.as_str())
            .map(|entry| entry.stderr_level);
        if let Some(left_out) = lock(&self.0.pace).entry(server.clone()).or_default().pass() {
            if left_out > 0 {
                tracing::warn!(target: "wharfinger::stderr", %server, "{left_out} lines are left out here");
            }
            log_at(level.unwrap_or_default(), server, &line);
        }
        self.0.events.tell(EventKind::Stderr {
            server: server.clone(),
            line,
        });
    }

    /// The last lines of a server's output over all its instances, redacted.
    pub fn log_tail(&self, server: &str, count: usize) -> Vec<String> {
        lock(&self.0.logs)
            .get(server)
            .map(|lines| lines.tail(count))
            .unwrap_or_default()
    }
}

/// Lines of one server that reach the log: so many a second, the rest is counted.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    second: u64,
    lines: usize,
    left_out: usize,
}

/// A server that floods its standard error must not fill the owner's disk.
const LINES_A_SECOND: usize = 100;

impl Pace {
    /// Whether this line may pass, and how many before it did not.
    fn pass(&mut self) -> Option<usize> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        if now != self.second {
            (self.second, self.lines) = (now, 0);
        }
        self.lines += 1;
        if self.lines > LINES_A_SECOND {
            self.left_out += 1;
            return None;
        }
        Some(std::mem::take(&mut self.left_out))
    }
}

fn log_at(level: StderrLevel, server: &ServerName, line: &str) {
    match level {
        StderrLevel::Trace => tracing::trace!(target: "wharfinger::stderr", %server, "{line}"),
        StderrLevel::Debug => tracing::debug!(target: "wharfinger::stderr", %server, "{line}"),
        StderrLevel::Information => tracing::info!(target: "wharfinger::stderr", %server, "{line}"),
        StderrLevel::Warning => tracing::warn!(target: "wharfinger::stderr", %server, "{line}"),
        StderrLevel::Error | StderrLevel::Critical => {
            tracing::error!(target: "wharfinger::stderr", %server, "{line}");
        }
        StderrLevel::None => {}
    }
}
