//! A running server, as others see it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use wharfinger_wire::connection::{self, Call, Event};
use wharfinger_wire::era::ServerDescription;
use wharfinger_wire::json::Raw;

use super::connect::{Live, Lost};
use super::discovery::{List, Lists, Pages};
use super::error::{CallError, StartError};
use super::health::LastPing;
use super::ladder::Ladder;
use super::server::{Answer, Ask, Phase, Server, State};
use super::stderr::Lines;
use super::turn::{HasTurn, Turn};
use super::{Audience, Context, Gate, Note, Ping, Spec};
use crate::model::Status;

/// A server, as others hold it: not started until the first call. When the last handle goes, its process ends.
#[derive(Clone, Debug)]
pub struct ServerHandle {
    asks: mpsc::Sender<Ask>,
    state: watch::Receiver<State>,
    spec: Arc<Spec>,
    stderr: Lines,
    /// Calls that wait for their turn.
    queued: Arc<AtomicUsize>,
    queue_limit: usize,
    gate: Gate,
    last_ping: LastPing,
    audience: Ear,
}

/// Whoever hears of calls.
#[derive(Clone)]
struct Ear(Arc<dyn Audience>);

impl fmt::Debug for Ear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ear")
    }
}

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

/// Keeps a running server from being stopped as idle, until dropped.
#[derive(Debug)]
pub struct Hold(Arc<Live>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.activity.end();
    }
}

impl ServerHandle {
    /// Makes a server; nothing is started. Its actor runs on the context's tasks.
    pub fn new(context: &Context, spec: Spec, audience: Arc<dyn Audience>) -> Self {
        let (asks, inbox) = mpsc::channel(64);
        let (state, states) = watch::channel(State::Idle);
        let spec = Arc::new(spec);
        let stderr = Lines::new(context.limits.stderr_lines);
        let last_ping = LastPing::default();
        let server = Server {
            context: context.clone(),
            spec: spec.clone(),
            audience: audience.clone(),
            stderr: stderr.clone(),
            asks: inbox,
            state,
            waiting: vec![],
            phase: Phase::Down,
            ladder: Ladder::new(&spec.policy),
            given_up: None,
            last_ping: last_ping.clone(),
        };
        context.tasks.spawn(server.run());
        let queue_limit = context.limits.queued_calls;
        Self {
            asks,
            state: states,
            spec,
            stderr,
            queued: Arc::default(),
            queue_limit,
            gate: context.gate.clone(),
            last_ping,
            audience: Ear(audience),
        }
    }

    /// What it was made from.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Its state at this moment.
    pub fn status(&self) -> Status {
        self.state.borrow().status()
    }

    /// Whether it ended unasked and no call has been told yet.
    pub fn has_untold_end(&self) -> bool {
        matches!(&*self.state.borrow(), State::Exited { told, .. } if !told.load(Ordering::Acquire))
    }

    /// Whether a call is in flight.
    pub fn is_busy(&self) -> bool {
        matches!(&*self.state.borrow(), State::Running(live) if live.activity.is_busy())
    }

    /// All pages of one of its lists.
    pub(crate) async fn list(
        &self,
        lists: Lists,
        limits: &crate::model::Limits,
    ) -> Result<List, String> {
        let mut pages = Pages::new(lists);
        while pages.more() {
            let params = pages.params();
            let outgoing = Outgoing {
                method: lists.method,
                params: params.as_deref(),
                log_level: None,
                progress: false,
                patience: Patience::Call,
            };
            let page = self.call(outgoing, |_| (), |_| ()).await;
            pages.add(&page.map_err(|error| error.to_string())?, limits)?;
        }
        Ok(pages.finish().0)
    }

    /// What came of the last ping, over all its processes; `None` where there was none, as with servers that have no
    /// such thing or are not [asked](crate::model::EffectivePolicy::health).
    pub fn last_ping(&self) -> Option<Ping> {
        self.last_ping.read()
    }

    /// Makes it ready without a call, as a first call would: gives when it is, or why it is not. Whoever stops waiting
    /// does not stop it from starting. A server that was given up stays so; see [`restart`](Self::restart).
    pub async fn start(&self) -> Result<(), CallError> {
        self.live().await.map(drop)
    }

    /// Ends its process, if it has one, and starts a fresh one; what went wrong before does not count any more (A91).
    /// Gives when it is ready, or why it is not.
    pub async fn restart(&self) -> Result<(), CallError> {
        let (answer, answered) = oneshot::channel();
        self.ask(Ask::Restart(answer), answered).await.map(drop)
    }

    /// Starts it, if need be, and gives what it said of itself.
    pub(crate) async fn ready(&self) -> Result<ServerDescription, CallError> {
        Ok(self.live().await?.description.clone())
    }

    /// Whether the other one is the same instance.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.asks.same_channel(&other.asks)
    }

    /// Keeps it from being stopped as idle; `None` when it does not run.
    pub fn hold(&self) -> Option<Hold> {
        let State::Running(live) = &*self.state.borrow() else {
            return None;
        };
        live.activity.enter().then(|| Hold(live.clone()))
    }

    /// Opens a subscription of the stateless era, starting the server if need be. What comes of it comes as
    /// notifications, until the call is dropped.
    pub(crate) async fn listen(&self, wanted: &RawValue) -> Result<Call, CallError> {
        let live = self.live().await?;
        let params = live.params(Some(wanted), None);
        let call = live
            .connection
            .call("subscriptions/listen", params.as_deref(), false);
        call.map_err(|error| match self.ended(error) {
            Ended::Closed => CallError::Stopped {
                server: self.spec.name.clone(),
            },
            Ended::Other(error) => error,
        })
    }

    /// What the running process said of itself.
    pub fn description(&self) -> Option<ServerDescription> {
        match &*self.state.borrow() {
            State::Running(live) => Some(live.description.clone()),
            State::Idle
            | State::Starting
            | State::Exited { .. }
            | State::Lost(_)
            | State::Pausing(_)
            | State::Failed(_) => None,
        }
    }

    /// The last lines of its standard error, over all its processes.
    pub fn stderr(&self, count: usize) -> Vec<String> {
        self.stderr.tail(count)
    }

    /// Ends its process and waits for that; the next call starts a fresh one (V71).
    pub async fn stop(&self) {
        let (done, gone) = oneshot::channel();
        if self.asks.send(Ask::Stop(done)).await.is_ok() {
            gone.await.ok();
        }
    }

    /// Waits until it runs; false when it will not by itself.
    pub async fn runs(&self) -> bool {
        let mut state = self.state.clone();
        let settled = |state: &State| matches!(state, State::Running(_) | State::Failed(_));
        let found = state.wait_for(settled).await;
        found.is_ok_and(|state| matches!(&*state, State::Running(_)))
    }

    /// Sends a notification, if it runs.
    pub fn notify(&self, method: &str, params: Option<&RawValue>) {
        if let State::Running(live) = &*self.state.borrow() {
            // A server that does not read what it is sent will be seen by the next call.
            live.connection.notify(method, params).ok();
        }
    }

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

    async fn live(&self) -> Result<Arc<Live>, CallError> {
        if let State::Running(live) = &*self.state.borrow() {
            return Ok(live.clone());
        }
        let (answer, answered) = oneshot::channel();
        self.ask(Ask::Start(answer), answered).await
    }

    async fn ask(
        &self,
        ask: Ask,
        answered: oneshot::Receiver<Answer>,
    ) -> Result<Arc<Live>, CallError> {
        let failed = |error| CallError::Start {
            server: self.spec.name.clone(),
            error,
        };
        let asked = self.asks.send(ask).await;
        asked.map_err(|_| failed(StartError::Stopped))?;
        answered
            .await
            .unwrap_or(Err(StartError::Stopped))
            .map_err(failed)
    }

    async fn changed_from(&self, live: &Arc<Live>) {
        let mut state = self.state.clone();
        let other = |state: &State| !matches!(state, State::Running(now) if Arc::ptr_eq(now, live));
        state.wait_for(other).await.ok();
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

    fn ended(&self, error: connection::CallError) -> Ended {
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

/// Starts servers, all at once, and waits for all of them together, so long at most (A143). Gives what became of each;
/// `None` for one that is not ready yet: it goes on starting, and joins when it is.
pub async fn start_all(
    handles: &[ServerHandle],
    budget: Duration,
) -> Vec<Option<Result<(), CallError>>> {
    let end = Instant::now() + budget;
    let mut starts: Vec<_> = handles
        .iter()
        .map(|handle| Box::pin(handle.start()))
        .collect();
    // Asked for one after the other, they start side by side: each in its own actor.
    let mut all = Vec::with_capacity(starts.len());
    for start in &mut starts {
        all.push(timeout(Duration::ZERO, start).await.ok());
    }
    for (start, done) in starts.iter_mut().zip(&mut all) {
        if done.is_none() {
            *done = timeout_at(end, start).await.ok();
        }
    }
    all
}

/// Longer calls and results are told by their size. They are copied whole, since half a secret is not known as one.
const WORTH_SHOWING: usize = 1 << 20;

/// Far beyond any session.
const ENDLESS: Duration = Duration::from_secs(365 * 86_400);

enum Ended {
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
