//! `mcp.lock`: which version of each package is in force, and everything that is needed to install exactly that again.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::InstallError;
use crate::model::{Package, PackageKind, hex};

/// The format that we write.
const FORMAT: u32 = 1;

/// All of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Lock {
    lockfile_version: u32,
    /// Sorted by what is wanted.
    pub(super) packages: Vec<Locked>,
}

impl Default for Lock {
    fn default() -> Self {
        Self {
            lockfile_version: FORMAT,
            packages: vec![],
        }
    }
}

/// What is in force for a package that is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Locked {
    /// What is wanted.
    pub wanted: Package,
    /// What that came to.
    #[serde(flatten)]
    pub current: Resolved,
    /// What was in force before, and is kept to go back to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Box<Earlier>>,
}

/// What was in force before an upgrade.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Earlier {
    /// What was wanted then; of another version where the entry names one.
    pub wanted: Package,
    /// What that had come to.
    #[serde(flatten)]
    pub resolved: Resolved,
}

/// A package as it is installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resolved {
    /// Its version.
    pub version: String,
    /// What its registry says of its content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integrity: Option<String>,
    /// The file that starts it, in its folder.
    pub entry: String,
    /// SHA-256 of `all`, as compact JSON.
    pub hash: String,
    /// All that is installed with it.
    #[serde(flatten)]
    pub all: Everything,
}

/// Every package of an install with its version and the hash of its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Everything {
    /// The `package-lock.json` of an install of npm.
    PackageLock(Value),
    /// Requirements with hashes, one a line.
    Requirements(Vec<String>),
}

impl Everything {
    /// What it is told apart by.
    pub(super) fn hash(&self) -> String {
        let text = serde_json::to_vec(self).unwrap_or_default();
        hex(&Sha256::digest(text))
    }
}

impl Resolved {
    /// The folder it is in, below that of all packages: one for each package (A62), and in it one for each version and
    /// everything else that decides what is installed. What is in there never changes.
    pub(super) fn folder(&self, wanted: &Package) -> String {
        let of = serde_json::json!([wanted.unpinned(), self.hash]);
        let digest = hex(&Sha256::digest(of.to_string()));
        let version: String = self.version.chars().map(plain).collect();
        format!("{}/{version}-{}", mapped(&wanted.name), &digest[..8])
    }
}

/// The name of a package as a folder (A62).
pub(super) fn mapped(name: &str) -> String {
    name.replace(['/', '@'], "_")
}

fn plain(c: char) -> char {
    if c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-') {
        c
    } else {
        '_'
    }
}

impl Lock {
    /// Reads the file; a missing one is empty.
    pub(super) fn read(path: &Path) -> Result<Self, InstallError> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(source) => {
                return Err(InstallError::Io {
                    path: path.to_owned(),
                    source,
                });
            }
        };
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self, InstallError> {
        let wrong = |why: String| InstallError::Lock(why);
        let lock: Self = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        if lock.lockfile_version > FORMAT {
            return Err(wrong(format!(
                "it is of format {}, and this program knows {FORMAT}",
                lock.lockfile_version
            )));
        }
        for locked in &lock.packages {
            let all = [(&locked.wanted, &locked.current)].into_iter().chain(
                locked
                    .previous
                    .iter()
                    .map(|earlier| (&earlier.wanted, &earlier.resolved)),
            );
            for (wanted, resolved) in all {
                check(wanted, resolved).map_err(|why| wrong(format!("{}: {why}", wanted.name)))?;
            }
        }
        Ok(lock)
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), InstallError> {
        let text = serde_json::to_string_pretty(self).unwrap_or_default() + "\n";
        replace(path, &text).map_err(|source| InstallError::Io {
            path: path.to_owned(),
            source,
        })
    }

    pub(super) fn find(&self, wanted: &Package) -> Option<&Locked> {
        self.packages.iter().find(|locked| locked.wanted == *wanted)
    }

    /// Puts one in the place of what was in force for the same wish.
    pub(super) fn put(&mut self, locked: Locked) {
        self.take(&locked.wanted);
        let at = self
            .packages
            .partition_point(|known| known.wanted < locked.wanted);
        self.packages.insert(at, locked);
    }

    pub(super) fn take(&mut self, wanted: &Package) -> Option<Locked> {
        let at = self
            .packages
            .iter()
            .position(|locked| locked.wanted == *wanted)?;
        Some(self.packages.remove(at))
    }

    /// Folders that are in use, now or to go back to.
    pub(super) fn folders(&self) -> Vec<String> {
        let of = |locked: &Locked| {
            let earlier = locked.previous.iter();
            let earlier = earlier.map(|earlier| earlier.resolved.folder(&earlier.wanted));
            std::iter::once(locked.current.folder(&locked.wanted))
                .chain(earlier)
                .collect::<Vec<_>>()
        };
        self.packages.iter().flat_map(of).collect()
    }
}

/// People, and what they copy from elsewhere, write this file too: what becomes a path or an argument is looked at.
fn check(wanted: &Package, resolved: &Resolved) -> Result<(), String> {
    crate::model::package::check_spec(wanted.kind, &wanted.spec())?;
    wanted.clone().with(wanted.with.clone())?;
    if resolved.all.hash() != resolved.hash {
        return Err("its hash is another one than that of what is locked".into());
    }
    match (&resolved.all, wanted.kind) {
        (Everything::PackageLock(_), PackageKind::Npm) => Ok(()),
        (Everything::Requirements(lines), PackageKind::Pypi) => {
            let fine = |line: &String| {
                let mut words = line.split(' ');
                let named = words.next().is_some_and(|word| {
                    crate::model::package::check_spec(PackageKind::Pypi, word).is_ok()
                });
                let hashes: Vec<&str> = words.collect();
                let hashed = hashes.iter().all(|word| word.starts_with("--hash=sha256:"));
                named && hashed && !hashes.is_empty()
            };
            match lines.iter().find(|line| !fine(line)) {
                Some(line) => Err(format!("{line:?} is no requirement with hashes")),
                None => Ok(()),
            }
        }
        _ => Err("what is locked is of another kind".into()),
    }
}

/// Replaces a file whole.
pub(in crate::launch) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let parent = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(parent)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn npm(spec: &str, version: &str) -> Locked {
        let all = Everything::PackageLock(json!({ "packages": { version: {} } }));
        Locked {
            wanted: Package::parse(PackageKind::Npm, spec).unwrap(),
            current: Resolved {
                version: version.into(),
                integrity: Some("sha512-x".into()),
                entry: "node_modules/a/x.js".into(),
                hash: all.hash(),
                all,
            },
            previous: None,
        }
    }

    #[test]
    fn a62_each_package_has_a_folder_and_each_version_one_in_it() {
        let folder = |spec: &str, version: &str| {
            let locked = npm(spec, version);
            locked.current.folder(&locked.wanted)
        };
        let one = folder("@a/b", "1.2.3");
        assert!(one.starts_with("_a_b/1.2.3-"), "{one}");
        // The same whether its version was asked for or found; another one for another package of that folder.
        assert_eq!(folder("@a/b@1.2.3", "1.2.3"), one);
        assert_ne!(folder("@a/b_c", "1"), folder("@a_b/c", "1"));
        assert_eq!(
            folder("@a/b_c", "1").split('/').next(),
            folder("@a_b/c", "1").split('/').next()
        );
        // A version leads nowhere else.
        let odd = folder("a", "../../x");
        assert_eq!(odd.matches('/').count(), 1, "{odd}");
    }

    #[test]
    fn what_is_written_is_read_again_and_sorted() {
        let mut lock = Lock::default();
        for spec in ["b", "a@1", "a"] {
            lock.put(npm(spec, "1"));
        }
        let mut newer = npm("a", "2");
        let old = npm("a", "1");
        newer.previous = Some(Box::new(Earlier {
            wanted: old.wanted,
            resolved: old.current,
        }));
        lock.put(newer.clone());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mcp.lock");
        lock.write(&path).unwrap();
        let again = Lock::read(&path).unwrap();
        assert_eq!(again, lock);
        let specs: Vec<String> = again.packages.iter().map(|one| one.wanted.spec()).collect();
        assert_eq!(specs, ["a", "a@1", "b"]);
        assert_eq!(again.find(&newer.wanted), Some(&newer));
        assert_eq!(again.folders().len(), 4);
    }

    #[test]
    fn a_lock_that_says_what_can_not_be_is_refused() {
        let lock = Lock {
            packages: vec![npm("a", "1")],
            ..Lock::default()
        };
        let good = serde_json::to_value(&lock).unwrap();
        let check = |path: &str, value: Value, part: &str| {
            let mut bad = good.clone();
            *bad.pointer_mut(path).unwrap() = value;
            let error = Lock::parse(&bad.to_string()).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        assert!(Lock::parse(&good.to_string()).is_ok());
        check("/lockfileVersion", 9.into(), "format 9");
        check(
            "/packages/0/wanted/name",
            "--foo".into(),
            "must be the name",
        );
        check("/packages/0/packageLock", json!({}), "its hash is another");
        let lines = Everything::Requirements(vec!["x==1 --index-url=http://y".into()]);
        let mut python = good.clone();
        let one = &mut python["packages"][0];
        one["wanted"]["kind"] = "pypi".into();
        one.as_object_mut().unwrap().remove("packageLock");
        one["hash"] = lines.hash().into();
        one["requirements"] = json!(["x==1 --index-url=http://y"]);
        let error = Lock::parse(&python.to_string()).unwrap_err().to_string();
        assert!(error.contains("no requirement with hashes"), "{error}");
    }
}
