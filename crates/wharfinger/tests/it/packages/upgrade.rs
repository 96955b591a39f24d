//! To another version and back.

use serde_json::json;

use super::{Shop, acme, entry};
use crate::yard::names;

#[tokio::test(flavor = "multi_thread")]
async fn another_version_is_tried_beside_and_put_in_force_by_a_word() {
    let servers = json!({ "a": entry() });
    let old = acme("1.0.0").with("tools", json!(["work", "old"]));
    let Some(shop) = Shop::open(&[old], servers).await else {
        return;
    };
    let wharf = &shop.yard.wharf;
    let limit = wharfinger::INSTALL_LIMIT;
    shop.install("a").await.unwrap();
    let session = shop.yard.session("one");
    assert_eq!(names(&session).await, ["a_work", "a_old"]);
    assert_eq!(wharf.outdated(limit).await.len(), 0);

    shop.registry
        .publish(&acme("2.0.0").with("tools", json!(["work", "new"])));
    // Metadata is fresh for npm only when it asks again.
    std::fs::remove_dir_all(shop.yard.home.file("user/.npm")).unwrap();
    let outdated = wharf.outdated(limit).await;
    assert_eq!(outdated.len(), 1);
    assert_eq!(outdated[0].newest.as_deref(), Some("2.0.0"));

    let lock = shop.lock();
    let tried = wharf.try_version("a", None, limit).await.unwrap();
    assert_eq!(
        (tried.from.as_deref(), tried.to.as_str()),
        (Some("1.0.0"), "2.0.0")
    );
    assert_eq!(
        (tried.added, tried.removed),
        (vec!["new".into()], vec!["old".into()])
    );
    assert_eq!(tried.changed.len(), 1, "its description names the version");
    // Nothing has changed yet.
    assert_eq!(shop.lock(), lock);
    assert_eq!(shop.runs("a_work").await["version"], "1.0.0");

    let error = wharf.switch_version("a", "3.0.0").await.unwrap_err();
    assert!(error.message.contains("was not tried"), "{error}");
    wharf.switch_version("a", "2.0.0").await.unwrap();
    assert_eq!(shop.runs("a_work").await["version"], "2.0.0");
    assert_eq!(names(&session).await, ["a_work", "a_new"]);
    assert_eq!(shop.folders().len(), 2, "the version before is kept");

    let (version, pinned) = wharf.back_to_earlier("a").await.unwrap();
    assert_eq!((version.as_str(), pinned), ("1.0.0", false));
    assert_eq!(shop.runs("a_work").await["version"], "1.0.0");
    // Once more, to a third one: the second is kept, the first has gone.
    wharf.try_version("a", Some("2.0.0"), limit).await.unwrap();
    wharf.switch_version("a", "2.0.0").await.unwrap();
    shop.registry.publish(&acme("3.0.0"));
    std::fs::remove_dir_all(shop.yard.home.file("user/.npm")).unwrap();
    wharf.try_version("a", Some("3.0.0"), limit).await.unwrap();
    wharf.switch_version("a", "3.0.0").await.unwrap();
    let folders: Vec<String> = shop
        .folders()
        .iter()
        .map(|folder| folder.file_name().unwrap().to_string_lossy()[..5].to_owned())
        .collect();
    assert_eq!(folders, ["2.0.0", "3.0.0"]);
    shop.yard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_does_not_start_is_never_put_in_force() {
    let broken = acme("2.0.0").with("tools", json!("not a list"));
    let Some(shop) = Shop::open(&[acme("1.0.0")], json!({ "a": entry() })).await else {
        return;
    };
    shop.install("a").await.unwrap();
    shop.registry.publish(&broken);
    let limit = wharfinger::INSTALL_LIMIT;
    let error = shop.yard.wharf.try_version("a", Some("2.0.0"), limit).await;
    let error = error.unwrap_err().message;
    assert!(error.contains("@acme/srv 2.0.0 does not do"), "{error}");
    assert_eq!(shop.runs("a_work").await["version"], "1.0.0");
    shop.yard.close().await;
}
