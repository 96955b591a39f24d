//! Packages of servers: installing, what is newer, going to another version and back.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use wharfinger::config;
use wharfinger::model::Source;
use wharfinger::{INSTALL_LIMIT, Installing, Outdated, PackageError, PackageReport, Upgrade};

use super::problem::{Body, Path, Query};
use super::servers::own;
use super::{ApiError, uninterrupted};
use crate::serve::Daemon;

impl From<PackageError> for ApiError {
    fn from(error: PackageError) -> Self {
        let told = Self::new(StatusCode::CONFLICT, error.message);
        match error.hint {
            Some(hint) => told.with_hint(hint),
            None => told,
        }
    }
}

/// How to install.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Install {
    /// Only what is in `mcp.lock`.
    #[serde(default)]
    frozen: bool,
    /// For all of it; 120 unless given.
    timeout_seconds: Option<u64>,
}

fn limit(seconds: Option<u64>) -> Duration {
    seconds.map_or(INSTALL_LIMIT, |seconds| {
        Duration::from_secs(seconds.clamp(1, 24 * 3600))
    })
}

fn known(daemon: &Daemon, name: &str) -> Result<(), ApiError> {
    match daemon.wharf.config().server(name) {
        Some(_) => Ok(()),
        None => Err(ApiError::unknown(daemon.wharf.no_such_server(name))),
    }
}

/// Installs the package of a server as it is locked, or locks what there is now; nothing where it is there.
#[utoipa::path(post, path = "/api/servers/{name}/install", params(("name" = String, Path)), request_body = Install,
    responses((status = 200, body = PackageReport), (status = 404, body = ApiError), (status = 409, body = ApiError)))]
pub(crate) async fn install(
    State(daemon): State<Arc<Daemon>>,
    Path(name): Path<String>,
    Body(install): Body<Install>,
) -> Result<Json<PackageReport>, ApiError> {
    known(&daemon, &name)?;
    let how = Installing {
        frozen: install.frozen,
        limit: limit(install.timeout_seconds),
    };
    Ok(Json(daemon.wharf.install_server(&name, how).await?))
}

/// How long to look.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Patience {
    /// For each package; 120 unless given.
    timeout: Option<u64>,
}

/// What could be newer.
#[derive(Serialize, ToSchema)]
pub(crate) struct OutdatedServers {
    /// Servers whose package is behind, or of which that is not known.
    servers: Vec<Outdated>,
}

/// Asks the registries which packages there is a newer version of.
#[utoipa::path(get, path = "/api/outdated", params(Patience), responses((status = 200, body = OutdatedServers)))]
pub(crate) async fn outdated(
    State(daemon): State<Arc<Daemon>>,
    Query(patience): Query<Patience>,
) -> Result<Json<OutdatedServers>, ApiError> {
    let servers = daemon.wharf.outdated(limit(patience.timeout)).await;
    Ok(Json(OutdatedServers { servers }))
}

/// Which version to try.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Try {
    /// The newest unless given.
    to: Option<String>,
    /// For the install; 120 unless given.
    timeout_seconds: Option<u64>,
}

/// Installs another version beside the one in force, starts it for a moment, and tells what it would bring.
#[utoipa::path(post, path = "/api/servers/{name}/upgrade", params(("name" = String, Path)), request_body = Try,
    responses((status = 200, body = Upgrade), (status = 404, body = ApiError), (status = 409, body = ApiError)))]
pub(crate) async fn upgrade(
    State(daemon): State<Arc<Daemon>>,
    Path(name): Path<String>,
    Body(body): Body<Try>,
) -> Result<Json<Upgrade>, ApiError> {
    known(&daemon, &name)?;
    let limit = limit(body.timeout_seconds);
    let upgrade = daemon
        .wharf
        .try_version(&name, body.to.as_deref(), limit)
        .await?;
    if upgrade.pin.is_some() {
        may_pin(&daemon, &name)?;
    }
    Ok(Json(upgrade))
}

/// The version to put in force.
#[derive(Deserialize, Serialize, ToSchema)]
pub(crate) struct Version {
    /// One that was tried.
    version: String,
}

/// Puts the version in force that was tried; the server starts afresh with it.
#[utoipa::path(post, path = "/api/servers/{name}/upgrade/switch", params(("name" = String, Path)), request_body = Version,
    responses((status = 200, body = Version), (status = 404, body = ApiError), (status = 409, body = ApiError)))]
pub(crate) async fn switch(
    State(daemon): State<Arc<Daemon>>,
    Path(name): Path<String>,
    Body(body): Body<Version>,
) -> Result<Json<Version>, ApiError> {
    known(&daemon, &name)?;
    let changing = daemon.clone();
    uninterrupted(&daemon, async move {
        let pinned = is_pinned(&changing, &name);
        if pinned {
            may_pin(&changing, &name)?;
        }
        changing.wharf.switch_version(&name, &body.version).await?;
        if pinned {
            pin(&changing, &name, &body.version).await?;
        }
        Ok(Json(body))
    })
    .await
}

/// Puts the version in force again that was so before the last upgrade.
#[utoipa::path(post, path = "/api/servers/{name}/upgrade/back", params(("name" = String, Path)),
    responses((status = 200, body = Version), (status = 404, body = ApiError), (status = 409, body = ApiError)))]
pub(crate) async fn back(
    State(daemon): State<Arc<Daemon>>,
    Path(name): Path<String>,
) -> Result<Json<Version>, ApiError> {
    known(&daemon, &name)?;
    let changing = daemon.clone();
    uninterrupted(&daemon, async move {
        if is_pinned(&changing, &name) {
            may_pin(&changing, &name)?;
        }
        let (version, pinned) = changing.wharf.back_to_earlier(&name).await?;
        if pinned {
            pin(&changing, &name, &version).await?;
        }
        Ok(Json(Version { version }))
    })
    .await
}

fn is_pinned(daemon: &Daemon, name: &str) -> bool {
    let config = daemon.wharf.config();
    let package = config.server(name).and_then(|entry| entry.package.as_ref());
    package.is_some_and(|package| package.version.is_some())
}

/// The version of an entry can be changed where we may write it.
fn may_pin(daemon: &Daemon, name: &str) -> Result<(), ApiError> {
    let config = daemon.wharf.config();
    match config
        .server(name)
        .map(|entry| (entry.source, &entry.place))
    {
        Some((Source::Settings, _)) | None => Ok(()),
        Some((_, place)) => Err(ApiError::conflict(format!(
            "the version of `{name}` stands in {place}"
        ))
        .with_hint("change it there")),
    }
}

async fn pin(daemon: &Arc<Daemon>, name: &str, version: &str) -> Result<(), ApiError> {
    let known = own(daemon, name)?;
    let edit = |text: &str| config::set_version(text, &known, version);
    daemon.settings.edit(&daemon.wharf, edit).await?;
    daemon.wharf.restart_server(name, None).await;
    daemon.wharf.discover(name).await.ok();
    Ok(())
}

/// What would be left of a server's package.
#[derive(Serialize, ToSchema)]
pub(crate) struct Leftover {
    /// The package, if its install is there and nobody else uses it.
    package: Option<String>,
    /// How much room it takes.
    bytes: u64,
}

/// The install that nobody would use without this server.
#[utoipa::path(get, path = "/api/servers/{name}/install", params(("name" = String, Path)),
    responses((status = 200, body = Leftover), (status = 404, body = ApiError)))]
pub(crate) async fn leftover(
    State(daemon): State<Arc<Daemon>>,
    Path(name): Path<String>,
) -> Result<Json<Leftover>, ApiError> {
    own(&daemon, &name)?;
    let looking = daemon.clone();
    let unused = uninterrupted(
        &daemon,
        async move { Ok(looking.wharf.unused_after(&name)) },
    )
    .await?;
    Ok(Json(match unused {
        Some((package, bytes)) => Leftover {
            package: Some(package.spec()),
            bytes,
        },
        None => Leftover {
            package: None,
            bytes: 0,
        },
    }))
}
