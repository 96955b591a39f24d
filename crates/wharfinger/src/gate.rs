//! Calls that a person has to allow: from the question to the one answer, whichever door it comes by (A223–A233).
//!
//! `policy` says whether a call needs a person and `approvals` keeps what waits; here the two are tied to the agent's
//! file, which remembers both over a restart, and to whoever waits.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use wharfinger_wire::json::{Object, Raw, empty_object, raw};
use wharfinger_wire::message::ErrorObject;

use crate::agents::Agent;
use crate::approvals::{
    Approval, ApprovalId, Attached, Binding, Book, Decision, Given, Grants, NewApproval, Reason,
    Scope, Told,
};
use crate::call::{CallNote, Refusal, Target, ToolCall};
use crate::gated::is_restricted;
use crate::model::{canonical, hex};
use crate::record::Recording;
use crate::servers::Asked;
use crate::session::Session;
use crate::target::Found;
use crate::wharf::{Wharf, lock, now};

/// What a call came to, for whoever collects it.
pub(crate) type Outcome = Result<Arc<RawValue>, Refusal>;

/// Open approvals of one agent; a model in a loop is not to bury its owner.
const MOST: usize = 64;

/// Everything that waits for a person, of all agents.
pub(crate) struct Gate {
    desk: Mutex<Desk>,
    /// Told when what expires next may be another one.
    changed: Notify,
    approver: Option<Approver>,
}

/// A program that decides, or asks somebody: it gets each call that waits, and its answer counts if it is the first.
/// `None` leaves the call to others.
#[derive(Clone)]
pub struct Approver(Arc<dyn Fn(Approval) -> Deciding + Send + Sync>);

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
    rounds: Vec<Round>,
}

/// An allowed call whose server asked for input: its next round is the same call.
#[derive(Debug)]
struct Round {
    call: Consent,
    state: Option<String>,
}

/// What was allowed, for all rounds of a call.
#[derive(Debug)]
pub(crate) struct Consent {
    /// To the call as its caller makes it.
    binding: Binding,
    /// What it is made with, where whoever allowed it changed that.
    edited: Option<Arc<RawValue>>,
}

impl Consent {
    fn new(asking: Asking, arguments: Option<Arc<RawValue>>) -> Self {
        Self {
            edited: arguments.filter(|edited| edited.get() != asking.arguments.get()),
            binding: asking.binding,
        }
    }
}

/// Rounds that are open at once; the oldest makes room.
const ROUNDS: usize = 256;

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
enum Waited {
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
    fn new(session: &Session, id: &ApprovalId) -> Self {
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
struct Waiting {
    wharf: Wharf,
    id: ApprovalId,
    given: watch::Receiver<Given<Outcome>>,
    settled: bool,
}

impl Waiting {
    fn new(wharf: &Wharf, id: ApprovalId, given: watch::Receiver<Given<Outcome>>) -> Self {
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

/// How often a client that waits is told so.
const TICK: Duration = Duration::from_secs(10);

impl Session {
    /// Lets a call of an agent through that needs nobody, or that somebody allows.
    pub(crate) async fn pass(
        &self,
        found: &Found<'_>,
        asking: Asking,
        call: ToolCall<'_>,
        is_async: bool,
        notes: &mut (impl FnMut(CallNote) + Send),
    ) -> Result<Passage, Refusal> {
        let gate = &self.wharf.0.gate;
        if let Some(round) = gate.with(|desk| desk.take_round(&asking.binding, call.params)) {
            let params = match &round.edited {
                None => None,
                Some(edited) => {
                    let edited = self.check(&round.binding, edited, found);
                    let edited = edited.map_err(Refusal::Unavailable)?;
                    Some(with_arguments(call.params, &edited))
                }
            };
            return Ok(Passage::Open(Admitted {
                params,
                approval: None,
                consent: Some(round),
            }));
        }
        // What protects the agent itself is asked each time.
        let granted = || gate.with(|desk| desk.grants.cover(&asking.binding));
        if asking.reason == Reason::Restricted && granted() {
            return Ok(Passage::Open(Admitted::freely(None)));
        }
        let is_open = |serial| self.wharf.has_session(serial);
        let attached = gate.with(|desk| desk.book.attach(&asking.binding, is_open, now()));
        let mut waiting = match attached {
            Some(Attached::Result(id, arguments, outcome)) => {
                let consent = Consent::new(asking, Some(arguments));
                return Ok(Passage::Collected(id, Some(consent), outcome));
            }
            Some(Attached::Waits(id, given)) => Waiting::new(&self.wharf, id, given),
            None => self.ask(&asking).await?,
        };
        let id = waiting.id.clone();
        // One that was decided in this moment is not told to wait.
        if is_async && gate.with(|desk| desk.book.tell(&id)) == Told::Waits {
            waiting.settled = true;
            crate::waiting::told(&self.wharf, &self.state.own, &id).await;
            let text = json!({
                "task_id": id, "status": "pending_approval", "tool": asking.binding.exposed,
            });
            let told = Ok(Arc::from(said(&text.to_string())));
            return Ok(Passage::Collected(id, None, told));
        }
        let (bound, arguments) = match self.wait(waiting, &asking, call, notes).await? {
            Waited::Begun(bound, arguments) => (bound, arguments),
            Waited::Made(arguments, outcome) => {
                let consent = Consent::new(asking, arguments);
                return Ok(Passage::Collected(id, Some(consent), outcome));
            }
        };
        let allowed = Allowed::new(self, &id);
        match self.begin(&id, &bound, &arguments, found).await {
            Ok(arguments) => Ok(Passage::Open(Admitted {
                params: Some(with_arguments(call.params, &arguments)),
                approval: Some(allowed),
                consent: Some(Consent::new(asking, Some(arguments))),
            })),
            Err(refusal) => {
                allowed.over(&Err(refusal.clone())).await;
                Err(refusal)
            }
        }
    }

    /// Writes down that a call waits, and tells everybody. That is done to its end, also for a caller that is gone
    /// meanwhile.
    async fn ask(&self, asking: &Asking) -> Result<Waiting, Refusal> {
        let (agent, wharf) = (self.state.own.clone(), self.wharf.clone());
        let redactor = wharf.redactor();
        let shown = redactor.json(&asking.arguments);
        let said = asking.said.as_deref();
        let new = NewApproval {
            id: ApprovalId::new(&crate::agentfile::task_id()),
            binding: asking.binding.clone(),
            reason: asking.reason,
            arguments: asking.arguments.clone(),
            shown: shown.map_or_else(|| asking.arguments.clone(), Arc::from),
            why: asking.why.clone(),
            said: said.map(|said| redactor.text(said).into_owned()),
            expires: now().saturating_add(wharf.approval_life()),
        };
        let asked = self.wharf.0.context.tasks.spawn(async move {
            let file = agent.file().map_err(Refusal::Unavailable)?;
            let (id, created) = (new.id.clone(), now());
            // First what outlives us: a crash in between asks again, and loses nothing.
            crate::waiting::write(&file, &new, created)
                .await
                .map_err(|error| Refusal::Unavailable(error.to_string()))?;
            let added = wharf.0.gate.with(|desk| desk.book.add(new, created));
            let Some(given) = added else {
                let end = crate::waiting::End::Cancelled("too many");
                crate::waiting::end(&wharf, &agent, &id, end).await;
                return Err(Refusal::Unavailable(format!(
                    "{MOST} calls of this agent wait for their approval already; wait until some are answered"
                )));
            };
            let waiting = Waiting::new(&wharf, id, given);
            wharf.asked(&waiting.id).await;
            wharf.ask_approver(&waiting.id);
            Ok(waiting)
        });
        asked.await.unwrap_or_else(|_| Err(crate::call::stopped()))
    }

    /// Waits for a person.
    async fn wait(
        &self,
        mut waiting: Waiting,
        asking: &Asking,
        call: ToolCall<'_>,
        notes: &mut (impl FnMut(CallNote) + Send),
    ) -> Result<Waited, Refusal> {
        let gate = &self.wharf.0.gate;
        let id = &waiting.id.clone();
        let over = call.patience.map(|patience| Instant::now() + patience);
        let mut tick = Instant::now();
        let mut ticks = 0;
        let (mut elicited, _taken_back) = self.elicit(id, asking, notes);
        loop {
            let heard = waiting.given.borrow_and_update().clone();
            match heard {
                Given::Nothing => {}
                Given::Approved => {
                    if let Some((bound, arguments)) = gate.with(|desk| desk.book.begin(id)) {
                        waiting.settled = true;
                        return Ok(Waited::Begun(bound, arguments));
                    }
                    // It is being made, as its caller was told; its result comes.
                }
                Given::Denied(feedback) => {
                    waiting.settled = true;
                    gate.with(|desk| desk.book.close(id));
                    return Err(denied(&asking.binding, feedback.as_deref()));
                }
                Given::Expired => {
                    waiting.settled = true;
                    return Err(Refusal::Denied(format!(
                        "nobody answered the approval {id} of `{}` in time; nothing was done",
                        asking.binding.exposed
                    )));
                }
                Given::Cancelled(why) => {
                    waiting.settled = true;
                    return Err(Refusal::Denied(format!(
                        "the approval {id} of `{}` was taken back: {why}; nothing was done",
                        asking.binding.exposed
                    )));
                }
                Given::Done(outcome) => {
                    waiting.settled = true;
                    let arguments = gate.with(|desk| {
                        let arguments = desk.book.arguments(id);
                        desk.book.close(id);
                        arguments
                    });
                    return Ok(Waited::Made(arguments, outcome));
                }
            }
            tokio::select! {
                biased;
                changed = waiting.given.changed() => {
                    let open = matches!(*waiting.given.borrow(), Given::Nothing | Given::Approved);
                    if changed.is_err() && open {
                        waiting.settled = true;
                        return Err(Refusal::Denied(format!("the approval {id} is gone")));
                    }
                }
                answer = hear(&mut elicited) => {
                    elicited = None;
                    if let Some(decision) = answer {
                        // Another door may have been faster.
                        let (wharf, id) = (self.wharf.clone(), id.clone());
                        self.wharf.0.context.tasks.spawn(async move {
                            drop(wharf.decide(&id, decision, Decider::Client).await);
                        });
                    }
                }
                () = until(over) => {
                    if gate.with(|desk| desk.book.tell(id)) == Told::Waits {
                        waiting.settled = true;
                        crate::waiting::told(&self.wharf, &self.state.own, id).await;
                        return Err(Refusal::Waiting {
                            approval: id.clone(),
                            text: waiting_text(id, &asking.binding),
                        });
                    }
                }
                () = cancelled(call.gone) => {
                    return Err(Refusal::Denied(format!(
                        "whoever called is gone, and the approval {id} waits for the same call to come again"
                    )));
                }
                () = sleep_until(tick) => {
                    tick += TICK;
                    if call.progress {
                        notes(CallNote::Progress(raw(&json!({
                            "progressToken": id,
                            "progress": ticks,
                            "message": format!("waiting for the approval {id} of `{}`", asking.binding.exposed),
                        }))));
                    }
                    ticks += 1;
                }
            }
        }
    }

    /// Asks whoever sits at the client, where the owner allows that.
    fn elicit(
        &self,
        id: &ApprovalId,
        asking: &Asking,
        notes: &mut (impl FnMut(CallNote) + Send),
    ) -> (
        Option<oneshot::Receiver<Result<Raw, ErrorObject>>>,
        tokio_util::sync::DropGuard,
    ) {
        let cancelled = CancellationToken::new();
        let guard = cancelled.clone().drop_guard();
        let allowed = self.state.own.rights().ask_client;
        if !allowed || !self.state.declared.can("elicitation") {
            return (None, guard);
        }
        let arguments = self.wharf.redactor().json(&asking.arguments);
        let arguments = arguments.as_deref().unwrap_or(&asking.arguments);
        let message = format!(
            "{}\n\nTool: {} (of {})\nArguments: {}\nApproval: {id}",
            asking.why,
            asking.binding.exposed,
            asking.binding.server,
            shortened(arguments.get(), 2000),
        );
        let params = raw(&json!({
            "message": message,
            "requestedSchema": {
                "type": "object",
                "properties": {
                    "decision": {
                        "type": "string",
                        "title": "Decision",
                        "enum": ["approve", "deny"],
                    },
                    "reason": { "type": "string", "title": "Why not" },
                },
                "required": ["decision"],
            },
        }));
        let (asked, answered) = Asked::ours("elicitation/create", params, cancelled);
        notes(CallNote::Asked(asked));
        (Some(answered), guard)
    }

    /// An allowed call begins: gives the arguments it is made with, if it is still the one that was allowed.
    async fn begin(
        &self,
        id: &ApprovalId,
        bound: &Binding,
        arguments: &Arc<RawValue>,
        found: &Found<'_>,
    ) -> Result<Arc<RawValue>, Refusal> {
        let arguments = self.check(bound, arguments, found).map_err(|why| {
            Refusal::Unavailable(format!(
                "the approval {id} of `{}` can't be used: {why}; nothing was done, so call it again to ask anew",
                bound.exposed
            ))
        })?;
        crate::waiting::runs(&self.wharf, &self.state.own, id)
            .await
            .map_err(Refusal::Unavailable)?;
        Ok(arguments)
    }

    /// Looks again at what was allowed, at the last moment (A227).
    fn check(
        &self,
        bound: &Binding,
        arguments: &Arc<RawValue>,
        found: &Found<'_>,
    ) -> Result<Arc<RawValue>, String> {
        checked_arguments(arguments)?;
        let definition = self
            .definition(found)
            .ok_or("there is no such tool any more")?;
        let stripped = crate::policy::strip_internal(arguments, &definition)
            .map_err(|error| error.to_string())?;
        let now = self.binding(found, &stripped.arguments)?;
        bound.check(&now).map_err(|mismatch| mismatch.to_string())?;
        Ok(Arc::from(stripped.arguments))
    }

    /// What a call is bound to, as things are at this moment.
    pub(crate) fn binding(
        &self,
        found: &Found<'_>,
        arguments: &RawValue,
    ) -> Result<Binding, String> {
        let rights = self.state.own.rights();
        let exposed = found.exposed.as_ref();
        let gone = || format!("there is no tool `{exposed}` any more, or it is another one");
        if !self.is_as_seen(found) {
            return Err(gone());
        }
        let definition = self.definition(found).ok_or_else(gone)?;
        let policy = crate::policy::policy_digest(
            rights.declaration(exposed),
            is_restricted(&rights, &found.server()),
            &[&self.what_runs(found)],
        );
        Ok(Binding {
            agent: self.state.agent.clone(),
            session: self.state.id.clone(),
            serial: self.state.serial,
            server: found.server(),
            tool: found.tool.clone(),
            exposed: exposed.to_owned(),
            tool_hash: crate::catalog::definition_hash(&definition),
            policy,
            arguments: digest(arguments),
        })
    }

    /// Makes an allowed call for a client that was answered that it waits; its result waits to be collected.
    pub(crate) async fn run_allowed(&self, id: ApprovalId) {
        let gate = &self.wharf.0.gate;
        // Its caller may have come back in this moment, and makes it.
        let Some((bound, arguments)) = gate.with(|desk| desk.book.begin(&id)) else {
            return;
        };
        let stopping = self.state.stopping();
        let making = self.make_allowed(&id, &bound, &arguments);
        let outcome = stopping.run_until_cancelled(making).await;
        let outcome = outcome.unwrap_or_else(|| Err(crate::call::stopped()));
        self.wharf
            .allowed_is_over(&self.state.own, &id, &outcome)
            .await;
        let outcome = outcome.map(Arc::<RawValue>::from);
        gate.with(|desk| desk.book.finish(&id, outcome, now()));
        if self.is_over() {
            // It ended meanwhile, when its servers were busy.
            self.wharf.release_instances(&self.state).await;
        }
    }

    async fn make_allowed(
        &self,
        id: &ApprovalId,
        bound: &Binding,
        arguments: &Arc<RawValue>,
    ) -> Result<Raw, Refusal> {
        self.tools().await;
        let config = self.config();
        let found = self.find(&config, Target::Exposed(&bound.exposed), false)?;
        let arguments = self.begin(id, bound, arguments, &found).await?;
        let params = with_arguments(&raw(&json!({ "name": bound.exposed })), &arguments);
        let call = ToolCall {
            progress: false,
            ..ToolCall::new(&bound.exposed, &params)
        };
        let mut recording = Recording::of_call(self, &call);
        recording.found(&found.server(), &found.tool);
        recording.allowed(id);
        let reply = self.carry_out(&found, call, &mut |_| ()).await;
        recording.end(&reply).await;
        reply
    }

    /// A server that asks for input goes on with the call that was allowed.
    pub(crate) fn expects_round(&self, consent: Consent, result: &RawValue) {
        if !result.get().contains("\"input_required\"") {
            return;
        }
        let object = Object::from_raw(result).unwrap_or_default();
        if object.text("resultType").as_deref() != Some("input_required") {
            return;
        }
        let round = Round {
            call: consent,
            state: object.text("requestState").map(|state| hash(&state)),
        };
        self.wharf.0.gate.with(|desk| {
            if desk.rounds.len() >= ROUNDS {
                desk.rounds.remove(0);
            }
            desk.rounds.push(round);
        });
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
    fn take_round(&mut self, binding: &Binding, params: &RawValue) -> Option<Consent> {
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

/// By which door a decision came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decider {
    /// The owner: CLI, admin API, an embedder.
    Owner,
    /// Whoever sits at the agent's client, where the owner allows that.
    Client,
}

/// Why a decision was not taken.
#[derive(Debug, thiserror::Error)]
pub enum DecisionError {
    /// There is none of that name, or no longer.
    #[error(transparent)]
    Book(#[from] crate::approvals::DecideError),
    /// The new arguments can't be used.
    #[error("the arguments can't be used: {0}")]
    Arguments(String),
    /// A yes for more than this call is not to be had: of a locked tool (A233), for what protects the agent itself.
    #[error("`{tool}` can't be approved for {}: {why}; approve it once", match .scope {
        Scope::Once => "this call",
        Scope::Session => "its session",
        Scope::Arguments => "these arguments",
        Scope::Always => "always",
    })]
    Scope {
        /// As the agent calls it.
        tool: String,
        /// What was wanted.
        scope: Scope,
        /// Why not.
        why: &'static str,
    },
    /// The agent's file could not be changed.
    #[error("{0}")]
    File(String),
}

impl Wharf {
    /// An allowed call is over, one way or the other.
    async fn allowed_is_over(&self, agent: &Agent, id: &ApprovalId, reply: &Result<Raw, Refusal>) {
        use crate::waiting::End;
        let end = match reply {
            Ok(result) => End::Completed(result),
            Err(refusal) => End::Failed(&refusal.to_string()),
        };
        crate::waiting::end(self, agent, id, end).await;
    }

    /// Decides about a call that waits, once. Of several deciders the first counts.
    ///
    /// A yes is checked again when its call is made: a tool, a policy or a program that changed meanwhile is not
    /// called.
    pub async fn decide(
        &self,
        id: &ApprovalId,
        decision: Decision,
        by: Decider,
    ) -> Result<Approval, DecisionError> {
        let known = self.0.gate.with(|desk| desk.book.get(id).cloned());
        let known = known.ok_or_else(|| crate::approvals::DecideError::Unknown(id.clone()))?;
        let agent = self.own_agent(&known.binding.agent);
        if let Decision::Approve { arguments, scope } = &decision {
            if let Some(arguments) = arguments {
                checked_arguments(arguments).map_err(DecisionError::Arguments)?;
            }
            self.check_scope(&known, *scope)?;
            if *scope == Scope::Always {
                self.allow_always(&agent, &known).await?;
            }
        }
        let feedback = match &decision {
            Decision::Deny { reason } => reason.clone(),
            Decision::Approve { .. } => None,
        };
        let edited = match &decision {
            Decision::Approve { arguments, .. } => arguments.clone(),
            Decision::Deny { .. } => None,
        };
        let decided = self.0.gate.with(|desk| {
            let decided = desk.book.decide(id, decision, now())?;
            if let Some(scope) = decided.scope {
                let mut granted = decided.approval.binding.clone();
                // What is granted is what was allowed, not what was asked.
                if let Some(edited) = &edited {
                    granted.arguments = digest(edited);
                }
                desk.grants.add(granted, scope);
            }
            Ok::<_, crate::approvals::DecideError>(decided)
        })?;
        if decided.scope.is_none() {
            let end = crate::waiting::End::Denied(feedback.as_deref().unwrap_or_default());
            crate::waiting::end(self, &agent, id, end).await;
        }
        self.resolved(
            &decided.approval,
            decided.scope,
            feedback.as_deref(),
            edited.is_some(),
            by,
        )
        .await;
        if decided.runs_now {
            let session = self.session_for(&decided.approval.binding);
            let id = id.clone();
            self.0
                .context
                .tasks
                .spawn(async move { session.run_allowed(id).await });
        }
        Ok(decided.approval)
    }

    /// The tool's declaration says from now on that nobody needs to be asked (A233).
    async fn allow_always(
        &self,
        agent: &Arc<Agent>,
        known: &Approval,
    ) -> Result<(), DecisionError> {
        let exposed = &known.binding.exposed;
        // Nobody else decides meanwhile.
        self.0.gate.with(|desk| desk.book.claim(&known.id, now()))?;
        let before = self.policy_of(known);
        let changed = self
            .declare(agent, exposed, |declaration| {
                if declaration.locked {
                    return Err("its declaration is locked");
                }
                if declaration.is_pending() {
                    return Err("it is not what was reviewed");
                }
                declaration.enabled = true;
                declaration.restricted = false;
                Ok(())
            })
            .await;
        let after = self.policy_of(known);
        self.0.gate.with(|desk| {
            desk.book.let_go(&known.id);
            // What was decided about is what it was but for this.
            if let (Ok(()), Some(before), Some(after)) = (&changed, before, after) {
                let agent = known.binding.agent.as_str();
                desk.book.rebind(agent, exposed, &before, &after);
            }
        });
        changed.map_err(|error| match error {
            crate::agents::DeclareError::Refused(why) => DecisionError::Scope {
                tool: exposed.clone(),
                scope: Scope::Always,
                why,
            },
            error => DecisionError::File(error.to_string()),
        })
    }

    /// What a decision about a call hangs on at this moment.
    fn policy_of(&self, known: &Approval) -> Option<String> {
        let exposed = known.binding.exposed.as_str();
        let session = self.session_for(&known.binding);
        let config = session.config();
        let found = session
            .find(&config, Target::Exposed(exposed), false)
            .ok()?;
        let rights = session.state.own.rights();
        Some(crate::policy::policy_digest(
            rights.declaration(exposed),
            is_restricted(&rights, &known.binding.server),
            &[&session.what_runs(&found)],
        ))
    }

    /// Some yeses are good for one call only.
    fn check_scope(&self, known: &Approval, scope: Scope) -> Result<(), DecisionError> {
        let refused = |why| {
            Err(DecisionError::Scope {
                tool: known.binding.exposed.clone(),
                scope,
                why,
            })
        };
        match (scope, known.reason) {
            (Scope::Once, _) => Ok(()),
            (_, Reason::Protection) => refused("it protects the agent's own settings"),
            (Scope::Session, _) if self.session_for(&known.binding).is_lasting() => {
                refused("its client has no session of its own")
            }
            (Scope::Session | Scope::Arguments | Scope::Always, Reason::Restricted) => Ok(()),
        }
    }

    fn ask_approver(&self, id: &ApprovalId) {
        let Some(approver) = &self.0.gate.approver else {
            return;
        };
        let Some(approval) = self.0.gate.with(|desk| desk.book.get(id).cloned()) else {
            return;
        };
        let (deciding, wharf, id) = (approver.0(approval), self.clone(), id.clone());
        self.0.context.tasks.spawn(async move {
            let stop = wharf.0.context.stop.clone();
            if let Some(Some(decision)) = stop.run_until_cancelled(deciding).await {
                // Somebody else may have been faster.
                drop(wharf.decide(&id, decision, Decider::Owner).await);
            }
        });
    }

    /// What became of a call that was asked about, and of which agent, as its file has it; also when it waits no more
    /// (A229).
    pub async fn asked_before(
        &self,
        id: &ApprovalId,
    ) -> Option<(crate::model::AgentName, crate::agentfile::TaskStatus)> {
        for name in self.agents() {
            let agent = self.own_agent(&name);
            let Ok(file) = agent.file() else { continue };
            let id = id.as_str().to_owned();
            let task = crate::waiting::on(&file, move |file| file.task(&id)).await;
            if let Ok(Some(task)) = task {
                return Some((name, task.status));
            }
        }
        None
    }

    /// Everything that waits for a person or for its collection, the oldest first.
    pub fn approvals(&self) -> Vec<Approval> {
        self.0.gate.with(|desk| desk.book.list())
    }
}

/// Takes away what nobody answered in time, as it expires.
pub(crate) async fn keep(wharf: std::sync::Weak<crate::wharf::Inner>) {
    let Some(stop) = wharf.upgrade().map(|wharf| wharf.context.stop.clone()) else {
        return;
    };
    loop {
        let Some(wharf) = wharf.upgrade().map(Wharf) else {
            return;
        };
        let ended = lock(&wharf.0.gate.desk).book.expire(now());
        for ended in ended {
            wharf.expired(&ended).await;
        }
        let due = lock(&wharf.0.gate.desk).book.next_due();
        let wait = due.map(|due| Duration::from_millis(due.saturating_sub(now())));
        let inner = Arc::downgrade(&wharf.0);
        let changed = async {
            let Some(inner) = inner.upgrade() else { return };
            inner.gate.changed.notified().await;
        };
        drop(wharf);
        tokio::select! {
            () = stop.cancelled() => return,
            () = changed => {}
            () = until(wait.map(|wait| Instant::now() + wait)) => {}
        }
    }
}

async fn until(when: Option<Instant>) {
    match when {
        Some(when) => sleep_until(when).await,
        None => std::future::pending().await,
    }
}

async fn cancelled(token: Option<&CancellationToken>) {
    match token {
        Some(token) => token.cancelled().await,
        None => std::future::pending().await,
    }
}

/// What somebody at the client decided; nothing where they closed the question.
async fn hear(
    elicited: &mut Option<oneshot::Receiver<Result<Raw, ErrorObject>>>,
) -> Option<Decision> {
    let Some(answered) = elicited else {
        return std::future::pending().await;
    };
    let answer: Value = serde_json::from_str(answered.await.ok()?.ok()?.get()).ok()?;
    let text = |key: &str| answer.pointer(key).and_then(Value::as_str);
    match (text("/action")?, text("/content/decision")) {
        ("accept", Some("approve")) => Some(Decision::Approve {
            arguments: None,
            scope: Scope::Once,
        }),
        ("accept", Some("deny")) | ("decline", _) => Some(Decision::Deny {
            reason: text("/content/reason").map(str::to_owned),
        }),
        _ => None,
    }
}

fn denied(bound: &Binding, feedback: Option<&str>) -> Refusal {
    let feedback = feedback.filter(|text| !text.trim().is_empty());
    let feedback = feedback.map(|text| format!(": {text}")).unwrap_or_default();
    Refusal::Denied(format!(
        "the call of `{}` was rejected by its authorizer{feedback}",
        bound.exposed
    ))
}

fn waiting_text(id: &ApprovalId, bound: &Binding) -> String {
    format!(
        "waiting for approval {id}: the owner of this agent has not decided about this call of `{}` yet (`wharf approve {id}` or `wharf deny {id}`), and nothing was done. Call it again with the same arguments to collect its result.",
        bound.exposed
    )
}

/// A result of one text.
pub(crate) fn said(text: &str) -> Raw {
    raw(&json!({ "content": [{ "type": "text", "text": text }] }))
}

/// The digest of arguments that are equal if they mean the same: the order of members does not count.
pub(crate) fn digest(arguments: &RawValue) -> String {
    hash(&canonical(arguments))
}

pub(crate) fn hash(text: &str) -> String {
    hex(&Sha256::digest(text))
}

/// The arguments of a call; an empty object where there are none.
pub(crate) fn arguments(params: &RawValue) -> Raw {
    let object = Object::from_raw(params).unwrap_or_default();
    let arguments = object.get("arguments").filter(|raw| raw.get() != "null");
    arguments.map_or_else(empty_object, ToOwned::to_owned)
}

pub(crate) fn with_arguments(params: &RawValue, arguments: &RawValue) -> Raw {
    let mut object = Object::from_raw(params).unwrap_or_default();
    object.set("arguments", arguments.to_owned());
    object.to_raw()
}

/// Arguments of an approver are an object without what nobody may set.
fn checked_arguments(arguments: &RawValue) -> Result<(), String> {
    if Object::from_raw(arguments).is_err() {
        return Err("they must be an object".into());
    }
    let object = Object::from_raw(arguments).unwrap_or_default();
    let forged: Vec<&str> = crate::policy::INTERNAL
        .into_iter()
        .filter(|name| object.contains(name))
        .collect();
    if forged.is_empty() {
        Ok(())
    } else {
        Err(format!("nobody may set {}", forged.join(", ")))
    }
}

/// Goes on with what waited when the program ended (A231).
pub(crate) async fn recall(wharf: &Wharf) {
    let agents: Vec<Arc<Agent>> = lock(&wharf.0.agents).values().cloned().collect();
    for agent in agents {
        let Ok(file) = agent.file() else { continue };
        if file.is_read_only() {
            continue;
        }
        let name = agent.name.clone();
        let left = crate::waiting::on(&file, move |file| {
            crate::waiting::recall(&name, file, now())
        })
        .await;
        match left {
            Ok(left) => {
                for crate::waiting::Waits {
                    mut new,
                    created,
                    caller,
                } in left.waiting
                {
                    let shown = wharf.redactor().json(&new.shown);
                    if let Some(shown) = shown {
                        new.shown = Arc::from(shown);
                    }
                    wharf
                        .0
                        .gate
                        .with(|desk| desk.book.restore(new, created, caller));
                }
                for task in left.settled {
                    wharf.settled(&agent.name, &task).await;
                }
            }
            Err(error) => {
                tracing::warn!(agent = %agent.name, "its waiting calls could not be read: {error}");
            }
        }
    }
}

fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let start: String = text.chars().take(most).collect();
    format!("{start}…")
}
