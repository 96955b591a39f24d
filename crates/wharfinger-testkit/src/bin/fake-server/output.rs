//! Standard output: whole messages, one at a time, and the bytes that are no messages.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::sync::Mutex;

use serde_json::{Value, json};

/// Where messages for the client go. Unbuffered: what is written has left when a crash follows.
pub(crate) struct Output {
    stdout: Mutex<File>,
    line_end: &'static str,
}

/// How a reply leaves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Whole,
    Twice,
    InArray,
    /// Half of it, then the end of the process.
    Truncated,
}

impl Output {
    pub(crate) fn new(crlf: bool) -> Self {
        let stdout = std::io::stdout()
            .as_fd()
            .try_clone_to_owned()
            .expect("stdout is open");
        Self {
            stdout: Mutex::new(File::from(stdout)),
            line_end: if crlf { "\r\n" } else { "\n" },
        }
    }

    /// Writes bytes as they are.
    pub(crate) fn raw(&self, bytes: &[u8]) {
        let mut stdout = self.stdout.lock().expect("no writer panics");
        // A client that went away is the client's business; our input will end too.
        drop(stdout.write_all(bytes));
    }

    pub(crate) fn line(&self, message: &str) {
        self.raw(format!("{message}{}", self.line_end).as_bytes());
    }

    pub(crate) fn message(&self, message: &Value) {
        self.line(&message.to_string());
    }

    pub(crate) fn notify(&self, method: &str, params: &Value) {
        self.message(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    pub(crate) fn request(&self, id: &str, method: &str, params: &Value) {
        self.message(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }

    pub(crate) fn result(&self, id: &Value, result: &Value) {
        self.message(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    pub(crate) fn error(&self, id: &Value, code: i64, message: &str) {
        let error = json!({"code": code, "message": message});
        self.message(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
    }

    /// Writes a reply that is already JSON text (or meant not to be).
    pub(crate) fn shaped(&self, reply: &str, shape: Shape) {
        match shape {
            Shape::Whole => self.line(reply),
            Shape::Twice => {
                self.line(reply);
                self.line(reply);
            }
            Shape::InArray => self.line(&format!("[{reply}]")),
            Shape::Truncated => {
                self.raw(&reply.as_bytes()[..reply.len() / 2]);
                crate::leave(3);
            }
        }
    }
}
