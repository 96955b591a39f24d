//! A stdio server shared by all callers: ids are replaced on the way in and put back on the way out.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::process::Stdio;
use std::rc::Rc;

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, Command};
use tokio::sync::{Mutex, oneshot};

pub(crate) struct Upstream {
    input: Mutex<ChildStdin>,
    /// By the id used upstream: the caller's id, and the caller.
    waiting: RefCell<HashMap<u64, (String, oneshot::Sender<String>)>>,
    next: Cell<u64>,
}

#[derive(Deserialize)]
struct Passed<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

impl Upstream {
    /// Must be called inside a `LocalSet`, where the reader then runs.
    pub(crate) fn start(command: &[String]) -> Result<Rc<Self>> {
        let (program, arguments) = command.split_first().context("an empty command")?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let input = child.stdin.take().context("no standard input")?;
        let output = child.stdout.take().context("no standard output")?;
        let upstream = Rc::new(Self {
            input: input.into(),
            waiting: RefCell::default(),
            next: Cell::new(1),
        });
        let reader = upstream.clone();
        tokio::task::spawn_local(async move {
            let _child = child;
            let mut output = BufReader::with_capacity(256 << 10, output);
            let mut line = Vec::new();
            while matches!(output.read_until(b'\n', &mut line).await, Ok(n) if n > 0) {
                reader.deliver(&line);
                line.clear();
            }
            reader.waiting.borrow_mut().clear();
        });
        Ok(upstream)
    }

    fn deliver(&self, line: &[u8]) -> Option<()> {
        let reply: Passed<'_> = serde_json::from_slice(line).ok()?;
        let number = reply.id.get().parse().ok()?;
        let (id, waiter) = self.waiting.borrow_mut().remove(&number)?;
        let result = reply.result.map(|result| ("result", result));
        let (member, value) = result.or(reply.error.map(|error| ("error", error)))?;
        let reply = format!(r#"{{"jsonrpc":"2.0","id":{id},"{member}":{value}}}"#);
        waiter.send(reply).ok()
    }

    pub(crate) async fn ask(&self, body: &[u8]) -> Result<String> {
        let request: Passed<'_> = serde_json::from_slice(body)?;
        let method = request.method.context("not a request")?;
        let params = request.params.map_or("{}", RawValue::get);
        let id = self.next.replace(self.next.get() + 1);
        let (sender, reply) = oneshot::channel();
        let caller = (request.id.get().to_owned(), sender);
        self.waiting.borrow_mut().insert(id, caller);
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":{method},\"params\":{params}}}\n"
        );
        self.input.lock().await.write_all(line.as_bytes()).await?;
        Ok(reply.await?)
    }
}
