//! What opens the envelopes: this machine's key, the owner's, a password; in this order.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use serde_json::Value;

use super::envelope::{Envelope, EnvelopeState, Key};
use super::identity::{descriptor, put_plain};
use super::legacy::Legacy;
use super::meta::put_runtime_meta;
use super::secrets::{credentials, row};
use super::slots::{self, Descriptor, Holder, Scrypt};
use super::{AgentFile, Error, Keys};
use crate::model::Secret;

/// Keys of envelopes that are in memory.
#[derive(Clone, Default)]
pub(super) struct Unlocked {
    keys: [Option<Arc<Key>>; 2],
    states: [Option<EnvelopeState>; 2],
    pub legacy: Option<Arc<Key>>,
}

impl fmt::Debug for Unlocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.states).finish()
    }
}

impl Unlocked {
    pub(super) fn state(&self, envelope: Envelope) -> EnvelopeState {
        self.states[envelope as usize].unwrap_or(EnvelopeState::Absent)
    }

    pub(super) fn set(&mut self, envelope: Envelope, state: EnvelopeState, key: Option<Key>) {
        self.states[envelope as usize] = Some(state);
        self.keys[envelope as usize] = key.map(Arc::new);
    }

    pub(super) fn key(&self, envelope: Envelope, purpose: &str) -> Result<Arc<Key>, Error> {
        self.keys[envelope as usize]
            .clone()
            .ok_or_else(|| Error::Sealed {
                purpose: purpose.to_owned(),
                envelope,
                state: self.state(envelope),
            })
    }
}

impl AgentFile {
    /// The state of an envelope.
    pub fn envelope(&self, envelope: Envelope) -> Result<EnvelopeState, Error> {
        self.read(|_, unlocked| Ok(unlocked.state(envelope)))
    }

    /// Whether a password would open something that is closed.
    pub fn needs_password(&self) -> Result<bool, Error> {
        self.read(|db, unlocked| {
            let is_locked = Envelope::ALL
                .into_iter()
                .any(|envelope| unlocked.state(envelope) == EnvelopeState::Locked);
            Ok(is_locked || (unlocked.legacy.is_none() && Legacy::find(db)?.is_some()))
        })
    }

    /// Opens what a password opens; whether it was right for anything. Credentials that somebody shared with us are
    /// ours from then on, and need the password no more.
    pub fn unlock(&self, password: &Secret) -> Result<bool, Error> {
        let (locked, legacy) = self.read(|db, unlocked| {
            let mut locked = vec![];
            for envelope in Envelope::ALL {
                if unlocked.state(envelope) == EnvelopeState::Locked
                    && let Some(found) = descriptor(db, envelope)?
                {
                    locked.push((envelope, found));
                }
            }
            Ok((locked, Legacy::find(db)?))
        })?;
        // Nobody waits for the file while the password is worked on.
        let unusable = |reason: String| Error::Unusable {
            path: self.path.clone(),
            reason,
        };
        let mut opened = vec![];
        for (envelope, found) in locked {
            if let Some(key) = found.open_with(password.open()).map_err(unusable)? {
                opened.push((envelope, found, key));
            }
        }
        let legacy = match legacy {
            Some(legacy) => legacy.open(password.open()).map_err(unusable)?,
            None => None,
        };
        let is_right = legacy.is_some() || !opened.is_empty();
        if self.is_read_only() {
            self.know(|unlocked| keep_opened(unlocked, &opened, legacy.as_ref()));
            return Ok(is_right);
        }
        self.write(|write| {
            keep_opened(&mut write.unlocked, &opened, legacy.as_ref());
            for (envelope, found, key) in &opened {
                // Where a password is the only way in, that is how its owner wants it.
                let is_shared = found.has("owner") || found.has("runtime");
                if *envelope == Envelope::Credentials && is_shared {
                    let mut found = found.clone();
                    adopt(&mut found, *envelope, key, write.keys);
                    found.remove_passwords();
                    write.run(|db| put_plain(db, envelope.purpose(), found.text().as_bytes()))?;
                }
            }
            Ok(is_right)
        })
    }

    /// Lets whoever knows a password have the credentials of this file, and of copies of it.
    pub fn add_password(&self, password: &Secret) -> Result<(), Error> {
        let slot = self.slot_for(password)?;
        self.write(|write| write.run(|db| push_slot(db, slot)))
    }

    /// Takes all passwords away. If a password was the only way in, its owner and this machine open it from now on.
    pub fn remove_passwords(&self) -> Result<(), Error> {
        self.write(|write| {
            let key = credentials(write, "credentials")?;
            write.run(|db| {
                if let Some(mut found) = descriptor(db, Envelope::Credentials)? {
                    found.remove_passwords();
                    if !found.has("owner") && !found.has("runtime") {
                        adopt(&mut found, Envelope::Credentials, &key, write.keys);
                    }
                    let purpose = Envelope::Credentials.purpose();
                    put_plain(db, purpose, found.text().as_bytes())?;
                }
                Ok(())
            })
        })
    }

    /// Writes a copy for somebody else: a password opens its credentials. The agent's identity stays ours.
    pub fn share_to(&self, to: &Path, password: &Secret) -> Result<(), Error> {
        self.writable()?;
        let slot = self.slot_for(password)?;
        self.copy_to(to, |db| push_slot(db, slot))
    }

    fn slot_for(&self, password: &Secret) -> Result<Value, Error> {
        if password.open().is_empty() {
            return Err(Error::Refused("an empty password opens nothing".into()));
        }
        let unlocked = self.read(|_, unlocked| Ok(unlocked.clone()))?;
        let key = unlocked.key(Envelope::Credentials, "credentials")?;
        Ok(slots::password_slot(&key, password.open(), Scrypt::USUAL))
    }
}

/// Gives the owner and this machine a slot.
fn adopt(found: &mut Descriptor, envelope: Envelope, key: &Key, keys: &Keys) {
    for (holder, pair) in keys.holders() {
        let slot = slots::key_slot(key, envelope, holder, &pair.did, &pair.public());
        found.push(slot);
    }
}

fn keep_opened(
    unlocked: &mut Unlocked,
    opened: &[(Envelope, Descriptor, Key)],
    legacy: Option<&Key>,
) {
    for (envelope, _, key) in opened {
        unlocked.set(*envelope, EnvelopeState::Unlocked, Some(key.clone()));
    }
    if let Some(key) = legacy {
        unlocked.legacy = Some(Arc::new(key.clone()));
    }
}

/// What opens with our keys, and which of it with the owner's only.
pub(super) fn unlock(
    connection: &Connection,
    keys: &Keys,
) -> rusqlite::Result<(Unlocked, Vec<(Envelope, Descriptor)>)> {
    let mut unlocked = Unlocked::default();
    let mut by_owner = vec![];
    for envelope in Envelope::ALL {
        let Some(value) = row(connection, envelope.purpose())? else {
            let query = "SELECT count(*) FROM adf_identity WHERE encryption_algo = ?1";
            let sealed: i64 =
                connection.query_row(query, [envelope.algorithm()], |row| row.get(0))?;
            // Rows whose envelope is gone are nobody's, and not to be mixed with new ones.
            let state = match sealed {
                0 => EnvelopeState::Absent,
                _ => EnvelopeState::Foreign,
            };
            unlocked.set(envelope, state, None);
            continue;
        };
        let Some(found) = Descriptor::read(&value.value) else {
            unlocked.set(envelope, EnvelopeState::Foreign, None);
            continue;
        };
        let opened = keys.holders().into_iter().find_map(|(holder, pair)| {
            let key = found.open(envelope, holder, &pair.opening)?;
            Some((holder, key))
        });
        match opened {
            Some((holder, key)) => {
                // No more slots than are looked at, or there would be one more each time.
                if holder == Holder::Owner && !found.is_full() {
                    by_owner.push((envelope, found));
                }
                unlocked.set(envelope, EnvelopeState::Unlocked, Some(key));
            }
            None if found.has("password") => unlocked.set(envelope, EnvelopeState::Locked, None),
            None => unlocked.set(envelope, EnvelopeState::Foreign, None),
        }
    }
    Ok((unlocked, by_owner))
}

/// Unlocks, and gives this machine a slot where only the owner's words opened.
pub(super) fn open(connection: &Connection, keys: &Keys) -> rusqlite::Result<Unlocked> {
    let (unlocked, by_owner) = unlock(connection, keys)?;
    for (envelope, mut found) in by_owner {
        let Some(key) = &unlocked.keys[envelope as usize] else {
            continue;
        };
        for (holder, pair) in keys.holders() {
            if holder == Holder::Runtime {
                found.push(slots::key_slot(
                    key,
                    envelope,
                    holder,
                    &pair.did,
                    &pair.public(),
                ));
            }
        }
        put_plain(connection, envelope.purpose(), found.text().as_bytes())?;
        put_runtime_meta(connection, "adf_runtime_did", keys.runtime_did())?;
    }
    Ok(unlocked)
}

fn push_slot(connection: &Connection, slot: Value) -> rusqlite::Result<()> {
    if let Some(mut found) = descriptor(connection, Envelope::Credentials)? {
        found.push(slot);
        let purpose = Envelope::Credentials.purpose();
        put_plain(connection, purpose, found.text().as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agentfile::SetBy;
    use crate::agentfile::tests::Made;

    fn secret(text: &str) -> Secret {
        Secret::new(text.to_owned())
    }

    fn states(file: &AgentFile) -> [EnvelopeState; 2] {
        Envelope::ALL.map(|envelope| file.envelope(envelope).unwrap())
    }

    fn key(file: &AgentFile) -> Result<Option<Vec<u8>>, Error> {
        Ok(file.secret("key")?.map(|secret| secret.open().to_vec()))
    }

    fn with_key() -> Made {
        let made = Made::new();
        made.open()
            .set_secret("key", b"value", SetBy::Owner)
            .unwrap();
        made
    }

    const SLOTS: &str = "SELECT group_concat(json_extract(s.value, '$.type'), ' ') FROM adf_identity, \
         json_each(CAST(adf_identity.value AS TEXT), '$.slots') AS s WHERE purpose = 'crypto:envelope:credentials'";

    #[test]
    fn a219_the_owner_opens_a_file_of_another_machine_once_with_their_words() {
        let made = with_key();
        let other = Keys::from_words(&made.keys.owner_words()).unwrap();
        assert_eq!(made.ask::<String>(SLOTS), "runtime owner");
        let file = AgentFile::open(&made.path, &other).unwrap();
        assert_eq!(states(&file), [EnvelopeState::Unlocked; 2]);
        assert_eq!(key(&file).unwrap().unwrap(), b"value");
        assert_eq!(
            file.meta("adf_runtime_did").unwrap().unwrap(),
            other.runtime_did()
        );
        file.close().unwrap();
        assert_eq!(made.ask::<String>(SLOTS), "runtime owner runtime");
        AgentFile::open(&made.path, &other)
            .unwrap()
            .close()
            .unwrap();
        made.open().close().unwrap();
        assert_eq!(made.ask::<String>(SLOTS), "runtime owner runtime");
    }

    #[test]
    fn a219_a_file_of_somebody_else_is_foreign_and_says_so() {
        let made = with_key();
        let file = AgentFile::open(&made.path, &Keys::generate()).unwrap();
        assert_eq!(states(&file), [EnvelopeState::Foreign; 2]);
        let refused = key(&file).unwrap_err().to_string();
        assert!(
            refused.contains("credentials envelope of this file is foreign"),
            "{refused}"
        );
        assert!(file.set_secret("key", b"new", SetBy::Owner).is_err());
        assert!(file.set_secret("other", b"new", SetBy::Owner).is_err());
        assert!(file.add_password(&secret("x")).is_err());
        assert!(file.remove_passwords().is_err());
        assert!(!file.needs_password().unwrap(), "none would help");
        file.close().unwrap();
        assert_eq!(key(&made.open()).unwrap().unwrap(), b"value");
    }

    #[test]
    fn slots_do_not_grow_beyond_what_is_looked_at() {
        let made = with_key();
        let read = "SELECT CAST(value AS TEXT) FROM adf_identity WHERE purpose = 'crypto:envelope:credentials'";
        let mut found: Value = serde_json::from_str(&made.ask::<String>(read)).unwrap();
        let mut slots = vec![found["slots"][1].clone()];
        slots.resize(64, serde_json::json!({"type": "filler"}));
        found["slots"] = slots.into();
        made.craft(&format!(
            "UPDATE adf_identity SET value = '{found}' WHERE purpose = 'crypto:envelope:credentials'"
        ));
        let file = made.open();
        assert_eq!(
            key(&file).unwrap().unwrap(),
            b"value",
            "by the owner's slot"
        );
        file.close().unwrap();
        let slots: String = made.ask(SLOTS);
        assert_eq!(slots.split(' ').count(), 64);
    }

    #[test]
    fn a203_a217_a_shared_copy_opens_with_its_password_and_is_then_ones_own() {
        let made = with_key();
        let file = made.open();
        let to = made.dir.path().join("shared.adf");
        assert!(file.share_to(&to, &secret("")).is_err());
        file.share_to(&to, &secret("open sesame")).unwrap();
        file.close().unwrap();
        assert_eq!(
            made.ask::<String>(SLOTS),
            "runtime owner",
            "ours has no password"
        );
        let theirs = Keys::generate();
        let file = AgentFile::open(&to, &theirs).unwrap();
        assert_eq!(
            states(&file),
            [EnvelopeState::Foreign, EnvelopeState::Locked]
        );
        assert!(file.needs_password().unwrap());
        let refused = key(&file).unwrap_err().to_string();
        assert!(refused.contains("unlock it with its password"), "{refused}");
        assert!(file.set_secret("new", b"1", SetBy::Owner).is_err());
        assert!(!file.unlock(&secret("wrong")).unwrap());
        assert_eq!(states(&file)[1], EnvelopeState::Locked);
        assert!(file.unlock(&secret("open sesame")).unwrap());
        assert!(!file.needs_password().unwrap());
        assert_eq!(key(&file).unwrap().unwrap(), b"value");
        file.close().unwrap();
        let file = AgentFile::open(&to, &theirs).unwrap();
        assert_eq!(
            states(&file),
            [EnvelopeState::Foreign, EnvelopeState::Unlocked]
        );
        file.close().unwrap();
        let file = AgentFile::open(&to, &Keys::generate()).unwrap();
        assert_eq!(
            states(&file)[1],
            EnvelopeState::Foreign,
            "the password is gone"
        );
    }

    #[test]
    fn a_password_that_is_added_can_be_taken_away() {
        let made = with_key();
        let file = made.open();
        file.add_password(&secret("p")).unwrap();
        file.close().unwrap();
        assert_eq!(made.ask::<String>(SLOTS), "runtime owner password");
        let file = made.open();
        file.remove_passwords().unwrap();
        file.close().unwrap();
        assert_eq!(made.ask::<String>(SLOTS), "runtime owner");
    }

    #[test]
    fn a_file_that_only_a_password_opens_stays_so_until_that_is_taken_away() {
        let made = with_key();
        let file = made.open();
        file.add_password(&secret("p")).unwrap();
        file.close().unwrap();
        made.craft(
            "UPDATE adf_identity SET value = json_remove(CAST(value AS TEXT), '$.slots[0]', '$.slots[0]')
             WHERE purpose = 'crypto:envelope:credentials'",
        );
        assert_eq!(made.ask::<String>(SLOTS), "password");
        let file = made.open();
        assert!(file.unlock(&secret("p")).unwrap());
        file.close().unwrap();
        let file = made.open();
        assert_eq!(states(&file)[1], EnvelopeState::Locked);
        file.unlock(&secret("p")).unwrap();
        file.remove_passwords().unwrap();
        file.close().unwrap();
        assert_eq!(key(&made.open()).unwrap().unwrap(), b"value");
    }

    #[test]
    fn a217_a_slot_that_asks_for_too_much_is_an_error_at_once() {
        let made = with_key();
        made.craft(
            r#"UPDATE adf_identity SET value = '{"v":1,"slots":[{"type":"password","kdf":"scrypt",
                   "kdf_params":{"N":1073741824,"r":8,"p":1},"salt":"","iv":"","wrapped_dek":""}]}'
               WHERE purpose = 'crypto:envelope:credentials'"#,
        );
        let file = made.open();
        assert_eq!(states(&file)[1], EnvelopeState::Locked);
        let refused = file.unlock(&secret("x")).unwrap_err().to_string();
        assert!(refused.contains("asks for more than is given"), "{refused}");
    }

    /// The rows were sealed with PBKDF2 and AES in Python: password `old password`, salt `00010203…0f`, nonce twelve
    /// times 7, `legacy value`.
    const OLD: &str = "INSERT INTO adf_identity VALUES
        ('crypto:kdf:salt', CAST('000102030405060708090a0b0c0d0e0f' AS BLOB), 'plain', NULL, NULL, 0),
        ('crypto:kdf:params', CAST('{\"iterations\":1000}' AS BLOB), 'plain', NULL, NULL, 0),
        ('key', X'6c72e4c5b54532362d44005f21b4094598cd7e1d7f6ebe86221b174f', 'aes-256-gcm', X'070707070707070707070707', NULL, 1)";

    #[test]
    fn a218_p57_what_was_sealed_with_a_password_is_read_and_written_the_new_way() {
        let made = Made::new();
        made.craft(OLD);
        let file = made.open();
        assert!(file.needs_password().unwrap());
        assert!(key(&file).is_err());
        assert!(!file.unlock(&secret("wrong")).unwrap());
        assert!(file.unlock(&secret("old password")).unwrap());
        assert_eq!(key(&file).unwrap().unwrap(), b"legacy value");
        file.set_secret("key", b"new value", SetBy::Owner).unwrap();
        file.close().unwrap();
        let file = made.open();
        assert!(!file.needs_password().unwrap());
        assert_eq!(key(&file).unwrap().unwrap(), b"new value");
        assert!(
            file.code_secret("key").unwrap().is_some(),
            "the flag is kept"
        );
        drop(file);
        let row = "SELECT encryption_algo || ' ' || coalesce(salt, 'none') FROM adf_identity WHERE purpose = 'key'";
        assert_eq!(made.ask::<String>(row), "env:credentials none");
    }

    #[test]
    fn p28_opening_unlocks_wherever_the_file_is() {
        let made = with_key();
        let path = made.dir.path().join("renamed.adf");
        std::fs::rename(&made.path, &path).unwrap();
        let file = AgentFile::open(&path, &made.keys).unwrap();
        assert_eq!(states(&file), [EnvelopeState::Unlocked; 2]);
        assert_eq!(key(&file).unwrap().unwrap(), b"value");
    }

    #[test]
    fn p25_sealed_rows_do_not_ask_for_a_password() {
        let made = with_key();
        assert!(!made.open().needs_password().unwrap());
    }

    #[test]
    fn a218_how_often_a_password_is_hashed_is_bounded() {
        for rounds in ["0", "1000001", "-1", "\"many\""] {
            let made = Made::new();
            made.craft(&OLD.replace(":1000}", &format!(":{rounds}}}")));
            let refused = made.open().unlock(&secret("x")).unwrap_err().to_string();
            assert!(refused.contains("asks for more than is given"), "{refused}");
        }
    }
}
