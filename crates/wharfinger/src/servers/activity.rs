//! Counts the calls in flight, and decides between a call that begins and an idle stop that begins.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Far below zero, so that calls that end after it do not bring it back.
const STOPPING: i64 = i64::MIN / 2;

/// Shared by an actor and everybody who calls.
#[derive(Debug)]
pub(super) struct Activity {
    /// Calls in flight; negative once stopping.
    calls: AtomicI64,
    /// When the last call ended, in milliseconds since `origin`.
    last: AtomicU64,
    origin: Instant,
}

/// One call in flight, until dropped.
#[derive(Debug)]
pub(super) struct Busy<'a>(&'a Activity);

impl Activity {
    pub(super) fn new() -> Self {
        Self {
            calls: AtomicI64::new(0),
            last: AtomicU64::new(0),
            origin: Instant::now(),
        }
    }

    /// `None` when the server is about to stop.
    pub(super) fn begin(&self) -> Option<Busy<'_>> {
        self.enter().then_some(Busy(self))
    }

    /// The beginning of something whose end is told by [`end`](Self::end); false when the server is about to stop.
    pub(super) fn enter(&self) -> bool {
        let begun = self
            .calls
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| {
                (n >= 0).then_some(n + 1)
            });
        begun.is_ok()
    }

    /// Whether it may stop now; from then on no call begins.
    pub(super) fn stop_if_idle(&self, idle: Duration) -> bool {
        self.idle_at(idle) <= Instant::now()
            && self
                .calls
                .compare_exchange(0, STOPPING, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
    }

    /// When it will have been idle for that long, if no call comes.
    pub(super) fn idle_at(&self, idle: Duration) -> Instant {
        let from = if self.calls.load(Ordering::Acquire) > 0 {
            Instant::now()
        } else {
            self.origin + Duration::from_millis(self.last.load(Ordering::Acquire))
        };
        from + idle
    }

    /// It counts as called now.
    pub(super) fn put_off(&self) {
        let since = u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(since, Ordering::Release);
    }

    /// The end of something that has begun.
    pub(super) fn end(&self) {
        self.put_off();
        self.calls.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether a call is in flight.
    pub(super) fn is_busy(&self) -> bool {
        self.calls.load(Ordering::Acquire) > 0
    }

    /// No call begins any more, and those in flight are given up.
    pub(super) fn stop(&self) {
        self.calls.store(STOPPING, Ordering::Release);
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn v59_a_running_call_is_not_idle() {
        let (activity, idle) = (Activity::new(), Duration::from_secs(10));
        let call = activity.begin().unwrap();
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(!activity.stop_if_idle(idle));
        drop(call);
        assert!(
            !activity.stop_if_idle(idle),
            "counted from the end of the call"
        );
        tokio::time::advance(Duration::from_secs(9)).await;
        assert!(!activity.stop_if_idle(idle));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(activity.stop_if_idle(idle));
        assert!(activity.begin().is_none(), "no call begins once it stops");
    }

    #[tokio::test]
    async fn a_call_that_ends_after_the_stop_does_not_undo_it() {
        let activity = Activity::new();
        let call = activity.begin().unwrap();
        activity.stop();
        drop(call);
        assert!(activity.begin().is_none());
        assert!(!activity.is_busy());
    }
}
