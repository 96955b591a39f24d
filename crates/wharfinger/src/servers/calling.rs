//! Calls of a running server: their turn, their limit, and what they hear when it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::{Instant, sleep_until, timeout};
use wharfinger_wire::connection::{self, Event};
use wharfinger_wire::json::Raw;

use super::Note;
use super::connect::Live;
use super::error::CallError;
use super::handle::ServerHandle;
use super::state::{Lost, State};
use super::turn::{HasTurn, Turn};

/// One request to a server.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// Its method.
    pub method: &'a str,
    /// Its params, as the client sent them.
    pub params: Option<&'a RawValue>,
    /// From which level on log messages are wanted, where the era says so with each request.
    pub log_level: Option<&'a str>,
    /// Whether progress is wanted.
    pub progress: bool,
    /// What it waits for.
    pub patience: Patience,
}

/// What a request waits for, its turn and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Its turn among the calls of this kind (V50), then the limit of a call (V64).
    Turn,
    /// No turn; the limit of a call.
    Call,
    /// No turn and no limit: the result of a task, say.
    Endless,
}

impl ServerHandle {
    /// Makes a request, starting the server if need be, and gives progress to `on_progress` in order. What `on_turn`
    /// gives is held from when its turn has come until its reply is there, and let go before the next one's turn.
    /// Dropping the future cancels the request at the server (V65).
    ///
    /// Where a server is supervised, and has ended unasked, the first call afterwards is refused at once: it may rely on
    /// what was lost (A165). Later ones wait for the attempt in flight, for as long as a call may take.
    pub async fn call<Held>(
        &self,
        outgoing: Outgoing<'_>,
        on_turn: impl Fn(Option<&Turn>) -> Held + Send,
        on_progress: impl FnMut(Raw) + Send,
    ) -> Result<Raw, CallError> {
        if !self.spec.policy.log_calls || outgoing.patience != Patience::Turn {
            return self.make(outgoing, on_turn, on_progress).await;
        }
        let note = |head: String, body: &str, failed| {
            // The beginning of something this long is not worth a copy of it.
            let body = if body.len() > WORTH_SHOWING {
                format!("({} bytes)", body.len())
            } else {
                body.to_owned()
            };
            self.audience.0.note(Note::Exchange { head, body, failed });
        };
        let params = outgoing.params.map_or("", RawValue::get);
        note("call".into(), params, false);
        let began = Instant::now();
        let reply = self.make(outgoing, on_turn, on_progress).await;
        let head = format!("result after {} ms", began.elapsed().as_millis());
        match &reply {
            Ok(result) => note(head, result.get(), false),
            Err(error) => note(head, &error.to_string(), true),
        }
        reply
    }

    async fn make<Held>(
        &self,
        outgoing: Outgoing<'_>,
        on_turn: impl Fn(Option<&Turn>) -> Held + Send,
        mut on_progress: impl FnMut(Raw) + Send,
    ) -> Result<Raw, CallError> {
        let server = self.spec.name.clone();
        self.tell_of_death()?;
        // A second round only when it went idle between being found and being asked: nothing was sent then.
        for _ in 0..3 {
            let live = self.live_for(outgoing.patience).await?;
            let Some(busy) = live.activity.begin() else {
                self.changed_from(&live).await;
                continue;
            };
            let turn = match outgoing.patience {
                Patience::Turn => Some(self.turn(&live).await?),
                Patience::Call | Patience::Endless => None,
            };
            let held = on_turn(turn.as_ref().map(|has| &has.0));
            let reply = self.exchange(&live, outgoing, &mut on_progress).await;
            drop(held);
            drop((turn, busy));
            return match reply {
                Err(Ended::Closed) => Err(self.why_closed(&live).await),
                Err(Ended::Other(error)) => Err(error),
                Ok(reply) => Ok(reply),
            };
        }
        Err(CallError::Stopped { server })
    }

    /// The first call after an unasked end hears of it (V61).
    fn tell_of_death(&self) -> Result<(), CallError> {
        match &*self.state.borrow() {
            State::Exited { exit, stderr, told } if !told.swap(true, Ordering::AcqRel) => {
                Err(CallError::Exited {
                    server: self.spec.name.clone(),
                    exit: *exit,
                    browser: self.spec.browser,
                    stderr: stderr.clone(),
                })
            }
            State::Lost(lost) if !lost.told.swap(true, Ordering::AcqRel) => Err(self.lost(lost)),
            State::Idle
            | State::Starting
            | State::Running(_)
            | State::Exited { .. }
            | State::Lost(_)
            | State::Pausing(_)
            | State::Failed(_) => Ok(()),
        }
    }

    fn lost(&self, lost: &Lost) -> CallError {
        CallError::Lost {
            server: self.spec.name.clone(),
            exit: lost.exit,
            browser: self.spec.browser,
            next: lost.next.clone(),
            stderr: lost.stderr.clone(),
        }
    }

    /// A call to a supervised server waits no longer than a call may take: attempts go on without it.
    async fn live_for(&self, patience: Patience) -> Result<Arc<Live>, CallError> {
        if !self.spec.policy.is_supervised() || patience == Patience::Endless {
            return self.live().await;
        }
        let limit = self.spec.policy.call_timeout;
        timeout(limit, self.live()).await.unwrap_or_else(|_| {
            Err(CallError::NotReady {
                server: self.spec.name.clone(),
                status: self.status(),
                limit,
            })
        })
    }

    async fn turn(&self, live: &Live) -> Result<HasTurn, CallError> {
        let server = || self.spec.name.clone();
        let has = |permit| HasTurn(Turn::new(live.turn.clone(), permit));
        if let Ok(permit) = live.turn.clone().try_acquire_owned() {
            return Ok(has(permit));
        }
        let queued =
            Queued::join(&self.queued, self.queue_limit).ok_or_else(|| CallError::Busy {
                server: server(),
                limit: self.queue_limit,
            })?;
        let limit = self.spec.policy.call_timeout;
        let turn = timeout(limit, live.turn.clone().acquire_owned()).await;
        drop(queued);
        match turn {
            Ok(permit) => permit
                .map(has)
                .map_err(|_| CallError::Stopped { server: server() }),
            Err(_) => Err(CallError::NoTurn {
                server: server(),
                limit,
            }),
        }
    }

    async fn exchange(
        &self,
        live: &Live,
        outgoing: Outgoing<'_>,
        on_progress: &mut (impl FnMut(Raw) + Send),
    ) -> Result<Raw, Ended> {
        let limit = match outgoing.patience {
            Patience::Turn | Patience::Call => self.spec.policy.call_timeout,
            Patience::Endless => ENDLESS,
        };
        let params = live.params(outgoing.params, outgoing.log_level);
        let mut call = live
            .connection
            .call(outgoing.method, params.as_deref(), outgoing.progress)
            .map_err(|error| self.ended(error))?;
        let mut deadline = Instant::now() + limit;
        loop {
            tokio::select! {
                event = call.next() => match event {
                    Event::Progress(progress) => {
                        if self.spec.policy.progress_extends {
                            deadline = Instant::now() + limit;
                        }
                        on_progress(progress);
                    }
                    Event::Reply(reply) => return reply.map_err(|error| self.ended(error)),
                },
                () = sleep_until(deadline) => {
                    // It waits for its client, which takes the time that people take.
                    if live.questions.any() {
                        deadline = Instant::now() + limit;
                        continue;
                    }
                    call.cancel("the call took too long");
                    let server = self.spec.name.clone();
                    return Err(Ended::Other(CallError::TimedOut { server, limit }));
                }
            }
        }
    }

    pub(super) fn ended(&self, error: connection::CallError) -> Ended {
        let server = self.spec.name.clone();
        match error {
            connection::CallError::Closed => Ended::Closed,
            connection::CallError::Server(error) => {
                Ended::Other(CallError::Server { server, error })
            }
            connection::CallError::Busy { limit } => {
                Ended::Other(CallError::Busy { server, limit })
            }
            error @ (connection::CallError::Malformed { .. }
            | connection::CallError::TooLarge { .. }
            | connection::CallError::QueueFull { .. }) => Ended::Other(CallError::Unreadable {
                server,
                reason: error.to_string(),
            }),
        }
    }

    /// The connection went during the call: the actor finds out how, and the call waits for it.
    async fn why_closed(&self, live: &Arc<Live>) -> CallError {
        let wait = Duration::from_secs(30);
        timeout(wait, self.changed_from(live)).await.ok();
        if let Some(lost) = live.lost.get() {
            lost.told.store(true, Ordering::Release);
            return self.lost(lost);
        }
        if let Some(halted) = self.gate.halted() {
            let server = self.spec.name.clone();
            return CallError::Halted { server, halted };
        }
        match self.tell_of_death() {
            Err(death) => death,
            Ok(()) => match &*self.state.borrow() {
                // Another call was told first; this one is told all the same.
                State::Exited { exit, stderr, .. } => CallError::Exited {
                    server: self.spec.name.clone(),
                    exit: *exit,
                    browser: self.spec.browser,
                    stderr: stderr.clone(),
                },
                State::Idle
                | State::Starting
                | State::Running(_)
                | State::Lost(_)
                | State::Pausing(_)
                | State::Failed(_) => CallError::Stopped {
                    server: self.spec.name.clone(),
                },
            },
        }
    }
}

/// Longer calls and results are told by their size. They are copied whole, since half a secret is not known as one.
const WORTH_SHOWING: usize = 1 << 20;

/// Far beyond any session.
const ENDLESS: Duration = Duration::from_secs(365 * 86_400);

/// Why a request has no answer.
pub(super) enum Ended {
    Closed,
    Other(CallError),
}

/// A place in the queue, until dropped.
struct Queued<'a>(&'a AtomicUsize);

impl<'a> Queued<'a> {
    fn join(count: &'a AtomicUsize, limit: usize) -> Option<Self> {
        count
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| {
                (n < limit).then_some(n + 1)
            })
            .ok()
            .map(|_| Self(count))
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
