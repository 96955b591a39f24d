//! What the benchmark's programs share: client sessions over every transport, interleaved comparison of several
//! targets, and a look at what processes cost.
//!
//! It only ever talks to this machine. Nothing here knows Wharfinger; the driver (`src/bin/bench`) does.

pub mod events;
pub mod load;
pub mod processes;
pub mod rpc;
pub mod session;
pub mod stats;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A panic elsewhere does not make what a lock guards unusable.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
