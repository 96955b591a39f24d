//! Tasks that servers run for sessions: whose each is, and which server has it (2025-11-25, and the tasks extension).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::Instant;
use wharfinger_wire::json::{Object, Raw, raw};
use wharfinger_wire::message::{ErrorObject, INVALID_PARAMS};

use crate::call::{CallNote, Refusal, with_member};
use crate::conversation::SessionState;
use crate::instances::Place;
use crate::model::{AgentName, ServerName};
use crate::request::{Request, outgoing};
use crate::servers::{Hold, Lists, Patience, ServerHandle};
use crate::session::Session;
use crate::wharf::{Wharf, lock};

/// All tasks that are known, by whose they are and by the id that agents see.
pub(crate) type Tasks = HashMap<(Owner, String), Task>;

/// Whose a task is: its session's, or its agent's where clients have no session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    /// By its serial.
    Session(u64),
    Agent(AgentName),
}

impl Owner {
    fn of(session: &SessionState) -> Self {
        if session.lasting {
            Self::Agent(session.agent.clone())
        } else {
            Self::Session(session.serial)
        }
    }

    pub(crate) fn is(&self, session: &SessionState) -> bool {
        *self == Self::of(session)
    }
}

/// A task, as far as it is followed.
pub(crate) struct Task {
    server: ServerName,
    /// What its server calls it.
    own: String,
    /// The instance that runs it.
    handle: ServerHandle,
    /// A server at work is not idle, although no call is in flight.
    hold: Option<Hold>,
    /// When it was begun, so that the oldest is forgotten first.
    begun: Instant,
}

/// Tasks of one owner that are followed.
const MOST: usize = 1000;
/// How long a server is kept running for a task that says nothing about that.
const HOLD: Duration = Duration::from_secs(3600);
/// How long a server is kept running for a task at most.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// `_meta` key of what belongs to a task.
const RELATED: &str = "io.modelcontextprotocol/related-task";

/// The id and life of a task that a result begins, if it does.
fn begun(result: &RawValue) -> Option<(String, Option<u64>)> {
    // Most results begin none, and that is quickly seen.
    if !result.get().contains("\"taskId\"") {
        return None;
    }
    let object = Object::from_raw(result).ok()?;
    let within = object.object("task");
    let task = match &within {
        Some(task) => task,
        None if object.text("resultType").as_deref() == Some("task") => &object,
        None => return None,
    };
    let ttl = task.get("ttl").or_else(|| task.get("ttlMs"));
    let ttl = ttl.and_then(|ttl| ttl.get().parse().ok());
    Some((task.text("taskId")?.into_owned(), ttl))
}

/// Whether an answer about a task says that it is over.
fn is_over(result: &RawValue) -> bool {
    let object = Object::from_raw(result).unwrap_or_default();
    let status = object.text("status");
    matches!(
        status.as_deref(),
        Some("completed" | "failed" | "cancelled")
    )
}

/// A result with another task id, wherever it names its own.
pub(crate) fn with_id(result: &RawValue, exposed: &str) -> Option<Raw> {
    let mut object = Object::from_raw(result).ok()?;
    if object.contains("taskId") {
        object.set("taskId", raw(exposed));
    }
    let task = object.object("task").map(|mut task| {
        task.set("taskId", raw(exposed));
        task.to_raw()
    });
    if let Some(task) = task {
        object.set("task", task);
    }
    Some(object.to_raw())
}

/// What a client declares that takes tasks in place of results.
const EXTENSION: &str = "\"io.modelcontextprotocol/tasks\"";

impl Session {
    /// Whether a call with these params may be answered with a task.
    pub(crate) fn wants_task(&self, params: &RawValue) -> bool {
        params.get().contains("\"task\"") || self.state.declared.capabilities.contains(EXTENSION)
    }

    /// A result that begins a task makes it this session's.
    pub(crate) fn keep_task(&self, server: &ServerName, handle: &ServerHandle, result: Raw) -> Raw {
        let Some((own, ttl)) = begun(&result) else {
            return result;
        };
        let owner = Owner::of(&self.state);
        let exposed = {
            let mut tasks = lock(&self.wharf.0.tasks);
            let is_free = |id: &String| {
                let known = tasks.get(&(owner.clone(), id.clone()));
                known.is_none_or(|task| task.handle.is(handle) && task.own == own)
            };
            let more = (2..).map(|n| format!("{server}/{own}/{n}"));
            let exposed = [own.clone(), format!("{server}/{own}")]
                .into_iter()
                .chain(more)
                .find(is_free)
                .expect("there are numbers without end");
            let mine = tasks.iter().filter(|((whose, _), _)| *whose == owner);
            if mine.clone().count() >= MOST {
                let oldest = mine.min_by_key(|(_, task)| task.begun);
                if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                    tasks.remove(&oldest);
                }
            }
            let task = Task {
                server: server.clone(),
                own: own.clone(),
                handle: handle.clone(),
                hold: handle.hold(),
                begun: Instant::now(),
            };
            tasks.insert((owner.clone(), exposed.clone()), task);
            exposed
        };
        let life = ttl.map_or(HOLD, Duration::from_millis).min(LONGEST);
        let (wharf, key) = (Arc::downgrade(&self.wharf.0), (owner, exposed.clone()));
        let stop = self.wharf.0.context.stop.clone();
        self.wharf.0.context.tasks.spawn(async move {
            if stop
                .run_until_cancelled(tokio::time::sleep(life))
                .await
                .is_some()
                && let Some(wharf) = wharf.upgrade()
            {
                let_go(&mut lock(&wharf.tasks), &key);
            }
        });
        if exposed == own {
            result
        } else {
            with_id(&result, &exposed).unwrap_or(result)
        }
    }

    /// A request about a task of this session.
    pub(crate) async fn task(
        &self,
        request: Request<'_>,
        id: &str,
        notes: &mut (impl FnMut(CallNote) + Send),
    ) -> Result<Raw, Refusal> {
        let key = (Owner::of(&self.state), id.to_owned());
        let found = {
            let tasks = lock(&self.wharf.0.tasks);
            let task = tasks.get(&key);
            task.map(|task| (task.server.clone(), task.own.clone(), task.handle.clone()))
        };
        let Some((server, own, handle)) = found else {
            let error = ErrorObject::new(INVALID_PARAMS, format!("there is no task `{id}`"));
            return Err(Refusal::Server(error));
        };
        let params = request.params.unwrap_or(RawValue::NULL);
        let renamed = (own != id)
            .then(|| with_member(params, "taskId", &own))
            .flatten();
        let params = renamed.as_deref().unwrap_or(params);
        // A result is waited for as long as its task takes.
        let patience = if request.method == "tasks/result" {
            Patience::Endless
        } else {
            Patience::Call
        };
        let outgoing = outgoing(request, Some(params), patience);
        let result = self.exchange(&server, &handle, outgoing, notes).await?;
        if request.method == "tasks/result" || is_over(&result) {
            let_go(&mut lock(&self.wharf.0.tasks), &key);
        }
        Ok(if own == id {
            result
        } else {
            with_id(&result, id).unwrap_or(result)
        })
    }

    /// The tasks of this session, as their servers list them.
    pub(crate) async fn task_list(&self) -> Result<Raw, Refusal> {
        let owner = Owner::of(&self.state);
        let mine: Vec<(String, String, ServerHandle)> = {
            let tasks = lock(&self.wharf.0.tasks);
            let mine = tasks.iter().filter(|((whose, _), _)| *whose == owner);
            mine.map(|((_, id), task)| (id.clone(), task.own.clone(), task.handle.clone()))
                .collect()
        };
        let mut asked: Vec<ServerHandle> = vec![];
        let mut all: Vec<Raw> = vec![];
        for (_, _, handle) in &mine {
            if asked.iter().any(|known| known.is(handle)) {
                continue;
            }
            asked.push(handle.clone());
            let listed = handle.list(TASKS, self.wharf.limits()).await;
            for task in listed.map(|list| list.items).unwrap_or_default() {
                let task = task.as_ref().to_owned();
                let own = Object::from_raw(&task).ok();
                let own = own.and_then(|task| Some(task.text("taskId")?.into_owned()));
                let ours = mine
                    .iter()
                    .find(|(_, id, of)| of.is(handle) && Some(id) == own.as_ref());
                if let Some((exposed, ..)) = ours {
                    let clean = self.wharf.redactor().json(&task).unwrap_or(task);
                    all.push(with_id(&clean, exposed).unwrap_or(clean));
                }
            }
        }
        Ok(raw(&json!({ "tasks": all })))
    }
}

/// How tasks are listed.
const TASKS: Lists = Lists {
    method: "tasks/list",
    member: "tasks",
    capability: "tasks",
};

/// A server is no longer kept running for a task; whose it is stays known.
fn let_go(tasks: &mut Tasks, key: &(Owner, String)) {
    if let Some(task) = tasks.get_mut(key) {
        task.hold = None;
    }
}

impl Wharf {
    /// Whose task a message of an instance is about, if it is about one, and what its owner calls it.
    pub(crate) fn owner_of_task(
        &self,
        place: &Place,
        params: Option<&RawValue>,
    ) -> Option<(Owner, String)> {
        let params = params.filter(|raw| raw.get().contains("\"taskId\""))?;
        let object = Object::from_raw(params).ok()?;
        let related = object.object("_meta").and_then(|meta| {
            let related = meta.object(RELATED)?;
            related.text("taskId").map(std::borrow::Cow::into_owned)
        });
        let named = || object.text("taskId").map(std::borrow::Cow::into_owned);
        let own = related.or_else(named)?;
        let handle = self.at(place)?;
        let tasks = lock(&self.0.tasks);
        let found = tasks
            .iter()
            .find(|(_, task)| task.own == own && task.handle.is(&handle));
        found.map(|(key, _)| key.clone())
    }

    /// A session is over, and its tasks with it.
    pub(crate) fn forget_tasks(&self, session: &SessionState) {
        if !session.lasting {
            let owner = Owner::of(session);
            lock(&self.0.tasks).retain(|(whose, _), _| *whose != owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw_of(text: &str) -> Raw {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn results_that_begin_tasks_are_known() {
        let check = |text: &str, expect: Option<(&str, Option<u64>)>| {
            let expect = expect.map(|(id, ttl)| (id.to_owned(), ttl));
            assert_eq!(begun(&raw_of(text)), expect, "{text}");
        };
        check(
            r#"{"task":{"taskId":"1","ttl":60000}}"#,
            Some(("1", Some(60000))),
        );
        check(r#"{"task":{"taskId":"1","ttl":null}}"#, Some(("1", None)));
        check(
            r#"{"resultType":"task","taskId":"1","ttlMs":5}"#,
            Some(("1", Some(5))),
        );
        check(r#"{"content":[],"structuredContent":{"taskId":"1"}}"#, None);
        check(r#"{"taskId":"1"}"#, None);
    }

    #[test]
    fn ids_are_replaced_where_they_stand() {
        let told = |text: &str| with_id(&raw_of(text), "s/1").unwrap().get().to_owned();
        assert_eq!(
            told(r#"{"task":{"taskId":"1","x":1e400}}"#),
            r#"{"task":{"taskId":"s/1","x":1e400}}"#
        );
        assert_eq!(
            told(r#"{"resultType":"task","taskId":"1"}"#),
            r#"{"resultType":"task","taskId":"s/1"}"#
        );
        assert_eq!(told(r#"{"content":[]}"#), r#"{"content":[]}"#);
    }
}
