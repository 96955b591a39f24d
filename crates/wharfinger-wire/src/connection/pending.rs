//! The calls that wait for their replies.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use super::CallError;
use crate::json::Raw;

/// How many cancelled calls are remembered to tell their late replies from odd ones.
const REMEMBERED: usize = 4096;

/// All calls of a connection that wait.
pub(super) struct Pending {
    limit: usize,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    last: u64,
    waiting: HashMap<u64, Arc<Slot>>,
    cancelled: BTreeSet<u64>,
    closed: bool,
}

/// What an answer means for the calls.
pub(super) enum Answered {
    /// A call waits for it.
    Waiting(Arc<Slot>),
    /// The call was cancelled.
    Late,
    /// The call was answered before.
    Repeated,
    /// There was no such call.
    Unknown,
}

/// What progress means for the calls.
pub(super) enum Progressed {
    /// A call waits for it.
    Waiting(Arc<Slot>),
    /// The call is over.
    Late,
    /// The token is not one of ours.
    Unknown,
}

/// Nothing in here can panic half-way, so a poisoned lock guards a sound value.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pending {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            table: Mutex::default(),
        }
    }

    /// Makes room for a call and gives it its number.
    pub(super) fn open(&self, progress: bool) -> Result<(u64, Arc<Slot>), CallError> {
        let slot = Arc::new(Slot {
            progress,
            state: Mutex::default(),
        });
        let mut table = lock(&self.table);
        if table.closed {
            return Err(CallError::Closed);
        }
        if table.waiting.len() >= self.limit {
            return Err(CallError::Busy { limit: self.limit });
        }
        table.last += 1;
        let number = table.last;
        table.waiting.insert(number, Arc::clone(&slot));
        Ok((number, slot))
    }

    /// Takes a call out as if it had never been.
    pub(super) fn forget(&self, number: u64) {
        lock(&self.table).waiting.remove(&number);
    }

    /// Takes a call out that nobody waits for any more; false if it was answered before.
    pub(super) fn cancel(&self, number: u64) -> bool {
        let mut table = lock(&self.table);
        let found = table.waiting.remove(&number).is_some();
        if found {
            table.cancelled.insert(number);
            if table.cancelled.len() > REMEMBERED {
                table.cancelled.pop_first();
            }
        }
        found
    }

    /// Takes the call out that a reply belongs to.
    pub(super) fn answer(&self, number: u64) -> Answered {
        let mut table = lock(&self.table);
        if let Some(slot) = table.waiting.remove(&number) {
            Answered::Waiting(slot)
        } else if table.cancelled.remove(&number) {
            Answered::Late
        } else if (1..=table.last).contains(&number) {
            Answered::Repeated
        } else {
            Answered::Unknown
        }
    }

    /// Finds the call that progress belongs to.
    pub(super) fn progress(&self, number: u64) -> Progressed {
        let table = lock(&self.table);
        match table.waiting.get(&number) {
            Some(slot) if slot.progress => Progressed::Waiting(Arc::clone(slot)),
            None if (1..=table.last).contains(&number) => Progressed::Late,
            Some(_) | None => Progressed::Unknown,
        }
    }

    /// Fails every call that waits, and all later ones.
    pub(super) fn close(&self) {
        let waiting = {
            let mut table = lock(&self.table);
            table.closed = true;
            std::mem::take(&mut table.waiting)
        };
        for slot in waiting.into_values() {
            slot.finish(Err(CallError::Closed));
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        lock(&self.table).closed
    }
}

/// Where one call's progress and reply wait to be taken.
pub(super) struct Slot {
    progress: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    progress: VecDeque<Raw>,
    reply: Option<Result<Raw, CallError>>,
    waker: Option<Waker>,
}

/// What a slot had.
pub(super) enum Taken {
    Progress(Raw),
    Reply(Result<Raw, CallError>),
}

impl Slot {
    /// Adds progress; false if `limit` of it waits already.
    pub(super) fn push(&self, params: Raw, limit: usize) -> bool {
        let waker = {
            let mut state = lock(&self.state);
            if state.progress.len() >= limit {
                return false;
            }
            state.progress.push_back(params);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    /// Ends the call.
    pub(super) fn finish(&self, reply: Result<Raw, CallError>) {
        let waker = {
            let mut state = lock(&self.state);
            state.reply = Some(reply);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes the oldest progress or, when there is none, the reply.
    pub(super) fn poll(&self, waker: &Waker) -> Poll<Taken> {
        let mut state = lock(&self.state);
        if let Some(params) = state.progress.pop_front() {
            return Poll::Ready(Taken::Progress(params));
        }
        if let Some(reply) = state.reply.take() {
            return Poll::Ready(Taken::Reply(reply));
        }
        match &mut state.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        Poll::Pending
    }
}
