//! Known servers: looking for them, one in full, and fetching the list anew.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use wharfinger::manage::{Kind, name_for};
use wharfinger::registry::{Known, Listed};

use super::problem::{Path, Query};
use super::{ApiError, uninterrupted};
use crate::registry::{Current, First, Origin};
use crate::serve::Daemon;

/// What to look for, and where.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wanted {
    /// Words; all servers of the list unless given.
    q: Option<String>,
    /// In the list, in the official registry, or in both; both unless given. Without words, the list alone.
    from: Option<From>,
}

/// Where to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum From {
    /// The list of known servers.
    List,
    /// The registry of the protocol's own project.
    Official,
    /// Both.
    All,
}

/// The list in force.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListInForce {
    /// Where it comes from.
    origin: Origin,
    /// When it was last changed, as it says itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_at: Option<String>,
    /// How many servers it has.
    count: usize,
    /// How many entries could not be used.
    dropped: usize,
    /// Why there is none newer.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl std::convert::From<&Current> for ListInForce {
    fn from(current: &Current) -> Self {
        Self {
            origin: current.origin,
            updated_at: current.document.updated_at.clone(),
            count: current.document.entries.len(),
            dropped: current.document.dropped.len(),
            problem: current.problem.clone(),
        }
    }
}

/// Known servers.
#[derive(Serialize, ToSchema)]
pub(crate) struct KnownServers {
    /// The list in force.
    #[serde(flatten)]
    list: ListInForce,
    /// Those that were found in it, the best first; none that should not be installed any more.
    entries: Vec<Known>,
    /// What the official registry said, where it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    official: Option<OfficialServers>,
}

/// What the official registry said.
#[derive(Serialize, ToSchema)]
pub(crate) struct OfficialServers {
    /// Servers it knows.
    servers: Vec<OfficialServer>,
    /// How many could not be read.
    dropped: usize,
    /// Why it was of no help.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// A server of the official registry. Anybody can publish there.
#[derive(Serialize, ToSchema)]
pub(crate) struct OfficialServer {
    /// As it is called there.
    name: String,
    /// One sentence.
    description: String,
    /// How it is run or reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<Known>,
    /// Why it can't be.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl std::convert::From<Listed> for OfficialServer {
    fn from(listed: Listed) -> Self {
        let (entry, problem) = match listed.entry {
            Ok(entry) => (Some(entry.into()), None),
            Err(problem) => (None, Some(problem)),
        };
        Self {
            name: listed.name,
            description: listed.description,
            entry,
            problem,
        }
    }
}

/// Looks for known servers by words: in the list, and in the official registry.
#[utoipa::path(get, path = "/api/registry", params(Wanted), responses((status = 200, body = KnownServers)))]
pub(crate) async fn search(
    State(daemon): State<Arc<Daemon>>,
    Query(wanted): Query<Wanted>,
) -> Json<KnownServers> {
    let words = wanted.q.as_deref().map(str::trim).unwrap_or_default();
    let from = wanted.from.unwrap_or(if words.is_empty() {
        From::List
    } else {
        From::All
    });
    let official = async {
        match from {
            From::List => None,
            From::Official | From::All => daemon.registry.search(words).await,
        }
    };
    let (current, official) = tokio::join!(current(&daemon), official);
    let entries = match from {
        From::Official => vec![],
        From::List | From::All => {
            let found = current.document.search(words).into_iter();
            found.cloned().map(Known::from).collect()
        }
    };
    let official = official.map(|found| match found {
        Ok(found) => OfficialServers {
            servers: found
                .servers
                .into_iter()
                .map(OfficialServer::from)
                .collect(),
            dropped: found.dropped,
            problem: None,
        },
        Err(problem) => OfficialServers {
            servers: vec![],
            dropped: 0,
            problem: Some(problem),
        },
    });
    Json(KnownServers {
        list: (&current).into(),
        entries,
        official,
    })
}

/// The list in force; one that is due is fetched, and waited for if there was never any.
async fn current(daemon: &Arc<Daemon>) -> Current {
    match daemon.registry.is_due() {
        None => {}
        Some(First(false)) => {
            let refreshing = daemon.clone();
            daemon.tasks.spawn(async move {
                let stop = refreshing.stop.clone();
                stop.run_until_cancelled(refreshing.registry.refresh())
                    .await;
                refreshing.know();
            });
        }
        Some(First(true)) => drop(daemon.registry.refresh().await),
    }
    daemon.know()
}

/// A known server in full.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KnownServer {
    /// In which of the two it was found.
    from: From,
    /// What a server made from it would be called.
    suggested_name: String,
    /// Its fields.
    entry: Known,
}

/// One known server, by name, package or address, also one that should not be installed any more; else one of the
/// official registry, by its whole name.
#[utoipa::path(get, path = "/api/registry/{name}", params(("name" = String, Path)),
    responses((status = 200, body = KnownServer), (status = 404, body = ApiError), (status = 422, body = ApiError),
        (status = 502, body = ApiError)))]
pub(crate) async fn show(
    State(daemon): State<Arc<Daemon>>,
    Path(name): Path<String>,
) -> Result<Json<KnownServer>, ApiError> {
    let current = current(&daemon).await;
    if let Some(entry) = current.document.find(&name) {
        let (suggested_name, entry) = (entry.name.clone(), entry.clone().into());
        return Ok(Json(KnownServer {
            from: From::List,
            suggested_name,
            entry,
        }));
    }
    let unknown = || {
        let error = ApiError::unknown(format!("no server is known as `{name}`"));
        match current.document.nearest(&name) {
            Some(near) => error.with_hint(format!("did you mean `{near}`?")),
            None => error.with_hint("`wharf search WORD` looks for servers"),
        }
    };
    // Names there have an owner, before a slash; packages of npm begin with `@`.
    if !name.contains('/') || name.starts_with('@') || name.contains("://") {
        return Err(unknown());
    }
    let found = daemon.registry.look_up(&name).await.ok_or_else(unknown)?;
    let bad_gateway = |problem| ApiError::new(axum::http::StatusCode::BAD_GATEWAY, problem);
    let listed = found.map_err(bad_gateway)?.ok_or_else(unknown)?;
    let entry = listed
        .entry
        .map_err(|problem| ApiError::invalid(format!("`{name}` can't be used here: {problem}")))?;
    let last = name.rsplit('/').next().unwrap_or_default();
    let suggested_name = name_for(Kind::Npm, last).unwrap_or_else(|| "server".into());
    Ok(Json(KnownServer {
        from: From::Official,
        suggested_name,
        entry: entry.into(),
    }))
}

/// Fetches the list anew, and waits for it. Where that fails the one in force stays, and `problem` says why.
#[utoipa::path(post, path = "/api/registry/refresh", responses((status = 200, body = ListInForce)))]
pub(crate) async fn refresh(
    State(daemon): State<Arc<Daemon>>,
) -> Result<Json<ListInForce>, ApiError> {
    let refreshing = daemon.clone();
    uninterrupted(&daemon, async move {
        refreshing.registry.refresh().await;
        Ok(Json((&refreshing.know()).into()))
    })
    .await
}
