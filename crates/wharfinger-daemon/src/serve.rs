//! From a home folder to a running daemon, and back to nothing left.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wharfinger::launch::{Guard, GuardError, Owner, guard};
use wharfinger::model::{Problem, Secret, ServerEntry};
use wharfinger::servers::Halted;
use wharfinger::vault::Keyring;
use wharfinger::{OpenError, VaultReport, Wharf};

use crate::home::{Home, HomeError, Tokens};
use crate::http::{self, Doors, Hosts};
use crate::registry::{Current, Origin, Registry};
use crate::settings::Settings;
use crate::{api, gateway, keyring};

/// What a daemon is started with.
#[derive(Debug)]
pub struct Options {
    /// Its home folder; made if it is missing.
    pub home: PathBuf,
    /// Where HTTP is served, in place of `daemon.listen`.
    pub listen: Option<SocketAddr>,
    /// The environment it was started from.
    pub environment: BTreeMap<String, String>,
    /// Servers for this run alone.
    pub run: Vec<ServerEntry>,
    /// This program, for the guard and for the commands that clients are given.
    pub program: PathBuf,
    /// Its version.
    pub version: String,
    /// Started by a person, whose certificate, proxy and registry variables are worth remembering; else those
    /// remembered fill in for what is missing (V18).
    pub remember_environment: bool,
    /// What opens the vault, where it is under a passphrase; a new vault is put under it.
    pub passphrase: Option<Secret>,
    /// Ends the daemon.
    pub stop: CancellationToken,
}

/// A daemon that is ready.
#[derive(Debug)]
pub struct Ready {
    /// The address it listens on.
    pub url: String,
    /// Its home.
    pub home: Home,
    /// How many servers are configured.
    pub servers: usize,
    /// Complaints that did not keep it from starting.
    pub problems: Vec<Problem>,
    /// What the Playwright preset has to say (V35).
    pub playwright: String,
    /// Since when and why nothing may start, after an emergency stop.
    pub halted: Option<Halted>,
    /// Whether its secrets can be read.
    pub vault: VaultReport,
}

/// Why a daemon did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The configuration is invalid (V23); all of it at once.
    #[error("the configuration is invalid")]
    Config(Vec<Problem>),
    /// The home can't be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The database can't be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The guard can't be started.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// The address can't be listened on.
    #[error("can't listen on {address}: {source}")]
    Listen {
        /// Which.
        address: String,
        /// The system's word.
        source: io::Error,
    },
}

/// The daemon, as its doors see it.
pub(crate) struct Daemon {
    pub(crate) wharf: Wharf,
    pub(crate) home: Home,
    pub(crate) tokens: Tokens,
    pub(crate) settings: Settings,
    pub(crate) registry: Registry,
    pub(crate) gateway: gateway::State,
    pub(crate) begun: api::sessions::Begun,
    pub(crate) listen: SocketAddr,
    pub(crate) program: PathBuf,
    pub(crate) version: String,
    pub(crate) started: SystemTime,
    pub(crate) tasks: TaskTracker,
    /// Ends what clients hold open: streams, idle connections.
    pub(crate) stop: CancellationToken,
}

impl Daemon {
    /// The list of known servers in force; agents are told of the same one.
    pub(crate) fn know(&self) -> Current {
        let current = self.registry.current();
        if current.origin != Origin::Bundled {
            self.wharf.know_servers(current.document.clone());
        }
        current
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.listen)
    }
}

/// Serves a home until stopped. `ready` is told once everybody can connect. When this returns, no server runs.
pub async fn serve(options: Options, ready: impl FnOnce(Ready)) -> Result<(), ServeError> {
    let home = Home::open(&options.home)?;
    let held = home.hold()?;
    let environment = host_environment(&home, options.environment, options.remember_environment);
    let settings = Settings::new(home.clone(), environment.clone(), options.run);
    let loaded = settings.load().await?;
    if loaded.has_errors() {
        return Err(ServeError::Config(loaded.problems));
    }
    let problems = loaded.problems.clone();
    let daemon_config = loaded.config.daemon.clone();
    let playwright = loaded.config.playwright.announcement();
    let mark = home.mark();
    let sweep = mark.clone();
    let scratch = home.scratch();
    let clear = move || {
        guard::sweep(&sweep);
        // Missing most of the time, and what can't be removed does no harm.
        std::fs::remove_dir_all(scratch).ok();
    };
    tokio::task::spawn_blocking(clear).await.ok();
    let owner = Owner::new(&mark);
    let guard = Guard::start(options.program.clone(), &["__guard"], &owner)?;
    let listen = options.listen.unwrap_or(daemon_config.listen);
    let tcp = bind(listen).await?;
    let unix = bind_socket(&home)?;
    let listen = tcp.local_addr().unwrap_or(listen);
    let keyring = keyring::of_session(&environment);
    let mut opening = wharfinger::Options::in_folder(home.path(), loaded, environment);
    opening.owner = owner;
    opening.version.clone_from(&options.version);
    opening.vault.keyring = keyring.map(|session| Arc::new(session) as Arc<dyn Keyring>);
    opening.vault.passphrase = options.passphrase;
    let wharf = Wharf::open(opening).await?;
    let tokens = Tokens::new(home.clone());
    // Refusals tell people where it lies, so there it lies.
    tokens.token(None)?;
    if options.remember_environment {
        home.remember(&wharf.registry_variables())?;
    }
    let daemon = Arc::new(Daemon {
        registry: Registry::new(&daemon_config, home.known_servers()),
        tokens,
        gateway: gateway::State::default(),
        begun: api::sessions::Begun::default(),
        program: options.program,
        version: options.version,
        started: SystemTime::now(),
        tasks: TaskTracker::new(),
        stop: options.stop.clone(),
        wharf,
        home: home.clone(),
        settings,
        listen,
    });
    if !daemon_config.registry_url.is_empty() {
        daemon.know();
    }
    let hosts = Hosts::new(listen, &daemon_config.allowed_hosts);
    let router = gateway::router()
        .merge(api::router(&daemon))
        .with_state(daemon.clone());
    let doors = Arc::new(Doors {
        daemon: daemon.clone(),
        hosts,
        router,
    });
    let (tasks, stop) = (&daemon.tasks, &daemon.stop);
    tasks.spawn(http::tcp(tcp, doors.clone(), tasks.clone(), stop.clone()));
    tasks.spawn(http::unix(unix, doors, tasks.clone(), stop.clone()));
    tasks.spawn(gateway::expire(daemon.clone()));
    let watching = daemon.clone();
    tasks.spawn(async move {
        watching
            .settings
            .watch(&watching.wharf, watching.stop.clone())
            .await;
    });
    tracing::info!("{playwright}");
    let servers = daemon.wharf.config().servers.len();
    ready(Ready {
        url: daemon.url(),
        home: home.clone(),
        servers,
        problems,
        playwright,
        halted: daemon.wharf.is_halted(),
        vault: daemon.wharf.vault(),
    });
    daemon.stop.cancelled().await;
    tracing::info!("stopping");
    std::fs::remove_file(home.socket()).ok();
    daemon.wharf.shut_down().await;
    daemon.tasks.close();
    // Clients have been told; those that do not read are not waited for.
    tokio::time::timeout(Duration::from_secs(2), daemon.tasks.wait())
        .await
        .ok();
    guard.dismiss().await;
    // Closing alone would leave it to a process that is being forked at this moment.
    held.unlock().ok();
    Ok(())
}

/// What a person's shell has; a client's poorer environment is filled in with what was remembered of that (V18).
fn host_environment(
    home: &Home,
    mut environment: BTreeMap<String, String>,
    complete: bool,
) -> BTreeMap<String, String> {
    if complete {
        return environment;
    }
    for (name, value) in home.remembered() {
        match environment.get_mut(&name) {
            // Programs that a person's shell finds are found here too, after the client's own.
            Some(path) if name == "PATH" => *path = format!("{path}:{value}"),
            Some(_) => {}
            None => drop(environment.insert(name, value)),
        }
    }
    environment
}

async fn bind(listen: SocketAddr) -> Result<TcpListener, ServeError> {
    let failed = |source| ServeError::Listen {
        address: listen.to_string(),
        source,
    };
    TcpListener::bind(listen).await.map_err(failed)
}

/// The home is held, so a socket file that is there is a dead daemon's.
fn bind_socket(home: &Home) -> Result<UnixListener, ServeError> {
    use std::os::unix::fs::PermissionsExt;
    let path = home.socket();
    let failed = |source| ServeError::Listen {
        address: path.display().to_string(),
        source,
    };
    std::fs::remove_file(&path).ok();
    let listener = UnixListener::bind(&path).map_err(failed)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(listener)
}
