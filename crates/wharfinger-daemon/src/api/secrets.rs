//! Secrets: which there are, and setting them. No answer holds a value.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use wharfinger::model::{Secret, ServerName};
use wharfinger::vault::VaultError;
use wharfinger::{SecretChange, SecretError, Secrets, VaultReport};

use super::problem::{Body, MaybeBody, Path, Query};
use super::{ApiError, uninterrupted};
use crate::serve::Daemon;

/// The secrets that are set, and those that servers ask for; and how the vault stands.
#[utoipa::path(get, path = "/api/secrets", responses((status = 200, body = Secrets)))]
pub(crate) async fn list(State(daemon): State<Arc<Daemon>>) -> Json<Secrets> {
    Json(daemon.wharf.secrets())
}

/// A value to keep.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSecret {
    /// It comes back by no door.
    value: String,
    /// The agent that is to have it for itself; all agents unless given.
    agent: Option<String>,
}

/// Sets a secret of a server, which need not be registered yet. An agent that is named gets the server with it. Processes
/// that run keep what they have; the next start takes the new value.
#[utoipa::path(put, path = "/api/secrets/{server}/{key}",
    params(("server" = String, Path), ("key" = String, Path)), request_body = NewSecret,
    responses((status = 200, body = SecretChange), (status = 404, body = ApiError), (status = 409, body = ApiError),
        (status = 422, body = ApiError)))]
pub(crate) async fn set(
    State(daemon): State<Arc<Daemon>>,
    Path((server, key)): Path<(String, String)>,
    Body(new): Body<NewSecret>,
) -> Result<Json<SecretChange>, ApiError> {
    let server = named(&server)?;
    let NewSecret { value, agent } = new;
    let value = Secret::new(value);
    let wharf = daemon.wharf.clone();
    uninterrupted(&daemon, async move {
        let set = wharf.set_secret(&server, &key, value, agent.as_deref());
        Ok(Json(set.await?))
    })
    .await
}

/// Whose.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct OfAgent {
    /// The agent that has it for itself; the one for all agents unless given.
    agent: Option<String>,
}

/// Removes a secret. An agent that has no credential of the server any more loses the server with it.
#[utoipa::path(delete, path = "/api/secrets/{server}/{key}",
    params(("server" = String, Path), ("key" = String, Path), OfAgent),
    responses((status = 200, body = SecretChange), (status = 404, body = ApiError), (status = 409, body = ApiError),
        (status = 422, body = ApiError)))]
pub(crate) async fn remove(
    State(daemon): State<Arc<Daemon>>,
    Path((server, key)): Path<(String, String)>,
    Query(of): Query<OfAgent>,
) -> Result<Json<SecretChange>, ApiError> {
    let server = named(&server)?;
    let wharf = daemon.wharf.clone();
    uninterrupted(&daemon, async move {
        let removed = wharf.remove_secret(&server, &key, of.agent.as_deref());
        Ok(Json(removed.await?))
    })
    .await
}

/// What opens the vault.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Unlock {
    /// Where there is no vault yet, the new one is put under it. Without one, its key is looked for once more.
    passphrase: Option<String>,
}

/// The vault as it stands now.
#[derive(Serialize, ToSchema)]
pub(crate) struct Unlocked {
    /// See there.
    vault: VaultReport,
}

/// Opens the vault. Servers that could not start without their secrets are tried again.
#[utoipa::path(post, path = "/api/secrets/unlock", request_body = Unlock,
    responses((status = 200, body = Unlocked), (status = 409, body = ApiError), (status = 422, body = ApiError)))]
pub(crate) async fn unlock(
    State(daemon): State<Arc<Daemon>>,
    MaybeBody(unlock): MaybeBody<Unlock>,
) -> Result<Json<Unlocked>, ApiError> {
    let wharf = daemon.wharf.clone();
    let passphrase = unlock.passphrase.map(Secret::new);
    uninterrupted(&daemon, async move {
        let vault = wharf.unlock_vault(passphrase.as_ref()).await?;
        Ok(Json(Unlocked { vault }))
    })
    .await
}

fn named(server: &str) -> Result<ServerName, ApiError> {
    ServerName::new(server)
        .map_err(|why| ApiError::invalid(format!("the server's name {server:?} {why}")))
}

impl From<VaultError> for ApiError {
    fn from(error: VaultError) -> Self {
        let status = match &error {
            VaultError::Locked(_) | VaultError::Foreign(_) | VaultError::Broken { .. } => {
                StatusCode::CONFLICT
            }
            VaultError::WrongPassphrase | VaultError::Refused(_) => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            VaultError::Io { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let problem = Self::new(status, error.to_string());
        match error.hint() {
            Some(hint) => problem.with_hint(hint),
            None => problem,
        }
    }
}

impl From<SecretError> for ApiError {
    fn from(error: SecretError) -> Self {
        match error {
            SecretError::Vault(error) => error.into(),
            SecretError::Agent(error) => error.into(),
            SecretError::Useless { text, hint } => Self::conflict(text).with_hint(hint),
            error @ SecretError::Unset { .. } => {
                Self::unknown(error.to_string()).with_hint("`wharf secret list` shows what is set")
            }
        }
    }
}
