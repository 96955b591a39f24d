//! The chain: each row's hash covers the row and the hash of the one before, so that a row that was altered, removed,
//! put in or moved does not fit any more.
//!
//! The two ends are kept in a row of their own: what was before the oldest row, and what the newest is. It tells when
//! rows are missing at either end.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row as Found, params};
use sha2::{Digest, Sha256};

use crate::model::hex;

/// A hash of the chain.
pub(super) type Hash = [u8; 32];

/// What the first row of all follows.
pub(super) const NONE: Hash = [0; 32];

/// A place in the chain: a row's number and hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) seq: i64,
    pub(super) hash: Hash,
}

/// Before which row the chain begins, and with which it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) before: Link,
    pub(super) last: Link,
}

/// Everything in a row but its hash, in the order of the table's columns.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields<'a> {
    pub(super) seq: i64,
    pub(super) at: i64,
    pub(super) kind: &'a str,
    pub(super) who: &'a str,
    pub(super) agent: Option<&'a str>,
    pub(super) session: Option<&'a str>,
    pub(super) server: Option<&'a str>,
    pub(super) tool: Option<&'a str>,
    pub(super) outcome: &'a str,
    pub(super) millis: Option<i64>,
    pub(super) approval: Option<&'a str>,
    pub(super) args_digest: Option<&'a str>,
    pub(super) preview: Option<&'a str>,
    pub(super) subject: Option<&'a str>,
    pub(super) text: Option<&'a str>,
}

/// The columns, in the order of [`Fields`], and the hash.
pub(super) const COLUMNS: &str = "seq, at, kind, who, agent, session, server, tool, outcome, millis, approval, \
     args_digest, preview, subject, text, hash";

impl<'a> Fields<'a> {
    /// A row of a query for [`COLUMNS`], and its hash. An error where a value is not of its column's type.
    pub(super) fn read(row: &'a Found<'_>) -> Result<(Self, Hash), rusqlite::Error> {
        let text =
            |column| -> Result<&'a str, rusqlite::Error> { Ok(row.get_ref(column)?.as_str()?) };
        let maybe = |column| -> Result<Option<&'a str>, rusqlite::Error> {
            match row.get_ref(column)? {
                ValueRef::Null => Ok(None),
                value => Ok(Some(value.as_str()?)),
            }
        };
        let fields = Self {
            seq: row.get(0)?,
            at: row.get(1)?,
            kind: text(2)?,
            who: text(3)?,
            agent: maybe(4)?,
            session: maybe(5)?,
            server: maybe(6)?,
            tool: maybe(7)?,
            outcome: text(8)?,
            millis: row.get(9)?,
            approval: maybe(10)?,
            args_digest: maybe(11)?,
            preview: maybe(12)?,
            subject: maybe(13)?,
            text: maybe(14)?,
        };
        Ok((fields, row.get(15)?))
    }

    /// The hash of this row, after one of that hash. `buffer` is room to write in.
    pub(super) fn hash(&self, before: &Hash, buffer: &mut Vec<u8>) -> Hash {
        buffer.clear();
        buffer.extend(before);
        // Each value says what it is and how long, so that no two rows are the same bytes.
        let number = |buffer: &mut Vec<u8>, value: Option<i64>| match value {
            None => buffer.push(b'-'),
            Some(value) => {
                buffer.push(b'i');
                buffer.extend(value.to_be_bytes());
            }
        };
        let text = |buffer: &mut Vec<u8>, value: Option<&str>| match value {
            None => buffer.push(b'-'),
            Some(value) => {
                buffer.push(b't');
                buffer.extend((value.len() as u64).to_be_bytes());
                buffer.extend(value.as_bytes());
            }
        };
        number(buffer, Some(self.seq));
        number(buffer, Some(self.at));
        text(buffer, Some(self.kind));
        text(buffer, Some(self.who));
        text(buffer, self.agent);
        text(buffer, self.session);
        text(buffer, self.server);
        text(buffer, self.tool);
        text(buffer, Some(self.outcome));
        number(buffer, self.millis);
        text(buffer, self.approval);
        text(buffer, self.args_digest);
        text(buffer, self.preview);
        text(buffer, self.subject);
        text(buffer, self.text);
        Sha256::digest(&buffer).into()
    }
}

/// The two ends; `None` where somebody has taken them out.
pub(super) fn ends(db: &Connection) -> Result<Option<Ends>, rusqlite::Error> {
    db.prepare_cached("SELECT before_seq, before_hash, last_seq, last_hash FROM journal_ends")?
        .query_row([], |row| {
            Ok(Ends {
                before: Link {
                    seq: row.get(0)?,
                    hash: row.get(1)?,
                },
                last: Link {
                    seq: row.get(2)?,
                    hash: row.get(3)?,
                },
            })
        })
        .optional()
}

/// What looking through the whole journal came to.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verified {
    /// How many rows are as they were written, from the oldest one on.
    pub rows: u64,
    /// The number of the oldest one.
    pub first: Option<u64>,
    /// The number of the newest one that is as it was written.
    pub last: Option<u64>,
    /// Its hash, in hex. Who keeps it elsewhere can tell later whether the journal was written anew as a whole.
    pub hash: String,
    /// The first thing that is wrong.
    pub broken: Option<Break>,
}

/// Where the chain does not hold.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Break {
    /// At which row.
    pub seq: u64,
    /// What is wrong with it.
    pub what: String,
}

/// Looks through the chain from its beginning, a piece at a time.
#[derive(Debug)]
pub(super) struct Verifying {
    at: Option<Link>,
    first: Option<i64>,
    rows: u64,
}

impl Verifying {
    pub(super) fn new() -> Self {
        Self {
            at: None,
            first: None,
            rows: 0,
        }
    }

    /// Looks through the next rows, at most so many; the answer when there is one. Each piece is a short transaction,
    /// so whoever writes is not kept from tidying up.
    pub(super) fn go_on(
        &mut self,
        db: &mut Connection,
        rows: usize,
    ) -> Result<Option<Verified>, rusqlite::Error> {
        let piece = db.transaction()?;
        let Some(ends) = ends(&piece)? else {
            return Ok(Some(
                self.broken(0, "the record of its two ends is missing".into()),
            ));
        };
        let oldest: Option<i64> = piece
            .prepare_cached("SELECT min(seq) FROM journal")?
            .query_row([], |row| row.get(0))?;
        if let Some(oldest) = oldest.filter(|oldest| *oldest <= ends.before.seq) {
            let what = format!("row {oldest} is older than the oldest one that was kept");
            return Ok(Some(self.broken(oldest, what)));
        }
        // Where rows were removed since the last piece, for being too many, the chain goes on behind them.
        let mut at = self
            .at
            .filter(|at| at.seq >= ends.before.seq)
            .unwrap_or(ends.before);
        let query = format!("SELECT {COLUMNS} FROM journal WHERE seq > ?1 ORDER BY seq LIMIT ?2");
        let mut query = piece.prepare_cached(&query)?;
        let mut found = query.query(params![at.seq, i64::try_from(rows).unwrap_or(i64::MAX)])?;
        let (mut buffer, mut seen) = (vec![], 0);
        while let Some(row) = found.next()? {
            let seq: i64 = row.get(0)?;
            if seq != at.seq + 1 {
                return Ok(Some(self.broken(at.seq + 1, missing(at.seq + 1, seq - 1))));
            }
            let Ok((fields, hash)) = Fields::read(row) else {
                return Ok(Some(self.broken(seq, format!("row {seq} can't be read"))));
            };
            if fields.hash(&at.hash, &mut buffer) != hash {
                let what =
                    format!("row {seq} is not what was written, or does not follow the one before");
                return Ok(Some(self.broken(seq, what)));
            }
            at = Link { seq, hash };
            self.at = Some(at);
            self.first.get_or_insert(seq);
            self.rows += 1;
            seen += 1;
        }
        if seen == rows {
            return Ok(None);
        }
        Ok(Some(if at == ends.last {
            self.answer(None)
        } else if at.seq < ends.last.seq {
            self.broken(at.seq + 1, missing(at.seq + 1, ends.last.seq))
        } else {
            self.broken(
                ends.last.seq,
                format!("row {} is not the one that was written last", at.seq),
            )
        }))
    }

    fn broken(&self, seq: i64, what: String) -> Verified {
        let seq = number(seq);
        self.answer(Some(Break { seq, what }))
    }

    fn answer(&self, broken: Option<Break>) -> Verified {
        Verified {
            rows: self.rows,
            first: self.first.map(number),
            last: self.at.map(|at| number(at.seq)),
            hash: hex(&self.at.map_or(NONE, |at| at.hash)),
            broken,
        }
    }
}

fn missing(from: i64, to: i64) -> String {
    if from == to {
        format!("row {from} is missing")
    } else {
        format!("rows {from} to {to} are missing")
    }
}

/// Numbers of rows are above 0.
pub(super) fn number(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
