//! What `cargo xtask setup` installed. Whatever is missing is named once per test, and the test
//! passes over it; under `CI=true` it fails.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use wharfinger_testkit::installed::{cache, present};

/// A program of an npm package in the cache.
pub(crate) fn npm(group: &str, program: &str) -> Option<PathBuf> {
    present(
        cache()
            .join("npm")
            .join(group)
            .join("node_modules/.bin")
            .join(program),
    )
}

/// A program of a `PyPI` package in the cache.
pub(crate) fn pypi(group: &str, program: &str) -> Option<PathBuf> {
    present(cache().join("venv").join(group).join("bin").join(program))
}

/// `npx` or `uvx`, whose own cache knows the one package that the tests run with it.
pub(crate) fn warm(program: &str) -> Option<PathBuf> {
    let marker = match program {
        "npx" => cache().join("npm/npx/.stamps"),
        _ => cache().join("venv/uvx/.stamps"),
    };
    present(marker)?;
    on_path(&[program])
}

pub(crate) fn chromium() -> Option<PathBuf> {
    on_path(&["chromium", "chromium-browser", "google-chrome"])
}

pub(crate) fn git() -> Option<PathBuf> {
    on_path(&["git"])
}

/// A script of this crate.
pub(crate) fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("scripts")
        .join(name)
}

/// `PATH` with Node 22 and uv in front.
pub(crate) fn path() -> OsString {
    let own = std::env::var_os("PATH").unwrap_or_default();
    let folders = [
        cache().join("npm/node/node_modules/.bin"),
        cache().join("venv/uv/bin"),
    ];
    std::env::join_paths(folders.into_iter().chain(std::env::split_paths(&own))).unwrap()
}

fn on_path(names: &[&str]) -> Option<PathBuf> {
    let folders: Vec<PathBuf> = std::env::split_paths(&path()).collect();
    let mut candidates = names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    let found = candidates.find(|candidate| candidate.is_file());
    present(found.unwrap_or_else(|| PathBuf::from(names[0])))
}
