//! The tools of an agent of the agent profile: flags, locks, definitions, reviews.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use wharfinger::catalog::Decision;
use wharfinger::policy::{self, Tri};
use wharfinger::{AgentTool, Which};

use super::problem::{Body, Path};
use super::servers::owner_session;
use super::{ApiError, uninterrupted};
use crate::serve::Daemon;

/// The tools of an agent.
#[derive(Serialize, ToSchema)]
pub(crate) struct AgentTools {
    /// How the switches of each server stand.
    servers: Vec<ServerSwitches>,
    /// By server, then its own.
    tools: Vec<AgentTool>,
}

/// How the switches of a server's tools stand.
#[derive(Serialize, ToSchema)]
struct ServerSwitches {
    /// The server.
    name: String,
    /// Each call waits for a person.
    restricted: Switch,
    /// The model is told of them.
    visible: Switch,
    /// They may be called.
    enabled: Switch,
}

/// A switch for many tools. Locked ones do not count.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Switch {
    /// All have it.
    On,
    /// None has.
    Off,
    /// Some have.
    Mixed,
    /// There is no tool that it could switch.
    None,
}

impl From<Tri> for Switch {
    fn from(tri: Tri) -> Self {
        match tri {
            Tri::On => Self::On,
            Tri::Off => Self::Off,
            Tri::Mixed => Self::Mixed,
            Tri::Nothing => Self::None,
        }
    }
}

/// The tools of an agent of the agent profile, with what may be done with each. Servers that were never listed are
/// listed now, for a few seconds at most.
#[utoipa::path(get, path = "/api/agents/{agent}/tools", params(("agent" = String, Path)),
    responses((status = 200, body = AgentTools), (status = 404, body = ApiError), (status = 409, body = ApiError)))]
pub(crate) async fn list(
    State(daemon): State<Arc<Daemon>>,
    Path(agent): Path<String>,
) -> Result<Json<AgentTools>, ApiError> {
    let name = daemon.wharf.agent(&agent)?;
    // Says at once where there is nothing to wait for.
    daemon.wharf.agent_tools(&agent)?;
    owner_session(&daemon, &name).tools().await;
    let servers = daemon.wharf.switches(&agent)?.into_iter();
    let servers = servers.map(|(name, switches)| ServerSwitches {
        name: name.to_string(),
        restricted: switches.restricted.into(),
        visible: switches.visible.into(),
        enabled: switches.enabled.into(),
    });
    Ok(Json(AgentTools {
        servers: servers.collect(),
        tools: daemon.wharf.agent_tools(&agent)?,
    }))
}

/// What is switched.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Flag {
    /// It may be called.
    Enabled,
    /// The model is told of it.
    Visible,
    /// Each call waits for a person.
    Restricted,
}

impl From<Flag> for policy::Flag {
    fn from(flag: Flag) -> Self {
        match flag {
            Flag::Enabled => Self::Enabled,
            Flag::Visible => Self::Visible,
            Flag::Restricted => Self::Restricted,
        }
    }
}

/// A switch for one tool, or for all of a server.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewFlag {
    /// The tool, as the agent calls it; or `server`.
    tool: Option<String>,
    /// All tools of this server that are not locked.
    server: Option<String>,
    /// Which switch.
    flag: Flag,
    /// How it is to stand.
    on: bool,
}

/// What a switch did.
#[derive(Serialize, ToSchema)]
pub(crate) struct Changed {
    /// How many tools stand otherwise now.
    changed: usize,
}

/// Switches one tool, or all of a server. Switching on what may be called also shows it to the model.
#[utoipa::path(post, path = "/api/agents/{agent}/tools", params(("agent" = String, Path)), request_body = NewFlag,
    responses((status = 200, body = Changed), (status = 404, body = ApiError), (status = 409, body = ApiError),
        (status = 422, body = ApiError)))]
pub(crate) async fn switch(
    State(daemon): State<Arc<Daemon>>,
    Path(agent): Path<String>,
    Body(new): Body<NewFlag>,
) -> Result<Json<Changed>, ApiError> {
    let which = match (new.tool, new.server) {
        (Some(tool), None) => Which::Tool(tool),
        (None, Some(server)) => Which::Server(server),
        (None, None) | (Some(_), Some(_)) => {
            return Err(ApiError::invalid("nothing can be switched").with_field(
                "tool".into(),
                "either `tool` or `server` says what to switch".into(),
            ));
        }
    };
    let switching = daemon.clone();
    uninterrupted(&daemon, async move {
        let flag = policy::Flag::from(new.flag);
        let changed = switching.wharf.switch_tools(&agent, which, flag, new.on);
        Ok(Json(Changed {
            changed: changed.await?,
        }))
    })
    .await
}

/// A tool and what it is.
#[derive(Serialize, ToSchema)]
pub(crate) struct ToolInFull {
    /// As in the list.
    #[serde(flatten)]
    tool: AgentTool,
    /// The definition that was reviewed.
    #[schema(value_type = Option<Object>)]
    reviewed: Option<Box<RawValue>>,
    /// The definition that was last listed.
    #[schema(value_type = Option<Object>)]
    current: Option<Box<RawValue>>,
}

/// One tool with its definitions, as the agent's file knows them: its server need not run (A159).
#[utoipa::path(get, path = "/api/agents/{agent}/tools/{tool}",
    params(("agent" = String, Path), ("tool" = String, Path)),
    responses((status = 200, body = ToolInFull), (status = 404, body = ApiError), (status = 409, body = ApiError)))]
pub(crate) async fn show(
    State(daemon): State<Arc<Daemon>>,
    Path((agent, tool)): Path<(String, String)>,
) -> Result<Json<ToolInFull>, ApiError> {
    in_full(&daemon, &agent, &tool).map(Json)
}

fn in_full(daemon: &Daemon, agent: &str, tool: &str) -> Result<ToolInFull, ApiError> {
    let known = daemon.wharf.definitions(agent, tool)?;
    let tools = daemon.wharf.agent_tools(agent)?;
    let found = tools.into_iter().find(|known| known.name == tool);
    // A server may have put a secret into its definition.
    let redactor = daemon.wharf.redactor();
    let clean = |text: Option<String>| {
        let raw = RawValue::from_string(text?).ok()?;
        Some(redactor.json(&raw).unwrap_or(raw))
    };
    Ok(ToolInFull {
        tool: found.ok_or_else(|| ApiError::unknown(format!("there is no tool `{tool}`")))?,
        reviewed: clean(known.reviewed),
        current: clean(known.current),
    })
}

/// Whether to lock.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lock {
    /// Whether nothing but its owner, by this same door, may change the tool's row.
    locked: bool,
}

/// Locks a tool's row, or unlocks it.
#[utoipa::path(post, path = "/api/agents/{agent}/tools/{tool}/lock",
    params(("agent" = String, Path), ("tool" = String, Path)), request_body = Lock,
    responses((status = 200, body = ToolInFull), (status = 404, body = ApiError), (status = 409, body = ApiError),
        (status = 422, body = ApiError)))]
pub(crate) async fn lock(
    State(daemon): State<Arc<Daemon>>,
    Path((agent, tool)): Path<(String, String)>,
    Body(new): Body<Lock>,
) -> Result<Json<ToolInFull>, ApiError> {
    let changing = daemon.clone();
    uninterrupted(&daemon, async move {
        changing.wharf.lock_tool(&agent, &tool, new.locked).await?;
        in_full(&changing, &agent, &tool).map(Json)
    })
    .await
}

/// What an owner says of a tool that is not what was reviewed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Review {
    /// Whether it is trusted as it is now, and on. Otherwise it stays off.
    accept: bool,
    /// The `hash` of what was looked at; another one is refused, so that nobody accepts what came in between.
    seen: Option<String>,
}

/// Decides about a tool that changed since its review.
#[utoipa::path(post, path = "/api/agents/{agent}/tools/{tool}/review",
    params(("agent" = String, Path), ("tool" = String, Path)), request_body = Review,
    responses((status = 200, body = ToolInFull), (status = 404, body = ApiError), (status = 409, body = ApiError),
        (status = 422, body = ApiError)))]
pub(crate) async fn review(
    State(daemon): State<Arc<Daemon>>,
    Path((agent, tool)): Path<(String, String)>,
    Body(review): Body<Review>,
) -> Result<Json<ToolInFull>, ApiError> {
    let decision = if review.accept {
        Decision::Accept { seen: review.seen }
    } else {
        Decision::Reject
    };
    let deciding = daemon.clone();
    uninterrupted(&daemon, async move {
        deciding.wharf.review_tool(&agent, &tool, decision).await?;
        in_full(&deciding, &agent, &tool).map(Json)
    })
    .await
}
