//! What calls, changes and the lives of servers leave in the journal.
//!
//! A call gives its record what the call itself has, at its end; digests and previews are made where it is written.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde_json::json;
use serde_json::value::RawValue;
use wharfinger_wire::json::{Object, raw};

use crate::approvals::ApprovalId;
use crate::bound::{arguments, with_arguments};
use crate::call::{Refusal, Target, ToolCall, stopped};
use crate::catalog::Place;
use crate::config::{Config, Difference};
use crate::journal::{Arguments, Journal, Kind, Outcome, Record, Who};
use crate::manage;
use crate::model::{AgentName, ServerName, Status};
use crate::request::Request;
use crate::servers::CallError;
use crate::session::Session;
use crate::wharf::Wharf;

impl Wharf {
    /// What was done and by whom, kept: `docs/journal.md`. Calls, requests, changes of the configuration and of agents,
    /// and the lives of servers are in it by themselves; what a door decides, it writes.
    pub fn journal(&self) -> &Journal {
        &self.0.journal
    }

    /// Everything that was written is there; the last words of a wharf.
    pub(crate) async fn record_end(&self) {
        let end = Record::new(Kind::Stopped, Who::System);
        self.0.journal.write(end).await;
        self.0.journal.finish().await;
    }

    pub(crate) async fn record_start(&self) {
        let mut start = Record::new(Kind::Started, Who::System);
        let crash = self
            .0
            .journal
            .was_cut_off()
            .then(|| json!({ "afterCrash": true }));
        start.subject = crash.map(|crash| raw(&crash));
        self.0.journal.write(start).await;
    }

    /// One row for each server.
    pub(crate) async fn record_change(&self, difference: &Difference, config: &Config) {
        let Difference {
            added,
            changed,
            removed,
            ..
        } = difference;
        for (kind, names) in [
            (Kind::ServerAdded, added),
            (Kind::ServerChanged, changed),
            (Kind::ServerRemoved, removed),
        ] {
            for name in names {
                let entry = config.server(name.as_str());
                let subject = entry.map(|entry| {
                    let place = entry.place.to_string();
                    json!({ "enabled": entry.enabled, "source": entry.source, "place": place })
                });
                let record = Record {
                    server: Some(name.clone()),
                    subject: subject.map(|subject| raw(&subject)),
                    ..Record::new(kind, Who::Owner)
                };
                self.0.journal.write(record).await;
            }
        }
    }

    /// The owner had a server started afresh, for one agent or for all.
    pub(crate) async fn record_restart(&self, server: &str, agent: Option<&AgentName>) {
        let record = Record {
            agent: agent.cloned(),
            server: ServerName::new(server).ok(),
            ..Record::new(Kind::Restarted, Who::Owner)
        };
        self.0.journal.write(record).await;
    }

    /// An agent's instance of a server is in another state, and ran before or not. That it still does not run is no news.
    pub(crate) fn record_life(
        &self,
        server: &ServerName,
        agent: &AgentName,
        status: &Status,
        runs: &AtomicBool,
    ) {
        let now = matches!(status, Status::Running { .. });
        let starts = matches!(status, Status::Starting);
        let before = !starts && runs.swap(now, Ordering::Relaxed);
        if before || *status != Status::NotStarted {
            self.record_status(server, Some(agent), status);
        }
    }

    /// A server's process is in another state; none of an agent's while its tools are being found out.
    pub(crate) fn record_status(
        &self,
        server: &ServerName,
        agent: Option<&AgentName>,
        status: &Status,
    ) {
        let (kind, who) = match status {
            Status::Running { .. } => (Kind::Started, Who::System),
            Status::NotStarted => (Kind::Stopped, Who::System),
            Status::Exited { .. } => (Kind::Exited, Who::Server),
            Status::Failed { .. } => (Kind::Failed, Who::Server),
            Status::Starting | Status::NeedsKeys { .. } | Status::Disabled => return,
        };
        let mut record = Record {
            agent: agent.cloned(),
            server: Some(server.clone()),
            ..Record::new(kind, who)
        };
        match status {
            Status::Running { pid } => record.subject = Some(raw(&json!({ "pid": pid }))),
            Status::Exited { exit } => {
                record.subject = Some(raw(&json!({ "exit": exit })));
                record.outcome = Outcome::Error;
            }
            Status::Failed { reason } => {
                record.text = Some(reason.clone());
                record.outcome = Outcome::Error;
            }
            Status::NotStarted | Status::Starting | Status::NeedsKeys { .. } | Status::Disabled => {
            }
        }
        self.0.journal.write_now(record);
    }
}

/// A call or a request that runs. Dropped before its end, it is recorded as cancelled.
pub(crate) struct Recording<'a> {
    session: &'a Session,
    kind: Kind,
    /// The method of a request.
    method: Option<&'a str>,
    params: Option<&'a RawValue>,
    who: Who,
    server: Option<ServerName>,
    tool: Option<String>,
    approval: Option<String>,
    /// What it came to, where the reply alone does not say it.
    outcome: Option<Outcome>,
    started: Instant,
    ended: bool,
}

impl<'a> Recording<'a> {
    pub(crate) fn of_call(session: &'a Session, call: &ToolCall<'a>) -> Self {
        let tool = match call.target {
            Target::Exposed(tool) | Target::Direct { tool, .. } => tool,
        };
        let owners = matches!(call.target, Target::Direct { .. }) || is_owners(session);
        let mut recording = Self::new(session, Kind::Call, Some(call.params));
        recording.tool = Some(tool.to_owned());
        if let Target::Direct { server, .. } = call.target {
            recording.server = ServerName::new(server).ok();
        }
        recording.who = who(session, owners);
        recording
    }

    pub(crate) fn of_request(session: &'a Session, request: &Request<'a>) -> Self {
        let mut recording = Self::new(session, Kind::Request, request.params);
        recording.method = Some(request.method);
        // What is asked again and again while something runs leaves no row.
        recording.ended = matches!(request.method, "tasks/get" | "tasks/list");
        recording
    }

    fn new(session: &'a Session, kind: Kind, params: Option<&'a RawValue>) -> Self {
        Self {
            session,
            kind,
            method: None,
            params,
            who: who(session, is_owners(session)),
            server: None,
            tool: None,
            approval: None,
            outcome: None,
            started: Instant::now(),
            ended: false,
        }
    }

    /// Whose tool it is, and its server's own name for it.
    pub(crate) fn found(&mut self, server: &ServerName, tool: &str) {
        self.server = Some(server.clone());
        if self.tool.as_deref() != Some(tool) {
            self.tool = Some(tool.to_owned());
        }
    }

    /// It went past the gate with the authority of its caller (P24).
    pub(crate) fn bypasses(&mut self) {
        self.kind = Kind::Bypass;
        self.who = Who::Owner;
    }

    /// It carries a flag that only we may set.
    pub(crate) fn is_forged(&mut self) {
        self.kind = Kind::FlagForged;
    }

    /// By which approval it is made.
    pub(crate) fn allowed(&mut self, approval: &ApprovalId) {
        self.approval = Some(approval.to_string());
    }

    /// It was made before; this gets its result.
    pub(crate) fn collects(&mut self, approval: &ApprovalId) {
        self.kind = Kind::ApprovalCollected;
        self.allowed(approval);
    }

    /// It was stopped together with the other calls of its session; what its caller is told.
    pub(crate) fn stopped<T>(&mut self) -> Result<T, Refusal> {
        self.outcome = Some(Outcome::Cancelled);
        Err(stopped())
    }

    /// What came of it. Waits where the journal is slower than its calls.
    pub(crate) async fn end(mut self, reply: &Result<Box<RawValue>, Refusal>) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let (outcome, text) = match reply {
            Ok(result) if self.kind != Kind::Request && says_error(result) => {
                (Outcome::Error, None)
            }
            Ok(_) => (Outcome::Ok, None),
            Err(refusal) => (outcome(refusal), Some(refusal.to_string())),
        };
        if let Err(Refusal::Waiting { approval, .. }) = reply {
            self.allowed(approval);
        }
        let record = self.record(self.outcome.unwrap_or(outcome), text);
        self.session.wharf.0.journal.write(record).await;
    }

    /// What an agent gives to be kept sealed is not written beside it.
    fn without_credentials(&self, params: &RawValue) -> Box<RawValue> {
        let install = manage::Tool::Install.name();
        let bare = (self.tool.as_deref() == Some(install))
            .then(|| manage::without_credentials(install, &arguments(params)));
        match bare.flatten() {
            Some(bare) => with_arguments(params, &bare),
            None => params.to_owned(),
        }
    }

    fn record(&mut self, outcome: Outcome, text: Option<String>) -> Record {
        let state = &self.session.state;
        let params = self.params.map(|params| self.without_credentials(params));
        let arguments = match (self.kind, params) {
            (_, None) => Arguments::None,
            (Kind::Request, Some(params)) => Arguments::Params(params),
            (_, Some(params)) => Arguments::OfCall(params),
        };
        let server = match (self.server.take(), self.method) {
            (None, Some(method)) => self.session.server_of(method, self.params),
            (known, _) => known,
        };
        let millis = self.started.elapsed().as_millis();
        Record {
            agent: Some(state.agent.clone()),
            session: Some(state.id.clone()),
            server,
            tool: self.tool.take(),
            subject: self.method.map(|method| raw(&json!({ "method": method }))),
            arguments,
            outcome,
            millis: u64::try_from(millis).ok(),
            approval: self.approval.take(),
            text,
            ..Record::new(self.kind, self.who.clone())
        }
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        if !self.ended {
            let record = self.record(Outcome::Cancelled, None);
            self.session.wharf.0.journal.write_now(record);
        }
    }
}

impl Session {
    /// Whose prompt or resource a request is about, as far as it is known without asking.
    fn server_of(&self, method: &str, params: Option<&RawValue>) -> Option<ServerName> {
        let params = Object::from_raw(params?).ok()?;
        match method {
            "prompts/get" => {
                let directory = self.directory();
                let (server, _) = directory.prompt(&params.text("name")?)?;
                Some(server.clone())
            }
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
                match self.directory().resource(&params.text("uri")?) {
                    Place::Known(server, _) => Some(server),
                    Place::Unlisted(_) => None,
                }
            }
            _ => None,
        }
    }
}

/// The session in which an owner calls in an agent's name, from outside of any client: doors name it `owner-AGENT`.
fn is_owners(session: &Session) -> bool {
    let id = session.state.id.as_str();
    session.state.lasting && id.strip_prefix("owner-") == Some(session.state.agent.as_str())
}

fn who(session: &Session, owners: bool) -> Who {
    if owners {
        Who::Owner
    } else {
        Who::Agent(session.state.agent.clone())
    }
}

/// Whether a tool's result says that it failed. Most results do not have the word in them at all.
fn says_error(result: &RawValue) -> bool {
    let text = result.get();
    memchr::memmem::find(text.as_bytes(), b"\"isError\"").is_some()
        && Object::from_raw(result)
            .is_ok_and(|result| result.get("isError").is_some_and(|is| is.get() == "true"))
}

fn outcome(refusal: &Refusal) -> Outcome {
    match refusal {
        Refusal::Unknown(_) | Refusal::Unavailable(_) => Outcome::Refused,
        Refusal::Denied(_) => Outcome::Denied,
        Refusal::Waiting { .. } => Outcome::Waiting,
        Refusal::Server(_) => Outcome::Error,
        Refusal::Failed { error, .. } => match **error {
            CallError::NoTurn { .. }
            | CallError::Busy { .. }
            | CallError::NotReady { .. }
            | CallError::Halted { .. } => Outcome::Refused,
            CallError::Start { .. } | CallError::Server { .. } | CallError::Unreadable { .. } => {
                Outcome::Error
            }
            // It was sent, and may have been done.
            CallError::Exited { .. }
            | CallError::Lost { .. }
            | CallError::Stopped { .. }
            | CallError::TimedOut { .. } => Outcome::Unknown,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_says_that_it_failed_at_its_top_alone() {
        let check = |result: &str, expect: bool| {
            let raw = RawValue::from_string(result.to_owned()).unwrap();
            assert_eq!(says_error(&raw), expect, "{result}");
        };
        check(r#"{"content":[]}"#, false);
        check(r#"{"content":[],"isError":true}"#, true);
        check(r#"{"isError" : true ,"content":[]}"#, true);
        check(r#"{"content":[],"isError":false}"#, false);
        check(
            r#"{"content":[{"type":"text","text":"\"isError\":true"}]}"#,
            false,
        );
        check(
            r#"{"structuredContent":{"isError":true},"isError":false}"#,
            false,
        );
        check(r#"{"isError":"true"}"#, false);
    }
}
