//! Files from anybody: opened safely, or refused with the reason and left as they were.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde_json::json;

use super::super::*;
use super::{Made, write};

#[test]
fn one_owner_at_a_time() {
    let made = Made::new();
    let file = made.open();
    let refused = AgentFile::open(&made.path, &made.keys).unwrap_err();
    assert!(matches!(refused, Error::InUse { .. }));
    assert!(refused.to_string().contains("agent.adf"));
    let link = made.dir.path().join("link.adf");
    std::os::unix::fs::symlink(&made.path, &link).unwrap();
    let refused = AgentFile::open(&link, &made.keys).unwrap_err();
    assert!(matches!(refused, Error::InUse { .. }), "by another name");
    let other = AgentFile::create(
        &made.dir.path().join("b.adf"),
        &NewAgent::default(),
        &made.keys,
    )
    .unwrap();
    let seen = peek(&made.path, &made.keys).unwrap();
    assert_eq!(seen.name, "The Agent");
    drop((file, other));
    AgentFile::open(&link, &made.keys).unwrap();
}

#[test]
fn a_program_that_knows_nothing_of_our_lock_is_noticed() {
    let made = Made::new();
    let other = Connection::open(&made.path).unwrap();
    let _: i64 = other
        .query_row("SELECT count(*) FROM adf_meta", [], |row| row.get(0))
        .unwrap();
    let refused = AgentFile::open(&made.path, &made.keys).unwrap_err();
    assert!(matches!(refused, Error::InUse { .. }), "{refused}");
    other.close().unwrap();
    made.open();
}

#[test]
fn a206_schemas_from_28_to_32_are_written_as_they_are() {
    let made = Made::new();
    made.craft(
        "UPDATE adf_meta SET value = '32' WHERE key = 'adf_schema_version';
         ALTER TABLE adf_loop ADD COLUMN loop TEXT NOT NULL DEFAULT 'main';
         ALTER TABLE adf_tasks ADD COLUMN loop TEXT;
         ALTER TABLE adf_logs ADD COLUMN loop TEXT;",
    );
    let file = made.open();
    assert_eq!((file.schema(), file.is_read_only()), (32, false));
    file.add_task(&Task::new("t", "{}")).unwrap();
    file.append_logs(&[LogRow::default()]).unwrap();
    file.close().unwrap();
    let schema = "SELECT value FROM adf_meta WHERE key = 'adf_schema_version'";
    assert_eq!(made.ask::<String>(schema), "32");
}

#[test]
fn a206_a_newer_schema_is_only_read() {
    let made = Made::new();
    made.open()
        .set_secret("key", b"value", SetBy::Owner)
        .unwrap();
    made.craft(
        "UPDATE adf_meta SET value = '33' WHERE key = 'adf_schema_version'; DROP TABLE wharfinger_pins",
    );
    let before = fs::read(&made.path).unwrap();
    let file = made.open();
    assert!(file.is_read_only());
    assert_eq!(file.config()["name"], "The Agent");
    assert_eq!(
        file.secret("key").unwrap().unwrap().open().as_slice(),
        b"value"
    );
    assert_eq!(file.pins().unwrap(), []);
    let refused = file.set_meta("a", "b").unwrap_err().to_string();
    assert!(
        refused.contains("has schema 33 and is only read"),
        "{refused}"
    );
    assert!(file.edit_config(|_| Ok::<_, ()>(())).is_err());
    let copy = made.dir.path().join("copy.adf");
    file.export_to(&copy).unwrap();
    file.close().unwrap();
    assert_eq!(fs::read(&made.path).unwrap(), before);
    assert_eq!(made.names(), ["agent.adf", "copy.adf"]);
}

#[test]
fn a206_an_older_schema_is_refused_with_the_way_out() {
    let made = Made::new();
    made.craft("UPDATE adf_meta SET value = '27' WHERE key = 'adf_schema_version'");
    let refused = made.refused();
    assert!(matches!(refused, Error::Older { found: 27, .. }));
    assert!(refused.to_string().contains("brings it forward"));
    assert!(peek(&made.path, &made.keys).is_err());
}

#[test]
fn what_is_no_agents_file_is_refused_and_left() {
    for (sql, reason) in [
        ("DROP TABLE adf_meta", "no table adf_meta"),
        ("DELETE FROM adf_meta", "does not say which schema"),
        (
            "UPDATE adf_meta SET value = 'x' WHERE key = 'adf_schema_version'",
            "does not say which schema",
        ),
        ("DROP TABLE adf_files", "no table adf_files"),
        (
            "ALTER TABLE adf_identity DROP COLUMN salt",
            "no column salt",
        ),
        (
            "DROP TABLE adf_tasks; CREATE VIEW adf_tasks AS SELECT * FROM adf_logs",
            "no table adf_tasks",
        ),
        (
            "DROP TABLE wharfinger_pins; CREATE TABLE wharfinger_pins (server)",
            "no column tool",
        ),
        ("DELETE FROM adf_config", "it has no configuration"),
        ("UPDATE adf_config SET config_json = '{'", "not JSON"),
        ("UPDATE adf_config SET config_json = '[]'", "not an object"),
        (
            "UPDATE adf_config SET config_json = '{\"a\":' || replace(printf('%500c', '['), ' ', '[') || '}'",
            "not JSON",
        ),
        (
            "UPDATE adf_config SET config_json = zeroblob(9000000)",
            "a row of adf_config has 9000000 bytes",
        ),
        (
            "INSERT INTO adf_identity (purpose, value) VALUES ('a', zeroblob(2000000))",
            "a row of adf_identity has",
        ),
        (
            "INSERT INTO adf_meta (key, value) VALUES ('a', zeroblob(2000000))",
            "a row of adf_meta has",
        ),
        (
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10001)
             INSERT INTO adf_identity (purpose, value) SELECT 'x' || i, '' FROM n",
            "more than 10000 rows",
        ),
    ] {
        let made = Made::new();
        made.craft(sql);
        let refused = made.refused().to_string();
        assert!(refused.contains(reason), "{sql}: {refused}");
    }
}

#[test]
fn what_is_no_database_is_refused_and_left() {
    let made = Made::new();
    let whole = fs::read(&made.path).unwrap();
    for (bytes, reason) in [
        (&b""[..], "no table adf_meta"),
        (b"#!/bin/sh\nexit\n", "not an SQLite database"),
        (&[b'a'; 5000][..], "not an SQLite database"),
        (&whole[..4096], "damaged"),
        (&whole[..whole.len() / 2], "damaged"),
    ] {
        write(&made.path, bytes);
        let refused = made.refused().to_string();
        assert!(refused.contains(reason), "{} bytes: {refused}", bytes.len());
    }
    let refused = AgentFile::open(made.dir.path(), &made.keys).unwrap_err();
    assert!(refused.to_string().contains("it is not a file"));
    let missing = AgentFile::open(&made.dir.path().join("b.adf"), &made.keys).unwrap_err();
    assert!(matches!(missing, Error::Io { .. }));
}

#[test]
fn what_a_crash_left_counts_and_a_refusal_leaves_it() {
    let made = Made::new();
    let crashed = made.dir.path().join("crashed.adf");
    let file = made.open();
    file.set_meta("late", "here").unwrap();
    // As a crash leaves it: the change is in the log only.
    let log = |path: &Path| PathBuf::from(format!("{}-wal", path.display()));
    fs::copy(log(&made.path), log(&crashed)).unwrap();
    drop(file);
    fs::copy(&made.path, &crashed).unwrap();
    let open = AgentFile::open(&crashed, &made.keys).unwrap();
    assert_eq!(open.meta("late").unwrap().unwrap(), "here");
    open.close().unwrap();
    assert_eq!(made.names(), ["agent.adf", "crashed.adf"]);
    // And what says that it is too old.
    let db = Connection::open(&made.path).unwrap();
    db.execute_batch("UPDATE adf_meta SET value = '27' WHERE key = 'adf_schema_version'")
        .unwrap();
    for (from, to) in [(&made.path, &crashed), (&log(&made.path), &log(&crashed))] {
        fs::copy(from, to).unwrap();
    }
    let read = || {
        (
            fs::read(&crashed).unwrap(),
            fs::read(log(&crashed)).unwrap(),
        )
    };
    let before = read();
    let refused = AgentFile::open(&crashed, &made.keys).unwrap_err();
    assert!(matches!(refused, Error::Older { found: 27, .. }));
    assert_eq!(read(), before);
}

#[test]
fn nothing_in_a_files_schema_runs() {
    let made = Made::new();
    made.craft(
        "CREATE TRIGGER t AFTER UPDATE ON adf_config BEGIN UPDATE adf_meta SET value = 'evil' WHERE key = 'status'; END",
    );
    let file = made.open();
    file.edit_config(|config| {
        config["description"] = json!("new");
        Ok::<_, ()>(())
    })
    .unwrap();
    assert_eq!(file.meta("status").unwrap().unwrap(), "");
}
