//! The only part of it that touches the disk: a client's file is read, replaced whole, and put back.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::{LARGEST, Refused, text};

/// Why a file could not be read or written; it is as it was.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// What is in it can't be dealt with.
    #[error("{} is left as it is", .path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        why: Refused,
    },
    /// A folder, a device, a link to nowhere.
    #[error("{} is left as it is: it is {what}", .path.display())]
    NotAFile {
        /// What stands in its place.
        path: PathBuf,
        /// A folder, say.
        what: &'static str,
    },
    /// A link out of a project would have us write somewhere else.
    #[error("{} is left as it is: it is a link to {}, outside of the project", .path.display(), .target.display())]
    Outside {
        /// The link.
        path: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// The token in it would be everybody's to read.
    #[error("{} is left as it is: others on this machine may read it", .path.display())]
    Readable {
        /// The file.
        path: PathBuf,
    },
    /// The system said no.
    #[error("can't {doing} {}", .path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// What it said.
        #[source]
        source: io::Error,
    },
}

impl FileError {
    /// The way out.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Refused { why, .. } => Some(why.hint().to_owned()),
            Self::NotAFile { .. } => Some("move it out of the way, then try again".into()),
            Self::Outside { .. } => {
                Some("put a file in its place, or edit the other one by hand".into())
            }
            Self::Readable { path } => Some(format!(
                "`chmod 600 {}`, or do without `--http`",
                path.display()
            )),
            Self::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some("whoever owns the folder can change that".into())
            }
            Self::Io { .. } => None,
        }
    }
}

/// Attaches what was tried to what the system said.
fn io_error<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> FileError + 'a {
    move |source| FileError::Io {
        doing,
        path: path.to_owned(),
        source,
    }
}

/// Attaches a file to why it is left alone.
pub fn refused(path: &Path) -> impl FnOnce(Refused) -> FileError {
    let path = path.to_owned();
    move |why| FileError::Refused { path, why }
}

/// A file's text, and `None` where there is no file. At most as much is read as a client's file may be large.
pub fn read(path: &Path) -> Result<Option<String>, FileError> {
    let not_a_file = |what| FileError::NotAFile {
        path: path.to_owned(),
        what,
    };
    let known = match fs::metadata(path) {
        Ok(known) => known,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return match fs::symlink_metadata(path) {
                Ok(_) => Err(not_a_file("a link to nothing")),
                Err(_) => Ok(None),
            };
        }
        Err(error) => return Err(io_error("read", path)(error)),
    };
    // A pipe or a device might never end, or never begin.
    if known.is_dir() {
        return Err(not_a_file("a folder"));
    }
    if !known.is_file() {
        return Err(not_a_file("no regular file"));
    }
    let mut bytes = vec![];
    let limit = u64::try_from(LARGEST).unwrap_or(u64::MAX) + 1;
    let file = fs::File::open(path).map_err(io_error("read", path))?;
    file.take(limit)
        .read_to_end(&mut bytes)
        .map_err(io_error("read", path))?;
    let text = text(&bytes).map_err(refused(path))?;
    Ok(Some(text.to_owned()))
}

/// Refuses a file of a project that is a link, or lies behind one, out of it.
pub fn check_inside(path: &Path, project: &Path) -> Result<(), FileError> {
    let project = fs::canonicalize(project).map_err(io_error("read", project))?;
    // What is not there yet can't lead anywhere; its folder can.
    let mut there = path;
    while there.symlink_metadata().is_err() {
        match there.parent() {
            Some(parent) => there = parent,
            None => return Ok(()),
        }
    }
    let target = fs::canonicalize(there).map_err(io_error("read", there))?;
    if target.starts_with(&project) {
        Ok(())
    } else {
        Err(FileError::Outside {
            path: path.to_owned(),
            target,
        })
    }
}

/// Refuses a file that others may read.
#[cfg(unix)]
pub fn check_private(path: &Path) -> Result<(), FileError> {
    use std::os::unix::fs::PermissionsExt;
    match fs::metadata(path) {
        Ok(known) if known.permissions().mode() & 0o077 != 0 => Err(FileError::Readable {
            path: path.to_owned(),
        }),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Refuses a file that others may read.
#[cfg(not(unix))]
pub fn check_private(_: &Path) -> Result<(), FileError> {
    Ok(())
}

/// Replaces a file whole. A link stays one, and a file keeps its mode; a new one is its owner's alone.
pub fn write(path: &Path, text: &str) -> Result<(), FileError> {
    replace(path, text, None).map_err(io_error("write", path))
}

/// Where the file as it was before our entry is kept.
pub fn backup_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".wharf-backup");
    path.with_file_name(name)
}

/// Keeps a file as it is beside itself, for its owner's eyes.
pub fn keep(path: &Path, text: &str) -> Result<(), FileError> {
    let backup = backup_of(path);
    // A link of that name would have us write elsewhere.
    if backup
        .symlink_metadata()
        .is_ok_and(|known| !known.is_file())
    {
        return Err(FileError::NotAFile {
            path: backup,
            what: "no regular file",
        });
    }
    replace(&backup, text, Some(0o600)).map_err(io_error("write", &backup))
}

/// The file as it was before our entry, if that was kept.
pub fn kept(path: &Path) -> Option<String> {
    let backup = backup_of(path);
    let is_file = backup.symlink_metadata().is_ok_and(|known| known.is_file());
    is_file.then(|| read(&backup).ok().flatten()).flatten()
}

/// Removes a file that we made.
pub fn remove(path: &Path) -> Result<(), FileError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(io_error("remove", path)(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

fn replace(path: &Path, text: &str, mode: Option<u32>) -> io::Result<()> {
    use std::io::Write as _;
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let parent = target.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(parent)?;
    let mut file = tempfile::NamedTempFile::new_in(parent)?;
    file.write_all(text.as_bytes())?;
    set_mode(file.as_file(), &target, mode)?;
    file.as_file().sync_all()?;
    file.persist(&target).map_err(|error| error.error)?;
    fs::File::open(parent)?.sync_all()
}

#[cfg(unix)]
fn set_mode(file: &fs::File, target: &Path, mode: Option<u32>) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let known = || fs::metadata(target).map_or(0o600, |known| known.permissions().mode() & 0o7777);
    file.set_permissions(fs::Permissions::from_mode(mode.unwrap_or_else(known)))
}

#[cfg(not(unix))]
fn set_mode(_: &fs::File, _: &Path, _: Option<u32>) -> io::Result<()> {
    Ok(())
}
