//! The task that reads, and what it does with each line.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::AsyncRead;

use super::pending::{Answered, Progressed};
use super::shared::{Shared, count};
use super::{CallError, Reply, SkipReason};
use crate::json;
use crate::lines::{Line, LineReader, Oversized};
use crate::message::{self, ErrorObject, Found, Id, Malformed, Message};

/// Says that reading is over, also when a [`Peer`](super::Peer) panics.
struct End(Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.close();
        self.0.peer.closed();
    }
}

pub(super) async fn run<R: AsyncRead + Unpin>(reader: R, shared: Arc<Shared>) {
    let end = End(shared);
    tokio::select! {
        biased;
        () = end.0.abandoned.cancelled() => {}
        () = read(reader, &end.0) => {}
    }
}

/// Reads to the end; a stream that cannot be read has ended.
async fn read<R: AsyncRead + Unpin>(reader: R, shared: &Arc<Shared>) {
    let mut lines = LineReader::with_limit(reader, shared.limits.line_bytes);
    while let Ok(Some(line)) = lines.next_line().await {
        shared.take_line(line);
    }
}

impl Shared {
    fn take_line(self: &Arc<Self>, line: Line<'_>) {
        match line {
            Line::Text(text) if text.trim_ascii().is_empty() => {}
            Line::Text(text) if message::is_batch(text) => self.take_batch(text),
            Line::Text(text) => self.take_message(text, message::parse_str(text)),
            Line::Unfinished(text) => match message::parse_str(text) {
                // The server died over it: the call ends as the others do.
                Err(malformed) => self.skip_malformed(text.as_bytes(), malformed.reason),
                whole => self.take_message(text, whole),
            },
            Line::NotUtf8(bytes) => {
                let found = message::scan(bytes);
                let reason = "not valid UTF-8".to_owned();
                self.fail(&found, || CallError::Malformed {
                    reason: reason.clone(),
                });
                self.skip_malformed(bytes, reason);
            }
            Line::Oversized(Oversized { bytes, head, found }) => {
                self.fail(&found, || CallError::TooLarge { bytes });
                count(&self.counts.oversized);
                self.skip(SkipReason::Oversized, bytes, &head);
            }
        }
    }

    fn take_batch(self: &Arc<Self>, text: &str) {
        match message::parse_batch_str(text) {
            Ok(batch) => batch
                .into_iter()
                .for_each(|message| self.take_message(text, message)),
            Err(malformed) => self.skip_malformed(text.as_bytes(), malformed.reason),
        }
    }

    fn take_message(self: &Arc<Self>, text: &str, message: Result<Message<'_>, Malformed>) {
        match message {
            Ok(Message::Response { id, outcome }) => self.take_reply(text, id.as_ref(), outcome),
            Ok(Message::Notification { method, params }) => {
                if method != "notifications/progress" || !self.take_progress(params) {
                    self.peer.notification(&method, params);
                }
            }
            Ok(Message::Request { id, method, params }) => self.take_request(&id, &method, params),
            Err(Malformed {
                reason,
                id,
                response,
                ..
            }) => {
                let found = Found { id, response };
                self.fail(&found, || CallError::Malformed {
                    reason: reason.clone(),
                });
                self.skip_malformed(text.as_bytes(), reason);
            }
        }
    }

    fn take_reply(&self, text: &str, id: Option<&Id>, outcome: Result<&RawValue, &RawValue>) {
        let answered = id
            .and_then(Id::as_number)
            .map(|number| self.pending.answer(number));
        let reason = match answered {
            Some(Answered::Waiting(slot)) => {
                let failed = |error| CallError::Server(ErrorObject::from_raw(error));
                slot.finish(outcome.map(ToOwned::to_owned).map_err(failed));
                return;
            }
            Some(Answered::Late) => {
                count(&self.counts.late_replies);
                return;
            }
            Some(Answered::Repeated) => SkipReason::RepeatedReply,
            Some(Answered::Unknown) | None => SkipReason::UnknownReply,
        };
        self.skip(reason, text.len(), text.as_bytes());
    }

    /// Gives progress to its call; false if it is for somebody else.
    fn take_progress(&self, params: Option<&RawValue>) -> bool {
        let Some((params, number)) = params.and_then(|params| Some((params, token(params)?)))
        else {
            return false;
        };
        match self.pending.progress(number) {
            Progressed::Waiting(slot) => {
                if !slot.push(params.to_owned(), self.limits.notifications) {
                    count(&self.counts.dropped_progress);
                }
            }
            Progressed::Late => count(&self.counts.late_progress),
            Progressed::Unknown => return false,
        }
        true
    }

    fn take_request(self: &Arc<Self>, id: &Id, method: &str, params: Option<&RawValue>) {
        if method == "ping" {
            // A full queue is counted, a closed one has nobody to read the answer.
            self.answer(id, &Ok(json::empty_object())).ok();
            return;
        }
        let reply = Reply::new(Arc::downgrade(self), id.clone());
        self.peer.request(reply, method, params);
    }

    /// Fails the call whose reply could not be read, if there is one.
    fn fail(&self, found: &Found, error: impl FnOnce() -> CallError) {
        let number = found
            .id
            .as_ref()
            .filter(|_| found.response)
            .and_then(Id::as_number);
        if let Some(Answered::Waiting(slot)) = number.map(|number| self.pending.answer(number)) {
            slot.finish(Err(error()));
        }
    }

    fn skip_malformed(&self, text: &[u8], reason: String) {
        self.skip(SkipReason::Malformed(reason), text.len(), text);
    }
}

/// The progress token, if it is one that could be ours.
fn token(params: &RawValue) -> Option<u64> {
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow, rename = "progressToken")]
        token: &'a RawValue,
    }
    let params: Params<'_> = serde_json::from_str(params.get()).ok()?;
    Id::parse(params.token)?.as_number()
}
