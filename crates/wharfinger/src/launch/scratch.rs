//! A folder for the files that an agent's servers leave lying about (A192–A195).
//!
//! Servers write screenshots and downloads where they stand. An agent's servers on this host stand in
//! `<base>/adf-scratch-<pid>/<name of the agent's file>-<6 hex>/`, which is gone when they are. What a program that was
//! killed has left is removed at the next launch, by [`sweep`].

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::{Pid, geteuid, test_kill_process};
use sha2::{Digest, Sha256};

/// Every folder of a process begins so; its id follows.
const PREFIX: &str = "adf-scratch-";

/// The bytes of a file's name that are used: a name with its hash must fit into any file system.
const LONGEST: usize = 200;

/// One agent's scratch folder. Removed with everything in it when dropped; its servers must be gone by then.
#[derive(Debug)]
pub struct Scratch(PathBuf);

/// A scratch folder could not be made.
#[derive(Debug, thiserror::Error)]
#[error("can't make the scratch folder {}: {source}", .path.display())]
pub struct ScratchError {
    path: PathBuf,
    source: io::Error,
}

impl Scratch {
    /// Makes the folder of the agent with that file. `base` is the system's folder for such things, which others may
    /// write to: a folder or link that somebody else has put in its place is refused.
    pub fn new(base: &Path, agent_file: &Path) -> Result<Self, ScratchError> {
        let own = base.join(format!("{PREFIX}{}", std::process::id()));
        let path = own.join(name(agent_file));
        fs::create_dir_all(base)
            .and_then(|()| private(&own))
            .and_then(|()| private(&path))
            .map_err(|source| ScratchError {
                path: path.clone(),
                source,
            })?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!("the scratch folder {} stays: {error}", self.0.display());
        }
        if let Some(own) = self.0.parent() {
            // Not while another agent has one in there.
            fs::remove_dir(own).ok();
        }
    }
}

/// Removes the folders of processes that are gone; gives their number. Links are never followed, and only folders of
/// our own user are touched. Blocks.
pub fn sweep(base: &Path) -> usize {
    let Ok(entries) = fs::read_dir(base) else {
        return 0;
    };
    let stale = entries.flatten().filter(|entry| {
        let dead = process(&entry.file_name()).is_some_and(is_gone);
        dead && fs::symlink_metadata(entry.path()).is_ok_and(|found| is_ours(&found))
    });
    stale
        .filter(|entry| match fs::remove_dir_all(entry.path()) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!("{} stays: {error}", entry.path().display());
                false
            }
        })
        .count()
}

/// `<base name>-<6 hex of the hash of the whole path>`: files of the same name in two folders have two.
fn name(agent_file: &Path) -> String {
    let stem = agent_file.file_stem().unwrap_or(OsStr::new("agent"));
    let stem = stem.to_string_lossy();
    let mut end = stem.len().min(LONGEST);
    while !stem.is_char_boundary(end) {
        end -= 1;
    }
    let hash = Sha256::digest(agent_file.as_os_str().as_encoded_bytes());
    format!(
        "{}-{:02x}{:02x}{:02x}",
        &stem[..end],
        hash[0],
        hash[1],
        hash[2]
    )
}

/// The process that a folder of that name belongs to.
fn process(name: &OsStr) -> Option<Pid> {
    let id = name.to_str()?.strip_prefix(PREFIX)?;
    let digits = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| id.parse().ok().and_then(Pid::from_raw))?
}

/// One that we may not signal is alive, too.
fn is_gone(process: Pid) -> bool {
    test_kill_process(process) == Err(Errno::SRCH)
}

/// A new folder for our user alone, or one that is just that already.
fn private(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let found = fs::symlink_metadata(path)?;
            if is_ours(&found) && is_closed(&found) {
                return Ok(());
            }
            let text = "something that others can change is in its place";
            Err(io::Error::new(io::ErrorKind::AlreadyExists, text))
        }
        made => made,
    }
}

/// A real folder of our own user; the metadata is that of the thing itself, not of what a link points to.
#[cfg(unix)]
fn is_ours(found: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    found.is_dir() && found.uid() == geteuid().as_raw()
}

#[cfg(unix)]
fn is_closed(found: &Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    found.permissions().mode() & 0o022 == 0
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn exists(path: &Path) -> bool {
        fs::symlink_metadata(path).is_ok()
    }

    /// The id of a process that has ended and was waited for.
    fn dead() -> u32 {
        #[expect(clippy::disallowed_methods, reason = "it ends at once")]
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id()
    }

    #[test]
    fn a192_an_agent_has_a_folder_of_its_own_named_for_its_file() {
        let base = tempfile::tempdir().unwrap();
        let file = Path::new("/home/me/agents/bot.adf");
        let scratch = Scratch::new(base.path(), file).unwrap();
        let own = base.path().join(format!("{PREFIX}{}", std::process::id()));
        assert_eq!(scratch.path().parent(), Some(own.as_path()));
        let name = scratch.path().file_name().unwrap().to_str().unwrap();
        let hash = name.strip_prefix("bot-").unwrap();
        assert!(
            hash.len() == 6 && hash.bytes().all(|b| b.is_ascii_hexdigit()),
            "{name}"
        );
        let mode = fs::metadata(scratch.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let other = Scratch::new(base.path(), Path::new("/elsewhere/bot.adf")).unwrap();
        assert_ne!(scratch.path(), other.path());
        assert_eq!(name, super::name(file), "the same at each start");
    }

    #[test]
    fn a192_a_long_name_still_fits() {
        let base = tempfile::tempdir().unwrap();
        let file = PathBuf::from(format!("/a/{}.adf", "ü".repeat(125)));
        Scratch::new(base.path(), &file).unwrap();
    }

    #[test]
    fn a193_it_goes_with_everything_in_it() {
        let base = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(base.path(), Path::new("/a/one.adf")).unwrap();
        let other = Scratch::new(base.path(), Path::new("/a/two.adf")).unwrap();
        let path = scratch.path().to_owned();
        fs::create_dir_all(path.join("shots")).unwrap();
        fs::File::create(path.join("shots/1.png")).unwrap();
        drop(scratch);
        assert!(!exists(&path) && exists(other.path()));
        drop(other);
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
    }

    #[test]
    fn a194_only_our_own_folders_of_dead_processes_are_swept() {
        let base = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        fs::File::create(elsewhere.path().join("kept")).unwrap();
        let make = |name: &str| {
            let path = base.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        };
        let (gone, gone_too) = (dead(), dead());
        let stale = make(&format!("{PREFIX}{gone}"));
        fs::create_dir(stale.join("bot-123456")).unwrap();
        symlink(elsewhere.path(), stale.join("bot-123456/link")).unwrap();
        let link = base.path().join(format!("{PREFIX}{gone_too}"));
        symlink(elsewhere.path(), &link).unwrap();
        let kept = [
            make(&format!("{PREFIX}{}", std::process::id())),
            // Who runs the tests without being root may not signal it.
            make(&format!("{PREFIX}1")),
            make(PREFIX),
            make(&format!("{PREFIX}{gone}-x")),
            make(&format!("{PREFIX}+{gone}")),
            make(&gone.to_string()),
            link,
            elsewhere.path().join("kept"),
        ];
        assert_eq!(sweep(base.path()), 1);
        assert!(!exists(&stale));
        for path in kept {
            assert!(exists(&path), "{}", path.display());
        }
        assert_eq!(sweep(&base.path().join("nowhere")), 0);
    }

    #[test]
    fn a194_a_link_or_an_open_folder_in_its_place_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let own = base.path().join(format!("{PREFIX}{}", std::process::id()));
        let refused = || {
            let error = Scratch::new(base.path(), Path::new("/a/bot.adf")).unwrap_err();
            error.to_string()
        };
        symlink(elsewhere.path(), &own).unwrap();
        assert!(refused().contains("in its place"));
        fs::remove_file(&own).unwrap();
        fs::create_dir(&own).unwrap();
        fs::set_permissions(&own, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(refused().contains("in its place"));
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }
}
