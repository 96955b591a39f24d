//! New files and copies: they appear whole or not at all, and never in place of another.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use serde_json::Value;
use tempfile::NamedTempFile;

use super::file::{mark_closed, writing};
use super::lock::OwnerLock;
use super::meta::{free, put_runtime_meta};
use super::{AgentFile, Error, Keys, check, config, files, identity, schema, trust};

/// What a new agent's file begins with.
#[derive(Clone, Debug, Default)]
pub struct NewAgent {
    /// Its name.
    pub name: String,
    /// Rows of `adf_meta` of our own, by names that do not begin with `adf_`. Agents cannot write them.
    pub meta: Vec<(String, String)>,
    /// What its configuration is to say; members it does not have get their defaults.
    pub config: Value,
}

impl AgentFile {
    /// Makes a new file (0600) and opens it. It appears whole or not at all, and never in place of another.
    pub fn create(path: &Path, new: &NewAgent, keys: &Keys) -> Result<Self, Error> {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let name = path
            .file_name()
            .ok_or_else(|| Error::Refused("an agent's file needs a name".into()))?;
        let path = &fs::canonicalize(folder)
            .map_err(Error::io("make a file in", folder))?
            .join(name);
        let lock = OwnerLock::take(path)?;
        if fs::symlink_metadata(path).is_ok() {
            return Err(Error::Exists { path: path.clone() });
        }
        let made = temporary(path)?;
        fill(made.path(), &name.to_string_lossy(), new, keys)?;
        persist(made, path)?;
        Self::open_locked(path, keys, lock)
    }

    /// Writes a copy (0600) that is closed in good order, never over another file.
    pub fn export_to(&self, to: &Path) -> Result<(), Error> {
        self.copy_to(to, |_| Ok(()))
    }

    /// Writes a copy with a change that is not in this one.
    pub(super) fn copy_to(
        &self,
        to: &Path,
        change: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<(), Error> {
        if fs::symlink_metadata(to).is_ok() {
            return Err(Error::Exists {
                path: to.to_owned(),
            });
        }
        let copy = temporary(to)?;
        let mut into = Connection::open(copy.path()).map_err(Error::sqlite(to))?;
        // Page by page, so that everything in it is where it was.
        self.read(|from, _| {
            rusqlite::backup::Backup::new(from, &mut into)?.run_to_completion(
                1024,
                Duration::ZERO,
                None,
            )
        })?;
        check::distrust(&into)
            .and_then(|()| trust::drop_mark(&into))
            .and_then(|()| change(&into))
            .and_then(|()| {
                // What a newer program thinks of its mark is not known.
                if self.is_read_only() {
                    return Ok(());
                }
                mark_closed(&into)
            })
            .and_then(|()| into.close().map_err(|(_, error)| error))
            .map_err(Error::sqlite(to))?;
        persist(copy, to)
    }
}

/// A file beside another, to be renamed to it.
pub(super) fn temporary(path: &Path) -> Result<NamedTempFile, Error> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    tempfile::Builder::new()
        .prefix(".agent-")
        .suffix(".tmp")
        .tempfile_in(folder)
        .map_err(Error::io("write", path))
}

pub(super) fn persist(file: NamedTempFile, path: &Path) -> Result<(), Error> {
    file.as_file()
        .sync_all()
        .map_err(Error::io("write", path))?;
    file.persist_noclobber(path)
        .map_err(|error| match error.error.kind() {
            io::ErrorKind::AlreadyExists => Error::Exists {
                path: path.to_owned(),
            },
            _ => Error::io("write", path)(error.error),
        })?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    fs::File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(Error::io("write", path))
}

/// The tables of a new file and what they begin with; `name` is the one that it will have.
fn fill(path: &Path, name: &str, new: &NewAgent, keys: &Keys) -> Result<(), Error> {
    let config = config::complete(&new.name, &new.config)?;
    let failed = Error::sqlite(path);
    let mut connection = writing(path).map_err(&failed)?;
    let write = connection.transaction().map_err(&failed)?;
    write
        .execute_batch(schema::TABLES)
        .and_then(|()| write.execute_batch(schema::PINS))
        .map_err(&failed)?;
    for (key, value) in &new.meta {
        free(key)?;
        put_runtime_meta(&write, key, value).map_err(&failed)?;
    }
    let rows = || -> rusqlite::Result<()> {
        config::begin(&write, &config)?;
        files::begin(&write)?;
        identity::begin(&write, keys)?;
        trust::put(&write, name, keys)
    };
    rows().map_err(&failed)?;
    write.commit().map_err(&failed)?;
    mark_closed(&connection).map_err(&failed)?;
    connection.close().map_err(|(_, error)| failed(error))
}
