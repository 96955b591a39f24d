//! Where agents' files lie: their folder, and files that come and go whole.

use std::fs::{self, DirBuilder};
use std::path::{Path, PathBuf};

use super::check::{self, Trust};
use super::file::{mark_closed, opening};
use super::lock::OwnerLock;
use super::making::{persist, temporary};
use super::{AgentFile, Error, Keys, trust};

/// Makes a folder for our user alone, if it is not there.
pub fn private_folder(path: &Path) -> Result<(), Error> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(Error::io("make", path))
}

/// Removes a file that nobody has open, and what `SQLite` may have left beside it.
pub fn delete(path: &Path) -> Result<(), Error> {
    let lock = OwnerLock::take(path)?;
    fs::remove_file(path).map_err(Error::io("remove", path))?;
    for kind in ["-wal", "-shm"] {
        let mut beside = path.as_os_str().to_owned();
        beside.push(kind);
        // Most of the time there is none.
        fs::remove_file(PathBuf::from(beside)).ok();
    }
    drop(lock);
    Ok(())
}

/// Takes a copy of a file that may come from anybody, after a look at it; never in place of another. Nothing is written
/// to the original.
pub fn copy(from: &Path, to: &Path, keys: &Keys) -> Result<(), Error> {
    let from = check::resolve(from)?;
    if fs::symlink_metadata(to).is_ok() {
        return Err(Error::Exists {
            path: to.to_owned(),
        });
    }
    {
        let _opening = opening();
        let original = check::reading(&from)?;
        check::look(&original, &from, Trust::Opened)?;
        let copy = temporary(to)?;
        let failed = Error::sqlite(to);
        let mut into = rusqlite::Connection::open(copy.path()).map_err(&failed)?;
        rusqlite::backup::Backup::new(&original, &mut into)
            .and_then(|backup| backup.run_to_completion(1024, std::time::Duration::ZERO, None))
            .and_then(|()| check::distrust(&into))
            .and_then(|()| trust::drop_mark(&into))
            .and_then(|()| mark_closed(&into))
            .map_err(&failed)?;
        into.close().map_err(|(_, error)| failed(error))?;
        persist(copy, to)?;
    }
    // What can't be opened here is of no use here.
    match AgentFile::open(to, keys).and_then(AgentFile::close) {
        Ok(()) => Ok(()),
        Err(error) => {
            fs::remove_file(to).ok();
            Err(error)
        }
    }
}
