//! Bounds on what servers and clients can make us hold.

use std::time::Duration;

/// Every limit has a default, given with each, and an option under `daemon` in `config.json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest line a server may send, in bytes: 64 MiB. A longer reply is an error of its call.
    pub line_bytes: usize,
    /// Largest request body and line of a client, in bytes: 64 MiB.
    pub body_bytes: usize,
    /// Pages of one `tools/list` that are read: 1000.
    pub list_pages: usize,
    /// Tools of one server that are kept: 10 000.
    pub tools: usize,
    /// Lines of standard error kept for each server: 500.
    pub stderr_lines: usize,
    /// Bytes of one line of standard error that are kept: 8 KiB.
    pub stderr_line_bytes: usize,
    /// Calls of one instance that may wait for their turn: 256. One more is refused.
    pub queued_calls: usize,
    /// Requests of one session that may run at once: 256.
    pub session_requests: usize,
    /// Sessions of one agent that may be open at once: 1000.
    pub sessions: usize,
    /// How long a `tools/list` waits for servers that were never listed: 10 s.
    pub list_wait: Duration,
    /// How long a server's question waits for its client's answer, and an answer that asks for input for its client:
    /// 600 s.
    pub input_wait: Duration,
    /// How long a call may wait for its approval: 86 400 s, a day.
    pub approval_life: Duration,
    /// How long a client whose own patience is not known waits for an approval before it is answered that the call
    /// waits: 100 s.
    pub approval_patience: Duration,
    /// A session without a request or an open stream for this long is ended: 3600 s.
    pub session_idle: Duration,
    /// After closing its input, how long a server may take to exit: 5 s.
    pub exit_wait: Duration,
    /// After SIGTERM, how long before SIGKILL: 2 s.
    pub term_wait: Duration,
    /// How long a server that does not answer `server/discover` is waited for before `initialize` is sent as well: 2 s.
    pub probe_wait: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            line_bytes: 64 << 20,
            body_bytes: 64 << 20,
            list_pages: 1000,
            tools: 10_000,
            stderr_lines: 500,
            stderr_line_bytes: 8 << 10,
            queued_calls: 256,
            session_requests: 256,
            sessions: 1000,
            list_wait: Duration::from_secs(10),
            input_wait: Duration::from_secs(600),
            approval_life: Duration::from_secs(86_400),
            approval_patience: Duration::from_secs(100),
            session_idle: Duration::from_secs(3600),
            exit_wait: Duration::from_secs(5),
            term_wait: Duration::from_secs(2),
            probe_wait: Duration::from_secs(2),
        }
    }
}
