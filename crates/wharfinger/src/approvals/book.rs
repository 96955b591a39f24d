//! The book of all calls that wait, were decided, or whose results wait.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::sync::watch;

use super::request::{Approval, ApprovalId, Binding, Caller, Decision, Reason, Scope, Stage};

/// How long a result waits to be collected, and a yes for a call that gave up, in milliseconds: ten minutes.
pub const COLLECT: u64 = 10 * 60 * 1000;

/// A call that needs a person.
#[derive(Clone, Debug)]
pub struct NewApproval {
    /// Its name.
    pub id: ApprovalId,
    /// What it is about.
    pub binding: Binding,
    /// Why it is asked.
    pub reason: Reason,
    /// What would be called, as it came.
    pub arguments: Arc<RawValue>,
    /// The arguments as people see them.
    pub shown: Arc<RawValue>,
    /// In words.
    pub why: String,
    /// What the model says about it.
    pub said: Option<String>,
    /// Until when it may be answered, in milliseconds since 1970.
    pub expires: u64,
}

/// What a waiting call hears.
#[derive(Clone, Debug)]
pub enum Given<R> {
    /// Nothing yet.
    Nothing,
    /// Yes: [`Book::begin`] says with what.
    Approved,
    /// No, in these words.
    Denied(Option<String>),
    /// Nobody answered in time.
    Expired,
    /// It was taken back, and why.
    Cancelled(String),
    /// It ran elsewhere, with this result.
    Done(R),
}

/// A call with the same arguments came again.
#[derive(Debug)]
pub enum Attached<R> {
    /// Its result is there, of a call with these arguments; it was collected with this.
    Result(ApprovalId, Arc<RawValue>, R),
    /// It goes on waiting.
    Waits(ApprovalId, watch::Receiver<Given<R>>),
}

/// The patience of a waiting call is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It may be answered that it waits.
    Waits,
    /// It was decided in this moment: there is something to hear.
    Decided,
}

/// Why a decision was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecideError {
    /// There is none of that name, or no longer.
    #[error("there is no approval `{0}`; it may have been answered or have expired")]
    Unknown(ApprovalId),
    /// It was decided before.
    #[error("the approval `{0}` was answered already")]
    Decided(ApprovalId),
}

/// A decision that was taken.
#[derive(Clone, Debug)]
pub struct Decided {
    /// As it is now.
    pub approval: Approval,
    /// For how much a yes is good; none for a no.
    pub scope: Option<Scope>,
    /// Nobody waits, but the call was answered that it will be done: so it is to be done now.
    pub runs_now: bool,
}

/// An approval that ended without a decision.
#[derive(Clone, Debug)]
pub struct Ended {
    /// As it was.
    pub approval: Approval,
    /// Whether a person had said yes before.
    pub was_approved: bool,
}

struct Entry<R> {
    approval: Approval,
    /// What is called.
    arguments: Arc<RawValue>,
    given: watch::Sender<Given<R>>,
    result: Option<R>,
    /// Somebody decides about it at this moment.
    claimed: bool,
    /// What was decided is thrown away then.
    until: u64,
}

/// The book. `R` is the result of a call.
pub struct Book<R> {
    entries: BTreeMap<ApprovalId, Entry<R>>,
    /// Of one agent.
    most: usize,
}

impl<R: Clone> Book<R> {
    /// A book with at most so many open approvals of one agent.
    pub fn new(most: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            most,
        }
    }

    /// A call waits; `None` when too many of its agent do. Each call is an approval of its own, however much it is like
    /// another one.
    pub fn add(&mut self, new: NewApproval, now: u64) -> Option<watch::Receiver<Given<R>>> {
        let own = |entry: &&Entry<R>| entry.approval.binding.agent == new.binding.agent;
        if self.entries.values().filter(own).count() >= self.most {
            return None;
        }
        Some(self.insert(new, now, Caller::Waiting))
    }

    /// One that waited in an earlier run, and whether its caller was told so.
    pub fn restore(&mut self, new: NewApproval, created: u64, caller: Caller) {
        drop(self.insert(new, created, caller));
    }

    fn insert(
        &mut self,
        new: NewApproval,
        created: u64,
        caller: Caller,
    ) -> watch::Receiver<Given<R>> {
        let given = watch::Sender::new(Given::Nothing);
        let receiver = given.subscribe();
        let entry = Entry {
            approval: Approval {
                id: new.id.clone(),
                binding: new.binding,
                reason: new.reason,
                arguments: new.shown,
                why: new.why,
                said: new.said,
                created,
                expires: new.expires,
                stage: Stage::PendingApproval,
                caller,
            },
            arguments: new.arguments,
            given,
            result: None,
            claimed: false,
            until: new.expires,
        };
        self.entries.insert(new.id, entry);
        receiver
    }

    /// A call like one that nobody waits for any more goes on with that one, the oldest first. One of another
    /// conversation is only gone on with when that conversation is over.
    pub fn attach(
        &mut self,
        call: &Binding,
        is_open: impl Fn(u64) -> bool,
        now: u64,
    ) -> Option<Attached<R>> {
        let fits = |entry: &Entry<R>| {
            let bound = &entry.approval.binding;
            let own = bound.serial == call.serial || !is_open(bound.serial);
            // What is not the same any more would be refused when it is called; but what was done was done.
            let same =
                bound.is_same_call(call) && (entry.result.is_some() || bound.check(call).is_ok());
            own && same && entry.approval.caller != Caller::Waiting && entry.until > now
        };
        let found = self.entries.iter().filter(|(_, entry)| fits(entry));
        let oldest = found.min_by_key(|(_, entry)| entry.approval.created)?;
        let id = oldest.0.clone();
        if let Some(result) = oldest.1.result.clone() {
            let arguments = self.entries.remove(&id)?.arguments;
            return Some(Attached::Result(id, arguments, result));
        }
        let entry = self.entries.get_mut(&id)?;
        entry.approval.caller = Caller::Waiting;
        entry.approval.binding.serial = call.serial;
        entry.approval.binding.session = call.session.clone();
        Some(Attached::Waits(id, entry.given.subscribe()))
    }

    /// Patience is over: the call is answered that it waits, unless it was decided in this moment.
    pub fn tell(&mut self, id: &ApprovalId) -> Told {
        let Some(entry) = self.entries.get_mut(id) else {
            return Told::Decided;
        };
        match entry.approval.stage {
            Stage::PendingApproval | Stage::Running => {
                entry.approval.caller = Caller::Told;
                Told::Waits
            }
            Stage::Approved | Stage::Completed => Told::Decided,
        }
    }

    /// A waiting call gave up. It stays, for the same call may come again.
    pub fn leave(&mut self, id: &ApprovalId) {
        if let Some(entry) = self.entries.get_mut(id)
            && entry.approval.caller == Caller::Waiting
        {
            entry.approval.caller = Caller::Gone;
        }
    }

    /// A person decides.
    pub fn decide(
        &mut self,
        id: &ApprovalId,
        decision: Decision,
        now: u64,
    ) -> Result<Decided, DecideError> {
        let unknown = || DecideError::Unknown(id.clone());
        let entry = self.entries.get_mut(id).ok_or_else(unknown)?;
        if entry.approval.stage != Stage::PendingApproval || entry.claimed {
            return Err(DecideError::Decided(id.clone()));
        }
        if entry.until <= now {
            return Err(unknown());
        }
        match decision {
            Decision::Approve { arguments, scope } => {
                entry.approval.stage = Stage::Approved;
                entry.until = now.saturating_add(COLLECT);
                if let Some(arguments) = arguments {
                    entry.arguments = arguments;
                }
                entry.given.send_replace(Given::Approved);
                Ok(Decided {
                    approval: entry.approval.clone(),
                    scope: Some(scope),
                    runs_now: entry.approval.caller == Caller::Told,
                })
            }
            Decision::Deny { reason } => {
                entry.given.send_replace(Given::Denied(reason));
                let approval = entry.approval.clone();
                if approval.caller == Caller::Told {
                    // It comes again to hear of it (A228).
                    entry.approval.stage = Stage::Completed;
                    entry.until = now.saturating_add(COLLECT);
                } else {
                    self.entries.remove(id);
                }
                Ok(Decided {
                    approval,
                    scope: None,
                    runs_now: false,
                })
            }
        }
    }

    /// What a decision hangs on was changed by the decision itself: open approvals of that tool go on with what it is
    /// now.
    pub fn rebind(&mut self, agent: &str, exposed: &str, before: &str, policy: &str) {
        for entry in self.entries.values_mut() {
            let bound = &mut entry.approval.binding;
            let same = bound.agent.as_str() == agent && bound.exposed == exposed;
            if same && bound.policy == before {
                policy.clone_into(&mut bound.policy);
            }
        }
    }

    /// Somebody is about to decide: until then nobody else does, and it does not expire. [`Book::let_go`] takes that
    /// back.
    pub fn claim(&mut self, id: &ApprovalId, now: u64) -> Result<(), DecideError> {
        let unknown = || DecideError::Unknown(id.clone());
        let entry = self.entries.get_mut(id).ok_or_else(unknown)?;
        if entry.approval.stage != Stage::PendingApproval || entry.claimed {
            return Err(DecideError::Decided(id.clone()));
        }
        if entry.until <= now {
            return Err(unknown());
        }
        entry.claimed = true;
        Ok(())
    }

    /// It may be decided about again.
    pub fn let_go(&mut self, id: &ApprovalId) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.claimed = false;
        }
    }

    /// An approved call begins, once: what it was bound to, and with which arguments.
    pub fn begin(&mut self, id: &ApprovalId) -> Option<(Binding, Arc<RawValue>)> {
        let entry = self.entries.get_mut(id)?;
        if entry.approval.stage != Stage::Approved {
            return None;
        }
        entry.approval.stage = Stage::Running;
        entry.until = u64::MAX;
        Some((entry.approval.binding.clone(), entry.arguments.clone()))
    }

    /// A call that ran for nobody is over: its result waits, and whoever waits meanwhile is told.
    pub fn finish(&mut self, id: &ApprovalId, result: R, now: u64) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.approval.stage = Stage::Completed;
            entry.until = now.saturating_add(COLLECT);
            entry.result = Some(result.clone());
            entry.given.send_replace(Given::Done(result));
        }
    }

    /// Whoever waited has its result, or ran it: nothing is left to do.
    pub fn close(&mut self, id: &ApprovalId) -> Option<Approval> {
        self.entries.remove(id).map(|entry| entry.approval)
    }

    /// Takes back what waits and matches. What runs goes on.
    pub fn cancel(&mut self, which: impl Fn(&Approval) -> bool, why: &str) -> Vec<Ended> {
        let matches = |entry: &Entry<R>| {
            matches!(
                entry.approval.stage,
                Stage::PendingApproval | Stage::Approved
            ) && which(&entry.approval)
        };
        self.end(matches, || Given::Cancelled(why.to_owned()))
    }

    /// What was not answered in time, and what was not collected, goes. Results go silently: their calls have ended.
    pub fn expire(&mut self, now: u64) -> Vec<Ended> {
        let over = |entry: &Entry<R>| entry.until <= now && !entry.claimed;
        let mut ended = self.end(over, || Given::Expired);
        ended.retain(|ended| ended.approval.stage != Stage::Completed);
        ended
    }

    fn end(
        &mut self,
        which: impl Fn(&Entry<R>) -> bool,
        given: impl Fn() -> Given<R>,
    ) -> Vec<Ended> {
        let ids: Vec<_> = self
            .entries
            .iter()
            .filter(|(_, entry)| which(entry))
            .map(|(id, _)| id.clone())
            .collect();
        let ended = ids.into_iter().filter_map(|id| self.entries.remove(&id));
        ended
            .map(|entry| {
                entry.given.send_replace(given());
                Ended {
                    was_approved: entry.approval.stage != Stage::PendingApproval,
                    approval: entry.approval,
                }
            })
            .collect()
    }

    /// When the next of them expires, in milliseconds since 1970.
    pub fn next_due(&self) -> Option<u64> {
        let due = self.entries.values().map(|entry| entry.until);
        due.min().filter(|due| *due < u64::MAX)
    }

    /// All of them, the oldest first.
    pub fn list(&self) -> Vec<Approval> {
        let mut all: Vec<_> = self
            .entries
            .values()
            .map(|entry| entry.approval.clone())
            .collect();
        all.sort_by(|one, other| (one.created, &one.id).cmp(&(other.created, &other.id)));
        all
    }

    /// The one of that name.
    pub fn get(&self, id: &ApprovalId) -> Option<&Approval> {
        self.entries.get(id).map(|entry| &entry.approval)
    }

    /// What would be called.
    pub fn arguments(&self, id: &ApprovalId) -> Option<Arc<RawValue>> {
        self.entries.get(id).map(|entry| entry.arguments.clone())
    }
}
