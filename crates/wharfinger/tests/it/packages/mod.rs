//! Packages, installed by the real `npm` and `uv` from a registry of the test's own.

mod agent;
mod hostile;
mod registry;
mod upgrade;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use wharfinger::config::load;
use wharfinger::{Installing, PackageError};
use wharfinger_testkit::{Home, installed, poll_until};

use self::registry::{Registry, Release};
use crate::yard::{Yard, host, inputs, names, say};

/// A host with `npm`, whose registry this is; `None` where there is no `npm`.
fn host_with(registry: &Registry, home: &Home) -> Option<BTreeMap<String, String>> {
    let node = installed::node()?;
    installed::program("npm")?;
    let mut host = host();
    let folder = node.parent().unwrap().display().to_string();
    let path = format!("{folder}:{}", host["PATH"]);
    let user = home.file("user").display().to_string();
    host.insert("PATH".into(), path);
    host.insert("HOME".into(), user);
    host.insert("npm_config_registry".into(), registry.url.clone());
    host.insert("npm_config_fetch_retries".into(), "0".into());
    Some(host)
}

/// A registry, and a wharf that uses it.
struct Shop {
    registry: Registry,
    yard: Yard,
}

impl Shop {
    async fn open(publish: &[Release<'_>], servers: Value) -> Option<Self> {
        let registry = Registry::start().await;
        for version in publish {
            registry.publish(version);
        }
        let home = Home::new();
        let host = host_with(&registry, &home)?;
        let yard = Yard::at(home, servers, json!({}), host).await;
        Some(Self { registry, yard })
    }

    async fn install(&self, name: &str) -> Result<String, PackageError> {
        let how = Installing::default();
        let report = self.yard.wharf.install_server(name, how).await?;
        Ok(report.version.unwrap())
    }

    /// How the server of that name says it runs.
    async fn runs(&self, name: &str) -> Value {
        let session = self.yard.session(name);
        let said = say(&session, name, json!({})).await;
        serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"))
    }

    fn lock(&self) -> String {
        self.yard.home.read("mcp.lock")
    }

    /// Folders of installs, sorted.
    fn folders(&self) -> Vec<PathBuf> {
        folders(self.yard.home.path())
    }
}

fn folders(home: &Path) -> Vec<PathBuf> {
    let list = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let mut found: Vec<PathBuf> = list(&home.join("mcp-servers"))
        .iter()
        .flat_map(|package| list(package))
        .collect();
    found.sort();
    found
}

fn acme(version: &str) -> Release<'_> {
    Release::server("@acme/srv", version)
}

fn entry() -> Value {
    json!({ "npmPackage": "@acme/srv", "toolPrefix": "a_" })
}

#[tokio::test(flavor = "multi_thread")]
async fn a60_a62_a64_a_package_is_installed_once_and_runs_from_its_folder() {
    let mut one = entry();
    one["version"] = json!("1.0.0");
    one["args"] = json!(["--x", "y z"]);
    let servers = json!({ "a": one });
    let published = [acme("1.0.0"), acme("1.1.0")];
    let Some(shop) = Shop::open(&published, servers.clone()).await else {
        return;
    };
    // A missing install is made by the start that needs it.
    let said = shop.runs("a_work").await;
    assert_eq!(said["version"], "1.0.0");
    let argv: Vec<&str> = said["argv"]
        .as_array()
        .unwrap()
        .iter()
        .map(|arg| arg.as_str().unwrap())
        .collect();
    let folder = shop.folders().pop().unwrap();
    let entry = folder.join("node_modules/@acme/srv/server.js");
    assert_eq!(argv, [entry.to_str().unwrap(), "--x", "y z"]);
    assert!(
        folder
            .to_string_lossy()
            .contains("/mcp-servers/_acme_srv/1.0.0-")
    );
    assert!(folder.join("package.json").is_file() && folder.join("install.json").is_file());
    let report = &shop
        .yard
        .wharf
        .reports(&wharfinger::model::AgentName::new("default").unwrap())[0];
    let package = report.package.as_ref().unwrap();
    assert_eq!(
        (package.version.as_deref(), package.installed),
        (Some("1.0.0"), true)
    );
    let lock: Value = serde_json::from_str(&shop.lock()).unwrap();
    let locked = &lock["packages"][0];
    assert_eq!(locked["version"], "1.0.0");
    assert!(locked["integrity"].as_str().unwrap().starts_with("sha512-"));
    // Another program, without a registry: what is installed starts.
    let Shop { registry, yard } = shop;
    let home = yard.close().await;
    let asked = registry.requests();
    let host = host_with(&registry, &home).unwrap();
    drop(registry);
    let yard = Yard::at(home, servers, json!({}), host).await;
    let session = yard.session("one");
    assert!(say(&session, "a_work", json!({})).await.contains("1.0.0"));
    assert!(asked > 0);
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a63_two_who_ask_for_the_same_wait_for_one_install() {
    let servers = json!({ "a": entry(), "b": { "npmPackage": "@acme/srv", "toolPrefix": "b_" } });
    let Some(shop) = Shop::open(&[acme("1.0.0")], servers).await else {
        return;
    };
    shop.registry.hold(true);
    let both = async { tokio::join!(shop.install("a"), shop.install("b")) };
    let release = async {
        poll_until("a download", tokio::time::sleep, || {
            shop.registry.downloads() > 0
        })
        .await;
        shop.registry.hold(false);
    };
    let ((a, b), ()) = tokio::join!(both, release);
    assert_eq!((a.unwrap(), b.unwrap()), ("1.0.0".into(), "1.0.0".into()));
    assert_eq!(shop.registry.downloads(), 1);
    assert_eq!(shop.folders().len(), 1);
    // A third time there is nothing to do.
    let asked = shop.registry.requests();
    shop.install("a").await.unwrap();
    assert_eq!(shop.registry.requests(), asked);
    shop.yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a63_an_install_that_takes_too_long_or_is_killed_leaves_what_was_there() {
    let servers = json!({ "a": entry(), "b": { "npmPackage": "other" } });
    let published = [acme("1.0.0"), Release::server("other", "1.0.0")];
    let Some(shop) = Shop::open(&published, servers.clone()).await else {
        return;
    };
    shop.install("a").await.unwrap();
    let (lock, folders_before) = (shop.lock(), shop.folders());
    shop.registry.hold(true);
    let how = Installing {
        limit: Duration::from_secs(4),
        ..Installing::default()
    };
    let error = shop.yard.wharf.install_server("b", how).await.unwrap_err();
    assert!(error.message.contains("took longer than 4 s"), "{error}");
    assert!(error.hint.unwrap().contains("--timeout"));
    assert_eq!(
        (shop.lock(), shop.folders()),
        (lock.clone(), folders_before.clone())
    );
    // Killed in the middle: everything stops.
    let downloads = shop.registry.downloads();
    let installing = {
        let wharf = shop.yard.wharf.clone();
        tokio::spawn(async move { wharf.install_server("b", Installing::default()).await })
    };
    poll_until("a download", tokio::time::sleep, || {
        shop.registry.downloads() > downloads
    })
    .await;
    let Shop { registry, yard } = shop;
    let home = yard.close().await;
    let error = installing.await.unwrap().unwrap_err();
    assert!(error.message.contains("stopped"), "{error}");
    assert_eq!(home.read("mcp.lock"), lock);
    assert_eq!(folders(home.path()), folders_before);
    // What a program that was killed itself has left is removed by the next one.
    home.write("mcp-servers/.staging/0-x/node_modules/y", "half");
    registry.hold(false);
    let host = host_with(&registry, &home).unwrap();
    let yard = Yard::at(home, servers, json!({}), host).await;
    assert!(!yard.home.file("mcp-servers/.staging").exists());
    let shop = Shop { registry, yard };
    assert_eq!(shop.install("b").await.unwrap(), "1.0.0");
    shop.yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a61_a_command_that_fetches_uses_what_is_installed() {
    let npx = |spec: &str, prefix: &str| json!({ "command": "npx", "args": ["-y", spec, "--x"], "toolPrefix": prefix });
    let servers = json!({
        "a": entry(), "b": npx("@acme/srv", "b_"), "c": npx("@acme/srv@1.0.0", "c_"),
        "d": npx("@acme/srv@1.1.0", "d_"),
    });
    let published = [acme("1.1.0"), acme("1.0.0")];
    let Some(shop) = Shop::open(&published, servers).await else {
        return;
    };
    shop.install("a").await.unwrap();
    let folder = shop.folders().pop().unwrap().display().to_string();
    for tool in ["b_work", "c_work"] {
        let said = shop.runs(tool).await;
        let entry = said["argv"][0].as_str().unwrap();
        assert!(entry.starts_with(&folder), "{said}");
        assert_eq!(said["argv"][1], "--x");
    }
    // Another version is fetched, as it is written.
    let said = shop.runs("d_work").await;
    assert_eq!(said["version"], "1.1.0");
    assert!(
        !said["argv"][0].as_str().unwrap().starts_with(&folder),
        "{said}"
    );
    shop.yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a20_a_change_waits_for_no_download() {
    let Some(shop) = Shop::open(&[acme("1.0.0")], json!({})).await else {
        return;
    };
    shop.registry.hold(true);
    let loaded = load(&inputs(&json!({ "a": entry() }), &json!({}), host()));
    let change = shop.yard.wharf.change(loaded).await;
    assert_eq!(change.problems, []);
    let default = wharfinger::model::AgentName::new("default").unwrap();
    // It downloads in the background, and says so.
    poll_until("a download", tokio::time::sleep, || {
        shop.registry.downloads() > 0
    })
    .await;
    let report = shop.yard.wharf.reports(&default).remove(0);
    assert_eq!(report.status_text, "installing, npm's download");
    shop.registry.hold(false);
    let session = shop.yard.session("one");
    poll_until("its tools", tokio::time::sleep, || {
        session
            .known_tools()
            .tools
            .iter()
            .any(|tool| tool.name == "a_work")
    })
    .await;
    shop.yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn frozen_is_what_is_locked_and_nothing_else() {
    let Some(shop) = Shop::open(&[acme("1.0.0")], json!({ "a": entry() })).await else {
        return;
    };
    let frozen = Installing {
        frozen: true,
        ..Installing::default()
    };
    let error = shop
        .yard
        .wharf
        .install_server("a", frozen)
        .await
        .unwrap_err();
    assert!(error.message.contains("is not in mcp.lock"), "{error}");
    shop.install("a").await.unwrap();
    let (lock, folders) = (shop.lock(), shop.folders());
    // There is a newer one by now, and the installs are lost.
    shop.registry.publish(&acme("2.0.0"));
    std::fs::remove_dir_all(shop.yard.home.file("mcp-servers")).unwrap();
    let report = shop.yard.wharf.install_server("a", frozen).await.unwrap();
    assert_eq!(report.version.as_deref(), Some("1.0.0"));
    assert_eq!(
        (shop.lock(), shop.folders()),
        (lock.clone(), folders.clone())
    );
    assert_eq!(shop.runs("a_work").await["version"], "1.0.0");
    // The registry has another content for the same version.
    std::fs::remove_dir_all(shop.yard.home.file("mcp-servers")).unwrap();
    std::fs::remove_dir_all(shop.yard.home.file("user")).unwrap();
    let other = acme("1.0.0").with("description", json!("another one"));
    shop.registry.publish(&other);
    let error = shop
        .yard
        .wharf
        .install_server("a", frozen)
        .await
        .unwrap_err();
    assert!(error.message.contains("EINTEGRITY"), "{error}");
    assert_eq!(shop.folders(), Vec::<PathBuf>::new());
    shop.yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a66_only_an_install_that_nobody_uses_is_removed() {
    let servers = json!({ "a": entry(), "b": entry() });
    let Some(shop) = Shop::open(&[acme("1.0.0")], servers).await else {
        return;
    };
    let wharf = &shop.yard.wharf;
    shop.install("a").await.unwrap();
    assert!(wharf.unused_after("a").is_none(), "b uses it");
    let change = |servers: Value| wharf.change(load(&inputs(&servers, &json!({}), host())));
    change(json!({ "a": entry() })).await;
    let (package, bytes) = wharf.unused_after("a").unwrap();
    assert!(bytes > 0);
    assert_eq!(
        wharf.remove_package(&package).await.unwrap(),
        Vec::<PathBuf>::new()
    );
    assert_eq!(shop.folders().len(), 1, "a uses it still");
    change(json!({})).await;
    // Somebody has put a link to elsewhere in its place: that is dropped from the lock, and not followed.
    let folder = shop.folders().pop().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::rename(&folder, elsewhere.path().join("kept")).unwrap();
    std::os::unix::fs::symlink(elsewhere.path().join("kept"), &folder).unwrap();
    assert_eq!(
        wharf.remove_package(&package).await.unwrap(),
        Vec::<PathBuf>::new()
    );
    assert!(elsewhere.path().join("kept/install.json").is_file());
    assert!(!shop.lock().contains("acme"));
    // And in its proper place it goes.
    std::fs::remove_file(&folder).unwrap();
    change(json!({ "a": entry() })).await;
    shop.install("a").await.unwrap();
    let folder = shop.folders().pop().unwrap();
    change(json!({})).await;
    assert_eq!(
        wharf.remove_package(&package).await.unwrap(),
        std::slice::from_ref(&folder)
    );
    assert!(!folder.exists());
    shop.yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a68_a_package_of_python_is_never_run_by_npx() {
    let home = Home::new();
    // Of all programs there is only an npx.
    let npx = home.write("bin/npx", "#!/bin/sh\ntouch \"$0.ran\"\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&npx, mode).unwrap();
    let mut host = host();
    host.insert("PATH".into(), home.file("bin").display().to_string());
    let servers = json!({ "a": { "pypiPackage": "acme-srv" }, "b": { "npmPackage": "acme-srv" } });
    let yard = Yard::at(home, servers, json!({}), host).await;
    let session = yard.session("one");
    assert_eq!(names(&session).await, Vec::<String>::new());
    let unavailable: BTreeMap<String, String> = session.unavailable().into_iter().collect();
    let a = &unavailable["a"];
    assert!(a.contains("`python3` was not found; install Python"), "{a}");
    assert!(a.contains("`wharf install a` tries again"), "{a}");
    // Nor is one of npm, where there is no npm.
    let b = &unavailable["b"];
    assert!(b.contains("`npm` was not found; install Node.js"), "{b}");
    assert!(!yard.home.file("bin/npx.ran").exists());
    yard.close().await;
}
