//! One owner at a time: a lock on a file beside the agent's file.
//!
//! Not on the file itself. A process loses all its locks on a file when it closes any handle of it, and `SQLite` needs
//! those it has there.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::Error;

/// Held as long as the file is open.
#[derive(Debug)]
pub(super) struct OwnerLock {
    path: PathBuf,
    _file: File,
}

impl OwnerLock {
    /// Takes the lock, or says that somebody has it. Does not wait.
    pub(super) fn take(owned: &Path) -> Result<Self, Error> {
        let mut name = owned.as_os_str().to_owned();
        name.push(".lock");
        let path = PathBuf::from(name);
        loop {
            let mut options = File::options();
            options.create(true).append(true);
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let file = options.open(&path).map_err(Error::io("lock", owned))?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => {
                    return Err(Error::InUse {
                        path: owned.to_owned(),
                    });
                }
                Err(error) => return Err(Error::io("lock", owned)(error.into())),
            }
            // Whoever had it before may have removed the file after we opened it; then the lock is on nothing.
            let inode = |found: fs::Metadata| (found.dev(), found.ino());
            let ours = file.metadata().map(inode).ok();
            if ours.is_some() && ours == fs::metadata(&path).map(inode).ok() {
                return Ok(Self { path, _file: file });
            }
        }
    }
}

impl Drop for OwnerLock {
    fn drop(&mut self) {
        // While it is still locked, so nobody's lock is removed but ours.
        drop(fs::remove_file(&self.path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_owner_at_a_time_and_nothing_left() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.adf");
        let lock = OwnerLock::take(&file).unwrap();
        let refused = OwnerLock::take(&file).unwrap_err();
        assert!(matches!(&refused, Error::InUse { path } if *path == file));
        let other = OwnerLock::take(&dir.path().join("b.adf")).unwrap();
        drop((lock, other));
        drop(OwnerLock::take(&file).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
