//! Where a vault and its key lie: two files, and the keyring of the operating system, which whoever embeds us gives.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::pin::Pin;

use zeroize::Zeroizing;

use super::sealed::Key;
use crate::model::Secret;

/// A future of a keyring's answer; the error is its word, for people.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send + 'a>>;

/// The keyring of the operating system. It answers soon or with an error: whoever asks waits.
pub trait Keyring: Send + Sync + std::fmt::Debug + 'static {
    /// The key that is kept under an id; `None` where there is none.
    fn load<'a>(&'a self, id: &'a str) -> Answer<'a, Option<Secret<Vec<u8>>>>;

    /// Keeps a key under an id.
    fn keep<'a>(&'a self, id: &'a str, key: &'a Secret<Vec<u8>>) -> Answer<'a, ()>;
}

/// A file's text; `None` where there is no file.
pub(super) fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces a file whole, for its owner alone: whatever happens in the middle, the old one or the new one is there.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    // Made with mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    fs::File::open(folder)?.sync_all()
}

/// A key that was read from its file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    /// And what its owner should know.
    Key(Key, Option<String>),
    /// Or why it is not used.
    Refused(String),
}

/// Reads a key. A file that others can read is closed to them, and its owner told; where that fails it is not used.
pub(super) fn read_key(path: &Path) -> Found {
    let refused = |reason: &str| Found::Refused(format!("{}: {reason}", path.display()));
    let bytes = match fs::read(path) {
        Ok(bytes) => Zeroizing::new(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Found::Nothing,
        Err(error) => return refused(&error.to_string()),
    };
    let Ok(key) = <[u8; 32]>::try_from(bytes.as_slice()) else {
        return refused("it is no key, which has 32 bytes; put back a copy of it");
    };
    match close(path) {
        Ok(false) => Found::Key(Zeroizing::new(key), None),
        Ok(true) => Found::Key(
            Zeroizing::new(key),
            Some(format!(
                "others on this machine could read {}, which is closed to them now; if one of them may have done so, \
                 set your secrets anew where they come from",
                path.display()
            )),
        ),
        Err(error) => refused(&format!(
            "others on this machine can read it, and that can't be changed: {error}"
        )),
    }
}

/// Takes a file from everybody but its owner; whether others could read or write it.
#[cfg(unix)]
pub(super) fn close(path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::metadata(path)?.permissions().mode();
    let is_open = mode & 0o077 != 0;
    if is_open {
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    }
    Ok(is_open)
}

#[cfg(not(unix))]
pub(super) fn close(_: &Path) -> io::Result<bool> {
    Ok(false)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        let found = fs::metadata(path).expect("it is there");
        found.permissions().mode() & 0o777
    }

    #[test]
    fn a_file_is_replaced_whole_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/vault.json");
        assert_eq!(read(&path).unwrap(), None);
        replace(&path, b"one").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!(read(&path).unwrap().as_deref(), Some("two"));
        assert_eq!(mode(&path), 0o600);
        assert_eq!(fs::read_dir(dir.path().join("new")).unwrap().count(), 1);
        assert!(read(dir.path()).is_err(), "a folder is no file");
    }

    #[test]
    fn a_key_that_others_can_read_is_closed_to_them_and_its_owner_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("credential.key");
        assert_eq!(read_key(&path), Found::Nothing);
        replace(&path, &[7; 32]).unwrap();
        let key = Zeroizing::new([7; 32]);
        assert_eq!(read_key(&path), Found::Key(key.clone(), None));
        for open in [0o640, 0o604, 0o620] {
            fs::set_permissions(&path, fs::Permissions::from_mode(open)).unwrap();
            let Found::Key(found, Some(told)) = read_key(&path) else {
                panic!("{open:o}");
            };
            assert_eq!((found, mode(&path)), (key.clone(), 0o600));
            assert!(told.contains("others on this machine could read"), "{told}");
        }
    }

    #[test]
    fn what_is_no_key_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("credential.key");
        for bytes in [&[][..], &[1; 31], &[1; 33]] {
            replace(&path, bytes).unwrap();
            assert!(
                matches!(read_key(&path), Found::Refused(reason) if reason.contains("it is no key"))
            );
        }
        assert!(matches!(read_key(dir.path()), Found::Refused(_)));
    }
}
