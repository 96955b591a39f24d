//! Looking at the machine and the home, for `wharf doctor`; what it means is in [`wharfinger::doctor`].

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use wharfinger::doctor::{Daemon, Facts, HomeFacts, OpenFile, Port, Program, Runtime};
use wharfinger::launch;
use wharfinger::model::Problem;
use wharfinger::servers::Halted;

/// What is known already by who asks.
#[derive(Debug)]
pub struct Asked {
    /// The home folder, whether it is there or not.
    pub home: PathBuf,
    /// What servers inherit of the environment.
    pub environment: BTreeMap<String, String>,
    /// Where a daemon listens, or would.
    pub listen: String,
    /// The daemon, where one runs.
    pub daemon: Option<Daemon>,
    /// What servers run.
    pub programs: Vec<Program>,
    /// Complaints about the configuration.
    pub problems: Vec<Problem>,
    /// Whether programs that many servers need are asked for their versions, which takes longest.
    pub runtimes: bool,
}

/// Programs that many servers need.
const RUNTIMES: [&str; 10] = [
    "node", "npm", "npx", "python3", "uv", "uvx", "docker", "podman", "git", "chromium",
];

/// How long each may take to tell its version.
const PATIENCE: Duration = Duration::from_secs(10);

/// Looks at everything, at the same time where that takes long.
pub async fn look(asked: Asked) -> Facts {
    let wanted: &[&str] = if asked.runtimes { &RUNTIMES } else { &[] };
    let runtimes = wanted.iter().map(|name| runtime(name, &asked.environment));
    let runtimes = join_all(runtimes).await;
    let runs = asked.daemon.is_some();
    Facts {
        home: home(&asked.home, runs),
        port: Port {
            taken: (!runs).then(|| taken(&asked.listen)).flatten(),
            address: asked.listen,
        },
        daemon: asked.daemon,
        path: asked.environment.get("PATH").cloned().unwrap_or_default(),
        runtimes,
        programs: asked.programs,
        problems: asked.problems,
        vault: None,
    }
}

async fn runtime(name: &str, environment: &BTreeMap<String, String>) -> Runtime {
    let probed = launch::probe(name, environment, PATIENCE).await;
    Runtime {
        name: name.to_owned(),
        path: probed.path.map(|path| path.display().to_string()),
        version: probed.version,
        error: probed.error,
    }
}

/// Why nobody could listen there.
fn taken(address: &str) -> Option<String> {
    TcpListener::bind(address)
        .err()
        .map(|error| error.to_string())
}

/// The longest path of a socket, without the zero at its end.
const SOCKET: usize = 107;
/// Clocks differ by less.
const SKEW: Duration = Duration::from_secs(300);

fn home(path: &Path, daemon_runs: bool) -> HomeFacts {
    let socket = path.join("wharf.sock");
    let metadata = fs::metadata(path).ok();
    let mut facts = HomeFacts {
        path: path.display().to_string(),
        exists: metadata.is_some(),
        unusable: unusable(path),
        free: free(path),
        socket_too_long: socket.as_os_str().len() > SOCKET,
        socket: socket.display().to_string(),
        ..HomeFacts::default()
    };
    if facts.unusable.is_some() {
        return facts;
    }
    if let Some(metadata) = &metadata {
        facts.mode = Some(mode(metadata));
        facts.foreign = is_foreign(metadata);
    }
    facts.open = open_files(path);
    facts.database = database(&path.join("wharfinger.db"));
    facts.from_the_future = from_the_future(path);
    facts.halted = halted(&path.join("halted"));
    if !daemon_runs && socket.exists() {
        facts.held_by = holder(path);
        facts.stale_socket = facts.held_by.is_none();
    }
    facts
}

/// Why a daemon could not use the home.
fn unusable(path: &Path) -> Option<String> {
    let mut there = path.ancestors();
    let nearest = there.find(|path| path.symlink_metadata().is_ok())?;
    let shown = nearest.display();
    match fs::metadata(nearest) {
        Err(error) => return Some(format!("{shown}: {error}")),
        Ok(found) if !found.is_dir() => return Some(format!("{shown} is no folder")),
        Ok(_) => {}
    }
    let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    let error = rustix::fs::access(nearest, access).err()?;
    Some(format!("{shown}: {}", io::Error::from(error)))
}

/// Room on the disk of the nearest folder that is there.
fn free(path: &Path) -> Option<u64> {
    let nearest = path.ancestors().find(|path| path.exists())?;
    let disk = rustix::fs::statvfs(nearest).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(unix)]
fn mode(metadata: &fs::Metadata) -> String {
    use std::os::unix::fs::PermissionsExt;
    format!("{:o}", metadata.permissions().mode() & 0o777)
}

#[cfg(unix)]
fn is_foreign(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    metadata.uid() != rustix::process::geteuid().as_raw()
}

/// Files that are their owner's alone, and are not.
fn open_files(home: &Path) -> Vec<OpenFile> {
    let private = [
        "environment.json",
        "credential.key",
        "vault.json",
        "wharf.sock",
    ];
    let tokens = fs::read_dir(home.join("tokens"));
    let tokens = tokens
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let mut files: Vec<PathBuf> = private
        .map(|name| home.join(name))
        .into_iter()
        .chain(tokens)
        .collect();
    files.sort();
    let open = |path: PathBuf| {
        let mode = mode(&fs::metadata(&path).ok()?);
        let is_open = u32::from_str_radix(&mode, 8).is_ok_and(|mode| mode & 0o077 != 0);
        is_open.then(|| OpenFile {
            path: path.display().to_string(),
            mode,
        })
    };
    files.into_iter().filter_map(open).collect()
}

/// Why a file is no database of ours.
fn database(path: &Path) -> Option<String> {
    let file = match fs::File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => return Some(error.to_string()),
        Ok(file) => file,
    };
    let mut head = vec![];
    match file.take(16).read_to_end(&mut head) {
        Err(error) => Some(error.to_string()),
        // A new one is empty until something is written.
        Ok(0) => None,
        Ok(_) if head == b"SQLite format 3\0" => None,
        Ok(_) => Some("it is no SQLite database".to_owned()),
    }
}

/// How far the newest file of the home is from the future, if that is far.
fn from_the_future(home: &Path) -> Option<u64> {
    let now = SystemTime::now();
    let files = fs::read_dir(home).into_iter().flatten().flatten();
    let ahead = files.filter_map(|entry| {
        entry
            .metadata()
            .ok()?
            .modified()
            .ok()?
            .duration_since(now)
            .ok()
    });
    ahead
        .max()
        .filter(|ahead| *ahead > SKEW)
        .map(|ahead| ahead.as_secs())
}

fn halted(path: &Path) -> Option<String> {
    let text = fs::read(path).ok()?;
    let halted = serde_json::from_slice::<Halted>(&text);
    Some(halted.map_or_else(|error| error.to_string(), |halted| halted.reason))
}

/// The process that holds the home. The lock is tried only where that process is there, so that no daemon that starts
/// at this moment is disturbed.
fn holder(home: &Path) -> Option<u32> {
    let path = home.join("daemon.lock");
    let pid: u32 = fs::read_to_string(&path).ok()?.trim().parse().ok()?;
    let raw = rustix::process::Pid::from_raw(i32::try_from(pid).ok()?)?;
    rustix::process::test_kill_process(raw).ok()?;
    let file = fs::File::open(&path).ok()?;
    match file.try_lock_shared() {
        Err(fs::TryLockError::WouldBlock) => Some(pid),
        Ok(()) | Err(fs::TryLockError::Error(_)) => None,
    }
}

/// Mends what a finding is about where that can be done without asking; gives whether it was.
pub fn mend(home: &Path, code: &str, path: &Path) -> io::Result<bool> {
    if !path.starts_with(home) {
        return Ok(false);
    }
    match code {
        "WF-002" => close(path, 0o700)?,
        "WF-003" => close(path, 0o600)?,
        "WF-004" => fs::remove_file(path)?,
        _ => return Ok(false),
    }
    Ok(true)
}

#[cfg(unix)]
fn close(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}
