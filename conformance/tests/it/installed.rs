//! What `cargo xtask setup` installed. If it is missing, that is said once for each test, and the
//! test passes over it; under `CI=true` it fails.

use std::path::PathBuf;

const CACHE: &str = "WHARFINGER_TEST_CACHE";

/// Node 22, which the suite needs.
pub(crate) fn node() -> Option<PathBuf> {
    present("npm/node/node_modules/.bin/node")
}

/// The suite's program.
pub(crate) fn suite() -> Option<PathBuf> {
    present("npm/conformance/node_modules/@modelcontextprotocol/conformance/dist/index.js")
}

fn present(path: &str) -> Option<PathBuf> {
    let cache = std::env::var_os(CACHE).map_or_else(
        || {
            let home = std::env::home_dir().unwrap_or_default();
            home.join(".cache/wharfinger-tests")
        },
        PathBuf::from,
    );
    let path = cache.join(path);
    if path.exists() {
        return Some(path);
    }
    let notice = format!("{} is missing (`cargo xtask setup`)", path.display());
    let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(!in_ci, "{notice}");
    eprintln!("left out: {notice}");
    None
}
