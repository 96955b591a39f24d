//! The configuration: a tree that is edited in place, so that what nobody here knows stays.

use std::sync::Arc;

use rusqlite::{Connection, params};
use serde_json::{Map, Value, json};

use super::file::{Change, ISO_NOW};
use super::meta::put_runtime_meta;
use super::schema::{MADE, MAX_CONFIG};
use super::{AgentFile, EditError, Error, PinRow, check, pins, random};

/// What is edited: the configuration and the pins, kept together or not at all.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// The whole tree. It must stay an object.
    pub config: Value,
    /// One for each tool that is or was known.
    pub pins: Vec<PinRow>,
}

impl AgentFile {
    /// The configuration as it was last written; costs nothing.
    pub fn config(&self) -> Arc<Value> {
        self.config.load_full()
    }

    /// Edits the configuration. What is edited is what the file has now, and it is written only if it changed. The
    /// edit must not use the file itself, which waits for it.
    pub fn edit_config<T, E>(
        &self,
        edit: impl FnOnce(&mut Value) -> Result<T, E>,
    ) -> Result<T, EditError<E>> {
        self.change(|_| Ok(vec![]), |draft| edit(&mut draft.config))
    }

    /// Edits the configuration and the pins in one transaction; see [`Self::edit_config`].
    pub fn edit<T, E>(
        &self,
        edit: impl FnOnce(&mut Draft) -> Result<T, E>,
    ) -> Result<T, EditError<E>> {
        self.change(pins::all, edit)
    }

    fn change<T, E>(
        &self,
        pins: impl FnOnce(&Connection) -> rusqlite::Result<Vec<PinRow>>,
        edit: impl FnOnce(&mut Draft) -> Result<T, E>,
    ) -> Result<T, EditError<E>> {
        self.write(|write| {
            let text = write.run(|db| check::read_config(db))?;
            let unusable = |reason| Error::Unusable {
                path: write.path.to_owned(),
                reason,
            };
            let mut draft = Draft {
                config: check::parse_config(text.as_deref()).map_err(unusable)?,
                pins: write.run(|db| pins(db))?,
            };
            let before = draft.clone();
            let done = edit(&mut draft).map_err(EditError::Refused)?;
            pins::put_differences(write, &before.pins, &draft.pins)?;
            if draft.config != before.config {
                put(write, &draft.config)?;
                write.config = Some(draft.config);
            }
            Ok(done)
        })
    }
}

fn put(write: &Change<'_>, config: &Value) -> Result<(), Error> {
    let text = config.to_string();
    if !config.is_object() || i64::try_from(text.len()).is_ok_and(|size| size > MAX_CONFIG) {
        return Err(Error::Refused(format!(
            "a configuration is an object of up to {MAX_CONFIG} bytes"
        )));
    }
    write.run(|db| {
        db.execute(
            &format!("UPDATE adf_config SET config_json = ?1, updated_at = {ISO_NOW} WHERE id = 1"),
            [&text],
        )?;
        tell(db, config)
    })
}

/// What the format has of the configuration in rows of their own.
fn tell(connection: &Connection, config: &Value) -> rusqlite::Result<()> {
    for (key, member) in [("adf_name", "name"), ("adf_handle", "handle")] {
        if let Some(text) = config[member].as_str() {
            put_runtime_meta(connection, key, text)?;
        }
    }
    put_runtime_meta(connection, "adf_updated_at", &iso_now(connection)?)
}

fn iso_now(connection: &Connection) -> rusqlite::Result<String> {
    connection.query_row(&format!("SELECT {ISO_NOW}"), [], |row| row.get(0))
}

/// The rows of a new file.
pub(super) fn begin(connection: &Connection, config: &Value) -> rusqlite::Result<()> {
    let now = iso_now(connection)?;
    let mut config = config.clone();
    if let Some(metadata) = config["metadata"].as_object_mut() {
        for key in ["created_at", "updated_at"] {
            metadata.entry(key).or_insert_with(|| json!(now));
        }
    }
    connection.execute(
        "INSERT INTO adf_config (id, config_json, updated_at) VALUES (1, ?1, ?2)",
        params![config.to_string(), now],
    )?;
    for (key, value) in [
        ("adf_version", "0.2"),
        ("adf_schema_version", &MADE.to_string()),
        ("adf_created_at", &now),
    ] {
        put_runtime_meta(connection, key, value)?;
    }
    connection.execute(
        "INSERT INTO adf_meta (key, value, protection) VALUES ('status', '', 'none')",
        [],
    )?;
    tell(connection, &config)
}

/// A configuration with all members the format wants.
pub(super) fn complete(name: &str, told: &Value) -> Result<Value, Error> {
    let Value::Object(told) = told else {
        if told.is_null() {
            return complete(name, &json!({}));
        }
        return Err(Error::Refused("a configuration is an object".into()));
    };
    let mut config = json!({
        "adf_version": "0.2",
        "id": random::id(),
        "name": name,
        "description": "",
        "handle": handle(name),
        "state": "idle",
        "start_in_state": "idle",
        "autonomous": false,
        "autostart": false,
        "model": {
            "provider": "",
            "model_id": "",
            "multimodal": {"image": false, "audio": false, "video": false},
        },
        "instructions": "",
        "context": {},
        "tools": [],
        "triggers": {},
        "security": {},
        "limits": {},
        "messaging": {},
        "audit": {},
        "code_execution": {},
        "logging": {},
        "mcp": {"servers": [], "new_tools_restricted": true},
        "compute": {"enabled": false, "host_access": false, "browser": true, "packages": {}},
        "locked_fields": [],
        "metadata": {"author": "", "tags": [], "version": "1.0.0"},
    });
    if let Some(config) = config.as_object_mut() {
        merge(config, told);
        if !name.is_empty() {
            config.insert("name".into(), json!(name));
        }
    }
    Ok(config)
}

fn merge(into: &mut Map<String, Value>, told: &Map<String, Value>) {
    for (key, value) in told {
        match (into.get_mut(key), value) {
            (Some(Value::Object(into)), Value::Object(told)) => merge(into, told),
            _ => drop(into.insert(key.clone(), value.clone())),
        }
    }
}

/// A name for addresses: small letters, digits, hyphens.
fn handle(name: &str) -> String {
    let letters: String = name
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let words: Vec<&str> = letters.split('-').filter(|word| !word.is_empty()).collect();
    words.join("-")
}
