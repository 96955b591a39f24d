//! A mark in a file that says that what is in it may run on this machine. Whose a file is says the file itself, and
//! anybody can write that; the mark is made with a key of this machine, for one agent under one name. It does not go
//! with copies.

use rusqlite::Connection;

use super::meta::put_runtime_meta;
use super::{AgentFile, Error, Keys, check};

/// Where it is.
const MARK: &str = "wharfinger_confirmed";

impl AgentFile {
    /// Whether it has the mark of this machine.
    pub fn is_trusted(&self) -> Result<bool, Error> {
        self.read(|db, _| {
            let found = check::meta(db, MARK)?;
            let made = mark(db, self.name(), &self.keys)?;
            Ok(found.is_some_and(|found| found == made))
        })
    }

    /// Gives it the mark, which its owner has to want.
    pub fn trust(&self) -> Result<(), Error> {
        let name = self.name().to_owned();
        self.write(|write| write.run(|db| put(db, &name, write.keys)))
    }

    fn name(&self) -> &str {
        let name = self.path.file_name().and_then(|name| name.to_str());
        name.unwrap_or_default()
    }
}

/// Writes it into a file that will have that name.
pub(super) fn put(connection: &Connection, name: &str, keys: &Keys) -> rusqlite::Result<()> {
    let mark = mark(connection, name, keys)?;
    put_runtime_meta(connection, MARK, &mark)
}

/// Takes it out of a copy.
pub(super) fn drop_mark(connection: &Connection) -> rusqlite::Result<()> {
    connection
        .execute("DELETE FROM adf_meta WHERE key = ?1", [MARK])
        .map(drop)
}

fn mark(connection: &Connection, name: &str, keys: &Keys) -> rusqlite::Result<String> {
    let did = check::meta(connection, "adf_did")?.unwrap_or_default();
    Ok(keys.mark(&[MARK, &did, name]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agentfile::tests::Made;
    use crate::agentfile::{copy, peek};

    #[test]
    fn a_file_is_trusted_where_it_was_made_and_under_its_name_alone() {
        let made = Made::new();
        let file = made.open();
        assert!(file.is_trusted().unwrap());
        let exported = made.path.with_file_name("exported.adf");
        file.export_to(&exported).unwrap();
        file.close().unwrap();
        let folder = made.path.parent().unwrap();
        let is_trusted = |path: &std::path::Path, keys: &Keys| {
            let file = AgentFile::open(path, keys).unwrap();
            let trusted = file.is_trusted().unwrap();
            file.close().unwrap();
            trusted
        };
        // What says it is ours, and is not.
        let other = Keys::from_words(&made.keys.owner_words()).unwrap();
        assert!(peek(&made.path, &other).unwrap().is_ours);
        assert!(!is_trusted(&made.path, &other), "another machine");
        let renamed = folder.join("renamed.adf");
        std::fs::copy(&made.path, &renamed).unwrap();
        assert!(!is_trusted(&renamed, &made.keys), "another name");
        assert!(!is_trusted(&exported, &made.keys), "an export");
        let inside = folder.join("inside");
        std::fs::create_dir(&inside).unwrap();
        let copied = inside.join(made.path.file_name().unwrap());
        copy(&made.path, &copied, &made.keys).unwrap();
        assert!(!is_trusted(&copied, &made.keys), "a copy of that name");
        let file = AgentFile::open(&copied, &made.keys).unwrap();
        file.trust().unwrap();
        assert!(file.is_trusted().unwrap());
    }
}
