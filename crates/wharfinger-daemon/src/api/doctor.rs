//! What is wrong, why, and the way out.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use utoipa::{IntoParams, ToSchema};
use wharfinger::doctor::{Check, Daemon as Running, Facts, Finding, Vault, examine};
use wharfinger::vault::{KeyPlace, VaultState};
use wharfinger::{Trial, VaultReport};

use super::ApiError;
use super::problem::{Path, Query};
use crate::doctor::{Asked, look};
use crate::serve::Daemon;

/// What to look at.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct About {
    /// Only what is about this server.
    server: Option<String>,
}

/// What was looked at, and what is wrong.
#[derive(Serialize, ToSchema)]
pub(crate) struct DoctorBody {
    /// What was found out.
    facts: Facts,
    /// What was looked at, and how it stands.
    checks: Vec<Check>,
    /// What is wrong, as `docs/errors.md` has it.
    findings: Vec<Finding>,
}

/// Looks at the machine, the home, the configuration and what became of each server. Nothing is started but programs
/// that tell their version.
#[utoipa::path(get, path = "/api/doctor", params(About),
    responses((status = 200, body = DoctorBody), (status = 404, body = ApiError)))]
pub(crate) async fn doctor(
    State(daemon): State<Arc<Daemon>>,
    Query(about): Query<About>,
) -> Result<Response, ApiError> {
    let wharf = &daemon.wharf;
    if let Some(name) = &about.server {
        known(&daemon, name)?;
    }
    let mut facts = look(Asked {
        home: daemon.home.path().to_owned(),
        environment: wharf.inherited(),
        listen: daemon.listen.to_string(),
        daemon: Some(Running {
            version: daemon.version.clone(),
            pid: std::process::id(),
            url: daemon.url(),
        }),
        programs: wharf.programs(),
        problems: wharf.problems().to_vec(),
        runtimes: about.server.is_none(),
    })
    .await;
    facts.vault = Some(vault(&wharf.vault()));
    let (checks, mut findings) = examine(&facts);
    // What became of a server says more than that its program is not there.
    let tried = wharf.findings();
    findings.retain(|finding| {
        let same = |tried: &Finding| tried.server == finding.server && tried.code == finding.code;
        !tried.iter().any(same)
    });
    findings.extend(tried);
    if let Some(name) = about.server {
        findings.retain(|finding| finding.server.as_ref() == Some(&name));
    }
    let body = DoctorBody {
        facts,
        checks,
        findings,
    };
    Ok(clean(&daemon, &body))
}

/// Starts a server for a moment and tells how far it came; nothing is started where a process of it runs.
#[utoipa::path(post, path = "/api/servers/{name}/trial", params(("name" = String, Path)),
    responses((status = 200, body = Trial), (status = 404, body = ApiError), (status = 409, body = ApiError)))]
pub(crate) async fn trial(
    State(daemon): State<Arc<Daemon>>,
    Path(name): Path<String>,
) -> Result<Response, ApiError> {
    known(&daemon, &name)?;
    let trial = daemon
        .wharf
        .try_server(&name)
        .await
        .map_err(ApiError::conflict)?;
    Ok(clean(&daemon, &trial))
}

fn known(daemon: &Daemon, name: &str) -> Result<(), ApiError> {
    let config = daemon.wharf.config();
    let broken = config
        .broken
        .iter()
        .any(|(broken, ..)| broken.as_str() == name);
    if broken || config.server(name).is_some() {
        return Ok(());
    }
    Err(ApiError::unknown(daemon.wharf.no_such_server(name)))
}

fn vault(report: &VaultReport) -> Vault {
    let state = match report.state {
        VaultState::Absent => "absent",
        VaultState::Unlocked => "unlocked",
        VaultState::Locked => "locked",
        VaultState::Foreign => "foreign",
    };
    let key = report.key.map(|key| match key {
        KeyPlace::Keyring => "keyring",
        KeyPlace::File => "file",
        KeyPlace::Passphrase => "passphrase",
    });
    Vault {
        state: state.to_owned(),
        key: key.map(str::to_owned),
    }
}

/// Facts of the machine are in no hurry, so they pass the redactor whole.
fn clean(daemon: &Daemon, body: &impl Serialize) -> Response {
    let raw: Box<RawValue> = match to_raw_value(body) {
        Ok(raw) => raw,
        Err(error) => {
            let status = axum::http::StatusCode::INTERNAL_SERVER_ERROR;
            return ApiError::new(status, error.to_string()).into_response();
        }
    };
    let raw = daemon.wharf.redactor().json(&raw).unwrap_or(raw);
    ([(header::CONTENT_TYPE, "application/json")], Json(raw)).into_response()
}
