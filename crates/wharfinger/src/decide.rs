//! What people decide about calls that wait, by whichever door, and what becomes of it (A226–A233).

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::Instant;
use wharfinger_wire::json::{Object, Raw};

use crate::agent::Agent;
use crate::approvals::{Approval, ApprovalId, Decision, Reason, Scope};
use crate::bound::digest;
use crate::call::{Refusal, Target};
use crate::gate::until;
use crate::gated::is_restricted;
use crate::wharf::{Wharf, lock, now};

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
    pub(crate) async fn allowed_is_over(
        &self,
        agent: &Agent,
        id: &ApprovalId,
        reply: &Result<Raw, Refusal>,
    ) {
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

    pub(crate) fn ask_approver(&self, id: &ApprovalId) {
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

/// Arguments of an approver are an object without what nobody may set.
pub(crate) fn checked_arguments(arguments: &RawValue) -> Result<(), String> {
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
