//! Trying a server that is not registered.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::Value;
use wharfinger::Connected;
use wharfinger::manage::{self, Probe};

use super::ApiError;
use super::problem::Body;
use crate::serve::Daemon;

/// Connects to a server without keeping it: `name`, and `command`, `args` and `env`, or `url` (A199). Says how that went,
/// also where it failed.
#[utoipa::path(post, path = "/api/probe", request_body = Object,
    responses((status = 200, body = Connected), (status = 422, body = ApiError)))]
pub(crate) async fn probe(
    State(daemon): State<Arc<Daemon>>,
    Body(request): Body<Value>,
) -> Result<Json<Connected>, ApiError> {
    let probe = Probe::read(&request).map_err(invalid)?;
    let tried = daemon.wharf.probe(probe).await;
    tried.map(Json).map_err(|why| {
        ApiError::invalid("the request is wrong").with_field("name".into(), why.to_string())
    })
}

fn invalid(error: manage::Error) -> ApiError {
    match error {
        manage::Error::Arguments(complaints) => complaints.into_iter().fold(
            ApiError::invalid("the request is wrong"),
            |error, complaint| error.with_field(complaint.field, complaint.text),
        ),
        other @ (manage::Error::Refused(_) | manage::Error::UnknownServer { .. }) => {
            ApiError::invalid(other.to_string())
        }
    }
}
