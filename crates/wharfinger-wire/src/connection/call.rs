//! One call, as the caller sees it.

use std::future::poll_fn;
use std::sync::Arc;

use super::pending::{Slot, Taken};
use super::{CallError, Connection};
use crate::json::Raw;
use crate::message::Id;

const ABANDONED: &str = "the caller no longer waits for it";

/// A request on its way. Dropped before its reply, it tells the server that it is cancelled.
#[must_use = "a dropped call is a cancelled call"]
pub struct Call {
    connection: Connection,
    number: u64,
    slot: Arc<Slot>,
    /// Whether the protocol lets the server be told when nobody waits any more.
    cancellable: bool,
    reason: Option<String>,
    over: bool,
}

/// What happens to a call.
#[derive(Debug)]
pub enum Event {
    /// The params of a progress notification, with the token the server sent.
    Progress(Raw),
    /// The end.
    Reply(Result<Raw, CallError>),
}

impl Call {
    pub(super) fn new(connection: Connection, number: u64, slot: Arc<Slot>, method: &str) -> Self {
        // A client must not cancel `initialize`; a probe is not worth a word to a server that may
        // not know what is meant.
        let cancellable = !matches!(method, "initialize" | "server/discover");
        Self {
            connection,
            number,
            slot,
            cancellable,
            reason: None,
            over: false,
        }
    }

    /// The request's id, which is its progress token too.
    pub fn id(&self) -> Id {
        Id::number(self.number)
    }

    /// Waits for progress or the reply: all progress that was kept comes first. A future that is
    /// dropped loses nothing. After the reply there is only [`CallError::Closed`].
    pub async fn next(&mut self) -> Event {
        if self.over {
            return Event::Reply(Err(CallError::Closed));
        }
        let taken = poll_fn(|context| self.slot.poll(context.waker())).await;
        match taken {
            Taken::Progress(params) => Event::Progress(params),
            Taken::Reply(reply) => {
                self.over = true;
                Event::Reply(reply)
            }
        }
    }

    /// Waits for the reply and passes over progress.
    pub async fn reply(mut self) -> Result<Raw, CallError> {
        loop {
            if let Event::Reply(reply) = self.next().await {
                return reply;
            }
        }
    }

    /// Stops waiting and tells the server why.
    pub fn cancel(mut self, reason: impl Into<String>) {
        self.reason = Some(reason.into());
    }

    /// Sets what the server is told if the call is dropped before its reply.
    pub fn set_cancel_reason(&mut self, reason: impl Into<String>) {
        self.reason = Some(reason.into());
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let shared = self.connection.shared();
        if shared.pending.cancel(self.number) && self.cancellable {
            shared.send_cancelled(self.number, self.reason.as_deref().unwrap_or(ABANDONED));
        }
    }
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call")
            .field("id", &self.number)
            .finish_non_exhaustive()
    }
}
