//! Files in the file: `adf_files`. Nothing is ever written to disk by their names.

use rusqlite::{Connection, OptionalExtension, params};

use super::file::ISO_NOW;
use super::{AgentFile, Error};

/// What an agent may do with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Anything.
    None,
    /// All but remove it.
    NoDelete,
    /// Read it.
    ReadOnly,
}

impl Protection {
    /// As the format writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::NoDelete => "no_delete",
            Self::ReadOnly => "read_only",
        }
    }

    fn read(text: &str) -> Self {
        match text {
            "none" => Self::None,
            "no_delete" => Self::NoDelete,
            // Including what is not the format's.
            _ => Self::ReadOnly,
        }
    }
}

/// A file without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// Its path, with `/`.
    pub path: String,
    /// Its media type, if it was told.
    pub mime_type: Option<String>,
    /// Bytes of its content.
    pub size: u64,
    /// What an agent may do with it.
    pub protection: Protection,
    /// Whether its owner trusts it as code.
    pub is_authorized: bool,
    /// ISO 8601.
    pub created_at: String,
    /// ISO 8601.
    pub updated_at: String,
}

/// A file with its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFile {
    /// All but the content.
    pub info: FileInfo,
    /// The content.
    pub content: Vec<u8>,
}

/// How content is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Writing {
    /// In place of what is there.
    Whole(Vec<u8>),
    /// At its end.
    Append(Vec<u8>),
    /// In place of a text that is there exactly once.
    Edit {
        /// That text.
        old: String,
        /// The new one.
        new: String,
    },
}

/// A write of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileWrite {
    /// What.
    pub content: Writing,
    /// Its media type; what is known stays if this is `None`.
    pub mime_type: Option<String>,
    /// Bytes the file may have in the end.
    pub limit: u64,
}

const COLUMNS: &str =
    "path, mime_type, octet_length(content), protection, authorized, created_at, updated_at";

impl AgentFile {
    /// All of them, by path.
    pub fn files(&self) -> Result<Vec<FileInfo>, Error> {
        self.read(|db, _| {
            db.prepare_cached(&format!("SELECT {COLUMNS} FROM adf_files ORDER BY path"))?
                .query_map([], info)?
                .collect()
        })
    }

    /// One of them, if it has not more bytes than `limit`.
    pub fn read_file(&self, path: &str, limit: u64) -> Result<Option<StoredFile>, Error> {
        check_path(path)?;
        let Some(info) = self.read(|db, _| find(db, path))? else {
            return Ok(None);
        };
        within(path, info.size, limit)?;
        let content = self.read(|db, _| content(db, path))?;
        Ok(Some(StoredFile { info, content }))
    }

    /// Writes one as an agent does: its protection holds, and nobody trusts it as code any more.
    pub fn write_file(&self, path: &str, write: FileWrite) -> Result<FileInfo, Error> {
        check_path(path)?;
        self.write(|db| {
            let known = db.run(|db| find(db, path))?;
            if known
                .as_ref()
                .is_some_and(|info| info.protection == Protection::ReadOnly)
            {
                return Err(Error::Refused(format!(
                    "`{path}` is read_only; its owner can change that"
                )));
            }
            let before = match (&write.content, &known) {
                (Writing::Whole(_), _) | (_, None) => vec![],
                (_, Some(info)) => {
                    within(path, info.size, write.limit)?;
                    db.run(|db| content(db, path))?
                }
            };
            let after = match write.content {
                Writing::Whole(content) => content,
                Writing::Append(more) => [before, more].concat(),
                Writing::Edit { old, new } => replace(path, &before, &old, &new)?.into_bytes(),
            };
            within(path, after.len() as u64, write.limit)?;
            db.run(|db| {
                put(
                    db,
                    path,
                    &after,
                    write.mime_type.as_deref(),
                    Protection::None,
                )
            })?;
            db.run(|db| find(db, path))?.ok_or(Error::Closed)
        })
    }

    /// Removes one as an agent does; whether it was there.
    pub fn delete_file(&self, path: &str) -> Result<bool, Error> {
        check_path(path)?;
        self.write(|write| {
            let Some(info) = write.run(|db| find(db, path))? else {
                return Ok(false);
            };
            if info.protection != Protection::None {
                return Err(Error::Refused(format!(
                    "`{path}` is {}; its owner can change that",
                    info.protection.as_str()
                )));
            }
            write.run(|db| db.execute("DELETE FROM adf_files WHERE path = ?1", [path]))?;
            Ok(true)
        })
    }

    /// Decides, for its owner, what an agent may do with one; whether it was there.
    pub fn protect_file(&self, path: &str, protection: Protection) -> Result<bool, Error> {
        check_path(path)?;
        self.write(|write| {
            write.run(|db| {
                db.execute(
                    "UPDATE adf_files SET protection = ?2 WHERE path = ?1",
                    [path, protection.as_str()],
                )
                .map(|changed| changed > 0)
            })
        })
    }
}

/// A path is relative, with `/`, and leads nowhere but down.
fn check_path(path: &str) -> Result<(), Error> {
    let is_fine = (1..=1024).contains(&path.len())
        && !path.contains('\\')
        && !path.chars().any(char::is_control)
        && path
            .split('/')
            .all(|part| !part.is_empty() && part != "." && part != "..");
    if is_fine {
        return Ok(());
    }
    let shown: String = path.escape_debug().take(80).collect();
    Err(Error::Refused(format!(
        "`{shown}` is not a path in an agent's file: names with `/` between, such as mind/log.md"
    )))
}

fn within(path: &str, size: u64, limit: u64) -> Result<(), Error> {
    if size <= limit {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "`{path}` would have {size} bytes here, and {limit} is the limit"
    )))
}

fn replace(path: &str, before: &[u8], old: &str, new: &str) -> Result<String, Error> {
    let text = std::str::from_utf8(before)
        .map_err(|_| Error::Refused(format!("`{path}` is not text; write it whole")))?;
    match if old.is_empty() {
        0
    } else {
        text.matches(old).count()
    } {
        1 => Ok(text.replacen(old, new, 1)),
        count => Err(Error::Refused(format!(
            "the text to replace is {count} times in `{path}`; it must be there once"
        ))),
    }
}

fn info(row: &rusqlite::Row<'_>) -> rusqlite::Result<FileInfo> {
    let size: i64 = row.get(2)?;
    let protection: String = row.get(3)?;
    Ok(FileInfo {
        path: row.get(0)?,
        mime_type: row.get(1)?,
        size: u64::try_from(size).unwrap_or(0),
        protection: Protection::read(&protection),
        is_authorized: row.get(4)?,
        created_at: row.get(5)?,
        updated_at: row.get(6)?,
    })
}

fn find(connection: &Connection, path: &str) -> rusqlite::Result<Option<FileInfo>> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM adf_files WHERE path = ?1"))?
        .query_row([path], info)
        .optional()
}

fn content(connection: &Connection, path: &str) -> rusqlite::Result<Vec<u8>> {
    connection
        .prepare_cached("SELECT CAST(content AS BLOB) FROM adf_files WHERE path = ?1")?
        .query_row([path], |row| row.get(0))
}

/// Writes one; what protects it stays if it is there already.
fn put(
    connection: &Connection,
    path: &str,
    content: &[u8],
    mime_type: Option<&str>,
    protection: Protection,
) -> rusqlite::Result<()> {
    let size = i64::try_from(content.len()).unwrap_or(i64::MAX);
    connection
        .prepare_cached(&format!(
            "INSERT INTO adf_files (path, content, mime_type, size, protection, authorized, created_at, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5, 0, {ISO_NOW}, {ISO_NOW})
             ON CONFLICT (path) DO UPDATE SET content = excluded.content,
                 mime_type = coalesce(excluded.mime_type, mime_type), size = excluded.size, authorized = 0,
                 updated_at = excluded.updated_at"
        ))?
        .execute(params![path, content, mime_type, size, protection.as_str()])?;
    Ok(())
}

/// The files of a new agent.
pub(super) fn begin(connection: &Connection) -> rusqlite::Result<()> {
    for (path, content) in [
        ("README.md", "# About this agent\n"),
        ("mind.md", "# What to keep in mind\n"),
        ("mind/log.md", "# What changed in mind, and when\n"),
        ("soul.md", "# How to speak\n"),
    ] {
        put(
            connection,
            path,
            content.as_bytes(),
            Some("text/markdown"),
            Protection::NoDelete,
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agentfile::tests::Made;

    fn whole(text: &str) -> FileWrite {
        FileWrite {
            content: Writing::Whole(text.into()),
            mime_type: None,
            limit: 100,
        }
    }

    #[test]
    fn a210_a_new_agent_has_its_files() {
        let made = Made::new();
        let file = made.open();
        let found: Vec<_> = file
            .files()
            .unwrap()
            .into_iter()
            .map(|info| (info.path, info.protection, info.is_authorized))
            .collect();
        let expect = ["README.md", "mind.md", "mind/log.md", "soul.md"]
            .map(|path| (path.to_owned(), Protection::NoDelete, false));
        assert_eq!(found, expect);
        let refused = file.delete_file("soul.md").unwrap_err().to_string();
        assert!(refused.contains("no_delete"), "{refused}");
        file.write_file("soul.md", whole("new")).unwrap();
        let read = file.read_file("soul.md", 100).unwrap().unwrap();
        assert_eq!(read.content, b"new");
        assert_eq!(read.info.protection, Protection::NoDelete);
        assert_eq!(read.info.mime_type.as_deref(), Some("text/markdown"));
    }

    #[test]
    fn a210_a_write_of_an_agent_takes_the_trust_away() {
        let made = Made::new();
        made.craft(
            "INSERT INTO adf_files VALUES ('lib/a.ts', 'one', NULL, 3, 'none', 1, '', ''),
                 ('fixed', 'one', NULL, 3, 'read_only', 1, '', '')",
        );
        let file = made.open();
        let is_trusted = |path| file.read_file(path, 9).unwrap().unwrap().info.is_authorized;
        assert!(is_trusted("lib/a.ts"));
        file.write_file("lib/a.ts", whole("two")).unwrap();
        assert!(!is_trusted("lib/a.ts"));
        assert!(file.write_file("fixed", whole("two")).is_err());
        assert!(file.delete_file("fixed").is_err());
        assert!(is_trusted("fixed"));
        assert!(file.protect_file("fixed", Protection::None).unwrap());
        assert!(file.delete_file("fixed").unwrap());
        assert!(!file.delete_file("fixed").unwrap());
        assert!(!file.protect_file("fixed", Protection::None).unwrap());
    }

    #[test]
    fn files_are_written_at_their_end_and_in_their_middle() {
        let made = Made::new();
        let file = made.open();
        let write = |content| {
            let write = FileWrite {
                content,
                mime_type: None,
                limit: 12,
            };
            file.write_file("a.txt", write)
                .map(|info| info.size)
                .map_err(|error| error.to_string())
        };
        let edit = |old: &str, new: &str| Writing::Edit {
            old: old.into(),
            new: new.into(),
        };
        assert_eq!(write(Writing::Append(b"one ".to_vec())), Ok(4));
        assert_eq!(write(Writing::Append(b"two one".to_vec())), Ok(11));
        assert_eq!(write(edit("two", "2")), Ok(9));
        for (content, reason) in [
            (edit("one", "1"), "is 2 times"),
            (edit("three", "3"), "is 0 times"),
            (edit("", "3"), "is 0 times"),
            (edit("2", "12345"), "12 is the limit"),
            (Writing::Append(b"four".to_vec()), "12 is the limit"),
            (Writing::Whole(vec![0; 13]), "12 is the limit"),
        ] {
            let refused = write(content).unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
        assert_eq!(
            file.read_file("a.txt", 12).unwrap().unwrap().content,
            b"one 2 one"
        );
        assert!(file.read_file("a.txt", 8).is_err());
        assert_eq!(write(Writing::Whole(vec![0xff])), Ok(1));
        assert!(write(edit("2", "3")).unwrap_err().contains("is not text"));
    }

    #[test]
    fn paths_lead_nowhere_but_down() {
        let made = Made::new();
        made.craft(
            "INSERT INTO adf_files VALUES ('../../etc/passwd', 'x', NULL, 1, 'none', 0, '', '')",
        );
        let file = made.open();
        let long = "a".repeat(1025);
        for path in [
            "",
            "/etc/passwd",
            "../../etc/passwd",
            "a/../b",
            "a/./b",
            "a//b",
            "a/",
            "..",
            ".",
            "a\\b",
            "a\0b",
            "a\nb",
            &long,
        ] {
            assert!(file.write_file(path, whole("x")).is_err(), "{path:?}");
            assert!(file.read_file(path, 100).is_err(), "{path:?}");
            assert!(file.delete_file(path).is_err(), "{path:?}");
        }
        for path in ["a", "a/b.c", "..a/b..", "ä/日本 1", &long[..1024]] {
            file.write_file(path, whole("x")).unwrap();
        }
    }
}
