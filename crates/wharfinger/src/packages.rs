//! Packages that servers are made of: kept here by `launch`, asked for by entries. What an entry runs in the end is
//! settled in [`Wharf::runnable`].

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::journal::EventKind;
use crate::launch::packages::{Direct, InstallError, Packages, Resolved, Work};
use crate::launch::{self, Request};
use crate::model::{Package, PackageKind, ServerEntry, ServerName, Transport};
use crate::servers::{Prepare, Prepared};
use crate::upgrade::Candidates;
use crate::wharf::{Inner, Wharf, lock};

/// How long an install may take unless somebody gives it longer (A63).
pub const LIMIT: Duration = Duration::from_secs(120);

/// The packages of a wharf, and what is being done about them.
pub(crate) struct Shelf {
    pub(crate) kept: Packages,
    running: Mutex<HashMap<Package, watch::Receiver<Progress>>>,
    failed: Mutex<HashMap<Package, PackageError>>,
    pub(crate) candidates: Candidates,
}

/// How far an install is.
#[derive(Clone, Debug)]
enum Progress {
    Doing(&'static str),
    Done(Result<Resolved, PackageError>),
}

/// How a package is installed.
#[derive(Clone, Copy, Debug)]
pub struct Installing {
    /// Only what is in `mcp.lock`.
    pub frozen: bool,
    /// For all of it.
    pub limit: Duration,
}

impl Default for Installing {
    fn default() -> Self {
        Self {
            frozen: false,
            limit: LIMIT,
        }
    }
}

/// Why a package is not there. What was in force before is so still.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct PackageError {
    /// In words for people, redacted.
    pub message: String,
    /// The way out, where there is one.
    pub hint: Option<String>,
}

/// The package of a server, as reports tell of it.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PackageReport {
    /// Of which kind.
    pub kind: PackageKind,
    /// Its name.
    pub name: String,
    /// The version in force, or else the one that is wanted.
    pub version: Option<String>,
    /// Whether that is kept here.
    pub installed: bool,
    /// Whether its entry names the package, and not a command that fetches it.
    pub managed: bool,
    /// What is being done about it at this moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doing: Option<String>,
    /// Why it could not be installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Shelf {
    pub(crate) fn new(kept: Packages) -> Self {
        Self {
            kept,
            running: Mutex::default(),
            failed: Mutex::default(),
            candidates: Candidates::default(),
        }
    }
}

impl Wharf {
    /// Installs a package that is wanted, unless it is there. Everybody who asks for the same waits for the same
    /// attempt.
    pub(crate) async fn install_package(
        &self,
        wanted: &Package,
        how: Installing,
    ) -> Result<Resolved, PackageError> {
        let shelf = &self.0.packages;
        let there = shelf.kept.locked(wanted);
        let there = there.map_err(|error| self.told(wanted, &error))?;
        if let Some(locked) = there
            && shelf.kept.is_present(wanted, &locked.current)
        {
            return Ok(locked.current);
        }
        let mut progress = self.begin_install(wanted, how);
        let done = progress
            .wait_for(|progress| matches!(progress, Progress::Done(_)))
            .await;
        match done.as_deref() {
            Ok(Progress::Done(done)) => done.clone(),
            Ok(Progress::Doing(_)) | Err(_) => Err(self.told(wanted, &InstallError::Stopped)),
        }
    }

    fn begin_install(&self, wanted: &Package, how: Installing) -> watch::Receiver<Progress> {
        let mut running = lock(&self.0.packages.running);
        if let Some(progress) = running.get(wanted) {
            return progress.clone();
        }
        let (state, progress) = watch::channel(Progress::Doing("waiting"));
        running.insert(wanted.clone(), progress.clone());
        lock(&self.0.packages.failed).remove(wanted);
        drop(running);
        let (wharf, wanted) = (self.clone(), wanted.clone());
        self.0.context.tasks.spawn(async move {
            let shelf = &wharf.0.packages;
            let say = |doing: &'static str| {
                state.send_replace(Progress::Doing(doing));
                wharf.tell_package(&wanted, doing, None);
            };
            let stop = wharf.0.context.stop.child_token();
            let work = wharf.work(how.limit, &stop, &say);
            let done = shelf.kept.install(&wanted, how.frozen, &work);
            let done = wharf.ending(&stop, done).await;
            let done = done.map_err(|error| wharf.told(&wanted, &error));
            match &done {
                Ok(resolved) => {
                    tracing::info!("{} {} is installed", wanted.name, resolved.version);
                    wharf.tell_package(&wanted, "installed", None);
                }
                Err(error) => {
                    tracing::warn!("{error}");
                    wharf.tell_package(&wanted, "failed", Some(&error.message));
                    lock(&shelf.failed).insert(wanted.clone(), error.clone());
                }
            }
            lock(&shelf.running).remove(&wanted);
            state.send_replace(Progress::Done(done));
        });
        progress
    }

    /// What programs that install are given.
    pub(crate) fn work<'a>(
        &'a self,
        limit: Duration,
        stop: &'a CancellationToken,
        say: &'a (dyn Fn(&'static str) + Send + Sync),
    ) -> Work<'a> {
        Work {
            owner: &self.0.context.owner,
            inherit: &self.0.inherit,
            limit,
            deadline: Instant::now() + limit,
            stop,
            say,
        }
    }

    /// Does something with them, which an emergency ends.
    pub(crate) async fn ending<T>(
        &self,
        stop: &CancellationToken,
        acting: impl Future<Output = Result<T, InstallError>>,
    ) -> Result<T, InstallError> {
        let context = &self.0.context;
        // Counted among what an emergency ends.
        let Ok(_pass) = context.gate.enter() else {
            return Err(InstallError::Stopped);
        };
        tokio::pin!(acting);
        tokio::select! {
            done = &mut acting => return done,
            () = context.gate.until_shut() => stop.cancel(),
        }
        // Its processes are ended first.
        acting.await
    }

    pub(crate) fn told(&self, wanted: &Package, error: &InstallError) -> PackageError {
        let message = format!("`{}` can't be installed: {error}", wanted.spec());
        PackageError {
            message: self.redactor().text(&message).into_owned(),
            hint: error.hint(),
        }
    }

    fn tell_package(&self, package: &Package, step: &str, error: Option<&str>) {
        self.0.events.tell(EventKind::Package {
            package: package.spec(),
            servers: self.servers_of(package),
            step: step.to_owned(),
            error: error.map(str::to_owned),
        });
    }

    /// Servers of the owner that run a package of this wish.
    pub(crate) fn servers_of(&self, package: &Package) -> Vec<ServerName> {
        let config = self.config();
        let of = config.servers.iter().filter(|entry| {
            entry
                .runs_package()
                .is_some_and(|(wanted, _)| wanted == *package)
        });
        of.map(|entry| entry.name.clone()).collect()
    }

    /// Begins to install the package of a server, where it is one that is not there yet, and waits for nothing (A20). What
    /// comes of it is in its report.
    pub fn install_behind(&self, name: &str) {
        let Ok((wanted, _)) = self.package_of(name) else {
            return;
        };
        let kept = &self.0.packages.kept;
        let there = kept.locked(&wanted).ok().flatten();
        if !there.is_some_and(|locked| kept.is_present(&wanted, &locked.current)) {
            drop(self.begin_install(&wanted, Installing::default()));
        }
    }

    /// Installs the package of a server, and waits for it.
    pub async fn install_server(
        &self,
        name: &str,
        how: Installing,
    ) -> Result<PackageReport, PackageError> {
        let (wanted, _) = self.package_of(name)?;
        let before = self
            .config()
            .server(name)
            .and_then(|entry| self.package_report(entry));
        self.install_package(&wanted, how).await?;
        if before.is_some_and(|before| !before.installed) {
            // What it failed for is mended.
            self.forget_failure(name);
        }
        let config = self.config();
        let report = config
            .server(name)
            .and_then(|entry| self.package_report(entry));
        report.ok_or_else(|| PackageError {
            message: self.no_such_server(name),
            hint: None,
        })
    }

    /// The package that a server of the owner runs.
    pub(crate) fn package_of(&self, name: &str) -> Result<(Package, ServerEntry), PackageError> {
        let config = self.config();
        let entry = config.server(name).ok_or_else(|| PackageError {
            message: self.no_such_server(name),
            hint: None,
        })?;
        match entry.runs_package() {
            Some((package, _)) => Ok((package, entry.clone())),
            None => Err(PackageError {
                message: format!("`{name}` runs no package of npm or Python"),
                hint: Some(format!(
                    "`wharf add --replace {name} --npm PACKAGE` or `--pypi PACKAGE` makes it one"
                )),
            }),
        }
    }

    /// Whether a wish stands in the lock file and is there, by the entry that has it.
    pub(crate) fn package_report(&self, entry: &ServerEntry) -> Option<PackageReport> {
        let (wanted, _) = entry.runs_package()?;
        let shelf = &self.0.packages;
        let locked = shelf.kept.locked(&wanted).ok().flatten();
        let present = locked
            .as_ref()
            .is_some_and(|locked| shelf.kept.is_present(&wanted, &locked.current));
        let direct = match (&entry.package, present) {
            (Some(_), _) | (None, true) => None,
            (None, false) => shelf.kept.direct_for_command(&wanted).ok().flatten(),
        };
        let doing =
            lock(&shelf.running)
                .get(&wanted)
                .and_then(|progress| match &*progress.borrow() {
                    Progress::Doing(doing) => Some((*doing).to_owned()),
                    Progress::Done(_) => None,
                });
        let error = lock(&shelf.failed)
            .get(&wanted)
            .map(|error| error.message.clone());
        Some(PackageReport {
            kind: wanted.kind,
            managed: entry.package.is_some(),
            installed: present || direct.is_some(),
            version: locked
                .map(|locked| locked.current.version)
                .or(direct.map(|direct| direct.version))
                .or(wanted.version),
            name: wanted.name,
            doing,
            error,
        })
    }

    /// An entry as it is run: a package that is kept here by the file that starts it (A60), installed first if it is
    /// not there; a command that fetches a package likewise, where that is kept here (A61).
    pub(crate) async fn runnable<'a>(
        &self,
        entry: &'a ServerEntry,
    ) -> Result<Cow<'a, ServerEntry>, String> {
        let Some((wanted, args)) = entry.runs_package() else {
            return Ok(Cow::Borrowed(entry));
        };
        let kept = &self.0.packages.kept;
        let direct = if entry.package.is_some() {
            Some(self.direct(entry, &wanted).await?)
        } else {
            kept.direct_for_command(&wanted).unwrap_or_else(|error| {
                tracing::warn!(server = %entry.name, "its installed package is not used: {error}");
                None
            })
        };
        Ok(match direct {
            Some(direct) => Cow::Owned(directly(entry, direct, args)),
            None => Cow::Borrowed(entry),
        })
    }

    async fn direct(&self, entry: &ServerEntry, wanted: &Package) -> Result<Direct, String> {
        let kept = &self.0.packages.kept;
        let told = |error: InstallError| self.told(wanted, &error).message;
        if let Some(direct) = kept.direct(wanted).map_err(told)? {
            return Ok(direct);
        }
        // It goes on behind the back of whoever waits no longer.
        let patience = entry.startup_timeout.mul_f64(0.8);
        let installed = self.install_package(wanted, Installing::default());
        match tokio::time::timeout(patience, installed).await {
            Err(_) => {
                return Err(format!(
                    "`{}` is still being installed; the next call waits for it again",
                    wanted.spec()
                ));
            }
            Ok(Err(error)) => {
                return Err(format!(
                    "{error}; `wharf install {}` tries again",
                    entry.name
                ));
            }
            Ok(Ok(_)) => {}
        }
        let direct = kept.direct(wanted).map_err(told)?;
        direct.ok_or_else(|| format!("`{}` was removed again", wanted.spec()))
    }

    /// Bytes that the package of an entry takes, where nobody else of this configuration or any agent uses it.
    pub fn unused_after(&self, name: &str) -> Option<(Package, u64)> {
        let (wanted, _) = self.package_of(name).ok()?;
        let kept = &self.0.packages.kept;
        if self.uses(&wanted, Some(name)) {
            return None;
        }
        let size = kept.size(&wanted)?;
        Some((wanted, size))
    }

    /// Whether any server, but for one of the owner's, runs a package of this wish.
    fn uses(&self, wanted: &Package, but: Option<&str>) -> bool {
        let runs = |entry: &ServerEntry| {
            entry
                .runs_package()
                .is_some_and(|(package, _)| package == *wanted)
        };
        let config = self.config();
        let mut own = config.servers.iter();
        let agents = lock(&self.0.agents).clone();
        own.any(|entry| Some(entry.name.as_str()) != but && runs(entry))
            || agents.values().any(|agent| {
                let view = crate::installed::view(agent, &config, &agent.rights(), self);
                let mut own = view.servers.iter();
                own.any(|entry| entry.installed_by.is_some() && runs(entry))
            })
    }

    /// Removes an install that nobody uses any more (A66); gives the folders that went.
    pub async fn remove_package(&self, wanted: &Package) -> Result<Vec<PathBuf>, PackageError> {
        if self.uses(wanted, None) {
            return Ok(vec![]);
        }
        let gone = self.0.packages.kept.remove(wanted).await;
        gone.map_err(|error| self.told(wanted, &error))
    }
}

/// An entry that runs an install.
pub(crate) fn directly(entry: &ServerEntry, direct: Direct, args: Vec<String>) -> ServerEntry {
    let cwd = match &entry.transport {
        Transport::Stdio { cwd, .. } => cwd.clone(),
        Transport::Http { .. } => None,
    };
    let args = direct.args.into_iter().chain(args).collect();
    ServerEntry {
        transport: Transport::Stdio {
            command: direct.program,
            args,
            cwd,
        },
        package: None,
        ..entry.clone()
    }
}

/// Makes what runs of an entry that is a package, anew for each start (A184).
pub(crate) struct Packaged {
    pub(crate) wharf: Weak<Inner>,
    pub(crate) entry: ServerEntry,
    pub(crate) workspace: PathBuf,
    pub(crate) scratch: Option<PathBuf>,
}

impl Packaged {
    async fn make(&self) -> Result<Prepared, String> {
        let wharf = self.wharf.upgrade().map(Wharf).ok_or("it is over")?;
        let entry = wharf.runnable(&self.entry).await?;
        let request = Request {
            entry: &entry,
            inherit: &wharf.0.inherit,
            workspace: &self.workspace,
            scratch: self.scratch.as_deref(),
            // Where it takes some, its plan is made with them.
            secrets: &std::collections::BTreeMap::new(),
        };
        let plan = launch::plan(request).ok_or("it is no process that could be started")?;
        Ok(Prepared {
            plan: Arc::new(plan),
            keeps: None,
        })
    }
}

impl Prepare for Packaged {
    fn prepare(&self) -> Pin<Box<dyn Future<Output = Result<Prepared, String>> + Send + '_>> {
        Box::pin(self.make())
    }
}
