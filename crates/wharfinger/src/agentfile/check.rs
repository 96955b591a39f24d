//! A look at a file before anything is written to it. It may come from anybody.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use serde_json::Value;

use super::schema::{self, BOUNDS, COUNTS, MADE, NEEDED, Needed};
use super::{Error, Keys};

/// Where a file says which profile its agent has. Files of other programs do not; their agents are agents.
pub(crate) const PROFILE: &str = "wharfinger_profile";

/// What a file says of itself, without its being opened.
#[derive(Clone, Debug, PartialEq)]
pub struct Peek {
    /// The agent's name.
    pub name: String,
    /// Schema of its tables.
    pub schema: i64,
    /// The agent's DID, if it has an identity.
    pub did: Option<String>,
    /// Whose it says it is.
    pub owner_did: Option<String>,
    /// Whether that is us. A claim of the file, proven only by its envelopes.
    pub is_ours: bool,
    /// Which profile it says it has.
    pub profile: Option<String>,
    /// Its configuration.
    pub config: Value,
    /// Entries of `mcp.servers`, as they are.
    pub servers: Vec<Value>,
}

/// Looks at a file: takes no lock that others wait for, writes nothing.
pub fn peek(path: &Path, keys: &Keys) -> Result<Peek, Error> {
    let path = &resolve(path)?;
    let _opening = super::file::opening();
    let connection = reading(path)?;
    let look = look(&connection, path, Trust::Listed)?;
    let meta = |key: &str| {
        meta(&connection, key)
            .map(|value| value.filter(|text| !text.is_empty()))
            .map_err(Error::sqlite(path))
    };
    let name = look.config.get("name").and_then(Value::as_str);
    let owner_did = meta("adf_owner_did")?;
    Ok(Peek {
        name: match (name, meta("adf_name")?) {
            (Some(name), _) => name.to_owned(),
            (None, told) => told.unwrap_or_default(),
        },
        schema: look.schema,
        did: meta("adf_did")?,
        profile: meta(PROFILE)?,
        is_ours: owner_did.as_deref() == Some(keys.owner_did()),
        owner_did,
        servers: look
            .config
            .pointer("/mcp/servers")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default(),
        config: look.config,
    })
}

/// The file behind links, which must be one.
pub(super) fn resolve(path: &Path) -> Result<PathBuf, Error> {
    let path = fs::canonicalize(path).map_err(Error::io("open", path))?;
    let found = fs::metadata(&path).map_err(Error::io("open", &path))?;
    if found.is_file() {
        Ok(path)
    } else {
        Err(Error::NotAgentFile {
            path,
            reason: "it is not a file".into(),
        })
    }
}

/// A connection that cannot change the file.
pub(super) fn reading(path: &Path) -> Result<Connection, Error> {
    let failed = Error::sqlite(path);
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    // With an empty log nobody has it open, and `immutable` leaves no files beside it. With a log, what counts is
    // partly in there.
    let is_settled = fs::metadata(log).map_or(true, |found| found.len() == 0);
    let options = if is_settled { "immutable=1" } else { "mode=ro" };
    let uri = format!("file:{}?{options}", encoded(path));
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(uri, flags).map_err(&failed)?;
    distrust(&connection).map_err(&failed)?;
    Ok(connection)
}

/// A path as a URI has it.
fn encoded(path: &Path) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for &byte in std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()) {
        if byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            write!(text, "%{byte:02X}").expect("a string takes all");
        }
    }
    text
}

/// Nothing in the file's schema runs: no triggers, no views, no functions with effects.
pub(super) fn distrust(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    for (option, value) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
    ] {
        connection.set_db_config(option, value)?;
    }
    connection.pragma_update(None, "cell_size_check", true)
}

/// What was found.
pub(super) struct Look {
    pub schema: i64,
    pub config: Value,
}

/// How much a look at a file must show.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// Enough to show it in a list.
    Listed,
    /// Enough to write to it: whole, unless its last owner closed it in good order.
    Opened,
}

pub(super) fn look(connection: &Connection, path: &Path, trust: Trust) -> Result<Look, Error> {
    let not = |reason: String| Error::NotAgentFile {
        path: path.to_owned(),
        reason,
    };
    let unusable = |reason: String| Error::Unusable {
        path: path.to_owned(),
        reason,
    };
    let failed = |error: rusqlite::Error| match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => not("it is not an SQLite database".into()),
        Some(rusqlite::ErrorCode::DatabaseCorrupt) => unusable(format!("it is damaged ({error})")),
        _ => Error::sqlite(path)(error),
    };
    let columns = |table: &str| columns(connection, table).map_err(failed);
    if columns("adf_meta")?.is_empty() {
        return Err(not("it has no table adf_meta".into()));
    }
    let schema = meta(connection, "adf_schema_version").map_err(failed)?;
    let schema: i64 = schema
        .as_deref()
        .and_then(|text| text.trim().parse().ok())
        .ok_or_else(|| not("it does not say which schema it has".into()))?;
    if schema < MADE {
        return Err(Error::Older {
            path: path.to_owned(),
            found: schema,
        });
    }
    for Needed {
        table,
        columns: needed,
        required,
    } in NEEDED
    {
        let found = columns(table)?;
        if found.is_empty() && !required {
            continue;
        }
        if found.is_empty() {
            return Err(not(format!("it has no table {table}")));
        }
        if let Some(missing) = needed.iter().find(|name| !found.iter().any(|f| f == *name)) {
            return Err(not(format!("its table {table} has no column {missing}")));
        }
    }
    let has = |table: &str| columns(table).map(|found| !found.is_empty());
    for (table, names, bound) in BOUNDS {
        if !has(table)? {
            continue;
        }
        let query = schema::oversized(table, names, *bound, "1");
        let size: Option<i64> = connection
            .query_row(&query, [], |row| row.get(0))
            .optional()
            .map_err(failed)?;
        if let Some(size) = size {
            return Err(unusable(format!(
                "a row of {table} has {size} bytes, and at most {bound} are read"
            )));
        }
    }
    for (table, bound) in COUNTS {
        if !has(table)? {
            continue;
        }
        let query = format!("SELECT count(*) FROM (SELECT 1 FROM {table} LIMIT {bound} + 1)");
        let count: i64 = connection
            .query_row(&query, [], |row| row.get(0))
            .map_err(failed)?;
        if count > *bound {
            return Err(unusable(format!("{table} has more than {bound} rows")));
        }
    }
    let closed = meta(connection, "adf_clean_close").map_err(failed)?;
    if trust == Trust::Opened && closed.is_none() {
        let said: String = connection
            .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
            .map_err(failed)?;
        if said != "ok" {
            return Err(unusable(format!("it is damaged ({said})")));
        }
    }
    let config = read_config(connection).map_err(failed)?;
    let config = parse_config(config.as_deref()).map_err(unusable)?;
    Ok(Look { schema, config })
}

/// The text of the configuration's row.
pub(super) fn read_config(connection: &Connection) -> rusqlite::Result<Option<String>> {
    connection
        .prepare_cached("SELECT CAST(config_json AS TEXT) FROM adf_config WHERE id = 1")?
        .query_row([], |row| row.get(0))
        .optional()
}

pub(super) fn parse_config(text: Option<&str>) -> Result<Value, String> {
    let text = text.ok_or("it has no configuration")?;
    match serde_json::from_str(text) {
        Ok(config @ Value::Object(_)) => Ok(config),
        Ok(_) => Err("its configuration is not an object".into()),
        Err(error) => Err(format!("its configuration is not JSON: {error}")),
    }
}

pub(super) fn meta(connection: &Connection, key: &str) -> rusqlite::Result<Option<String>> {
    connection
        .prepare_cached("SELECT CAST(value AS TEXT) FROM adf_meta WHERE key = ?1")?
        .query_row([key], |row| row.get(0))
        .optional()
}

/// The columns of a table; none if there is no such table, or something else by its name.
fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    connection
        .prepare_cached(
            "SELECT c.name FROM pragma_table_list AS t, pragma_table_xinfo(t.name, 'main') AS c
             WHERE t.schema = 'main' AND t.name = ?1 AND t.type = 'table' AND c.hidden = 0",
        )?
        .query_map([table], |row| row.get(0))?
        .collect()
}
