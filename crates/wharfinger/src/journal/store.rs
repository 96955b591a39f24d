//! `wharfinger.db`: one `SQLite` file, its own thread, versioned schema.

use std::path::Path;
use std::sync::mpsc;
use std::thread;

use rusqlite::{Connection, OptionalExtension, params};
use tokio::sync::oneshot;

use crate::model::KnownName;

/// The schema this program writes.
const SCHEMA: i64 = 4;

/// Why the database could not be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// `SQLite`'s word.
    #[error("database: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// Written by a newer program.
    #[error(
        "the database has schema {found}, this program knows up to {SCHEMA}; use the newer program, or move wharfinger.db away"
    )]
    Newer {
        /// Its schema.
        found: i64,
    },
    /// Its thread is gone: it was closed.
    #[error("the database is closed")]
    Closed,
}

/// What a discovery found, kept by the hash of what was run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveryRow {
    /// Hash of the resolved configuration and what was declared.
    pub key: String,
    /// For people who look into the file.
    pub server: String,
    /// Protocol version spoken.
    pub version: String,
    /// What the server said of itself, JSON.
    pub description: String,
    /// Its tools, a JSON array.
    pub tools: String,
    /// Its other lists, a JSON object.
    pub offers: String,
    /// Milliseconds since 1970.
    pub at: i64,
}

/// An agent of the chat profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentRow {
    /// Its name.
    pub name: String,
    /// Milliseconds since 1970.
    pub created: i64,
}

/// That a server of the owner was connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedRow {
    /// Its name.
    pub server: String,
    /// Hash of what ran.
    pub identity: String,
    /// Milliseconds since 1970.
    pub at: i64,
}

/// A name or URI that several servers offer, and how one of them has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRow {
    /// Of what: `prompt`, `resource` or `template`.
    pub kind: String,
    /// As its server has it.
    pub name: String,
    /// Whose.
    pub server: String,
    /// Whether agents see it as it is; else it is marked with its server.
    pub plain: bool,
}

/// Discoveries of one server that are kept.
const KEPT: i64 = 32;

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// The open database; cheap to clone. The last one to go closes it.
#[derive(Clone, Debug)]
pub struct Store(mpsc::Sender<Job>);

impl Store {
    /// Opens or makes the file (0600), and brings its schema forward. Blocks, for 5 s where another program writes.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        private(path).map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        let mut connection = Connection::open(path)?;
        connection.busy_timeout(std::time::Duration::from_secs(5))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        migrate(&mut connection)?;
        let (jobs, queue) = mpsc::channel::<Job>();
        let run = move || {
            for job in queue {
                job(&mut connection);
            }
        };
        thread::Builder::new()
            .name("wharfinger-db".into())
            .spawn(run)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        Ok(Self(jobs))
    }

    async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> Result<T, rusqlite::Error> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |connection| drop(answer.send(job(connection))));
        self.0.send(job).map_err(|_| StoreError::Closed)?;
        Ok(answered.await.map_err(|_| StoreError::Closed)??)
    }

    /// What was found by this discovery before.
    pub async fn discovery(&self, key: String) -> Result<Option<DiscoveryRow>, StoreError> {
        self.run(move |db| {
            db.prepare_cached(
                "SELECT server, version, description, tools, offers, at FROM discovery WHERE key = ?1",
            )?
            .query_row([&key], |row| {
                Ok(DiscoveryRow {
                    key: key.clone(),
                    server: row.get(0)?,
                    version: row.get(1)?,
                    description: row.get(2)?,
                    tools: row.get(3)?,
                    offers: row.get(4)?,
                    at: row.get(5)?,
                })
            })
            .optional()
        })
        .await
    }

    /// Keeps what a discovery found, and of each server the latest 32 only: clients that declare something new
    /// each time are not to fill the disk.
    pub async fn keep_discovery(&self, row: DiscoveryRow) -> Result<(), StoreError> {
        self.run(move |db| {
            let transaction = db.transaction()?;
            transaction
                .prepare_cached(
                    "INSERT OR REPLACE INTO discovery(key, server, version, description, tools, offers, at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                )?
                .execute(params![
                    row.key,
                    row.server,
                    row.version,
                    row.description,
                    row.tools,
                    row.offers,
                    row.at
                ])?;
            transaction
                .prepare_cached(
                    "DELETE FROM discovery WHERE server = ?1 AND key NOT IN
                     (SELECT key FROM discovery WHERE server = ?1 ORDER BY at DESC LIMIT ?2)",
                )?
                .execute(params![row.server, KEPT])?;
            transaction.commit()
        })
        .await
    }

    /// Forgets a server's discoveries, which names it has, and that it was connected to.
    pub async fn forget_discoveries(&self, server: String) -> Result<(), StoreError> {
        self.run(move |db| {
            db.execute("DELETE FROM discovery WHERE server = ?1", [&server])?;
            db.execute("DELETE FROM claims WHERE server = ?1", [&server])?;
            db.execute("DELETE FROM verified WHERE server = ?1", [&server])?;
            Ok(())
        })
        .await
    }

    /// Which servers were connected to.
    pub async fn verified(&self) -> Result<Vec<VerifiedRow>, StoreError> {
        self.run(|db| {
            db.prepare_cached("SELECT server, identity, at FROM verified")?
                .query_map([], |row| {
                    Ok(VerifiedRow {
                        server: row.get(0)?,
                        identity: row.get(1)?,
                        at: row.get(2)?,
                    })
                })?
                .collect()
        })
        .await
    }

    /// Keeps that a server was connected to; what was known of it before goes.
    pub async fn keep_verified(&self, row: VerifiedRow) -> Result<(), StoreError> {
        self.run(move |db| {
            db.prepare_cached(
                "INSERT OR REPLACE INTO verified(server, identity, at) VALUES (?1, ?2, ?3)",
            )?
            .execute(params![row.server, row.identity, row.at])?;
            Ok(())
        })
        .await
    }

    /// All names and URIs that several servers offer.
    pub async fn claims(&self) -> Result<Vec<ClaimRow>, StoreError> {
        self.run(|db| {
            db.prepare_cached("SELECT kind, name, server, plain FROM claims")?
                .query_map([], |row| {
                    Ok(ClaimRow {
                        kind: row.get(0)?,
                        name: row.get(1)?,
                        server: row.get(2)?,
                        plain: row.get(3)?,
                    })
                })?
                .collect()
        })
        .await
    }

    /// Keeps who has which name or URI.
    pub async fn keep_claims(&self, rows: Vec<ClaimRow>) -> Result<(), StoreError> {
        self.run(move |db| {
            let transaction = db.transaction()?;
            for row in rows {
                transaction
                    .prepare_cached(
                        "INSERT OR REPLACE INTO claims(kind, name, server, plain) VALUES (?1, ?2, ?3, ?4)",
                    )?
                    .execute(params![row.kind, row.name, row.server, row.plain])?;
            }
            transaction.commit()
        })
        .await
    }

    /// Names given to a server's tools.
    pub async fn names(&self, server: String) -> Result<Vec<KnownName>, StoreError> {
        self.run(move |db| {
            db.prepare_cached("SELECT tool, nth, exposed FROM names WHERE server = ?1")?
                .query_map([&server], |row| {
                    let nth: i64 = row.get(1)?;
                    Ok(KnownName {
                        tool: row.get(0)?,
                        nth: usize::try_from(nth).unwrap_or(0),
                        exposed: row.get(2)?,
                    })
                })?
                .collect()
        })
        .await
    }

    /// Keeps names; those of tools that are away stay kept.
    pub async fn keep_names(
        &self,
        server: String,
        names: Vec<KnownName>,
    ) -> Result<(), StoreError> {
        self.run(move |db| {
            let transaction = db.transaction()?;
            for name in names {
                transaction
                    .prepare_cached(
                        "INSERT OR REPLACE INTO names(server, tool, nth, exposed) VALUES (?1, ?2, ?3, ?4)",
                    )?
                    .execute(params![
                        server,
                        name.tool,
                        i64::try_from(name.nth).unwrap_or(i64::MAX),
                        name.exposed
                    ])?;
            }
            transaction.commit()
        })
        .await
    }

    /// All agents, in the order they were made.
    pub async fn agents(&self) -> Result<Vec<AgentRow>, StoreError> {
        self.run(|db| {
            db.prepare_cached("SELECT name, created FROM agents ORDER BY created, name")?
                .query_map([], |row| {
                    Ok(AgentRow {
                        name: row.get(0)?,
                        created: row.get(1)?,
                    })
                })?
                .collect()
        })
        .await
    }

    /// Keeps a new agent; false when there is one of that name.
    pub async fn add_agent(&self, row: AgentRow) -> Result<bool, StoreError> {
        self.run(move |db| {
            let added = db.execute(
                "INSERT OR IGNORE INTO agents(name, created) VALUES (?1, ?2)",
                params![row.name, row.created],
            )?;
            Ok(added > 0)
        })
        .await
    }

    /// Forgets an agent; false when there was none.
    pub async fn remove_agent(&self, name: String) -> Result<bool, StoreError> {
        self.run(move |db| Ok(db.execute("DELETE FROM agents WHERE name = ?1", [&name])? > 0))
            .await
    }
}

/// A new file is its owner's alone; those that `SQLite` puts beside it get the same mode.
fn private(path: &Path) -> std::io::Result<()> {
    let mut options = std::fs::File::options();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}

fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found > SCHEMA {
        return Err(StoreError::Newer { found });
    }
    if found == SCHEMA {
        return Ok(());
    }
    let transaction = connection.transaction()?;
    if found < 1 {
        transaction.execute_batch(
            "CREATE TABLE discovery(key TEXT PRIMARY KEY, server TEXT NOT NULL, version TEXT NOT NULL,
                 description TEXT NOT NULL, tools TEXT NOT NULL, at INTEGER NOT NULL);
             CREATE INDEX discovery_server ON discovery(server);
             CREATE TABLE names(server TEXT NOT NULL, tool TEXT NOT NULL, nth INTEGER NOT NULL,
                 exposed TEXT NOT NULL, PRIMARY KEY(server, tool, nth));
             CREATE TABLE agents(name TEXT PRIMARY KEY, created INTEGER NOT NULL);",
        )?;
    }
    if found < 2 {
        // What was found without the other lists is found out again.
        transaction.execute_batch(
            "DELETE FROM discovery;
             ALTER TABLE discovery ADD COLUMN offers TEXT NOT NULL DEFAULT '{}';
             CREATE TABLE claims(kind TEXT NOT NULL, name TEXT NOT NULL, server TEXT NOT NULL,
                 plain INTEGER NOT NULL, PRIMARY KEY(kind, name, server));",
        )?;
    }
    if found < 3 {
        // What the columns mean is in `record.rs`, how they are hashed in `chain.rs`.
        transaction.execute_batch(
            "CREATE TABLE journal(seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, kind TEXT NOT NULL, who TEXT NOT NULL,
                 agent TEXT, session TEXT, server TEXT, tool TEXT, outcome TEXT NOT NULL, millis INTEGER,
                 approval TEXT, args_digest TEXT, preview TEXT, subject TEXT, text TEXT, hash BLOB NOT NULL);
             CREATE TABLE journal_ends(one INTEGER PRIMARY KEY CHECK (one = 1), before_seq INTEGER NOT NULL,
                 before_hash BLOB NOT NULL, last_seq INTEGER NOT NULL, last_hash BLOB NOT NULL);
             INSERT INTO journal_ends VALUES (1, 0, zeroblob(32), 0, zeroblob(32));",
        )?;
    }
    if found < 4 {
        transaction.execute_batch(
            "CREATE TABLE verified(server TEXT PRIMARY KEY, identity TEXT NOT NULL, at INTEGER NOT NULL);",
        )?;
    }
    transaction.pragma_update(None, "user_version", SCHEMA)?;
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_kept_is_there_after_opening_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("w.db");
        let row = DiscoveryRow {
            key: "k".into(),
            server: "s".into(),
            version: "2025-11-25".into(),
            description: "{}".into(),
            tools: "[]".into(),
            offers: "{}".into(),
            at: 7,
        };
        let claim = ClaimRow {
            kind: "prompt".into(),
            name: "p".into(),
            server: "s".into(),
            plain: true,
        };
        let name = KnownName {
            tool: "a.b".into(),
            nth: 1,
            exposed: "a_b_2".into(),
        };
        {
            let store = Store::open(&path).unwrap();
            store.keep_discovery(row.clone()).await.unwrap();
            store.keep_claims(vec![claim.clone()]).await.unwrap();
            store
                .keep_names("s".into(), vec![name.clone()])
                .await
                .unwrap();
            let verified = |at| VerifiedRow {
                server: "s".into(),
                identity: format!("i{at}"),
                at,
            };
            store.keep_verified(verified(1)).await.unwrap();
            store.keep_verified(verified(2)).await.unwrap();
            assert_eq!(store.verified().await.unwrap(), [verified(2)]);
            let agent = AgentRow {
                name: "default".into(),
                created: 1,
            };
            assert!(store.add_agent(agent.clone()).await.unwrap());
            assert!(!store.add_agent(agent).await.unwrap());
        }
        let store = Store::open(&path).unwrap();
        assert_eq!(
            store.discovery("k".into()).await.unwrap(),
            Some(row.clone())
        );
        assert_eq!(store.claims().await.unwrap(), [claim]);
        for n in 0..KEPT {
            let key = format!("k{n}");
            let at = 8 + n;
            store
                .keep_discovery(DiscoveryRow {
                    key,
                    at,
                    ..row.clone()
                })
                .await
                .unwrap();
        }
        assert_eq!(
            store.discovery("k".into()).await.unwrap(),
            None,
            "the oldest of too many"
        );
        assert_eq!(store.discovery("other".into()).await.unwrap(), None);
        assert_eq!(store.names("s".into()).await.unwrap(), [name]);
        assert_eq!(store.agents().await.unwrap().len(), 1);
        assert!(store.remove_agent("default".into()).await.unwrap());
        store.forget_discoveries("s".into()).await.unwrap();
        assert_eq!(store.discovery("k0".into()).await.unwrap(), None);
        assert_eq!(store.claims().await.unwrap(), []);
        assert_eq!(store.verified().await.unwrap(), []);
    }

    #[test]
    fn an_older_database_is_brought_forward() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("w.db");
        let db = Connection::open(&path).unwrap();
        db.execute_batch(
            "CREATE TABLE discovery(key TEXT PRIMARY KEY, server TEXT NOT NULL, version TEXT NOT NULL,
                 description TEXT NOT NULL, tools TEXT NOT NULL, at INTEGER NOT NULL);
             CREATE TABLE names(server TEXT NOT NULL, tool TEXT NOT NULL, nth INTEGER NOT NULL,
                 exposed TEXT NOT NULL, PRIMARY KEY(server, tool, nth));
             CREATE TABLE agents(name TEXT PRIMARY KEY, created INTEGER NOT NULL);
             INSERT INTO discovery VALUES ('k', 's', 'v', '{}', '[]', 1);
             INSERT INTO agents VALUES ('default', 1);
             PRAGMA user_version = 1;",
        )
        .unwrap();
        drop(db);
        drop(Store::open(&path).unwrap());
        let db = Connection::open(&path).unwrap();
        let count = |table: &str| -> i64 {
            let query = format!("SELECT count(*) FROM {table}");
            db.query_row(&query, [], |row| row.get(0)).unwrap()
        };
        assert_eq!(
            (count("discovery"), count("agents"), count("claims")),
            (0, 1, 0)
        );
    }

    #[test]
    fn a_newer_database_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("w.db");
        drop(Store::open(&path).unwrap());
        let db = Connection::open(&path).unwrap();
        db.pragma_update(None, "user_version", SCHEMA + 1).unwrap();
        drop(db);
        assert!(matches!(
            Store::open(&path),
            Err(StoreError::Newer { found }) if found == SCHEMA + 1
        ));
    }
}
