//! The vault on a disk: where its key is, what opens it, and what a failure leaves.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::store::{KeyPlace, Options, Vault, VaultError, VaultState};
use super::{Answer, Keyring, wants_passphrase};
use crate::model::Secret;

/// A keyring in memory.
#[derive(Debug, Default)]
struct Ring {
    kept: Mutex<HashMap<String, Secret<Vec<u8>>>>,
    is_shut: AtomicBool,
    forgets: AtomicBool,
}

impl Keyring for Ring {
    fn load<'a>(&'a self, id: &'a str) -> Answer<'a, Option<Secret<Vec<u8>>>> {
        Box::pin(async move {
            if self.is_shut.load(Ordering::Relaxed) {
                return Err("it is locked".into());
            }
            Ok(self.kept.lock().unwrap().get(id).cloned())
        })
    }

    fn keep<'a>(&'a self, id: &'a str, key: &'a Secret<Vec<u8>>) -> Answer<'a, ()> {
        Box::pin(async move {
            if self.is_shut.load(Ordering::Relaxed) {
                return Err("it is locked".into());
            }
            if !self.forgets.load(Ordering::Relaxed) {
                self.kept.lock().unwrap().insert(id.into(), key.clone());
            }
            Ok(())
        })
    }
}

fn options(folder: &Path) -> Options {
    Options {
        file: folder.join("vault.json"),
        key_file: folder.join("credential.key"),
        ..Options::default()
    }
}

fn with_passphrase(folder: &Path, passphrase: &str) -> Options {
    Options {
        passphrase: Some(secret(passphrase)),
        ..options(folder)
    }
}

fn with_ring(folder: &Path, ring: &Arc<Ring>) -> Options {
    Options {
        keyring: Some(ring.clone()),
        ..options(folder)
    }
}

fn secret(text: &str) -> Secret {
    Secret::new(text.to_owned())
}

fn stands(vault: &Vault) -> (VaultState, Option<KeyPlace>) {
    let standing = vault.standing();
    (standing.state, standing.key)
}

async fn put(vault: &Vault) -> Result<(), VaultError> {
    vault
        .set("github", "TOKEN", &secret("hunter2-hunter2"))
        .await
}

fn got(vault: &Vault) -> Option<String> {
    let found = vault.read("github", "TOKEN").unwrap();
    found.map(|secret| secret.open().clone())
}

fn write(path: &Path, bytes: &[u8]) {
    super::place::replace(path, bytes).unwrap();
}

fn is_written_plain(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().any(|file| {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        bytes.windows(7).any(|window| window == b"hunter2")
    })
}

#[tokio::test]
async fn a99_the_first_secret_makes_the_vault_and_its_key() {
    let dir = tempfile::tempdir().unwrap();
    let vault = Vault::open(options(dir.path())).await;
    assert_eq!(stands(&vault), (VaultState::Absent, None));
    assert_eq!(got(&vault), None);
    assert!(!vault.remove("github", "TOKEN").await.unwrap());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    put(&vault).await.unwrap();
    for name in ["vault.json", "credential.key"] {
        let found = fs::metadata(dir.path().join(name)).unwrap();
        assert_eq!(found.permissions().mode() & 0o777, 0o600, "{name}");
    }
    assert!(!is_written_plain(dir.path()));
    let again = Vault::open(options(dir.path())).await;
    assert_eq!(stands(&again), (VaultState::Unlocked, Some(KeyPlace::File)));
    assert_eq!(got(&again).unwrap(), "hunter2-hunter2");
    assert_eq!(again.names(), [("github".to_owned(), "TOKEN".to_owned())]);
    assert!(again.remove("github", "TOKEN").await.unwrap());
    assert_eq!(got(&Vault::open(options(dir.path())).await), None);
}

#[tokio::test]
async fn a99_a_keyring_that_answers_has_the_key_and_no_file_does() {
    let dir = tempfile::tempdir().unwrap();
    let ring = Arc::new(Ring::default());
    put(&Vault::open(with_ring(dir.path(), &ring)).await)
        .await
        .unwrap();
    assert!(!dir.path().join("credential.key").exists());
    let open = || Vault::open(with_ring(dir.path(), &ring));
    let vault = open().await;
    assert_eq!(
        stands(&vault),
        (VaultState::Unlocked, Some(KeyPlace::Keyring))
    );
    assert_eq!(got(&vault).unwrap(), "hunter2-hunter2");

    ring.is_shut.store(true, Ordering::Relaxed);
    let vault = open().await;
    assert_eq!(vault.standing().state, VaultState::Locked);
    let reason = vault.standing().reason.unwrap();
    assert!(reason.contains("`wharf secret unlock`"), "{reason}");
    assert!(matches!(
        vault.read("github", "TOKEN"),
        Err(VaultError::Locked(_))
    ));
    assert!(matches!(put(&vault).await, Err(VaultError::Locked(_))));
    assert!(matches!(
        vault.unlock(None).await,
        Err(VaultError::Locked(_))
    ));
    ring.is_shut.store(false, Ordering::Relaxed);
    vault.unlock(None).await.unwrap();
    assert_eq!(got(&vault).unwrap(), "hunter2-hunter2");

    // Another user, or another machine.
    let elsewhere = Arc::new(Ring::default());
    let vault = Vault::open(with_ring(dir.path(), &elsewhere)).await;
    assert_eq!(vault.standing().state, VaultState::Foreign);
    assert_eq!(
        Vault::open(options(dir.path())).await.standing().state,
        VaultState::Locked,
        "no keyring at all"
    );
}

#[tokio::test]
async fn a_keyring_that_says_no_or_forgets_is_not_used() {
    for forgets in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let ring = Arc::new(Ring::default());
        ring.is_shut.store(!forgets, Ordering::Relaxed);
        ring.forgets.store(forgets, Ordering::Relaxed);
        let vault = Vault::open(with_ring(dir.path(), &ring)).await;
        put(&vault).await.unwrap();
        assert_eq!(stands(&vault), (VaultState::Unlocked, Some(KeyPlace::File)));
    }
}

#[tokio::test]
async fn a99_a_passphrase_opens_what_was_put_under_it() {
    let dir = tempfile::tempdir().unwrap();
    assert!(!wants_passphrase(&dir.path().join("vault.json")));
    put(&Vault::open(with_passphrase(dir.path(), "correct horse")).await)
        .await
        .unwrap();
    assert!(wants_passphrase(&dir.path().join("vault.json")));
    assert!(!dir.path().join("credential.key").exists());

    for options in [
        options(dir.path()),
        with_passphrase(dir.path(), "wrong horse"),
    ] {
        let vault = Vault::open(options).await;
        assert_eq!(
            stands(&vault),
            (VaultState::Locked, Some(KeyPlace::Passphrase))
        );
        assert!(vault.is_set("github", "TOKEN"), "its names are known");
        assert!(matches!(put(&vault).await, Err(VaultError::Locked(_))));
        assert!(matches!(
            vault.remove("github", "TOKEN").await,
            Err(VaultError::Locked(_))
        ));
        let wrong = vault.unlock(Some(&secret("wrong"))).await;
        assert!(matches!(wrong, Err(VaultError::WrongPassphrase)));
        vault.unlock(Some(&secret("correct horse"))).await.unwrap();
        assert_eq!(got(&vault).unwrap(), "hunter2-hunter2");
    }
}

#[tokio::test]
async fn a_passphrase_makes_a_vault_where_there_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let vault = Vault::open(options(dir.path())).await;
    vault.unlock(None).await.unwrap();
    assert_eq!(vault.standing().state, VaultState::Absent);
    vault.unlock(Some(&secret("correct horse"))).await.unwrap();
    assert_eq!(
        stands(&vault),
        (VaultState::Unlocked, Some(KeyPlace::Passphrase))
    );
    put(&vault).await.unwrap();
    let locked = Vault::open(options(dir.path())).await;
    assert_eq!(locked.standing().state, VaultState::Locked);
}

#[tokio::test]
async fn another_key_is_foreign_and_nothing_is_written_over() {
    let dir = tempfile::tempdir().unwrap();
    put(&Vault::open(options(dir.path())).await).await.unwrap();
    let key = dir.path().join("credential.key");
    let right = fs::read(&key).unwrap();
    let kept = fs::read(dir.path().join("vault.json")).unwrap();
    let foreign = async || {
        let vault = Vault::open(options(dir.path())).await;
        assert_eq!(vault.standing().state, VaultState::Foreign);
        assert!(matches!(put(&vault).await, Err(VaultError::Foreign(_))));
        assert!(matches!(
            vault.unlock(Some(&secret("x"))).await,
            Err(VaultError::Foreign(_))
        ));
        assert!(vault.read("github", "TOKEN").is_err());
        vault
    };
    write(&key, &[1; 32]);
    let vault = foreign().await;
    write(&key, &[1; 31]);
    foreign().await;
    fs::remove_file(&key).unwrap();
    foreign().await;
    assert!(!key.exists(), "no other key is made");
    assert_eq!(fs::read(dir.path().join("vault.json")).unwrap(), kept);
    write(&key, &right);
    vault.unlock(None).await.unwrap();
    assert_eq!(got(&vault).unwrap(), "hunter2-hunter2");
}

#[tokio::test]
async fn a_damaged_file_is_kept_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    put(&Vault::open(options(dir.path())).await).await.unwrap();
    let path = dir.path().join("vault.json");
    let whole = fs::read_to_string(&path).unwrap();
    write(&path, &whole.as_bytes()[..whole.len() / 2]);
    let vault = Vault::open(options(dir.path())).await;
    let standing = vault.standing();
    assert_eq!(standing.state, VaultState::Foreign);
    assert!(standing.reason.unwrap().contains("was damaged"));
    assert!(put(&vault).await.is_err());
    assert!(vault.unlock(Some(&secret("x"))).await.is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), whole[..whole.len() / 2]);
    // A seal that was changed by hand is told apart.
    let id = whole.split("\"TOKEN\": \"").nth(1).unwrap();
    let seal = id.split('"').next().unwrap();
    write(&path, whole.replace(seal, &seal.to_lowercase()).as_bytes());
    let vault = Vault::open(options(dir.path())).await;
    let broken = vault.read("github", "TOKEN").unwrap_err();
    assert_eq!(
        broken.to_string(),
        "the seal of `TOKEN` of `github` is broken"
    );
    assert_eq!(
        broken.hint().unwrap(),
        "set it anew: `wharf secret set github TOKEN`"
    );
    put(&vault).await.unwrap();
    assert_eq!(got(&vault).unwrap(), "hunter2-hunter2");
}

#[tokio::test]
async fn a_write_that_fails_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let vault = Vault::open(options(dir.path())).await;
    put(&vault).await.unwrap();
    // What is written is renamed over it, which a folder that is not empty does not allow.
    let path = dir.path().join("vault.json");
    let kept = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    fs::create_dir_all(path.join("in the way")).unwrap();
    let failed = vault.set("github", "TOKEN", &secret("another-value")).await;
    assert!(matches!(failed, Err(VaultError::Io { .. })));
    assert!(vault.remove("github", "TOKEN").await.is_err());
    assert_eq!(got(&vault).unwrap(), "hunter2-hunter2");
    fs::remove_dir_all(&path).unwrap();
    write(&path, &kept);
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(left.len(), 2, "nothing half written is left: {left:?}");
    assert_eq!(
        got(&Vault::open(options(dir.path())).await).unwrap(),
        "hunter2-hunter2"
    );
}

#[tokio::test]
async fn names_and_values_that_cannot_be_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let vault = Vault::open(options(dir.path())).await;
    let check = async |key: &str, value: &str, expect: &str| {
        let refused = vault.set("s", key, &secret(value)).await.unwrap_err();
        assert!(refused.to_string().contains(expect), "{refused}");
    };
    check("", "x", "cannot be the name of a secret").await;
    check("a b", "x", "cannot be the name of a secret").await;
    check("K", "", "is empty").await;
    check("K", "a\0b", "NUL").await;
    check("K", &"x".repeat((64 << 10) + 1), "65536 is the limit").await;
    vault
        .set("s", "K", &secret(&"x".repeat(64 << 10)))
        .await
        .unwrap();
}

#[tokio::test]
async fn changes_at_once_all_count() {
    let dir = tempfile::tempdir().unwrap();
    let vault = Arc::new(Vault::open(options(dir.path())).await);
    let mut all = tokio::task::JoinSet::new();
    for n in 0..20 {
        let vault = vault.clone();
        all.spawn(async move {
            let value = secret(&format!("value-{n}"));
            vault.set("s", &format!("K{n}"), &value).await.unwrap();
        });
    }
    all.join_all().await;
    assert_eq!(Vault::open(options(dir.path())).await.names().len(), 20);
}
