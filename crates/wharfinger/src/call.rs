//! Story 1: a tool call, from the name an agent used to the bytes it gets back.
//!
//! `catalog` finds the tool, `policy` and `config` say whether it may be called, `servers` calls it, `vault` keeps
//! secrets in, `journal` is told. Nothing here assumes that a server is a local process.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use wharfinger_wire::json::{Object, Raw, raw};
use wharfinger_wire::message::ErrorObject;

use crate::approvals::ApprovalId;
use crate::conversation::Stage;
use crate::discover;
use crate::journal::EventKind;
use crate::model::{Profile, ServerEntry, ServerName};
use crate::record::Recording;
use crate::servers::{self, Asked, Outgoing, Patience, ServerHandle, Turn};
use crate::session::Session;
use crate::target::Found;
use crate::wharf::lock;

/// Which tool.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// By the name agents see.
    Exposed(&'a str),
    /// By its server and its server's own name for it; for owners.
    Direct {
        /// The server.
        server: &'a str,
        /// Its own name for the tool.
        tool: &'a str,
    },
}

/// A call as an agent makes it.
#[derive(Clone, Copy, Debug)]
pub struct ToolCall<'a> {
    /// Which tool.
    pub target: Target<'a>,
    /// The params of `tools/call` as they came. `name` becomes the server's own where that is another; everything else
    /// passes through, byte for byte.
    pub params: &'a RawValue,
    /// Whether progress is wanted.
    pub progress: bool,
    /// From which level on log messages are wanted, where the client says so with each request: `debug` to `emergency`.
    pub log_level: Option<&'a str>,
    /// How long whoever calls waits for a person; without an end where `None`. Only agents of the agent profile need
    /// people.
    pub patience: Option<Duration>,
    /// Cancelled when whoever calls is gone without having taken the call back. Until then a person may allow it; after
    /// that it waits for the same call to come again, and nothing runs for nobody. A call that is being made goes on.
    pub gone: Option<&'a CancellationToken>,
    /// The owner makes it by hand: nobody is asked, and tools that are off for the agent can be called. The journal
    /// says so.
    pub as_owner: bool,
}

impl<'a> ToolCall<'a> {
    /// A call of the tool that agents know by that name, with progress. `params` are those of `tools/call`, and name it
    /// as well: `{"name": …, "arguments": {…}}`.
    pub fn new(name: &'a str, params: &'a RawValue) -> Self {
        Self {
            target: Target::Exposed(name),
            params,
            progress: true,
            log_level: None,
            patience: None,
            gone: None,
            as_owner: false,
        }
    }
}

/// What happens before the result. All of it is redacted, and all but questions may be ignored.
#[derive(Debug)]
pub enum CallNote {
    /// The params of a progress notification; the token in it is ours, not the client's.
    Progress(Raw),
    /// Another notification of the server, a log message most of all.
    Notification {
        /// Its method.
        method: String,
        /// Its params.
        params: Option<Arc<RawValue>>,
    },
    /// The server asks its client something ([`Declared`](crate::model::Declared) said that it may), and the call waits
    /// for the answer. Dropped, it is answered with an error.
    ///
    /// Servers of 2026-07-28 ask in their result instead: its `resultType` is `input_required`, and the call is made
    /// again with `inputResponses` and its `requestState`.
    Asked(Asked),
}

/// What a server says while a call to it runs. Nothing is set aside for it until something is said.
#[derive(Default)]
pub(crate) struct Heard {
    notes: Mutex<Vec<CallNote>>,
    said: Notify,
}

/// Notes of one call that wait to be taken; a client that does not read loses the rest.
const WAITING: usize = 1024;

impl Heard {
    pub(crate) fn push(&self, note: CallNote) {
        let mut notes = lock(&self.notes);
        if notes.len() < WAITING {
            notes.push(note);
            self.said.notify_one();
        }
    }

    pub(crate) fn take(&self) -> Vec<CallNote> {
        std::mem::take(&mut *lock(&self.notes))
    }

    async fn something(&self) {
        self.said.notified().await;
    }
}

/// Why a call has no result. The texts are for the model, redacted, and name the next step where there is one.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Refusal {
    /// No server offers it at this moment: names the nearest tool, and servers that are not available.
    #[error("{0}")]
    Unknown(String),
    /// Its server can't be used at this moment: it is disabled or was removed; or the session is over, or its calls
    /// were stopped.
    #[error("{0}")]
    Unavailable(String),
    /// A person said no, or nobody could be asked; nothing was done.
    #[error("{0}")]
    Denied(String),
    /// It waits for a person, and its caller does not any more: the same call with the same arguments goes on with it,
    /// or collects its result. This is no error.
    #[error("{text}")]
    Waiting {
        /// For what.
        approval: ApprovalId,
        /// For the model.
        text: String,
    },
    /// The server did not start or did not answer (V61, V64); what `text` says, `error` tells apart.
    #[error("{text}")]
    Failed {
        /// The error, redacted.
        text: String,
        /// Which kind.
        error: Box<servers::CallError>,
    },
    /// The server's own protocol error, redacted, to be passed on as one.
    #[error("{0}")]
    Server(ErrorObject),
}

impl Session {
    /// Calls a tool, and starts its server if none runs. Gives the `tools/call` result as it came, but for known
    /// secrets; a tool that failed says so in there, with `isError`.
    ///
    /// The tool is looked for among [`known_tools`](Self::known_tools), so [`tools`](Self::tools) comes first. Progress
    /// and log messages come in order, before the result; `notes` must not block. Dropping the future cancels the call
    /// at the server, as [`stop_calls`](Self::stop_calls) does (V65). It is made once and never again by itself (V63).
    ///
    /// Limits are those of the server's entry: 60 s to start (V11), 120 s for the call (V64), of which the wait for its
    /// turn is none (V50).
    ///
    /// An agent of the agent profile may need a person for it (A223): then it waits, and ends as
    /// [`Refusal::Waiting`] when the patience of its caller does. The same call later goes on where this one was.
    pub async fn call(
        &self,
        call: ToolCall<'_>,
        notes: impl FnMut(CallNote) + Send,
    ) -> Result<Raw, Refusal> {
        let mut recording = Recording::of_call(self, &call);
        let reply = self.call_recorded(call, notes, &mut recording).await;
        recording.end(&reply).await;
        reply
    }

    async fn call_recorded(
        &self,
        call: ToolCall<'_>,
        mut notes: impl FnMut(CallNote) + Send,
        recording: &mut Recording<'_>,
    ) -> Result<Raw, Refusal> {
        // First, so that what stops the session's calls stops this one.
        let stopping = self.state.stopping();
        if self.is_over() {
            return Err(Refusal::Unavailable("this session is over".into()));
        }
        let calling = self.calling(call, &mut notes, recording);
        let reply = stopping.run_until_cancelled(calling).await;
        match reply {
            Some(reply) => reply,
            None => recording.stopped(),
        }
    }

    async fn calling(
        &self,
        call: ToolCall<'_>,
        notes: &mut (impl FnMut(CallNote) + Send),
        recording: &mut Recording<'_>,
    ) -> Result<Raw, Refusal> {
        if let Some(why) = self.state.own.problem() {
            let text = format!("the agent `{}` can't be used: {why}", self.state.agent);
            return Err(Refusal::Unavailable(text));
        }
        let config = self.config();
        let found = self.find(&config, call.target, call.as_owner)?;
        recording.found(&found.server(), &found.tool);
        if self.profile() == Profile::Chat {
            return self.carry_out(&found, call, notes).await;
        }
        // Boxed, so that calls that need nobody stay small.
        Box::pin(self.gated(&found, call, notes, recording)).await
    }

    /// Makes a call that may be made, and tells that it was.
    pub(crate) async fn carry_out(
        &self,
        found: &Found<'_>,
        call: ToolCall<'_>,
        notes: &mut (impl FnMut(CallNote) + Send),
    ) -> Result<Raw, Refusal> {
        let started = Instant::now();
        let reply = match found.entry {
            Some(entry) => self.call_tool(entry, &found.tool, call, notes).await,
            None => Box::pin(self.manage(&found.tool, call.params)).await,
        };
        let millis = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.wharf.0.events.tell(EventKind::Called {
            agent: self.state.agent.clone(),
            server: found.server(),
            tool: found.tool.clone(),
            ok: reply.is_ok(),
            millis,
        });
        reply
    }

    /// An unknown tool is explained by what is not available, or by the nearest name.
    pub(crate) fn unknown(&self, name: &str, catalog: &crate::catalog::Catalog) -> Refusal {
        let near = catalog.nearest(name);
        let near = near
            .map(|near| format!("; did you mean `{near}`?"))
            .unwrap_or_default();
        let mut lines = vec![format!("there is no tool `{name}`{near}")];
        let config = self.config();
        for entry in &config.servers {
            if !entry.enabled {
                lines.push(format!("{}: this MCP server is disabled", entry.name));
            } else if let Some(discover::Found::Failed { reason, .. }) =
                self.wharf.found(entry, &self.state.declared)
            {
                let first = reason.lines().next().unwrap_or_default();
                lines.push(format!(
                    "{}: this MCP server is not available: {first}",
                    entry.name
                ));
            }
        }
        let text = lines.join("\n");
        Refusal::Unknown(self.wharf.redactor().text(&text).into_owned())
    }

    async fn call_tool(
        &self,
        entry: &ServerEntry,
        tool: &str,
        call: ToolCall<'_>,
        notes: &mut (impl FnMut(CallNote) + Send),
    ) -> Result<Raw, Refusal> {
        let handle = self
            .wharf
            .instance(&self.state, entry)
            .ok_or_else(|| gone(&entry.name))?;
        let renamed = match call.target {
            // Its own name is the one that the client has used.
            Target::Exposed(name) if name == tool => None,
            Target::Exposed(_) | Target::Direct { .. } => with_member(call.params, "name", tool),
        };
        let params = renamed.as_deref().unwrap_or(call.params);
        let outgoing = Outgoing {
            method: "tools/call",
            params: Some(params),
            log_level: call.log_level,
            progress: call.progress,
            patience: Patience::Turn,
        };
        let result = self.exchange(&entry.name, &handle, outgoing, notes).await?;
        let result = self.with_links(&entry.name, result);
        if self.wants_task(params) {
            return Ok(self.keep_task(&entry.name, &handle, result));
        }
        Ok(result)
    }

    /// One request to one instance: what is said meanwhile comes in order, and all of it redacted.
    pub(crate) async fn exchange(
        &self,
        server: &ServerName,
        handle: &ServerHandle,
        outgoing: Outgoing<'_>,
        notes: &mut (impl FnMut(CallNote) + Send),
    ) -> Result<Raw, Refusal> {
        if self.wants_log_level()
            && !matches!(handle.status(), crate::model::Status::Running { .. })
        {
            self.tell_log_level_when_it_runs(handle);
        }
        let heard = Arc::new(Heard::default());
        let stage = match outgoing.patience {
            Patience::Turn => Stage::Tool,
            Patience::Call | Patience::Endless => Stage::Other,
        };
        let waits = self
            .state
            .call_begins(server, heard.clone(), Stage::Waiting, None);
        let begins = |turn: Option<&Turn>| {
            let begun = heard.clone();
            self.state.call_begins(server, begun, stage, turn)
        };
        let redactor = self.wharf.redactor();
        // Progress and what is heard come by two ways, but to one ear.
        let ear = Mutex::new(notes);
        let tell = |note| lock(&ear)(note);
        let reply = {
            let on_progress = |progress| {
                // What was said before it is told before it.
                heard.take().into_iter().for_each(&tell);
                let progress: Raw = progress;
                let clean = redactor.json(&progress).unwrap_or(progress);
                tell(CallNote::Progress(clean));
            };
            let mut calling = std::pin::pin!(handle.call(outgoing, begins, on_progress));
            loop {
                tokio::select! {
                    biased;
                    () = heard.something() => heard.take().into_iter().for_each(&tell),
                    reply = &mut calling => break reply,
                }
            }
        };
        drop(waits);
        // What came before the reply is told before it.
        heard.take().into_iter().for_each(&tell);
        match reply {
            Ok(result) => Ok(match redactor.json(&result) {
                Some(clean) => with_state_of(&result, clean),
                None => result,
            }),
            Err(servers::CallError::Server { error, .. }) => {
                let error = error.to_raw();
                let clean = redactor.json(&error).unwrap_or(error);
                Err(Refusal::Server(ErrorObject::from_raw(&clean)))
            }
            Err(error) => {
                let text = redactor.text(&error.to_string()).into_owned();
                Err(Refusal::Failed {
                    text,
                    error: Box::new(error),
                })
            }
        }
    }

    fn tell_log_level_when_it_runs(&self, handle: &servers::ServerHandle) {
        let (session, handle) = (self.clone(), handle.clone());
        self.wharf.0.context.tasks.spawn(async move {
            if handle.runs().await {
                session.pass_log_level(&handle).await;
            }
        });
    }
}

/// The calls of its session were stopped.
pub(crate) fn stopped() -> Refusal {
    Refusal::Unavailable("the call was stopped".into())
}

pub(crate) fn gone(server: &ServerName) -> Refusal {
    Refusal::Unavailable(format!("{server}: this MCP server was removed"))
}

/// The params with the server's own word for something; all else as it came. `None` where they are no object: doors
/// have checked that, and a library's caller gets the server's own complaint.
pub(crate) fn with_member(params: &RawValue, member: &'static str, own: &str) -> Option<Raw> {
    let mut object = Object::from_raw(params).ok()?;
    object.set(member, raw(own));
    Some(object.to_raw())
}

/// A server that asks for input gets its own state back, so that is left as it is; doors seal it.
fn with_state_of(result: &RawValue, clean: Raw) -> Raw {
    if !result.get().contains("\"requestState\"") {
        return clean;
    }
    let original = Object::from_raw(result).unwrap_or_default();
    let asks = original.text("resultType").as_deref() == Some("input_required");
    let state = original.text("requestState").is_some();
    let (Some(state), Ok(mut object)) = (
        original.get("requestState").filter(|_| asks && state),
        Object::from_raw(&clean),
    ) else {
        return clean;
    };
    object.set("requestState", state.to_owned());
    object.to_raw()
}
