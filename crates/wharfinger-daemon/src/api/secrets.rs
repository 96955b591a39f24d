//! Secrets: which there are, and setting them. No answer holds a value.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use wharfinger::config::{self, PastedError, TextMember};
use wharfinger::import::{Moved, take_secrets};
use wharfinger::model::{Secret, ServerName};
use wharfinger::vault::{SecretNames, VaultError};
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

/// What to do with secrets that stand plain in `settings.json`.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MoveSecrets {
    /// Seal them, and leave references in their place; else they are only looked for.
    #[serde(default)]
    apply: bool,
}

/// A secret that stands plain in `settings.json`.
#[derive(Serialize, ToSchema)]
pub(crate) struct Plain {
    /// Whose.
    server: String,
    /// Where it stands in its entry: `env.KEY` or `headers.NAME`.
    member: String,
    /// The key it is kept under.
    key: String,
    /// Why it stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    stays: Option<&'static str>,
}

/// All of them.
#[derive(Serialize, ToSchema)]
pub(crate) struct PlainSecrets {
    /// In the order of the file.
    secrets: Vec<Plain>,
    /// Whether they were moved.
    applied: bool,
}

/// Looks for secrets that stand plain in `settings.json`, and seals them if that is wanted. Comments and order of the file
/// stay.
#[utoipa::path(post, path = "/api/secrets/import", request_body = MoveSecrets,
    responses((status = 200, body = PlainSecrets), (status = 409, body = ApiError)))]
pub(crate) async fn import(
    State(daemon): State<Arc<Daemon>>,
    MaybeBody(wanted): MaybeBody<MoveSecrets>,
) -> Result<Json<PlainSecrets>, ApiError> {
    let changing = daemon.clone();
    uninterrupted(&daemon, async move {
        let found = plain(&changing)?;
        if wanted.apply {
            let moves = || found.iter().filter(|(one, ..)| one.stays.is_none());
            // Sealed first: a reference that came before its value would keep its server from starting.
            for (_, member, moved) in moves() {
                let value = Secret::new(moved.value().to_owned());
                let set = changing
                    .wharf
                    .set_secret(&member.server, &moved.key, value, None);
                set.await?;
            }
            let members: Vec<TextMember> = moves().map(|(_, member, _)| member.clone()).collect();
            if !members.is_empty() {
                let edit = |text: &str| config::replace_texts(text, &members);
                changing.settings.edit(&changing.wharf, edit).await?;
            }
        }
        Ok(Json(PlainSecrets {
            secrets: found.into_iter().map(|(one, ..)| one).collect(),
            applied: wanted.apply,
        }))
    })
    .await
}

/// Where secrets stand plain, and what takes their place.
fn plain(daemon: &Daemon) -> Result<Vec<(Plain, TextMember, Moved)>, ApiError> {
    let path = daemon.home.settings();
    let unreadable = |error: std::io::Error| {
        ApiError::conflict(format!("can't read {}: {error}", path.display()))
    };
    let Some(file) = config::files::read(&path).map_err(unreadable)? else {
        return Ok(vec![]);
    };
    let servers = match config::pasted(&file.text) {
        Ok(servers) => servers,
        Err(PastedError::Nothing) => return Ok(vec![]),
        Err(error) => {
            return Err(ApiError::conflict(error.to_string())
                .with_hint("mend settings.json; `wharf config check` shows where"));
        }
    };
    let names = SecretNames {
        more: daemon.wharf.config().daemon.secret_variables.clone(),
    };
    let mut found = vec![];
    for server in servers {
        let Value::Object(before) = &server.json else {
            continue;
        };
        let mut after = before.clone();
        let mut moved = take_secrets(&mut after, &names).into_iter();
        let taken = server.entry.secrets();
        for section in ["env", "headers"] {
            let members = before.get(section).and_then(Value::as_object);
            for (name, old) in members.into_iter().flatten() {
                let new = after[section][name].as_str();
                let (Some(old), Some(new)) = (old.as_str(), new.filter(|new| old != *new)) else {
                    continue;
                };
                let Some(moved) = moved.next() else { break };
                let is_taken = taken.iter().any(|one| one.key == moved.key);
                let one = Plain {
                    server: server.entry.name.to_string(),
                    member: format!("{section}.{name}"),
                    key: moved.key.clone(),
                    stays: is_taken.then_some("another variable of it takes a secret of that key"),
                };
                let member = TextMember {
                    server: server.entry.name.clone(),
                    section: section.to_owned(),
                    name: name.clone(),
                    before: old.to_owned(),
                    after: new.to_owned(),
                };
                found.push((one, member, moved));
            }
        }
    }
    Ok(found)
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
