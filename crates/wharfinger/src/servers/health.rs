//! Asking a running server whether it still answers (A186).
//!
//! A `ping`, never a list. Only servers of the handshake era have one; of the others it is known that their process
//! lives. It is no call: it waits for no turn, and a server that is pinged is as idle as before.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use tokio::time::{Instant, timeout};

use super::connect::Live;
use crate::model::Health;

/// What came of the last pings.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ping {
    /// When the last one ended, in milliseconds since 1970, UTC.
    pub at: u64,
    /// How long it took, in milliseconds.
    pub millis: u64,
    /// How many in a row had no answer; 0 after one that had.
    pub failed: usize,
}

/// The last ping of a server, over all its processes. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct LastPing(Arc<Mutex<Option<Ping>>>);

impl LastPing {
    pub(super) fn read(&self) -> Option<Ping> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.clone()
    }

    /// One is over; gives how many have failed in a row.
    pub(super) fn record(&self, ponged: &Pong) -> usize {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = last.as_ref().map_or(0, |last| last.failed);
        let failed = if ponged.answer.is_ok() { 0 } else { before + 1 };
        let at = SystemTime::now().duration_since(UNIX_EPOCH);
        let millis =
            |passed: std::time::Duration| passed.as_millis().try_into().unwrap_or(u64::MAX);
        *last = Some(Ping {
            at: millis(at.unwrap_or_default()),
            millis: millis(ponged.took),
            failed,
        });
        failed
    }

    /// Another process has done nothing wrong yet.
    pub(super) fn forgive(&self) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = last.as_mut() {
            last.failed = 0;
        }
    }
}

/// What came of one.
pub(super) struct Pong {
    /// Whatever it answers, it answers; else what is wrong.
    pub(super) answer: Result<(), String>,
    took: std::time::Duration,
}

/// Whether a server can be asked.
pub(super) fn can_ping(live: &Live) -> bool {
    !live.description.version.is_modern()
}

pub(super) async fn ping(live: Arc<Live>, health: Health) -> Pong {
    use wharfinger_wire::connection::CallError;
    let began = Instant::now();
    let answer = match live.connection.call("ping", None, false) {
        // Dropped at its limit, it is cancelled at the server.
        Ok(call) => match timeout(health.limit, call.reply()).await {
            // Even a refusal shows that it lives.
            Ok(Ok(_) | Err(CallError::Server(_))) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no answer within {} s", health.limit.as_secs_f64())),
        },
        Err(error) => Err(error.to_string()),
    };
    Pong {
        answer,
        took: began.elapsed(),
    }
}
