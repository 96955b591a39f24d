//! Making, editing, copying; files are looked at and crafted with `SQLite` itself.

mod crafted;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::*;

/// Puts bytes in a file.
pub(super) fn write(path: &Path, bytes: &[u8]) {
    let mut file = fs::File::create(path).unwrap();
    file.write_all(bytes).unwrap();
}

/// A folder with a file in it that is not open.
pub(super) struct Made {
    pub dir: TempDir,
    pub path: PathBuf,
    pub keys: Keys,
}

impl Made {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let made = Self {
            path: dir.path().join("agent.adf"),
            dir,
            keys: Keys::generate(),
        };
        let new = NewAgent {
            name: "The Agent".into(),
            meta: vec![("wharfinger_profile".into(), "agent".into())],
            config: json!({"model": {"provider": "anthropic"}, "x-ours": {"b": 1, "a": 2.5}}),
        };
        AgentFile::create(&made.path, &new, &made.keys)
            .unwrap()
            .close()
            .unwrap();
        made
    }

    pub(super) fn open(&self) -> AgentFile {
        AgentFile::open(&self.path, &self.keys).unwrap()
    }

    /// Changes it behind its back.
    pub(super) fn craft(&self, sql: &str) {
        let db = Connection::open(&self.path).unwrap();
        db.execute_batch(sql).unwrap();
        db.close().unwrap();
    }

    pub(super) fn ask<T: rusqlite::types::FromSql>(&self, sql: &str) -> T {
        let db = Connection::open(&self.path).unwrap();
        db.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    /// Names in the folder.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Tries to open it, and says why it was not. Nothing in the folder may have changed.
    pub(super) fn refused(&self) -> Error {
        let hash = || Sha256::digest(fs::read(&self.path).unwrap());
        let before = (hash(), self.names());
        let refused = AgentFile::open(&self.path, &self.keys).unwrap_err();
        assert_eq!((hash(), self.names()), before, "{refused}");
        refused
    }
}

#[test]
fn a205_a_new_file_is_whole_private_and_alone() {
    let made = Made::new();
    assert_eq!(made.names(), ["agent.adf"]);
    let mode = fs::metadata(&made.path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    assert_eq!(made.ask::<String>("PRAGMA integrity_check"), "ok");
    let names = |kind: &str| -> String {
        made.ask(&format!(
            "SELECT group_concat(name, ' ') FROM (SELECT name FROM sqlite_schema
             WHERE type = '{kind}' AND name NOT LIKE 'sqlite%' ORDER BY name)"
        ))
    };
    assert_eq!(
        names("table"),
        "adf_attestations adf_audit adf_config adf_files adf_identity adf_inbox adf_logs adf_loop adf_meta \
         adf_outbox adf_tasks adf_timers wharfinger_pins"
    );
    assert_eq!(
        names("index"),
        "idx_adf_attestations_subject idx_adf_audit_source_start idx_adf_inbox_from idx_adf_inbox_message_id \
         idx_adf_inbox_received idx_adf_inbox_source idx_adf_inbox_status idx_adf_inbox_thread \
         idx_adf_logs_level idx_adf_logs_origin idx_adf_outbox_message_id idx_adf_outbox_status \
         idx_adf_outbox_thread idx_adf_tasks_status idx_adf_timers_wake"
    );
    let db = Connection::open(&made.path).unwrap();
    for wrong in [
        "INSERT INTO adf_config VALUES (2, '{}', '')",
        "INSERT INTO adf_meta VALUES ('a', 'b', 'secret')",
        "INSERT INTO adf_files VALUES ('a', '', NULL, 0, 'all', 0, '', '')",
        "INSERT INTO adf_meta VALUES ('a', NULL, 'none')",
        "INSERT INTO adf_tasks (id, tool, created_at) VALUES ('a', NULL, 1)",
        "INSERT INTO adf_logs (message) VALUES ('a')",
    ] {
        assert!(db.execute(wrong, []).is_err(), "{wrong}");
    }
}

#[test]
fn a204_an_open_file_has_a_log_beside_it_and_a_closed_one_has_not() {
    let made = Made::new();
    let file = made.open();
    assert_eq!(
        file.read(|db, _| db.query_row("PRAGMA journal_mode", [], |row| row.get::<_, String>(0)))
            .unwrap(),
        "wal"
    );
    let number = |name: &str| {
        file.read(|db, _| db.pragma_query_value(None, name, |row| row.get::<_, i64>(0)))
            .unwrap()
    };
    assert_eq!(number("synchronous"), 1);
    assert_eq!(number("busy_timeout"), 5000);
    assert_eq!(number("foreign_keys"), 1);
    file.close().unwrap();
    assert_eq!(made.names(), ["agent.adf"]);
}

#[test]
fn a208_a_file_says_what_it_is() {
    let made = Made::new();
    let file = made.open();
    let metas = file.metas().unwrap();
    let get = |key: &str| metas[key].as_str();
    assert_eq!(get("adf_version"), "0.2");
    assert_eq!(get("adf_schema_version"), "28");
    assert_eq!(get("adf_name"), "The Agent");
    assert_eq!(get("adf_handle"), "the-agent");
    assert_eq!(get("adf_owner_did"), made.keys.owner_did());
    assert_eq!(get("adf_runtime_did"), made.keys.runtime_did());
    assert!(get("adf_did").starts_with("did:key:z6Mk"));
    assert_eq!(get("wharfinger_profile"), "agent");
    file.close().unwrap();
    let open: i64 = made.ask("SELECT count(*) FROM adf_meta WHERE protection <> 'readonly'");
    assert_eq!(open, 1, "the agent's own `status`");
}

#[test]
fn a208_p35_names_of_the_format_are_neither_written_nor_invented() {
    let made = Made::new();
    made.craft("UPDATE adf_meta SET protection = 'none'");
    let file = made.open();
    for key in ["adf_did", "ADF_did", "adf_made_up", "", "a\nb"] {
        assert!(file.set_meta(key, "x").is_err(), "{key}");
    }
    file.set_meta("wharfinger_profile", "chat").unwrap();
    assert_eq!(file.meta("wharfinger_profile").unwrap().unwrap(), "chat");
    file.close().unwrap();
    let open: String = made.ask(
        "SELECT group_concat(key, ' ') FROM (SELECT key FROM adf_meta
         WHERE protection = 'readonly' ORDER BY key)",
    );
    assert_eq!(
        open,
        "adf_clean_close adf_did adf_owner_did adf_runtime_did adf_schema_version adf_version",
        "in older files too"
    );
}

#[test]
fn a209_a_file_says_that_it_was_closed_well() {
    let made = Made::new();
    let count = "SELECT count(*) FROM adf_meta WHERE key = 'adf_clean_close'";
    assert_eq!(made.ask::<i64>(count), 1);
    let file = made.open();
    assert_eq!(file.meta("adf_clean_close").unwrap(), None);
    drop(file);
    assert_eq!(made.ask::<i64>(count), 1);
}

#[test]
fn a209_a_file_that_was_not_closed_is_looked_over() {
    let made = Made::new();
    made.craft("CREATE TABLE local_big (a); INSERT INTO local_big VALUES (zeroblob(400000));");
    let damage = || {
        let mut bytes = fs::read(&made.path).unwrap();
        let at = bytes.len() - 4096 * 20;
        bytes[at..at + 4].copy_from_slice(&[0xff; 4]);
        write(&made.path, &bytes);
    };
    damage();
    made.open().close().unwrap();
    made.craft("DELETE FROM adf_meta WHERE key = 'adf_clean_close'");
    let refused = made.refused().to_string();
    assert!(refused.contains("it is damaged"), "{refused}");
}

#[test]
fn a211_a_configuration_begins_with_all_its_members() {
    let made = Made::new();
    let file = made.open();
    let config = file.config();
    for member in [
        "/adf_version",
        "/name",
        "/description",
        "/instructions",
        "/model/provider",
        "/model/model_id",
        "/model/multimodal/image",
        "/model/multimodal/audio",
        "/model/multimodal/video",
        "/tools",
        "/mcp/servers",
        "/mcp/new_tools_restricted",
        "/compute/enabled",
        "/compute/host_access",
        "/compute/browser",
        "/compute/packages",
        "/limits",
        "/security",
        "/code_execution",
        "/logging",
        "/locked_fields",
        "/metadata/created_at",
    ] {
        assert!(config.pointer(member).is_some(), "{member}");
    }
    assert_eq!(config["id"].as_str().unwrap().len(), 12);
    assert_eq!(config["model"]["provider"], "anthropic");
    assert_eq!(config["x-ours"].to_string(), r#"{"b":1,"a":2.5}"#);
}

#[test]
fn a207_an_edit_changes_what_it_changes() {
    let made = Made::new();
    made.craft(
        r#"UPDATE adf_config SET config_json = '{"zeta":[1,2.5,1e3,18446744073709551615,-0.0],"mcp":{"servers":[],"own":null},"a":"b"}',
               updated_at = 'then';
           ALTER TABLE adf_config ADD COLUMN extra TEXT DEFAULT 'kept';"#,
    );
    let file = made.open();
    file.edit_config(|_| Ok::<_, ()>(())).unwrap();
    file.close().unwrap();
    assert_eq!(
        made.ask::<String>("SELECT updated_at FROM adf_config"),
        "then",
        "nothing was changed"
    );
    let file = made.open();
    let before = file.config();
    let servers = file
        .edit_config(|config| {
            config["mcp"]["servers"] = json!([{"name": "x"}]);
            Ok::<_, ()>(1)
        })
        .unwrap();
    assert_eq!(servers, 1);
    assert_eq!(before["mcp"]["servers"], json!([]), "a snapshot");
    assert_eq!(file.config()["mcp"]["servers"], json!([{"name": "x"}]));
    file.close().unwrap();
    assert_eq!(
        made.ask::<String>("SELECT config_json FROM adf_config"),
        r#"{"zeta":[1,2.5,1000.0,18446744073709551615,-0.0],"mcp":{"servers":[{"name":"x"}],"own":null},"a":"b"}"#
    );
    let updated: String = made.ask("SELECT updated_at || extra FROM adf_config");
    assert!(
        updated.ends_with("Zkept") && updated.len() == 28,
        "{updated}"
    );
}

#[test]
fn p6_an_edit_begins_with_what_the_file_has_now() {
    let made = Made::new();
    let file = Arc::new(made.open());
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let file = Arc::clone(&file);
            std::thread::spawn(move || {
                for _ in 0..25 {
                    let add = |config: &mut Value| {
                        let count = config["limits"]["count"].as_i64().unwrap_or(0);
                        config["limits"]["count"] = json!(count + 1);
                        Ok::<_, ()>(())
                    };
                    file.edit_config(add).unwrap();
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(file.config()["limits"]["count"], 100);
}

#[test]
fn p36_an_edit_that_fails_changes_nothing() {
    let made = Made::new();
    let file = made.open();
    let before = file.config();
    let refused = file.edit(|draft| {
        draft.config["name"] = json!("other");
        draft.pins.push(PinRow::default());
        Err::<(), _>("no")
    });
    assert!(matches!(refused, Err(EditError::Refused("no"))));
    let refused = file.edit_config(|config| {
        *config = json!([]);
        Ok::<_, ()>(())
    });
    assert!(matches!(refused, Err(EditError::File(Error::Refused(_)))));
    let refused = file.edit_config(|config| {
        config["name"] = json!("x".repeat(9 << 20));
        Ok::<_, ()>(())
    });
    assert!(matches!(refused, Err(EditError::File(Error::Refused(_)))));
    assert_eq!((file.config(), file.pins().unwrap()), (before, vec![]));
}

#[test]
fn configuration_and_pins_change_together() {
    let made = Made::new();
    let file = made.open();
    let pin = |server: &str, tool: &str| PinRow {
        server: server.into(),
        tool: tool.into(),
        exposed: format!("mcp_{server}_{tool}"),
        listed_for: "hash".into(),
        reviewed: Some("{}".into()),
        ..PinRow::default()
    };
    file.put_pins(&[pin("a", "1"), pin("a", "2"), pin("b", "1")])
        .unwrap();
    file.edit(|draft| {
        draft.config["name"] = json!("renamed");
        draft.pins.retain(|row| row.tool != "2");
        draft.pins[0].change = Some("[]".into());
        draft.pins.push(pin("c", "1"));
        Ok::<_, ()>(())
    })
    .unwrap();
    let changed = PinRow {
        change: Some("[]".into()),
        ..pin("a", "1")
    };
    assert_eq!(
        file.pins().unwrap(),
        [changed.clone(), pin("b", "1"), pin("c", "1")]
    );
    file.remove_pins("b").unwrap();
    file.close().unwrap();
    let file = made.open();
    assert_eq!(file.pins().unwrap(), [changed, pin("c", "1")]);
    assert_eq!(file.meta("adf_name").unwrap().unwrap(), "renamed");
}

#[test]
fn a_file_may_be_used_from_anywhere() {
    fn check<T: Send + Sync>() {}
    check::<AgentFile>();
    check::<Keys>();
}

#[test]
fn nothing_is_made_over_a_file_that_is_there() {
    let made = Made::new();
    let before = fs::read(&made.path).unwrap();
    let refused = AgentFile::create(&made.path, &NewAgent::default(), &made.keys).unwrap_err();
    assert!(matches!(refused, Error::Exists { .. }));
    let refused = made.open().export_to(&made.path).unwrap_err();
    assert!(matches!(refused, Error::Exists { .. }));
    assert_eq!(made.names(), ["agent.adf"]);
    assert_eq!(fs::read(&made.path).unwrap().len(), before.len());
}

#[test]
fn a_new_file_that_fails_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.adf");
    for new in [
        NewAgent {
            config: json!([1]),
            ..NewAgent::default()
        },
        NewAgent {
            meta: vec![("adf_made_up".into(), String::new())],
            ..NewAgent::default()
        },
    ] {
        assert!(AgentFile::create(&path, &new, &Keys::generate()).is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}

#[test]
fn a_look_shows_what_is_there_and_writes_nothing() {
    let made = Made::new();
    made.open()
        .edit_config(|config| {
            config["mcp"]["servers"] = json!([{"name": "x", "command": "y"}, 7]);
            Ok::<_, ()>(())
        })
        .unwrap();
    let before = fs::read(&made.path).unwrap();
    let seen = peek(&made.path, &made.keys).unwrap();
    assert_eq!(seen.name, "The Agent");
    assert_eq!(seen.schema, 28);
    assert!(seen.is_ours);
    assert_eq!(
        seen.servers,
        [json!({"name": "x", "command": "y"}), json!(7)]
    );
    let others = peek(&made.path, &Keys::generate()).unwrap();
    assert!(!others.is_ours);
    assert_eq!(others.owner_did.as_deref(), Some(made.keys.owner_did()));
    assert_eq!(fs::read(&made.path).unwrap(), before);
    assert_eq!(made.names(), ["agent.adf"]);
}

#[test]
fn a_copy_is_whole_private_and_closed_well() {
    let made = Made::new();
    made.craft("CREATE TABLE local_things (a); INSERT INTO local_things VALUES (1);");
    let file = made.open();
    file.set_secret("key", b"value", SetBy::Owner).unwrap();
    let copy = made.dir.path().join("copy.adf");
    file.export_to(&copy).unwrap();
    assert_eq!(
        made.names()
            .iter()
            .filter(|name| name.starts_with("copy"))
            .count(),
        1
    );
    let mode = fs::metadata(&copy).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let db = Connection::open(&copy).unwrap();
    let count: i64 = db
        .query_row(
            "SELECT count(*) FROM adf_meta, local_things WHERE key = 'adf_clean_close'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(count, 1);
    drop(db);
    let open = AgentFile::open(&copy, &made.keys).unwrap();
    assert_eq!(
        open.secret("key").unwrap().unwrap().open().as_slice(),
        b"value"
    );
}
