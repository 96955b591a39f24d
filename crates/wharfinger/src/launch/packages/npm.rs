//! Installs a package of npm.

use std::path::Path;

use serde_json::{Value, json};

use super::lock::{Everything, Resolved, replace};
use super::tool::{Run, Work};
use super::{InstallError, entry};
use crate::model::Package;

/// Settings of its user count, but for those by which it would do something else than to install into this folder.
const FIXED: [&str; 9] = [
    "--no-audit",
    "--no-fund",
    "--no-progress",
    "--no-update-notifier",
    "--loglevel=error",
    "--global=false",
    "--dry-run=false",
    "--package-lock=true",
    "--package-lock-only=false",
];

/// Installs into an empty folder: what is locked, or else what the wish comes to now.
pub(super) async fn install(
    work: &Work<'_>,
    folder: &Path,
    package: &Package,
    locked: Option<&Value>,
) -> Result<Resolved, InstallError> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| InstallError::Io { path, source }
    };
    // The package stands in a file, so that no name can be an option of npm.
    let manifest = match locked {
        // As it was: npm compares the two.
        Some(lock) => lock["packages"][""]["dependencies"].clone(),
        None => json!({ &package.name: package.version.as_deref().unwrap_or("*") }),
    };
    let manifest = json!({
        "name": "managed-by-wharfinger",
        "version": "0.0.0",
        "private": true,
        "dependencies": manifest,
    });
    let path = folder.join("package.json");
    replace(&path, &format!("{manifest:#}\n")).map_err(io(&path))?;
    let lock_path = folder.join("package-lock.json");
    if let Some(lock) = locked {
        replace(&lock_path, &format!("{lock:#}\n")).map_err(io(&lock_path))?;
    }
    let what = if locked.is_some() { "ci" } else { "install" };
    let mut args = vec![what.to_owned()];
    args.extend(FIXED.map(str::to_owned));
    args.push(format!("--ignore-scripts={}", !package.allow_scripts));
    work.run(Run {
        doing: "npm's download",
        program: "npm",
        args,
        folder,
    })
    .await?;
    (work.say)("checking");
    let lock = std::fs::read_to_string(&lock_path).map_err(io(&lock_path))?;
    let lock: Value = serde_json::from_str(&lock)
        .map_err(|error| InstallError::Refused(format!("its package-lock.json: {error}")))?;
    let listed = &lock["packages"][format!("node_modules/{}", package.name)];
    let version = listed["version"]
        .as_str()
        .ok_or_else(|| InstallError::Refused(format!("npm has not locked `{}`", package.name)))?;
    let integrity = listed["integrity"].as_str().map(str::to_owned);
    let own = entry::npm_manifest(folder, &package.name)?;
    let said = (own["name"].as_str(), own["version"].as_str());
    if said != (Some(package.name.as_str()), Some(version)) {
        return Err(InstallError::Refused(format!(
            "what came says that it is `{}@{}`, not `{}@{version}`",
            said.0.unwrap_or_default(),
            said.1.unwrap_or_default(),
            package.name,
        )));
    }
    let entry = entry::of_npm(folder, &package.name)?;
    let version = version.to_owned();
    let all = Everything::PackageLock(lock);
    Ok(Resolved {
        version,
        integrity,
        entry: entry.to_string_lossy().into_owned(),
        hash: all.hash(),
        all,
    })
}

/// The newest version there is.
pub(super) async fn newest(
    work: &Work<'_>,
    folder: &Path,
    package: &Package,
) -> Result<String, InstallError> {
    let args = [
        "view",
        &package.name,
        "version",
        "--json",
        "--loglevel=error",
    ];
    let answer = work
        .run(Run {
            doing: "npm's look-up",
            program: "npm",
            args: args.map(str::to_owned).into(),
            folder,
        })
        .await?;
    match serde_json::from_str(&answer) {
        Ok(Value::String(version)) => Ok(version),
        Ok(_) | Err(_) => Err(InstallError::Refused(format!(
            "npm names no version of `{}`",
            package.name
        ))),
    }
}
