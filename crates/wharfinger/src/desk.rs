//! The desk at the gate: calls that wait, calls that are allowed, and what was granted beyond them.

use std::pin::Pin;
use std::sync::{Arc, Mutex};

use serde_json::value::RawValue;
use tokio::sync::{Notify, watch};
use wharfinger_wire::json::{Object, Raw};

use crate::agent::Agent;
use crate::approvals::{Approval, ApprovalId, Binding, Book, Decision, Given, Grants, Reason};
use crate::bound::hash;
use crate::call::Refusal;
use crate::session::Session;
use crate::wharf::{Wharf, lock};

/// What a call came to, for whoever collects it.
pub(crate) type Outcome = Result<Arc<RawValue>, Refusal>;

/// Open approvals of one agent; a model in a loop is not to bury its owner.
pub(crate) const MOST: usize = 64;

/// Everything that waits for a person, of all agents.
pub(crate) struct Gate {
    pub(crate) desk: Mutex<Desk>,
    /// Told when what expires next may be another one.
    pub(crate) changed: Notify,
    pub(crate) approver: Option<Approver>,
}

/// A program that decides, or asks somebody: it gets each call that waits, and its answer counts if it is the first.
/// `None` leaves the call to others.
#[derive(Clone)]
pub struct Approver(pub(crate) Arc<dyn Fn(Approval) -> Deciding + Send + Sync>);

/// What an approver is about to say.
pub type Deciding = Pin<Box<dyn Future<Output = Option<Decision>> + Send>>;

impl Approver {
    /// An approver of that kind.
    ///
    /// ```
    /// use wharfinger::Approver;
    /// use wharfinger::approvals::Decision;
    ///
    /// // Says no to everything that names a drive.
    /// let careful = Approver::new(|approval| {
    ///     Box::pin(async move {
    ///         let named = approval.arguments.get().contains("drive");
    ///         named.then(|| Decision::Deny { reason: Some("not the drive".into()) })
    ///     })
    /// });
    /// # drop(careful);
    /// ```
    pub fn new(approve: impl Fn(Approval) -> Deciding + Send + Sync + 'static) -> Self {
        Self(Arc::new(approve))
    }
}

impl std::fmt::Debug for Approver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Approver")
    }
}

pub(crate) struct Desk {
    pub(crate) book: Book<Outcome>,
    pub(crate) grants: Grants,
    pub(crate) rounds: Vec<Round>,
}

/// An allowed call whose server asked for input: its next round is the same call.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) call: Consent,
    pub(crate) state: Option<String>,
}

/// What was allowed, for all rounds of a call.
#[derive(Debug)]
pub(crate) struct Consent {
    /// To the call as its caller makes it.
    pub(crate) binding: Binding,
    /// What it is made with, where whoever allowed it changed that.
    pub(crate) edited: Option<Arc<RawValue>>,
}

impl Consent {
    pub(crate) fn new(asking: Asking, arguments: Option<Arc<RawValue>>) -> Self {
        Self {
            edited: arguments.filter(|edited| edited.get() != asking.arguments.get()),
            binding: asking.binding,
        }
    }
}

/// Rounds that are open at once; the oldest makes room.
pub(crate) const ROUNDS: usize = 256;

impl Gate {
    pub(crate) fn new(approver: Option<Approver>) -> Self {
        let desk = Desk {
            book: Book::new(MOST),
            grants: Grants::default(),
            rounds: vec![],
        };
        Self {
            desk: Mutex::new(desk),
            changed: Notify::new(),
            approver,
        }
    }
}

impl Gate {
    /// Looks or writes into the book; whoever waits for what expires looks again.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Desk) -> T) -> T {
        let done = act(&mut lock(&self.desk));
        self.changed.notify_one();
        done
    }
}

/// A call that may be made.
pub(crate) struct Admitted {
    /// With these params, where they are not those that came.
    pub(crate) params: Option<Raw>,
    /// By this approval.
    pub(crate) approval: Option<Allowed>,
    /// Should its server ask for input.
    pub(crate) consent: Option<Consent>,
}

impl Admitted {
    /// Nobody needs to be asked.
    pub(crate) fn freely(params: Option<Raw>) -> Self {
        Self {
            params,
            approval: None,
            consent: None,
        }
    }
}

/// How a call gets through the gate.
pub(crate) enum Passage {
    /// It is made.
    Open(Admitted),
    /// It was made already: this is its result.
    Collected(ApprovalId, Option<Consent>, Outcome),
}

/// What a call that waited came to.
pub(crate) enum Waited {
    /// A yes: it is to be made now, by whoever waited, if it still is what was bound.
    Begun(Binding, Arc<RawValue>),
    /// It was made elsewhere, with these arguments.
    Made(Option<Arc<RawValue>>, Outcome),
}

/// An allowed call that is being made. Dropped before it is over, it was taken back by its caller, and that is written
/// down: nothing is left open for ever.
pub(crate) struct Allowed {
    wharf: Wharf,
    agent: Arc<Agent>,
    id: ApprovalId,
    is_over: bool,
}

impl Allowed {
    pub(crate) fn new(session: &Session, id: &ApprovalId) -> Self {
        Self {
            wharf: session.wharf.clone(),
            agent: session.state.own.clone(),
            id: id.clone(),
            is_over: false,
        }
    }

    pub(crate) fn id(&self) -> &ApprovalId {
        &self.id
    }

    /// It is over, one way or the other.
    pub(crate) async fn over(mut self, reply: &Result<Raw, Refusal>) {
        self.wharf
            .allowed_is_over(&self.agent, &self.id, reply)
            .await;
        self.wharf.0.gate.with(|desk| desk.book.close(&self.id));
        self.is_over = true;
    }
}

impl Drop for Allowed {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let (wharf, agent, id) = (self.wharf.clone(), self.agent.clone(), self.id.clone());
        wharf.0.gate.with(|desk| desk.book.close(&id));
        self.wharf.0.context.tasks.spawn(async move {
            let text = "its caller took it back while it was made; what came of it is not known";
            let end = crate::waiting::End::Cancelled(text);
            crate::waiting::end(&wharf, &agent, &id, end).await;
        });
    }
}

/// A call as it is asked about.
pub(crate) struct Asking {
    pub(crate) binding: Binding,
    pub(crate) reason: Reason,
    pub(crate) why: String,
    pub(crate) said: Option<String>,
    pub(crate) arguments: Arc<RawValue>,
}

/// A call that waits. Dropped before it is settled, it has given up.
pub(crate) struct Waiting {
    wharf: Wharf,
    pub(crate) id: ApprovalId,
    pub(crate) given: watch::Receiver<Given<Outcome>>,
    pub(crate) settled: bool,
}

impl Waiting {
    pub(crate) fn new(
        wharf: &Wharf,
        id: ApprovalId,
        given: watch::Receiver<Given<Outcome>>,
    ) -> Self {
        Self {
            wharf: wharf.clone(),
            id,
            given,
            settled: false,
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.settled {
            self.wharf.0.gate.with(|desk| desk.book.leave(&self.id));
        }
    }
}

impl Desk {
    /// Nothing that was allowed in a conversation is good after it.
    pub(crate) fn end_session(&mut self, serial: u64) {
        self.grants.end_session(serial);
        self.rounds
            .retain(|round| round.call.binding.serial != serial);
    }

    /// Takes back what waits of an agent, and everything that it was allowed.
    pub(crate) fn withdraw(&mut self, agent: &str, why: &str) -> Vec<crate::approvals::Ended> {
        self.grants.forget(agent);
        self.rounds
            .retain(|round| round.call.binding.agent.as_str() != agent);
        self.book
            .cancel(|approval| approval.binding.agent.as_str() == agent, why)
    }

    /// What was allowed, if a call is the next round of that; good for one.
    pub(crate) fn take_round(&mut self, binding: &Binding, params: &RawValue) -> Option<Consent> {
        if self.rounds.is_empty() || !params.get().contains("\"inputResponses\"") {
            return None;
        }
        let object = Object::from_raw(params).unwrap_or_default();
        let state = object.text("requestState").map(|state| hash(&state));
        let found = self.rounds.iter().position(|round| {
            let known = &round.call.binding;
            round.state == state
                && known.serial == binding.serial
                && known.is_same_call(binding)
                && known.check(binding).is_ok()
        });
        found.map(|index| self.rounds.remove(index).call)
    }
}
