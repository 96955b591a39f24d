//! Lists of known servers: which one is in force, where it comes from, and asking the official registry.
//!
//! Fetched, else kept from before, else the one in the program (A8). Nobody who asks is failed by a fetch that fails.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wharfinger::config::Daemon as Config;
use wharfinger::config::files::{self, Readers};
use wharfinger::manage::fetch::{Addresses, Client, Content, Fetched, Limits, Options};
use wharfinger::manage::{Fetch, Method};
use wharfinger::registry::{self, Document, Found, Known, Listed};

use crate::client::part;

/// What is kept of a list that was fetched lies in this file of the home.
pub(crate) const FILE: &str = "registry.json";
/// How long a list is good for.
const FRESH: Duration = Duration::from_secs(24 * 60 * 60);
/// How long after a failure nobody tries again by himself.
const PAUSE: Duration = Duration::from_secs(10 * 60);
/// Longest list, and longest page of the official registry.
const MOST_BYTES: usize = 4 * 1024 * 1024;
/// How long a list may take.
const LIST_TIME: Duration = Duration::from_secs(10);
/// How long the official registry may take; somebody waits.
const OFFICIAL_TIME: Duration = Duration::from_secs(5);
/// How many servers of the official registry are asked for.
const PAGE: usize = 30;

/// Where the list in force comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Origin {
    /// The one in the program.
    Bundled,
    /// Fetched by an earlier daemon, and kept.
    Cache,
    /// Fetched by this one.
    Remote,
}

/// The list in force.
#[derive(Clone, Debug)]
pub(crate) struct Current {
    pub(crate) document: Arc<Document>,
    pub(crate) origin: Origin,
    /// Why there is none newer.
    pub(crate) problem: Option<String>,
}

/// What is kept of a list in the home.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    url: String,
    etag: Option<String>,
    /// When it was last known to be the newest, in milliseconds since 1970.
    at: u64,
    document: String,
}

#[derive(Default)]
struct State {
    /// What is kept was looked at.
    looked: bool,
    document: Option<Arc<Document>>,
    fetched: bool,
    etag: Option<String>,
    /// When it was last known to be the newest.
    at: Option<u64>,
    tried: Option<SystemTime>,
    problem: Option<String>,
}

/// The lists.
pub(crate) struct Registry {
    url: String,
    official: String,
    cache: PathBuf,
    list: Client,
    asks: Client,
    state: Mutex<State>,
    /// Held while somebody fetches; the others take what there is.
    fetching: tokio::sync::Mutex<()>,
}

impl Registry {
    pub(crate) fn new(config: &Config, cache: PathBuf) -> Self {
        Self {
            list: client(&config.registry_url, LIST_TIME),
            asks: client(&config.official_registry_url, OFFICIAL_TIME),
            url: config.registry_url.clone(),
            official: config
                .official_registry_url
                .trim_end_matches('/')
                .to_owned(),
            cache,
            state: Mutex::default(),
            fetching: tokio::sync::Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The list in force, as far as it is known without asking anybody.
    pub(crate) fn current(&self) -> Current {
        let mut state = self.state();
        if !state.looked {
            state.looked = true;
            if let Some((kept, document)) = self.kept() {
                state.document = Some(Arc::new(document));
                state.etag = kept.etag;
                state.at = Some(kept.at);
            }
        }
        let origin = match (&state.document, state.fetched) {
            (None, _) => Origin::Bundled,
            (Some(_), false) => Origin::Cache,
            (Some(_), true) => Origin::Remote,
        };
        let bundled = || Arc::new(registry::bundled().clone());
        Current {
            document: state.document.clone().unwrap_or_else(bundled),
            origin,
            problem: state.problem.clone(),
        }
    }

    /// Whether there is a list elsewhere that is due to be fetched. The first of all is worth waiting for.
    pub(crate) fn is_due(&self) -> Option<First> {
        let Current { origin, .. } = self.current();
        let state = self.state();
        let now = SystemTime::now();
        let since = |at: SystemTime| now.duration_since(at).unwrap_or_default();
        let is_fresh = state
            .at
            .is_some_and(|at| since(UNIX_EPOCH + Duration::from_millis(at)) < FRESH);
        let is_paused = state.tried.is_some_and(|at| since(at) < PAUSE);
        (!self.url.is_empty() && !is_fresh && !is_paused)
            .then_some(First(origin == Origin::Bundled))
    }

    /// Fetches the list; what is in force stays where that fails, and the reason is kept. Who comes while somebody
    /// fetches waits for that.
    pub(crate) async fn refresh(&self) -> Current {
        self.current();
        let Ok(_held) = self.fetching.try_lock() else {
            drop(self.fetching.lock().await);
            return self.current();
        };
        let etag = self.state().etag.clone();
        self.state().tried = Some(SystemTime::now());
        let fetched = if self.url.is_empty() {
            Err("no list elsewhere is configured; `daemon.registryUrl` names one".to_owned())
        } else {
            self.fetch(etag.as_deref()).await
        };
        let kept = {
            let mut state = self.state();
            match fetched {
                Ok(None) => {
                    state.fetched = true;
                    state.at = Some(now());
                    state.problem = None;
                    None
                }
                Ok(Some((fetched, text, document))) => {
                    state.document = Some(Arc::new(document));
                    state.fetched = true;
                    state.etag.clone_from(&fetched.etag);
                    state.at = Some(now());
                    state.problem = None;
                    Some((fetched.etag, text))
                }
                Err(problem) => {
                    tracing::warn!("the list of known servers stays as it is: {problem}");
                    state.problem = Some(problem);
                    return drop_and(state, || self.current());
                }
            }
        };
        self.keep(kept);
        self.current()
    }

    /// `None` where it is the one we have.
    async fn fetch(
        &self,
        etag: Option<&str>,
    ) -> Result<Option<(Fetched, String, Document)>, String> {
        let request = Fetch {
            url: self.url.clone(),
            method: Method::Get,
        };
        let mut fetched = self.list.fetch_if_changed(&request, etag).await;
        let fetched = fetched.as_mut().map_err(|error| error.to_string())?;
        if fetched.status == 304 && etag.is_some() {
            return Ok(None);
        }
        let text = text(fetched)?;
        let document = Document::read(&text).map_err(|error| error.to_string())?;
        if document.entries.is_empty() && !document.dropped.is_empty() {
            return Err(format!(
                "none of its {} entries can be used",
                document.dropped.len()
            ));
        }
        for dropped in &document.dropped {
            tracing::warn!("left out of the list of known servers: {dropped}");
        }
        Ok(Some((fetched.clone(), text, document)))
    }

    /// What an earlier daemon kept of the same list.
    fn kept(&self) -> Option<(Kept, Document)> {
        let file = std::fs::read_to_string(&self.cache).ok()?;
        let kept: Kept = serde_json::from_str(&file).ok()?;
        let document = Document::read(&kept.document).ok()?;
        (kept.url == self.url && !self.url.is_empty()).then_some((kept, document))
    }

    /// Keeps a new list, or that the old one is the newest still. A full disk is no reason to do without.
    fn keep(&self, new: Option<(Option<String>, String)>) {
        let kept = match new {
            Some((etag, document)) => Some(Kept {
                url: self.url.clone(),
                etag,
                at: now(),
                document,
            }),
            None => self.kept().map(|(kept, _)| Kept { at: now(), ..kept }),
        };
        let text = kept.and_then(|kept| serde_json::to_string(&kept).ok());
        let written = text.map(|text| files::replace(&self.cache, &text, Readers::Owner));
        if let Some(Err(error)) = written {
            tracing::warn!("the list of known servers could not be kept: {error}");
        }
    }

    /// Asks the official registry for servers; `None` where it is not to be asked.
    pub(crate) async fn search(&self, text: &str) -> Option<Result<Found, String>> {
        let path = format!("servers?search={}&version=latest&limit={PAGE}", part(text));
        let answer = self.ask(&path).await?;
        Some(
            answer
                .and_then(|text| registry::listed(&text))
                .map_err(|error| self.told(&error)),
        )
    }

    /// Asks it for one, by its whole name.
    pub(crate) async fn look_up(&self, name: &str) -> Option<Result<Option<Listed>, String>> {
        let path = format!("servers/{}/versions/latest", part(name));
        let answer = self.ask(&path).await?;
        Some(match answer {
            Err(error) if error.starts_with("it answered with status 404") => Ok(None),
            answer => answer
                .and_then(|text| registry::one(&text))
                .map_err(|error| self.told(&error)),
        })
    }

    fn told(&self, error: &str) -> String {
        format!(
            "the official registry at {} was of no help: {error}",
            self.official
        )
    }

    async fn ask(&self, path: &str) -> Option<Result<String, String>> {
        if self.official.is_empty() {
            return None;
        }
        let request = Fetch {
            url: format!("{}/v0.1/{path}", self.official),
            method: Method::Get,
        };
        let fetched = self
            .asks
            .fetch(&request)
            .await
            .map_err(|error| error.to_string());
        Some(fetched.and_then(|fetched| text(&fetched)))
    }
}

/// Whether nothing was ever fetched of a list.
pub(crate) struct First(pub(crate) bool);

fn drop_and<T, R>(guard: T, then: impl FnOnce() -> R) -> R {
    drop(guard);
    then()
}

/// A client for one host, which its owner has named, wherever that is.
fn client(url: &str, time: Duration) -> Client {
    let host = url::host(url);
    Client::new(Options {
        addresses: Addresses {
            allowed_hosts: host.into_iter().collect(),
            ..Addresses::default()
        },
        limits: Limits {
            bytes: MOST_BYTES,
            redirects: 5,
            time,
        },
        ..Options::default()
    })
}

fn text(fetched: &Fetched) -> Result<String, String> {
    if fetched.status != 200 {
        return Err(format!("it answered with status {}", fetched.status));
    }
    match &fetched.content {
        Content::Text(text) => Ok(text.clone()),
        Content::Bytes(bytes) => {
            String::from_utf8(bytes.clone()).map_err(|_| "it is not text".into())
        }
    }
}

fn now() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

mod url {
    /// The host of an address that was checked when it was configured.
    pub(super) fn host(url: &str) -> Option<String> {
        let uri: hyper::Uri = url.parse().ok()?;
        uri.host().map(str::to_owned)
    }
}

/// The list of known servers without a daemon: the one that was fetched last, else the one in the program. As the API
/// tells it.
pub fn known_servers(home: &std::path::Path) -> serde_json::Value {
    search_known_servers(home, "")
}

/// Those of [`known_servers`] in which all of some words are found.
pub fn search_known_servers(home: &std::path::Path, words: &str) -> serde_json::Value {
    let (origin, document) = lying_in(home);
    let entries: Vec<Known> = document
        .search(words)
        .into_iter()
        .cloned()
        .map(Known::from)
        .collect();
    serde_json::json!({
        "origin": origin,
        "updatedAt": document.updated_at,
        "count": document.entries.len(),
        "dropped": document.dropped.len(),
        "entries": entries,
    })
}

/// One of [`known_servers`], by name, package or address.
pub fn known_server(home: &std::path::Path, name: &str) -> Option<serde_json::Value> {
    let (_, document) = lying_in(home);
    let entry = document.find(name)?.clone();
    let suggested = entry.name.clone();
    Some(
        serde_json::json!({"from": "list", "suggestedName": suggested, "entry": Known::from(entry)}),
    )
}

fn lying_in(home: &std::path::Path) -> (Origin, Document) {
    let file = std::fs::read_to_string(home.join(FILE)).ok();
    let kept = file.and_then(|file| serde_json::from_str::<Kept>(&file).ok());
    match kept.and_then(|kept| Document::read(&kept.document).ok()) {
        Some(document) => (Origin::Cache, document),
        None => (Origin::Bundled, registry::bundled().clone()),
    }
}
