//! A server on the standard input and output of a process of its own.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::pending::Pending;

pub(super) struct StdioLink {
    pub(super) pending: Arc<Pending>,
    child: Child,
    input: Mutex<ChildStdin>,
    /// The one that reads; ends with this value.
    _reader: JoinSet<()>,
}

impl StdioLink {
    #[expect(
        clippy::disallowed_methods,
        reason = "a client starts the server it talks to, and ends it"
    )]
    pub(super) fn start(words: &[String], show_stderr: bool) -> Result<Self> {
        let (program, arguments) = words.split_first().context("an empty command")?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(if show_stderr {
                Stdio::inherit()
            } else {
                Stdio::null()
            })
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {program}"))?;
        let input = child.stdin.take().context("no standard input")?;
        let output = child.stdout.take().context("no standard output")?;
        let pending = Pending::new();
        let mut reader = JoinSet::new();
        reader.spawn(read(output, pending.clone()));
        Ok(Self {
            pending,
            child,
            input: input.into(),
            _reader: reader,
        })
    }

    pub(super) async fn send(&self, message: &str) -> Result<()> {
        let mut line = Vec::with_capacity(message.len() + 1);
        line.extend_from_slice(message.as_bytes());
        line.push(b'\n');
        let mut input = self.input.lock().await;
        input
            .write_all(&line)
            .await
            .context("the server closed its input")
    }

    /// Closes its input, and ends it if that does not.
    pub(super) async fn close(mut self) {
        drop(self.input);
        if timeout(Duration::from_secs(2), self.child.wait())
            .await
            .is_err()
        {
            self.child.kill().await.ok();
        }
    }
}

async fn read(output: ChildStdout, pending: Arc<Pending>) {
    let mut output = BufReader::with_capacity(256 << 10, output);
    let mut line = Vec::new();
    while matches!(output.read_until(b'\n', &mut line).await, Ok(n) if n > 0) {
        // What is no message is noise of the server's; its request then fails for want of a reply.
        pending.deliver(Bytes::from(std::mem::take(&mut line))).ok();
    }
    pending.end();
}
