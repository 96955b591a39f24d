//! Rows of `adf_logs`.

use rusqlite::params;

use super::{AgentFile, Error};

/// Rows that are kept where the configuration does not say (`logging.max_rows`, `null` for all of them). When there
/// are a tenth more, the oldest go.
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

/// More of a line is not kept, in bytes.
const LONG: usize = 1 << 20;

impl AgentFile {
    /// Adds some, in one transaction. What is very long is cut.
    pub fn append_logs(&self, rows: &[LogRow]) -> Result<(), Error> {
        if rows.is_empty() {
            return Ok(());
        }
        let bound = match self.config().pointer("/logging/max_rows") {
            None => Some(LOGS),
            Some(told) => told.as_i64().filter(|rows| *rows > 0),
        };
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
                        &row.message[..row.message.floor_char_boundary(LONG)],
                        row.data.as_ref().filter(|data| data.len() <= LONG),
                        row.created_at
                    ])?;
                }
                let Some(bound) = bound else {
                    return Ok(());
                };
                let count: i64 = db
                    .prepare_cached("SELECT count(*) FROM adf_logs")?
                    .query_row([], |row| row.get(0))?;
                if count > bound + bound / 10 {
                    db.execute(
                        "DELETE FROM adf_logs WHERE id <= (SELECT id FROM adf_logs ORDER BY id DESC LIMIT 1 OFFSET ?1)",
                        [bound],
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::agentfile::tests::Made;

    fn rows(from: i64, to: i64) -> Vec<LogRow> {
        (from..to)
            .map(|created_at| LogRow {
                level: "info".into(),
                message: "m".into(),
                created_at,
                ..LogRow::default()
            })
            .collect()
    }

    #[test]
    fn a_line_for_which_the_file_could_not_be_opened_again_is_cut() {
        let made = Made::new();
        let file = made.open();
        let long = LogRow {
            message: "ä".repeat(5 << 20),
            data: Some("x".repeat(9 << 20)),
            ..LogRow::default()
        };
        file.append_logs(&[long]).unwrap();
        file.close().unwrap();
        let kept = made.open().logs(9).unwrap().remove(0);
        assert_eq!((kept.message.len(), kept.data), (LONG, None));
    }

    #[test]
    fn the_latest_lines_are_kept() {
        let made = Made::new();
        let file = made.open();
        file.append_logs(&rows(0, LOGS)).unwrap();
        file.append_logs(&rows(LOGS, LOGS + LOGS / 10)).unwrap();
        assert_eq!(file.logs(10_000).unwrap().len(), 5500, "in batches");
        file.append_logs(&rows(LOGS + LOGS / 10, LOGS + LOGS / 10 + 1))
            .unwrap();
        let kept = file.logs(10_000).unwrap();
        assert_eq!(kept, rows(501, 5501));
        assert_eq!(file.logs(2).unwrap(), rows(5499, 5501));
    }

    #[test]
    fn the_file_may_say_how_many_lines_it_keeps() {
        let made = Made::new();
        let file = made.open();
        let set = |max: serde_json::Value| {
            file.edit_config(|config| {
                config["logging"]["max_rows"] = max;
                Ok::<_, ()>(())
            })
            .unwrap();
        };
        set(json!(null));
        file.append_logs(&rows(0, 6000)).unwrap();
        assert_eq!(file.logs(10_000).unwrap().len(), 6000);
        set(json!(20));
        file.append_logs(&rows(6000, 6001)).unwrap();
        assert_eq!(file.logs(10_000).unwrap(), rows(5981, 6001));
    }
}
