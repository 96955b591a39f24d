//! The vault's file as text, and what is sealed in it. Pure: no disk, no clock.
//!
//! Values are sealed with XChaCha20-Poly1305, each bound to the vault, its server and its key: one that was moved to
//! another place in the file does not open there. Names of servers and keys stand there plain.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use serde::{Deserialize, Serialize};
use serde_json::json;
use zeroize::Zeroizing;

use super::passphrase::Work;

/// What opens a vault.
pub(super) type Key = Zeroizing<[u8; 32]>;

/// The only format there is yet.
const FORMAT: u32 = 1;

/// Bytes of a nonce; it is random, which this many allow.
const NONCE: usize = 24;

/// Where the key of a vault is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Held {
    /// In the keyring of the operating system.
    Keyring,
    /// In a file beside it.
    File,
    /// Nowhere: it is made of a passphrase.
    Passphrase(Work),
}

/// The file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Document {
    format: u32,
    /// Random; the keyring knows its key by it.
    pub(super) id: String,
    /// Where the key is.
    pub(super) key: Held,
    /// Nothing, sealed: whoever opens it has the right key.
    check: String,
    /// By server and key.
    secrets: BTreeMap<String, BTreeMap<String, String>>,
}

impl Document {
    /// A new one, empty.
    pub(super) fn new(id: String, held: Held, key: &Key) -> Self {
        let check = seal(key, b"", &about(&id, &[]));
        Self {
            format: FORMAT,
            id,
            key: held,
            check,
            secrets: BTreeMap::new(),
        }
    }

    /// Or what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let document: Self = serde_json::from_str(text)
            .map_err(|error| format!("it is no vault, or was damaged: {error}"))?;
        if document.format != FORMAT {
            return Err(format!(
                "it has format {}, and this program knows {FORMAT}",
                document.format
            ));
        }
        Ok(document)
    }

    pub(super) fn text(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("names and text serialize");
        text.push('\n');
        text
    }

    /// Whether a key is this vault's.
    pub(super) fn is_opened_by(&self, key: &Key) -> bool {
        unseal(key, &self.check, &about(&self.id, &[])).is_some()
    }

    pub(super) fn put(&mut self, key: &Key, server: &str, name: &str, value: &[u8]) {
        let sealed = seal(key, value, &about(&self.id, &[server, name]));
        let of_server = self.secrets.entry(server.to_owned()).or_default();
        of_server.insert(name.to_owned(), sealed);
    }

    /// Whether there was one.
    pub(super) fn take(&mut self, server: &str, name: &str) -> bool {
        let Some(of_server) = self.secrets.get_mut(server) else {
            return false;
        };
        let was_there = of_server.remove(name).is_some();
        if of_server.is_empty() {
            self.secrets.remove(server);
        }
        was_there
    }

    /// `None` when there is none, or when its seal is broken.
    pub(super) fn open(&self, key: &Key, server: &str, name: &str) -> Option<Zeroizing<Vec<u8>>> {
        let sealed = self.secrets.get(server)?.get(name)?;
        unseal(key, sealed, &about(&self.id, &[server, name]))
    }

    /// What is another text each time a value is set, and tells nothing of it.
    pub(super) fn revision(&self, server: &str, name: &str) -> Option<&str> {
        let sealed = self.secrets.get(server)?.get(name)?;
        // The nonce, in which no part of the value is.
        Some(sealed.get(..NONCE / 3 * 4).unwrap_or(sealed))
    }

    /// Servers and keys, sorted.
    pub(super) fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.secrets.iter().flat_map(|(server, keys)| {
            keys.keys()
                .map(move |name| (server.as_str(), name.as_str()))
        })
    }
}

/// What a value is bound to: as JSON, so that no two places look alike.
fn about(id: &str, place: &[&str]) -> Vec<u8> {
    json!(["wharfinger vault", FORMAT, id, place])
        .to_string()
        .into_bytes()
}

fn seal(key: &Key, value: &[u8], about: &[u8]) -> String {
    let nonce: [u8; NONCE] = random();
    let payload = Payload {
        msg: value,
        aad: about,
    };
    let sealed = XChaCha20Poly1305::new((&**key).into())
        .encrypt(&XNonce::from(nonce), payload)
        .expect("a value fits into memory");
    BASE64.encode([&nonce[..], &sealed].concat())
}

fn unseal(key: &Key, sealed: &str, about: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let bytes = BASE64.decode(sealed).ok()?;
    let (nonce, sealed) = bytes.split_first_chunk::<NONCE>()?;
    let payload = Payload {
        msg: sealed,
        aad: about,
    };
    XChaCha20Poly1305::new((&**key).into())
        .decrypt(&XNonce::from(*nonce), payload)
        .ok()
        .map(Zeroizing::new)
}

/// From the system's source.
pub(super) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system has a source of random bytes");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> Key {
        Zeroizing::new([byte; 32])
    }

    fn document() -> Document {
        let mut document = Document::new("one".into(), Held::File, &key(1));
        document.put(&key(1), "github", "TOKEN", b"hunter2-hunter2");
        document.put(&key(1), "github", "EMPTY", b"");
        document.put(&key(1), "git", "TOKEN", b"other-value");
        document
    }

    fn value(document: &Document, by: u8, server: &str, name: &str) -> Option<String> {
        let opened = document.open(&key(by), server, name)?;
        Some(String::from_utf8(opened.to_vec()).unwrap())
    }

    #[test]
    fn a99_what_is_sealed_is_not_in_the_text_and_comes_back() {
        let text = document().text();
        assert!(!text.contains("hunter2"), "{text}");
        let read = Document::parse(&text).unwrap();
        assert_eq!(read, document_with_seals_of(&read));
        let check = |name: &str, expect: Option<&str>| {
            assert_eq!(value(&read, 1, "github", name).as_deref(), expect);
        };
        check("TOKEN", Some("hunter2-hunter2"));
        check("EMPTY", Some(""));
        check("NONE", None);
        let names: Vec<_> = read.names().collect();
        assert_eq!(
            names,
            [("git", "TOKEN"), ("github", "EMPTY"), ("github", "TOKEN")]
        );
    }

    /// Seals differ each time; the rest must not.
    fn document_with_seals_of(other: &Document) -> Document {
        Document {
            check: other.check.clone(),
            secrets: other.secrets.clone(),
            ..document()
        }
    }

    #[test]
    fn a99_another_key_opens_nothing() {
        let document = document();
        assert!(document.is_opened_by(&key(1)) && !document.is_opened_by(&key(2)));
        assert_eq!(value(&document, 2, "github", "TOKEN"), None);
    }

    #[test]
    fn a99_a_value_opens_only_where_it_was_put() {
        let mut document = document();
        let sealed = document.secrets["github"]["TOKEN"].clone();
        let moved = document.secrets.get_mut("git").unwrap();
        moved.insert("TOKEN".into(), sealed.clone());
        moved.insert("OTHER".into(), sealed);
        assert_eq!(value(&document, 1, "git", "TOKEN"), None);
        assert_eq!(value(&document, 1, "git", "OTHER"), None);
        document.id = "another".into();
        assert_eq!(value(&document, 1, "github", "TOKEN"), None);
        assert!(!document.is_opened_by(&key(1)));
    }

    #[test]
    fn each_value_that_is_set_has_another_revision() {
        let mut document = document();
        let before = document.revision("git", "TOKEN").unwrap().to_owned();
        assert_eq!(before.len(), 32);
        document.put(&key(1), "git", "TOKEN", b"other-value");
        assert_ne!(document.revision("git", "TOKEN"), Some(&*before));
        assert!(document.take("git", "TOKEN") && !document.take("git", "TOKEN"));
        assert_eq!(document.revision("git", "TOKEN"), None);
    }

    #[test]
    fn what_is_no_vault_is_not_taken_for_one() {
        let check = |text: &str, expect: &str| {
            let reason = Document::parse(text).unwrap_err();
            assert!(reason.contains(expect), "{text}: {reason}");
        };
        check("", "it is no vault, or was damaged");
        check("{\"format\": 1}", "missing field");
        let newer = document().text().replace("\"format\": 1", "\"format\": 2");
        check(&newer, "it has format 2, and this program knows 1");
        let whole = document().text();
        for cut in 1..whole.len() - 1 {
            assert!(Document::parse(&whole[..cut]).is_err(), "{cut}");
        }
    }
}
