//! The committed `OpenAPI` document.

use std::collections::HashSet;
use std::path::Path;

use serde_json::{Value, json};

use crate::dock::Dock;

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a test that refreshes a file when told to"
)]
fn the_committed_document_is_the_one_that_is_served() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    if std::env::var("UPDATE").is_ok() {
        std::fs::write(&path, wharfinger_daemon::openapi()).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == wharfinger_daemon::openapi(),
        "docs/openapi.json is stale; refresh it with \
         `UPDATE=1 cargo test -p wharfinger-daemon --test it document`"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_served_and_complete() {
    let dock = Dock::new(json!({})).await;
    let served = dock.get("/api/openapi.json").await;
    let expect: Value = serde_json::from_str(&wharfinger_daemon::openapi()).unwrap();
    assert_eq!(served, expect);
    let text = served.to_string();
    // Each reference leads somewhere.
    for reference in text.split("\"$ref\":\"#").skip(1) {
        let pointer = reference.split('"').next().unwrap();
        assert!(served.pointer(pointer).is_some(), "{pointer}");
    }
    // Each operation is described, and has an id that no other one has.
    let mut ids = HashSet::new();
    for (path, operations) in served["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            assert!(operation["summary"].is_string(), "{method} {path}");
            let id = operation["operationId"].as_str().unwrap();
            assert!(ids.insert(id), "{id}: {method} {path}");
        }
    }
    dock.close().await;
}
