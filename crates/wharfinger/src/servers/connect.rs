//! From a plan to a server that is ready: start, find out its era, shake hands.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use wharfinger_wire::connection::{self, Connection};
use wharfinger_wire::era::{
    self, ClientDescription, InitializeError, Probe, ServerDescription, Version,
};
use wharfinger_wire::json::raw_from;

use super::activity::Activity;
use super::relay::Relay;
use super::stderr::{Lines, drain};
use super::{Audience, Context, Spec, StartError};
use crate::launch::{self, Grace, Process};

/// A server that is ready, as callers share it.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) connection: Connection,
    pub(super) description: ServerDescription,
    pub(super) client: ClientDescription,
    /// Lets as many calls run at once as the policy has it (V50).
    pub(super) turn: Semaphore,
    pub(super) activity: Activity,
    pub(super) pid: u32,
}

/// A server that is ready, and what only its owner holds.
pub(super) struct Started {
    pub(super) live: Arc<Live>,
    pub(super) process: Process,
    pub(super) changed: Arc<Notify>,
    /// Ends when its standard error has been read to the end.
    pub(super) drained: JoinHandle<()>,
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

/// Starts a server and makes it ready, within the policy's limit. Its era is probed once, with a fresh process where
/// the probe killed or locked it. Must be run to its end, `cancel` or not: a process that is not ready is ended with
/// everything it has started.
pub(super) async fn connect(
    context: &Context,
    spec: &Spec,
    stderr: &Lines,
    audience: &Arc<dyn Audience>,
    cancel: &CancellationToken,
) -> Result<Started, StartError> {
    let limit = spec.policy.startup_timeout;
    let deadline = Instant::now() + limit;
    let opening = match spec.remembered {
        None => Opening::Probe,
        Some(version) if version.is_modern() => Opening::Discover,
        Some(_) => Opening::Initialize,
    };
    // Half of the time for a process that the question may have locked, half for one that was not asked.
    let first = if opening == Opening::Probe {
        limit / 2
    } else {
        limit
    };
    let attempt = Attempt {
        context,
        spec,
        stderr,
        audience,
        cancel,
    };
    match attempt.run(opening, first).await {
        Ok(started) => Ok(started),
        Err(Failure::Final(error)) => Err(error),
        Err(Failure::Probe) => {
            let opening = if opening == Opening::Initialize {
                Opening::Probe
            } else {
                Opening::Initialize
            };
            let left = deadline.saturating_duration_since(Instant::now());
            attempt
                .run(opening, left)
                .await
                .map_err(|failure| match failure {
                    Failure::Final(error) => error,
                    Failure::Probe => StartError::TimedOut {
                        limit,
                        stderr: stderr.tail(TAIL),
                    },
                })
        }
    }
}

/// Lines of standard error that an error carries.
pub(super) const TAIL: usize = 10;

struct Attempt<'a> {
    context: &'a Context,
    spec: &'a Spec,
    stderr: &'a Lines,
    audience: &'a Arc<dyn Audience>,
    cancel: &'a CancellationToken,
}

impl Attempt<'_> {
    async fn run(&self, opening: Opening, limit: Duration) -> Result<Started, Failure> {
        let launched = launch::spawn(&self.spec.plan, &self.context.owner)
            .map_err(|error| Failure::Final(StartError::Spawn(Arc::new(error))))?;
        let tasks = &self.context.tasks;
        let lines = (self.stderr.clone(), self.audience.clone());
        let longest = self.context.limits.stderr_line_bytes;
        let mut drained = tasks.spawn(drain(launched.stderr, longest, lines.0, lines.1));
        let changed = Arc::new(Notify::new());
        let relay = Relay {
            audience: self.audience.clone(),
            declared: self.spec.declared.clone(),
            changed: changed.clone(),
        };
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
        let client = ClientDescription {
            info: self.context.client.clone().as_ref().to_owned(),
            capabilities: raw_from(self.spec.declared.capabilities.to_string())
                .unwrap_or_else(|_| wharfinger_wire::json::empty_object()),
        };
        let mut process = launched.process;
        let probe_wait = self.context.limits.probe_wait;
        let outcome = tokio::select! {
            ready = negotiate(&connection, &client, opening, probe_wait) => Outcome::Told(ready),
            exit = process.wait() => Outcome::Exited(exit),
            () = sleep(limit) => Outcome::TimedOut,
            () = self.cancel.cancelled() => Outcome::Cancelled,
        };
        let failure = match outcome {
            Outcome::Told(Ok(description)) => {
                let live = Live {
                    connection,
                    description,
                    client,
                    turn: Semaphore::new(self.spec.policy.parallel_calls),
                    activity: Activity::new(),
                    pid: process.pid(),
                };
                return Ok(Started {
                    live: Arc::new(live),
                    process,
                    changed,
                    drained,
                });
            }
            // It closed its output first; how it ended is the better story.
            Outcome::Told(Err(Negotiation::Closed)) => {
                let exit = timeout(Duration::from_secs(1), process.wait()).await.ok();
                self.ended(exit, opening, &mut drained).await
            }
            Outcome::Told(Err(Negotiation::Again)) => Failure::Probe,
            Outcome::Told(Err(Negotiation::Refused(error)))
                if opening == Opening::Initialize && self.spec.remembered.is_some() =>
            {
                tracing::debug!(server = %self.spec.name, %error, "its era changed");
                Failure::Probe
            }
            Outcome::Told(Err(Negotiation::Refused(error))) => {
                let stderr = self.stderr.tail(TAIL);
                Failure::Final(StartError::Protocol { error, stderr })
            }
            Outcome::Exited(exit) => self.ended(Some(exit), opening, &mut drained).await,
            Outcome::TimedOut if opening == Opening::Probe => Failure::Probe,
            Outcome::Cancelled => Failure::Final(StartError::Stopped),
            Outcome::TimedOut => Failure::Final(StartError::TimedOut {
                limit: self.spec.policy.startup_timeout,
                stderr: self.stderr.tail(TAIL),
            }),
        };
        // Whatever it was doing, it is not ours any more. It gets no time: it never was in service.
        connection.abandon();
        let grace = Grace {
            exit: Duration::from_millis(100),
            term: self.context.limits.term_wait,
        };
        process.stop(grace).await;
        Err(failure)
    }

    async fn ended(
        &self,
        exit: Option<crate::model::Exit>,
        opening: Opening,
        drained: &mut tokio::task::JoinHandle<()>,
    ) -> Failure {
        // Its last words are often the reason.
        timeout(Duration::from_millis(500), drained).await.ok();
        if opening == Opening::Probe {
            return Failure::Probe;
        }
        let exit = exit.unwrap_or(crate::model::Exit::Unknown);
        Failure::Final(StartError::Exited {
            exit,
            stderr: self.stderr.tail(TAIL),
        })
    }
}

enum Outcome {
    Told(Result<ServerDescription, Negotiation>),
    Exited(crate::model::Exit),
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

async fn negotiate(
    connection: &Connection,
    client: &ClientDescription,
    opening: Opening,
    probe_wait: Duration,
) -> Result<ServerDescription, Negotiation> {
    if opening == Opening::Initialize {
        return Ok(era::initialize(connection, client).await?);
    }
    // The process's own limit applies; a slow start is not a refusal.
    let mut discover = pin!(era::discover(
        connection,
        client,
        Duration::from_secs(86_400)
    ));
    let answer = match opening {
        Opening::Probe => timeout(probe_wait, &mut discover).await.ok(),
        Opening::Discover | Opening::Initialize => Some(discover.as_mut().await),
    };
    if let Some(answer) = answer {
        settle(connection, client, answer).await
    } else {
        // Slow, or silent for good: shake hands as well, and see which question is answered.
        let mut initialize = pin!(era::initialize(connection, client));
        tokio::select! {
            biased;
            answer = &mut discover => match answer {
                Err(Probe::Refused(_)) => Ok(initialize.await?),
                answer => settle(connection, client, answer).await,
            },
            answer = &mut initialize => match answer {
                Ok(description) => Ok(description),
                Err(InitializeError::Call(connection::CallError::Closed)) => Err(Negotiation::Closed),
                // Locked by the question, which it never answered.
                Err(_) => Err(Negotiation::Again),
            },
        }
    }
}

async fn settle(
    connection: &Connection,
    client: &ClientDescription,
    answer: Result<ServerDescription, Probe>,
) -> Result<ServerDescription, Negotiation> {
    match answer {
        Ok(description) => Ok(description),
        Err(Probe::Refused(_)) => Ok(era::initialize(connection, client).await?),
        Err(Probe::Closed) => Err(Negotiation::Closed),
        Err(Probe::Silent | Probe::OtherVersions(_) | Probe::Odd { .. } | Probe::NotSent(_)) => {
            Err(Negotiation::Again)
        }
    }
}

impl Live {
    /// Params as this server wants them: with our description where its era needs one.
    pub(super) fn params(
        &self,
        params: Option<&serde_json::value::RawValue>,
        log_level: Option<&str>,
    ) -> Option<Box<serde_json::value::RawValue>> {
        let version: Version = self.description.version;
        if version.is_modern() {
            Some(era::with_request_meta(
                params,
                version,
                &self.client,
                log_level,
            ))
        } else {
            era::without_request_meta(params)
        }
    }
}
