//! What a server asks its client, and the way back.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wharfinger_wire::connection::Reply;
use wharfinger_wire::json::Raw;
use wharfinger_wire::message::{ErrorObject, INTERNAL_ERROR, Id};

use super::Turn;

/// Questions of one server that may be open at once.
const MOST: usize = 64;

/// A request to the client of a call, of a server most of the time: `elicitation/create`, `sampling/createMessage` or `roots/list`, if the session
/// [declared](crate::model::Declared) that. Dropped, it is answered with an error.
///
/// It has no limit of its own, and the limit of its call does not run out while it is open: whoever answers decides how
/// long people may take. While it is open, other calls of the server go on (V50).
#[derive(Debug)]
pub struct Asked {
    /// Its method.
    pub method: String,
    /// Its params, redacted.
    pub params: Option<Arc<RawValue>>,
    /// None once it is settled.
    wanted: Option<Wanted>,
    cancelled: CancellationToken,
}

/// What settles a question.
#[derive(Debug)]
enum Wanted {
    /// A server waits for the answer.
    Server {
        reply: Reply,
        open: Open,
        /// Of the call that it is about.
        turn: Option<Turn>,
    },
    /// We do.
    Own(oneshot::Sender<Result<Raw, ErrorObject>>),
}

/// The questions of one server that nobody has answered yet. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Questions {
    count: Arc<AtomicUsize>,
    open: Arc<Mutex<HashMap<Id, CancellationToken>>>,
    tasks: TaskTracker,
}

/// One open question, until dropped.
#[derive(Debug)]
struct Open {
    questions: Questions,
    id: Id,
    cancelled: CancellationToken,
}

impl Questions {
    pub(super) fn new(tasks: TaskTracker) -> Self {
        Self {
            count: Arc::default(),
            open: Arc::default(),
            tasks,
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<Id, CancellationToken>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anybody still thinks about one.
    pub(super) fn any(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// A question comes; `None` when there are too many, or one of that id: it is answered with an error then.
    pub(super) fn ask(
        &self,
        reply: Reply,
        method: &str,
        params: Option<&RawValue>,
    ) -> Option<Asked> {
        let id = reply.id().clone();
        let cancelled = CancellationToken::new();
        {
            let mut open = self.open();
            if open.len() >= MOST || open.contains_key(&id) {
                drop(open);
                let error = ErrorObject::new(INTERNAL_ERROR, "too many questions at once");
                // A closed connection has nobody to read the answer.
                reply.give(Err(error)).ok();
                return None;
            }
            open.insert(id.clone(), cancelled.clone());
        }
        self.count.fetch_add(1, Ordering::AcqRel);
        Some(Asked {
            method: method.to_owned(),
            params: params.map(|params| Arc::from(params.to_owned())),
            cancelled: cancelled.clone(),
            wanted: Some(Wanted::Server {
                reply,
                open: Open {
                    questions: self.clone(),
                    id,
                    cancelled,
                },
                turn: None,
            }),
        })
    }

    /// The server takes a question back.
    pub(super) fn take_back(&self, id: &Id) {
        if let Some(cancelled) = self.open().get(id) {
            cancelled.cancel();
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.questions.open().remove(&self.id);
        self.questions.count.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Asked {
    /// A question of our own to the client of a call. It is taken back when `cancelled` is.
    pub(crate) fn ours(
        method: &str,
        params: Raw,
        cancelled: CancellationToken,
    ) -> (Self, oneshot::Receiver<Result<Raw, ErrorObject>>) {
        let (answer, answered) = oneshot::channel();
        let asked = Self {
            method: method.to_owned(),
            params: Some(Arc::from(params)),
            wanted: Some(Wanted::Own(answer)),
            cancelled,
        };
        (asked, answered)
    }

    /// Told when the server no longer wants an answer.
    pub fn cancelled(&self) -> &CancellationToken {
        &self.cancelled
    }

    /// Tells the server how far its client is with it; `params` are those of a `notifications/progress`.
    pub fn progress(&self, params: &RawValue) {
        if let Some(Wanted::Server { reply, .. }) = &self.wanted {
            // A server that is gone or does not read hears nothing.
            reply.notify("notifications/progress", Some(params)).ok();
        }
    }

    /// It is about this call, which lets others by until it is answered.
    pub(crate) fn is_about(&mut self, about: Turn) {
        about.let_others_by();
        if let Some(Wanted::Server { turn, .. }) = &mut self.wanted {
            *turn = Some(about);
        }
    }

    /// Answers, unless the server has taken the question back: at once, or as soon as no other call is at the server. A
    /// server that is gone meanwhile hears nothing.
    pub fn answer(mut self, outcome: Result<Raw, ErrorObject>) {
        if let Some(wanted) = self.wanted.take() {
            wanted.settle(outcome);
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if let Some(wanted) = self.wanted.take() {
            let error = ErrorObject::new(INTERNAL_ERROR, "nobody answered");
            wanted.settle(Err(error));
        }
    }
}

impl Wanted {
    /// Gives the answer once the call has its turn again; with or without one, its server goes on from here.
    fn settle(self, outcome: Result<Raw, ErrorObject>) {
        let (reply, open, turn) = match self {
            Self::Server { reply, open, turn } => (reply, open, turn),
            // Whoever asked may have its answer from elsewhere by now.
            Self::Own(answer) => return drop(answer.send(outcome)),
        };
        let give = |reply: Reply, open: Open, outcome| {
            if open.cancelled.is_cancelled() {
                reply.withhold();
            } else {
                reply.give(outcome).ok();
            }
        };
        match turn.filter(Turn::is_let_go) {
            None => give(reply, open, outcome),
            Some(turn) => drop(open.questions.tasks.clone().spawn(async move {
                turn.take_again().await;
                give(reply, open, outcome);
            })),
        }
    }
}
