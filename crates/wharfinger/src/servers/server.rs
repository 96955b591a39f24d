//! The actor of one instance: everything that happens to it, in one place.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::connect::{Started, TAIL, connect};
use super::health::{LastPing, Pong};
use super::ladder::{Ladder, Step};
use super::state::{Answer, Ask, Lost, State};
use super::stderr::Lines;
use super::up::{Future, Next, Up};
use super::{Audience, Context, Discovered, Note, Spec, StartError};
use crate::launch::{Grace, Process};
use crate::model::Exit;

/// An instance, from the inside.
pub(super) struct Server {
    pub(super) context: Context,
    pub(super) spec: Arc<Spec>,
    pub(super) audience: Arc<dyn Audience>,
    pub(super) stderr: Lines,
    pub(super) asks: mpsc::Receiver<Ask>,
    pub(super) state: watch::Sender<State>,
    pub(super) waiting: Vec<oneshot::Sender<Answer>>,
    pub(super) phase: Phase,
    pub(super) ladder: Ladder,
    /// Why it stays down until somebody starts it.
    pub(super) given_up: Option<StartError>,
    pub(super) last_ping: LastPing,
}

/// What the actor is doing.
pub(super) enum Phase {
    Down,
    /// Until the next attempt.
    Pausing(Instant, Step),
    Starting(Future<Result<Started, StartError>>, CancellationToken),
    Up(Box<Up>),
}

impl Server {
    pub(super) async fn run(mut self) {
        loop {
            match self.next().await {
                Next::Asked(Some(Ask::Start(answer))) => self.start(answer),
                Next::Asked(Some(Ask::Stop(done))) => {
                    self.stop(State::Idle).await;
                    done.send(()).ok();
                }
                Next::Asked(Some(Ask::Restart(answer))) => {
                    self.stop(State::Idle).await;
                    self.start(answer);
                }
                Next::Asked(None) | Next::Stopped => break,
                Next::Halted => self.stop(State::Idle).await,
                Next::PauseOver(step) => self.attempt(step.limit),
                Next::PingDue => self.ping(),
                Next::Ponged(pong) => self.ponged(&pong),
                Next::Started(result) => self.started(result),
                Next::Exited(exit) => self.exited(exit).await,
                Next::Closed => self.closed().await,
                Next::MaybeIdle => self.stop_if_idle().await,
                Next::ListChanged => self.relist(),
                Next::Listed(result) => self.listed(result),
            }
        }
        // Another may have its place by now: of one that does not run there is nothing to tell.
        if !matches!(self.phase, Phase::Down | Phase::Pausing(..)) {
            self.stop(State::Idle).await;
        }
    }

    async fn next(&mut self) -> Next {
        let idle = self.spec.policy.idle_timeout;
        let (stop, gate) = (self.context.stop.clone(), self.context.gate.clone());
        let is_down = matches!(self.phase, Phase::Down);
        let happening = async {
            match &mut self.phase {
                Phase::Down => pending().await,
                Phase::Pausing(until, step) => {
                    sleep_until(*until).await;
                    Next::PauseOver(*step)
                }
                Phase::Starting(starting, _) => Next::Started(starting.await),
                Phase::Up(up) => up.next(idle).await,
            }
        };
        tokio::select! {
            ask = self.asks.recv() => Next::Asked(ask),
            () = stop.cancelled() => Next::Stopped,
            () = gate.until_shut(), if !is_down => Next::Halted,
            next = happening => next,
        }
    }

    fn publish(&self, state: State) {
        self.audience.note(Note::Status(state.status()));
        self.state.send_replace(state);
    }

    /// A line for people, where it is supervised.
    fn tell(&self, text: impl Into<String>, failed: bool) {
        if self.spec.policy.is_supervised() {
            let text = text.into();
            self.audience.note(Note::System { text, failed });
        }
    }

    fn start(&mut self, answer: oneshot::Sender<Answer>) {
        match &self.phase {
            Phase::Up(up) => drop(answer.send(Ok(up.started.live.clone()))),
            // The attempt in flight is everybody's.
            Phase::Starting(..) | Phase::Pausing(..) => self.waiting.push(answer),
            Phase::Down => {
                let halted = self.context.gate.halted().map(StartError::Halted);
                if let Some(error) = halted.or_else(|| self.given_up.clone()) {
                    answer.send(Err(error)).ok();
                    return;
                }
                self.waiting.push(answer);
                self.ladder.asked();
                self.attempt(self.ladder.limit());
            }
        }
    }

    /// Starts it, once.
    fn attempt(&mut self, limit: Duration) {
        self.tell("starting", false);
        self.publish(State::Starting);
        let (context, spec) = (self.context.clone(), self.spec.clone());
        let (stderr, audience) = (self.stderr.clone(), self.audience.clone());
        let cancel = self.context.stop.child_token();
        let cancelled = cancel.clone();
        let starting =
            async move { connect(&context, &spec, limit, &stderr, &audience, &cancelled).await };
        self.phase = Phase::Starting(Box::pin(starting), cancel);
    }

    fn started(&mut self, result: Result<Started, StartError>) {
        match result {
            Ok(started) => self.is_up(started),
            Err(error) => self.failed(error),
        }
    }

    fn is_up(&mut self, started: Started) {
        let live = started.live.clone();
        let version = live.description.version.as_str();
        self.tell(format!("running (pid {}, MCP {version})", live.pid), false);
        self.last_ping.forgive();
        // What it was remembered for may have been another version of it.
        self.phase = Phase::Up(Box::new(Up::new(started, self.spec.policy.health)));
        self.publish(State::Running(live.clone()));
        self.relist();
        self.answer(&Ok(live));
    }

    /// An attempt has failed. Whether another one follows is the ladder's business alone.
    fn failed(&mut self, error: StartError) {
        self.phase = Phase::Down;
        let next = match &error {
            // Nobody's fault, and nothing to be tried again.
            StartError::Stopped | StartError::Halted(_) => None,
            StartError::Spawn(_)
            | StartError::Exited { .. }
            | StartError::TimedOut { .. }
            | StartError::Protocol { .. }
            | StartError::List { .. }
            | StartError::Prepare(_)
            | StartError::Again { .. }
            | StartError::GaveUp { .. } => Some(self.ladder.next()),
        };
        match next {
            Some(Some(step)) => {
                let error = StartError::Again {
                    reason: error.reason(),
                    wait: step.wait,
                    number: step.number,
                    of: step.of,
                };
                self.tell(error.to_string(), true);
                self.phase = Phase::Pausing(Instant::now() + step.wait, step);
                self.publish(State::Pausing(error.clone()));
                if !step.inline {
                    self.answer(&Err(error));
                }
            }
            Some(None) if self.spec.policy.is_supervised() => {
                let error = self.give_up(error.reason());
                self.tell(error.to_string(), true);
                self.publish(State::Failed(error.clone()));
                self.answer(&Err(error));
            }
            Some(None) | None => {
                self.publish(match &error {
                    // It is nothing that is wrong with this server.
                    StartError::Halted(_) => State::Idle,
                    _ => State::Failed(error.clone()),
                });
                self.answer(&Err(error));
            }
        }
    }

    fn give_up(&mut self, reason: String) -> StartError {
        let error = StartError::GaveUp {
            server: self.spec.name.clone(),
            tries: self.ladder.tries(),
            reason,
        };
        self.given_up = Some(error.clone());
        error
    }

    fn answer(&mut self, answer: &Answer) {
        for waiting in self.waiting.drain(..) {
            waiting.send(answer.clone()).ok();
        }
    }

    fn ping(&mut self) {
        if let (Phase::Up(up), Some(health)) = (&mut self.phase, self.spec.policy.health) {
            up.ping(health);
        }
    }

    /// A failure is told and counted, and that is all: a server may be busy with a call and alive.
    fn ponged(&mut self, pong: &Pong) {
        if let Phase::Up(up) = &mut self.phase {
            up.ponged();
        }
        let failed = self.last_ping.record(pong);
        if let Err(reason) = &pong.answer {
            self.tell(format!("ping failed: {reason} ({failed} in a row)"), true);
        }
    }

    /// Looks whether its tools are still those that are known.
    fn relist(&mut self) {
        let limits = self.context.limits.clone();
        if let Phase::Up(up) = &mut self.phase {
            up.list(limits, self.spec.policy.startup_timeout);
        }
    }

    fn listed(&mut self, result: Result<Discovered, String>) {
        if let Phase::Up(up) = &mut self.phase
            && up.listed()
        {
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
        if self.audience.keeps() {
            up.started.live.activity.put_off();
            return;
        }
        if up.started.live.activity.stop_if_idle(idle) {
            tracing::info!(server = %self.spec.name, "idle, so it is stopped");
            self.tell("idle", false);
            self.stop(State::Idle).await;
            // Somebody came who took it for a running one.
            if self.audience.keeps() {
                self.start(oneshot::channel().0);
            }
        }
    }

    /// It ended unasked. What it left behind is ended before anybody is told.
    async fn exited(&mut self, exit: Exit) {
        let Phase::Up(mut up) = std::mem::replace(&mut self.phase, Phase::Down) else {
            return;
        };
        up.started.live.activity.stop();
        end(&self.context, &mut up.started.process, Duration::ZERO).await;
        // Its last words may still be in the pipe.
        timeout(Duration::from_millis(500), &mut up.started.drained)
            .await
            .ok();
        let stderr = up.started.own.tail(TAIL);
        tracing::warn!(server = %self.spec.name, %exit, "exited unasked");
        self.tell(format!("exited ({exit})"), true);
        let state = if self.spec.policy.is_supervised() {
            self.lost(exit, stderr, &up)
        } else {
            State::Exited {
                exit,
                stderr,
                told: Arc::default(),
            }
        };
        self.publish(state);
        // Only now do calls in flight end, so that they find out how.
        up.started.live.connection.abandon();
    }

    /// It ended unasked and is supervised: what happens next.
    fn lost(&mut self, exit: Exit, stderr: Vec<String>, up: &Up) -> State {
        self.ladder.lost(up.since().elapsed());
        let next = if let Some(step) = self.ladder.next() {
            self.phase = Phase::Pausing(Instant::now() + step.wait, step);
            let seconds = step.wait.as_secs_f64();
            let Step { number, of, .. } = step;
            format!("It is started again in {seconds} s ({number} of {of}).")
        } else {
            self.give_up(format!("it exited ({exit})"));
            let (tries, name) = (self.ladder.tries(), &self.spec.name);
            format!(
                "It was started again {tries} times and is given up; `mcp_restart` or `wharf restart {name}` starts it."
            )
        };
        self.tell(format!("Connection lost. {next}"), true);
        let lost = Arc::new(Lost {
            exit,
            stderr,
            next,
            told: AtomicBool::new(false),
        });
        up.started.live.lost.set(lost.clone()).ok();
        State::Lost(lost)
    }

    async fn closed(&mut self) {
        let Phase::Up(mut up) = std::mem::replace(&mut self.phase, Phase::Down) else {
            return;
        };
        let process = &mut up.started.process;
        let exit = match timeout(Duration::from_secs(1), process.wait()).await {
            Ok(exit) => exit,
            Err(_) => end(&self.context, process, Duration::ZERO).await,
        };
        self.phase = Phase::Up(up);
        self.exited(exit).await;
    }

    async fn stop(&mut self, state: State) {
        self.given_up = None;
        match std::mem::replace(&mut self.phase, Phase::Down) {
            Phase::Down => {}
            Phase::Pausing(..) => self.answer(&Err(self.context.stopped())),
            Phase::Starting(starting, cancel) => {
                cancel.cancel();
                if let Ok(mut started) = starting.await {
                    started.live.connection.close();
                    let exit = self.context.grace().exit;
                    end(&self.context, &mut started.process, exit).await;
                }
                self.answer(&Err(self.context.stopped()));
            }
            Phase::Up(mut up) => {
                up.started.live.activity.stop();
                up.take_back();
                let mut exit = self.context.grace().exit;
                if self.spec.browser {
                    // At the end of its input it kills its browser, whose logins of the last half minute are lost
                    // then (V38); on SIGTERM it closes it.
                    let process = &mut up.started.process;
                    self.context.gate.ask_to_end(process, exit).await;
                    exit = Duration::ZERO;
                }
                up.started.live.connection.close();
                end(&self.context, &mut up.started.process, exit).await;
                up.started.live.connection.abandon();
                self.tell("stopped", false);
            }
        }
        self.publish(state);
    }
}

/// Ends a process, with so much time until SIGTERM.
async fn end(context: &Context, process: &mut Process, exit: Duration) -> Exit {
    let grace = Grace {
        exit,
        ..context.grace()
    };
    context.gate.end(process, grace).await
}
