//! Who the agent is: its signing key, the envelopes of a new file, and what becomes of both when the file changes hands.

use ed25519_dalek::SigningKey;
use rusqlite::{Connection, params};
use serde_json::Value;
use zeroize::Zeroizing;

use super::envelope::{self, Envelope, EnvelopeState, Key};
use super::meta::put_runtime_meta;
use super::secrets::row;
use super::slots::{self, Descriptor};
use super::{AgentFile, Error, Keys, check, keys, random};

/// The agent's own key. Everything else in the identity store that is secret is in the other envelope.
const SIGNING: &str = "crypto:signing:private_key";

impl AgentFile {
    /// Makes somebody else's file ours, which a person has to want: the agent gets a new identity (the old one stays
    /// in its history), and secrets that nobody here can read are dropped. Returns how many were.
    pub fn claim(&self) -> Result<usize, Error> {
        self.write(|write| {
            let mut dropped = 0;
            for envelope in Envelope::ALL {
                match write.unlocked.state(envelope) {
                    // What a password opens is not lost; it is asked for first.
                    EnvelopeState::Unlocked | EnvelopeState::Locked => continue,
                    EnvelopeState::Absent | EnvelopeState::Foreign => {}
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
pub(super) fn provision(
    connection: &Connection,
    keys: &Keys,
    envelope: Envelope,
) -> rusqlite::Result<Key> {
    let key: Key = Zeroizing::new(random::bytes());
    let slots = keys
        .holders()
        .map(|(holder, pair)| slots::key_slot(&key, envelope, holder, &pair.did, &pair.public()));
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

/// Writes a row that is no secret: a public key, or slots.
pub(super) fn put_plain(
    connection: &Connection,
    purpose: &str,
    value: &[u8],
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO adf_identity (purpose, value, encryption_algo, code_access) VALUES (?1, ?2, 'plain', 0)
             ON CONFLICT (purpose) DO UPDATE SET value = excluded.value",
        )?
        .execute(params![purpose, value])?;
    Ok(())
}

pub(super) fn descriptor(
    connection: &Connection,
    envelope: Envelope,
) -> rusqlite::Result<Option<Descriptor>> {
    Ok(row(connection, envelope.purpose())?.and_then(|row| Descriptor::read(&row.value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agentfile::SetBy;
    use crate::agentfile::tests::Made;

    #[test]
    fn p37_a_new_file_has_an_identity_and_both_envelopes() {
        let made = Made::new();
        let file = made.open();
        for envelope in Envelope::ALL {
            assert_eq!(file.envelope(envelope).unwrap(), EnvelopeState::Unlocked);
        }
        let open = |purpose| file.secret(purpose).unwrap().unwrap().open().to_vec();
        let (private, public) = (open(SIGNING), open("crypto:signing:public_key"));
        assert_eq!((private.len(), public.len()), (48, 44));
        let seed: [u8; 32] = private[16..].try_into().unwrap();
        let known = SigningKey::from_bytes(&seed).verifying_key().to_bytes();
        assert_eq!(public[12..], known);
        assert_eq!(file.did().unwrap().unwrap(), keys::did(&known));
    }

    #[test]
    fn a219_a_foreign_file_is_claimed_by_a_person_and_keeps_its_history() {
        let made = Made::new();
        let file = made.open();
        file.set_secret("key", b"value", SetBy::Owner).unwrap();
        let before = file.did().unwrap().unwrap();
        file.close().unwrap();
        let ours = Keys::generate();
        let file = AgentFile::open(&made.path, &ours).unwrap();
        assert_eq!(
            file.claim().unwrap(),
            1,
            "one secret that nobody here could read"
        );
        assert_eq!(file.claim().unwrap(), 0);
        file.set_secret("key", b"new", SetBy::Owner).unwrap();
        let now = file.did().unwrap().unwrap();
        assert_ne!(now, before);
        let meta = |key: &str| file.meta(key).unwrap().unwrap();
        assert_eq!(meta("adf_did_history"), format!("[\"{before}\"]"));
        assert_eq!(meta("adf_owner_did"), ours.owner_did());
        file.close().unwrap();
        let file = AgentFile::open(&made.path, &ours).unwrap();
        assert_eq!(file.did().unwrap().unwrap(), now);
        assert_eq!(
            file.secret("key").unwrap().unwrap().open().as_slice(),
            b"new"
        );
    }

    #[test]
    fn a_claim_of_ones_own_file_changes_nothing() {
        let made = Made::new();
        let file = made.open();
        file.set_secret("key", b"value", SetBy::Owner).unwrap();
        let before = file.metas().unwrap();
        assert_eq!(file.claim().unwrap(), 0);
        assert_eq!(file.metas().unwrap(), before);
        assert!(file.secret("key").unwrap().is_some());
    }
}
