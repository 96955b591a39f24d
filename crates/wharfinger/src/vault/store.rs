//! Secrets of the owner, sealed in one file, and whether it can be opened here (A99).
//!
//! A file of its own and no table of the database: what was removed is gone with the old file, where a database keeps
//! freed pages and a log; it is copied and restored by itself; and losing the database costs no secret.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::holding::{Shut, blocking, key_of, new_key};
use super::place::{self, Keyring};
use super::sealed::{Document, Held, Key, random};
use crate::model::{Secret, hex};
use serde::Serialize;

/// Longest value, in bytes.
const LONGEST: usize = 64 << 10;

/// Where a vault lies, and what may open it.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Its file; made with the first secret.
    pub file: PathBuf,
    /// The file of its key, where no keyring answers and no passphrase was given.
    pub key_file: PathBuf,
    /// The keyring of the operating system, where it is to be used.
    pub keyring: Option<Arc<dyn Keyring>>,
    /// What opens a vault under a passphrase. A new vault is put under it.
    pub passphrase: Option<Secret>,
}

/// Whether secrets can be read and set.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum VaultState {
    /// There is none yet; the first secret makes it.
    Absent,
    /// They can.
    Unlocked,
    /// A passphrase or the keyring is needed first.
    Locked,
    /// The key that is here is not its key.
    Foreign,
}

/// Where a vault's key is.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyPlace {
    /// In the keyring of the operating system.
    Keyring,
    /// In a file of the home, `credential.key`.
    File,
    /// Nowhere: a passphrase gives it.
    Passphrase,
}

/// How a vault stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// See [`VaultState`].
    pub state: VaultState,
    /// Where its key is; `None` while there is no vault, or it can't be read.
    pub key: Option<KeyPlace>,
    /// Why it is not unlocked, and the way out.
    pub reason: Option<String>,
    /// What its owner should know.
    pub warning: Option<String>,
}

/// Why a secret could not be read or set.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// Something is needed first.
    #[error("the vault is locked: {0}")]
    Locked(String),
    /// It has another key.
    #[error("the vault was sealed with another key: {0}")]
    Foreign(String),
    /// The passphrase is another.
    #[error("the passphrase is not the one that this vault was sealed with")]
    WrongPassphrase,
    /// Somebody changed the file.
    #[error("the seal of `{key}` of `{server}` is broken")]
    Broken {
        /// Whose.
        server: String,
        /// Which.
        key: String,
    },
    /// A name or value that cannot be.
    #[error("{0}")]
    Refused(String),
    /// The file system's word.
    #[error("can't write {}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Its word.
        #[source]
        source: std::io::Error,
    },
}

impl VaultError {
    /// The way out.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Broken { server, key } => {
                Some(format!("set it anew: `wharf secret set {server} {key}`"))
            }
            Self::WrongPassphrase => Some("`wharf secret unlock` asks for it again".into()),
            Self::Locked(_) | Self::Foreign(_) | Self::Refused(_) | Self::Io { .. } => None,
        }
    }
}

/// Secrets of the owner. One program has the file.
#[derive(Debug)]
pub struct Vault {
    options: Options,
    known: Mutex<Known>,
    /// One change after the other.
    changing: tokio::sync::Mutex<()>,
}

/// As it was last read or written.
#[derive(Clone, Debug)]
enum Known {
    Absent,
    /// With its key, where it is at hand.
    There {
        document: Document,
        key: Result<Key, Shut>,
        warning: Option<String>,
    },
    /// It can't be read, so it is not written over either.
    Unreadable(String),
}

impl Vault {
    /// Reads the file and looks for its key; never fails, since what is wrong is its state.
    pub async fn open(options: Options) -> Self {
        let file = options.file.clone();
        let read = blocking(move || place::read(&file)).await;
        let known = match read {
            Ok(None) => Known::Absent,
            Ok(Some(text)) => match Document::parse(&text) {
                Ok(document) => {
                    let (key, warning) =
                        key_of(&document, &options, options.passphrase.as_ref()).await;
                    Known::There {
                        document,
                        key,
                        warning,
                    }
                }
                Err(reason) => Known::Unreadable(reason),
            },
            Err(error) => Known::Unreadable(error.to_string()),
        };
        Self {
            options,
            known: Mutex::new(known),
            changing: tokio::sync::Mutex::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How it stands.
    pub fn standing(&self) -> Standing {
        let (state, key, reason, warning) = match &*self.known() {
            Known::Absent => (VaultState::Absent, None, None, None),
            Known::There {
                document,
                key,
                warning,
            } => {
                let held = Some(match document.key {
                    Held::Keyring => KeyPlace::Keyring,
                    Held::File => KeyPlace::File,
                    Held::Passphrase(_) => KeyPlace::Passphrase,
                });
                match key {
                    Ok(_) => (VaultState::Unlocked, held, None, warning.clone()),
                    Err(Shut::Locked(why)) => (VaultState::Locked, held, Some(why.clone()), None),
                    Err(Shut::Foreign(why)) => (VaultState::Foreign, held, Some(why.clone()), None),
                }
            }
            Known::Unreadable(why) => {
                let why = format!("{}: {why}", self.options.file.display());
                (VaultState::Foreign, None, Some(why), None)
            }
        };
        Standing {
            state,
            key,
            reason,
            warning,
        }
    }

    /// Whether a secret is set, readable or not.
    pub fn is_set(&self, server: &str, key: &str) -> bool {
        self.revision(server, key).is_some()
    }

    /// What is another text each time a secret is set, and tells nothing of it; `None` when it is not set.
    pub fn revision(&self, server: &str, key: &str) -> Option<String> {
        match &*self.known() {
            Known::There { document, .. } => document.revision(server, key).map(str::to_owned),
            Known::Absent | Known::Unreadable(_) => None,
        }
    }

    /// Servers and keys of all secrets, sorted.
    pub fn names(&self) -> Vec<(String, String)> {
        match &*self.known() {
            Known::There { document, .. } => document
                .names()
                .map(|(server, key)| (server.to_owned(), key.to_owned()))
                .collect(),
            Known::Absent | Known::Unreadable(_) => vec![],
        }
    }

    /// A secret, on its way to the server that it is for; `None` when it is not set.
    pub fn read(&self, server: &str, key: &str) -> Result<Option<Secret>, VaultError> {
        let known = self.known();
        let Known::There {
            document,
            key: with,
            ..
        } = &*known
        else {
            return Ok(None);
        };
        if document.revision(server, key).is_none() {
            return Ok(None);
        }
        let with = with.as_ref().map_err(Shut::error)?;
        let opened = document.open(with, server, key);
        let text = opened.and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
        match text {
            Some(text) => Ok(Some(Secret::new(text))),
            None => Err(VaultError::Broken {
                server: server.to_owned(),
                key: key.to_owned(),
            }),
        }
    }

    /// Seals a secret, in place of the one that is there. The first one makes the vault.
    pub async fn set(&self, server: &str, key: &str, value: &Secret) -> Result<(), VaultError> {
        check(key, value.open())?;
        let _turn = self.changing.lock().await;
        let (mut document, with) = self.open_document(None).await?;
        document.put(&with, server, key, value.open().as_bytes());
        self.keep(document, with).await
    }

    /// Forgets a secret; whether there was one.
    pub async fn remove(&self, server: &str, key: &str) -> Result<bool, VaultError> {
        let _turn = self.changing.lock().await;
        if !self.is_set(server, key) {
            return Ok(false);
        }
        let (mut document, with) = self.open_document(None).await?;
        document.take(server, key);
        self.keep(document, with).await?;
        Ok(true)
    }

    /// Opens it with a passphrase, or looks for its key once more. Where there is none yet, a passphrase makes one.
    pub async fn unlock(&self, passphrase: Option<&Secret>) -> Result<(), VaultError> {
        let _turn = self.changing.lock().await;
        let known = self.known().clone();
        match known {
            Known::Absent => match passphrase {
                Some(_) => {
                    let (document, key) = self.open_document(passphrase).await?;
                    self.keep(document, key).await
                }
                None => Ok(()),
            },
            Known::There { key: Ok(_), .. } => Ok(()),
            Known::There { document, .. } => {
                let (key, warning) = key_of(&document, &self.options, passphrase).await;
                let outcome = match &key {
                    Ok(_) => Ok(()),
                    Err(_)
                        if passphrase.is_some() && matches!(document.key, Held::Passphrase(_)) =>
                    {
                        return Err(VaultError::WrongPassphrase);
                    }
                    Err(shut) => Err(shut.error()),
                };
                *self.known() = Known::There {
                    document,
                    key,
                    warning,
                };
                outcome
            }
            Known::Unreadable(why) => Err(self.unreadable(&why)),
        }
    }

    fn unreadable(&self, why: &str) -> VaultError {
        VaultError::Foreign(format!("{}: {why}", self.options.file.display()))
    }

    /// The document and its key; a new one where there is none.
    async fn open_document(
        &self,
        passphrase: Option<&Secret>,
    ) -> Result<(Document, Key), VaultError> {
        let known = self.known().clone();
        match known {
            Known::There { document, key, .. } => match key {
                Ok(key) => Ok((document, key)),
                Err(shut) => Err(shut.error()),
            },
            Known::Unreadable(why) => Err(self.unreadable(&why)),
            Known::Absent => {
                let id = hex(&random::<16>());
                let passphrase = passphrase.or(self.options.passphrase.as_ref());
                let (held, key) = new_key(&self.options, &id, passphrase).await?;
                Ok((Document::new(id, held, &key), key))
            }
        }
    }

    /// On disk first, then in memory: a failure leaves both as they were.
    async fn keep(&self, document: Document, key: Key) -> Result<(), VaultError> {
        let (path, text) = (self.options.file.clone(), document.text());
        let written = blocking(move || {
            place::replace(&path, text.as_bytes()).map_err(|source| VaultError::Io { path, source })
        });
        written.await?;
        let mut known = self.known();
        let warning = match &*known {
            Known::There { warning, .. } => warning.clone(),
            Known::Absent | Known::Unreadable(_) => None,
        };
        *known = Known::There {
            document,
            key: Ok(key),
            warning,
        };
        Ok(())
    }
}

/// Whether a vault in that file waits for a passphrase, for whoever could ask for one before it is opened.
pub fn wants_passphrase(file: &std::path::Path) -> bool {
    let text = place::read(file).ok().flatten();
    let document = text.and_then(|text| Document::parse(&text).ok());
    document.is_some_and(|document| matches!(document.key, Held::Passphrase(_)))
}

/// Keys are names like those of variables.
fn check(key: &str, value: &str) -> Result<(), VaultError> {
    let refused = |text: String| Err(VaultError::Refused(text));
    if !crate::model::expand::is_key(key) {
        let shown: String = key.escape_debug().take(80).collect();
        return refused(format!(
            "`{shown}` cannot be the name of a secret: letters, digits, `_`, `-` and `.` make one, 128 at most"
        ));
    }
    if value.is_empty() {
        return refused(format!(
            "the value of `{key}` is empty; removing it is another command"
        ));
    }
    if value.len() > LONGEST {
        return refused(format!(
            "the value of `{key}` has {} bytes, and {LONGEST} is the limit",
            value.len()
        ));
    }
    if value.contains('\0') {
        return refused(format!(
            "the value of `{key}` holds a NUL character, which no variable can"
        ));
    }
    Ok(())
}
