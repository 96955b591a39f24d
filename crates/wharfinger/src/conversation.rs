//! A session as the rest of the library sees it: its calls in flight, and who hears what.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::value::RawValue;
use tokio::sync::{Notify, broadcast, mpsc};
use tokio_util::sync::CancellationToken;
use wharfinger_wire::server::is_logged_at;

use crate::agent::Agent;
use crate::call::{CallNote, Heard};
use crate::catalog::{Directory, Offers};
use crate::model::{AgentName, Declared, ServerName, SessionId};
use crate::servers::{Asked, Turn};
use crate::session::SessionNote;
use crate::wharf::{Wharf, lock};

/// One session, shared by all who hold it.
pub(crate) struct SessionState {
    pub(crate) id: SessionId,
    /// Its own among all that ever were: an id may come again.
    pub(crate) serial: u64,
    pub(crate) agent: AgentName,
    pub(crate) own: Arc<Agent>,
    /// When it began.
    pub(crate) began: Instant,
    pub(crate) declared: Declared,
    pub(crate) reserved: Arc<[String]>,
    pub(crate) lasting: bool,
    /// Told when it is over.
    pub(crate) over: CancellationToken,
    /// The level a client of the handshake era asked for, by its rank.
    pub(crate) log_level: Mutex<Option<usize>>,
    pub(crate) notes: broadcast::Sender<SessionNote>,
    /// Calls in flight, so that what a server says meanwhile goes to the call it most likely is about.
    pub(crate) calls: Mutex<Vec<InFlight>>,
    /// When a call of it last ended.
    pub(crate) used: Mutex<Instant>,
    /// Told when no call of it is in flight.
    pub(crate) none: Notify,
    /// Whoever answers what servers ask between calls.
    pub(crate) asks: Mutex<Option<mpsc::Sender<Asked>>>,
    /// Told when the calls in flight are to stop.
    pub(crate) stopping: Mutex<CancellationToken>,
    /// What it was last seen to offer beside tools, by what that was made from.
    pub(crate) directory: Mutex<Option<Seen>>,
}

/// What servers offer, and the directory that was made from it.
pub(crate) type Seen = (Vec<(ServerName, Arc<Offers>)>, Arc<Directory>);

pub(crate) struct InFlight {
    pub(crate) number: u64,
    pub(crate) server: ServerName,
    pub(crate) heard: Arc<Heard>,
    /// How likely it is that a server asks about it.
    pub(crate) stage: Stage,
    /// Of the call of a tool.
    pub(crate) turn: Option<Turn>,
}

impl InFlight {
    fn stage(&self) -> Stage {
        match &self.turn {
            Some(turn) if turn.is_let_go() => Stage::Asking,
            Some(_) | None => self.stage,
        }
    }
}

/// How likely it is that a server asks about a call, the likeliest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// The call of a tool, which runs.
    Tool,
    /// Another request, which runs.
    Other,
    /// The call of a tool whose server waits for an answer already.
    Asking,
    /// It waits for its server to start, or for its turn.
    Waiting,
}

/// A call that a question may be about.
pub(crate) struct About {
    /// The likeliest first.
    pub(crate) order: (Stage, u64),
    pub(crate) heard: Arc<Heard>,
    pub(crate) turn: Option<Turn>,
}

/// Numbers sessions.
pub(crate) static SERIALS: AtomicU64 = AtomicU64::new(0);

/// Numbers calls in the order they begin, over all sessions.
pub(crate) static CALLS: AtomicU64 = AtomicU64::new(0);

impl SessionState {
    /// Waits until no call of it is in flight.
    pub(crate) async fn settled(&self) {
        loop {
            let none = self.none.notified();
            if lock(&self.calls).is_empty() {
                return;
            }
            none.await;
        }
    }

    /// Tells whoever listens between calls.
    pub(crate) fn tell(&self, note: SessionNote) {
        self.notes.send(note).ok();
    }

    /// A server said something. A call to it that runs hears it; else whoever listens to the session.
    pub(crate) fn notice(
        &self,
        wharf: &Wharf,
        server: &ServerName,
        method: &str,
        params: Option<&RawValue>,
    ) {
        if method == "notifications/message" && !self.wants(params) {
            return;
        }
        let clean = params.map(|params| {
            let clean = wharf.redactor().json(params);
            Arc::from(clean.unwrap_or_else(|| params.to_owned()))
        });
        let calls = lock(&self.calls);
        // With several at once it is a guess; the oldest has waited longest for a word.
        let runs = |call: &&InFlight| call.server == *server && call.stage != Stage::Waiting;
        let about = calls.iter().filter(runs).min_by_key(|call| call.stage());
        let about = about.filter(|_| !is_of_no_call(method));
        if let Some(call) = about {
            let note = CallNote::Notification {
                method: method.to_owned(),
                params: clean,
            };
            call.heard.push(note);
        } else {
            let note = SessionNote::Notification {
                server: server.clone(),
                method: method.to_owned(),
                params: clean,
            };
            self.notes.send(note).ok();
        }
    }

    fn wants(&self, params: Option<&RawValue>) -> bool {
        let least = *lock(&self.log_level);
        least.is_none_or(|least| is_logged_at(params, least))
    }

    /// The call that a question of a server is most likely about, with its place in the order of all calls.
    pub(crate) fn asked_about(&self, server: &ServerName) -> Option<About> {
        let calls = lock(&self.calls);
        let own = calls.iter().filter(|call| call.server == *server);
        own.map(|call| About {
            order: (call.stage(), call.number),
            heard: call.heard.clone(),
            turn: call.turn.clone(),
        })
        .min_by_key(|about| about.order)
    }

    /// Gives a question to who listens between calls; gives it back if nobody does.
    pub(crate) fn ask(&self, asked: Asked) -> Option<Asked> {
        let asks = lock(&self.asks);
        match asks.as_ref().filter(|asks| !asks.is_closed()) {
            Some(asks) => {
                let sent = asks.try_send(asked);
                sent.err().map(mpsc::error::TrySendError::into_inner)
            }
            None => Some(asked),
        }
    }

    /// Told when the calls that run at this moment are to stop.
    pub(crate) fn stopping(&self) -> CancellationToken {
        lock(&self.stopping).clone()
    }

    /// From now on, what the server says goes to this call; of one that waits, only what the server asks.
    pub(crate) fn call_begins(
        self: &Arc<Self>,
        server: &ServerName,
        heard: Arc<Heard>,
        stage: Stage,
        turn: Option<&Turn>,
    ) -> CallGuard {
        let mut calls = lock(&self.calls);
        let number = CALLS.fetch_add(1, Ordering::Relaxed);
        calls.push(InFlight {
            number,
            server: server.clone(),
            heard,
            stage,
            turn: turn.cloned(),
        });
        CallGuard {
            session: self.clone(),
            number,
        }
    }
}

/// Notifications that are about what a server has, not about what it does.
fn is_of_no_call(method: &str) -> bool {
    method.starts_with("notifications/resources/")
        || method.starts_with("notifications/prompts/")
        || method.starts_with("notifications/tasks")
        || method == "notifications/elicitation/complete"
}

/// A call in flight, until dropped.
pub(crate) struct CallGuard {
    session: Arc<SessionState>,
    number: u64,
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        *lock(&self.session.used) = Instant::now();
        let mut calls = lock(&self.session.calls);
        calls.retain(|call| call.number != self.number);
        if calls.is_empty() {
            self.session.none.notify_waiters();
        }
    }
}
