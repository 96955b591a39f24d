//! Packages that mean harm, or are not what they say.

use serde_json::{Value, json};

use super::registry::{Part, Release, SERVER, archive};
use super::{Shop, acme, entry, host_with};
use crate::yard::Yard;
use wharfinger_testkit::{Home, installed};

/// A package that works is there; another version of it does harm. Nothing changes, and the error says why.
async fn check(bad: Release<'_>, part: &str) {
    let Some(shop) = Shop::open(&[acme("1.0.0")], json!({ "a": entry() })).await else {
        return;
    };
    shop.install("a").await.unwrap();
    let (lock, folders) = (shop.lock(), shop.folders());
    shop.registry.publish(&bad);
    refused(&shop, part).await;
    assert_eq!((shop.lock(), shop.folders()), (lock, folders));
    assert_eq!(shop.runs("a_work").await["version"], "1.0.0");
    shop.yard.close().await;
}

async fn refused(shop: &Shop, part: &str) {
    let limit = wharfinger::INSTALL_LIMIT;
    let error = shop.yard.wharf.try_version("a", Some("2.0.0"), limit).await;
    let error = error.unwrap_err().message;
    assert!(error.contains(part), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a65_a200_a_file_outside_the_package_is_not_run() {
    for path in ["../../../../evil.js", "../other/evil.js"] {
        let mut bad = acme("2.0.0").with("bin", json!({ "srv": path }));
        bad.parts.push(Part::File("evil.js", SERVER));
        // npm makes a path of its own of it, or there is no such file; it is never one outside.
        check(bad, "that could be run").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a200_a_link_in_a_package_is_not_followed() {
    let mut bad = acme("2.0.0").with("bin", json!("link.js"));
    bad.parts.push(Part::Link("link.js", "/etc/passwd"));
    check(bad, "has no file link.js").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_package_that_says_it_is_another_one_is_refused() {
    let manifest = acme("2.0.0");
    let inside = archive(&Release::server("@acme/other", "2.0.0"));
    let Some(shop) = Shop::open(&[acme("1.0.0")], json!({ "a": entry() })).await else {
        return;
    };
    shop.install("a").await.unwrap();
    let (lock, folders) = (shop.lock(), shop.folders());
    let honest = integrity(&inside);
    shop.registry.publish_as(&manifest, inside, &honest);
    refused(&shop, "says that it is `@acme/other@2.0.0`").await;
    assert_eq!(
        (shop.lock(), shop.folders()),
        (lock.clone(), folders.clone())
    );
    // Nor is one whose content has another hash than its registry announced.
    let announced = integrity(b"something else");
    shop.registry
        .publish_as(&manifest, archive(&manifest), &announced);
    refused(&shop, "EINTEGRITY").await;
    assert_eq!((shop.lock(), shop.folders()), (lock, folders));
    shop.yard.close().await;
}

fn integrity(content: &[u8]) -> String {
    use base64::Engine as _;
    use sha2::Digest as _;
    let hash = sha2::Sha512::digest(content);
    format!(
        "sha512-{}",
        base64::engine::general_purpose::STANDARD.encode(hash)
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a63_scripts_run_only_where_the_owner_allows_it() {
    let home = Home::new();
    let marker = home.file("ran");
    let script = format!("echo x >> {}", marker.display());
    let scripts = json!({ "preinstall": script, "install": script, "postinstall": script });
    let loud = |name| Release::server(name, "1.0.0").with("scripts", scripts.clone());
    let plain = loud("loud").with("dependencies", json!({ "needed": "1.0.0" }));
    let servers = json!({
        "a": { "npmPackage": "loud" }, "b": { "npmPackage": "loud", "allowScripts": true },
    });
    let Some(shop) = Shop::open(&[plain, loud("needed")], servers).await else {
        return;
    };
    shop.install("a").await.unwrap();
    assert!(!marker.exists(), "a script ran");
    shop.install("b").await.unwrap();
    assert!(marker.exists(), "what the owner allows is done");
    assert_eq!(
        shop.folders().len(),
        2,
        "what scripts made is not for those who forbid them"
    );
    shop.yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a67_source_code_of_python_is_not_run_while_it_is_installed() {
    let registry = super::Registry::start().await;
    let home = Home::new();
    let Some(mut host) = host_with(&registry, &home) else {
        return;
    };
    let Some(uv) = installed::present(installed::cache().join("venv/uv/bin/uv")) else {
        return;
    };
    let marker = home.file("ran");
    let setup = format!("open({marker:?}, 'w').close()\nfrom setuptools import setup\nsetup()\n");
    registry.publish_source("acme-srv", "1.0.0", &setup);
    let path = format!("{}:{}", uv.parent().unwrap().display(), host["PATH"]);
    host.insert("PATH".into(), path);
    host.insert(
        "UV_DEFAULT_INDEX".into(),
        format!("{}/simple/", registry.url),
    );
    host.insert(
        "UV_CACHE_DIR".into(),
        home.file("cache").display().to_string(),
    );
    let servers: Value = json!({ "a": { "pypiPackage": "acme-srv" } });
    let yard = Yard::at(home, servers, json!({}), host).await;
    let shop = Shop { registry, yard };
    let error = shop.install("a").await.unwrap_err();
    assert!(!marker.exists(), "its setup ran: {error}");
    assert!(
        error
            .hint
            .as_deref()
            .is_some_and(|hint| hint.contains("allowScripts")),
        "{error:?}"
    );
    assert_eq!((shop.lock(), shop.folders()), (String::new(), vec![]));
    shop.yard.close().await;
}
