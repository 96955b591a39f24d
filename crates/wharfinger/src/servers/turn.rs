//! Whose turn it is: calls of one server run one after the other (V50), but one that waits for its client lets others by.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// One call's turn. Clones are the same.
#[derive(Clone, Debug)]
pub struct Turn {
    all: Arc<Semaphore>,
    held: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
    over: Arc<AtomicBool>,
}

impl Turn {
    pub(super) fn new(all: Arc<Semaphore>, permit: OwnedSemaphorePermit) -> Self {
        Self {
            all,
            held: Arc::new(Mutex::new(Some(permit))),
            over: Arc::default(),
        }
    }

    fn held(&self) -> MutexGuard<'_, Option<OwnedSemaphorePermit>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its server waits for an answer: others may go on meanwhile.
    pub(crate) fn let_others_by(&self) {
        self.held().take();
    }

    /// Whether others are let by at this moment.
    pub(crate) fn is_let_go(&self) -> bool {
        self.held().is_none()
    }

    /// Its server goes on: waits until nobody else is at it. Nothing is kept of the turn of a call that is over.
    pub(super) async fn take_again(&self) {
        if !self.is_let_go() || self.over.load(Ordering::Acquire) {
            return;
        }
        // The semaphore is never closed.
        let permit = self.all.clone().acquire_owned().await.ok();
        let mut held = self.held();
        if held.is_none() && !self.over.load(Ordering::Acquire) {
            *held = permit;
        }
    }
}

/// A call that has its turn, until dropped.
#[derive(Debug)]
pub(super) struct HasTurn(pub(super) Turn);

impl Drop for HasTurn {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Release);
        self.0.let_others_by();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn turn(all: &Arc<Semaphore>) -> HasTurn {
        let permit = all.clone().acquire_owned().await.unwrap();
        HasTurn(Turn::new(all.clone(), permit))
    }

    #[tokio::test]
    async fn a_call_that_waits_lets_others_by_and_goes_on_after_them() {
        let all = Arc::new(Semaphore::new(1));
        let one = turn(&all).await;
        one.0.let_others_by();
        let other = turn(&all).await;
        let again = one.0.clone();
        let mut back = std::pin::pin!(again.take_again());
        assert!(
            futures_now(back.as_mut()).is_none(),
            "not before the other is done"
        );
        drop(other);
        back.await;
        assert!(!one.0.is_let_go());
        assert_eq!(all.available_permits(), 0);
        drop(one);
        assert_eq!(all.available_permits(), 1);
    }

    #[tokio::test]
    async fn a_call_that_is_over_takes_no_turn() {
        let all = Arc::new(Semaphore::new(1));
        let one = turn(&all).await;
        let late = one.0.clone();
        drop(one);
        late.take_again().await;
        assert_eq!(all.available_permits(), 1);
    }

    /// What a future has at this moment.
    fn futures_now<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match future.poll(&mut context) {
            std::task::Poll::Ready(value) => Some(value),
            std::task::Poll::Pending => None,
        }
    }
}
