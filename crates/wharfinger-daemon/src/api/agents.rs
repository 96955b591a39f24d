//! Agents: who there is, their endpoints, and what `/mcp` prints for them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use wharfinger::model::{AgentName, Profile};

use super::problem::{Body, Path, Query};
use super::{ApiError, uninterrupted};
use crate::serve::Daemon;

/// An agent.
#[derive(Serialize, ToSchema)]
pub(crate) struct AgentBody {
    /// Its name.
    name: String,
    /// Its profile.
    #[schema(value_type = String)]
    profile: Profile,
    /// How many are open.
    sessions: usize,
    /// Its folder.
    workspace: String,
}

/// All agents.
#[derive(Serialize, ToSchema)]
pub(crate) struct AgentList {
    /// By name.
    agents: Vec<AgentBody>,
}

fn body(daemon: &Daemon, agent: &AgentName) -> AgentBody {
    AgentBody {
        name: agent.to_string(),
        profile: Profile::Chat,
        sessions: daemon.wharf.open_sessions(agent),
        workspace: daemon.wharf.workspace(agent).display().to_string(),
    }
}

/// All agents.
#[utoipa::path(get, path = "/api/agents", responses((status = 200, body = AgentList)))]
pub(crate) async fn list(State(daemon): State<Arc<Daemon>>) -> Json<AgentList> {
    let agents = daemon.wharf.agents();
    Json(AgentList {
        agents: agents.iter().map(|agent| body(&daemon, agent)).collect(),
    })
}

/// One agent.
#[utoipa::path(get, path = "/api/agents/{agent}", params(("agent" = String, Path)),
    responses((status = 200, body = AgentBody), (status = 404, body = ApiError)))]
pub(crate) async fn show(
    State(daemon): State<Arc<Daemon>>,
    Path(agent): Path<String>,
) -> Result<Json<AgentBody>, ApiError> {
    Ok(Json(body(&daemon, &daemon.wharf.agent(&agent)?)))
}

/// An agent to make.
#[derive(Deserialize, ToSchema)]
pub(crate) struct NewAgent {
    /// Letters, digits, `.`, `_` and `-`.
    name: String,
    /// `chat`, the only one there is yet.
    #[serde(default)]
    profile: Option<String>,
}

/// Makes an agent.
#[utoipa::path(post, path = "/api/agents", request_body = NewAgent,
    responses((status = 201, body = AgentBody), (status = 409, body = ApiError), (status = 422, body = ApiError)))]
pub(crate) async fn add(
    State(daemon): State<Arc<Daemon>>,
    Body(new): Body<NewAgent>,
) -> Result<(StatusCode, Json<AgentBody>), ApiError> {
    let wrong = |field: &str, message: String| {
        ApiError::invalid("the agent can't be made").with_field(field.to_owned(), message)
    };
    let name = AgentName::new(&new.name)
        .map_err(|why| wrong("name", format!("the name {:?} {why}", new.name)))?;
    if let Some(profile) = new.profile.filter(|profile| profile != "chat") {
        return Err(wrong("profile", format!("must be `chat`, not {profile:?}")));
    }
    daemon.wharf.add_agent(name.clone(), Profile::Chat).await?;
    Ok((StatusCode::CREATED, Json(body(&daemon, &name))))
}

/// Ends an agent's sessions and forgets it and its token. Its workspace stays.
#[utoipa::path(delete, path = "/api/agents/{agent}", params(("agent" = String, Path)),
    responses((status = 204, description = "it is gone"), (status = 404, body = ApiError), (status = 409, body = ApiError)))]
pub(crate) async fn remove(
    State(daemon): State<Arc<Daemon>>,
    Path(agent): Path<String>,
) -> Result<StatusCode, ApiError> {
    let name = daemon.wharf.agent(&agent)?;
    if agent == "default" {
        return Err(wharfinger::AgentError::Default.into());
    }
    let changing = daemon.clone();
    uninterrupted(&daemon, async move {
        // First of all nobody comes in any more.
        changing.tokens.forget(&name);
        changing.wharf.remove_agent(name.as_str()).await?;
        // A request that came in between may have made it again.
        changing.tokens.forget(&name);
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}

/// How a client reaches an agent.
#[derive(Serialize, ToSchema)]
pub(crate) struct Endpoint {
    /// The agent.
    agent: String,
    /// Streamable HTTP.
    url: String,
    /// Bearer token for it.
    token: String,
    /// For clients that start a command.
    stdio: Command,
}

/// A command to be run.
#[derive(Serialize, ToSchema)]
pub(crate) struct Command {
    /// The program.
    command: String,
    /// Its arguments.
    args: Vec<String>,
}

/// How a client reaches an agent: URL, token, command.
#[utoipa::path(get, path = "/api/agents/{agent}/endpoint", params(("agent" = String, Path)),
    responses((status = 200, body = Endpoint), (status = 404, body = ApiError)))]
pub(crate) async fn endpoint(
    State(daemon): State<Arc<Daemon>>,
    Path(agent): Path<String>,
) -> Result<Json<Endpoint>, ApiError> {
    let agent = daemon.wharf.agent(&agent)?;
    let token = daemon.tokens.token(Some(&agent));
    let token = token
        .map_err(|error| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    let home = daemon.home.path().display().to_string();
    // A client starts it from an environment of its own, so it names the home.
    let args = ["--home", &home, "stdio", "--agent", agent.as_str()]
        .map(str::to_owned)
        .to_vec();
    Ok(Json(Endpoint {
        url: format!("{}/agents/{agent}/mcp", daemon.url()),
        agent: agent.to_string(),
        token,
        stdio: Command {
            command: daemon.program.display().to_string(),
            args,
        },
    }))
}

/// Which server.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct OneServer {
    /// All servers, unless given.
    server: Option<String>,
}

/// Text for people.
#[derive(Serialize, ToSchema)]
pub(crate) struct Text {
    /// As `/mcp` prints it.
    text: String,
}

/// What `/mcp` and `/mcp NAME` print. No model is asked.
#[utoipa::path(get, path = "/api/agents/{agent}/mcp", params(("agent" = String, Path), OneServer),
    responses((status = 200, body = Text), (status = 404, body = ApiError)))]
pub(crate) async fn mcp(
    State(daemon): State<Arc<Daemon>>,
    Path(agent): Path<String>,
    Query(one): Query<OneServer>,
) -> Result<Json<Text>, ApiError> {
    let agent = daemon.wharf.agent(&agent)?;
    let text = match one.server {
        Some(server) => daemon
            .wharf
            .mcp_show(&server, &agent)
            .map_err(ApiError::unknown)?,
        None => daemon.wharf.mcp_list(&agent),
    };
    Ok(Json(Text { text }))
}

/// What `/mcp restart NAME` does and prints.
#[utoipa::path(post, path = "/api/agents/{agent}/mcp/restart", params(("agent" = String, Path), OneServer),
    responses((status = 200, body = Text), (status = 404, body = ApiError)))]
pub(crate) async fn mcp_restart(
    State(daemon): State<Arc<Daemon>>,
    Path(agent): Path<String>,
    Query(one): Query<OneServer>,
) -> Result<Json<Text>, ApiError> {
    let agent = daemon.wharf.agent(&agent)?;
    let Some(server) = one.server else {
        return Err(ApiError::invalid("`server` says which one to restart"));
    };
    let text = daemon
        .wharf
        .mcp_restart(&server, &agent)
        .await
        .map_err(ApiError::unknown)?;
    Ok(Json(Text { text }))
}
