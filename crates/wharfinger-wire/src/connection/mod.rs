//! The client's side of a server that speaks over two byte streams.
//!
//! A [`Connection`] matches answers with calls, hands progress to the call it belongs to, and
//! everything else the server says to its [`Peer`]. Two tasks move the bytes. It starts no process,
//! decides nothing about what may be called, and reads no payload beyond the members that route it.
//!
//! Whatever the server sends, these hold: a call ends exactly once; progress comes in order, before
//! the reply and never after it; a reply that could not be read fails its call instead of leaving
//! it waiting; nothing that looks like an answer is ever answered.

mod call;
mod outgoing;
mod pending;
mod reading;
mod reply;
mod shared;
mod writing;

use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::task::TaskTracker;

use crate::json::Object;
use crate::message::{self, ErrorObject, Id};

pub use call::{Call, Event};
pub use reply::Reply;
pub use shared::Counters;
use shared::Shared;

/// Who hears what the server says of its own accord.
///
/// All of it is called in order from the task that reads, which waits: do not block.
pub trait Peer: Send + Sync + 'static {
    /// A notification, but for progress of calls that asked the connection for it.
    fn notification(&self, method: &str, params: Option<&RawValue>);

    /// A request, but for `ping`; answered now or later, by the reply.
    fn request(&self, reply: Reply, method: &str, params: Option<&RawValue>);

    /// Something that could not be used. It is counted already.
    fn skipped(&self, skipped: &Skipped);

    /// Nothing more will be read.
    fn closed(&self) {}
}

/// Something from the server that could not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Why.
    pub reason: SkipReason,
    /// How long it was.
    pub bytes: usize,
    /// How it began, with U+FFFD for what is not UTF-8.
    pub head: String,
}

/// Why something was skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkipReason {
    /// It is not a message; with what is wrong. Servers that print to stdout end up here.
    Malformed(String),
    /// It is longer than [`Limits::line_bytes`].
    Oversized,
    /// It answers a request that was never made, or names none.
    UnknownReply,
    /// It answers a request that was answered before.
    RepeatedReply,
}

/// How much the connection keeps for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest line that is read.
    pub line_bytes: usize,
    /// How many calls may wait for their replies.
    pub calls: usize,
    /// How many bytes may wait for the server to read them. One message may be larger, if it is
    /// the only one.
    pub queue_bytes: usize,
    /// How many progress notifications of one call may wait to be taken.
    pub notifications: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            line_bytes: crate::lines::DEFAULT_LIMIT,
            calls: 1024,
            queue_bytes: 64 * 1024 * 1024,
            notifications: 1024,
        }
    }
}

/// Why there is no result.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CallError {
    /// The server said no. Its words are to be passed on.
    #[error("{0}")]
    Server(ErrorObject),
    /// The reply came, but could not be read. The connection lives; the call may have had effects.
    #[error("the reply could not be read: {reason}")]
    Malformed {
        /// What is wrong with it.
        reason: String,
    },
    /// The reply came, but was larger than [`Limits::line_bytes`]. Asking for less may help.
    #[error("the reply of {bytes} bytes is larger than is allowed")]
    TooLarge {
        /// How large it was.
        bytes: usize,
    },
    /// The connection ended before the reply. A new process may be started; the call is not to be
    /// repeated unasked, since it may have had effects.
    #[error("the server closed the connection")]
    Closed,
    /// Too many calls wait for this server. Nothing was sent: it can be tried again later.
    #[error("{limit} calls are already waiting for this server")]
    Busy {
        /// [`Limits::calls`].
        limit: usize,
    },
    /// The server does not read what it is sent. Nothing was sent: it can be tried again later.
    #[error("the server does not read its input: {limit} bytes are already waiting for it")]
    QueueFull {
        /// [`Limits::queue_bytes`].
        limit: usize,
    },
}

/// A connection to a server. Clones are the same connection; when the last one and the last
/// [`Call`] are gone, it is closed.
#[derive(Clone)]
pub struct Connection {
    handle: Arc<Handle>,
}

/// Held by those who use the connection, not by its tasks.
struct Handle {
    shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Connection {
    /// Begins to read and write, in two tasks on the tracker.
    ///
    /// Has to be called within a runtime. The tasks end when both streams have ended; [`close`](Self::close) ends one of them,
    /// [`abandon`](Self::abandon) both at once.
    pub fn start<R, W>(
        reader: R,
        writer: W,
        peer: Arc<dyn Peer>,
        limits: Limits,
        tasks: &TaskTracker,
    ) -> Self
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let shared = Arc::new(Shared::new(peer, limits));
        tasks.spawn(reading::run(reader, Arc::clone(&shared)));
        tasks.spawn(writing::run(writer, Arc::clone(&shared)));
        Self {
            handle: Arc::new(Handle { shared }),
        }
    }

    fn shared(&self) -> &Shared {
        &self.handle.shared
    }

    /// Sends a request. The reply, and progress if asked for, are taken from the [`Call`].
    ///
    /// With `progress` the request's id becomes its progress token, in place of any in the params.
    /// Without, the params go as they are; a token in them must not be a number, since the
    /// connection's own tokens are, and what it brings goes to [`Peer::notification`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(connection: wharfinger_wire::connection::Connection) -> Result<(), Box<dyn std::error::Error>> {
    /// use wharfinger_wire::connection::Event;
    ///
    /// let mut call = connection.call("tools/list", None, true)?;
    /// let reply = loop {
    ///     match call.next().await {
    ///         Event::Progress(params) => println!("{params}"),
    ///         Event::Reply(reply) => break reply?,
    ///     }
    /// };
    /// # Ok(()) }
    /// ```
    pub fn call(
        &self,
        method: &str,
        params: Option<&RawValue>,
        progress: bool,
    ) -> Result<Call, CallError> {
        let shared = self.shared();
        let (number, slot) = shared.pending.open(progress)?;
        // From here on, dropping the call takes it out again.
        let call = Call::new(self.clone(), number, slot, method);
        let id = Id::number(number);
        let spliced = if progress {
            with_progress_token(params, &id)
        } else {
            None
        };
        let write = |out: &mut Vec<u8>| match &spliced {
            Some(params) => message::write_request(out, &id, method, Some(params)),
            None => message::write_request(out, &id, method, params),
        };
        shared
            .outgoing
            .push(size(method, params), write)
            .inspect_err(|_| shared.pending.forget(number))?;
        Ok(call)
    }

    /// Sends a notification.
    pub fn notify(&self, method: &str, params: Option<&RawValue>) -> Result<(), CallError> {
        self.shared().notify(method, params)
    }

    /// Whether no call can be made any more.
    pub fn is_closed(&self) -> bool {
        self.shared().pending.is_closed() || self.shared().outgoing.is_closed()
    }

    /// Waits until no reply can come any more: the server ended its output or stopped reading, or
    /// somebody closed the connection.
    pub async fn closed(&self) {
        self.shared().closed.cancelled().await;
    }

    /// Ends the server's input once what is queued is written, and fails the calls that wait. What
    /// the server still says is read to its end.
    pub fn close(&self) {
        self.shared().close();
    }

    /// Closes, and lets go of both streams at once: nothing more is written or read. For when the
    /// server is gone and something else holds its pipes open.
    pub fn abandon(&self) {
        self.shared().close();
        self.shared().abandoned.cancel();
    }

    /// What went by without being used.
    pub fn counters(&self) -> Counters {
        self.shared().counts.read()
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

/// What goes around a payload is smaller than this.
const ENVELOPE: usize = 128;

/// About how large a message is.
fn size(method: &str, params: Option<&RawValue>) -> usize {
    ENVELOPE + method.len() + params.map_or(0, |params| params.get().len())
}

/// The params with the id as `_meta.progressToken`; none if they are no object.
fn with_progress_token<'a>(params: Option<&'a RawValue>, id: &Id) -> Option<Object<'a>> {
    let mut object = params.map_or(Ok(Object::new()), Object::from_raw).ok()?;
    let mut meta = object.object("_meta").unwrap_or_default();
    meta.set("progressToken", id.to_raw());
    let meta = meta.to_raw();
    object.set("_meta", meta);
    Some(object)
}
