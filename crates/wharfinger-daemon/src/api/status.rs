//! The daemon itself.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;
use wharfinger::model::Problem;
use wharfinger::servers::Halted;

use crate::serve::Daemon;

/// How the daemon stands.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatusBody {
    /// Of the program.
    version: String,
    /// Its process.
    pid: u32,
    /// Its home folder.
    home: String,
    /// Address and port.
    listen: String,
    /// The same as a URL.
    url: String,
    /// Milliseconds since 1970, UTC.
    started_at: u64,
    /// How many there are.
    agents: usize,
    /// How many are configured.
    servers: usize,
    /// How many are open.
    sessions: usize,
    /// What is wrong with the configuration.
    problems: Vec<Problem>,
    /// Since when and why nothing may start; only after an emergency stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    halted: Option<Halted>,
}

/// The daemon's state.
#[utoipa::path(get, path = "/api/status", responses((status = 200, body = StatusBody)))]
pub(crate) async fn status(State(daemon): State<Arc<Daemon>>) -> Json<StatusBody> {
    let agents = daemon.wharf.agents();
    let started = daemon
        .started
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Json(StatusBody {
        version: daemon.version.clone(),
        pid: std::process::id(),
        home: daemon.home.path().display().to_string(),
        listen: daemon.listen.to_string(),
        url: daemon.url(),
        started_at: u64::try_from(started.as_millis()).unwrap_or(u64::MAX),
        sessions: agents
            .iter()
            .map(|agent| daemon.wharf.open_sessions(agent))
            .sum(),
        agents: agents.len(),
        servers: daemon.wharf.config().servers.len(),
        problems: daemon.wharf.problems().to_vec(),
        halted: daemon.wharf.is_halted(),
    })
}

/// Stops every server, then the daemon.
#[utoipa::path(post, path = "/api/stop", responses((status = 202, description = "it is stopping")))]
pub(crate) async fn stop(State(daemon): State<Arc<Daemon>>) -> StatusCode {
    daemon.stop.cancel();
    StatusCode::ACCEPTED
}
