//! A key from a passphrase (Argon2id).

use argon2::{Algorithm, Argon2, Params, Version};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::sealed::{Key, random};
use crate::model::Secret;

/// What is done with a passphrase until it is a key; kept with what it opens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Work {
    salt: String,
    /// In KiB.
    memory: u32,
    passes: u32,
    lanes: u32,
}

/// More than this, in KiB, is not worked on: the number is read from a file.
const MOST_MEMORY: u32 = 1 << 20;
const MOST_PASSES: u32 = 64;

impl Work {
    /// 64 MiB in three passes, a quarter of a second or so.
    pub(super) fn new() -> Self {
        use base64::Engine;
        Self {
            salt: base64::engine::general_purpose::STANDARD.encode(random::<16>()),
            memory: 64 << 10,
            passes: 3,
            lanes: 1,
        }
    }

    /// The key; blocks for as long as it takes.
    pub(super) fn key(&self, passphrase: &Secret) -> Result<Key, String> {
        if self.memory > MOST_MEMORY || self.passes > MOST_PASSES {
            return Err("the vault asks for more work than any passphrase is worth".into());
        }
        let wrong =
            |error: argon2::Error| format!("the vault's passphrase settings are wrong: {error}");
        let params = Params::new(self.memory, self.passes, self.lanes, Some(32)).map_err(wrong)?;
        let mut key: Key = Zeroizing::new([0; 32]);
        Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
            .hash_password_into(
                passphrase.open().as_bytes(),
                self.salt.as_bytes(),
                &mut *key,
            )
            .map_err(wrong)?;
        Ok(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passphrase(text: &str) -> Secret {
        Secret::new(text.to_owned())
    }

    fn quick() -> Work {
        Work {
            memory: 64,
            passes: 1,
            ..Work::new()
        }
    }

    #[test]
    fn a_passphrase_gives_the_same_key_each_time_and_another_one_with_another_salt() {
        let work = quick();
        let key = work.key(&passphrase("correct horse")).unwrap();
        assert_eq!(key, work.key(&passphrase("correct horse")).unwrap());
        assert_ne!(key, work.key(&passphrase("correct horsf")).unwrap());
        assert_ne!(key, quick().key(&passphrase("correct horse")).unwrap());
    }

    #[test]
    fn work_without_end_is_refused() {
        for work in [
            Work {
                memory: u32::MAX,
                ..quick()
            },
            Work {
                passes: u32::MAX,
                ..quick()
            },
            Work {
                lanes: 0,
                ..quick()
            },
            Work {
                salt: String::new(),
                ..quick()
            },
        ] {
            assert!(work.key(&passphrase("x")).is_err(), "{work:?}");
        }
    }
}
