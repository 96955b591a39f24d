//! HTTP responses: plain JSON where nothing needs a stream, server-sent events where something does.

use std::borrow::Cow;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::SizeHint;
use tokio::sync::mpsc;
use tokio::time::timeout;
use wharfinger_wire::message::{self, ErrorObject, Id};
use wharfinger_wire::server::sse_event;

/// What a request leads to, in order. Boxed, since a channel sets aside room for many of them at once, and most requests
/// have one.
pub(super) struct Frame(Box<Kind>);

enum Kind {
    /// A notification that belongs to it.
    Note(Vec<u8>),
    /// A result in pieces, as it is large.
    Pieces([Vec<u8>; 3]),
    /// The response, with the HTTP status it has if it is all there is.
    Reply(StatusCode, Vec<u8>),
}

impl Frame {
    pub(super) fn note(message: Vec<u8>) -> Self {
        Self(Box::new(Kind::Note(message)))
    }

    pub(super) fn reply(status: StatusCode, message: Vec<u8>) -> Self {
        Self(Box::new(Kind::Reply(status, message)))
    }

    pub(super) fn pieces(pieces: [Vec<u8>; 3]) -> Self {
        Self(Box::new(Kind::Pieces(pieces)))
    }

    fn message(&self) -> Cow<'_, [u8]> {
        match &*self.0 {
            Kind::Note(message) | Kind::Reply(_, message) => message.into(),
            Kind::Pieces(pieces) => pieces.concat().into(),
        }
    }
}

/// Without an answer for this long, a stream is opened, so that nobody between takes the connection for dead.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// How often an open stream that has nothing to say shows that it lives.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// A reply that is all there is.
pub(super) fn only(frame: Frame) -> Response {
    match *frame.0 {
        Kind::Reply(status, reply) => json(status, reply),
        Kind::Note(note) => json(StatusCode::OK, note),
        Kind::Pieces(pieces) => {
            let mut response = Response::new(Body::new(Pieces {
                pieces: pieces.map(Bytes::from),
                sent: 0,
            }));
            let kind = HeaderValue::from_static("application/json");
            response.headers_mut().insert(header::CONTENT_TYPE, kind);
            response
        }
    }
}

/// A body that is sent piece by piece, none of them copied.
struct Pieces {
    pieces: [Bytes; 3],
    sent: usize,
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, Infallible>>> {
        let at = self.sent;
        self.sent += 1;
        let piece = self.pieces.get_mut(at).map(std::mem::take);
        Poll::Ready(piece.map(|piece| Ok(hyper::body::Frame::data(piece))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.pieces.iter().map(|piece| piece.len() as u64).sum())
    }

    fn is_end_stream(&self) -> bool {
        self.sent >= self.pieces.len()
    }
}

/// A message as plain JSON.
pub(super) fn json(status: StatusCode, message: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(message));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// An error as plain JSON.
pub(super) fn refuse(status: StatusCode, id: Option<&Id>, code: i64, text: &str) -> Response {
    json(status, message::error(id, &ErrorObject::new(code, text)))
}

/// An event stream that ends when its sender goes.
pub(super) fn sse(frames: mpsc::Receiver<Frame>, first: Option<Frame>) -> Response {
    let next = |(mut frames, first): (mpsc::Receiver<Frame>, Option<Frame>)| async move {
        let frame = match first {
            Some(first) => Ok(Some(first)),
            None => timeout(HEARTBEAT, frames.recv()).await,
        };
        let mut bytes = vec![];
        match frame {
            Ok(Some(frame)) => sse_event(&mut bytes, None, &frame.message()),
            Ok(None) => return None,
            Err(_) => bytes.extend(b": alive\n\n"),
        }
        // What is there already goes out in the same write.
        while bytes.len() < 64 << 10
            && let Ok(frame) = frames.try_recv()
        {
            sse_event(&mut bytes, None, &frame.message());
        }
        Some((Ok::<_, Infallible>(Bytes::from(bytes)), (frames, None)))
    };
    let stream = futures_util::stream::unfold((frames, first), next);
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache, no-transform"),
    ];
    let mut response = (headers, Body::from_stream(stream)).into_response();
    response
        .headers_mut()
        .insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// 202: a notification was taken.
pub(super) fn accepted() -> Response {
    StatusCode::ACCEPTED.into_response()
}
