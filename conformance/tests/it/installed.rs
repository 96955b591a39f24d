//! What `cargo xtask setup` installed. If it is missing, that is said once for each test, and the
//! test passes over it; under `CI=true` it fails.

use std::path::PathBuf;

use wharfinger_testkit::installed::{cache, present};

/// Node 22, which the suite needs.
pub(crate) fn node() -> Option<PathBuf> {
    present(cache().join("npm/node/node_modules/.bin/node"))
}

/// The suite's program.
pub(crate) fn suite() -> Option<PathBuf> {
    present(
        cache()
            .join("npm/conformance/node_modules/@modelcontextprotocol/conformance/dist/index.js"),
    )
}
