//! Secrets in the file: who sets them, and who may read them.
//!
//! Nothing secret is ever written plain, whatever state an envelope is in, and nothing that cannot be read is written
//! over.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};
use zeroize::Zeroizing;

use super::envelope::{self, Envelope, EnvelopeState, Key, Plain};
use super::file::Change;
use super::legacy::LEGACY;
use super::schema::MAX_SECRET;
use super::unlocking::Unlocked;
use super::{AgentFile, Error, identity};
use crate::model::Secret;

/// A secret's bytes, wiped when they go.
pub type SecretBytes = Secret<Zeroizing<Vec<u8>>>;

/// What a secret hides: for doors that show owners their own words, or hand code what it may read.
pub fn reveal<T>(secret: &Secret<T>) -> &T {
    secret.open()
}

/// Who sets a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetBy {
    /// A person, or this program for them.
    Owner,
    /// The agent's code, which may then read it.
    Code,
}

/// A row of the identity store.
pub(super) struct Row {
    pub value: Vec<u8>,
    algorithm: String,
    pub nonce: Option<Vec<u8>>,
    is_for_code: bool,
}

impl Row {
    /// How it is sealed is told by what its algorithm says, never by what it does not say.
    fn open(&self, purpose: &str, unlocked: &Unlocked) -> Result<Plain, Error> {
        let unreadable = |reason: &str| Error::Unreadable {
            purpose: purpose.to_owned(),
            reason: reason.to_owned(),
        };
        let envelope = Envelope::ALL
            .into_iter()
            .find(|envelope| envelope.algorithm() == self.algorithm);
        if let Some(envelope) = envelope {
            let key = unlocked.key(envelope, purpose)?;
            return envelope::unseal(&key, &self.value)
                .ok_or_else(|| unreadable("its seal is broken"));
        }
        match self.algorithm.as_str() {
            "plain" => Ok(Zeroizing::new(self.value.clone())),
            LEGACY => {
                let key = unlocked
                    .legacy
                    .as_ref()
                    .ok_or_else(|| unreadable("the password of this file is needed"))?;
                envelope::decrypt(key, self.nonce.as_deref().unwrap_or_default(), &self.value)
                    .ok_or_else(|| unreadable("its seal is broken"))
            }
            other => Err(unreadable(&format!("this program does not know `{other}`"))),
        }
    }
}

impl AgentFile {
    /// A secret, for this program's own use.
    pub fn secret(&self, purpose: &str) -> Result<Option<SecretBytes>, Error> {
        let (row, unlocked) =
            self.read(|db, unlocked| Ok((row(db, purpose)?, unlocked.clone())))?;
        row.map(|row| row.open(purpose, &unlocked).map(Secret::new))
            .transpose()
    }

    /// A secret, for the agent's code: one it set itself or was given, and never a key of the file.
    pub fn code_secret(&self, purpose: &str) -> Result<Option<SecretBytes>, Error> {
        let (row, unlocked) =
            self.read(|db, unlocked| Ok((row(db, purpose)?, unlocked.clone())))?;
        match row {
            None => Ok(None),
            Some(row) if row.is_for_code && !is_reserved(purpose) => {
                row.open(purpose, &unlocked).map(Secret::new).map(Some)
            }
            Some(_) => Err(Error::Refused(format!(
                "`{purpose}` is not for code; its owner can allow it, but for keys of the file"
            ))),
        }
    }

    /// Keeps a secret, sealed. One that is there and cannot be read stays as it is.
    pub fn set_secret(&self, purpose: &str, value: &[u8], by: SetBy) -> Result<(), Error> {
        check_purpose(purpose)?;
        if i64::try_from(value.len()).map_or(true, |size| size > MAX_SECRET) {
            return Err(Error::Refused(format!(
                "`{purpose}` has {} bytes, and {MAX_SECRET} is the limit",
                value.len()
            )));
        }
        self.write(|write| {
            if let Some(known) = write.run(|db| row(db, purpose))? {
                known.open(purpose, &write.unlocked)?;
            }
            let key = credentials(write, purpose)?;
            let sealed = envelope::seal(&key, value);
            write.run(|db| {
                db.prepare_cached(
                    "INSERT INTO adf_identity (purpose, value, encryption_algo, salt, kdf_params, code_access)
                     VALUES (?1, ?2, ?3, NULL, NULL, ?4)
                     ON CONFLICT (purpose) DO UPDATE SET value = excluded.value,
                         encryption_algo = excluded.encryption_algo, salt = NULL, kdf_params = NULL",
                )?
                .execute(params![
                    purpose,
                    sealed,
                    Envelope::Credentials.algorithm(),
                    by == SetBy::Code
                ])
            })?;
            write.is_not_full("adf_identity")
        })
    }

    /// Lets code read a secret, or no longer; whether there is one. What was taken away stays so when code sets it
    /// again.
    pub fn allow_code(&self, purpose: &str, is_allowed: bool) -> Result<bool, Error> {
        check_purpose(purpose)?;
        self.write(|write| {
            write.run(|db| {
                let query = "UPDATE adf_identity SET code_access = ?2 WHERE purpose = ?1";
                Ok(db.execute(query, params![purpose, is_allowed])? > 0)
            })
        })
    }

    /// Forgets a secret, readable or not; whether there was one.
    pub fn remove_secret(&self, purpose: &str) -> Result<bool, Error> {
        check_purpose(purpose)?;
        self.write(|write| {
            write.run(|db| {
                let query = "DELETE FROM adf_identity WHERE purpose = ?1";
                Ok(db.execute(query, [purpose])? > 0)
            })
        })
    }

    /// Forgets all secrets whose purpose begins with exactly this text; how many there were.
    pub fn remove_secrets(&self, prefix: &str) -> Result<usize, Error> {
        check_purpose(prefix)?;
        self.write(|write| write.run(|db| remove_prefix(db, prefix)))
    }

    /// Purposes of secrets that begin with exactly this text, sorted. Keys of the file are not among them.
    pub fn purposes(&self, prefix: &str) -> Result<Vec<String>, Error> {
        self.read(|db, _| {
            // No pattern: `_` and `%` in names are letters like others.
            db.prepare_cached(
                "SELECT purpose FROM adf_identity
                 WHERE substr(purpose, 1, length(?1)) = ?1 AND substr(purpose, 1, 7) <> 'crypto:'
                 ORDER BY purpose",
            )?
            .query_map([prefix], |row| row.get(0))?
            .collect()
        })
    }
}

/// The key that seals credentials. A file without that envelope gets one; any other state is an error.
pub(super) fn credentials(write: &mut Change<'_>, purpose: &str) -> Result<Arc<Key>, Error> {
    let envelope = Envelope::Credentials;
    if write.unlocked.state(envelope) == EnvelopeState::Absent {
        let key = write.run(|db| identity::provision(db, write.keys, envelope))?;
        write
            .unlocked
            .set(envelope, EnvelopeState::Unlocked, Some(key));
    }
    write.unlocked.key(envelope, purpose)
}

fn remove_prefix(connection: &Connection, prefix: &str) -> rusqlite::Result<usize> {
    connection.execute(
        "DELETE FROM adf_identity
         WHERE substr(purpose, 1, length(?1)) = ?1 AND substr(purpose, 1, 7) <> 'crypto:'",
        [prefix],
    )
}

pub(super) fn row(connection: &Connection, purpose: &str) -> rusqlite::Result<Option<Row>> {
    connection
        .prepare_cached(
            "SELECT CAST(value AS BLOB), coalesce(encryption_algo, 'plain'), CAST(salt AS BLOB), code_access = 1
             FROM adf_identity WHERE purpose = ?1",
        )?
        .query_row([purpose], |row| {
            Ok(Row {
                value: row.get(0)?,
                algorithm: row.get(1)?,
                nonce: row.get(2)?,
                is_for_code: row.get(3)?,
            })
        })
        .optional()
}

/// Keys of the file: no code reads them, and nobody sets them.
fn is_reserved(purpose: &str) -> bool {
    purpose.starts_with("crypto:")
}

fn check_purpose(purpose: &str) -> Result<(), Error> {
    let is_fine = (1..=512).contains(&purpose.len()) && !purpose.chars().any(char::is_control);
    if is_fine && !is_reserved(purpose) {
        return Ok(());
    }
    let shown: String = purpose.escape_debug().take(80).collect();
    Err(Error::Refused(format!(
        "`{shown}` cannot be a secret's purpose: it is text of up to 512 bytes, and crypto: is the file's own"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agentfile::tests::Made;

    fn text(secret: Result<Option<SecretBytes>, Error>) -> Option<String> {
        let secret = secret.unwrap()?;
        Some(String::from_utf8(secret.open().to_vec()).unwrap())
    }

    #[test]
    fn a215_all_but_the_signing_key_is_sealed_with_the_credentials() {
        let made = Made::new();
        let file = made.open();
        for purpose in ["mcp:git:TOKEN", "openai_key", "crypto"] {
            file.set_secret(purpose, b"hunter2-hunter2", SetBy::Owner)
                .unwrap();
            assert_eq!(text(file.secret(purpose)).unwrap(), "hunter2-hunter2");
        }
        assert_eq!(text(file.secret("other")), None);
        file.close().unwrap();
        let rows: String = made.ask(
            "SELECT group_concat(purpose || ' ' || encryption_algo, char(10)) FROM
             (SELECT * FROM adf_identity WHERE salt IS NULL AND kdf_params IS NULL ORDER BY purpose)",
        );
        assert_eq!(
            rows,
            "crypto env:credentials\ncrypto:envelope:credentials plain\ncrypto:envelope:identity plain\n\
             crypto:signing:private_key env:identity\ncrypto:signing:public_key plain\n\
             mcp:git:TOKEN env:credentials\nopenai_key env:credentials"
        );
        let bytes = std::fs::read(&made.path).unwrap();
        let found = bytes.windows(7).any(|window| window == b"hunter2");
        assert!(!found, "nowhere in the file");
    }

    #[test]
    fn a221_code_reads_what_it_set_until_that_is_taken_away() {
        let made = Made::new();
        let file = made.open();
        file.set_secret("mine", b"1", SetBy::Code).unwrap();
        file.set_secret("owners", b"2", SetBy::Owner).unwrap();
        assert_eq!(text(file.code_secret("mine")).unwrap(), "1");
        assert!(file.code_secret("owners").is_err());
        assert_eq!(text(file.code_secret("none")), None);
        file.set_secret("mine", b"3", SetBy::Owner).unwrap();
        assert_eq!(text(file.code_secret("mine")).unwrap(), "3");
        assert!(file.allow_code("mine", false).unwrap());
        file.set_secret("mine", b"4", SetBy::Code).unwrap();
        assert!(file.code_secret("mine").is_err(), "it was taken away");
        assert_eq!(text(file.secret("mine")).unwrap(), "4");
        assert!(file.allow_code("owners", true).unwrap());
        assert_eq!(text(file.code_secret("owners")).unwrap(), "2");
        assert!(!file.allow_code("none", true).unwrap());
    }

    #[test]
    fn a221_keys_of_the_file_are_never_for_code() {
        let made = Made::new();
        made.craft(
            "UPDATE adf_identity SET code_access = 1;
             INSERT INTO adf_identity VALUES ('crypto:kdf:salt', 'x', 'plain', NULL, NULL, 1)",
        );
        let file = made.open();
        for purpose in [
            "crypto:signing:private_key",
            "crypto:signing:public_key",
            "crypto:envelope:credentials",
            "crypto:kdf:salt",
        ] {
            assert!(file.code_secret(purpose).is_err(), "{purpose}");
            for by in [SetBy::Code, SetBy::Owner] {
                assert!(file.set_secret(purpose, b"x", by).is_err(), "{purpose}");
            }
            assert!(file.allow_code(purpose, true).is_err(), "{purpose}");
            assert!(file.remove_secret(purpose).is_err(), "{purpose}");
        }
    }

    #[test]
    fn a108_p42_only_the_exact_beginning_is_removed() {
        let made = Made::new();
        let file = made.open();
        let all = [
            "mcp:a%b:K",
            "mcp:a_b:K",
            "mcp:a_b:L",
            "mcp:a_b_c:K",
            "mcp:axb:K",
            "mcp:é:K",
        ];
        for purpose in all {
            file.set_secret(purpose, b"1", SetBy::Owner).unwrap();
        }
        assert_eq!(
            file.purposes("mcp:a_b:").unwrap(),
            ["mcp:a_b:K", "mcp:a_b:L"]
        );
        assert_eq!(file.purposes("mcp:é:").unwrap(), ["mcp:é:K"]);
        assert_eq!(file.remove_secrets("mcp:a_b:").unwrap(), 2);
        assert_eq!(file.remove_secrets("mcp:%:").unwrap(), 0);
        assert_eq!(file.remove_secrets("MCP:").unwrap(), 0);
        assert_eq!(
            file.purposes("").unwrap(),
            ["mcp:a%b:K", "mcp:a_b_c:K", "mcp:axb:K", "mcp:é:K"]
        );
        for prefix in ["", "crypto:", "crypto:signing"] {
            assert!(file.remove_secrets(prefix).is_err());
        }
        assert_eq!(file.remove_secrets("c").unwrap(), 0, "nor keys of the file");
        assert!(file.remove_secret("mcp:axb:K").unwrap());
        assert!(!file.remove_secret("mcp:axb:K").unwrap());
    }

    #[test]
    fn p27_what_cannot_be_read_is_not_written_over() {
        let made = Made::new();
        made.open()
            .set_secret("broken", b"1", SetBy::Owner)
            .unwrap();
        made.craft(
            "UPDATE adf_identity SET value = zeroblob(40) WHERE purpose = 'broken';
             INSERT INTO adf_identity VALUES ('odd', 'x', 'rot13', NULL, NULL, 0),
                 ('old', 'x', 'aes-256-gcm', 'y', NULL, 0)",
        );
        let file = made.open();
        for (purpose, reason) in [
            ("broken", "its seal is broken"),
            ("odd", "does not know `rot13`"),
            ("old", "the password of this file is needed"),
        ] {
            let refused = file.set_secret(purpose, b"2", SetBy::Owner).unwrap_err();
            assert!(refused.to_string().contains(reason), "{refused}");
            assert!(file.secret(purpose).is_err());
            assert!(file.remove_secret(purpose).unwrap());
            file.set_secret(purpose, b"2", SetBy::Owner).unwrap();
        }
    }

    #[test]
    fn a222_a_file_without_an_envelope_gets_one_before_a_secret() {
        let made = Made::new();
        made.craft(
            "DELETE FROM adf_identity;
             INSERT INTO adf_identity (purpose, value) VALUES ('mcp:a:K', 'plain once')",
        );
        let file = made.open();
        assert_eq!(
            file.envelope(Envelope::Credentials).unwrap(),
            EnvelopeState::Absent
        );
        assert_eq!(text(file.secret("mcp:a:K")).unwrap(), "plain once");
        file.set_secret("mcp:a:K", b"sealed now", SetBy::Owner)
            .unwrap();
        file.close().unwrap();
        let file = made.open();
        assert_eq!(text(file.secret("mcp:a:K")).unwrap(), "sealed now");
        drop(file);
        let bytes = std::fs::read(&made.path).unwrap();
        let left = bytes.windows(10).any(|window| window == b"plain once");
        assert!(!left, "nor what it was before");
        let plain: i64 = made.ask(
            "SELECT count(*) FROM adf_identity WHERE encryption_algo = 'plain' AND purpose NOT LIKE 'crypto:%'",
        );
        assert_eq!(plain, 0);
    }

    #[test]
    fn a222_p26_no_secret_is_kept_plain_whatever_the_envelope_is() {
        for sql in [
            "UPDATE adf_identity SET value = '{\"v\":1,\"slots\":[]}' WHERE purpose = 'crypto:envelope:credentials'",
            "UPDATE adf_identity SET value = '{\"v\":9}' WHERE purpose = 'crypto:envelope:credentials'",
            "UPDATE adf_identity SET value = 'x' WHERE purpose = 'crypto:envelope:credentials'",
            // Its rows are there, and it is not.
            "DELETE FROM adf_identity WHERE purpose = 'crypto:envelope:credentials'",
        ] {
            let made = Made::new();
            made.open().set_secret("a", b"1", SetBy::Owner).unwrap();
            made.craft(sql);
            let file = made.open();
            let refused = file.set_secret("b", b"2", SetBy::Code).unwrap_err();
            let is_foreign = matches!(
                refused,
                Error::Sealed {
                    envelope: Envelope::Credentials,
                    state: EnvelopeState::Foreign,
                    ..
                }
            );
            assert!(is_foreign, "{sql}: {refused}");
            assert!(file.secret("a").is_err());
            assert_eq!(file.purposes("").unwrap(), ["a"]);
        }
    }

    #[test]
    fn purposes_and_values_are_bounded() {
        let made = Made::new();
        let file = made.open();
        for purpose in ["", "a\0b", "a\nb", &"a".repeat(513)] {
            assert!(file.set_secret(purpose, b"1", SetBy::Owner).is_err());
        }
        let most = vec![0; 1 << 20];
        file.set_secret("big", &most, SetBy::Owner).unwrap();
        assert!(
            file.set_secret("big", &[&most[..], b"1"].concat(), SetBy::Owner)
                .is_err()
        );
        file.close().unwrap();
        made.open();
    }
}
