//! The committed page of known failures.

use std::path::Path;

use wharfinger::doctor::page;

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a test that refreshes a file when told to"
)]
fn errors_page_is_the_one_that_the_table_makes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors.md");
    if std::env::var("UPDATE").is_ok() {
        std::fs::write(&path, page()).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == page(),
        "docs/errors.md is stale; refresh it with `UPDATE=1 cargo test -p wharfinger --test it errors_page`"
    );
}
