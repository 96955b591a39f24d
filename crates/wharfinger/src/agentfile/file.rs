//! An open file: made, opened, copied, closed.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction, TransactionBehavior,
};
use serde_json::Value;

use super::check::{self, Trust};
use super::lock::OwnerLock;
use super::meta::{READONLY, put_runtime_meta};
use super::unlocking::{self, Unlocked};
use super::{Error, Keys, schema};

/// An agent's file that is open here, and nowhere else.
#[derive(Debug)]
pub struct AgentFile {
    pub(super) path: PathBuf,
    schema: i64,
    is_read_only: bool,
    pub(super) config: ArcSwap<Value>,
    pub(super) keys: Keys,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    connection: Option<Connection>,
    pub unlocked: Unlocked,
    /// Let go when the database is closed.
    lock: Option<OwnerLock>,
}

/// Held by whoever looks at a file without `SQLite`'s locks, so that nobody of this process begins or ends to have it
/// open meanwhile: when a handle is closed, all locks of the process on that file are gone.
pub(super) fn opening() -> MutexGuard<'static, ()> {
    static OPENING: Mutex<()> = Mutex::new(());
    OPENING.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AgentFile {
    /// Opens a file for reading and writing. One that cannot be opened is left as it was, byte for byte.
    pub fn open(path: &Path, keys: &Keys) -> Result<Self, Error> {
        let path = &check::resolve(path)?;
        Self::open_locked(path, keys, OwnerLock::take(path)?)
    }

    pub(super) fn open_locked(path: &Path, keys: &Keys, lock: OwnerLock) -> Result<Self, Error> {
        let failed = Error::sqlite(path);
        let looking = check::reading(path)?;
        let look = check::look(&looking, path, Trust::Opened)?;
        let is_read_only = look.schema > schema::NEWEST;
        let _opening = opening();
        let mut connection = if is_read_only {
            looking
        } else {
            drop(looking);
            alone(path)?;
            writing(path).map_err(&failed)?
        };
        let unlocked = if is_read_only {
            unlocking::unlock(&connection, keys).map_err(&failed)?.0
        } else {
            let write = connection
                .transaction_with_behavior(TransactionBehavior::Immediate)
                .map_err(&failed)?;
            let unlocked = unlocking::open(&write, keys)
                .and_then(|unlocked| {
                    protect(&write)?;
                    write.execute_batch(schema::PINS)?;
                    Ok(unlocked)
                })
                .map_err(&failed)?;
            write
                .execute("DELETE FROM adf_meta WHERE key = 'adf_clean_close'", [])
                .map_err(&failed)?;
            write.commit().map_err(&failed)?;
            unlocked
        };
        Ok(Self {
            path: path.to_owned(),
            schema: look.schema,
            is_read_only,
            config: ArcSwap::new(Arc::new(look.config)),
            keys: keys.clone(),
            state: Mutex::new(State {
                connection: Some(connection),
                unlocked,
                lock: Some(lock),
            }),
        })
    }

    /// Where it is. As long as it is open here, this process must not open it by other means, not even to read it:
    /// whoever closes a file gives up the locks of the whole process on it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The schema of its tables.
    pub fn schema(&self) -> i64 {
        self.schema
    }

    /// Whether it is of a schema that is only read.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Closes it and marks it as closed in good order.
    pub fn close(self) -> Result<(), Error> {
        self.shut()
    }

    /// The same, where others still hold it: from then on it is [`Error::Closed`].
    pub fn shut(&self) -> Result<(), Error> {
        let failed = Error::sqlite(&self.path);
        let mut state = self.state();
        state.unlocked = Unlocked::default();
        let Some(connection) = state.connection.take() else {
            return Ok(());
        };
        let _opening = opening();
        let marked = if self.is_read_only {
            Ok(())
        } else {
            mark_closed(&connection).map_err(&failed)
        };
        let closed = connection.close().map_err(|(_, error)| failed(error));
        state.lock = None;
        closed.and(marked)
    }

    /// Reads.
    pub(super) fn read<T>(
        &self,
        read: impl FnOnce(&Connection, &Unlocked) -> rusqlite::Result<T>,
    ) -> Result<T, Error> {
        let state = self.state();
        let connection = state.connection.as_ref().ok_or(Error::Closed)?;
        read(connection, &state.unlocked).map_err(Error::sqlite(&self.path))
    }

    /// Writes, all or nothing: what the closure changed is kept if it succeeds.
    pub(super) fn write<T, E: From<Error>>(
        &self,
        write: impl FnOnce(&mut Change<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.writable()?;
        let failed = Error::sqlite(&self.path);
        let mut state = self.state();
        let State {
            connection,
            unlocked,
            lock: _,
        } = &mut *state;
        let connection = connection.as_mut().ok_or(Error::Closed)?;
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(&failed)?;
        let mut writing = Change {
            unlocked: unlocked.clone(),
            path: &self.path,
            keys: &self.keys,
            config: None,
            transaction,
        };
        let done = write(&mut writing)?;
        let Change {
            transaction,
            unlocked: known,
            config,
            ..
        } = writing;
        transaction.commit().map_err(&failed)?;
        *unlocked = known;
        // Before the next edit can be made, so that the last one is what is seen.
        if let Some(config) = config {
            self.config.store(Arc::new(config));
        }
        Ok(done)
    }

    pub(super) fn writable(&self) -> Result<(), Error> {
        if !self.is_read_only {
            return Ok(());
        }
        Err(Error::ReadOnly {
            path: self.path.clone(),
            found: self.schema,
        })
    }

    /// Remembers keys, in memory only.
    pub(super) fn know(&self, know: impl FnOnce(&mut Unlocked)) {
        know(&mut self.state().unlocked);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A transaction, and what it may make known when it is kept.
pub(super) struct Change<'a> {
    pub transaction: Transaction<'a>,
    pub unlocked: Unlocked,
    /// The configuration, if it is a new one.
    pub config: Option<Value>,
    pub path: &'a Path,
    pub keys: &'a Keys,
}

impl Change<'_> {
    /// Runs statements; their errors name the file.
    pub(super) fn run<T>(
        &self,
        run: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, Error> {
        run(&self.transaction).map_err(Error::sqlite(self.path))
    }

    /// Refuses rows that were just written, those of which a condition is true, if the next opening would refuse the
    /// whole file for them.
    pub(super) fn fits(
        &self,
        table: &str,
        of: &str,
        values: impl rusqlite::Params,
    ) -> Result<(), Error> {
        let mut bounds = schema::BOUNDS.iter();
        let Some((_, names, bound)) = bounds.find(|(known, ..)| *known == table) else {
            return Ok(());
        };
        let query = schema::oversized(table, names, *bound, of);
        let size: Option<i64> = self.run(|db| {
            let mut query = db.prepare_cached(&query)?;
            query.query_row(values, |row| row.get(0)).optional()
        })?;
        match size {
            None => Ok(()),
            Some(size) => Err(Error::Refused(format!(
                "it would have {size} bytes in {table}, and {bound} are the limit"
            ))),
        }
    }

    /// Likewise for a table that has more rows than are read.
    pub(super) fn is_not_full(&self, table: &str) -> Result<(), Error> {
        let most = schema::most(table);
        let count: i64 = self.run(|db| {
            db.prepare_cached(&format!("SELECT count(*) FROM {table}"))?
                .query_row([], |row| row.get(0))
        })?;
        if count <= most {
            return Ok(());
        }
        Err(Error::Refused(format!(
            "{table} would have {count} rows, and {most} are the limit"
        )))
    }
}

impl Drop for AgentFile {
    fn drop(&mut self) {
        // Nobody is there to hear of it; the next opening looks the file over.
        drop(self.shut());
    }
}

/// A connection that writes.
pub(super) fn writing(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    check::distrust(&connection)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // What was removed is gone: secrets of older files were plain.
    connection.pragma_update(None, "secure_delete", true)?;
    Ok(connection)
}

/// Whether no other program has it open; those who know nothing of our lock have `SQLite`'s.
fn alone(path: &Path) -> Result<(), Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let try_it = || {
        let connection = Connection::open_with_flags(path, flags)?;
        check::distrust(&connection)?;
        // Long enough for somebody who only looks.
        connection.busy_timeout(Duration::from_millis(250))?;
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        connection.execute_batch("BEGIN EXCLUSIVE; ROLLBACK")
    };
    try_it().map_err(|error: rusqlite::Error| match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::InUse {
            path: path.to_owned(),
        },
        _ => Error::sqlite(path)(error),
    })
}

/// DIDs and versions are not for agents to write, in files made before that was so either.
fn protect(connection: &Connection) -> rusqlite::Result<()> {
    for key in READONLY {
        connection.execute(
            "UPDATE adf_meta SET protection = 'readonly' WHERE key = ?1 AND protection <> 'readonly'",
            [key],
        )?;
    }
    Ok(())
}

pub(super) fn mark_closed(connection: &Connection) -> rusqlite::Result<()> {
    let is_blocked: bool =
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    if is_blocked {
        return Ok(());
    }
    put_runtime_meta(connection, "adf_clean_close", "1")
}

/// Milliseconds since 1970.
pub(super) fn now() -> i64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

/// Now, as the format writes times that are text.
pub(super) const ISO_NOW: &str = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')";
