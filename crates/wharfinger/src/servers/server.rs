//! The actor of one instance: everything that happens to it, in one place.

use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::json;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use wharfinger_wire::connection::Call;
use wharfinger_wire::json::{Object, raw};

use super::connect::{Live, Started, TAIL, connect};
use super::discovery::list;
use super::stderr::Lines;
use super::{Audience, Context, Discovered, Note, Spec, StartError};
use crate::launch::Grace;
use crate::model::{Exit, Status};

/// What others ask of an instance.
pub(super) enum Ask {
    /// Be ready. Many may ask; it starts once (V58).
    Start(oneshot::Sender<Result<Arc<Live>, StartError>>),
    /// End the process; the next start is a fresh one. Answered when it is gone.
    Stop(oneshot::Sender<()>),
}

/// The state of an instance, as callers see it.
#[derive(Clone, Debug)]
pub(super) enum State {
    Idle,
    Starting,
    Running(Arc<Live>),
    /// It ended unasked; the first to see it tells its agent.
    Exited {
        exit: Exit,
        stderr: Vec<String>,
        told: Arc<AtomicBool>,
    },
    Failed(StartError),
}

impl State {
    pub(super) fn status(&self) -> Status {
        match self {
            Self::Idle => Status::NotStarted,
            Self::Starting => Status::Starting,
            Self::Running(live) => Status::Running { pid: live.pid },
            Self::Exited { exit, .. } => Status::Exited { exit: *exit },
            Self::Failed(error) => Status::Failed {
                reason: error.to_string(),
            },
        }
    }
}

type Future<T> = Pin<Box<dyn std::future::Future<Output = T> + Send>>;

/// An instance, from the inside.
pub(super) struct Server {
    pub(super) context: Context,
    pub(super) spec: Arc<Spec>,
    pub(super) audience: Arc<dyn Audience>,
    pub(super) stderr: Lines,
    pub(super) asks: mpsc::Receiver<Ask>,
    pub(super) state: watch::Sender<State>,
    pub(super) waiting: Vec<oneshot::Sender<Result<Arc<Live>, StartError>>>,
    pub(super) phase: Phase,
}

/// What the actor is doing.
pub(super) enum Phase {
    Down,
    Starting(Future<Result<Started, StartError>>, CancellationToken),
    Up(Box<Up>),
}

/// A running process and what goes on beside its calls.
pub(super) struct Up {
    started: Started,
    /// Keeps the subscription to changes of the tool list open, where the era has one.
    subscription: Option<Call>,
    listing: Option<Future<Result<Discovered, String>>>,
    /// Another change came while it was listed.
    again: bool,
    /// The pause before the next listing; longer while changes keep coming.
    pause: Duration,
    listed: Instant,
}

/// All that can happen.
enum Next {
    Asked(Option<Ask>),
    Started(Result<Started, StartError>),
    Exited(Exit),
    /// It closed its output but lives.
    Closed,
    MaybeIdle,
    ListChanged,
    Listed(Result<Discovered, String>),
    Stopped,
}

/// A burst of changes is one change.
const SETTLE: Duration = Duration::from_millis(100);
/// The longest pause between two listings of a server that never stops changing.
const LONGEST: Duration = Duration::from_secs(30);

impl Server {
    pub(super) async fn run(mut self) {
        loop {
            match self.next().await {
                Next::Asked(Some(Ask::Start(answer))) => self.start(answer),
                Next::Asked(Some(Ask::Stop(done))) => {
                    self.stop(State::Idle).await;
                    done.send(()).ok();
                }
                Next::Asked(None) | Next::Stopped => break,
                Next::Started(result) => self.started(result),
                Next::Exited(exit) => self.exited(exit).await,
                Next::Closed => self.closed().await,
                Next::MaybeIdle => self.stop_if_idle().await,
                Next::ListChanged => self.relist(),
                Next::Listed(result) => self.listed(result),
            }
        }
        self.stop(State::Idle).await;
    }

    async fn next(&mut self) -> Next {
        let idle = self.spec.policy.idle_timeout;
        let stop = self.context.stop.clone();
        let happening = async {
            match &mut self.phase {
                Phase::Down => pending().await,
                Phase::Starting(starting, _) => Next::Started(starting.await),
                Phase::Up(up) => up.next(idle).await,
            }
        };
        tokio::select! {
            ask = self.asks.recv() => Next::Asked(ask),
            () = stop.cancelled() => Next::Stopped,
            next = happening => next,
        }
    }

    fn publish(&self, state: State) {
        self.audience.note(Note::Status(state.status()));
        self.state.send_replace(state);
    }

    fn start(&mut self, answer: oneshot::Sender<Result<Arc<Live>, StartError>>) {
        match &self.phase {
            Phase::Up(up) => drop(answer.send(Ok(up.started.live.clone()))),
            Phase::Starting(..) => self.waiting.push(answer),
            Phase::Down => {
                self.waiting.push(answer);
                self.publish(State::Starting);
                let (context, spec) = (self.context.clone(), self.spec.clone());
                let (stderr, audience) = (self.stderr.clone(), self.audience.clone());
                let cancel = self.context.stop.child_token();
                let cancelled = cancel.clone();
                let starting =
                    async move { connect(&context, &spec, &stderr, &audience, &cancelled).await };
                self.phase = Phase::Starting(Box::pin(starting), cancel);
            }
        }
    }

    fn started(&mut self, result: Result<Started, StartError>) {
        let answer = result
            .as_ref()
            .map(|started| started.live.clone())
            .map_err(Clone::clone);
        match result {
            Ok(started) => {
                let live = started.live.clone();
                // What it was remembered for may have been another version of it.
                self.phase = Phase::Up(Box::new(Up {
                    subscription: subscribe(&live),
                    listing: None,
                    again: false,
                    pause: SETTLE,
                    listed: Instant::now(),
                    started,
                }));
                self.publish(State::Running(live));
                self.relist();
            }
            Err(error) => {
                self.phase = Phase::Down;
                self.publish(State::Failed(error));
            }
        }
        for waiting in self.waiting.drain(..) {
            waiting.send(answer.clone()).ok();
        }
    }

    /// Looks whether its tools are still those that are known.
    fn relist(&mut self) {
        let limits = self.context.limits.clone();
        let limit = self.spec.policy.startup_timeout;
        if let Phase::Up(up) = &mut self.phase {
            if up.listing.is_some() {
                up.again = true;
                return;
            }
            let quiet = up.listed.elapsed() > 2 * LONGEST;
            let pause = if quiet { SETTLE } else { up.pause };
            up.pause = (pause * 2).min(LONGEST);
            let live = up.started.live.clone();
            up.listing = Some(Box::pin(async move {
                sleep(pause).await;
                timeout(limit, list(&live, &limits, limit))
                    .await
                    .unwrap_or_else(|_| Err("it did not answer in time".into()))
            }));
        }
    }

    fn listed(&mut self, result: Result<Discovered, String>) {
        let mut again = false;
        if let Phase::Up(up) = &mut self.phase {
            up.listing = None;
            up.listed = Instant::now();
            again = std::mem::take(&mut up.again);
        }
        if again {
            self.relist();
        }
        match result {
            Ok(discovered) => self.audience.note(Note::Tools(Box::new(discovered))),
            Err(reason) => {
                let text = format!("its tools could not be listed again: {reason}");
                self.audience.note(Note::Noise(text));
            }
        }
    }

    async fn stop_if_idle(&mut self) {
        let idle = self.spec.policy.idle_timeout.unwrap_or(Duration::MAX);
        let Phase::Up(up) = &self.phase else { return };
        if up.started.live.activity.stop_if_idle(idle) {
            tracing::info!(server = %self.spec.name, "idle, so it is stopped");
            self.stop(State::Idle).await;
        }
    }

    /// It ended unasked. What it left behind is ended before anybody is told.
    async fn exited(&mut self, exit: Exit) {
        let Phase::Up(mut up) = std::mem::replace(&mut self.phase, Phase::Down) else {
            return;
        };
        up.started.live.activity.stop();
        up.started
            .process
            .stop(Grace {
                exit: Duration::ZERO,
                ..self.context.grace()
            })
            .await;
        // Its last words may still be in the pipe.
        timeout(Duration::from_millis(500), &mut up.started.drained)
            .await
            .ok();
        let stderr = up.started.own.tail(TAIL);
        tracing::warn!(server = %self.spec.name, %exit, "exited unasked");
        self.publish(State::Exited {
            exit,
            stderr,
            told: Arc::default(),
        });
        // Only now do calls in flight end, so that they find out how.
        up.started.live.connection.abandon();
    }

    async fn closed(&mut self) {
        let Phase::Up(up) = &mut self.phase else {
            return;
        };
        let exit = match timeout(Duration::from_secs(1), up.started.process.wait()).await {
            Ok(exit) => exit,
            Err(_) => {
                up.started
                    .process
                    .stop(Grace {
                        exit: Duration::ZERO,
                        ..self.context.grace()
                    })
                    .await
            }
        };
        self.exited(exit).await;
    }

    async fn stop(&mut self, state: State) {
        match std::mem::replace(&mut self.phase, Phase::Down) {
            Phase::Down => {}
            Phase::Starting(starting, cancel) => {
                cancel.cancel();
                if let Ok(mut started) = starting.await {
                    started.live.connection.close();
                    started.process.stop(self.context.grace()).await;
                }
                for waiting in self.waiting.drain(..) {
                    waiting.send(Err(StartError::Stopped)).ok();
                }
            }
            Phase::Up(mut up) => {
                up.started.live.activity.stop();
                up.listing = None;
                // Some servers wait for their open requests before they exit, so it is taken back first.
                up.subscription = None;
                let mut grace = self.context.grace();
                if self.spec.browser {
                    // At the end of its input it kills its browser, whose logins of the last half minute are lost
                    // then (V38); on SIGTERM it closes it.
                    up.started.process.ask_to_end(grace.exit).await;
                    grace.exit = Duration::ZERO;
                }
                up.started.live.connection.close();
                up.started.process.stop(grace).await;
                up.started.live.connection.abandon();
            }
        }
        self.publish(state);
    }
}

impl Up {
    async fn next(&mut self, idle: Option<Duration>) -> Next {
        let live = &self.started.live;
        let idle = async {
            match idle {
                Some(idle) => sleep_until(live.activity.idle_at(idle)).await,
                None => pending().await,
            }
        };
        let listed = async {
            match &mut self.listing {
                Some(listing) => listing.await,
                None => pending().await,
            }
        };
        tokio::select! {
            exit = self.started.process.wait() => Next::Exited(exit),
            () = live.connection.closed() => Next::Closed,
            listed = listed => Next::Listed(listed),
            () = self.started.changed.notified() => Next::ListChanged,
            () = idle => Next::MaybeIdle,
        }
    }
}

/// Servers of the stateless era tell of changes only to those who listen.
fn subscribe(live: &Live) -> Option<Call> {
    if !live.description.version.is_modern() {
        return None;
    }
    let capabilities = Object::from_raw(&live.description.capabilities).ok()?;
    let mut wanted = Object::new();
    for (capability, filter) in [
        ("tools", "toolsListChanged"),
        ("prompts", "promptsListChanged"),
        ("resources", "resourcesListChanged"),
    ] {
        let tells = capabilities.object(capability).is_some_and(|capability| {
            let tells = capability.get("listChanged");
            tells.is_some_and(|tells| tells.get() == "true")
        });
        if tells {
            wanted.set(filter, raw(&true));
        }
    }
    if wanted.is_empty() {
        return None;
    }
    let wanted = raw(&json!({ "notifications": wanted.to_raw() }));
    let params = live.params(Some(&wanted), None);
    live.connection
        .call("subscriptions/listen", params.as_deref(), false)
        .ok()
}
