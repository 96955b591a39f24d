//! A request that is answered where it was read, without a task of its own, as long as nothing more is needed.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use axum::response::Response;
use futures_util::task::AtomicWaker;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::post::FRAMES;
use super::reply::{Frame, PATIENCE, only, sse};

/// What a request leads to; none if it was taken back.
pub(super) type Work = Pin<Box<dyn Future<Output = Option<Frame>> + Send>>;

/// What is told before the reply.
#[derive(Default)]
pub(super) struct Told {
    travels: Mutex<Travels>,
    /// Whoever waits for the first of it; what is told from elsewhere wakes it.
    waits: AtomicWaker,
    /// Its client has hung up.
    pub(super) gone: CancellationToken,
}

enum Travels {
    /// Until it is known how.
    Kept(Vec<Frame>),
    Streamed(mpsc::Sender<Frame>),
}

impl Default for Travels {
    fn default() -> Self {
        Self::Kept(vec![])
    }
}

impl Told {
    fn travels(&self) -> MutexGuard<'_, Travels> {
        self.travels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells something; false when it did not fit or nobody reads.
    pub(super) fn tell(&self, frame: Frame) -> bool {
        let taken = match &mut *self.travels() {
            Travels::Kept(frames) if frames.len() < FRAMES => {
                frames.push(frame);
                true
            }
            Travels::Kept(_) => false,
            Travels::Streamed(frames) => frames.try_send(frame).is_ok(),
        };
        self.waits.wake();
        taken
    }

    fn anything(&self) -> bool {
        matches!(&*self.travels(), Travels::Kept(frames) if !frames.is_empty())
    }

    fn stream(&self, sender: mpsc::Sender<Frame>) {
        let mut travels = self.travels();
        if let Travels::Kept(frames) = &mut *travels {
            for frame in frames.drain(..) {
                sender.try_send(frame).ok();
            }
        }
        *travels = Travels::Streamed(sender);
    }
}

/// Work that goes on in a task when nobody waits for it any more.
struct GoesOn<'a> {
    tasks: &'a TaskTracker,
    told: Arc<Told>,
    work: Option<Work>,
    lasting: bool,
}

impl Drop for GoesOn<'_> {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else {
            return;
        };
        // Nobody reads any more, which who asks the client something must know.
        self.told.stream(mpsc::channel(1).0);
        self.told.gone.cancel();
        if self.lasting {
            self.tasks.spawn(work);
        }
    }
}

enum First {
    Done(Option<Frame>),
    Stream,
}

/// The response to a request. `lasting` work is not taken back by a client that hangs up.
pub(super) async fn respond(
    tasks: &TaskTracker,
    told: Arc<Told>,
    work: Work,
    lasting: bool,
) -> Response {
    let mut goes_on = GoesOn {
        tasks,
        told: told.clone(),
        work: Some(work),
        lasting,
    };
    let first = {
        let mut patience = pin!(sleep(PATIENCE));
        poll_fn(|context| {
            told.waits.register(context.waker());
            if let Some(work) = &mut goes_on.work
                && let Poll::Ready(done) = work.as_mut().poll(context)
            {
                return Poll::Ready(First::Done(done));
            }
            if told.anything() {
                return Poll::Ready(First::Stream);
            }
            patience.as_mut().poll(context).map(|()| First::Stream)
        })
        .await
    };
    let work = goes_on.work.take();
    match first {
        First::Done(Some(frame)) if !told.anything() => only(frame),
        First::Done(frame) => {
            let (sender, receiver) = mpsc::channel(FRAMES + 1);
            told.stream(sender.clone());
            if let Some(frame) = frame {
                sender.try_send(frame).ok();
            }
            drop(told);
            sse(receiver, None)
        }
        First::Stream => {
            let (sender, receiver) = mpsc::channel(FRAMES);
            told.stream(sender.clone());
            if let Some(mut work) = work {
                tasks.spawn(async move {
                    let done = tokio::select! {
                        done = &mut work => done,
                        () = sender.closed() => {
                            told.gone.cancel();
                            if lasting { work.await } else { None }
                        }
                    };
                    if let Some(frame) = done {
                        sender.send(frame).await.ok();
                    }
                });
            }
            sse(receiver, None)
        }
    }
}
