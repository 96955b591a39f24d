//! Requests that wait for their reply on a shared stream.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use tokio::sync::oneshot;

use crate::lock;
use crate::rpc::{self, Incoming, Reply};

/// Those who wait; none once the stream has ended.
pub(super) struct Pending(Mutex<Option<Waiting>>);

#[derive(Default)]
struct Waiting {
    by_id: HashMap<u64, oneshot::Sender<Reply>>,
    /// What was told since the last reply.
    notes: Vec<Bytes>,
}

impl Pending {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Some(Waiting::default()))))
    }

    pub(super) fn expect(&self, id: u64) -> Result<oneshot::Receiver<Reply>> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = lock(&self.0);
        let waiting = waiting
            .as_mut()
            .context("the server closed the connection")?;
        waiting.by_id.insert(id, sender);
        Ok(receiver)
    }

    /// Hands a message to who waits for it. Requests are not answered: a client under load has nothing to offer a server
    /// that asks.
    pub(super) fn deliver(&self, body: Bytes) -> Result<()> {
        let message = rpc::read(body)?;
        let mut waiting = lock(&self.0);
        let Some(waiting) = waiting.as_mut() else {
            return Ok(());
        };
        match message {
            Incoming::Reply { id, mut reply } => {
                reply.notes = std::mem::take(&mut waiting.notes);
                if let Some(waiter) = waiting.by_id.remove(&id) {
                    // Who has timed out meanwhile does not hear it.
                    waiter.send(reply).ok();
                }
            }
            Incoming::Notification(note) => waiting.notes.push(note),
            Incoming::Request { .. } => {}
        }
        Ok(())
    }

    /// Fails every waiting and later request.
    pub(super) fn end(&self) {
        lock(&self.0).take();
    }
}
