//! Where the packages for the tests live: one folder for each group of packages that may share
//! one, with a stamp for each package that is completely installed.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// The variable that moves the cache, and that tells the tests where it is.
pub(crate) const VARIABLE: &str = "WHARFINGER_TEST_CACHE";

pub(crate) struct Cache(PathBuf);

impl Cache {
    pub(crate) fn locate() -> Result<Self> {
        if let Some(folder) = std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty()) {
            return Ok(Self(PathBuf::from(folder)));
        }
        let home = std::env::home_dir()
            .with_context(|| format!("no home folder; set `{VARIABLE}` to a folder"))?;
        Ok(Self(home.join(".cache/wharfinger-tests")))
    }

    #[cfg(test)]
    pub(crate) fn at(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }

    pub(crate) fn npm(&self, group: &str) -> PathBuf {
        self.0.join("npm").join(group)
    }

    pub(crate) fn venv(&self, group: &str) -> PathBuf {
        self.0.join("venv").join(group)
    }

    /// Folders of programs that go in front of `PATH`: Node 22 before the machine's own, and uv.
    pub(crate) fn programs(&self) -> [PathBuf; 2] {
        [
            self.npm("node").join("node_modules/.bin"),
            self.venv("uv").join("bin"),
        ]
    }
}

/// Whether a folder holds exactly these packages.
pub(crate) fn is_complete(folder: &Path, specs: &[&str]) -> bool {
    specs.iter().all(|spec| stamp(folder, spec).is_file())
}

/// Empties a folder. Its stamps go too, so a half-made installation is never taken for a whole
/// one, nor an older version for the wanted one.
pub(crate) fn start_over(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}

pub(crate) fn complete(folder: &Path, specs: &[&str]) -> Result<()> {
    for spec in specs {
        let file = stamp(folder, spec);
        fs::create_dir_all(file.parent().unwrap_or(folder))
            .and_then(|()| fs::write(&file, ""))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

fn stamp(folder: &Path, spec: &str) -> PathBuf {
    folder
        .join(".stamps")
        .join(OsString::from(spec.replace('/', "+")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_complete_with_a_stamp_for_each_package() {
        let root = tempfile::tempdir().unwrap();
        let folder = Cache::at(root.path()).npm("group");
        start_over(&folder).unwrap();
        assert!(!is_complete(&folder, &["@scope/one@1"]));
        complete(&folder, &["@scope/one@1", "two@2"]).unwrap();
        assert!(is_complete(&folder, &["@scope/one@1", "two@2"]));
        assert!(!is_complete(&folder, &["@scope/one@2", "two@2"]));
        start_over(&folder).unwrap();
        assert!(!is_complete(&folder, &["two@2"]));
    }
}
