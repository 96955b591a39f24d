//! The wharf itself: what is shared by all agents, sessions and servers.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::{ArcSwap, ArcSwapOption};
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wharfinger_wire::json::raw;

use crate::agent::{Agent, LazyKeys};
use crate::agentfile;
use crate::agentlog;
use crate::agents;
use crate::catalog::{Catalog, Claims};
use crate::config::{Config, Loaded};
use crate::conversation::SessionState;
use crate::decide;
use crate::desk::{Approver, Gate};
use crate::diagnosis;
use crate::discover::{self, Discoveries};
use crate::doctor;
use crate::halt;
use crate::instances::Instances;
use crate::journal::{Events, Journal, Redact, Store, StoreError};
use crate::launch::packages::{Packages, Places};
use crate::launch::{self, Inherit, Owner};
use crate::log::{Logs, Pace};
use crate::manage::fetch;
use crate::model::{AgentName, Problem, Secret, ServerEntry, ServerName, SessionId, Transport};
use crate::packages::Shelf;
use crate::refresh::{self, Update};
use crate::registry::Document;
use crate::servers::Context;
use crate::subscriptions::Subscriptions;
use crate::tasks::Tasks;
use crate::trial::Tried;
use crate::vault::{self, Redactor, SecretNames, Vault};

/// What a wharf is opened with. [`Options::in_folder`] puts all of it into one folder.
#[derive(Debug)]
pub struct Options {
    /// Configuration and its complaints, as [`config::load`](crate::config::load) gives them.
    pub loaded: Loaded,
    /// The database file; made if it is missing.
    pub database: PathBuf,
    /// The agents' files; the folder is made if it is missing. Nothing else may have them open.
    pub agents: PathBuf,
    /// Where the owner's keys lie, to which agents' files are sealed; made if they are missing.
    pub identity: PathBuf,
    /// Where the owner's secrets lie sealed, and what may open them.
    pub vault: vault::Options,
    /// Each agent's workspace is a folder in this one (`${workspace}`, V13), made when a server first starts there.
    pub workspaces: PathBuf,
    /// For files that are needed for a moment: each discovery has a folder in it (V51).
    pub scratch: PathBuf,
    /// The host's environment; servers get a part of it (V18).
    pub environment: BTreeMap<String, String>,
    /// Where packages of npm and Python are kept.
    pub packages: Places,
    /// Whom to ask about calls that need a person, beside whoever answers by [`Wharf::decide`].
    pub approver: Option<Approver>,
    /// What agents may fetch of the web, and how.
    pub web: fetch::Options,
    /// Who owns the processes that will be started: each carries its mark ([`launch::OWNER`]), so that a
    /// [`launch::Guard`] finds them. Two wharfs in one process need two.
    pub owner: Owner,
    /// The version of the program, told to servers.
    pub version: String,
}

impl Options {
    /// Everything in one folder, which must exist: the database, the agents, the vault and its key, the workspaces and the
    /// scratch folder. The owner is that folder in this process.
    ///
    /// Servers are told the version of this library; a program with a name of its own puts its own there.
    pub fn in_folder(folder: &Path, loaded: Loaded, environment: BTreeMap<String, String>) -> Self {
        let mut hasher = DefaultHasher::new();
        folder.hash(&mut hasher);
        Self {
            loaded,
            database: folder.join("wharfinger.db"),
            agents: folder.join("agents"),
            identity: folder.to_owned(),
            vault: vault::Options {
                file: folder.join("vault.json"),
                key_file: folder.join("credential.key"),
                ..vault::Options::default()
            },
            workspaces: folder.join("workspaces"),
            scratch: folder.join("scratch"),
            packages: Places::in_folder(folder),
            environment,
            approver: None,
            web: fetch::Options::default(),
            owner: Owner::new(&format!("{:016x}", hasher.finish())),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// Why a wharf could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The database can't be used.
    #[error("can't use {}: {source}", .path.display())]
    Store {
        /// The file.
        path: PathBuf,
        /// Why.
        source: StoreError,
    },
    /// The folder of the agents' files, or the owner's keys, can't be used.
    #[error("can't use the agents in {}: {source}", .path.display())]
    Agents {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: agentfile::Error,
    },
}

/// Everything at one place: configuration, servers, agents, sessions. Cheap to clone; all clones are the same wharf.
///
/// [`Wharf::shut_down`] is how it ends. Dropped without that, the processes it has started are killed, but not what
/// they have started, and nobody waits for it.
#[derive(Clone)]
pub struct Wharf(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) context: Context,
    pub(crate) store: Store,
    pub(crate) journal: Journal,
    pub(crate) gate: Gate,
    pub(crate) web: fetch::Client,
    pub(crate) keys: LazyKeys,
    pub(crate) vault: Vault,
    pub(crate) packages: Shelf,
    pub(crate) agents_folder: PathBuf,
    /// One agent after the other is made, imported or removed.
    pub(crate) changing_agents: tokio::sync::Mutex<()>,
    pub(crate) events: Events,
    pub(crate) inherit: Inherit,
    pub(crate) workspaces: PathBuf,
    pub(crate) scratch: PathBuf,
    pub(crate) halt_file: PathBuf,
    pub(crate) config: ArcSwap<Config>,
    pub(crate) problems: ArcSwap<Vec<Problem>>,
    pub(crate) redactor: Arc<ArcSwap<Redactor>>,
    /// Everything that was ever secret in this run: a value that left the configuration may still be in a server.
    pub(crate) secrets: Mutex<Vec<Secret>>,
    pub(crate) discoveries: Mutex<Discoveries>,
    pub(crate) tried: Mutex<Tried>,
    /// The list of known servers, where it is not the one in the program.
    pub(crate) known: ArcSwapOption<Document>,
    pub(crate) updates: mpsc::Sender<Update>,
    /// Lists by what decides them; made anew when the generation is another.
    pub(crate) catalogs: Mutex<HashMap<CatalogKey, (u64, Arc<Catalog>)>>,
    /// Counts changes of what any session may see.
    pub(crate) generation: watch::Sender<u64>,
    pub(crate) instances: Mutex<Instances>,
    pub(crate) claims: Mutex<Claims>,
    pub(crate) tasks: Mutex<Tasks>,
    pub(crate) subscriptions: Mutex<Subscriptions>,
    pub(crate) sessions: Mutex<HashMap<SessionId, Arc<SessionState>>>,
    pub(crate) agents: Mutex<BTreeMap<AgentName, Arc<Agent>>>,
    /// Names that agents had in this run before they were removed.
    pub(crate) removed_agents: Mutex<BTreeSet<AgentName>>,
    pub(crate) logs: Mutex<Logs>,
    pub(crate) pace: Mutex<HashMap<ServerName, Pace>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CatalogKey {
    pub(crate) declared: u64,
    pub(crate) reserved: Arc<[String]>,
    /// By its serial, of an agent that has servers of its own.
    pub(crate) session: Option<u64>,
}

/// Milliseconds since 1970, UTC.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// The lock of a few lines without `.await`; a panic elsewhere does not make what it guards unusable.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wharf {
    /// Opens the database and reads what is known of the configured servers. Starts no process (V57); needs a Tokio
    /// runtime with time and I/O. The only failure is a database that can't be used.
    ///
    /// Entries with errors are not among the servers; whoever wants to refuse a start asks [`Loaded::has_errors`] first
    /// (V23).
    pub async fn open(options: Options) -> Result<Self, OpenError> {
        let Options {
            loaded,
            database,
            agents,
            identity,
            vault,
            workspaces,
            scratch,
            packages,
            environment,
            approver,
            web,
            owner,
            version,
        } = options;
        let path = database.clone();
        let redactor = Arc::<ArcSwap<Redactor>>::default();
        let (cleans, rows) = (redactor.clone(), loaded.config.daemon.journal_rows);
        let open = move || {
            let store = Store::open(&database)?;
            let redact: Redact = Arc::new(move |text| cleans.load().text(text));
            Ok((store, Journal::open(&database, rows, redact)?))
        };
        let packages = clear(scratch.clone(), packages).await;
        let opened = tokio::task::spawn_blocking(open).await;
        let (store, journal) = opened
            .unwrap_or(Err(StoreError::Closed))
            .map_err(|source| OpenError::Store {
                path: path.clone(),
                source,
            })?;
        let daemon = &loaded.config.daemon;
        let inherit = Inherit {
            host: environment,
            more: daemon.pass_variables.clone(),
            secret: SecretNames {
                more: daemon.secret_variables.clone(),
            },
        };
        let client = json!({ "name": "wharfinger", "title": "Wharfinger", "version": version });
        let context = Context {
            owner,
            limits: daemon.limits.clone(),
            client: Arc::from(raw(&client)),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            gate: halt::recall(&halt::file(&path)),
        };
        let (updates, inbox) = mpsc::channel(256);
        let secrets: Vec<Secret> = inherit.secrets().cloned().map(Secret::new).collect();
        let wharf = Self(Arc::new(Inner {
            context,
            store,
            journal,
            gate: Gate::new(approver),
            web: fetch::Client::new(web),
            keys: LazyKeys::new(identity),
            vault: open_vault(vault).await,
            packages,
            agents_folder: agents,
            changing_agents: tokio::sync::Mutex::default(),
            events: Events::default(),
            inherit,
            workspaces,
            scratch,
            halt_file: halt::file(&path),
            config: ArcSwap::from_pointee(loaded.config),
            problems: ArcSwap::from_pointee(loaded.problems),
            redactor,
            secrets: Mutex::new(secrets),
            discoveries: Mutex::default(),
            tried: Mutex::default(),
            known: ArcSwapOption::default(),
            updates,
            catalogs: Mutex::default(),
            generation: watch::Sender::new(0),
            instances: Mutex::default(),
            claims: Mutex::default(),
            tasks: Mutex::default(),
            subscriptions: Mutex::default(),
            sessions: Mutex::default(),
            agents: Mutex::default(),
            removed_agents: Mutex::default(),
            logs: Mutex::default(),
            pace: Mutex::default(),
        }));
        wharf.learn_secrets(&wharf.config());
        let failed = |source| OpenError::Store {
            path: path.clone(),
            source,
        };
        agents::load(&wharf).await?;
        decide::recall(&wharf).await;
        wharf.recall_verified().await.map_err(&failed)?;
        discover::recall(&wharf).await.map_err(failed)?;
        wharf.record_start().await;
        wharf.go_on(inbox);
        Ok(wharf)
    }

    /// What goes on beside everything else, until the end.
    fn go_on(&self, inbox: mpsc::Receiver<Update>) {
        let (tasks, inner) = (&self.0.context.tasks, || Arc::downgrade(&self.0));
        tasks.spawn(refresh::keep(inner(), inbox));
        tasks.spawn(decide::keep(inner()));
        tasks.spawn(agentlog::keep(inner(), self.log_entries()));
        self.activate();
    }

    /// The configuration in force.
    pub fn config(&self) -> Arc<Config> {
        self.0.config.load_full()
    }

    /// What is wrong with the configuration as it was last read (V23).
    pub fn problems(&self) -> Arc<Vec<Problem>> {
        self.0.problems.load_full()
    }

    /// Everything that happens; [`Events::listen`] hears it from then on.
    pub fn events(&self) -> &Events {
        &self.0.events
    }

    /// Keeps known secrets out of text (V20); for whatever leaves by another way than a result. Results, refusals,
    /// notes, reports and events have been through it.
    pub fn redactor(&self) -> Arc<Redactor> {
        self.0.redactor.load_full()
    }

    /// Counts changes of the tools that sessions may see: a server was listed, or has other tools, or the configuration
    /// changed. [`Session::known_tools`](crate::Session::known_tools) is the new list.
    pub fn generation(&self) -> watch::Receiver<u64> {
        self.0.generation.subscribe()
    }

    /// Bounds on what servers and clients can make us hold, as they were at the start.
    pub fn limits(&self) -> &crate::model::Limits {
        &self.0.context.limits
    }

    /// The workspace folder of an agent; it may not exist yet.
    pub fn workspace(&self, agent: &AgentName) -> PathBuf {
        self.0.workspaces.join(agent.as_str())
    }

    /// The variables worth remembering for a start from a poor environment (V18).
    pub fn registry_variables(&self) -> BTreeMap<String, String> {
        self.0.inherit.registry()
    }

    /// What every server inherits of the host's environment (V18).
    pub fn inherited(&self) -> BTreeMap<String, String> {
        self.0.inherit.base(&[])
    }

    /// Of each server that is switched on, what it runs, and whether that is there.
    pub fn programs(&self) -> Vec<doctor::Program> {
        let config = self.config();
        let mut programs = diagnosis::programs(&config.servers, &self.0.inherit);
        // `npx` and `uvx` are not run where the package is installed (A61).
        programs.retain(|program| {
            let entry = config.server(&program.server);
            let package = entry.and_then(|entry| self.package_report(entry));
            program.found || !package.is_some_and(|package| package.installed && !package.managed)
        });
        programs
    }

    /// The database, for what a door keeps.
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// Stops every server and waits until nothing of them is left (V60): for each at most [`Limits::exit_wait`] and
    /// [`Limits::term_wait`], all at once. Calls in flight end with a refusal, and nothing starts any more. At last the
    /// journal is written to its end.
    ///
    /// [`Limits::exit_wait`]: crate::model::Limits::exit_wait
    /// [`Limits::term_wait`]: crate::model::Limits::term_wait
    pub async fn shut_down(&self) {
        self.0.context.stop.cancel();
        lock(&self.0.subscriptions).clear();
        lock(&self.0.tasks).clear();
        lock(&self.0.instances).clear();
        lock(&self.0.sessions).clear();
        self.0.context.tasks.close();
        self.0.context.tasks.wait().await;
        let inner = self.0.clone();
        // Files take their time to be closed in good order.
        tokio::task::spawn_blocking(move || inner.close_agents())
            .await
            .ok();
        self.record_end().await;
    }

    pub(crate) fn changed(&self) {
        self.0.generation.send_modify(|generation| *generation += 1);
    }

    /// Values copied by entries become known secrets before anything can carry them (V20).
    pub(crate) fn learn_secrets(&self, config: &Config) {
        let found = config.servers.iter().flat_map(|entry| {
            let inherit = &self.0.inherit;
            let request = launch::Request {
                entry,
                inherit,
                workspace: Path::new("/"),
                scratch: None,
                // Those are known as soon as they are read.
                secrets: &BTreeMap::new(),
            };
            let planned = launch::plan(request).map(|plan| plan.secrets);
            planned
                .unwrap_or_default()
                .into_iter()
                .chain(written(entry))
        });
        let found: Vec<Secret> = found.collect();
        self.learn(found.into_iter());
    }
}

/// Opens the vault. One that stays shut is no reason not to start: what needs nothing of it works.
async fn open_vault(options: vault::Options) -> Vault {
    let vault = Vault::open(options).await;
    let standing = vault.standing();
    if let Some(reason) = &standing.reason {
        tracing::warn!("secrets can't be read: {reason}");
    }
    if let Some(warning) = &standing.warning {
        tracing::warn!("{warning}");
    }
    vault
}

/// Removes what earlier programs were killed over, and opens what they have kept.
async fn clear(scratch: PathBuf, packages: Places) -> Shelf {
    let clear = move || {
        launch::scratch::sweep(&scratch);
        Shelf::new(Packages::open(packages))
    };
    let cleared = tokio::task::spawn_blocking(clear).await;
    cleared.expect("it does not panic")
}

/// Secrets that an entry spells out: in its arguments, its address, or the URLs among its variables.
fn written(entry: &ServerEntry) -> Vec<Secret> {
    let values = entry.env.iter().filter_map(|(_, value)| value.as_deref());
    let texts: Vec<&str> = match &entry.transport {
        Transport::Stdio { args, .. } => args.iter().map(String::as_str).chain(values).collect(),
        Transport::Http { url } => std::iter::once(url.as_str()).chain(values).collect(),
    };
    vault::in_arguments(texts)
        .into_iter()
        .map(Secret::new)
        .collect()
}
