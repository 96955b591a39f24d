//! Keys of the owner and of this machine, and the file they are kept in.
//!
//! The owner's come from twelve words, so they are the same on each of their machines. This machine's are made once
//! and never leave it.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bip39::Mnemonic;
use ed25519_dalek::SigningKey;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::{Sha256, Sha512};
use zeroize::Zeroizing;

use super::envelope::{self, Key};
use super::slots::Holder;
use super::{Error, random};
use crate::model::{Secret, hex};

/// Their file, in the folder they are kept in.
const FILE: &str = "identity.json";

/// The owner's keys and this machine's. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Keys(Arc<Held>);

struct Held {
    words: Zeroizing<String>,
    owner: Pair,
    runtime: Pair,
    warning: Option<String>,
}

/// A key that signs, told by its DID, and one that opens slots.
pub(super) struct Pair {
    pub did: String,
    signing: Key,
    pub opening: Key,
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys")
            .field("owner", &self.owner.did)
            .field("runtime", &self.runtime.did)
            .finish_non_exhaustive()
    }
}

impl Keys {
    /// The keys in a folder; made there (`identity.json`, 0600) if there are none.
    pub fn load_or_create(folder: &Path) -> Result<Self, Error> {
        match Self::load(folder)? {
            Some(keys) => Ok(keys),
            None => Self::generate().keep(folder),
        }
    }

    /// Keeps the keys of an owner who has their words from another machine. Refused where there are keys already.
    pub fn recover(folder: &Path, words: &Secret) -> Result<Self, Error> {
        let path = folder.join(FILE);
        if path.exists() {
            return Err(Error::Exists { path });
        }
        Self::from_words(words)?.keep(folder)
    }

    /// A new owner and a new machine, kept nowhere.
    pub fn generate() -> Self {
        let entropy = Zeroizing::new(random::bytes::<16>());
        let words = Mnemonic::from_entropy(entropy.as_slice()).expect("16 bytes make 12 words");
        Self::build(
            &words,
            Zeroizing::new(random::bytes()),
            Zeroizing::new(random::bytes()),
            None,
        )
    }

    /// A known owner on a new machine, kept nowhere.
    pub fn from_words(words: &Secret) -> Result<Self, Error> {
        let words = parse(words.open()).map_err(Error::Refused)?;
        Ok(Self::build(
            &words,
            Zeroizing::new(random::bytes()),
            Zeroizing::new(random::bytes()),
            None,
        ))
    }

    fn build(words: &Mnemonic, signing: Key, opening: Key, warning: Option<String>) -> Self {
        let seed = Zeroizing::new(words.to_seed_normalized(""));
        let owner = Pair::new(derive(&*seed, &[44, 0, 0]), derive(&*seed, &[44, 0, 1]));
        Self(Arc::new(Held {
            words: Zeroizing::new(words.to_string()),
            owner,
            runtime: Pair::new(signing, opening),
            warning,
        }))
    }

    fn load(folder: &Path) -> Result<Option<Self>, Error> {
        let path = folder.join(FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => Zeroizing::new(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("read", &path)(error)),
        };
        let wrong = |reason: &str| Error::Keys {
            path: path.clone(),
            reason: format!(
                "{reason}; put back a copy of it, or recover the owner from the twelve words"
            ),
        };
        let value: Value = serde_json::from_str(&text).map_err(|_| wrong("it is not JSON"))?;
        if value["v"] != 1 {
            return Err(wrong("it is of a version this program does not know"));
        }
        let words = value["words"].as_str().unwrap_or_default();
        let words = parse(words).map_err(|reason| wrong(&reason))?;
        let key = |name: &str| -> Result<Key, Error> {
            value["runtime"][name]
                .as_str()
                .and_then(|text| BASE64.decode(text).ok())
                .map(Zeroizing::new)
                .and_then(|bytes| <[u8; 32]>::try_from(bytes.as_slice()).ok())
                .map(Zeroizing::new)
                .ok_or_else(|| wrong("a key of this machine is missing"))
        };
        let warning = warning(&path)?;
        Ok(Some(Self::build(
            &words,
            key("signing")?,
            key("encryption")?,
            warning,
        )))
    }

    /// Writes them whole, and takes what another program wrote in the meantime instead.
    fn keep(self, folder: &Path) -> Result<Self, Error> {
        let path = folder.join(FILE);
        let failed = || Error::io("write", &path);
        let text = Zeroizing::new(
            json!({
                "v": 1,
                "words": self.0.words.as_str(),
                "runtime": {
                    "signing": BASE64.encode(self.0.runtime.signing.as_slice()),
                    "encryption": BASE64.encode(self.0.runtime.opening.as_slice()),
                },
            })
            .to_string(),
        );
        fs::create_dir_all(folder).map_err(failed())?;
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed())?;
        file.write_all(text.as_bytes()).map_err(failed())?;
        file.as_file().sync_all().map_err(failed())?;
        match file.persist_noclobber(&path) {
            Ok(_) => {}
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                return Self::load(folder)?.ok_or_else(|| Error::Exists { path });
            }
            Err(error) => return Err(failed()(error.error)),
        }
        fs::File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(failed())?;
        Ok(self)
    }

    /// Who owns the files that are made here.
    pub fn owner_did(&self) -> &str {
        &self.0.owner.did
    }

    /// This machine.
    pub fn runtime_did(&self) -> &str {
        &self.0.runtime.did
    }

    /// The twelve words, to be written down by their owner. Whoever has them has every secret of every file.
    pub fn owner_words(&self) -> Secret {
        Secret::new(self.0.words.as_str().to_owned())
    }

    /// What the owner should know about how the keys are kept.
    pub fn warning(&self) -> Option<&str> {
        self.0.warning.as_deref()
    }

    /// A mark of this machine over some words, which only who has its keys can make.
    pub(super) fn mark(&self, words: &[&str]) -> String {
        let mac = |key: &[u8], text: &[u8]| -> Zeroizing<[u8; 32]> {
            let mut mac =
                Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
            mac.update(text);
            Zeroizing::new(mac.finalize().into_bytes().into())
        };
        // A key for marks alone.
        let key = mac(self.0.runtime.signing.as_slice(), b"wharfinger marks");
        hex(mac(key.as_slice(), words.join("\0").as_bytes()).as_slice())
    }

    pub(super) fn holders(&self) -> [(Holder, &Pair); 2] {
        [
            (Holder::Runtime, &self.0.runtime),
            (Holder::Owner, &self.0.owner),
        ]
    }
}

impl Pair {
    fn new(signing: Key, opening: Key) -> Self {
        Self {
            did: did(&SigningKey::from_bytes(&signing).verifying_key().to_bytes()),
            signing,
            opening,
        }
    }

    pub(super) fn public(&self) -> [u8; 32] {
        envelope::public(&self.opening)
    }
}

fn parse(words: &str) -> Result<Mnemonic, String> {
    let words: Vec<String> = words.split_whitespace().map(str::to_lowercase).collect();
    if words.len() != 12 {
        return Err(format!(
            "twelve words are needed, and there are {}",
            words.len()
        ));
    }
    Mnemonic::parse_normalized(&words.join(" "))
        .map_err(|error| format!("the words are not right: {error}"))
}

fn warning(path: &Path) -> Result<Option<String>, Error> {
    use std::os::unix::fs::PermissionsExt;
    let found = fs::metadata(path).map_err(Error::io("read", path))?;
    let is_open = found.permissions().mode() & 0o077 != 0;
    Ok(is_open.then(|| {
        format!(
            "others on this machine can read {0}; run `chmod 600 {0}`",
            path.display()
        )
    }))
}

/// SLIP-0010 for Ed25519: each step of the path is hardened.
fn derive(seed: &[u8], path: &[u32]) -> Key {
    let half = |whole: &[u8; 64], from: usize| -> Key {
        let mut key = Key::default();
        key.copy_from_slice(&whole[from..from + 32]);
        key
    };
    let mac = |key: &[u8], text: &[u8]| -> Zeroizing<[u8; 64]> {
        let mut mac = Hmac::<Sha512>::new_from_slice(key).expect("HMAC takes keys of any length");
        mac.update(text);
        Zeroizing::new(mac.finalize().into_bytes().into())
    };
    let mut node = mac(b"ed25519 seed", seed);
    for step in path {
        let index = (step | 1 << 31).to_be_bytes();
        let text = Zeroizing::new([&[0][..], half(&node, 0).as_slice(), &index].concat());
        node = mac(half(&node, 32).as_slice(), &text);
    }
    half(&node, 0)
}

/// An Ed25519 key as a DID.
pub(super) fn did(public: &[u8; 32]) -> String {
    let marked = [&[0xed, 0x01][..], public].concat();
    format!("did:key:z{}", bs58::encode(marked).into_string())
}

/// An Ed25519 private key as PKCS8 has it.
pub(super) fn pkcs8(private: &Key) -> Zeroizing<Vec<u8>> {
    let header = b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";
    Zeroizing::new([&header[..], private.as_slice()].concat())
}

/// An Ed25519 public key as SPKI has it.
pub(super) fn spki(public: &[u8; 32]) -> Vec<u8> {
    let header = b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00";
    [&header[..], public].concat()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
            .collect()
    }

    /// The first vectors for Ed25519 of SLIP-0010.
    #[test]
    fn a220_derivation_is_that_of_slip_0010() {
        let seed = hex("000102030405060708090a0b0c0d0e0f");
        for (path, expect) in [
            (
                &[][..],
                "2b4be7f19ee27bbf30c667b642d5f4aa69fd169872f8fc3059c08ebae2eb19e7",
            ),
            (
                &[0],
                "68e0fe46dfb67e368c75379acec591dad19df3cde26e63b93a8e704f1dade7a3",
            ),
            (
                &[0, 1],
                "b1d0bad404bf35da785a64ca1ac54b2617211d2777696fbffaf208f746ae84f2",
            ),
            (
                &[0, 1, 2, 2, 1_000_000_000],
                "8f94d394a8e8fd6b1bc2f3f49f5c47e385281d5c17e65324b0f62483e37e8793",
            ),
        ] {
            assert_eq!(derive(&seed, path).as_slice(), hex(expect), "{path:?}");
        }
    }

    /// The first vector of BIP-39 as to its words; their seed here has no passphrase.
    #[test]
    fn a220_the_owner_is_the_same_wherever_their_words_are() {
        let words = format!("{}about", "abandon ".repeat(11));
        assert_eq!(Mnemonic::from_entropy(&[0; 16]).unwrap().to_string(), words);
        let seed = parse(&words).unwrap().to_seed_normalized("TREZOR");
        assert_eq!(seed[..8], hex("c55257c360c07c72"), "the vector of BIP-39");
        let keys = |words: &str| Keys::from_words(&Secret::new(words.to_owned())).unwrap();
        let (one, two) = (keys(&words), keys(&words.to_uppercase()));
        assert_eq!(one.owner_did(), two.owner_did());
        assert_ne!(one.runtime_did(), two.runtime_did());
        assert!(one.owner_did().starts_with("did:key:z6Mk"));
    }

    #[test]
    fn wrong_words_are_refused() {
        for words in ["", "abandon", &"abandon ".repeat(12), &"wharf ".repeat(12)] {
            assert!(Keys::from_words(&Secret::new(words.to_owned())).is_err());
        }
    }

    #[test]
    fn keys_are_made_once_and_kept_for_their_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("home");
        let made = Keys::load_or_create(&folder).unwrap();
        let loaded = Keys::load_or_create(&folder).unwrap();
        assert_eq!(made.owner_did(), loaded.owner_did());
        assert_eq!(made.runtime_did(), loaded.runtime_did());
        assert_eq!(loaded.warning(), None);
        let path = folder.join(FILE);
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let warned = Keys::load_or_create(&folder).unwrap();
        assert!(warned.warning().unwrap().contains("chmod 600"));
        let refused = Keys::recover(&folder, &made.owner_words()).unwrap_err();
        assert!(matches!(refused, Error::Exists { .. }));
        let other = Keys::recover(&dir.path().join("other"), &made.owner_words()).unwrap();
        assert_eq!(other.owner_did(), made.owner_did());
        assert!(
            !format!("{made:?}").contains(made.owner_words().open().split(' ').next().unwrap())
        );
    }

    #[test]
    fn a_damaged_file_of_keys_is_never_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        for text in ["", "{", r#"{"v": 2}"#, r#"{"v": 1, "words": "a b"}"#] {
            crate::agentfile::tests::write(&path, text.as_bytes());
            let refused = Keys::load_or_create(dir.path()).unwrap_err().to_string();
            assert!(refused.contains("put back a copy"), "{refused}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }
}
