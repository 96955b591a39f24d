//! Agents: who there is, their endpoints, and what `/mcp` prints for them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use wharfinger::AgentSettings;
use wharfinger::catalog::Accept;
use wharfinger::model::{AgentName, Profile};

use super::problem::{Body, Path, Query};
use super::{ApiError, uninterrupted};
use crate::serve::Daemon;

/// An agent.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentBody {
    /// Its name.
    name: String,
    /// Its profile.
    #[schema(value_type = String)]
    profile: Profile,
    /// Where everything lies that is its own.
    file: String,
    /// Why it can't be used, if it can't.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// What it is doing.
    state: Doing,
    /// How many are open.
    sessions: usize,
    /// Its folder.
    workspace: String,
    /// Servers that it was given; of the chat profile it has every one.
    attached: Vec<AttachedBody>,
    /// Only of the agent profile.
    #[serde(flatten)]
    settings: Option<SettingsBody>,
}

/// What an agent is doing (A225).
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Doing {
    /// No session of it is open.
    Idle,
    /// One is.
    Active,
    /// A call of it waits for a person.
    AwaitingApproval,
}

/// A server of an agent.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct AttachedBody {
    /// Its name.
    name: String,
    /// The owner has registered it.
    registered: bool,
    /// Tools of it that are not declared need a person.
    restricted: bool,
    /// Changes of its tools that are taken without a review, where that is another than its agent's.
    #[serde(skip_serializing_if = "Option::is_none")]
    accept_changes: Option<&'static str>,
    /// Where it comes from, if the agent has it from elsewhere than the owner's registry.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    /// Why it does not run, if it can't.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// What an owner can set of an agent.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a setting of its own"
)]
struct SettingsBody {
    /// New tools need a person.
    new_tools_restricted: bool,
    /// Changes of tools that are taken without a review: `nothing`, `cosmetic` or `wider`.
    accept_changes: &'static str,
    /// Whoever sits at its client may approve its calls.
    ask_client: bool,
    /// Its servers run whether a session is open or not.
    always_active: bool,
    /// Servers that it installs may be asked to run on this machine.
    host_access: bool,
}

/// All agents.
#[derive(Serialize, ToSchema)]
pub(crate) struct AgentList {
    /// By name.
    agents: Vec<AgentBody>,
}

pub(super) fn body(daemon: &Daemon, agent: &AgentName) -> Result<AgentBody, ApiError> {
    let state = daemon.wharf.agent_state(agent.as_str())?;
    let sessions = daemon.wharf.open_sessions(agent);
    let doing = match (state.awaits_approval, sessions) {
        (true, _) => Doing::AwaitingApproval,
        (false, 0) => Doing::Idle,
        (false, _) => Doing::Active,
    };
    let attached = state.attached.into_iter().map(|server| AttachedBody {
        name: server.name.to_string(),
        registered: server.registered,
        restricted: server.restricted,
        accept_changes: server.accept_changes,
        source: server.source,
        problem: server.problem,
    });
    Ok(AgentBody {
        name: agent.to_string(),
        profile: state.profile,
        file: state.file.display().to_string(),
        problem: state.problem,
        state: doing,
        sessions,
        workspace: daemon.wharf.workspace(agent).display().to_string(),
        attached: attached.collect(),
        settings: match state.profile {
            Profile::Chat => None,
            Profile::Agent => Some(SettingsBody {
                new_tools_restricted: state.new_tools_restricted,
                accept_changes: state.accept_changes,
                ask_client: state.ask_client,
                always_active: state.always_active,
                host_access: state.host_access,
            }),
        },
    })
}

/// All agents.
#[utoipa::path(get, path = "/api/agents", responses((status = 200, body = AgentList)))]
pub(crate) async fn list(State(daemon): State<Arc<Daemon>>) -> Json<AgentList> {
    let agents = daemon.wharf.agents();
    // One that goes meanwhile is not listed.
    let bodies = agents.iter().filter_map(|agent| body(&daemon, agent).ok());
    Json(AgentList {
        agents: bodies.collect(),
    })
}

/// One agent.
#[utoipa::path(get, path = "/api/agents/{agent}", params(("agent" = String, Path)),
    responses((status = 200, body = AgentBody), (status = 404, body = ApiError)))]
pub(crate) async fn show(
    State(daemon): State<Arc<Daemon>>,
    Path(agent): Path<String>,
) -> Result<Json<AgentBody>, ApiError> {
    Ok(Json(body(&daemon, &daemon.wharf.agent(&agent)?)?))
}

/// An agent to make.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewAgent {
    /// Letters, digits, `.`, `_` and `-`.
    name: String,
    /// `chat`, which has every server, unless given; or `agent`, which has what it is given.
    #[serde(default)]
    profile: Option<String>,
}

/// Makes an agent, with a file of its own.
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
    let profile = new.profile.as_deref().unwrap_or("chat");
    let profile = Profile::parse(profile).ok_or_else(|| {
        wrong(
            "profile",
            format!("must be `chat` or `agent`, not {profile:?}"),
        )
    })?;
    let making = daemon.clone();
    uninterrupted(&daemon, async move {
        making.wharf.add_agent(name.clone(), profile).await?;
        Ok((StatusCode::CREATED, Json(body(&making, &name)?)))
    })
    .await
}

/// Changes of tools that are taken without a review.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AcceptChanges {
    /// None.
    Nothing,
    /// Those that change nothing that matters.
    Cosmetic,
    /// Also those that only allow more.
    Wider,
}

impl From<AcceptChanges> for Accept {
    fn from(accept: AcceptChanges) -> Self {
        match accept {
            AcceptChanges::Nothing => Self::Nothing,
            AcceptChanges::Cosmetic => Self::Cosmetic,
            AcceptChanges::Wider => Self::Wider,
        }
    }
}

/// Settings to change; what is left out stays.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewSettings {
    /// New tools need a person.
    new_tools_restricted: Option<bool>,
    /// Changes of tools that are taken without a review.
    accept_changes: Option<AcceptChanges>,
    /// Whoever sits at its client may approve its calls.
    ask_client: Option<bool>,
    /// Its servers run whether a session is open or not.
    always_active: Option<bool>,
    /// Servers that it installs may be asked to run on this machine.
    host_access: Option<bool>,
}

/// Changes settings of an agent of the agent profile.
#[utoipa::path(patch, path = "/api/agents/{agent}", params(("agent" = String, Path)), request_body = NewSettings,
    responses((status = 200, body = AgentBody), (status = 404, body = ApiError), (status = 409, body = ApiError),
        (status = 422, body = ApiError)))]
pub(crate) async fn change(
    State(daemon): State<Arc<Daemon>>,
    Path(agent): Path<String>,
    Body(new): Body<NewSettings>,
) -> Result<Json<AgentBody>, ApiError> {
    let changing = daemon.clone();
    uninterrupted(&daemon, async move {
        let settings = AgentSettings {
            new_tools_restricted: new.new_tools_restricted,
            accept_changes: new.accept_changes.map(Accept::from),
            ask_client: new.ask_client,
            always_active: new.always_active,
            host_access: new.host_access,
        };
        let name = changing.wharf.agent(&agent)?;
        changing.wharf.set_agent(&agent, settings).await?;
        Ok(Json(body(&changing, &name)?))
    })
    .await
}

/// Ends an agent's sessions and removes it, its file and its token. Its workspace stays.
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
