//! Calls that wait, in the agent's file (A224, A229, A231): what a restart needs to go on where things were.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::agentfile::{AgentFile, Error, SetBy, Task, TaskChange, TaskStatus, reveal};
use crate::approvals::{ApprovalId, Binding, Caller, NewApproval, Reason};
use crate::model::{AgentName, ServerName, SessionId};
use crate::wharf::Wharf;

/// Our part of a row's `approval_meta`.
const OURS: &str = "wharfinger";

/// Under it, and the id of a call that waits, lie arguments with credentials in them.
const SEALED: &str = "wharfinger:waiting:";

/// In there: its caller was told that it waits.
const TOLD: &str = "told";

/// How a call that was asked about ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End<'a> {
    /// It was made, with this result.
    Completed(&'a RawValue),
    /// It was made and failed, or could not be made.
    Failed(&'a str),
    /// A person said no.
    Denied(&'a str),
    /// Nobody decided, or its caller took it back.
    Cancelled(&'a str),
}

/// Results beyond this are not kept in the file, in bytes: what matters there is that the call was made.
const KEPT: usize = 16 << 10;

/// So many calls of an agent that are over are kept.
const LATEST: u32 = 1000;

/// Arguments beyond this are not kept until somebody decides, in bytes; what the caller says of them counts.
const MOST: usize = 1 << 20;

/// Writes down that a call waits.
pub(crate) async fn write(
    file: &Arc<AgentFile>,
    new: &NewApproval,
    created: u64,
) -> Result<(), Error> {
    let bound = &new.binding;
    let size = new.arguments.get().len() + new.said.as_ref().map_or(0, String::len);
    if size > MOST {
        return Err(Error::Refused(format!(
            "the arguments of `{}` have {size} bytes, and a call that waits for a person may have {MOST} at most; \
             nothing was done",
            bound.exposed
        )));
    }
    let meta = json!({
        "reason": new.reason.as_str(),
        OURS: {
            "session": bound.session,
            "server": bound.server,
            "tool": bound.tool,
            "tool_hash": bound.tool_hash,
            "policy": bound.policy,
            "arguments": bound.arguments,
            "expires": new.expires,
            "why": new.why,
            "said": new.said,
        },
    });
    // Credentials among them are sealed, and the row has the rest.
    let bare = bare(bound, &new.arguments);
    let sealed = bare.as_ref().map(|_| new.arguments.get().to_owned());
    let purpose = sealed_arguments(new.id.as_str());
    let args = bare.as_deref().unwrap_or(&new.arguments).get().to_owned();
    let task = Task {
        id: new.id.as_str().to_owned(),
        tool: bound.exposed.clone(),
        args,
        status: TaskStatus::PendingApproval,
        result: None,
        error: None,
        created_at: i64::try_from(created).unwrap_or(i64::MAX),
        completed_at: None,
        origin: Some(format!("hil:{}:{}", bound.agent, new.id)),
        requires_authorization: true,
        executor_managed: true,
        approval_meta: Some(meta.to_string()),
    };
    on(file, move |file| {
        if let Some(sealed) = sealed {
            file.set_secret(&purpose, sealed.as_bytes(), SetBy::Owner)?;
        }
        file.add_task(&task)
    })
    .await
}

/// The arguments without what is given to be kept sealed; `None` where there is nothing of that kind.
pub(crate) fn bare(bound: &Binding, arguments: &RawValue) -> Option<Box<RawValue>> {
    let is_own = bound.server == ServerName::own();
    is_own.then(|| crate::manage::without_credentials(&bound.tool, arguments))?
}

/// Where the arguments of a call lie that waits, when there are credentials in them.
fn sealed_arguments(id: &str) -> String {
    format!("{SEALED}{id}")
}

/// Forgets them; most calls have none.
fn forget_arguments(file: &AgentFile, id: &str) -> Result<(), Error> {
    let purpose = sealed_arguments(id);
    if file.purposes(&purpose)?.contains(&purpose) {
        file.remove_secret(&purpose)?;
    }
    Ok(())
}

/// Its caller was told that it waits, so it runs when it is allowed, whoever is there then.
pub(crate) async fn told(wharf: &Wharf, agent: &Agent, id: &ApprovalId) {
    let Ok(file) = agent.file() else { return };
    let own = id.as_str().to_owned();
    let done = on(&file, move |file| {
        let Some(task) = file.task(&own)? else {
            return Ok(false);
        };
        let meta = task.approval_meta.as_deref();
        let mut meta: Value = meta
            .and_then(|meta| serde_json::from_str(meta).ok())
            .unwrap_or_default();
        meta[OURS][TOLD] = true.into();
        let change = TaskChange {
            approval_meta: Some(meta.to_string()),
            ..TaskChange::default()
        };
        let waits = TaskStatus::PendingApproval;
        file.move_task(&own, &[waits], waits, &change)
    })
    .await;
    if let Err(error) = done {
        let error = wharf.redactor().text(&error.to_string()).into_owned();
        tracing::warn!(agent = %agent.name, "that {id} waits could not be kept: {error}");
    }
}

/// An allowed call begins. From here on a crash leaves its outcome unknown.
pub(crate) async fn runs(wharf: &Wharf, agent: &Agent, id: &ApprovalId) -> Result<(), String> {
    let file = agent.file()?;
    let (own, name) = (id.as_str().to_owned(), agent.name.clone());
    let moved = on(&file, move |file| {
        let from = [TaskStatus::PendingApproval];
        file.move_task(&own, &from, TaskStatus::Running, &TaskChange::default())
    })
    .await;
    match moved {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!(
            "the approval {id} is no longer open in the file of the agent `{name}`"
        )),
        Err(error) => Err(wharf.redactor().text(&error.to_string()).into_owned()),
    }
}

/// A call that was asked about is over.
pub(crate) async fn end(wharf: &Wharf, agent: &Agent, id: &ApprovalId, end: End<'_>) {
    let Ok(file) = agent.file() else { return };
    let redactor = wharf.redactor();
    let clean = |text: &str| {
        let mut text = redactor.text(text).into_owned();
        text.truncate(text.floor_char_boundary(KEPT));
        text
    };
    let (status, result, error) = match end {
        End::Completed(result) if result.get().len() <= KEPT => {
            (TaskStatus::Completed, Some(result.get().to_owned()), None)
        }
        End::Completed(_) => (TaskStatus::Completed, None, None),
        End::Failed(text) => (TaskStatus::Failed, None, Some(clean(text))),
        End::Denied(text) => (TaskStatus::Denied, None, Some(clean(text))),
        End::Cancelled(text) => (TaskStatus::Cancelled, None, Some(clean(text))),
    };
    let own = id.as_str().to_owned();
    let ended = on(&file, move |file| {
        let from = [TaskStatus::PendingApproval, TaskStatus::Running];
        let change = TaskChange {
            result,
            error,
            ..TaskChange::default()
        };
        let moved = file.move_task(&own, &from, status, &change)?;
        forget_arguments(file, &own)?;
        file.prune_tasks(OURS, LATEST)?;
        Ok(moved)
    })
    .await;
    if let Err(error) = ended {
        tracing::warn!(agent = %agent.name, "the end of {id} could not be kept: {error}");
    }
}

/// A call that still waits.
#[derive(Debug)]
pub(crate) struct Waits {
    pub(crate) new: NewApproval,
    pub(crate) created: u64,
    /// Nothing runs for one that was not told so before the program ended.
    pub(crate) caller: Caller,
}

/// What an earlier run left.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// Calls that still wait, and since when.
    pub(crate) waiting: Vec<Waits>,
    /// Calls that were being made, of which nobody knows what came, and calls that nobody answered in time.
    pub(crate) settled: Vec<Task>,
}

/// Reads what an earlier run left, and brings the rows into order (A231): what ran has an unknown outcome, what waits
/// and still may waits on, and what nobody can go on with is cancelled.
pub(crate) fn recall(agent: &AgentName, file: &AgentFile, at: u64) -> Result<Left, Error> {
    let sealed = read_sealed(file)?;
    let waits = |task: &Task| read(agent, task, &sealed).filter(|new| new.expires > at);
    let settled = file.settle_tasks(|task| waits(task).is_some())?;
    for task in &settled {
        forget_arguments(file, &task.id)?;
    }
    let tasks = file.tasks(&[TaskStatus::PendingApproval])?;
    let waiting = tasks.iter().filter_map(|task| {
        let created = u64::try_from(task.created_at).unwrap_or(0);
        waits(task).map(|new| Waits {
            caller: if was_told(task) {
                Caller::Told
            } else {
                Caller::Gone
            },
            new,
            created,
        })
    });
    Ok(Left {
        waiting: waiting.collect(),
        settled,
    })
}

/// Arguments of calls that wait, by the id of the call, as far as they lie sealed and can be opened.
fn read_sealed(file: &AgentFile) -> Result<HashMap<String, Arc<RawValue>>, Error> {
    let mut found = HashMap::new();
    for purpose in file.purposes(SEALED)? {
        // A call whose arguments can't be opened is not what anybody was asked about, and is cancelled.
        let Ok(Some(text)) = file.secret(&purpose) else {
            continue;
        };
        let text = String::from_utf8(reveal(&text).to_vec()).unwrap_or_default();
        if let (Some(id), Ok(arguments)) =
            (purpose.strip_prefix(SEALED), RawValue::from_string(text))
        {
            found.insert(id.to_owned(), Arc::from(arguments));
        }
    }
    Ok(found)
}

fn was_told(task: &Task) -> bool {
    let meta = task.approval_meta.as_deref();
    let meta: Option<Value> = meta.and_then(|meta| serde_json::from_str(meta).ok());
    meta.is_some_and(|meta| meta[OURS][TOLD] == true)
}

/// A row of ours; `None` for one that lacks what it takes.
fn read(
    agent: &AgentName,
    task: &Task,
    sealed: &HashMap<String, Arc<RawValue>>,
) -> Option<NewApproval> {
    let meta: Value = serde_json::from_str(task.approval_meta.as_deref()?).ok()?;
    let own = meta.get(OURS)?;
    let text = |key: &str| own.get(key).and_then(Value::as_str).map(str::to_owned);
    let shown: Arc<RawValue> = Arc::from(RawValue::from_string(task.args.clone()).ok()?);
    let arguments = sealed.get(&task.id).unwrap_or(&shown).clone();
    let digest = text("arguments")?;
    // A row that was written by somebody else for other arguments is not what anybody was asked about.
    if digest != crate::bound::digest(&arguments) {
        return None;
    }
    Some(NewApproval {
        id: ApprovalId::new(&task.id),
        binding: Binding {
            agent: agent.clone(),
            session: SessionId::new(&text("session")?).ok()?,
            serial: u64::MAX,
            server: server_name(&text("server")?)?,
            tool: text("tool")?,
            exposed: task.tool.clone(),
            tool_hash: text("tool_hash")?,
            policy: text("policy")?,
            arguments: digest,
        },
        reason: Reason::parse(meta.get("reason")?.as_str()?)?,
        shown,
        arguments,
        why: text("why")?,
        said: text("said"),
        expires: own.get("expires")?.as_u64()?,
    })
}

/// A server's name, or the one of the tools with which an agent manages itself.
fn server_name(text: &str) -> Option<ServerName> {
    let own = ServerName::own();
    if text == own.as_str() {
        return Some(own);
    }
    ServerName::new(text).ok()
}

/// Does something with a file where it may block.
pub(crate) async fn on<T: Send + 'static>(
    file: &Arc<AgentFile>,
    act: impl FnOnce(&AgentFile) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let file = file.clone();
    let done = tokio::task::spawn_blocking(move || act(&file)).await;
    done.unwrap_or(Err(Error::Closed))
}
