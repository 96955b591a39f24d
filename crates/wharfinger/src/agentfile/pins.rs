//! Our own table in the file: which definition of a tool its owner has reviewed.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, params};

use super::file::Change;
use super::{AgentFile, Error};

/// A tool of a server, and the definition of it that is trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PinRow {
    /// The server's name in the configuration.
    pub server: String,
    /// The server's own name for the tool.
    pub tool: String,
    /// The name agents see.
    pub exposed: String,
    /// What the server was when it listed the tool.
    pub listed_for: String,
    /// The definition that was reviewed, JSON.
    pub reviewed: Option<String>,
    /// The definition as it is now, JSON, if it is another.
    pub current: Option<String>,
    /// What changed, JSON.
    pub change: Option<String>,
    /// When, in milliseconds since 1970.
    pub changed_at: Option<i64>,
    /// Whether it was on when its server ceased to list it.
    pub on_before: Option<bool>,
}

impl PinRow {
    fn key(&self) -> (&str, &str) {
        (&self.server, &self.tool)
    }
}

impl AgentFile {
    /// All of them, by server and tool.
    pub fn pins(&self) -> Result<Vec<PinRow>, Error> {
        self.read(|db, _| all(db))
    }

    /// Adds or replaces some.
    pub fn put_pins(&self, rows: &[PinRow]) -> Result<(), Error> {
        self.write(|write| rows.iter().try_for_each(|row| put(write, row)))
    }

    /// Forgets a server's.
    pub fn remove_pins(&self, server: &str) -> Result<(), Error> {
        self.write(|write| {
            write.run(|db| {
                db.execute("DELETE FROM wharfinger_pins WHERE server = ?1", [server])
                    .map(drop)
            })
        })
    }
}

pub(super) fn all(connection: &Connection) -> rusqlite::Result<Vec<PinRow>> {
    // A newer file that is only read may not have the table.
    if !connection.table_exists(None, "wharfinger_pins")? {
        return Ok(vec![]);
    }
    connection
        .prepare_cached(
            "SELECT server, tool, exposed, listed_for, reviewed, current, change, changed_at, on_before
             FROM wharfinger_pins ORDER BY server, tool",
        )?
        .query_map([], |row| {
            Ok(PinRow {
                server: row.get(0)?,
                tool: row.get(1)?,
                exposed: row.get(2)?,
                listed_for: row.get(3)?,
                reviewed: row.get(4)?,
                current: row.get(5)?,
                change: row.get(6)?,
                changed_at: row.get(7)?,
                on_before: row.get(8)?,
            })
        })?
        .collect()
}

fn put(write: &Change<'_>, row: &PinRow) -> Result<(), Error> {
    write.run(|db| insert(db, row))?;
    write.fits("wharfinger_pins", "server = ?1 AND tool = ?2", row.key())
}

fn insert(connection: &Connection, row: &PinRow) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO wharfinger_pins
                 (server, tool, exposed, listed_for, reviewed, current, change, changed_at, on_before)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
             ON CONFLICT (server, tool) DO UPDATE SET exposed = excluded.exposed,
                 listed_for = excluded.listed_for, reviewed = excluded.reviewed, current = excluded.current,
                 change = excluded.change, changed_at = excluded.changed_at, on_before = excluded.on_before",
        )?
        .execute(params![
            row.server,
            row.tool,
            row.exposed,
            row.listed_for,
            row.reviewed,
            row.current,
            row.change,
            row.changed_at,
            row.on_before
        ])?;
    Ok(())
}

/// Writes what an edit changed, and nothing else.
pub(super) fn put_differences(
    write: &Change<'_>,
    before: &[PinRow],
    after: &[PinRow],
) -> Result<(), Error> {
    let known: BTreeMap<_, _> = before.iter().map(|row| (row.key(), row)).collect();
    let kept: BTreeSet<_> = after.iter().map(PinRow::key).collect();
    for key in known.keys().filter(|key| !kept.contains(*key)) {
        write.run(|db| {
            db.prepare_cached("DELETE FROM wharfinger_pins WHERE server = ?1 AND tool = ?2")?
                .execute(*key)
        })?;
    }
    let mut changed = after
        .iter()
        .filter(|row| known.get(&row.key()) != Some(row));
    changed.try_for_each(|row| put(write, row))?;
    if after.len() > before.len() {
        write.is_not_full("wharfinger_pins")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agentfile::EditError;
    use crate::agentfile::tests::Made;

    #[test]
    fn a_definition_for_which_the_file_could_not_be_opened_again_is_not_written() {
        let made = Made::new();
        let file = made.open();
        let large = PinRow {
            server: "s".into(),
            tool: "t".into(),
            current: Some("x".repeat(9 << 20)),
            ..PinRow::default()
        };
        assert!(file.put_pins(std::slice::from_ref(&large)).is_err());
        let edited = file.edit(|draft| {
            draft.config["description"] = "new".into();
            draft.pins.push(large);
            Ok::<_, ()>(())
        });
        assert!(matches!(edited, Err(EditError::File(_))), "{edited:?}");
        file.close().unwrap();
        let file = made.open();
        assert_eq!(file.pins().unwrap(), []);
        assert_ne!(file.config()["description"], "new");
    }
}
