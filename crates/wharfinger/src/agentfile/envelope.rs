//! Sealing, as the format has it: a random key of 32 bytes seals the rows of an envelope.

use std::fmt;

use aes_gcm::aead::{Aead, KeyInit};
use aes_gcm::{Aes256Gcm, Nonce};
use x25519_dalek::{X25519_BASEPOINT_BYTES, x25519};
use zeroize::Zeroizing;

use super::random;

/// A key of 32 bytes, wiped when it goes.
pub(super) type Key = Zeroizing<[u8; 32]>;
/// What was sealed, wiped when it goes.
pub(super) type Plain = Zeroizing<Vec<u8>>;

const NONCE: usize = 12;
/// What an agent's secrets are sealed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Envelope {
    /// The agent's signing key; never given away with the file.
    Identity,
    /// All other secrets.
    Credentials,
}

impl Envelope {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Identity, Self::Credentials];

    /// As the format writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Credentials => "credentials",
        }
    }

    /// The row with its slots.
    pub(super) fn purpose(self) -> &'static str {
        match self {
            Self::Identity => "crypto:envelope:identity",
            Self::Credentials => "crypto:envelope:credentials",
        }
    }

    /// What a row that is sealed in it says.
    pub(super) fn algorithm(self) -> &'static str {
        match self {
            Self::Identity => "env:identity",
            Self::Credentials => "env:credentials",
        }
    }
}

impl fmt::Display for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether the secrets of an envelope can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnvelopeState {
    /// There is none.
    Absent,
    /// Its key is in memory.
    Unlocked,
    /// A password opens it.
    Locked,
    /// Somebody else's, or beyond reading.
    Foreign,
}

impl EnvelopeState {
    /// As it is shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Unlocked => "unlocked",
            Self::Locked => "locked",
            Self::Foreign => "foreign",
        }
    }

    pub(super) fn way_out(self) -> &'static str {
        match self {
            Self::Absent => "claim the file to give it one",
            Self::Unlocked => "try again",
            Self::Locked => "unlock it with its password and try again",
            Self::Foreign => {
                "open the file where it was made, or claim it, which drops the secrets nobody here can read"
            }
        }
    }
}

impl fmt::Display for EnvelopeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// AES-256-GCM: nonce, ciphertext, tag.
pub(super) fn seal(key: &Key, plain: &[u8]) -> Vec<u8> {
    let (nonce, ciphertext) = encrypt(key, plain);
    [nonce.as_slice(), &ciphertext].concat()
}

/// What was sealed; nothing if the key is another, or a byte was changed.
pub(super) fn unseal(key: &Key, sealed: &[u8]) -> Option<Plain> {
    let (nonce, ciphertext) = sealed.split_at_checked(NONCE)?;
    decrypt(key, nonce, ciphertext)
}

pub(super) fn encrypt(key: &Key, plain: &[u8]) -> ([u8; NONCE], Vec<u8>) {
    let nonce: [u8; NONCE] = random::bytes();
    let ciphertext = Aes256Gcm::new(&(**key).into())
        .encrypt(&Nonce::from(nonce), plain)
        .expect("what is sealed here is far from the limit of the cipher");
    (nonce, ciphertext)
}

pub(super) fn decrypt(key: &Key, nonce: &[u8], ciphertext: &[u8]) -> Option<Plain> {
    let nonce: [u8; NONCE] = nonce.try_into().ok()?;
    Aes256Gcm::new(&(**key).into())
        .decrypt(&Nonce::from(nonce), ciphertext)
        .ok()
        .map(Zeroizing::new)
}

/// The public half of an X25519 key.
pub(super) fn public(private: &Key) -> [u8; 32] {
    x25519(**private, X25519_BASEPOINT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> Key {
        Zeroizing::new([byte; 32])
    }

    #[test]
    fn a215_a_sealed_row_is_nonce_ciphertext_and_tag() {
        let sealed = seal(&key(1), b"hunter2");
        assert_eq!(sealed.len(), 12 + 7 + 16);
        assert_eq!(unseal(&key(1), &sealed).unwrap().as_slice(), b"hunter2");
        assert_eq!(unseal(&key(2), &sealed), None);
        let mut changed = sealed.clone();
        changed[14] ^= 1;
        assert_eq!(unseal(&key(1), &changed), None);
        assert_eq!(unseal(&key(1), b"short"), None);
        assert_ne!(sealed, seal(&key(1), b"hunter2"), "a nonce is used once");
    }
}
