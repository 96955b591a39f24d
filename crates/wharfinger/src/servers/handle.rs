//! A running server, as others see it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout, timeout_at};
use wharfinger_wire::connection::Call;
use wharfinger_wire::era::ServerDescription;

use super::calling::{Ended, Outgoing, Patience};
use super::connect::Live;
use super::discovery::{List, Lists, Pages};
use super::error::{CallError, LastWords, StartError};
use super::health::LastPing;
use super::ladder::Ladder;
use super::server::{Phase, Server};
use super::state::{Answer, Ask, State};
use super::stderr::Lines;
use super::{Audience, Context, Gate, Ping, Spec};
use crate::model::Status;

/// A server, as others hold it: not started until the first call. When the last handle goes, its process ends.
#[derive(Clone, Debug)]
pub struct ServerHandle {
    pub(super) asks: mpsc::Sender<Ask>,
    pub(super) state: watch::Receiver<State>,
    pub(super) spec: Arc<Spec>,
    stderr: Lines,
    /// Calls that wait for their turn.
    pub(super) queued: Arc<AtomicUsize>,
    pub(super) queue_limit: usize,
    pub(super) gate: Gate,
    last_ping: LastPing,
    pub(super) audience: Ear,
}

/// Whoever hears of calls.
#[derive(Clone)]
pub(super) struct Ear(pub(super) Arc<dyn Audience>);

impl fmt::Debug for Ear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ear")
    }
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

    /// Why it does not run, where it should have.
    pub fn failure(&self) -> Option<StartError> {
        let ended = |exit, stderr: &Vec<String>| {
            let words = Box::new(LastWords {
                stderr: stderr.clone(),
                noise: vec![],
            });
            Some(StartError::Exited { exit, words })
        };
        match &*self.state.borrow() {
            State::Idle | State::Starting | State::Running(_) => None,
            State::Pausing(error) | State::Failed(error) => Some(error.clone()),
            State::Exited { exit, stderr, .. } => ended(*exit, stderr),
            State::Lost(lost) => ended(lost.exit, &lost.stderr),
        }
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

    pub(super) async fn live(&self) -> Result<Arc<Live>, CallError> {
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

    pub(super) async fn changed_from(&self, live: &Arc<Live>) {
        let mut state = self.state.clone();
        let other = |state: &State| !matches!(state, State::Running(now) if Arc::ptr_eq(now, live));
        state.wait_for(other).await.ok();
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
