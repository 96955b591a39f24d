//! The only part of configuration that touches the disk.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use super::File;

/// Reads a file. A missing one is `None` (V8); any other failure is an error.
pub fn read(path: &Path) -> io::Result<Option<File>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(File {
            name: name(path),
            text,
        })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The path as complaints show it.
pub fn name(path: &Path) -> Arc<str> {
    path.display().to_string().into()
}

/// Who may read a file that is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    /// The mode of a file that is there already stays; a new one is its owner's alone.
    Usual,
    /// Its owner alone (0600).
    Owner,
}

/// Replaces a file whole: a temporary file beside it, flushed to disk, then renamed. A link stays a link: what it
/// points at is replaced.
pub fn replace(path: &Path, text: &str, readers: Readers) -> io::Result<()> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let parent = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    fs::create_dir_all(parent)?;
    let mut file = tempfile::NamedTempFile::new_in(parent)?;
    file.write_all(text.as_bytes())?;
    if readers == Readers::Usual {
        set_usual_mode(file.as_file(), &path)?;
    }
    file.as_file().sync_all()?;
    file.persist(&path).map_err(|error| error.error)?;
    fs::File::open(parent)?.sync_all()
}

#[cfg(unix)]
fn set_usual_mode(file: &fs::File, path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::metadata(path).map_or(0o600, |known| known.permissions().mode() & 0o777);
    file.set_permissions(fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn set_usual_mode(_: &fs::File, _: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path)
            .expect("it is there")
            .permissions()
            .mode()
            & 0o777
    }

    #[test]
    fn a_file_is_replaced_whole_and_keeps_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/settings.json");
        assert_eq!(read(&path).unwrap(), None);
        assert!(
            read(dir.path()).is_err(),
            "a folder is there, and is no file"
        );
        replace(&path, "one", Readers::Usual).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        replace(&path, "two", Readers::Usual).unwrap();
        assert_eq!(read(&path).unwrap().unwrap().text, "two");
        assert_eq!(mode(&path), 0o640);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_secret_file_is_its_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        replace(&path, "t", Readers::Owner).unwrap();
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn a_link_stays_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        replace(&real, "one", Readers::Usual).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        replace(&link, "two", Readers::Usual).unwrap();
        assert_eq!(fs::read_to_string(&real).unwrap(), "two");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }
}
