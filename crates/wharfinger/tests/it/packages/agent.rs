//! Packages that an agent installs for itself.

use serde_json::{Value, json};

use super::registry::Registry;
use super::{acme, folders, host_with};
use crate::gate::session;
use crate::own::{ask, trust};
use crate::yard::{Yard, call, names, text};
use wharfinger_testkit::Home;

#[tokio::test(flavor = "multi_thread")]
async fn a79_a82_a84_a85_a87_a92_a_package_that_an_agent_installs_is_kept_and_goes() {
    let registry = Registry::start().await;
    registry.publish(&acme("1.1.0"));
    registry.publish(&acme("1.0.0"));
    let home = Home::new();
    let Some(host) = host_with(&registry, &home) else {
        return;
    };
    let config = json!({ "daemon": { "hostAccess": true } });
    let yard = Yard::at(home, json!({}), config, host).await;
    trust(&yard).await;
    let session = session(&yard, "one");
    names(&session).await;
    let install = json!({ "package": "@acme/srv@1.0.0", "args": ["--x"], "host": true });
    let said = ask(&session, "mcp_install", install.clone()).await;
    assert_eq!(said["success"], true, "{said}");
    // A79: without its version; A85
    let facts = ["name", "type", "source", "location", "tools_discovered"].map(|key| &said[key]);
    let expect = json!(["srv", "npm", "npm:@acme/srv@1.0.0", "host", 1]);
    assert_eq!(json!(facts), expect);
    // A84: in the same turn; A82: with its arguments, once.
    let result = call(&session, "mcp_srv_work", json!({})).await.unwrap();
    let runs: Value = serde_json::from_str(text(&result)).unwrap();
    let folder = folders(yard.home.path()).pop().unwrap();
    let entry = folder.join("node_modules/@acme/srv/server.js");
    assert_eq!(runs["argv"], json!([entry, "--x"]));
    assert_eq!(runs["version"], "1.0.0");
    // A87
    let again = ask(&session, "mcp_install", install).await;
    assert_eq!(again["already_installed"], true, "{again}");
    // A92, and its install goes with it.
    let gone = ask(&session, "mcp_uninstall", json!({ "name": "srv" })).await;
    assert_eq!(gone["tools_removed"], 1, "{gone}");
    assert!(!folder.exists());
    assert!(!yard.home.read("mcp.lock").contains("acme"));
    yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a86_a_package_that_is_not_there_is_kept_as_an_entry_and_says_what_npm_said() {
    let registry = Registry::start().await;
    let home = Home::new();
    let Some(host) = host_with(&registry, &home) else {
        return;
    };
    let config = json!({ "daemon": { "hostAccess": true } });
    let yard = Yard::at(home, json!({}), config, host).await;
    trust(&yard).await;
    let session = session(&yard, "one");
    names(&session).await;
    let install = json!({ "package": "@acme/none", "host": true });
    let said = ask(&session, "mcp_install", install).await;
    assert_eq!(
        (&said["success"], &said["configured"]),
        (&json!(false), &json!(true))
    );
    let error = said["error"].as_str().unwrap();
    assert!(
        error.contains("E404") && error.contains("name and the version"),
        "{error}"
    );
    assert_eq!(folders(yard.home.path()).len(), 0);
    yard.close().await;
}
