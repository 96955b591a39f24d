//! The keyring of a desktop session: the Secret Service, over D-Bus.
//!
//! Where there is no session bus, nothing is asked. What is locked stays so: a daemon asks nobody for a password.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Duration;

use secret_service::{Collection, EncryptionType, Error, SecretService};
use wharfinger::agentfile::reveal;
use wharfinger::model::Secret;
use wharfinger::vault::{Answer, Keyring};

/// A keyring that takes longer than this has nobody behind it.
const PATIENCE: Duration = Duration::from_secs(3);

/// By which our keys are found.
const APPLICATION: (&str, &str) = ("application", "wharfinger");

/// The keyring of the session that this program was started in.
#[derive(Debug)]
pub(crate) struct Session;

/// The session's keyring, if there is a session bus at all.
pub(crate) fn of_session(environment: &BTreeMap<String, String>) -> Option<Session> {
    let set = |name: &str| environment.get(name).filter(|value| !value.is_empty());
    let has_socket = || {
        let folder = set("XDG_RUNTIME_DIR");
        folder.is_some_and(|folder| Path::new(folder).join("bus").exists())
    };
    (set("DBUS_SESSION_BUS_ADDRESS").is_some() || has_socket()).then_some(Session)
}

impl Keyring for Session {
    fn load<'a>(&'a self, id: &'a str) -> Answer<'a, Option<Secret<Vec<u8>>>> {
        Box::pin(soon(async move {
            let service = SecretService::connect(EncryptionType::Dh).await?;
            let found = service.search_items(attributes(id)).await?;
            if let Some(item) = found.unlocked.first() {
                return Ok(Some(Secret::new(item.get_secret().await?)));
            }
            if found.locked.is_empty() {
                return Ok(None);
            }
            Err(Error::Locked)
        }))
    }

    fn keep<'a>(&'a self, id: &'a str, key: &'a Secret<Vec<u8>>) -> Answer<'a, ()> {
        Box::pin(soon(async move {
            let service = SecretService::connect(EncryptionType::Dh).await?;
            let collection = open(&service).await?;
            collection
                .create_item(
                    "Key of Wharfinger's vault",
                    attributes(id),
                    reveal(key).as_slice(),
                    true,
                    "application/octet-stream",
                )
                .await?;
            Ok(())
        }))
    }
}

/// Where keys are kept by default, if it can be written to without asking anybody.
async fn open<'a>(service: &'a SecretService<'a>) -> Result<Collection<'a>, Error> {
    let collection = service.get_default_collection().await?;
    if collection.is_locked().await? {
        return Err(Error::Locked);
    }
    Ok(collection)
}

fn attributes(id: &str) -> HashMap<&str, &str> {
    HashMap::from([APPLICATION, ("vault", id)])
}

async fn soon<T>(asking: impl Future<Output = Result<T, Error>>) -> Result<T, String> {
    match tokio::time::timeout(PATIENCE, asking).await {
        Ok(answer) => answer.map_err(|error| match error {
            Error::Locked => "it is locked".to_owned(),
            error => error.to_string(),
        }),
        Err(_) => Err("it does not answer".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_session_bus_there_is_no_keyring() {
        let dir = tempfile::tempdir().unwrap();
        let runtime = dir.path().to_string_lossy().into_owned();
        let check = |set: &[(&str, &str)], expect: bool| {
            let set = set.iter();
            let environment = set
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            assert_eq!(
                of_session(&environment).is_some(),
                expect,
                "{environment:?}"
            );
        };
        check(&[], false);
        check(&[("DBUS_SESSION_BUS_ADDRESS", "")], false);
        check(&[("XDG_RUNTIME_DIR", &runtime)], false);
        check(&[("DBUS_SESSION_BUS_ADDRESS", "unix:path=/x")], true);
        std::os::unix::net::UnixListener::bind(dir.path().join("bus")).unwrap();
        check(&[("XDG_RUNTIME_DIR", &runtime)], true);
    }

    #[tokio::test(start_paused = true)]
    async fn a_keyring_that_says_nothing_is_not_waited_for() {
        let silent = soon::<()>(std::future::pending()).await;
        assert_eq!(silent.unwrap_err(), "it does not answer");
        let locked = soon::<()>(async { Err(Error::Locked) }).await;
        assert_eq!(locked.unwrap_err(), "it is locked");
    }
}
