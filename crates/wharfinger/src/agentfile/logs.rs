//! Rows of `adf_logs`.

use rusqlite::params;

use super::{AgentFile, Error};

/// Rows that are kept; when there are a tenth more, the oldest go.
pub const LOGS: i64 = 5000;

/// A line of the agent's log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogRow {
    /// `debug`, `info`, `warn` or `error`.
    pub level: String,
    /// Who says it.
    pub origin: Option<String>,
    /// What kind of thing happened.
    pub event: Option<String>,
    /// To what.
    pub target: Option<String>,
    /// For people.
    pub message: String,
    /// JSON.
    pub data: Option<String>,
    /// Milliseconds since 1970.
    pub created_at: i64,
}

impl AgentFile {
    /// Adds some, in one transaction.
    pub fn append_logs(&self, rows: &[LogRow]) -> Result<(), Error> {
        if rows.is_empty() {
            return Ok(());
        }
        self.write(|write| {
            write.run(|db| {
                for row in rows {
                    db.prepare_cached(
                        "INSERT INTO adf_logs (level, origin, event, target, message, data, created_at)
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                    )?
                    .execute(params![
                        row.level,
                        row.origin,
                        row.event,
                        row.target,
                        row.message,
                        row.data,
                        row.created_at
                    ])?;
                }
                let count: i64 = db
                    .prepare_cached("SELECT count(*) FROM adf_logs")?
                    .query_row([], |row| row.get(0))?;
                if count > LOGS + LOGS / 10 {
                    db.execute(
                        "DELETE FROM adf_logs WHERE id <= (SELECT id FROM adf_logs ORDER BY id DESC LIMIT 1 OFFSET ?1)",
                        [LOGS],
                    )?;
                }
                Ok(())
            })
        })
    }

    /// The latest, the oldest of them first.
    pub fn logs(&self, limit: usize) -> Result<Vec<LogRow>, Error> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.read(|db, _| {
            let mut rows: Vec<LogRow> = db
                .prepare_cached(
                    "SELECT level, origin, event, target, message, data, created_at
                     FROM adf_logs ORDER BY id DESC LIMIT ?1",
                )?
                .query_map([limit], |row| {
                    Ok(LogRow {
                        level: row.get(0)?,
                        origin: row.get(1)?,
                        event: row.get(2)?,
                        target: row.get(3)?,
                        message: row.get(4)?,
                        data: row.get(5)?,
                        created_at: row.get(6)?,
                    })
                })?
                .collect::<rusqlite::Result<_>>()?;
            rows.reverse();
            Ok(rows)
        })
    }
}
