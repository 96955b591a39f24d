//! What is told of calls and approvals: to whoever listens, and to the journal.

use std::time::Duration;

use serde_json::json;
use wharfinger_wire::json::raw;

use crate::agentfile::{Task, TaskStatus};
use crate::approvals::{Approval, ApprovalId, Binding, Ended, Scope};
use crate::decide::Decider;
use crate::journal::{Arguments, EventKind, Kind, Outcome, Record, Who};
use crate::model::AgentName;
use crate::session::{Session, SessionOptions};
use crate::waiting;
use crate::wharf::{Wharf, lock};

impl Wharf {
    /// How long an approval may be answered, in milliseconds.
    pub(crate) fn approval_life(&self) -> u64 {
        let life: Duration = self.limits().approval_life;
        u64::try_from(life.as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether a conversation is open, by its serial.
    pub(crate) fn has_session(&self, serial: u64) -> bool {
        let sessions = lock(&self.0.sessions);
        sessions.values().any(|state| state.serial == serial)
    }

    /// The conversation that an approval belongs to, or one of the same agent that lasts, where that one is over.
    pub(crate) fn session_for(&self, bound: &Binding) -> Session {
        let own = {
            let sessions = lock(&self.0.sessions);
            let own = sessions.values().find(|state| state.serial == bound.serial);
            own.cloned()
        };
        if let Some(state) = own {
            return Session {
                wharf: self.clone(),
                state,
            };
        }
        let id = format!("approvals-{}", bound.agent);
        let id = crate::model::SessionId::new(&id).expect("names of agents are visible ASCII");
        let mut options = SessionOptions::new(bound.agent.clone(), id);
        options.lasting = true;
        self.session(options)
    }

    /// A call waits for a person.
    pub(crate) async fn asked(&self, id: &ApprovalId) {
        let Some(approval) = self.0.gate.with(|desk| desk.book.get(id).cloned()) else {
            return;
        };
        let bound = &approval.binding;
        self.0.events.tell(EventKind::ApprovalRequested {
            id: id.to_string(),
            agent: bound.agent.clone(),
            server: bound.server.clone(),
            tool: bound.exposed.clone(),
        });
        let who = Who::Agent(bound.agent.clone());
        let record = Record {
            arguments: Arguments::Value((*approval.arguments).to_owned()),
            outcome: Outcome::Waiting,
            text: Some(approval.why.clone()),
            ..about(&approval, Kind::ApprovalRequested, who)
        };
        self.0.journal.write(record).await;
    }

    /// A person decided. Told once of each approval.
    pub(crate) async fn resolved(
        &self,
        approval: &Approval,
        scope: Option<Scope>,
        feedback: Option<&str>,
        edited: bool,
        by: Decider,
    ) {
        let (kind, outcome, status) = if scope.is_some() {
            (Kind::ApprovalApproved, Outcome::Ok, "approved")
        } else {
            (Kind::ApprovalDenied, Outcome::Denied, "denied")
        };
        self.tell_resolved(approval, status);
        let who = match by {
            Decider::Owner => Who::Owner,
            Decider::Client => Who::Agent(approval.binding.agent.clone()),
        };
        let by = match by {
            Decider::Owner => "owner",
            Decider::Client => "client",
        };
        let arguments = self.0.gate.with(|desk| desk.book.arguments(&approval.id));
        let record = Record {
            subject: Some(raw(&json!({ "by": by, "scope": scope, "edited": edited }))),
            arguments: match arguments {
                Some(arguments) if edited => Arguments::Value((*arguments).to_owned()),
                _ => Arguments::None,
            },
            outcome,
            text: feedback.map(str::to_owned),
            ..about(approval, kind, who)
        };
        self.0.journal.write(record).await;
    }

    /// Nobody decided in time, or nobody came back for it.
    pub(crate) async fn expired(&self, ended: &Ended) {
        let agent = self.own_agent(&ended.approval.binding.agent);
        let text = if ended.was_approved {
            "approved, but its caller did not come back in time"
        } else {
            "nobody answered in time"
        };
        let end = waiting::End::Cancelled(text);
        waiting::end(self, &agent, &ended.approval.id, end).await;
        if !ended.was_approved {
            self.tell_resolved(&ended.approval, "expired");
        }
        let record = Record {
            outcome: Outcome::Expired,
            text: Some(text.into()),
            ..about(&ended.approval, Kind::ApprovalExpired, Who::System)
        };
        self.0.journal.write(record).await;
    }

    /// Takes back everything of an agent that waits (A230).
    pub(crate) async fn withdraw(&self, agent: &AgentName, why: &str) {
        let own = self.own_agent(agent);
        let ended = self.0.gate.with(|desk| desk.withdraw(agent.as_str(), why));
        for ended in ended {
            let end = waiting::End::Denied(why);
            waiting::end(self, &own, &ended.approval.id, end).await;
            if !ended.was_approved {
                self.tell_resolved(&ended.approval, "cancelled");
            }
            let record = Record {
                outcome: Outcome::Cancelled,
                text: Some(why.to_owned()),
                ..about(&ended.approval, Kind::ApprovalDenied, Who::System)
            };
            self.0.journal.write(record).await;
        }
    }

    /// What an earlier run left is settled: nobody knows what came of it, or nobody decided in time.
    pub(crate) async fn settled(&self, agent: &AgentName, task: &Task) {
        let (kind, outcome) = match task.status {
            TaskStatus::Failed => (Kind::Call, Outcome::Unknown),
            _ => (Kind::ApprovalExpired, Outcome::Expired),
        };
        let record = Record {
            agent: Some(agent.clone()),
            tool: Some(task.tool.clone()),
            approval: Some(task.id.clone()),
            outcome,
            text: task.error.clone(),
            ..Record::new(kind, Who::System)
        };
        self.0.journal.write(record).await;
    }

    fn tell_resolved(&self, approval: &Approval, status: &'static str) {
        self.0.events.tell(EventKind::ApprovalResolved {
            id: approval.id.to_string(),
            agent: approval.binding.agent.clone(),
            server: approval.binding.server.clone(),
            tool: approval.binding.exposed.clone(),
            status,
        });
    }
}

/// A row about an approval.
fn about(approval: &Approval, kind: Kind, who: Who) -> Record {
    let bound = &approval.binding;
    Record {
        agent: Some(bound.agent.clone()),
        session: Some(bound.session.clone()),
        server: Some(bound.server.clone()),
        tool: Some(bound.tool.clone()),
        approval: Some(approval.id.to_string()),
        ..Record::new(kind, who)
    }
}
