//! Agents as files that go from one machine to another.

use std::path::PathBuf;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wharfinger::AgentError;
use wharfinger::agentfile;
use wharfinger::model::AgentName;

use super::agents::{AgentBody, body};
use super::problem::{Body, Path};
use super::{ApiError, uninterrupted};
use crate::serve::Daemon;

/// Where to.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Export {
    /// Absolute, ending in `.adf`; nothing may be there yet.
    path: String,
}

/// A file that was written.
#[derive(Serialize, ToSchema)]
pub(crate) struct Exported {
    /// Whose.
    agent: String,
    /// Where.
    path: String,
}

/// Writes a copy of an agent's file.
#[utoipa::path(post, path = "/api/agents/{agent}/export", params(("agent" = String, Path)), request_body = Export,
    responses((status = 201, body = Exported), (status = 404, body = ApiError), (status = 409, body = ApiError),
        (status = 422, body = ApiError)))]
pub(crate) async fn export(
    State(daemon): State<Arc<Daemon>>,
    Path(agent): Path<String>,
    Body(new): Body<Export>,
) -> Result<(StatusCode, Json<Exported>), ApiError> {
    const FAILED: &str = "the agent can't be exported";
    let path = named(&new.path).map_err(|why| wrong(FAILED, why))?;
    let exporting = daemon.clone();
    uninterrupted(&daemon, async move {
        let exported = exporting.wharf.export_agent(&agent, path).await;
        exported.map_err(|error| of_file(FAILED, error))?;
        let exported = Exported {
            agent,
            path: new.path,
        };
        Ok((StatusCode::CREATED, Json(exported)))
    })
    .await
}

/// A file to take in.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Import {
    /// Absolute, ending in `.adf`.
    path: String,
    /// Under this name; the one in the file unless given.
    name: Option<String>,
    /// What servers in it would run may be run. Without it, a file from elsewhere that would run something is
    /// refused, and `runs` says what that is.
    #[serde(default)]
    confirmed: bool,
}

/// Takes a copy of a file in as an agent.
#[utoipa::path(post, path = "/api/agents/import", request_body = Import,
    responses((status = 201, body = AgentBody), (status = 409, body = ApiError), (status = 422, body = ApiError)))]
pub(crate) async fn import(
    State(daemon): State<Arc<Daemon>>,
    Path(import): Path<String>,
    Body(new): Body<Import>,
) -> Result<(StatusCode, Json<AgentBody>), ApiError> {
    const FAILED: &str = "the agent can't be imported";
    // An agent may have that name too, so the path is its own.
    if import != "import" {
        let told = format!("/api/agents/{import} has no POST");
        return Err(ApiError::new(StatusCode::METHOD_NOT_ALLOWED, told));
    }
    let path = named(&new.path).map_err(|why| wrong(FAILED, why))?;
    let name = new.name.as_deref().map(|name| {
        AgentName::new(name).map_err(|why| {
            ApiError::invalid(FAILED).with_field("name".into(), format!("the name {name:?} {why}"))
        })
    });
    let name = name.transpose()?;
    let importing = daemon.clone();
    uninterrupted(&daemon, async move {
        let known = tokio::fs::metadata(&path).await;
        let known = known.map_err(|error| wrong(FAILED, format!("{}: {error}", new.path)))?;
        if !known.is_file() {
            return Err(wrong(FAILED, format!("{} is not a regular file", new.path)));
        }
        let imported = importing
            .wharf
            .import_agent(path, name, new.confirmed)
            .await;
        let name = imported.map_err(|error| of_file(FAILED, error))?;
        Ok((StatusCode::CREATED, Json(body(&importing, &name)?)))
    })
    .await
}

/// What was confirmed.
#[derive(Serialize, ToSchema)]
pub(crate) struct Confirmed {
    /// Whose.
    agent: String,
    /// What may run now.
    runs: Vec<String>,
}

/// Lets what servers in a file from elsewhere would run be run.
#[utoipa::path(post, path = "/api/agents/{agent}/confirm", params(("agent" = String, Path)),
    responses((status = 200, body = Confirmed), (status = 404, body = ApiError), (status = 409, body = ApiError)))]
pub(crate) async fn confirm(
    State(daemon): State<Arc<Daemon>>,
    Path(agent): Path<String>,
) -> Result<Json<Confirmed>, ApiError> {
    let confirming = daemon.clone();
    uninterrupted(&daemon, async move {
        let runs = confirming.wharf.confirm_agent(&agent).await?;
        Ok(Json(Confirmed { agent, runs }))
    })
    .await
}

/// A path that may be an agent's file (A201).
fn named(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if !path.is_absolute() {
        return Err("must be an absolute path".into());
    }
    if path.extension().is_none_or(|kind| kind != "adf") {
        return Err("must end in `.adf`, as agents' files do".into());
    }
    Ok(path)
}

fn wrong(what: &str, why: String) -> ApiError {
    ApiError::invalid(what).with_field("path".into(), why)
}

fn of_file(what: &str, error: AgentError) -> ApiError {
    match error {
        AgentError::File(agentfile::Error::Exists { .. } | agentfile::Error::InUse { .. }) => {
            error.into()
        }
        AgentError::File(error) => wrong(what, error.to_string()),
        AgentError::Exists(_) => ApiError::from(error)
            .with_hint("give it another name: `wharf agent import FILE --name NAME`"),
        AgentError::Unconfirmed { .. } => ApiError::from(error).with_hint(
            "confirm it when you trust that: `--yes` of `wharf agent import`, `confirmed` at the API",
        ),
        error => error.into(),
    }
}
