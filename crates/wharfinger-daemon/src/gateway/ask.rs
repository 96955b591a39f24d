//! What servers ask clients of the handshake era: requests of ours, and their answers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use wharfinger::servers::Asked;
use wharfinger_wire::json::{Object, Raw, raw};
use wharfinger_wire::message::{self, ErrorObject, INTERNAL_ERROR, Id};

use super::client::Client;
use super::out::Out;
use crate::serve::Daemon;

/// The questions that one client has not answered yet. Only it can answer them, each once.
#[derive(Default)]
pub(super) struct Questions {
    last: AtomicU64,
    open: Mutex<HashMap<Id, Waiting>>,
}

struct Waiting {
    answer: oneshot::Sender<Result<Raw, ErrorObject>>,
    /// For those who want to know how far it is.
    progress: mpsc::UnboundedSender<Raw>,
}

impl Questions {
    fn open(&self) -> MutexGuard<'_, HashMap<Id, Waiting>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question that is open; dropped before its answer, the client is told that nobody waits for it.
struct Open<'a> {
    questions: &'a Questions,
    id: Id,
    out: &'a Out,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if self.questions.open().remove(&self.id).is_some() {
            let params = raw(&json!({ "requestId": self.id.to_raw() }));
            self.out.note(message::notification(
                "notifications/cancelled",
                Some(&params),
            ));
        }
    }
}

impl Client {
    /// Asks the client, and waits for its answer for so long as people may take.
    pub(super) async fn question(
        &self,
        out: &Out,
        method: &str,
        params: Option<&RawValue>,
        mut on_progress: impl FnMut(Raw) + Send,
    ) -> Result<Raw, ErrorObject> {
        let questions = &self.questions;
        let id = Id::string(&format!(
            "wharfinger-{}",
            questions.last.fetch_add(1, Ordering::Relaxed)
        ));
        let (answer, mut answered) = oneshot::channel();
        let (progress, mut told) = mpsc::unbounded_channel();
        questions
            .open()
            .insert(id.clone(), Waiting { answer, progress });
        let open = Open {
            questions,
            id: id.clone(),
            out,
        };
        let params = params.map(|params| with_token(params, &id).unwrap_or(params.to_owned()));
        if !out.note(message::request(&id, method, params.as_deref())) {
            questions.open().remove(&id);
            return Err(ErrorObject::new(INTERNAL_ERROR, "the client does not read"));
        }
        let limit = self.session().wharf().limits().input_wait;
        let waiting = async {
            loop {
                tokio::select! {
                    biased;
                    Some(params) = told.recv() => on_progress(params),
                    answer = &mut answered => return answer,
                }
            }
        };
        let answer = timeout(limit, waiting).await;
        drop(open);
        let gone = |why: &str| Err(ErrorObject::new(INTERNAL_ERROR, why));
        match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => gone("the client is gone"),
            Err(_) => gone("the client did not answer in time"),
        }
    }

    /// An answer of the client. One that answers nothing of ours is passed over.
    pub(super) fn answered(&self, id: Option<&Id>, outcome: Result<&RawValue, &RawValue>) {
        let waiting = id.and_then(|id| self.questions.open().remove(id));
        if let Some(waiting) = waiting {
            let outcome = outcome
                .map(ToOwned::to_owned)
                .map_err(ErrorObject::from_raw);
            // Whoever asked may have lost interest.
            waiting.answer.send(outcome).ok();
        }
    }

    /// It can answer nothing any more: whoever waits for an answer is told so.
    pub(super) fn answers_no_more(&self) {
        let open = std::mem::take(&mut *self.questions.open());
        drop(open);
    }

    /// The client tells how far it is with a question.
    pub(super) fn progressed(&self, params: &RawValue) {
        let object = Object::from_raw(params).unwrap_or_default();
        let id = object.get("progressToken").and_then(Id::parse);
        let open = self.questions.open();
        if let Some(waiting) = id.and_then(|id| open.get(&id)) {
            waiting.progress.send(params.to_owned()).ok();
        }
    }

    /// Passes a question of a server on, beside everything else, and its answer back. It ends with what it belongs to; but
    /// servers ask for roots when they start, for all calls to come.
    pub(super) fn pass(
        self: &Arc<Self>,
        daemon: &Arc<Daemon>,
        asked: Asked,
        out: Out,
        over: CancellationToken,
    ) {
        let (client, stop) = (self.clone(), daemon.stop.clone());
        daemon.tasks.spawn(async move {
            let params = asked.params.clone();
            let token = params.as_deref().and_then(token);
            let on_progress = |params: Raw| {
                let params = token.as_deref().and_then(|token| {
                    let mut object = Object::from_raw(&params).ok()?;
                    object.set_borrowed("progressToken", token);
                    Some(object.to_raw())
                });
                if let Some(params) = params {
                    asked.progress(&params);
                }
            };
            let over = if asked.method == "roots/list" {
                CancellationToken::new()
            } else {
                over
            };
            let outcome = {
                let cancelled = asked.cancelled().clone();
                let asking = client.question(&out, &asked.method, params.as_deref(), on_progress);
                tokio::select! {
                    outcome = asking => Some(outcome),
                    () = cancelled.cancelled() => None,
                    () = over.cancelled() => None,
                    () = client.session().over() => None,
                    () = stop.cancelled() => None,
                }
            };
            if let Some(outcome) = outcome {
                asked.answer(outcome);
            }
        });
    }
}

/// The token by which a server wants to hear of progress.
fn token(params: &RawValue) -> Option<Raw> {
    let object = Object::from_raw(params).ok()?;
    let meta = object.object("_meta")?;
    meta.get("progressToken").map(ToOwned::to_owned)
}

/// The params with a token of ours, where the server wants to hear of progress: tokens of two servers may be the same.
fn with_token(params: &RawValue, id: &Id) -> Option<Raw> {
    token(params)?;
    let mut object = Object::from_raw(params).ok()?;
    let mut meta = object.object("_meta")?;
    meta.set("progressToken", id.to_raw());
    let meta = meta.to_raw();
    object.set("_meta", meta);
    Some(object.to_raw())
}
