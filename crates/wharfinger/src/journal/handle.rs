//! The journal, as everybody sees it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use rusqlite::{Connection, OpenFlags, named_params};
use tokio::sync::watch;

use super::StoreError;
use super::chain::{COLUMNS, Fields, Verified, Verifying, number};
use super::prepare::Redact;
use super::queue::Queue;
use super::record::{Record, Row};
use super::writer::Writer;
use crate::model::hex;

/// Rows that are looked through in one go.
const PIECE: usize = 2000;

/// The journal of this installation, open. Cheap to clone; when the last one goes, what waits is still written, and
/// who wants to be sure of that asks for [`Journal::flush`] first.
#[derive(Clone, Debug)]
pub struct Journal(Arc<Open>);

struct Open {
    queue: Arc<Queue>,
    last: watch::Receiver<u64>,
    cut_off: bool,
    path: PathBuf,
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Open")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.queue.close();
    }
}

/// Which rows are wanted; all of them, where nothing is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// About this agent, or by it.
    pub agent: Option<String>,
    /// About this server.
    pub server: Option<String>,
    /// Of this kind, or of this group of kinds.
    pub kind: Option<String>,
    /// From this moment on: milliseconds since 1970, UTC.
    pub since: Option<u64>,
}

/// Which part of the rows is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The latest.
    Latest,
    /// The latest before the row of that number.
    Before(u64),
    /// The first after the row of that number; 0 is before all of them.
    After(u64),
}

impl Journal {
    /// Opens the journal in a database that a [`Store`](super::Store) has opened before, which gave it its schema.
    /// Keeps the latest `rows` rows. Blocks for a moment.
    pub fn open(path: &Path, rows: usize, redact: Redact) -> Result<Self, StoreError> {
        let queue = Arc::new(Queue::new());
        let writer = Writer::new(path, queue.clone(), redact, rows)?;
        Self::with(path, queue, writer)
    }

    pub(super) fn with(path: &Path, queue: Arc<Queue>, writer: Writer) -> Result<Self, StoreError> {
        let (last, cut_off) = (writer.last(), writer.was_cut_off());
        thread::Builder::new()
            .name("wharfinger-journal".into())
            .spawn(move || writer.run())
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        Ok(Self(Arc::new(Open {
            queue,
            last,
            cut_off,
            path: path.to_owned(),
        })))
    }

    /// Writes a row: it is queued, and on disk a moment later. Waits where the queue is full, so that none is lost.
    pub async fn write(&self, record: Record) {
        self.0.queue.push(record).await;
    }

    /// Writes a row where nobody can wait. Only where tens of thousands wait already it is not written, but counted in
    /// a row of kind `gap`.
    pub fn write_now(&self, record: Record) {
        self.0.queue.push_now(record);
    }

    /// Waits until everything that was written before is on disk, or given up.
    pub async fn flush(&self) {
        self.0.queue.flush().await;
    }

    /// The same, before everything ends: what can't be written is given up after a few seconds.
    pub async fn finish(&self) {
        self.0.queue.finish().await;
    }

    /// The number of the newest row on disk; who follows waits for it to change, and asks for the rows then.
    pub fn last(&self) -> watch::Receiver<u64> {
        self.0.last.clone()
    }

    /// Whether the run before this one ended without a last row, by a crash or a `kill -9`.
    pub fn was_cut_off(&self) -> bool {
        self.0.cut_off
    }

    /// Some rows, the oldest first.
    pub async fn rows(
        &self,
        filter: Filter,
        part: Part,
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        let path = self.0.path.clone();
        read(move || rows(&open_to_read(&path)?, &filter, part, limit)).await
    }

    /// Looks through all rows, and tells whether one was altered or is missing.
    pub async fn verify(&self) -> Result<Verified, StoreError> {
        let path = self.0.path.clone();
        read(move || {
            let (mut db, mut verifying) = (open_to_read(&path)?, Verifying::new());
            loop {
                if let Some(answer) = verifying.go_on(&mut db, PIECE)? {
                    return Ok(answer);
                }
            }
        })
        .await
    }
}

async fn read<T: Send + 'static>(
    job: impl FnOnce() -> Result<T, rusqlite::Error> + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(job).await;
    Ok(done.map_err(|_| StoreError::Closed)??)
}

/// A connection of its own for each look: those who look are few, and it keeps nothing when nobody does.
fn open_to_read(path: &Path) -> Result<Connection, rusqlite::Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(std::time::Duration::from_secs(5))?;
    Ok(db)
}

fn rows(
    db: &Connection,
    filter: &Filter,
    part: Part,
    limit: usize,
) -> Result<Vec<Row>, rusqlite::Error> {
    let (after, before, order) = match part {
        Part::Latest => (0, i64::MAX, "DESC"),
        Part::Before(seq) => (0, whole(seq), "DESC"),
        Part::After(seq) => (whole(seq), i64::MAX, "ASC"),
    };
    let agent_as_who = filter.agent.as_ref().map(|agent| format!("agent:{agent}"));
    let group = filter.kind.as_ref().map(|kind| format!("{kind}."));
    let query = format!(
        "SELECT {COLUMNS} FROM journal WHERE seq > :after AND seq < :before
         AND (:agent IS NULL OR agent = :agent OR who = :who)
         AND (:server IS NULL OR server = :server)
         AND (:kind IS NULL OR kind = :kind OR substr(kind, 1, length(:group)) = :group)
         AND (:since IS NULL OR at >= :since)
         ORDER BY seq {order} LIMIT :limit"
    );
    let mut query = db.prepare_cached(&query)?;
    let mut found = query.query(named_params! {
        ":after": after,
        ":before": before,
        ":agent": filter.agent,
        ":who": agent_as_who,
        ":server": filter.server,
        ":kind": filter.kind,
        ":group": group,
        ":since": filter.since.map(whole),
        ":limit": i64::try_from(limit).unwrap_or(i64::MAX),
    })?;
    let mut rows = vec![];
    while let Some(row) = found.next()? {
        let (fields, hash) = Fields::read(row)?;
        rows.push(told(&fields, &hash));
    }
    if order == "DESC" {
        rows.reverse();
    }
    Ok(rows)
}

fn told(fields: &Fields<'_>, hash: &[u8]) -> Row {
    let own = |text: Option<&str>| text.map(str::to_owned);
    let subject = fields.subject.map(|subject| {
        let json = wharfinger_wire::json::raw_from(subject.to_owned());
        json.unwrap_or_else(|_| wharfinger_wire::json::raw(subject))
    });
    Row {
        seq: number(fields.seq),
        at: number(fields.at),
        kind: fields.kind.to_owned(),
        who: fields.who.to_owned(),
        agent: own(fields.agent),
        session: own(fields.session),
        server: own(fields.server),
        tool: own(fields.tool),
        outcome: fields.outcome.to_owned(),
        millis: fields.millis.map(number),
        approval: own(fields.approval),
        args_digest: own(fields.args_digest),
        preview: own(fields.preview),
        subject,
        text: own(fields.text),
        hash: hex(hash),
    }
}

fn whole(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
