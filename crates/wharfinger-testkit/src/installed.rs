//! What the set-up of the tests installed, and what to do where it is missing.

use std::path::PathBuf;

/// The folder of packages that `cargo xtask setup` made: `$WHARFINGER_TEST_CACHE`, by default
/// `~/.cache/wharfinger-tests`.
pub fn cache() -> PathBuf {
    std::env::var_os("WHARFINGER_TEST_CACHE").map_or_else(
        || {
            std::env::home_dir()
                .unwrap_or_default()
                .join(".cache/wharfinger-tests")
        },
        PathBuf::from,
    )
}

/// The path, if there is something. If not, that is said, and the test is to pass over it.
///
/// # Panics
///
/// Under `CI=true`, where nothing may be missing.
#[expect(
    clippy::print_stderr,
    reason = "a test's own output is where a reader looks for it"
)]
#[track_caller]
pub fn present(path: PathBuf) -> Option<PathBuf> {
    if path.exists() {
        return Some(path);
    }
    let notice = format!("{} is missing (`cargo xtask setup`)", path.display());
    let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(!in_ci, "{notice}");
    eprintln!("left out: {notice}");
    None
}

/// Node: that of the set-up, which is newer than many machines', or the machine's own.
#[track_caller]
pub fn node() -> Option<PathBuf> {
    let own = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(cache().join("npm/node/node_modules/.bin"))
        .chain(std::env::split_paths(&own));
    let found = folders
        .map(|folder| folder.join("node"))
        .find(|candidate| candidate.is_file());
    present(found.unwrap_or_else(|| PathBuf::from("node")))
}

/// The Python of a group of `PyPI` packages.
#[track_caller]
pub fn python(group: &str) -> Option<PathBuf> {
    present(cache().join("venv").join(group).join("bin/python"))
}

/// A program of the machine itself.
#[track_caller]
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.is_file());
    present(found.unwrap_or_else(|| PathBuf::from(name)))
}
