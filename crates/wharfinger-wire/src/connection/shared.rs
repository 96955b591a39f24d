//! What the two tasks and the users of a connection have in common.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::outgoing::Outgoing;
use super::pending::Pending;
use super::{CallError, ENVELOPE, Limits, Peer, SkipReason, Skipped, size};
use crate::json::{self, Object, Raw};
use crate::message::{self, ErrorObject, Id};

/// One connection, without its streams.
pub(super) struct Shared {
    pub(super) pending: Pending,
    pub(super) outgoing: Outgoing,
    pub(super) limits: Limits,
    pub(super) peer: Arc<dyn Peer>,
    pub(super) counts: Counts,
    /// No reply will come any more.
    pub(super) closed: CancellationToken,
    /// The tasks are to end at once.
    pub(super) abandoned: CancellationToken,
}

impl Shared {
    pub(super) fn new(peer: Arc<dyn Peer>, limits: Limits) -> Self {
        Self {
            pending: Pending::new(limits.calls),
            outgoing: Outgoing::new(limits.queue_bytes),
            limits,
            peer,
            counts: Counts::default(),
            closed: CancellationToken::new(),
            abandoned: CancellationToken::new(),
        }
    }

    pub(super) fn close(&self) {
        self.outgoing.close();
        self.end();
    }

    /// Fails the calls that wait and refuses new ones.
    pub(super) fn end(&self) {
        self.pending.close();
        self.closed.cancel();
    }

    /// Answers a request of the server.
    pub(super) fn answer(
        &self,
        id: &Id,
        outcome: &Result<Raw, ErrorObject>,
    ) -> Result<(), CallError> {
        let error;
        let payload: Result<&RawValue, &RawValue> = match outcome {
            Ok(result) => Ok(result),
            Err(object) => {
                error = object.to_raw();
                Err(&error)
            }
        };
        let (Ok(raw) | Err(raw)) = payload;
        let size = ENVELOPE + id.to_string().len() + raw.get().len();
        self.outgoing
            .push(size, |out| message::write_answer(out, Some(id), payload))
            .inspect_err(|_| count(&self.counts.dropped_answers))
    }

    pub(super) fn notify(&self, method: &str, params: Option<&RawValue>) -> Result<(), CallError> {
        let write = |out: &mut Vec<u8>| message::write_notification(out, method, params);
        self.outgoing.push(size(method, params), write)
    }

    /// Tells the server that nobody waits for a call any more. Goes out even when the queue is
    /// full: there are no more of these than there were calls.
    pub(super) fn send_cancelled(&self, number: u64, reason: &str) {
        let mut params = Object::new();
        params.set("requestId", json::raw(&number));
        params.set("reason", json::raw(reason));
        let params = params.to_raw();
        self.outgoing.push_always(|out| {
            message::write_notification(out, "notifications/cancelled", Some(&params));
        });
    }

    pub(super) fn skip(&self, reason: SkipReason, bytes: usize, head: &[u8]) {
        count(&self.counts.skipped);
        let head = String::from_utf8_lossy(&head[..head.len().min(1024)]).into_owned();
        self.peer.skipped(&Skipped {
            reason,
            bytes,
            head,
        });
    }
}

/// What went by without being used, since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// All that [`Peer::skipped`] was told.
    pub skipped: u64,
    /// Of these, lines that were too long.
    pub oversized: u64,
    /// Replies to calls that had been cancelled.
    pub late_replies: u64,
    /// Progress for which the call's queue was full.
    pub dropped_progress: u64,
    /// Progress for calls that were over.
    pub late_progress: u64,
    /// Answers to the server that found the outgoing queue full.
    pub dropped_answers: u64,
}

#[derive(Default)]
pub(super) struct Counts {
    pub(super) skipped: AtomicU64,
    pub(super) oversized: AtomicU64,
    pub(super) late_replies: AtomicU64,
    pub(super) dropped_progress: AtomicU64,
    pub(super) late_progress: AtomicU64,
    pub(super) dropped_answers: AtomicU64,
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Counts {
    pub(super) fn read(&self) -> Counters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            skipped: read(&self.skipped),
            oversized: read(&self.oversized),
            late_replies: read(&self.late_replies),
            dropped_progress: read(&self.dropped_progress),
            late_progress: read(&self.late_progress),
            dropped_answers: read(&self.dropped_answers),
        }
    }
}
