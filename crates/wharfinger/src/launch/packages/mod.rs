//! Packages of npm and Python that are kept here, so that a server starts without asking a registry (A60–A68).
//!
//! Each install is made in a folder of its own, looked at, and only then given its name; what it has become never
//! changes. Which one is in force stands in `mcp.lock`, which is replaced whole. So whatever ends an install, what was
//! in force before is in force still, and what runs keeps its files.

mod entry;
mod error;
mod lock;
mod npm;
mod python;
mod tool;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

pub use error::InstallError;
pub use lock::{Earlier, Everything, Locked, Resolved};
pub use tool::Work;

use crate::model::{Package, PackageKind};
use lock::Lock;

/// Where packages are kept.
#[derive(Clone, Debug)]
pub struct Places {
    /// The installs, a folder for each.
    pub installs: PathBuf,
    /// Programs that install, where the machine has none.
    pub tools: PathBuf,
    /// Which versions are in force.
    pub lock: PathBuf,
}

impl Places {
    /// All of them in one folder.
    pub fn in_folder(folder: &Path) -> Self {
        Self {
            installs: folder.join("mcp-servers"),
            tools: folder.join("mcp-bin"),
            lock: folder.join("mcp.lock"),
        }
    }
}

/// Packages that are kept here.
#[derive(Debug)]
pub struct Packages {
    places: Places,
    /// The lock file as it was last read.
    known: Mutex<Known>,
    /// Held while the lock file is changed.
    changing: tokio::sync::Mutex<()>,
    /// The `uv` that was found.
    uv: tokio::sync::Mutex<Option<String>>,
    staged: AtomicU64,
}

#[derive(Debug, Default)]
struct Known {
    lock: Lock,
    seen: Option<(SystemTime, u64)>,
}

/// What starts an installed package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Direct {
    /// Its version.
    pub version: String,
    /// The program.
    pub program: String,
    /// What comes before its own arguments.
    pub args: Vec<String>,
}

/// The folder in which installs are made.
const STAGING: &str = ".staging";
/// Written last: an install that has it is whole.
const STAMP: &str = "install.json";

impl Packages {
    /// Those of these places. Removes what an install that was killed has left; blocks.
    pub fn open(places: Places) -> Self {
        let staging = places.installs.join(STAGING);
        if staging.exists()
            && let Err(error) = fs::remove_dir_all(&staging)
        {
            tracing::warn!("{} stays: {error}", staging.display());
        }
        Self {
            places,
            known: Mutex::default(),
            changing: tokio::sync::Mutex::default(),
            uv: tokio::sync::Mutex::default(),
            staged: AtomicU64::default(),
        }
    }

    /// What is in force for a wish, as the lock file has it at this moment.
    pub fn locked(&self, wanted: &Package) -> Result<Option<Locked>, InstallError> {
        Ok(self.read()?.lock.find(wanted).cloned())
    }

    /// Everything that is in force.
    pub fn all(&self) -> Result<Vec<Locked>, InstallError> {
        Ok(self.read()?.lock.packages.clone())
    }

    fn read(&self) -> Result<MutexGuard<'_, Known>, InstallError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = fs::metadata(&self.places.lock).ok();
        let seen = seen.and_then(|file| Some((file.modified().ok()?, file.len())));
        if seen != known.seen || seen.is_none() {
            known.lock = Lock::read(&self.places.lock)?;
            known.seen = seen;
        }
        Ok(known)
    }

    fn folder(&self, wanted: &Package, resolved: &Resolved) -> PathBuf {
        self.places.installs.join(resolved.folder(wanted))
    }

    /// Whether what is in force is there.
    pub fn is_present(&self, wanted: &Package, resolved: &Resolved) -> bool {
        self.folder(wanted, resolved).join(STAMP).is_file()
    }

    /// What starts a package, if it is installed (A60); looked at again each time (A200).
    pub fn direct(&self, wanted: &Package) -> Result<Option<Direct>, InstallError> {
        match self.locked(wanted)? {
            Some(locked) if self.is_present(wanted, &locked.current) => {
                self.direct_of(wanted, &locked.current).map(Some)
            }
            Some(_) | None => Ok(None),
        }
    }

    /// The same for a command line that fetches a package (A61): any install of it serves one without a version, and
    /// else one of that version.
    pub fn direct_for_command(&self, fetched: &Package) -> Result<Option<Direct>, InstallError> {
        let all = self.all()?;
        let fits = |locked: &&Locked| {
            locked.wanted.kind == fetched.kind
                && locked.wanted.name == fetched.name
                && locked.wanted.extras == fetched.extras
                && locked.wanted.with.is_empty()
                && (fetched.version.is_none()
                    || fetched.version.as_ref() == Some(&locked.current.version))
                && self.is_present(&locked.wanted, &locked.current)
        };
        // Sorted: one that was wanted without a version comes first.
        let found = all.iter().find(fits);
        found
            .map(|locked| self.direct_of(&locked.wanted, &locked.current))
            .transpose()
    }

    /// What starts one version of a package, which must be there.
    pub fn direct_of(&self, wanted: &Package, resolved: &Resolved) -> Result<Direct, InstallError> {
        let folder = self.folder(wanted, resolved);
        entry::inside(&self.places.installs, &folder)?;
        let entry = folder.join(&resolved.entry);
        let (program, args) = match wanted.kind {
            PackageKind::Npm => {
                let own = folder.join("node_modules").join(&wanted.name);
                let real = entry::inside(&own, &entry)?;
                entry::inside(&folder, &own)?;
                let text = entry.to_string_lossy().into_owned();
                if entry::is_for_node(&real) {
                    ("node".to_owned(), vec![text])
                } else {
                    (text, vec![])
                }
            }
            PackageKind::Pypi => {
                let bin = folder.join("venv/bin");
                entry::inside(&bin, &entry)?;
                entry::inside(&folder, &bin)?;
                // Not by the script's first line, which takes two programs to find its Python.
                let python = bin.join("python").to_string_lossy().into_owned();
                (python, vec![entry.to_string_lossy().into_owned()])
            }
        };
        Ok(Direct {
            version: resolved.version.clone(),
            program,
            args,
        })
    }

    /// Installs what is wanted and puts it in force: what is locked, if anything is; else, unless `frozen`, what the
    /// wish comes to now. Does nothing where that is there.
    pub async fn install(
        &self,
        wanted: &Package,
        frozen: bool,
        work: &Work<'_>,
    ) -> Result<Resolved, InstallError> {
        let locked = self.locked(wanted)?;
        match locked {
            Some(locked) => {
                if !self.is_present(wanted, &locked.current) {
                    self.make(wanted, Some(&locked.current), work).await?;
                }
                Ok(locked.current)
            }
            None if frozen => Err(InstallError::NotLocked(wanted.spec())),
            None => {
                let resolved = self.make(wanted, None, work).await?;
                self.change(|lock| {
                    lock.put(Locked {
                        wanted: wanted.clone(),
                        current: resolved.clone(),
                        previous: None,
                    });
                })
                .await?;
                Ok(resolved)
            }
        }
    }

    /// Installs what a wish comes to now beside what is in force, which stays so.
    pub async fn beside(
        &self,
        wanted: &Package,
        work: &Work<'_>,
    ) -> Result<Resolved, InstallError> {
        self.make(wanted, None, work).await
    }

    /// Puts another version in force, for the same wish or one of another version, and keeps what was (A64).
    pub async fn switch(
        &self,
        from: &Package,
        to: &Package,
        resolved: Resolved,
    ) -> Result<(), InstallError> {
        let dropped = self
            .change(|lock| {
                let before = lock.find(from).cloned();
                let dropped = before.as_ref().and_then(|before| before.previous.clone());
                let earlier = before.map(|before| {
                    Box::new(Earlier {
                        wanted: before.wanted,
                        resolved: before.current,
                    })
                });
                lock.put(Locked {
                    wanted: to.clone(),
                    current: resolved,
                    previous: earlier,
                });
                dropped
            })
            .await?;
        if let Some(dropped) = dropped {
            self.clear(&dropped.resolved.folder(&dropped.wanted));
        }
        Ok(())
    }

    /// What was in force before the last upgrade of a wish, and is there still.
    pub fn earlier(&self, wanted: &Package) -> Result<Earlier, InstallError> {
        let earlier = self.locked(wanted)?.and_then(|locked| locked.previous);
        earlier
            .map(|earlier| *earlier)
            .filter(|earlier| self.is_present(&earlier.wanted, &earlier.resolved))
            .ok_or_else(|| InstallError::NoEarlier(wanted.spec()))
    }

    /// The newest version that the registry has.
    pub async fn newest(&self, wanted: &Package, work: &Work<'_>) -> Result<String, InstallError> {
        let staging = self.stage()?;
        match wanted.kind {
            PackageKind::Npm => npm::newest(work, staging.path(), wanted).await,
            PackageKind::Pypi => {
                let uv = self.uv(work).await?;
                python::newest(work, &uv, staging.path(), wanted).await
            }
        }
    }

    /// Takes a wish out of the lock file, and removes the folders that nothing else uses (A66). Gives the folders that
    /// went.
    pub async fn remove(&self, wanted: &Package) -> Result<Vec<PathBuf>, InstallError> {
        let taken = self.change(|lock| lock.take(wanted)).await?;
        let Some(taken) = taken else {
            return Ok(vec![]);
        };
        let mut folders = vec![taken.current.folder(&taken.wanted)];
        let earlier = taken.previous.iter();
        folders.extend(earlier.map(|earlier| earlier.resolved.folder(&earlier.wanted)));
        let gone = folders.iter().filter_map(|folder| self.clear(folder));
        Ok(gone.collect())
    }

    /// How many bytes an install takes.
    pub fn size(&self, wanted: &Package) -> Option<u64> {
        let locked = self.locked(wanted).ok()??;
        Some(size(&self.folder(wanted, &locked.current)))
    }

    /// Removes the folder of an install that the lock file does not name any more.
    fn clear(&self, folder: &str) -> Option<PathBuf> {
        let in_use = match self.read() {
            Ok(known) => known.lock.folders().iter().any(|used| used == folder),
            Err(_) => true,
        };
        if in_use {
            return None;
        }
        let path = self.places.installs.join(folder);
        let real = match entry::inside(&self.places.installs, &path) {
            Ok(real) => real,
            // Gone already, or a link to elsewhere: that is nobody's to delete.
            Err(error) => {
                tracing::warn!("not removed: {error}");
                return None;
            }
        };
        // In one step out of the way, so that a half of it is never taken for an install.
        let trash = self.stage().ok()?;
        let moved = fs::rename(&real, trash.path().join("gone"));
        if let Err(error) = moved.and_then(|()| trash.close()) {
            tracing::warn!("{} stays: {error}", real.display());
            return None;
        }
        if let Some(parent) = real.parent() {
            // Not while it holds another version.
            fs::remove_dir(parent).ok();
        }
        Some(path)
    }

    /// Changes the lock file.
    async fn change<T>(&self, change: impl FnOnce(&mut Lock) -> T) -> Result<T, InstallError> {
        let _one_at_a_time = self.changing.lock().await;
        let mut lock = self.read()?.lock.clone();
        let done = change(&mut lock);
        lock.write(&self.places.lock)?;
        // Two changes may fall into one tick of the file system's clock.
        self.known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .seen = None;
        Ok(done)
    }

    /// Installs into a folder of its own, and gives it its name when all is well.
    async fn make(
        &self,
        wanted: &Package,
        locked: Option<&Resolved>,
        work: &Work<'_>,
    ) -> Result<Resolved, InstallError> {
        let staging = self.stage()?;
        let all = locked.map(|locked| &locked.all);
        let made = match (wanted.kind, all) {
            (PackageKind::Npm, Some(Everything::PackageLock(lock))) => {
                npm::install(work, staging.path(), wanted, Some(lock)).await?
            }
            (PackageKind::Npm, _) => npm::install(work, staging.path(), wanted, None).await?,
            (PackageKind::Pypi, all) => {
                let uv = self.uv(work).await?;
                let lines = match all {
                    Some(Everything::Requirements(lines)) => Some(lines.as_slice()),
                    Some(Everything::PackageLock(_)) | None => None,
                };
                python::install(work, &uv, staging.path(), wanted, lines).await?
            }
        };
        if let Some(locked) = locked
            && (locked.hash != made.hash || locked.version != made.version)
        {
            return Err(InstallError::Refused(format!(
                "what came is {} {}, and not what mcp.lock has",
                wanted.name, made.version
            )));
        }
        let stamp = serde_json::json!({
            "package": wanted,
            "version": made.version,
            "hash": made.hash,
            "entry": made.entry,
            "installedAt": seconds(SystemTime::now()),
        });
        let folder = self.folder(wanted, &made);
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| InstallError::Io { path, source }
        };
        lock::replace(&staging.path().join(STAMP), &format!("{stamp:#}\n"))
            .map_err(io(staging.path()))?;
        if folder.join(STAMP).is_file() {
            // The same content, and something may run from it.
            return Ok(made);
        }
        if let Some(parent) = folder.parent() {
            fs::create_dir_all(parent).map_err(io(parent))?;
            entry::inside(&self.places.installs, parent)?;
        }
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(io(&folder))?;
        }
        fs::rename(staging.path(), &folder).map_err(io(&folder))?;
        Ok(made)
    }

    fn stage(&self) -> Result<tempfile::TempDir, InstallError> {
        let staging = self.places.installs.join(STAGING);
        let number = self.staged.fetch_add(1, Ordering::Relaxed);
        fs::create_dir_all(&staging)
            .and_then(|()| {
                tempfile::Builder::new()
                    .prefix(&format!("{number}-"))
                    .tempdir_in(&staging)
            })
            .map_err(|source| InstallError::Io {
                path: staging,
                source,
            })
    }

    async fn uv(&self, work: &Work<'_>) -> Result<String, InstallError> {
        let mut known = self.uv.lock().await;
        if let Some(uv) = known.as_ref().filter(|uv| Path::new(uv).is_file()) {
            return Ok(uv.clone());
        }
        let found = python::find(work, &self.places.tools).await?;
        *known = Some(found.clone());
        Ok(found)
    }
}

/// Seconds since 1970.
fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

fn size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => size(&entry.path()),
            Ok(found) => found.len(),
            Err(_) => 0,
        })
        .sum()
}
