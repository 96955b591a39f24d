//! The servers of an agent: given, taken, and what is special about one.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use utoipa::ToSchema;
use wharfinger::ServerSettings;
use wharfinger::catalog::Accept;

use super::agents::{AcceptChanges, AgentBody, body};
use super::problem::{Body, Path};
use super::servers::owner_session;
use super::{ApiError, uninterrupted};
use crate::serve::Daemon;

/// A server to give.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Attach {
    /// As it is registered.
    name: String,
}

/// Gives an agent a server that is registered. Its tools arrive as new ones do, also while the agent runs.
#[utoipa::path(post, path = "/api/agents/{agent}/servers", params(("agent" = String, Path)), request_body = Attach,
    responses((status = 201, body = AgentBody), (status = 404, body = ApiError), (status = 409, body = ApiError),
        (status = 422, body = ApiError)))]
pub(crate) async fn attach(
    State(daemon): State<Arc<Daemon>>,
    Path(agent): Path<String>,
    Body(server): Body<Attach>,
) -> Result<(StatusCode, Json<AgentBody>), ApiError> {
    let changing = daemon.clone();
    uninterrupted(&daemon, async move {
        let name = changing.wharf.agent(&agent)?;
        changing.wharf.attach(&agent, &server.name).await?;
        // So that its tools are there to be looked at before the agent sees them.
        owner_session(&changing, &name).tools().await;
        Ok((StatusCode::CREATED, Json(body(&changing, &name)?)))
    })
    .await
}

/// Takes a server from an agent; its tools go with it, also while the agent runs.
#[utoipa::path(delete, path = "/api/agents/{agent}/servers/{server}",
    params(("agent" = String, Path), ("server" = String, Path)),
    responses((status = 200, body = AgentBody), (status = 404, body = ApiError), (status = 409, body = ApiError)))]
pub(crate) async fn detach(
    State(daemon): State<Arc<Daemon>>,
    Path((agent, server)): Path<(String, String)>,
) -> Result<Json<AgentBody>, ApiError> {
    let changing = daemon.clone();
    uninterrupted(&daemon, async move {
        let name = changing.wharf.agent(&agent)?;
        changing.wharf.detach(&agent, &server).await?;
        Ok(Json(body(&changing, &name)?))
    })
    .await
}

/// Settings of one server of an agent; what is left out stays.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewServerSettings {
    /// Tools of it that are not declared need a person.
    restricted: Option<bool>,
    /// Changes of its tools that are taken without a review.
    accept_changes: Option<AcceptChanges>,
}

/// Changes settings of one server of an agent.
#[utoipa::path(patch, path = "/api/agents/{agent}/servers/{server}",
    params(("agent" = String, Path), ("server" = String, Path)), request_body = NewServerSettings,
    responses((status = 200, body = AgentBody), (status = 404, body = ApiError), (status = 409, body = ApiError),
        (status = 422, body = ApiError)))]
pub(crate) async fn change(
    State(daemon): State<Arc<Daemon>>,
    Path((agent, server)): Path<(String, String)>,
    Body(new): Body<NewServerSettings>,
) -> Result<Json<AgentBody>, ApiError> {
    let changing = daemon.clone();
    uninterrupted(&daemon, async move {
        let name = changing.wharf.agent(&agent)?;
        let settings = ServerSettings {
            restricted: new.restricted,
            accept_changes: new.accept_changes.map(Accept::from),
        };
        changing
            .wharf
            .set_agent_server(&agent, &server, settings)
            .await?;
        Ok(Json(body(&changing, &name)?))
    })
    .await
}
