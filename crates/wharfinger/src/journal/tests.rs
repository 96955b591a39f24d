//! The journal as a whole, over real files.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use serde_json::json;
use tempfile::TempDir;
use wharfinger_testkit::poll_until;
use wharfinger_wire::json::raw;

use super::chain::Break;
use super::queue::{BATCH, Queue};
use super::writer::Writer;
use super::*;
use crate::model::{AgentName, ServerName};

const SHORT: Duration = Duration::from_millis(60);

struct Place {
    dir: TempDir,
    redact: Redact,
}

impl Place {
    fn new() -> Self {
        let place = Self {
            dir: tempfile::tempdir().unwrap(),
            redact: Arc::new(|text: &str| Cow::Borrowed(text)),
        };
        drop(Store::open(&place.path()).unwrap());
        place
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("w.db")
    }

    fn open(&self, rows: usize) -> Journal {
        Journal::open(&self.path(), rows, self.redact.clone()).unwrap()
    }

    fn impatient(&self) -> Journal {
        let queue = Arc::new(Queue::new());
        let writer = Writer::new(&self.path(), queue.clone(), self.redact.clone(), 1000).unwrap();
        let writer = writer.with_patience(SHORT, SHORT);
        Journal::with(&self.path(), queue, writer).unwrap()
    }

    /// What somebody else does to the file.
    fn tamper(&self, sql: &str) {
        Connection::open(self.path())
            .unwrap()
            .execute_batch(sql)
            .unwrap();
    }
}

/// The call that all columns are filled by.
fn call(n: u64) -> Record {
    let agent = AgentName::new("bot").unwrap();
    Record {
        at: n,
        session: Some(crate::model::SessionId::new("s-1").unwrap()),
        server: Some(ServerName::new("files").unwrap()),
        tool: Some("read".into()),
        subject: Some(raw(&json!({ "n": n }))),
        arguments: Arguments::Value(raw(&json!({ "path": format!("/{n}") }))),
        outcome: Outcome::Error,
        millis: Some(n),
        approval: Some("a-1".into()),
        text: Some("why".into()),
        ..Record::new(Kind::Call, Who::Agent(agent))
    }
}

async fn write(journal: &Journal, rows: std::ops::RangeInclusive<u64>) {
    for n in rows {
        journal.write(call(n)).await;
    }
    journal.flush().await;
}

async fn found(journal: &Journal) -> Vec<Row> {
    let part = Part::After(0);
    journal
        .rows(Filter::default(), part, 100_000)
        .await
        .unwrap()
}

/// What is wrong after somebody has done this to ten rows.
async fn broken(sql: &str) -> Option<Break> {
    let place = Place::new();
    let journal = place.open(1000);
    write(&journal, 1..=10).await;
    place.tamper(sql);
    journal.verify().await.unwrap().broken
}

#[tokio::test]
async fn rows_come_out_as_they_went_in_and_verify() {
    let place = Place::new();
    {
        let journal = place.open(1000);
        let empty = journal.verify().await.unwrap();
        assert_eq!((empty.rows, empty.first, empty.broken), (0, None, None));
        write(&journal, 1..=3).await;
    }
    // The numbers and the chain go on with the next start.
    let journal = place.open(1000);
    write(&journal, 4..=5).await;
    let rows = found(&journal).await;
    let expect = json!({
        "seq": 2, "at": 2, "kind": "call", "who": "agent:bot", "agent": "bot", "session": "s-1", "server": "files",
        "tool": "read", "outcome": "error", "millis": 2, "approval": "a-1",
        "argsDigest": "64d821bf137dafb263449edee8e4386ef3ae38cfed19ef86ceb31fb97f956339",
        "preview": "{\"path\":\"/2\"}", "subject": { "n": 2 }, "text": "why", "hash": rows[1].hash,
    });
    assert_eq!(serde_json::to_value(&rows[1]).unwrap(), expect);
    let verified = journal.verify().await.unwrap();
    assert_eq!(
        (verified.rows, verified.first, verified.last),
        (5, Some(1), Some(5))
    );
    assert_eq!(
        (verified.hash, verified.broken),
        (rows[4].hash.clone(), None)
    );
}

#[tokio::test]
async fn a_row_that_was_altered_in_any_column_shows() {
    for column in [
        "at",
        "kind",
        "who",
        "agent",
        "session",
        "server",
        "tool",
        "outcome",
        "millis",
        "approval",
        "args_digest",
        "preview",
        "subject",
        "text",
    ] {
        for value in ["'x'", "1000", "NULL"] {
            let number = matches!(column, "at" | "millis");
            let required = matches!(column, "at" | "kind" | "who" | "outcome");
            if (value == "'x'") == number || (value == "NULL" && required) {
                continue;
            }
            let sql = format!("UPDATE journal SET {column} = {value} WHERE seq = 5");
            assert_eq!(broken(&sql).await.map(|at| at.seq), Some(5), "{sql}");
        }
    }
    let hash = broken("UPDATE journal SET hash = zeroblob(32) WHERE seq = 5").await;
    assert_eq!(hash.map(|at| at.seq), Some(5));
    let moved = "UPDATE journal SET agent = server, server = agent WHERE seq = 5";
    assert_eq!(broken(moved).await.map(|at| at.seq), Some(5));
    let kind = broken("UPDATE journal SET hash = 'no hash' WHERE seq = 5").await;
    assert_eq!(kind.unwrap().what, "row 5 can't be read");
    assert_eq!(broken("SELECT 1").await, None);
}

#[tokio::test]
async fn a_row_that_is_missing_put_in_or_moved_shows() {
    let swap =
        "UPDATE journal SET seq = 100 WHERE seq = 4; UPDATE journal SET seq = 4 WHERE seq = 7;
                UPDATE journal SET seq = 7 WHERE seq = 100;";
    let copy = |seq: &str| {
        format!(
            "INSERT INTO journal SELECT {seq}, at, kind, who, agent, session, server, tool, outcome, millis, approval,
             args_digest, preview, subject, text, hash FROM journal WHERE seq = 10"
        )
    };
    for (sql, what) in [
        ("DELETE FROM journal WHERE seq = 1", "row 1 is missing"),
        (
            "DELETE FROM journal WHERE seq <= 3",
            "rows 1 to 3 are missing",
        ),
        ("DELETE FROM journal WHERE seq = 5", "row 5 is missing"),
        ("DELETE FROM journal WHERE seq = 10", "row 10 is missing"),
        (
            "DELETE FROM journal WHERE seq > 8",
            "rows 9 to 10 are missing",
        ),
        ("DELETE FROM journal", "rows 1 to 10 are missing"),
        (
            swap,
            "row 4 is not what was written, or does not follow the one before",
        ),
        (
            &copy("11"),
            "row 11 is not what was written, or does not follow the one before",
        ),
        (
            &copy("0"),
            "row 0 is older than the oldest one that was kept",
        ),
        (
            "DELETE FROM journal_ends",
            "the record of its two ends is missing",
        ),
        (
            "UPDATE journal_ends SET before_seq = 2",
            "row 1 is older than the oldest one that was kept",
        ),
        (
            "UPDATE journal_ends SET last_seq = 9",
            "row 10 is not the one that was written last",
        ),
        (
            "UPDATE journal_ends SET last_hash = zeroblob(32)",
            "row 10 is not the one that was written last",
        ),
        (
            "UPDATE journal_ends SET before_hash = (SELECT hash FROM journal WHERE seq = 10)",
            "row 1 is not what was written, or does not follow the one before",
        ),
    ] {
        assert_eq!(
            broken(sql).await.map(|at| at.what).as_deref(),
            Some(what),
            "{sql}"
        );
    }
}

#[tokio::test]
async fn only_the_latest_are_kept_and_they_verify() {
    let place = Place::new();
    let journal = place.open(100);
    for round in 0..7 {
        write(&journal, round * 150 + 1..=(round + 1) * 150).await;
        let verified = journal.verify().await.unwrap();
        assert_eq!(verified.broken, None);
        assert!(
            (100..=101).contains(&verified.rows) || round == 0,
            "{verified:?}"
        );
    }
    let rows = found(&journal).await;
    assert_eq!(rows.last().map(|row| row.seq), Some(1050));
    // The first of those that are left is held too.
    place.tamper(&format!("DELETE FROM journal WHERE seq = {}", rows[0].seq));
    let broken = journal.verify().await.unwrap().broken.unwrap();
    assert_eq!(broken.what, format!("row {} is missing", rows[0].seq));
}

#[tokio::test]
async fn a_journal_of_many_pieces_verifies_while_it_is_written_and_trimmed() {
    let place = Place::new();
    let journal = place.open(5000);
    write(&journal, 1..=5000).await;
    let writing = write(&journal, 5001..=9000);
    let verifying = async {
        for _ in 0..5 {
            assert_eq!(journal.verify().await.unwrap().broken, None);
        }
    };
    tokio::join!(writing, verifying);
}

/// Whoever brings rows to a full queue waits; none is lost.
#[tokio::test]
async fn a_full_queue_slows_and_loses_nothing() {
    let place = Place::new();
    let queue = Arc::new(Queue::new());
    let writer = Writer::new(&place.path(), queue.clone(), place.redact.clone(), 10_000).unwrap();
    let journal = Journal::with(&place.path(), queue.clone(), writer).unwrap();
    let held = Connection::open(place.path()).unwrap();
    held.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (rows, bringing) = (4096 + BATCH as u64 + 500, journal.clone());
    let brought =
        tokio_util::task::TaskTracker::new().spawn(async move { write(&bringing, 1..=rows).await });
    poll_until("the queue to be full", tokio::time::sleep, || {
        queue.waiting() == 4096
    })
    .await;
    assert!(!brought.is_finished());
    held.execute_batch("COMMIT").unwrap();
    brought.await.unwrap();
    let order: Vec<u64> = found(&journal).await.iter().map(|row| row.at).collect();
    assert_eq!(order, (1..=rows).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_can_not_be_written_for_long_is_counted_in_a_gap() {
    let place = Place::new();
    let journal = place.impatient();
    write(&journal, 1..=2).await;
    let held = Connection::open(place.path()).unwrap();
    held.execute_batch("BEGIN IMMEDIATE").unwrap();
    // These return although nothing can be written.
    write(&journal, 3..=7).await;
    write(&journal, 8..=9).await;
    held.execute_batch("COMMIT").unwrap();
    write(&journal, 10..=10).await;
    let rows = found(&journal).await;
    let kinds: Vec<&str> = rows.iter().map(|row| row.kind.as_str()).collect();
    assert_eq!(kinds, ["call", "call", "gap", "call"]);
    let gap: serde_json::Value =
        serde_json::from_str(rows[2].subject.as_ref().unwrap().get()).unwrap();
    assert_eq!((&gap["rows"], &gap["from"]), (&json!(7), &json!(3)));
    assert_eq!(rows[2].text.as_deref(), Some("database is locked"));
    assert_eq!(journal.verify().await.unwrap().broken, None);
}

/// Whoever ends is not held for long by a disk that takes nothing.
#[tokio::test]
async fn the_end_does_not_wait_for_a_failing_disk() {
    let place = Place::new();
    let queue = Arc::new(Queue::new());
    let writer = Writer::new(&place.path(), queue.clone(), place.redact.clone(), 1000).unwrap();
    let journal = Journal::with(
        &place.path(),
        queue,
        writer.with_patience(Duration::MAX, SHORT),
    )
    .unwrap();
    let held = Connection::open(place.path()).unwrap();
    held.execute_batch("BEGIN IMMEDIATE").unwrap();
    journal.write(call(1)).await;
    journal.finish().await;
    held.execute_batch("COMMIT").unwrap();
    assert_eq!(found(&journal).await.len(), 0);
}

#[tokio::test]
async fn a_short_trouble_loses_nothing() {
    let place = Place::new();
    let journal = place.open(1000);
    // What somebody has put in is in the way of the next row.
    write(&journal, 1..=3).await;
    place.tamper("INSERT INTO journal(seq, at, kind, who, outcome, hash) VALUES (4, 1, 'call', 'owner', 'ok', x'00')");
    write(&journal, 5..=6).await;
    place.tamper("DELETE FROM journal WHERE seq = 4");
    let rows = found(&journal).await;
    assert_eq!(
        rows.iter().map(|row| row.at).collect::<Vec<_>>(),
        [1, 2, 3, 5, 6]
    );
    assert_eq!(
        journal.verify().await.unwrap().broken.unwrap().what,
        "row 4 is missing"
    );
}

#[tokio::test]
async fn what_waits_is_written_when_the_last_handle_goes() {
    let place = Place::new();
    let journal = place.open(1000);
    for n in 1..=20 {
        journal.write_now(call(n));
    }
    drop(journal);
    poll_until("the rows", tokio::time::sleep, || {
        count(&place.path()) == 20
    })
    .await;
}

fn count(path: &Path) -> i64 {
    let db = Connection::open(path).unwrap();
    db.query_row("SELECT count(*) FROM journal", [], |row| row.get(0))
        .unwrap()
}

#[tokio::test]
async fn a_writer_that_has_failed_holds_nobody() {
    let mut place = Place::new();
    place.redact = Arc::new(|_: &str| panic!("on purpose"));
    let journal = place.open(1000);
    for n in 1..=10_000 {
        journal.write(call(n)).await;
    }
    journal.flush().await;
    assert_eq!(found(&journal).await.len(), 0);
}

#[tokio::test]
async fn rows_are_found_by_what_is_asked_for() {
    let place = Place::new();
    let journal = place.open(1000);
    write(&journal, 1..=4).await;
    let agent = AgentName::new("other").unwrap();
    journal
        .write(Record {
            at: 5,
            ..Record::new(Kind::Started, Who::System)
        })
        .await;
    journal
        .write(Record {
            at: 6,
            ..Record::new(Kind::AgentAdded, Who::Agent(agent))
        })
        .await;
    journal.flush().await;
    let check = async |filter: Filter, part: Part, limit: usize, expect: &[u64]| {
        let rows = journal.rows(filter.clone(), part, limit).await.unwrap();
        let found: Vec<u64> = rows.iter().map(|row| row.seq).collect();
        assert_eq!(found, expect, "{filter:?} {part:?} {limit}");
    };
    let text = |text: &str| Some(text.to_owned());
    let (all, latest) = (Filter::default(), Part::Latest);
    check(all.clone(), latest, 2, &[5, 6]).await;
    check(all.clone(), Part::Before(5), 2, &[3, 4]).await;
    check(all.clone(), Part::After(1), 2, &[2, 3]).await;
    check(
        Filter {
            agent: text("other"),
            ..all.clone()
        },
        latest,
        9,
        &[6],
    )
    .await;
    check(
        Filter {
            server: text("files"),
            ..all.clone()
        },
        latest,
        2,
        &[3, 4],
    )
    .await;
    check(
        Filter {
            kind: text("lifecycle"),
            ..all.clone()
        },
        latest,
        9,
        &[5],
    )
    .await;
    check(
        Filter {
            kind: text("config.agent-added"),
            ..all.clone()
        },
        latest,
        9,
        &[6],
    )
    .await;
    check(
        Filter {
            kind: text("config.agent"),
            ..all.clone()
        },
        latest,
        9,
        &[],
    )
    .await;
    check(
        Filter {
            since: Some(4),
            ..all.clone()
        },
        latest,
        9,
        &[4, 5, 6],
    )
    .await;
    check(
        Filter {
            since: Some(2),
            kind: text("call"),
            ..all
        },
        Part::After(2),
        9,
        &[3, 4],
    )
    .await;
}
