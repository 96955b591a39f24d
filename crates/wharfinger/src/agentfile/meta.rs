//! Rows of `adf_meta`: what the format says of the file, and what we and agents add.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};

use super::{AgentFile, Error, check};

/// Versions and DIDs.
pub(super) const READONLY: [&str; 6] = [
    "adf_version",
    "adf_schema_version",
    "adf_did",
    "adf_did_history",
    "adf_owner_did",
    "adf_runtime_did",
];

impl AgentFile {
    /// A value.
    pub fn meta(&self, key: &str) -> Result<Option<String>, Error> {
        self.read(|db, _| check::meta(db, key))
    }

    /// All of them.
    pub fn metas(&self) -> Result<BTreeMap<String, String>, Error> {
        self.read(|db, _| {
            db.prepare_cached("SELECT key, CAST(value AS TEXT) FROM adf_meta")?
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect()
        })
    }

    /// Sets a value of our own, which agents cannot write. Names of the format (`adf_*`) are refused: the file keeps
    /// those itself, and none may be invented.
    pub fn set_meta(&self, key: &str, value: &str) -> Result<(), Error> {
        free(key)?;
        self.write(|write| write.run(|db| put_runtime_meta(db, key, value)))
    }

    /// The agent's DID, if it has an identity.
    pub fn did(&self) -> Result<Option<String>, Error> {
        Ok(self.meta("adf_did")?.filter(|did| !did.is_empty()))
    }
}

/// Whether a name is ours to give.
pub(super) fn free(key: &str) -> Result<(), Error> {
    let reserved = key
        .get(..4)
        .is_some_and(|start| start.eq_ignore_ascii_case("adf_"));
    let is_fine = (1..=256).contains(&key.len()) && !key.chars().any(char::is_control);
    if reserved || !is_fine {
        return Err(Error::Refused(format!(
            "`{}` cannot be set: names that begin with adf_ are the format's, and a name is text of up to 256 bytes",
            key.escape_debug()
        )));
    }
    Ok(())
}

/// Writes a row that agents cannot write. What protects a row that is there already stays.
pub(super) fn put_runtime_meta(
    connection: &Connection,
    key: &str,
    value: &str,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO adf_meta (key, value, protection) VALUES (?1, ?2, 'readonly')
             ON CONFLICT (key) DO UPDATE SET value = excluded.value WHERE value <> excluded.value",
        )?
        .execute(params![key, value])?;
    Ok(())
}
