//! What waits to be written: bounded, in order, filled by many and emptied by one.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};

use super::record::Record;

/// Rows that may wait; who brings one more waits for room.
const ROWS: usize = 4096;

/// Bytes of arguments that may wait, so that few large calls do not take all memory.
const BYTES: usize = 64 << 20;

/// Rows that may wait of those who can't wait for room. Beyond that they are counted, and the journal says so.
const MOST: usize = 1 << 16;

/// Rows that are written at once.
pub(super) const BATCH: usize = 512;

/// How long the first row of a batch waits for others. A transaction costs as much as some forty rows, so one for each
/// call of a busy agent would cost more than the rest of the call.
const LINGER: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// Told when there is something for the writer to do.
    work: Condvar,
    /// Told when rows were taken out.
    room: Notify,
    /// How many rows were written, or given up.
    done: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Record>,
    bytes: usize,
    /// How many rows have come.
    come: u64,
    /// Somebody waits for them to be written.
    hurry: bool,
    phase: Phase,
    /// Rows for which there was no room, and nobody who could wait.
    lost: u64,
}

/// How far it is to the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    #[default]
    Open,
    /// Somebody waits for the end, so what can't be written is not tried for long.
    Ending,
    /// No more will come.
    Closing,
    /// The writer is gone: what comes now is written by nobody.
    Ended,
}

/// A row that waits for room. Whoever brings it may be gone before there is some.
struct Waiting<'a> {
    queue: &'a Queue,
    record: Option<Record>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(record) = self.record.take() {
            self.queue.push_now(record);
        }
    }
}

/// What is to be written next.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) records: Vec<Record>,
    /// Rows before these for which there was no room.
    pub(super) lost: u64,
}

impl Queue {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::default(),
            work: Condvar::new(),
            room: Notify::new(),
            done: watch::Sender::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a row behind the others, waiting for room.
    pub(super) async fn push(&self, record: Record) {
        let Err(record) = self.try_push(record, (ROWS, BYTES)) else {
            return;
        };
        let mut waiting = Waiting {
            queue: self,
            record: Some(record),
        };
        loop {
            let room = self.room.notified();
            let Some(record) = waiting.record.take() else {
                return;
            };
            waiting.record = self.try_push(record, (ROWS, BYTES)).err();
            if waiting.record.is_some() {
                room.await;
            }
        }
    }

    /// Puts a row behind the others, for those who can't wait.
    pub(super) fn push_now(&self, record: Record) {
        if self.try_push(record, (MOST, 2 * BYTES)).is_err() {
            self.state().lost += 1;
        }
    }

    #[expect(
        clippy::result_large_err,
        reason = "it is given back, to be put in later"
    )]
    fn try_push(&self, record: Record, (rows, bytes): (usize, usize)) -> Result<(), Record> {
        let size = record.arguments.len();
        let mut state = self.state();
        if state.phase == Phase::Ended {
            return Ok(());
        }
        // One alone has room, however large.
        let empty = state.waiting.is_empty();
        if !empty && (state.waiting.len() >= rows || state.bytes + size > bytes) {
            return Err(record);
        }
        state.waiting.push_back(record);
        state.bytes += size;
        state.come += 1;
        // Between the first row and a full batch the writer sleeps on purpose.
        let waiting = state.waiting.len();
        drop(state);
        if waiting == 1 || waiting == BATCH {
            self.work.notify_one();
        }
        Ok(())
    }

    /// Waits until all that has come is written, or given up.
    pub(super) async fn flush(&self) {
        let come = {
            let mut state = self.state();
            state.hurry = true;
            state.come
        };
        self.work.notify_one();
        let mut done = self.done.subscribe();
        // It lives as long as this does.
        done.wait_for(|done| *done >= come).await.ok();
    }

    /// As [`flush`](Self::flush), before everything ends.
    pub(super) async fn finish(&self) {
        self.reach(Phase::Ending);
        self.flush().await;
    }

    /// No more will come.
    pub(super) fn close(&self) {
        self.reach(Phase::Closing);
        self.work.notify_one();
    }

    fn reach(&self, phase: Phase) {
        let mut state = self.state();
        state.phase = state.phase.max(phase);
    }

    /// For the writer: the next rows, `all` of them or a batch; `None` at the end.
    pub(super) fn take(&self, all: bool) -> Option<Batch> {
        let mut state = self.state();
        while state.waiting.is_empty() {
            state.hurry = false;
            if state.phase >= Phase::Closing {
                return None;
            }
            state = self
                .work
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let begun = Instant::now();
        while state.waiting.len() < BATCH && !state.hurry && state.phase < Phase::Closing {
            let Some(left) = LINGER
                .checked_sub(begun.elapsed())
                .filter(|left| !left.is_zero())
            else {
                break;
            };
            let waited = self.work.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let count = if all {
            state.waiting.len()
        } else {
            state.waiting.len().min(BATCH)
        };
        let records: Vec<Record> = state.waiting.drain(..count).collect();
        state.bytes -= records
            .iter()
            .map(|record| record.arguments.len())
            .sum::<usize>();
        let lost = std::mem::take(&mut state.lost);
        drop(state);
        self.room.notify_waiters();
        Some(Batch { records, lost })
    }

    /// For the writer: so many rows are written, or given up.
    pub(super) fn done(&self, rows: usize) {
        self.done
            .send_modify(|done| *done = done.saturating_add(rows as u64));
    }

    /// For the writer: it is gone.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.phase = Phase::Ended;
        state.waiting.clear();
        drop(state);
        self.done.send_replace(u64::MAX);
        self.room.notify_waiters();
    }

    /// For the writer: waits a while, not long where somebody waits for the end. Whether that is so.
    pub(super) fn sleep(&self, time: Duration) -> bool {
        let ends = |state: &State| state.phase >= Phase::Ending;
        let state = self.state();
        if ends(&state) {
            drop(state);
            std::thread::sleep(time.min(LINGER));
            return true;
        }
        let waited = self
            .work
            .wait_timeout_while(state, time, |state| !ends(state));
        ends(&waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    /// For tests: how many wait.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.state().waiting.len()
    }
}
