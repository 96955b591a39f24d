//! Where what belongs to a request goes: frames of an HTTP response, or lines of a byte stream.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::here::Told;
use super::reply::Frame;

/// The way to a client. Nothing waits for a client that does not read.
#[derive(Clone)]
pub(super) enum Out {
    Frames(mpsc::Sender<Frame>),
    Lines(mpsc::Sender<Vec<u8>>),
    /// Of a request that is answered where it was read.
    Told(Arc<Told>),
}

impl Out {
    /// Cancelled when a client has hung up on a request that goes on without it.
    pub(super) fn gone(&self) -> Option<&CancellationToken> {
        match self {
            Self::Told(told) => Some(&told.gone),
            Self::Frames(_) | Self::Lines(_) => None,
        }
    }

    /// Sends a message that is no response; false when it did not fit or nobody reads.
    pub(super) fn note(&self, message: Vec<u8>) -> bool {
        match self {
            Self::Frames(frames) => frames.try_send(Frame::note(message)).is_ok(),
            Self::Lines(lines) => lines.try_send(message).is_ok(),
            Self::Told(told) => told.tell(Frame::note(message)),
        }
    }
}
