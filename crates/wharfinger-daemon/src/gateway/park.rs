//! Calls of the stateless era that wait for input: a server of the handshake era asks in the middle of a call, its client
//! is answered `input_required`, and the call goes on when that client comes back.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::DropGuard;
use wharfinger::servers::Asked;
use wharfinger::{CallNote, Refusal};
use wharfinger_wire::json::{Object, Raw, raw};
use wharfinger_wire::message::{ErrorObject, INVALID_PARAMS};

use crate::home::random_hex;

/// What all states of parked calls begin with.
const PREFIX: &str = "wharf-park.";

/// What comes of a call that runs on its own.
pub(super) enum Happening {
    Note(CallNote),
    Over(Result<Raw, Refusal>),
}

/// Notes that wait while nobody listens; the rest is lost, but for questions and the end.
const WAITING: usize = 1024;

/// The way from a call that runs to whoever listens to it.
pub(super) fn happenings() -> (Happened, Happenings) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    let happened = Happened {
        sender,
        waiting: waiting.clone(),
    };
    (happened, Happenings { receiver, waiting })
}

pub(super) struct Happened {
    sender: mpsc::UnboundedSender<Happening>,
    waiting: Arc<AtomicUsize>,
}

pub(super) struct Happenings {
    receiver: mpsc::UnboundedReceiver<Happening>,
    waiting: Arc<AtomicUsize>,
}

impl Happened {
    pub(super) fn note(&self, note: CallNote) {
        // There are no more questions than a server may ask at once.
        let asks = matches!(note, CallNote::Asked(_));
        if !asks && self.waiting.fetch_add(1, Ordering::AcqRel) >= WAITING {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
            return;
        }
        self.sender.send(Happening::Note(note)).ok();
    }

    pub(super) fn over(&self, reply: Result<Raw, Refusal>) {
        self.sender.send(Happening::Over(reply)).ok();
    }
}

impl Happenings {
    fn taken(&self, happening: &Happening) {
        let note =
            matches!(happening, Happening::Note(note) if !matches!(note, CallNote::Asked(_)));
        if note {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// A call that runs, whoever listens to it at this moment. Dropped, it is cancelled at its server.
pub(super) struct Call {
    happenings: Happenings,
    /// What its server wants to know, under the names that its client was told.
    open: Questions,
    asked: usize,
    /// Where they go when the call is given up: a server hears of that first, and only then that nobody answers.
    left: Option<oneshot::Sender<Questions>>,
    _running: DropGuard,
}

pub(super) type Questions = BTreeMap<String, Asked>;

impl Drop for Call {
    fn drop(&mut self) {
        if let Some(left) = self.left.take() {
            // A call that is over has nobody to wait for.
            left.send(std::mem::take(&mut self.open)).ok();
        }
    }
}

impl Call {
    pub(super) fn new(
        happenings: Happenings,
        left: oneshot::Sender<Questions>,
        running: DropGuard,
    ) -> Self {
        Self {
            happenings,
            open: BTreeMap::new(),
            asked: 0,
            left: Some(left),
            _running: running,
        }
    }

    /// What happens next; that it was stopped, if nothing does.
    pub(super) async fn next(&mut self) -> Option<Happening> {
        let next = self.happenings.receiver.recv().await;
        let stopped = || Happening::Over(Err(Refusal::Unavailable("the call was stopped".into())));
        let next = next.unwrap_or_else(stopped);
        self.happenings.taken(&next);
        Some(next)
    }

    /// What has happened already.
    pub(super) fn next_now(&mut self) -> Option<Happening> {
        let next = self.happenings.receiver.try_recv().ok()?;
        self.happenings.taken(&next);
        Some(next)
    }

    /// Its server asks something.
    pub(super) fn asks(&mut self, asked: Asked) {
        self.asked += 1;
        self.open.insert(format!("input-{}", self.asked), asked);
    }

    /// Whether its server waits for answers.
    pub(super) fn waits(&mut self) -> bool {
        self.open
            .retain(|_, asked| !asked.cancelled().is_cancelled());
        !self.open.is_empty()
    }

    /// The result that asks for input.
    fn question(&self, state: &str) -> Raw {
        let mut requests = Object::new();
        for (name, asked) in &self.open {
            let mut request = Object::new();
            request.set("method", raw(&asked.method));
            if let Some(params) = asked.params.as_deref() {
                request.set("params", without_token(params));
            }
            requests.set(name.clone(), request.to_raw());
        }
        let mut result = Object::new();
        result.set("resultType", raw("input_required"));
        result.set("inputRequests", requests.to_raw());
        result.set("requestState", raw(state));
        result.to_raw()
    }

    /// Gives the answers that a client brings to those who asked. What it leaves out stays open.
    fn answer(&mut self, responses: &RawValue) -> Result<(), ErrorObject> {
        let wrong = |text| ErrorObject::new(INVALID_PARAMS, text);
        let responses = Object::from_raw(responses)
            .map_err(|_| wrong("params.inputResponses must be an object".to_owned()))?;
        for name in self.open.keys() {
            let response = responses.get(name);
            if response.is_some_and(|response| Object::from_raw(response).is_err()) {
                return Err(wrong(format!(
                    "params.inputResponses.{name} must be an object"
                )));
            }
        }
        for (name, response) in responses.iter() {
            if let Some(asked) = self.open.remove(name) {
                asked.answer(Ok(response.to_owned()));
            }
        }
        Ok(())
    }
}

/// The token is between the server and us.
fn without_token(params: &RawValue) -> Raw {
    let Ok(mut object) = Object::from_raw(params) else {
        return params.to_owned();
    };
    let Some(mut meta) = object.object("_meta") else {
        return params.to_owned();
    };
    drop(meta.remove("progressToken"));
    let rest = (!meta.is_empty()).then(|| meta.to_raw());
    match rest {
        Some(rest) => object.set("_meta", rest),
        None => drop(object.remove("_meta")),
    }
    object.to_raw()
}

struct Parked {
    /// For whom and what; see [`Parking::park`].
    bound: String,
    agent: String,
    call: Call,
    since: Instant,
}

/// All calls that wait for their clients.
#[derive(Default)]
pub(super) struct Parking {
    parked: Mutex<HashMap<String, Parked>>,
}

impl Parking {
    fn parked(&self) -> MutexGuard<'_, HashMap<String, Parked>> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets a call aside until its client comes back, and gives the result that tells it to. Only who is bound in the
    /// same way gets it back, once. Of one agent at most `limit` wait; the oldest makes room, and is cancelled.
    pub(super) fn park(&self, bound: &str, agent: &str, call: Call, limit: usize) -> (String, Raw) {
        let state = format!("{PREFIX}{}", &random_hex()[..32]);
        let question = call.question(&state);
        let parked = Parked {
            bound: bound.to_owned(),
            agent: agent.to_owned(),
            call,
            since: Instant::now(),
        };
        let mut all = self.parked();
        let own = || all.iter().filter(|(_, parked)| parked.agent == agent);
        let oldest = (own().count() >= limit)
            .then(|| own().min_by_key(|(_, parked)| parked.since))
            .flatten()
            .map(|(state, _)| state.clone());
        let evicted = oldest.and_then(|oldest| all.remove(&oldest));
        all.insert(state.clone(), parked);
        drop(all);
        drop(evicted);
        (state, question)
    }

    /// Whether a state is one of a parked call.
    pub(super) fn is_one(state: &str) -> bool {
        state.starts_with(PREFIX)
    }

    /// A client comes back with answers: the call, which goes on. What is not its own is as good as unknown.
    pub(super) fn resume(
        &self,
        bound: &str,
        state: &str,
        responses: Option<&RawValue>,
    ) -> Result<Call, ErrorObject> {
        let mut all = self.parked();
        if all.get(state).is_none_or(|parked| parked.bound != bound) {
            let text = "params.requestState is not known, or no longer: make the request anew";
            return Err(ErrorObject::new(INVALID_PARAMS, text));
        }
        let mut parked = all.remove(state).expect("it is there");
        if let Some(responses) = responses
            && let Err(error) = parked.call.answer(responses)
        {
            // It may try again with better ones.
            all.insert(state.to_owned(), parked);
            return Err(error);
        }
        Ok(parked.call)
    }

    /// Nobody came back in time.
    pub(super) fn forget(&self, state: &str) {
        let parked = self.parked().remove(state);
        drop(parked);
    }

    /// Nobody will.
    pub(super) fn clear(&self) {
        let all = std::mem::take(&mut *self.parked());
        drop(all);
    }
}

/// The answer to a client that did not declare what its request takes.
pub(super) fn not_declared(method: &str) -> ErrorObject {
    let capability = match method {
        "roots/list" => json!({ "roots": {} }),
        "sampling/createMessage" => json!({ "sampling": {} }),
        "elicitation/create" => json!({ "elicitation": {} }),
        "tasks/get" | "tasks/update" | "tasks/cancel" => {
            json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } })
        }
        _ => json!({}),
    };
    let text = format!("this takes a capability that the client did not declare: {method}");
    let data = raw(&json!({ "requiredCapabilities": capability }));
    ErrorObject::new(wharfinger_wire::message::MISSING_CAPABILITY, text).with_data(data)
}
