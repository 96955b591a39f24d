//! Waiting for something to become true, never for a time.

use std::future::Future;
use std::thread;
use std::time::{Duration, Instant};

/// How long a test waits before it says that something doesn't happen.
pub const PATIENCE: Duration = Duration::from_secs(20);

const PAUSE: Duration = Duration::from_millis(5);

/// Waits until `check` is true.
///
/// # Panics
/// With `what` in the message, if that takes more than [`PATIENCE`].
#[track_caller]
pub fn wait_until(what: &str, mut check: impl FnMut() -> bool) {
    wait_for(what, || check().then_some(()));
}

/// Waits until `check` is true, with a limit of one's own.
///
/// # Panics
/// With `what` in the message, if that takes more than `limit`.
#[track_caller]
pub fn wait_within(limit: Duration, what: &str, mut check: impl FnMut() -> bool) {
    look_within(limit, what, || check().then_some(()));
}

/// Waits until `look` finds something, and returns it.
///
/// # Panics
/// With `what` in the message, if that takes more than [`PATIENCE`].
#[track_caller]
pub fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    look_within(PATIENCE, what, look)
}

#[track_caller]
fn look_within<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + limit;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited {limit:?} in vain for {what}");
        thread::sleep(PAUSE);
    }
}

/// Waits as [`wait_until`] does, without blocking the thread; `pause` is the runtime's own sleep:
/// `poll_until("the tool to appear", tokio::time::sleep, || list().contains("late_1")).await`.
///
/// # Panics
/// With `what` in the message, if that takes more than [`PATIENCE`].
pub async fn poll_until<Pause: Future>(
    what: &str,
    pause: impl Fn(Duration) -> Pause,
    mut check: impl FnMut() -> bool,
) {
    let end = Instant::now() + PATIENCE;
    while !check() {
        assert!(
            Instant::now() < end,
            "waited {PATIENCE:?} in vain for {what}"
        );
        pause(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn waiting_ends_when_the_thing_is_there() {
        let mut looks = 0;
        let found = wait_for("the third look", || {
            looks += 1;
            (looks == 3).then_some("there")
        });
        assert_eq!((found, looks), ("there", 3));
    }

    #[test]
    fn polling_pauses_with_the_given_sleep() {
        let mut looks = 0;
        let check = || {
            looks += 1;
            looks == 3
        };
        let waiting = pin!(poll_until("the third look", ready, check));
        assert_eq!(
            waiting.poll(&mut Context::from_waker(Waker::noop())),
            Poll::Ready(())
        );
    }
}
