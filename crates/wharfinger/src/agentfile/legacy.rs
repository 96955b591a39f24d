//! How secrets were sealed with a password before there were envelopes: read, and never written.

use pbkdf2::pbkdf2_hmac;
use rusqlite::{Connection, OptionalExtension};
use serde_json::Value;
use sha2::Sha512;

use super::envelope::{self, Key};
use super::secrets::{Row, row};

/// What such a row says.
pub(super) const LEGACY: &str = "aes-256-gcm";

/// How rows were sealed with a password before there were envelopes.
pub(super) struct Legacy {
    salt: Vec<u8>,
    params: Vec<u8>,
    sealed: Row,
}

impl Legacy {
    pub(super) fn find(connection: &Connection) -> rusqlite::Result<Option<Self>> {
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

    pub(super) fn open(&self, password: &str) -> Result<Option<Key>, String> {
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
