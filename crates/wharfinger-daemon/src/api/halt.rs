//! The emergency stop (A190).

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wharfinger::HaltError;
use wharfinger::servers::Halted;

use super::problem::MaybeBody;
use super::{ApiError, uninterrupted};
use crate::serve::Daemon;

/// Why everything is stopped.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Halt {
    /// For whoever finds it stopped.
    reason: Option<String>,
}

/// Ends every call and every server at once, and waits until nothing is left of them. The daemon runs on, and starts no
/// server until `/api/release`, also after a restart. The body may be left out.
#[utoipa::path(post, path = "/api/halt", request_body = Option<Halt>,
    responses((status = 200, body = Halted), (status = 422, body = ApiError), (status = 500, body = ApiError)))]
pub(crate) async fn halt(
    State(daemon): State<Arc<Daemon>>,
    MaybeBody(halt): MaybeBody<Halt>,
) -> Result<Json<Halted>, ApiError> {
    let halting = daemon.clone();
    uninterrupted(&daemon, async move {
        let reason = halt.reason.filter(|reason| !reason.trim().is_empty());
        let reason = reason.as_deref().unwrap_or("its owner stopped everything");
        Ok(Json(halting.wharf.halt(reason).await?))
    })
    .await
}

/// What came of it.
#[derive(Serialize, ToSchema)]
pub(crate) struct Released {
    /// Whether anything was stopped.
    released: bool,
}

/// Ends an emergency stop: servers may start again, each when it is next wanted.
#[utoipa::path(post, path = "/api/release",
    responses((status = 200, body = Released), (status = 500, body = ApiError)))]
pub(crate) async fn release(State(daemon): State<Arc<Daemon>>) -> Result<Json<Released>, ApiError> {
    let released = daemon.wharf.release()?;
    Ok(Json(Released { released }))
}

impl From<HaltError> for ApiError {
    fn from(error: HaltError) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    }
}
