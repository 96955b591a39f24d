//! The one that writes: a thread of its own with a connection of its own, so that reads of the database do not wait
//! for it. It takes what has come, and writes it in one transaction.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use serde_json::json;
use tokio::sync::watch;
use wharfinger_wire::json::raw;

use super::chain::{COLUMNS, Ends, Hash, Link, NONE, ends};
use super::prepare::{Prepared, Redact};
use super::queue::{Batch, Queue};
use super::record::{Kind, Outcome, Record, Who, now};

/// How long what can't be written is tried again, while those who bring more wait.
const PATIENCE: Duration = Duration::from_secs(30);

/// The same where somebody waits for the end.
const LAST_PATIENCE: Duration = Duration::from_secs(3);

/// The pause before it is tried again; doubled with each time.
const PAUSE: Duration = Duration::from_millis(50);

/// Rows that are removed at once, for being too many.
const TRIMMED: i64 = 2000;

/// What the writer works with.
pub(super) struct Writer {
    db: Connection,
    queue: Arc<Queue>,
    redact: Redact,
    /// Rows that are kept.
    rows: i64,
    patience: Duration,
    last_patience: Duration,
    /// The number of the newest row.
    last: watch::Sender<u64>,
    /// The run before did not end as it should.
    cut_off: bool,
    ends: Ends,
    buffer: Vec<u8>,
    insert: String,
    trouble: Option<Trouble>,
    lost: Option<Lost>,
}

/// The disk does not take rows.
struct Trouble {
    since: Instant,
    /// Those who bring rows do not wait for it any more.
    given_up: bool,
    why: String,
}

/// Rows that could not be written.
struct Lost {
    rows: u64,
    from: u64,
    to: u64,
}

impl Writer {
    pub(super) fn new(
        path: &Path,
        queue: Arc<Queue>,
        redact: Redact,
        rows: usize,
    ) -> Result<Self, rusqlite::Error> {
        let db = Connection::open(path)?;
        db.busy_timeout(Duration::from_secs(5))?;
        db.pragma_update(None, "synchronous", "NORMAL")?;
        // It writes at one end and removes at the other; 512 KiB of pages are plenty.
        db.pragma_update(None, "cache_size", -512)?;
        let ends = known_ends(&db)?;
        let last = watch::Sender::new(super::chain::number(ends.last.seq));
        let cut_off = is_cut_off(&db)?;
        let places: Vec<String> = (1..=16).map(|place| format!("?{place}")).collect();
        Ok(Self {
            db,
            queue,
            redact,
            rows: i64::try_from(rows).unwrap_or(i64::MAX).max(1),
            patience: PATIENCE,
            last_patience: LAST_PATIENCE,
            last,
            cut_off,
            ends,
            buffer: vec![],
            insert: format!(
                "INSERT INTO journal({COLUMNS}) VALUES ({})",
                places.join(", ")
            ),
            trouble: None,
            lost: None,
        })
    }

    /// For tests: gives up sooner.
    #[cfg(test)]
    pub(super) fn with_patience(mut self, patience: Duration, last: Duration) -> Self {
        (self.patience, self.last_patience) = (patience, last);
        self.db.busy_timeout(Duration::from_millis(1)).unwrap();
        self
    }

    /// The number of the newest row that is written.
    pub(super) fn last(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }

    /// Whether the last run ended without saying so.
    pub(super) fn was_cut_off(&self) -> bool {
        self.cut_off
    }

    /// Writes until the queue is closed and empty.
    pub(super) fn run(mut self) {
        let queue = self.queue.clone();
        let _end = End(queue.clone());
        loop {
            let all = self
                .trouble
                .as_ref()
                .is_some_and(|trouble| trouble.given_up);
            let Some(Batch { records, lost }) = queue.take(all) else {
                break;
            };
            let count = records.len();
            if lost > 0 {
                self.lose(lost, now(), now());
            }
            let (from, to) = (first_at(&records), now());
            let redact = self.redact.clone();
            let rows: Vec<Prepared> = records
                .into_iter()
                .map(|record| Prepared::new(record, &redact))
                .collect();
            if !self.put(&rows) {
                self.lose(rows.len() as u64, from, to);
            }
            queue.done(count);
        }
        // What is lost at the very end can be told to the log alone.
        if self.lost.is_some() && !self.put(&[]) {
            let rows = self.lost.as_ref().map_or(0, |lost| lost.rows);
            tracing::error!(
                "the journal ends with {rows} rows missing, which could not be written"
            );
        }
    }

    /// Writes rows, again and again where that fails; false when it is given up.
    fn put(&mut self, rows: &[Prepared]) -> bool {
        let mut pause = PAUSE;
        loop {
            let error = match self.commit(rows) {
                Ok(()) => {
                    if self.trouble.take().is_some() {
                        tracing::info!("the journal is written again");
                    }
                    return true;
                }
                Err(error) => error,
            };
            let trouble = self.trouble.get_or_insert_with(|| {
                tracing::warn!("the journal can't be written, which is tried again: {error}");
                Trouble {
                    since: Instant::now(),
                    given_up: false,
                    why: String::new(),
                }
            });
            trouble.why = error.to_string();
            if trouble.given_up {
                return false;
            }
            let ends = self.queue.sleep(pause);
            pause = (pause * 2).min(Duration::from_secs(2));
            let patience = if ends {
                self.last_patience.min(self.patience)
            } else {
                self.patience
            };
            if trouble.since.elapsed() >= patience {
                trouble.given_up = true;
                tracing::error!(
                    "the journal can't be written, and rows are lost until it can; how many it will tell itself: {error}"
                );
                return false;
            }
        }
    }

    fn lose(&mut self, rows: u64, from: u64, to: u64) {
        let lost = self.lost.get_or_insert(Lost { rows: 0, from, to });
        lost.rows += rows;
        lost.to = to;
    }

    /// The row that tells of lost ones.
    fn gap(&self) -> Option<Prepared> {
        let lost = self.lost.as_ref()?;
        let why = self.trouble.as_ref().map(|trouble| trouble.why.clone());
        let subject = json!({ "rows": lost.rows, "from": lost.from, "to": lost.to });
        let record = Record {
            outcome: Outcome::Error,
            subject: Some(raw(&subject)),
            text: why.or_else(|| Some("there were too many at once".into())),
            ..Record::new(Kind::Gap, Who::System)
        };
        Some(Prepared::new(record, &self.redact))
    }

    /// All of it in one transaction, or nothing.
    fn commit(&mut self, rows: &[Prepared]) -> Result<(), rusqlite::Error> {
        let gap = self.gap();
        if self.trouble.is_some() {
            // Another program may have been at it meanwhile.
            self.ends = known_ends(&self.db)?;
        }
        let mut ends = self.ends;
        let transaction = self
            .db
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        {
            let mut insert = transaction.prepare_cached(&self.insert)?;
            for row in gap.iter().chain(rows) {
                let fields = row.fields(ends.last.seq + 1);
                let hash = fields.hash(&ends.last.hash, &mut self.buffer);
                insert.execute(params![
                    fields.seq,
                    fields.at,
                    fields.kind,
                    fields.who,
                    fields.agent,
                    fields.session,
                    fields.server,
                    fields.tool,
                    fields.outcome,
                    fields.millis,
                    fields.approval,
                    fields.args_digest,
                    fields.preview,
                    fields.subject,
                    fields.text,
                    hash,
                ])?;
                ends.last = Link {
                    seq: fields.seq,
                    hash,
                };
            }
        }
        trim(&transaction, &mut ends, self.rows)?;
        keep_ends(&transaction, &ends)?;
        if let Err(error) = transaction.commit() {
            // Told to have failed when it has not, the rows would be there twice.
            let there = known_ends(&self.db).is_ok_and(|known| known.last == ends.last);
            if !there {
                return Err(error);
            }
        }
        self.ends = ends;
        self.lost = None;
        self.last.send_replace(super::chain::number(ends.last.seq));
        Ok(())
    }
}

/// The end of the writer, also by a panic: nobody is to wait for it any more.
struct End(Arc<Queue>);

impl Drop for End {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("the journal has failed, and writes no more rows until the next start");
        }
        self.0.end();
    }
}

/// When the first of them was.
fn first_at(records: &[Record]) -> u64 {
    records.first().map_or_else(now, |record| record.at)
}

/// Removes the oldest rows, where there are more than are kept; a few with each batch, so that none takes long.
fn trim(db: &Transaction<'_>, ends: &mut Ends, rows: i64) -> Result<(), rusqlite::Error> {
    let much = ends.last.seq - ends.before.seq - rows;
    // Not one by one: a hundredth more than are kept is fine.
    if much <= (rows / 100).min(TRIMMED / 2) {
        return Ok(());
    }
    let seq = ends.before.seq + much.min(TRIMMED);
    let hash: Hash = db
        .prepare_cached("SELECT hash FROM journal WHERE seq = ?1")?
        .query_row([seq], |row| row.get(0))
        // One that somebody has removed can't be kept from showing by removing those before it.
        .unwrap_or(NONE);
    db.prepare_cached("DELETE FROM journal WHERE seq <= ?1")?
        .execute([seq])?;
    ends.before = Link { seq, hash };
    Ok(())
}

fn keep_ends(db: &Connection, ends: &Ends) -> Result<(), rusqlite::Error> {
    db.prepare_cached(
        "INSERT OR REPLACE INTO journal_ends(one, before_seq, before_hash, last_seq, last_hash)
         VALUES (1, ?1, ?2, ?3, ?4)",
    )?
    .execute(params![
        ends.before.seq,
        ends.before.hash,
        ends.last.seq,
        ends.last.hash
    ])
    .map(drop)
}

/// The ends as they are kept. Whatever somebody did to the rows, the next number is a new one; that the rows do not
/// fit shows when they are looked through.
fn known_ends(db: &Connection) -> Result<Ends, rusqlite::Error> {
    let nothing = Link { seq: 0, hash: NONE };
    let newest: Option<i64> = db.query_row("SELECT max(seq) FROM journal", [], |row| row.get(0))?;
    let mut known = ends(db)?.unwrap_or(Ends {
        before: nothing,
        last: nothing,
    });
    known.last.seq = known.last.seq.max(newest.unwrap_or(0));
    Ok(known)
}

/// Whether the last word about the wharf itself is that it started.
fn is_cut_off(db: &Connection) -> Result<bool, rusqlite::Error> {
    let (started, stopped) = (Kind::Started.as_str(), Kind::Stopped.as_str());
    let last: Option<String> = db
        .query_row(
            "SELECT kind FROM journal WHERE kind IN (?1, ?2) AND server IS NULL ORDER BY seq DESC LIMIT 1",
            [started, stopped],
            |row| row.get(0),
        )
        .optional()?;
    Ok(last.as_deref() == Some(started))
}
