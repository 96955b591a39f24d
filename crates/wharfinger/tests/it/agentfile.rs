//! Agents' files between hands: what Node and Python wrote by the format is read here, and the other way round; and
//! what is left when the program is killed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rusqlite::{Connection, params};
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use wharfinger::agentfile::{
    AgentFile, Envelope, EnvelopeState, FileWrite, Keys, LogRow, NewAgent, SetBy, Task, TaskChange,
    TaskStatus, Writing, reveal,
};
use wharfinger::model::Secret;
use wharfinger_testkit::installed;

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/vectors")
        .join(name)
}

/// A folder with an agent's file, and its owner.
struct Desk {
    dir: TempDir,
    path: PathBuf,
    keys: Keys,
}

impl Desk {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self {
            path: dir.path().join("agent.adf"),
            keys: Keys::load_or_create(dir.path()).unwrap(),
            dir,
        }
    }

    fn create(&self) -> AgentFile {
        let new = NewAgent {
            name: "Åke".into(),
            ..NewAgent::default()
        };
        AgentFile::create(&self.path, &new, &self.keys).unwrap()
    }

    fn open(&self) -> AgentFile {
        AgentFile::open(&self.path, &self.keys).unwrap()
    }

    /// The file of the owner's and this machine's keys.
    fn kept(&self) -> PathBuf {
        self.dir.path().join("identity.json")
    }

    /// A question for the script of Node.
    fn question(&self, more: &Value) -> Value {
        let text = std::fs::read_to_string(self.kept()).unwrap();
        let mut asked: Value = serde_json::from_str(&text).unwrap();
        asked
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        asked
    }
}

fn node(word: &str, asked: &Value) -> Option<Value> {
    let mut child = Command::new(installed::node()?)
        .arg(script("envelope.mjs"))
        .arg(word)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(asked.to_string().as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

fn python(word: &str, desk: &Desk) -> Option<Value> {
    let output = Command::new(installed::python("cryptography")?)
        .arg(script("adf.py"))
        .arg(word)
        .args([&desk.path, &desk.kept()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

fn text(file: &AgentFile, purpose: &str) -> Option<String> {
    let secret = file.secret(purpose).unwrap()?;
    Some(String::from_utf8(reveal(&secret).to_vec()).unwrap())
}

fn password() -> Secret {
    Secret::new("pässword".to_owned())
}

#[test]
fn a216_a217_node_opens_what_is_sealed_here() {
    let desk = Desk::new();
    let file = desk.create();
    file.set_secret("mcp:git:TOKEN", "geheimnis ü\0".as_bytes(), SetBy::Owner)
        .unwrap();
    file.set_secret("empty", b"", SetBy::Code).unwrap();
    file.add_password(&password()).unwrap();
    let did = file.did().unwrap().unwrap();
    file.close().unwrap();
    let db = Connection::open(&desk.path).unwrap();
    let rows: Vec<Value> = db
        .prepare("SELECT purpose, encryption_algo, value FROM adf_identity")
        .unwrap()
        .query_map([], |row| {
            let value: Vec<u8> = row.get(2)?;
            Ok(json!({
                "purpose": row.get::<_, String>(0)?,
                "algorithm": row.get::<_, String>(1)?,
                "value": BASE64.encode(value),
            }))
        })
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let asked = desk.question(&json!({"password": "pässword", "rows": rows}));
    let Some(read) = node("read", &asked) else {
        return;
    };
    assert_eq!(read["did"], did);
    assert_eq!(read["owner"], desk.keys.owner_did());
    assert_eq!(read["runtime"], desk.keys.runtime_did());
    for holder in ["runtime", "owner", "password"] {
        let opened = &read["opened"][holder];
        let token = BASE64.encode("geheimnis ü\0");
        assert_eq!(opened["mcp:git:TOKEN"], token, "{holder}");
        assert_eq!(opened["empty"], "", "{holder}");
        let has_identity = opened.get("crypto:signing:private_key").is_some();
        assert_eq!(has_identity, holder != "password", "{holder}");
    }
}

#[test]
fn a216_a217_a220_what_node_sealed_opens_here() {
    let desk = Desk::new();
    let secrets = json!({"mcp:git:TOKEN": "geheimnis ü", "empty": ""});
    let asked = desk.question(&json!({"password": "pässword", "secrets": secrets}));
    let Some(written) = node("write", &asked) else {
        return;
    };
    assert_eq!(written["owner"], desk.keys.owner_did());
    desk.create().close().unwrap();
    let db = Connection::open(&desk.path).unwrap();
    db.execute("DELETE FROM adf_identity", []).unwrap();
    for row in written["rows"].as_array().unwrap() {
        let value = BASE64.decode(row["value"].as_str().unwrap()).unwrap();
        db.execute(
            "INSERT INTO adf_identity (purpose, encryption_algo, value) VALUES (?1, ?2, ?3)",
            params![row["purpose"].as_str(), row["algorithm"].as_str(), value],
        )
        .unwrap();
    }
    db.close().map_err(|(_, error)| error).unwrap();
    let read = |file: &AgentFile| {
        assert_eq!(text(file, "mcp:git:TOKEN").unwrap(), "geheimnis ü");
        assert_eq!(text(file, "empty").unwrap(), "");
    };
    let copy = desk.dir.path().join("copy.adf");
    // This machine's slot.
    let file = desk.open();
    read(&file);
    assert!(file.secret("crypto:signing:private_key").unwrap().is_some());
    file.export_to(&copy).unwrap();
    file.close().unwrap();
    // The owner's, on another machine.
    let other = Keys::from_words(&desk.keys.owner_words()).unwrap();
    let file = AgentFile::open(&desk.path, &other).unwrap();
    read(&file);
    file.close().unwrap();
    // The password's, by somebody else.
    let file = AgentFile::open(&copy, &Keys::generate()).unwrap();
    let state = |envelope| file.envelope(envelope).unwrap();
    assert_eq!(state(Envelope::Credentials), EnvelopeState::Locked);
    assert!(file.unlock(&password()).unwrap());
    assert_eq!(state(Envelope::Identity), EnvelopeState::Foreign);
    read(&file);
}

#[test]
fn a207_what_another_program_made_comes_back_whole() {
    let desk = Desk::new();
    if python("make", &desk).is_none() {
        return;
    }
    let file = desk.open();
    assert_eq!(file.schema(), 32);
    assert_eq!(text(&file, "mcp:git:TOKEN").unwrap(), "made in Python");
    assert_eq!(text(&file, "openai_key").unwrap(), "schlüssel");
    // What was sealed before there were envelopes.
    assert!(file.needs_password().unwrap());
    assert!(
        file.unlock(&Secret::new("old password".to_owned()))
            .unwrap()
    );
    assert_eq!(text(&file, "old").unwrap(), "from before");
    file.edit_config(|config| {
        let servers = config["mcp"]["servers"].as_array_mut().unwrap();
        servers.push(json!({"name": "added"}));
        Ok::<_, ()>(())
    })
    .unwrap();
    file.set_secret("mcp:git:TOKEN", b"changed in Rust", SetBy::Owner)
        .unwrap();
    file.set_secret("new", b"made in Rust", SetBy::Code)
        .unwrap();
    for path in ["new.md", "lib/a.ts"] {
        let write = FileWrite {
            content: Writing::Append(b"more".to_vec()),
            mime_type: None,
            limit: 100,
        };
        file.write_file(path, write).unwrap();
    }
    file.append_logs(&[LogRow {
        message: "m".into(),
        ..LogRow::default()
    }])
    .unwrap();
    file.add_task(&Task::new("t", "{}")).unwrap();
    let denied = file.move_task(
        "task_0",
        &[TaskStatus::Pending],
        TaskStatus::Denied,
        &TaskChange::default(),
    );
    assert!(denied.unwrap());
    file.close().unwrap();
    let checked = python("check", &desk).unwrap();
    assert_eq!(checked["wrong"], json!([]));
    assert_eq!(
        checked["secrets"],
        json!({"mcp:git:TOKEN": "changed in Rust", "openai_key": "schlüssel", "new": "made in Rust"})
    );
}

#[test]
fn a214_another_program_reads_and_changes_what_is_made_here() {
    let desk = Desk::new();
    let file = desk.create();
    file.set_secret("mcp:git:TOKEN", b"made in Rust", SetBy::Owner)
        .unwrap();
    let (did, config, metas) = (file.did().unwrap(), file.config(), file.metas().unwrap());
    file.close().unwrap();
    let Some(read) = python("read", &desk) else {
        return;
    };
    assert_eq!(read["secrets"], json!({"mcp:git:TOKEN": "made in Rust"}));
    assert_eq!(read["did"].as_str(), did.as_deref());
    assert_eq!(read["config"], *config);
    let mut metas: Map<String, Value> = metas.into_iter().map(|(k, v)| (k, v.into())).collect();
    metas.insert("adf_clean_close".into(), "1".into());
    assert_eq!(read["meta"].as_object().unwrap().len(), metas.len());
    assert!(metas.iter().all(|(key, value)| read["meta"][key] == *value));
    python("touch", &desk).unwrap();
    let file = desk.open();
    assert_eq!(file.config()["description"], "by Python");
    assert_eq!(text(&file, "mcp:py:K").unwrap(), "by Python");
    let for_code = file.code_secret("mcp:py:K").unwrap().unwrap();
    assert_eq!(reveal(&for_code).as_slice(), b"by Python");
}

/// Tells the test below, run again as a child, where to make files until it is killed.
const MAKE_IN: &str = "WHARFINGER_TEST_MAKE_IN";

#[test]
fn a_program_that_is_killed_leaves_whole_files_or_none() {
    if let Some(folder) = std::env::var_os(MAKE_IN) {
        make_until_killed(Path::new(&folder));
    }
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture"])
        .arg("agentfile::a_program_that_is_killed_leaves_whole_files_or_none")
        .env(MAKE_IN, dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let made = lines
        .map(Result::unwrap)
        .filter(|line| line.starts_with("made "));
    assert_eq!(made.take(5).count(), 5);
    child.kill().unwrap();
    child.wait().unwrap();
    let keys = Keys::load_or_create(dir.path()).unwrap();
    let mut whole = 0;
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|kind| kind == "adf") {
            let file = AgentFile::open(&path, &keys).unwrap();
            // Every edit is there whole, or not at all.
            let config = file.config();
            assert_eq!(config["limits"]["one"], config["limits"]["two"]);
            file.set_secret("key", b"value", SetBy::Owner).unwrap();
            file.close().unwrap();
            whole += 1;
        }
    }
    assert!(whole >= 5);
}

#[expect(
    clippy::print_stdout,
    reason = "the parent waits for what the child says"
)]
fn make_until_killed(folder: &Path) -> ! {
    let keys = Keys::load_or_create(folder).unwrap();
    for n in 0.. {
        let path = folder.join(format!("{n}.adf"));
        let file = AgentFile::create(&path, &NewAgent::default(), &keys).unwrap();
        for edit in 0..5 {
            file.edit_config(|config| {
                config["limits"]["one"] = json!(edit);
                config["limits"]["two"] = json!(edit);
                Ok::<_, ()>(())
            })
            .unwrap();
        }
        println!("made {n}");
        // Left open: what it did last is in the log beside it.
        std::mem::forget(file);
    }
    unreachable!("it is killed")
}
