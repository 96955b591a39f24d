//! The programs of this workspace, found beside the test that runs.

use std::path::PathBuf;

/// The fake MCP server. Its modes are arguments; `modes.rs` of `fake-server` lists them.
///
/// # Panics
/// If it isn't built. Cargo builds no binaries of a crate that a test merely depends on.
pub fn fake_server() -> PathBuf {
    binary("fake-server", "wharfinger-testkit")
}

/// The program `name`, which `package` builds, of the same profile as the running test.
///
/// # Panics
/// If it isn't built.
pub fn binary(name: &str, package: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it is");
    // target/<profile>/deps/<test>, or for a doc test a temporary folder beneath.
    let found = test
        .ancestors()
        .skip(1)
        .take(4)
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.is_file());
    found.unwrap_or_else(|| {
        panic!(
            "`{name}` isn't built for the profile of {}; run `cargo build --package {package}` \
             or test with `cargo xtask test`",
            test.display()
        )
    })
}
