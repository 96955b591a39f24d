//! Sessions: the conversations of an agent, those of MCP clients and those begun here.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wharfinger::model::{AgentName, Declared, SessionId};
use wharfinger::{Session, SessionOptions};

use super::problem::{Body, Path};
use super::{ApiError, uninterrupted};
use crate::home::random_hex;
use crate::serve::Daemon;

/// Sessions that were begun here; those of clients end with their clients.
#[derive(Default)]
pub(crate) struct Begun(Mutex<HashSet<(AgentName, SessionId)>>);

impl Begun {
    fn all(&self) -> MutexGuard<'_, HashSet<(AgentName, SessionId)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends those that nobody has used for so long.
    pub(crate) async fn expire(&self, daemon: &Daemon, idle: Duration) {
        let begun: Vec<_> = self.all().iter().cloned().collect();
        for (agent, id) in begun {
            match daemon.wharf.find_session(&agent, id.as_str()) {
                Some(session) if session.idle_for() < idle => {}
                found => {
                    self.all().remove(&(agent, id));
                    if let Some(session) = found {
                        tracing::info!(session = %session.id(), "ended, as nobody used it");
                        session.end().await;
                    }
                }
            }
        }
    }
}

/// A conversation of an agent.
#[derive(Serialize, ToSchema)]
pub(crate) struct SessionBody {
    /// Its id.
    id: String,
    /// How many of its calls run or wait at this moment.
    calls: usize,
    /// Servers that run for it.
    servers: Vec<String>,
    /// What its client can do, as servers are told.
    #[schema(value_type = Object)]
    declared: serde_json::Value,
    /// Whether clients without sessions share it; then it never ends.
    shared: bool,
    /// Seconds since its last call.
    idle_seconds: u64,
}

/// All sessions of an agent.
#[derive(Serialize, ToSchema)]
pub(crate) struct SessionList {
    /// By id.
    sessions: Vec<SessionBody>,
}

fn body(session: &Session) -> SessionBody {
    let declared = &session.declared().capabilities;
    SessionBody {
        id: session.id().to_string(),
        calls: session.calls_in_flight(),
        servers: session
            .servers_in_use()
            .iter()
            .map(ToString::to_string)
            .collect(),
        declared: serde_json::from_str(declared).unwrap_or_default(),
        shared: session.is_lasting(),
        idle_seconds: session.idle_for().as_secs(),
    }
}

fn find(daemon: &Daemon, agent: &str, id: &str) -> Result<Session, ApiError> {
    let agent = daemon.wharf.agent(agent)?;
    let found = daemon.wharf.find_session(&agent, id);
    found.ok_or_else(|| {
        let text = format!("the agent `{agent}` has no open session `{id}`");
        ApiError::unknown(text).with_hint("it may have ended; begin another")
    })
}

/// All sessions of an agent.
#[utoipa::path(get, path = "/api/agents/{agent}/sessions", params(("agent" = String, Path)),
    responses((status = 200, body = SessionList), (status = 404, body = ApiError)))]
pub(crate) async fn list(
    State(daemon): State<Arc<Daemon>>,
    Path(agent): Path<String>,
) -> Result<Json<SessionList>, ApiError> {
    let agent = daemon.wharf.agent(&agent)?;
    let mut sessions: Vec<_> = daemon.wharf.sessions_of(&agent).iter().map(body).collect();
    sessions.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(Json(SessionList { sessions }))
}

/// A session to begin.
#[derive(Deserialize, ToSchema)]
pub(crate) struct NewSession {
    /// Its id; a new one unless given. One that is open is gone on with.
    #[serde(default)]
    id: Option<String>,
}

fn id(new: Option<String>) -> Result<SessionId, ApiError> {
    let id = new.unwrap_or_else(|| random_hex()[..32].to_owned());
    SessionId::new(&id).map_err(|why| {
        let message = format!("the id {id:?} {why}");
        ApiError::invalid("the session can't be begun").with_field("id".into(), message)
    })
}

/// Begins a session, or goes on with the open one of that id (200). It ends when told to, or when it is not used for as
/// long as `sessionIdleSeconds` says.
#[utoipa::path(post, path = "/api/agents/{agent}/sessions", params(("agent" = String, Path)), request_body = NewSession,
    responses((status = 201, body = SessionBody), (status = 200, body = SessionBody), (status = 404, body = ApiError),
        (status = 409, body = ApiError), (status = 422, body = ApiError), (status = 503, body = ApiError)))]
pub(crate) async fn begin(
    State(daemon): State<Arc<Daemon>>,
    Path(agent): Path<String>,
    Body(new): Body<NewSession>,
) -> Result<(StatusCode, Json<SessionBody>), ApiError> {
    let agent = daemon.wharf.agent(&agent)?;
    let id = id(new.id)?;
    if let Some(open) = daemon.wharf.find_session(&agent, id.as_str()) {
        if daemon.begun.all().contains(&(agent, id)) {
            return Ok((StatusCode::OK, Json(body(&open))));
        }
        let text = "this is a session of a client, which goes on with it itself";
        return Err(ApiError::new(StatusCode::CONFLICT, text));
    }
    let limit = daemon.wharf.limits().sessions;
    if daemon.wharf.open_sessions(&agent) >= limit {
        let text = format!("{limit} sessions of this agent are open already");
        return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, text));
    }
    let session = daemon.wharf.session(SessionOptions {
        agent: agent.clone(),
        id: id.clone(),
        declared: Declared::default(),
        reserved: vec![],
        lasting: false,
    });
    if *session.agent() != agent {
        let text = format!("another agent has a session `{id}`");
        return Err(ApiError::new(StatusCode::CONFLICT, text));
    }
    daemon.begun.all().insert((agent, id));
    Ok((StatusCode::CREATED, Json(body(&session))))
}

/// One session.
#[utoipa::path(get, path = "/api/agents/{agent}/sessions/{id}", params(("agent" = String, Path), ("id" = String, Path)),
    responses((status = 200, body = SessionBody), (status = 404, body = ApiError)))]
pub(crate) async fn show(
    State(daemon): State<Arc<Daemon>>,
    Path((agent, id)): Path<(String, String)>,
) -> Result<Json<SessionBody>, ApiError> {
    Ok(Json(body(&find(&daemon, &agent, &id)?)))
}

/// What stopping came to.
#[derive(Serialize, ToSchema)]
pub(crate) struct StoppedCalls {
    /// How many calls ran or waited.
    stopped: usize,
}

/// Stops the calls of one session, as `/stop` does. Nobody else's are touched.
#[utoipa::path(post, path = "/api/agents/{agent}/sessions/{id}/stop", params(("agent" = String, Path), ("id" = String, Path)),
    responses((status = 200, body = StoppedCalls), (status = 404, body = ApiError)))]
pub(crate) async fn stop(
    State(daemon): State<Arc<Daemon>>,
    Path((agent, id)): Path<(String, String)>,
) -> Result<Json<StoppedCalls>, ApiError> {
    let stopped = find(&daemon, &agent, &id)?.stop_calls();
    Ok(Json(StoppedCalls { stopped }))
}

/// Ends a session that was begun here and begins the next, as `/new` and, with the id of an earlier one, `/resume` do.
/// Its servers stop first.
#[utoipa::path(post, path = "/api/agents/{agent}/sessions/{id}/next", params(("agent" = String, Path), ("id" = String, Path)),
    request_body = NewSession, responses((status = 201, body = SessionBody), (status = 404, body = ApiError),
        (status = 409, body = ApiError), (status = 422, body = ApiError)))]
pub(crate) async fn next(
    State(daemon): State<Arc<Daemon>>,
    Path((agent, old)): Path<(String, String)>,
    Body(new): Body<NewSession>,
) -> Result<(StatusCode, Json<SessionBody>), ApiError> {
    let session = find(&daemon, &agent, &old)?;
    let id = id(new.id)?;
    let before = (session.agent().clone(), session.id().clone());
    if !daemon.begun.all().contains(&before) {
        let text = format!("the session `{old}` is an MCP client's, which begins its next itself");
        return Err(ApiError::new(StatusCode::CONFLICT, text));
    }
    let changing = daemon.clone();
    uninterrupted(&daemon, async move {
        let next = session.next(id.clone()).await;
        if *next.agent() != before.0 {
            let text = format!("another agent has a session `{id}`");
            return Err(ApiError::new(StatusCode::CONFLICT, text));
        }
        changing.begun.all().remove(&before);
        changing.begun.all().insert((before.0, id));
        Ok((StatusCode::CREATED, Json(body(&next))))
    })
    .await
}

/// Ends a session: its calls stop, and the servers that nobody else uses. A client whose session it was is told that it
/// is gone.
#[utoipa::path(delete, path = "/api/agents/{agent}/sessions/{id}", params(("agent" = String, Path), ("id" = String, Path)),
    responses((status = 204, description = "it is over"), (status = 404, body = ApiError), (status = 409, body = ApiError)))]
pub(crate) async fn end(
    State(daemon): State<Arc<Daemon>>,
    Path((agent, id)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let session = find(&daemon, &agent, &id)?;
    if session.is_lasting() {
        let text = "this session is shared by all who have none of their own, and never ends";
        return Err(ApiError::new(StatusCode::CONFLICT, text));
    }
    let changing = daemon.clone();
    uninterrupted(&daemon, async move {
        let key = (session.agent().clone(), session.id().clone());
        changing.begun.all().remove(&key);
        changing.gateway.forget(session.id().as_str());
        session.end().await;
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}
