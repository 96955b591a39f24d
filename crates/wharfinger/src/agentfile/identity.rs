//! Secrets in the file: which envelope each lies in, who opens it, and who may read it.
//!
//! Nothing secret is ever written plain, whatever state an envelope is in, and nothing that cannot be read is written
//! over.

use std::fmt;
use std::sync::Arc;

use ed25519_dalek::SigningKey;
use pbkdf2::pbkdf2_hmac;
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;
use sha2::Sha512;
use zeroize::Zeroizing;

use super::envelope::{self, Descriptor, Envelope, EnvelopeState, Holder, Key, Plain, Scrypt};
use super::file::Change;
use super::meta::put_runtime_meta;
use super::schema::MAX_SECRET;
use super::{AgentFile, Error, Keys, check, keys, random};
use crate::model::Secret;

/// A secret's bytes, wiped when they go.
pub type SecretBytes = Secret<Zeroizing<Vec<u8>>>;

/// Who sets a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetBy {
    /// A person, or this program for them.
    Owner,
    /// The agent's code, which may then read it.
    Code,
}

/// The agent's own key. Everything else in the identity store that is secret is in the other envelope.
const SIGNING: &str = "crypto:signing:private_key";
/// Rows that were sealed with a password, before there were envelopes.
const LEGACY: &str = "aes-256-gcm";

/// Keys of envelopes that are in memory.
#[derive(Clone, Default)]
pub(super) struct Unlocked {
    keys: [Option<Arc<Key>>; 2],
    states: [Option<EnvelopeState>; 2],
    legacy: Option<Arc<Key>>,
}

impl fmt::Debug for Unlocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.states).finish()
    }
}

impl Unlocked {
    fn state(&self, envelope: Envelope) -> EnvelopeState {
        self.states[envelope as usize].unwrap_or(EnvelopeState::Absent)
    }

    fn set(&mut self, envelope: Envelope, state: EnvelopeState, key: Option<Key>) {
        self.states[envelope as usize] = Some(state);
        self.keys[envelope as usize] = key.map(Arc::new);
    }

    fn key(&self, envelope: Envelope, purpose: &str) -> Result<Arc<Key>, Error> {
        self.keys[envelope as usize]
            .clone()
            .ok_or_else(|| Error::Sealed {
                purpose: purpose.to_owned(),
                envelope,
                state: self.state(envelope),
            })
    }
}

/// A row of the identity store.
struct Row {
    value: Vec<u8>,
    algorithm: String,
    nonce: Option<Vec<u8>>,
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
    /// The state of an envelope.
    pub fn envelope(&self, envelope: Envelope) -> Result<EnvelopeState, Error> {
        self.read(|_, unlocked| Ok(unlocked.state(envelope)))
    }

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
                .map(drop)
            })
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
                    for (holder, pair) in write.keys.holders() {
                        let public = pair.public();
                        found.push(envelope::key_slot(
                            key, *envelope, holder, &pair.did, &public,
                        ));
                    }
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

    /// Takes all passwords away.
    pub fn remove_passwords(&self) -> Result<(), Error> {
        self.write(|write| {
            credentials(write, "passwords")?;
            write.run(|db| {
                if let Some(mut found) = descriptor(db, Envelope::Credentials)? {
                    found.remove_passwords();
                    let purpose = Envelope::Credentials.purpose();
                    put_plain(db, purpose, found.text().as_bytes())?;
                }
                Ok(())
            })
        })
    }

    /// Writes a copy for somebody else: a password opens its credentials. The agent's identity stays ours.
    pub fn share_to(&self, to: &std::path::Path, password: &Secret) -> Result<(), Error> {
        let slot = self.slot_for(password)?;
        self.copy_to(to, |db| push_slot(db, slot))
    }

    fn slot_for(&self, password: &Secret) -> Result<Value, Error> {
        if password.open().is_empty() {
            return Err(Error::Refused("an empty password opens nothing".into()));
        }
        let unlocked = self.read(|_, unlocked| Ok(unlocked.clone()))?;
        let key = unlocked.key(Envelope::Credentials, "credentials")?;
        Ok(envelope::password_slot(
            &key,
            password.open(),
            Scrypt::USUAL,
        ))
    }

    /// Makes somebody else's file ours, which a person has to want: the agent gets a new identity (the old one stays
    /// in its history), and secrets that nobody here can read are dropped. Returns how many were.
    pub fn claim(&self) -> Result<usize, Error> {
        self.write(|write| {
            let mut dropped = 0;
            for envelope in Envelope::ALL {
                match write.unlocked.state(envelope) {
                    EnvelopeState::Unlocked => continue,
                    EnvelopeState::Locked if envelope == Envelope::Credentials => continue,
                    EnvelopeState::Absent | EnvelopeState::Locked | EnvelopeState::Foreign => {}
                }
                dropped += write.run(|db| {
                    db.execute(
                        "DELETE FROM adf_identity WHERE purpose = ?1",
                        [envelope.purpose()],
                    )?;
                    db.execute(
                        "DELETE FROM adf_identity WHERE encryption_algo = ?1 AND purpose <> ?2",
                        [envelope.algorithm(), SIGNING],
                    )
                })?;
                let key = write.run(|db| match envelope {
                    Envelope::Identity => mint(db, write.keys),
                    Envelope::Credentials => provision(db, write.keys, envelope),
                })?;
                write
                    .unlocked
                    .set(envelope, EnvelopeState::Unlocked, Some(key));
            }
            write.run(|db| stamp(db, write.keys))?;
            Ok(dropped)
        })
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

/// The key that seals credentials. A file without that envelope gets one; any other state is an error.
fn credentials(write: &mut Change<'_>, purpose: &str) -> Result<Arc<Key>, Error> {
    let envelope = Envelope::Credentials;
    if write.unlocked.state(envelope) == EnvelopeState::Absent {
        let key = write.run(|db| provision(db, write.keys, envelope))?;
        write
            .unlocked
            .set(envelope, EnvelopeState::Unlocked, Some(key));
    }
    write.unlocked.key(envelope, purpose)
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
                if holder == Holder::Owner {
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
                found.push(envelope::key_slot(
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

/// The identity and the envelopes of a new file.
pub(super) fn begin(connection: &Connection, keys: &Keys) -> rusqlite::Result<()> {
    mint(connection, keys)?;
    provision(connection, keys, Envelope::Credentials)?;
    stamp(connection, keys)
}

fn stamp(connection: &Connection, keys: &Keys) -> rusqlite::Result<()> {
    put_runtime_meta(connection, "adf_owner_did", keys.owner_did())?;
    put_runtime_meta(connection, "adf_runtime_did", keys.runtime_did())
}

/// A new envelope with slots for the owner and this machine.
fn provision(connection: &Connection, keys: &Keys, envelope: Envelope) -> rusqlite::Result<Key> {
    let key: Key = Zeroizing::new(random::bytes());
    let slots = keys.holders().map(|(holder, pair)| {
        envelope::key_slot(&key, envelope, holder, &pair.did, &pair.public())
    });
    let found = Descriptor::new(&slots);
    put_plain(connection, envelope.purpose(), found.text().as_bytes())?;
    Ok(key)
}

/// A new identity in a new envelope. An old one becomes history.
fn mint(connection: &Connection, keys: &Keys) -> rusqlite::Result<Key> {
    let key = provision(connection, keys, Envelope::Identity)?;
    let private: Key = Zeroizing::new(random::bytes());
    let public = SigningKey::from_bytes(&private).verifying_key().to_bytes();
    connection.execute(
        "INSERT OR REPLACE INTO adf_identity (purpose, value, encryption_algo, code_access) VALUES (?1, ?2, ?3, 0)",
        params![
            SIGNING,
            envelope::seal(&key, &keys::pkcs8(&private)),
            Envelope::Identity.algorithm()
        ],
    )?;
    put_plain(
        connection,
        "crypto:signing:public_key",
        &keys::spki(&public),
    )?;
    if let Some(old) = check::meta(connection, "adf_did")?.filter(|did| !did.is_empty()) {
        let history = check::meta(connection, "adf_did_history")?.unwrap_or_default();
        let mut history: Vec<Value> = serde_json::from_str(&history).unwrap_or_default();
        history.push(old.into());
        let history = Value::Array(history).to_string();
        put_runtime_meta(connection, "adf_did_history", &history)?;
    }
    put_runtime_meta(connection, "adf_did", &keys::did(&public))?;
    Ok(key)
}

fn push_slot(connection: &Connection, slot: Value) -> rusqlite::Result<()> {
    if let Some(mut found) = descriptor(connection, Envelope::Credentials)? {
        found.push(slot);
        let purpose = Envelope::Credentials.purpose();
        put_plain(connection, purpose, found.text().as_bytes())?;
    }
    Ok(())
}

/// Writes a row that is no secret: a public key, or slots.
fn put_plain(connection: &Connection, purpose: &str, value: &[u8]) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO adf_identity (purpose, value, encryption_algo, code_access) VALUES (?1, ?2, 'plain', 0)
             ON CONFLICT (purpose) DO UPDATE SET value = excluded.value",
        )?
        .execute(params![purpose, value])?;
    Ok(())
}

fn remove_prefix(connection: &Connection, prefix: &str) -> rusqlite::Result<usize> {
    connection.execute(
        "DELETE FROM adf_identity
         WHERE substr(purpose, 1, length(?1)) = ?1 AND substr(purpose, 1, 7) <> 'crypto:'",
        [prefix],
    )
}

fn row(connection: &Connection, purpose: &str) -> rusqlite::Result<Option<Row>> {
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

fn descriptor(connection: &Connection, envelope: Envelope) -> rusqlite::Result<Option<Descriptor>> {
    Ok(row(connection, envelope.purpose())?.and_then(|row| Descriptor::read(&row.value)))
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

/// How rows were sealed with a password before there were envelopes.
struct Legacy {
    salt: Vec<u8>,
    params: Vec<u8>,
    sealed: Row,
}

impl Legacy {
    fn find(connection: &Connection) -> rusqlite::Result<Option<Self>> {
        let first: Option<String> = connection
            .prepare_cached("SELECT purpose FROM adf_identity WHERE encryption_algo = ?1 LIMIT 1")?
            .query_row([LEGACY], |row| row.get(0))
            .optional()?;
        let get = |purpose| row(connection, purpose);
        let Some(sealed) = first.as_deref().map(get).transpose()?.flatten() else {
            return Ok(None);
        };
        let text = |row: Option<Row>| row.map(|row| row.value).unwrap_or_default();
        Ok(Some(Self {
            salt: text(get("crypto:kdf:salt")?),
            params: text(get("crypto:kdf:params")?),
            sealed,
        }))
    }

    fn open(&self, password: &str) -> Result<Option<Key>, String> {
        let params: Value = serde_json::from_slice(&self.params).unwrap_or_default();
        let rounds = match &params["iterations"] {
            Value::Null => 100_000,
            found => found.as_u64().unwrap_or(0),
        };
        let rounds = u32::try_from(rounds)
            .ok()
            .filter(|rounds| (1..=1_000_000).contains(rounds))
            .ok_or_else(|| format!("its password asks for more than is given: {params}"))?;
        let Some(salt) = unhex(&self.salt) else {
            return Err("the salt of its password is missing".into());
        };
        let mut key = Key::default();
        pbkdf2_hmac::<Sha512>(password.as_bytes(), &salt, rounds, key.as_mut_slice());
        let nonce = self.sealed.nonce.as_deref().unwrap_or_default();
        let is_right = envelope::decrypt(&key, nonce, &self.sealed.value).is_some();
        Ok(is_right.then_some(key))
    }
}

fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let digits: Vec<u8> = text
        .chars()
        .map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect::<Option<_>>()?;
    let pairs = digits.chunks_exact(2);
    (!digits.is_empty() && pairs.remainder().is_empty())
        .then(|| pairs.map(|pair| pair[0] << 4 | pair[1]).collect())
}
