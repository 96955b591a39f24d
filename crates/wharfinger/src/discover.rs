//! Knowing what servers offer without starting them: found out once, kept, refreshed by those that run.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use serde_json::json;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use wharfinger_wire::era::Version;
use wharfinger_wire::message::{ErrorObject, INTERNAL_ERROR};

use crate::catalog::{self, Claim, Kind, Listing, Offer, Offers};
use crate::config::Config;
use crate::diagnosis::{failed, steps, symptom};
use crate::doctor::{Finding, What, diagnose};
use crate::journal::{ClaimRow, EventKind, StoreError};
use crate::kept::{claim, keep_discovered, stored};
use crate::keys::Keyed;
use crate::launch;
use crate::model::{
    AgentName, Declared, Profile, Roots, ServerEntry, ServerName, Status, Transport, hex,
};
use crate::packages::Packaged;
use crate::policy;
use crate::servers::{self, Asked, Discovered, Note, Plans, Spec};
use crate::trial::Connected;
use crate::wharf::{CatalogKey, Inner, Wharf, lock};

/// Different declarations of clients that are remembered for one server.
const MOST_DECLARED: usize = 64;

/// What is known of each server, by name and by what was declared to it.
pub(crate) type Discoveries = HashMap<Place, Discovery>;

/// The server, the agent that has installed it where it is not its owner's, and what was declared.
pub(crate) type Place = (ServerName, Option<AgentName>, u64);

pub(crate) fn place(entry: &ServerEntry, declared: &Declared) -> Place {
    (
        entry.name.clone(),
        entry.installed_by.clone(),
        declared.key(),
    )
}

/// One server's state of knowledge. Everybody who asks waits for the same attempt (V52).
pub(crate) struct Discovery {
    /// Of the entry that is known; a list of an instance that was made from another one is not taken.
    pub(crate) key: String,
    pub(crate) state: watch::Sender<Found>,
}

/// What is known.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    /// It is being found out.
    Asking,
    /// Its tools, their names, and what it said of itself.
    Known(Arc<Known>),
    /// It could not be found out; tried again not before `retry` (V53).
    Failed {
        reason: String,
        finding: Arc<Finding>,
        retry: Instant,
    },
}

/// A server's tools and more.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) listing: Listing,
    pub(crate) names: Vec<String>,
    pub(crate) version: Version,
    /// `capabilities`, `info` and `instructions`, as an object.
    pub(crate) description: Box<RawValue>,
    /// The list as text, to see whether another one is the same.
    pub(crate) tools: String,
    /// What it offers beside its tools.
    pub(crate) offers: Arc<Offers>,
}

/// The hash by which discoveries are kept: everything of the entry that decides what runs, and what is declared.
/// `${workspace}` stands as it is, since it is another one each time; a secret stands as what is another text each time it
/// is set, and tells nothing of it.
pub(crate) fn key(wharf: &Inner, entry: &ServerEntry, declared: &Declared) -> String {
    let copies = |value: &str| {
        crate::model::expand::value(
            value,
            "${workspace}",
            |name| wharf.inherit.host.get(name).cloned(),
            |key| wharf.vault.revision(entry.name.as_str(), key),
        )
    };
    let env: Vec<_> = entry
        .env
        .iter()
        .map(|(name, value)| (name, value.as_deref().map(copies)))
        .collect();
    let inherited: Vec<_> = entry
        .inherit_env
        .iter()
        .map(|name| (name, wharf.inherit.host.get(name)))
        .collect();
    let transport = match &entry.transport {
        Transport::Stdio { command, args, cwd } => {
            json!({"command": command, "args": args, "cwd": cwd})
        }
        Transport::Http { url } => json!({ "url": url }),
    };
    let all = json!({
        "format": 2,
        "transport": transport,
        "env": env,
        "inherited": inherited,
        "capabilities": declared.capabilities,
        "roots": declared.roots,
    });
    hex(&Sha256::digest(all.to_string()))
}

/// Reads what is kept of every configured server. Called once, when nothing else runs yet.
pub(crate) async fn recall(wharf: &Wharf) -> Result<(), StoreError> {
    let kept = wharf.0.store.claims().await?;
    *lock(&wharf.0.claims) = catalog::Claims::recall(kept.into_iter().filter_map(claim));
    let declared = Declared::default();
    for entry in wharf.config().servers.iter().filter(|entry| entry.enabled) {
        let key = key(&wharf.0, entry, &declared);
        if let Some(known) = stored(wharf, entry, &key).await? {
            let state = watch::Sender::new(Found::Known(Arc::new(known)));
            wharf.verify_kept(entry).await;
            let place = place(entry, &declared);
            lock(&wharf.0.discoveries).insert(place, Discovery { key, state });
        }
    }
    Ok(())
}

impl Wharf {
    /// Finds out what every enabled server offers, as far as it is not known: all at once, for `wait` at most. What
    /// takes longer goes on, and its tools join when they are there.
    pub(crate) async fn discover_all(&self, config: &Config, declared: &Declared, wait: Duration) {
        let enabled = config.servers.iter().filter(|entry| entry.enabled);
        let asked: Vec<_> = enabled
            .filter_map(|entry| self.ask(entry, declared))
            .collect();
        let all = async {
            for mut state in asked {
                state
                    .wait_for(|found| !matches!(found, Found::Asking))
                    .await
                    .ok();
            }
        };
        tokio::time::timeout(wait, all).await.ok();
    }

    /// Finds out what one server offers, and waits for it; gives the number of its tools, or why there are none.
    /// Takes as long as its entry's `startupTimeoutSeconds`, 60 s unless set.
    pub async fn discover(&self, name: &str) -> Result<usize, String> {
        let config = self.config();
        let Some(entry) = config.server(name) else {
            return Err("no such server".into());
        };
        if let Transport::Http { .. } = entry.transport {
            return Err("remote servers come later".into());
        }
        if let Some(mut state) = self.ask(entry, &Declared::default()) {
            state
                .wait_for(|found| !matches!(found, Found::Asking))
                .await
                .ok();
        }
        match self.found(entry, &Declared::default()) {
            Some(Found::Known(known)) => Ok(known.listing.tools.len()),
            Some(Found::Failed { reason, .. }) => Err(reason),
            Some(Found::Asking) | None => Err("it was stopped meanwhile".into()),
        }
    }

    /// Finds out what one server of an agent offers, and waits for it, or says why it can't be found out.
    pub(crate) async fn discover_one(
        &self,
        entry: &ServerEntry,
        declared: &Declared,
    ) -> Result<(), String> {
        if let Some(mut state) = self.ask(entry, declared) {
            state
                .wait_for(|found| !matches!(found, Found::Asking))
                .await
                .ok();
        }
        match self.found(entry, declared) {
            Some(Found::Known(_)) => Ok(()),
            Some(Found::Failed { reason, .. }) => Err(reason),
            Some(Found::Asking) | None => Err("it was stopped meanwhile".into()),
        }
    }

    /// Lets the next question start a new attempt at once, whatever the last one gave.
    pub fn forget_failure(&self, name: &str) {
        lock(&self.0.discoveries).retain(|(server, ..), discovery| {
            server.as_str() != name || !matches!(*discovery.state.borrow(), Found::Failed { .. })
        });
    }

    /// What is known of a server for clients that declare this.
    pub(crate) fn found(&self, entry: &ServerEntry, declared: &Declared) -> Option<Found> {
        let discoveries = lock(&self.0.discoveries);
        let place = place(entry, &entry.tells(declared));
        let discovery = discoveries.get(&place)?;
        Some(discovery.state.borrow().clone())
    }

    /// Begins an attempt unless one runs, the answer is known, or it failed a short while ago. `None`: nothing to wait for.
    fn ask(&self, entry: &ServerEntry, declared: &Declared) -> Option<watch::Receiver<Found>> {
        if matches!(entry.transport, Transport::Http { .. }) {
            return None;
        }
        let declared = &entry.tells(declared);
        let mut discoveries = lock(&self.0.discoveries);
        let place = place(entry, declared);
        // A change of its entry has made it forget, so what is known is of this one.
        if let Some(discovery) = discoveries.get(&place) {
            match &*discovery.state.borrow() {
                Found::Known(_) => return None,
                Found::Asking => return Some(discovery.state.subscribe()),
                Found::Failed { retry, .. } if *retry > Instant::now() => return None,
                Found::Failed { .. } => {}
            }
        }
        let key = key(&self.0, entry, declared);
        let state = watch::Sender::new(Found::Asking);
        let waiting = state.subscribe();
        // Clients that declare something new each time are not to fill the memory.
        if discoveries
            .keys()
            .filter(|(name, ..)| *name == entry.name)
            .count()
            >= MOST_DECLARED
        {
            let default = Declared::default().key();
            discoveries.retain(|(name, _, key), discovery| {
                *name != entry.name
                    || *key == default
                    || matches!(*discovery.state.borrow(), Found::Asking)
            });
        }
        discoveries.insert(
            place,
            Discovery {
                key: key.clone(),
                state: state.clone(),
            },
        );
        let attempt = attempt(self.clone(), entry.clone(), declared.clone(), key, state);
        self.0.context.tasks.spawn(attempt);
        Some(waiting)
    }

    /// Servers offer these, in source order: where two of them have the same name, who has it plain is settled, and kept.
    pub(crate) fn claim(&self, all: &[(ServerName, Arc<Offers>)]) {
        let mut new = vec![];
        {
            let mut claims = lock(&self.0.claims);
            for (server, offers) in all {
                for kind in Kind::ALL {
                    let names = offers.of(kind).items.iter().map(|item| item.key.as_str());
                    new.extend(claims.claim(server, kind, names));
                }
            }
        }
        if new.is_empty() {
            return;
        }
        let row = |claim: Claim| ClaimRow {
            kind: claim.kind.as_str().to_owned(),
            name: claim.name,
            server: claim.server.to_string(),
            plain: claim.plain,
        };
        let rows = new.into_iter().map(row).collect();
        let wharf = self.clone();
        self.0.context.tasks.spawn(async move {
            if let Err(error) = wharf.0.store.keep_claims(rows).await {
                tracing::warn!("names that clash could not be kept: {error}");
            }
        });
    }

    /// Everything of a server is unknown again.
    pub(crate) fn forget(&self, server: &ServerName) {
        lock(&self.0.discoveries).retain(|(name, ..), _| name != server);
    }

    /// The merged list for a session's declaration and reserved names, as far as it is known.
    pub(crate) fn catalog(
        &self,
        declared: &Declared,
        reserved: &Arc<[String]>,
    ) -> Arc<catalog::Catalog> {
        let generation = *self.0.generation.borrow();
        let place = CatalogKey {
            declared: declared.key(),
            reserved: reserved.clone(),
            session: None,
        };
        if let Some((made, catalog)) = lock(&self.0.catalogs).get(&place)
            && *made == generation
        {
            return catalog.clone();
        }
        let config = self.config();
        let known: Vec<(&ServerEntry, Arc<Known>)> = config
            .servers
            .iter()
            .filter(|entry| entry.enabled)
            .filter_map(|entry| match self.found(entry, declared)? {
                Found::Known(known) => Some((entry, known)),
                Found::Asking | Found::Failed { .. } => None,
            })
            .collect();
        let offers: Vec<Offer<'_>> = known
            .iter()
            .map(|(entry, known)| Offer {
                server: &entry.name,
                on_clash: policy::effective(entry, Profile::Chat).on_clash,
                tools: &known.listing.tools,
                names: &known.names,
            })
            .collect();
        let named: Vec<_> = known
            .iter()
            .map(|(entry, known)| (entry.name.clone(), known.offers.clone()))
            .collect();
        self.claim(&named);
        let catalog = Arc::new(catalog::merge(&offers, reserved, &lock(&self.0.claims)));
        for warning in &catalog.warnings {
            tracing::warn!("{warning}");
        }
        self.keep_catalog(place, generation, &catalog);
        catalog
    }

    /// Keeps a list for the next who asks.
    pub(crate) fn keep_catalog(
        &self,
        place: CatalogKey,
        generation: u64,
        catalog: &Arc<catalog::Catalog>,
    ) {
        let mut catalogs = lock(&self.0.catalogs);
        if catalogs.len() >= MOST_DECLARED {
            catalogs.clear();
        }
        catalogs.insert(place, (generation, catalog.clone()));
    }
}

/// One attempt, from the kept list or from the server itself.
async fn attempt(
    wharf: Wharf,
    entry: ServerEntry,
    declared: Declared,
    key: String,
    state: watch::Sender<Found>,
) {
    let found = match stored(&wharf, &entry, &key).await {
        Ok(Some(known)) => {
            wharf.verify_kept(&entry).await;
            Ok(known)
        }
        Ok(None) => connect_once(&wharf, &entry, &declared, &key).await.1,
        Err(error) => Err(Unknown::of(&entry, error.to_string())),
    };
    let name = entry.name.clone();
    match found {
        Ok(known) => {
            let tools = known.listing.tools.len();
            for warning in &known.listing.warnings {
                tracing::warn!(server = %name, "{warning}");
            }
            settle(&wharf, &state, Found::Known(Arc::new(known)));
            wharf.relisted(&name, &declared).await;
            wharf.0.events.tell(EventKind::ToolsChanged {
                server: name,
                tools,
            });
        }
        Err(Unknown {
            reason, finding, ..
        }) => {
            let reason = wharf.redactor().text(&reason).into_owned();
            let finding = Arc::new(wharf.clean_finding(finding));
            tracing::warn!(server = %name, code = finding.code, "failed: {reason}");
            let retry = Instant::now() + policy::effective(&entry, Profile::Chat).retry_after;
            let failed = Found::Failed {
                reason: reason.clone(),
                finding,
                retry,
            };
            settle(&wharf, &state, failed);
            let status = Status::Failed { reason };
            wharf.record_status(&name, None, &status);
            wharf.0.events.tell(EventKind::ServerStatus {
                server: name,
                agent: None,
                status,
            });
        }
    }
}

/// Publishes what is known, and that lists are others now, in one step: who is woken by the one must see the other.
pub(crate) fn settle(wharf: &Wharf, state: &watch::Sender<Found>, found: Found) {
    state.send_modify(|known| {
        *known = found;
        wharf.changed();
    });
}

/// Why it is not known what a server offers.
pub(crate) struct Unknown {
    pub(crate) reason: String,
    pub(crate) finding: Finding,
    /// What the server wrote.
    pub(crate) written: Vec<String>,
}

impl Unknown {
    /// For a reason that is none of the server's.
    fn of(entry: &ServerEntry, reason: String) -> Self {
        let finding = diagnose(&symptom(entry, What::Other(reason.clone())));
        Self {
            reason,
            finding,
            written: vec![],
        }
    }
}

/// Connects to a server for real: how that went, and what it offers where it could be asked.
pub(crate) async fn connect_once(
    wharf: &Wharf,
    entry: &ServerEntry,
    declared: &Declared,
    key: &str,
) -> (Connected, Result<Known, Unknown>) {
    let audience = Arc::new(Log {
        wharf: Arc::downgrade(&wharf.0),
        server: entry.name.clone(),
        steps: Some(Mutex::default()),
    });
    let began = Instant::now();
    let outcome = match start_once(wharf, entry, declared, audience.clone()).await {
        Ok(discovered) => keep_discovered(wharf, entry, key, &discovered)
            .await
            .map(|known| (discovered, known))
            .map_err(|error| Unknown::of(entry, error.to_string())),
        Err(unknown) => Err(unknown),
    };
    let seen = audience.steps.as_ref().map(|steps| lock(steps).clone());
    let steps = steps(began, &seen.unwrap_or_default(), outcome.is_ok());
    let connected = match &outcome {
        Ok((discovered, known)) => Connected::good(discovered, known, steps),
        Err(unknown) => Connected::bad(unknown, steps),
    };
    let connected = wharf.connected(entry, connected).await;
    (connected, outcome.map(|(_, known)| known))
}

/// Starts a server for a moment, in a folder of its own, and asks it everything.
pub(crate) async fn start_once(
    wharf: &Wharf,
    entry: &ServerEntry,
    declared: &Declared,
    audience: Arc<Log>,
) -> Result<Discovered, Unknown> {
    let scratch = &wharf.0.scratch;
    let dir = std::fs::create_dir_all(scratch).and_then(|()| {
        tempfile::Builder::new()
            .prefix("wharfinger-discovery-")
            .tempdir_in(scratch)
    });
    let dir = dir.map_err(|error| {
        let reason = format!("can't make a folder in {}: {error}", scratch.display());
        Unknown::of(entry, reason)
    })?;
    let made = Made {
        profile: Profile::Chat,
        workspace: dir.path(),
        scratch: None,
        remembered: None,
    };
    let spec = spec(wharf, entry, declared, &made)
        .ok_or_else(|| Unknown::of(entry, "it is no process that could be started".into()))?;
    let agent = match &entry.installed_by {
        Some(agent) => Some(wharf.own_agent(agent)),
        // Where only agents have its keys, one of them gives its own.
        None => wharf.agent_with_keys(entry),
    };
    let keyed = Keyed::new(wharf, agent.as_ref(), entry, dir.path().to_owned(), None);
    let spec = Spec {
        plan: keyed.map_or(spec.plan.clone(), |keyed| Plans::Made(keyed)),
        // There is no client yet that could be asked.
        roots: Some(spec.roots.unwrap_or_default()),
        ..spec
    };
    let discovered = servers::discover(&wharf.0.context, &spec, dir, audience).await;
    discovered.map_err(|error| {
        let symptom = failed(entry, &error);
        let finding = diagnose(&symptom);
        let noise = symptom.noise.iter().map(|line| format!("(stdout) {line}"));
        Unknown {
            reason: error.to_string(),
            finding,
            written: noise.chain(symptom.stderr).collect(),
        }
    })
}

/// For whom, and where.
pub(crate) struct Made<'a> {
    pub(crate) profile: Profile,
    pub(crate) workspace: &'a std::path::Path,
    /// Where its process stands unless its entry says so.
    pub(crate) scratch: Option<&'a std::path::Path>,
    pub(crate) remembered: Option<Version>,
}

/// What an instance or a discovery of a server is made from.
pub(crate) fn spec(
    wharf: &Wharf,
    entry: &ServerEntry,
    declared: &Declared,
    made: &Made<'_>,
) -> Option<Spec> {
    let inherit = &wharf.0.inherit;
    let plan = launch::plan(launch::Request {
        entry,
        inherit,
        workspace: made.workspace,
        scratch: made.scratch,
        // Where it takes some, its plan is made anew for each start.
        secrets: &BTreeMap::new(),
    })?;
    if !plan.refused.is_empty() {
        tracing::warn!(server = %entry.name, "variables that no server may have are left out: {}", plan.refused.join(", "));
    }
    // Which package is there is looked at with each start.
    let plan = match entry.runs_package() {
        None => plan.into(),
        Some(_) => Plans::Made(Arc::new(Packaged {
            wharf: Arc::downgrade(&wharf.0),
            entry: entry.clone(),
            workspace: made.workspace.to_owned(),
            scratch: made.scratch.map(std::path::Path::to_owned),
        })),
    };
    Some(Spec {
        name: entry.name.clone(),
        plan,
        policy: policy::effective(entry, made.profile),
        roots: roots(entry, declared, made.workspace),
        declared: declared.clone(),
        remembered: made.remembered,
        browser: entry.browser,
    })
}

/// The roots that a server is answered with; `None` leaves that to its client.
pub(crate) fn roots(
    entry: &ServerEntry,
    declared: &Declared,
    workspace: &std::path::Path,
) -> Option<Vec<String>> {
    match entry.roots {
        Roots::None => Some(vec![]),
        Roots::Workspace | Roots::Client if !declared.roots.is_empty() => {
            Some(declared.roots.to_vec())
        }
        Roots::Workspace => Some(vec![file_uri(workspace)]),
        Roots::Client => None,
    }
}

/// A folder as a URI.
fn file_uri(path: &std::path::Path) -> String {
    let mut uri = String::from("file://");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => uri.push((*byte).into()),
            byte if byte.is_ascii_alphanumeric() => uri.push((*byte).into()),
            byte => write!(uri, "%{byte:02X}").expect("a string takes everything"),
        }
    }
    uri
}

/// Hears a discovery: its log lines matter, and to who looks for what is wrong, how far it has come.
pub(crate) struct Log {
    pub(crate) wharf: Weak<Inner>,
    pub(crate) server: ServerName,
    pub(crate) steps: Option<Mutex<Vec<(servers::Step, Instant)>>>,
}

impl servers::Audience for Log {
    fn note(&self, note: Note) {
        let Some(wharf) = self.wharf.upgrade().map(Wharf) else {
            return;
        };
        wharf.log(&self.server, None, note);
    }

    fn step(&self, step: servers::Step) {
        if let Some(steps) = &self.steps {
            lock(steps).push((step, Instant::now()));
        }
    }

    fn asked(&self, asked: Asked) {
        let error = ErrorObject::new(INTERNAL_ERROR, "no client is there yet");
        asked.answer(Err(error));
    }
}
