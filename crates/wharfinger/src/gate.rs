//! Calls that a person has to allow: from the question to the one answer, whichever door it comes by (A223–A233).
//!
//! `policy` says whether a call needs a person and `approvals` keeps what waits; here the two are tied to the agent's
//! file, which remembers both over a restart, and to whoever waits.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use wharfinger_wire::json::{Object, Raw, raw};
use wharfinger_wire::message::ErrorObject;

use crate::approvals::{
    ApprovalId, Attached, Binding, Decision, Given, NewApproval, Reason, Scope, Told,
};
use crate::bound::{hash, with_arguments};
use crate::call::{CallNote, Refusal, Target, ToolCall};
use crate::decide::Decider;
use crate::desk::{
    Admitted, Allowed, Asking, Consent, MOST, Passage, ROUNDS, Round, Waited, Waiting,
};
use crate::record::Recording;
use crate::servers::Asked;
use crate::session::Session;
use crate::target::Found;
use crate::wharf::now;

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

    /// The arguments as people see them: without secrets that are known, and without what is given to be kept sealed.
    fn shown(&self, asking: &Asking) -> Arc<RawValue> {
        let bare = crate::waiting::bare(&asking.binding, &asking.arguments);
        let bare = bare.map_or_else(|| asking.arguments.clone(), Arc::from);
        let clean = self.wharf.redactor().json(&bare);
        clean.map_or(bare, Arc::from)
    }

    /// Writes down that a call waits, and tells everybody. That is done to its end, also for a caller that is gone
    /// meanwhile.
    async fn ask(&self, asking: &Asking) -> Result<Waiting, Refusal> {
        let (agent, wharf) = (self.state.own.clone(), self.wharf.clone());
        let redactor = wharf.redactor();
        let shown = self.shown(asking);
        let said = asking.said.as_deref();
        let new = NewApproval {
            id: ApprovalId::new(&crate::agentfile::task_id()),
            binding: asking.binding.clone(),
            reason: asking.reason,
            arguments: asking.arguments.clone(),
            shown,
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
        let arguments = self.shown(asking);
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

pub(crate) async fn until(when: Option<Instant>) {
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

fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let start: String = text.chars().take(most).collect();
    format!("{start}…")
}
