//! From a plan to a server that is ready: start, find out its era, shake hands.

use std::any::Any;
use std::borrow::Cow;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use wharfinger_wire::connection::{self, Connection};
use wharfinger_wire::era::{
    self, ClientDescription, InitializeError, Probe, ServerDescription, Version,
};
use wharfinger_wire::json::{Object, Raw, raw_from};

use super::activity::Activity;
use super::asked::Questions;
use super::relay::Relay;
use super::state::Lost;
use super::stderr::{Lines, drain};
use super::{Audience, Context, LastWords, Note, Pass, Prepared, Spec, StartError, Step};
use crate::launch::{self, Grace, Plan, Process};
use crate::model::Exit;

/// How long a server's first questions are waited for.
const FIRST_QUESTIONS: Duration = Duration::from_secs(1);

/// A server that is ready, as callers share it.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) connection: Connection,
    pub(super) description: ServerDescription,
    pub(super) client: ClientDescription,
    /// Lets as many calls run at once as the policy has it (V50).
    pub(super) turn: Arc<Semaphore>,
    pub(super) activity: Activity,
    pub(super) questions: Questions,
    pub(super) pid: u32,
    /// How it ended unasked, before anybody is told; only where it is supervised.
    pub(super) lost: OnceLock<Arc<Lost>>,
}

/// A server that is ready, and what only its owner holds.
pub(super) struct Started {
    pub(super) live: Arc<Live>,
    pub(super) process: Process,
    pub(super) changed: Arc<Notify>,
    /// Ends when its standard error has been read to the end.
    pub(super) drained: JoinHandle<()>,
    /// The standard error of this process alone.
    pub(super) own: Lines,
    /// What it writes to standard output that is no message.
    pub(super) noise: Lines,
    /// What is let go when nothing of it is left.
    pub(super) keeps: Arc<Keeps>,
}

/// What a process holds as long as anything of it is left.
pub(super) struct Keeps {
    _pass: Pass,
    _files: Option<Box<dyn Any + Send + Sync>>,
}

/// What went wrong with one process.
enum Failure {
    /// Another process may do better, if it is initialized at once.
    Probe,
    Final(StartError),
}

/// How to begin with a process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Opening {
    /// Not known: ask, and shake hands if need be.
    Probe,
    /// Known to answer `server/discover`.
    Discover,
    Initialize,
}

/// Starts a server and makes it ready, within the limit. Its era is probed once, with a fresh process where
/// the probe killed or locked it. Must be run to its end, `cancel` or not: a process that is not ready is ended with
/// everything it has started.
pub(super) async fn connect(
    context: &Context,
    spec: &Spec,
    limit: Duration,
    stderr: &Lines,
    audience: &Arc<dyn Audience>,
    cancel: &CancellationToken,
) -> Result<Started, StartError> {
    let opening = match spec.remembered {
        None => Opening::Probe,
        Some(version) if version.is_modern() => Opening::Discover,
        Some(_) => Opening::Initialize,
    };
    let begun = Instant::now();
    let pass = context.gate.enter().map_err(StartError::Halted)?;
    let Prepared { plan, keeps } = prepare(context, spec, limit, cancel).await?;
    audience.step(Step::Prepared);
    let keeps = Arc::new(Keeps {
        _pass: pass,
        _files: keeps,
    });
    let mut attempt = Attempt {
        context,
        spec,
        plan,
        keeps,
        limit,
        left: limit.saturating_sub(begun.elapsed()),
        stderr,
        audience,
        cancel,
    };
    match attempt.run(opening).await {
        Ok(started) => Ok(started),
        Err(Failure::Final(error)) => Err(error),
        // The time that the question took is not the second process's fault.
        Err(Failure::Probe) => {
            let opening = match opening {
                Opening::Initialize => Opening::Probe,
                Opening::Probe | Opening::Discover => Opening::Initialize,
            };
            attempt.left = limit;
            attempt.run(opening).await.map_err(|failure| match failure {
                Failure::Final(error) => error,
                Failure::Probe => StartError::TimedOut {
                    limit,
                    words: Box::default(),
                },
            })
        }
    }
}

/// What runs, as it is at this moment.
async fn prepare(
    context: &Context,
    spec: &Spec,
    limit: Duration,
    cancel: &CancellationToken,
) -> Result<Prepared, StartError> {
    tokio::select! {
        biased;
        prepared = spec.plan.prepare() => prepared.map_err(StartError::Prepare),
        () = given_up(context, cancel) => Err(context.stopped()),
        () = sleep(limit) => Err(StartError::TimedOut { limit, words: Box::default() }),
    }
}

/// Nobody wants it any more, or nothing may start any more.
async fn given_up(context: &Context, cancel: &CancellationToken) {
    tokio::select! {
        () = cancel.cancelled() => {}
        () = context.gate.until_shut() => {}
    }
}

/// Lines of standard error that an error shows.
pub(super) const TAIL: usize = 10;
/// Lines that it carries: the reason often stands above a long trace.
const CARRIED: usize = 60;
/// Lines of standard output that are no messages, likewise.
const NOISE: usize = 20;

/// What one process writes.
#[derive(Clone)]
struct Written {
    stderr: Lines,
    noise: Lines,
}

impl Written {
    fn words(&self) -> LastWords {
        LastWords {
            stderr: self.stderr.tail(CARRIED),
            noise: self.noise.tail(NOISE),
        }
    }
}

struct Attempt<'a> {
    context: &'a Context,
    spec: &'a Spec,
    plan: Arc<Plan>,
    keeps: Arc<Keeps>,
    /// As it was given.
    limit: Duration,
    /// What is left of it for the next process.
    left: Duration,
    stderr: &'a Lines,
    audience: &'a Arc<dyn Audience>,
    cancel: &'a CancellationToken,
}

impl Attempt<'_> {
    async fn run(&self, opening: Opening) -> Result<Started, Failure> {
        if self.context.gate.halted().is_some() {
            return Err(Failure::Final(self.context.stopped()));
        }
        if self.spec.browser {
            launch::unlock(&self.plan);
        }
        let launched = launch::spawn(&self.plan, &self.context.owner)
            .map_err(|error| Failure::Final(StartError::Spawn(Arc::new(error))))?;
        self.audience.step(Step::Started);
        let tasks = &self.context.tasks;
        let own = Written {
            stderr: Lines::new(CARRIED),
            noise: Lines::new(NOISE),
        };
        let kept = [self.stderr.clone(), own.stderr.clone()];
        let longest = self.context.limits.stderr_line_bytes;
        let mut drained = tasks.spawn(drain(launched.stderr, longest, kept, self.audience.clone()));
        let changed = Arc::new(Notify::new());
        let questions = Questions::new(tasks.clone());
        let relay = self.relay(&questions, &changed, &own);
        let limits = connection::Limits {
            line_bytes: self.context.limits.line_bytes,
            ..connection::Limits::default()
        };
        let connection = Connection::start(
            launched.stdout,
            launched.stdin,
            Arc::new(relay),
            limits,
            tasks,
        );
        let client = self.client();
        let mut process = launched.process;
        let probe_wait = self.context.limits.probe_wait;
        // A process that the question may have locked gets half of the time; one that answers it, all.
        let answered = AtomicBool::new(opening != Opening::Probe);
        let patience = async {
            sleep(self.left / 2).await;
            if answered.load(Ordering::Relaxed) {
                sleep(self.left / 2).await;
            }
        };
        let asked = Asked {
            connection: &connection,
            client: &client,
            answered: &answered,
        };
        let outcome = tokio::select! {
            ready = asked.negotiate(opening, probe_wait) => Outcome::Told(ready),
            exit = process.wait() => Outcome::Exited(exit),
            () = patience => Outcome::TimedOut,
            () = given_up(self.context, self.cancel) => Outcome::Cancelled,
        };
        let failure = match outcome {
            Outcome::Told(Ok(description)) => {
                self.audience.step(Step::Initialized);
                self.hear_first_questions(&connection, &description).await;
                let live = Live {
                    connection,
                    description,
                    client,
                    turn: Arc::new(Semaphore::new(self.spec.policy.parallel_calls)),
                    activity: Activity::new(),
                    questions,
                    pid: process.pid(),
                    lost: OnceLock::new(),
                };
                return Ok(Started {
                    live: Arc::new(live),
                    process,
                    changed,
                    drained,
                    own: own.stderr,
                    noise: own.noise,
                    keeps: self.keeps.clone(),
                });
            }
            // It closed its output first; how it ended is the better story.
            Outcome::Told(Err(Negotiation::Closed)) => {
                let exit = timeout(Duration::from_secs(1), process.wait()).await.ok();
                self.ended(exit, opening, &own, &mut drained).await
            }
            Outcome::Exited(exit) => self.ended(Some(exit), opening, &own, &mut drained).await,
            Outcome::Told(Err(Negotiation::Again)) => Failure::Probe,
            Outcome::Told(Err(Negotiation::Refused(error))) => self.refused(error, opening, &own),
            Outcome::Cancelled => Failure::Final(self.context.stopped()),
            Outcome::TimedOut if !answered.load(Ordering::Relaxed) => Failure::Probe,
            Outcome::TimedOut => Failure::Final(StartError::TimedOut {
                limit: self.limit,
                words: Box::new(own.words()),
            }),
        };
        // Whatever it was doing, it is not ours any more. It gets no time: it never was in service.
        connection.abandon();
        let grace = Grace {
            exit: Duration::from_millis(100),
            term: self.context.limits.term_wait,
        };
        self.context.gate.end(&mut process, grace).await;
        Err(failure)
    }

    fn relay(&self, questions: &Questions, changed: &Arc<Notify>, own: &Written) -> Relay {
        Relay {
            audience: self.audience.clone(),
            declared: self.spec.declared.clone(),
            roots: self.spec.roots.clone(),
            questions: questions.clone(),
            changed: changed.clone(),
            noise: own.noise.clone(),
        }
    }

    fn client(&self) -> ClientDescription {
        ClientDescription {
            info: self.context.client.clone().as_ref().to_owned(),
            capabilities: raw_from(self.spec.declared.capabilities.to_string())
                .unwrap_or_else(|_| wharfinger_wire::json::empty_object()),
        }
    }

    /// A server that asks for roots does so when it is told that its client is ready. An answer to a ping comes after
    /// that question, so that it is not taken for one of the first call.
    async fn hear_first_questions(&self, connection: &Connection, description: &ServerDescription) {
        let may_ask = self.spec.roots.is_none() && self.spec.declared.can("roots");
        if !may_ask || description.version.is_modern() {
            return;
        }
        if let Ok(pong) = connection.call("ping", None, false) {
            // No answer, or a refusal, is an answer too late.
            timeout(FIRST_QUESTIONS, pong.reply()).await.ok();
        }
    }

    /// What was remembered of a server may be its past.
    fn refused(&self, error: InitializeError, opening: Opening, own: &Written) -> Failure {
        if opening == Opening::Initialize && self.spec.remembered.is_some() {
            let text = format!("it was initialized before, and refuses it now: {error}");
            self.audience.note(Note::Noise(text));
            return Failure::Probe;
        }
        Failure::Final(StartError::Protocol {
            error,
            words: Box::new(own.words()),
        })
    }

    async fn ended(
        &self,
        exit: Option<Exit>,
        opening: Opening,
        own: &Written,
        drained: &mut tokio::task::JoinHandle<()>,
    ) -> Failure {
        // Its last words are often the reason.
        timeout(Duration::from_millis(500), drained).await.ok();
        if opening == Opening::Probe {
            return Failure::Probe;
        }
        let exit = exit.unwrap_or(Exit::Unknown);
        Failure::Final(StartError::Exited {
            exit,
            words: Box::new(own.words()),
        })
    }
}

enum Outcome {
    Told(Result<ServerDescription, Negotiation>),
    Exited(Exit),
    TimedOut,
    Cancelled,
}

enum Negotiation {
    Closed,
    Again,
    Refused(InitializeError),
}

impl From<InitializeError> for Negotiation {
    fn from(error: InitializeError) -> Self {
        match error {
            InitializeError::Call(connection::CallError::Closed) => Self::Closed,
            error => Self::Refused(error),
        }
    }
}

/// A process that is asked what it is.
struct Asked<'a> {
    connection: &'a Connection,
    client: &'a ClientDescription,
    /// Whether it has answered anything.
    answered: &'a AtomicBool,
}

impl Asked<'_> {
    async fn initialize(&self) -> Result<ServerDescription, InitializeError> {
        era::initialize(self.connection, self.client).await
    }

    async fn negotiate(
        &self,
        opening: Opening,
        probe_wait: Duration,
    ) -> Result<ServerDescription, Negotiation> {
        if opening == Opening::Initialize {
            return Ok(self.initialize().await?);
        }
        // The process's own limit applies; a slow start is not a refusal.
        let for_ever = Duration::from_secs(86_400);
        let mut discover = pin!(era::discover(self.connection, self.client, for_ever));
        let answer = match opening {
            Opening::Probe => timeout(probe_wait, &mut discover).await.ok(),
            Opening::Discover | Opening::Initialize => Some(discover.as_mut().await),
        };
        if let Some(answer) = answer {
            return self.settle(answer).await;
        }
        // Slow, or silent for good: shake hands as well, and see which question is answered.
        let mut initialize = pin!(self.initialize());
        tokio::select! {
            biased;
            answer = &mut discover => match answer {
                Err(Probe::Refused(_)) => {
                    self.answered.store(true, Ordering::Relaxed);
                    Ok(initialize.await?)
                }
                answer => self.settle(answer).await,
            },
            answer = &mut initialize => match answer {
                Ok(description) => Ok(description),
                Err(InitializeError::Call(connection::CallError::Closed)) => Err(Negotiation::Closed),
                // Locked by the question, which it never answered.
                Err(_) => Err(Negotiation::Again),
            },
        }
    }

    async fn settle(
        &self,
        answer: Result<ServerDescription, Probe>,
    ) -> Result<ServerDescription, Negotiation> {
        self.answered.store(true, Ordering::Relaxed);
        match answer {
            Ok(description) => Ok(description),
            Err(Probe::Refused(_)) => Ok(self.initialize().await?),
            Err(Probe::Closed) => Err(Negotiation::Closed),
            Err(
                Probe::Silent | Probe::OtherVersions(_) | Probe::Odd { .. } | Probe::NotSent(_),
            ) => Err(Negotiation::Again),
        }
    }
}

impl Live {
    /// Params as this server wants them: with our description where its era needs one.
    pub(super) fn params<'a>(
        &self,
        params: Option<&'a RawValue>,
        log_level: Option<&str>,
    ) -> Option<Cow<'a, RawValue>> {
        let version: Version = self.description.version;
        if version.is_modern() {
            let described = era::with_request_meta(params, version, &self.client, log_level);
            Some(Cow::Owned(described))
        } else {
            // Answers that nobody asked for mean nothing there.
            let Some(left) = params.and_then(without_input) else {
                return era::without_request_meta(params);
            };
            let left = era::without_request_meta(Some(&left)).map(Cow::into_owned);
            left.map(Cow::Owned)
        }
    }
}

/// Params without what a retry of the stateless era brings; `None` where they bring nothing.
fn without_input(params: &RawValue) -> Option<Raw> {
    let brings = ["\"inputResponses\"", "\"requestState\""];
    if !brings.iter().any(|member| params.get().contains(member)) {
        return None;
    }
    let mut object = Object::from_raw(params).ok()?;
    let before = object.len();
    drop(object.remove("inputResponses"));
    drop(object.remove("requestState"));
    (object.len() < before).then(|| object.to_raw())
}
