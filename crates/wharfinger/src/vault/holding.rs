//! Where a vault's key is held: made there, and found again.

use zeroize::Zeroizing;

use super::passphrase::Work;
use super::place::{self, Found, Keyring};
use super::sealed::{Document, Held, Key, random};
use super::store::{Options, VaultError};
use crate::model::Secret;

/// Why there is no key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shut {
    Locked(String),
    Foreign(String),
}

impl Shut {
    pub(super) fn error(&self) -> VaultError {
        match self {
            Self::Locked(why) => VaultError::Locked(why.clone()),
            Self::Foreign(why) => VaultError::Foreign(why.clone()),
        }
    }
}

/// Makes a key: under the passphrase, else in the keyring, else in its file.
pub(super) async fn new_key(
    options: &Options,
    id: &str,
    passphrase: Option<&Secret>,
) -> Result<(Held, Key), VaultError> {
    if let Some(passphrase) = passphrase.cloned() {
        let work = Work::new();
        let worked = work.clone();
        let key = blocking(move || worked.key(&passphrase)).await;
        return Ok((Held::Passphrase(work), key.map_err(VaultError::Refused)?));
    }
    if let Some(keyring) = &options.keyring {
        let key: Key = Zeroizing::new(random());
        let kept = Secret::new(key.to_vec());
        // One that forgets what it was given is none.
        if keyring.keep(id, &kept).await.is_ok()
            && keyring
                .load(id)
                .await
                .is_ok_and(|found| found == Some(kept))
        {
            return Ok((Held::Keyring, key));
        }
    }
    let path = options.key_file.clone();
    let made = blocking(move || match place::read_key(&path) {
        Found::Key(key, _) => Ok(key),
        Found::Refused(why) => Err(VaultError::Refused(why)),
        Found::Nothing => {
            let key: Key = Zeroizing::new(random());
            match place::replace(&path, key.as_slice()) {
                Ok(()) => Ok(key),
                Err(source) => Err(VaultError::Io { path, source }),
            }
        }
    });
    Ok((Held::File, made.await?))
}

/// A document's key, or why it is not at hand; and what its owner should know.
pub(super) async fn key_of(
    document: &Document,
    options: &Options,
    passphrase: Option<&Secret>,
) -> (Result<Key, Shut>, Option<String>) {
    match &document.key {
        Held::Keyring => (of_keyring(document, options.keyring.as_deref()).await, None),
        Held::File => of_file(document, options).await,
        Held::Passphrase(work) => (of_passphrase(document, work, passphrase).await, None),
    }
}

fn fitting(document: &Document, key: Key, otherwise: &str) -> Result<Key, Shut> {
    if document.is_opened_by(&key) {
        Ok(key)
    } else {
        Err(Shut::Foreign(otherwise.to_owned()))
    }
}

async fn of_keyring(document: &Document, keyring: Option<&dyn Keyring>) -> Result<Key, Shut> {
    let keyring = keyring.ok_or_else(|| {
        Shut::Locked(
            "its key is in the keyring of the operating system, which is not used here".into(),
        )
    })?;
    let found = keyring.load(&document.id).await.map_err(|why| {
        Shut::Locked(format!(
            "its key is in the keyring of the operating system, which does not give it: {why}; unlock the keyring, then \
             `wharf secret unlock`"
        ))
    })?;
    let found = found.ok_or_else(|| {
        Shut::Foreign("the keyring of this user on this machine does not have its key".into())
    })?;
    match <[u8; 32]>::try_from(found.open().as_slice()) {
        Ok(key) => fitting(
            document,
            Zeroizing::new(key),
            "the keyring has another key for it",
        ),
        Err(_) => Err(Shut::Foreign(
            "what the keyring has for it is no key".into(),
        )),
    }
}

async fn of_file(document: &Document, options: &Options) -> (Result<Key, Shut>, Option<String>) {
    let path = options.key_file.clone();
    let shown = path.display().to_string();
    match blocking(move || place::read_key(&path)).await {
        Found::Nothing => {
            let why = format!("{shown}, which holds its key, is not there; put back a copy of it");
            (Err(Shut::Foreign(why)), None)
        }
        Found::Refused(why) => (Err(Shut::Foreign(why)), None),
        Found::Key(key, warning) => {
            let otherwise = format!("the key in {shown} is not its key; put back the right one");
            (fitting(document, key, &otherwise), warning)
        }
    }
}

async fn of_passphrase(
    document: &Document,
    work: &Work,
    passphrase: Option<&Secret>,
) -> Result<Key, Shut> {
    let Some(passphrase) = passphrase.cloned() else {
        let why = "it needs its passphrase; `wharf secret unlock` asks for it";
        return Err(Shut::Locked(why.into()));
    };
    let work = work.clone();
    let key = blocking(move || work.key(&passphrase))
        .await
        .map_err(Shut::Locked)?;
    fitting(document, key, "").map_err(|_| {
        let why = "the passphrase that was given is not its own; `wharf secret unlock` asks for it";
        Shut::Locked(why.into())
    })
}

/// Files and passphrases take their time.
pub(super) async fn blocking<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(act).await {
        Ok(done) => done,
        // It is only cancelled with the runtime, and then nobody reads this any more.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
