//! `wharf install`, `outdated`, `upgrade`, `remove`: the packages of servers.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{part, read};
use crate::World;
use crate::cli::{Install, OfPackage, Outdated, Remove, Upgrade};
use crate::failure::{Exit, Failure};
use crate::paths::quoted;
use crate::ui::{count, size};

#[derive(Deserialize)]
struct Package {
    name: String,
    version: Option<String>,
}

pub(super) async fn install(world: &World, install: &Install) -> Result<(), Failure> {
    let names = match &install.name {
        Some(name) => vec![name.clone()],
        None => packages(world).await?,
    };
    let mut told = Map::new();
    let mut failed = None;
    for name in &names {
        match install_one(world, install, name).await {
            Ok(value) => {
                let package: Package = read(&value)?;
                let version = package.version.unwrap_or_default();
                if !world.ui.json {
                    world
                        .ui
                        .answer(&format!("{name}: {} {version} is installed", package.name))?;
                }
                told.insert(name.clone(), value);
            }
            // The others are installed all the same.
            Err(failure) if install.all => {
                if let Some(earlier) = failed.replace(failure) {
                    world.ui.fail(earlier);
                }
            }
            Err(failure) => return Err(failure),
        }
    }
    if world.ui.json {
        world.ui.answer_json(&json!({ "installed": told }))?;
    } else if names.is_empty() {
        world.ui.say("no server is a package");
    }
    failed.map_or(Ok(()), Err)
}

async fn install_one(world: &World, install: &Install, name: &str) -> Result<Value, Failure> {
    let body = json!({ "frozen": install.frozen, "timeoutSeconds": install.timeout });
    let path = format!("/api/servers/{}/install", part(name));
    let client = world.paths.client();
    let installing = client.post(&path, Some(&body));
    Ok(world
        .ui
        .wait(&format!("installing the package of {name}"), installing)
        .await?)
}

/// Servers that are packages.
async fn packages(world: &World) -> Result<Vec<String>, Failure> {
    let value = world.paths.client().get("/api/servers").await?;
    let servers = value["servers"].as_array().into_iter().flatten();
    // A command that fetches what it runs was written so on purpose.
    let managed = servers.filter(|server| server["package"]["managed"] == true);
    Ok(managed
        .filter_map(|server| server["name"].as_str().map(str::to_owned))
        .collect())
}

#[derive(Deserialize)]
struct Behind {
    server: String,
    package: String,
    version: String,
    newest: Option<String>,
    error: Option<String>,
}

pub(super) async fn outdated(world: &World, outdated: &Outdated) -> Result<(), Failure> {
    let path = format!("/api/outdated?timeout={}", outdated.timeout);
    let client = world.paths.client();
    let value = world
        .ui
        .wait("asking for newer versions", client.get(&path))
        .await?;
    if world.ui.json {
        return Ok(world.ui.answer_json(&value)?);
    }
    let behind: Vec<Behind> = read(&value["servers"])?;
    let (known, unknown): (Vec<_>, Vec<_>) =
        behind.into_iter().partition(|one| one.newest.is_some());
    for one in &unknown {
        let why = one.error.as_deref().unwrap_or_default();
        world.ui.warn(&format!("{}: {why}", one.server));
    }
    if known.is_empty() {
        world.ui.say("no installed package is known to be outdated");
        return if unknown.is_empty() {
            Ok(())
        } else {
            Err(Failure::Known(Exit::Failed))
        };
    }
    let rows: Vec<Vec<String>> = known
        .into_iter()
        .map(|one| {
            let newest = one.newest.unwrap_or_default();
            vec![one.server, one.package, one.version, newest]
        })
        .collect();
    world
        .ui
        .table(&["SERVER", "PACKAGE", "INSTALLED", "NEWEST"], &rows)?;
    world
        .ui
        .hint("`wharf upgrade SERVER` shows what would change");
    Ok(())
}

#[derive(Deserialize)]
struct Tried {
    package: String,
    from: Option<String>,
    to: String,
    same: bool,
    servers: Vec<String>,
    tools: usize,
    added: Vec<String>,
    removed: Vec<String>,
    changed: Vec<Changed>,
}

#[derive(Deserialize)]
struct Changed {
    tool: String,
    difference: wharfinger::model::Difference,
}

pub(super) async fn upgrade(world: &World, upgrade: &Upgrade) -> Result<(), Failure> {
    let name = &upgrade.name;
    let base = format!("/api/servers/{}/upgrade", part(name));
    let client = world.paths.client();
    if upgrade.back {
        let path = format!("{base}/back");
        let going = client.post(&path, None);
        let value = world
            .ui
            .wait(&format!("going back with {name}"), going)
            .await?;
        if world.ui.json {
            return Ok(world.ui.answer_json(&value)?);
        }
        let version = value["version"].as_str().unwrap_or_default();
        return Ok(world.ui.answer(&format!("{name} is at {version} again"))?);
    }
    let body = json!({ "to": upgrade.to, "timeoutSeconds": upgrade.timeout });
    let trying = client.post(&base, Some(&body));
    let what = format!("installing another version of {name} beside, and listing its tools");
    let mut value = world.ui.wait(&what, trying).await?;
    let tried: Tried = read(&value)?;
    if !world.ui.json {
        tell(world, name, &tried)?;
    }
    if tried.same {
        value["switched"] = false.into();
        return if world.ui.json {
            Ok(world.ui.answer_json(&value)?)
        } else {
            Ok(())
        };
    }
    let yes = upgrade.yes || (world.ui.can_ask() && world.ui.ask("put it in force?")?);
    value["switched"] = yes.into();
    if yes {
        let path = format!("{base}/switch");
        let body = json!({ "version": tried.to });
        let switching = client.post(&path, Some(&body));
        world
            .ui
            .wait(&format!("starting {name} afresh"), switching)
            .await?;
    }
    if world.ui.json {
        return Ok(world.ui.answer_json(&value)?);
    }
    if yes {
        world.ui.answer(&format!("{name} is at {}", tried.to))?;
        if tried.from.is_some() {
            world
                .ui
                .hint(&format!("`wharf upgrade {name} --back` undoes it"));
        }
    } else {
        world.ui.say("nothing was changed");
        let to = upgrade.to.as_deref();
        let to = to.map_or_else(String::new, |to| format!(" --to {}", quoted(to)));
        world.ui.hint(&format!(
            "`wharf upgrade {name}{to} --yes` puts it in force"
        ));
    }
    Ok(())
}

/// What another version would bring.
fn tell(world: &World, name: &str, tried: &Tried) -> Result<(), Failure> {
    let ui = &world.ui;
    if tried.same {
        return Ok(ui.answer(&format!("{name} is at {} already", tried.to))?);
    }
    let from = tried.from.as_deref().unwrap_or("nothing installed");
    ui.answer(&format!(
        "{}: {from} → {}, {}",
        tried.package,
        tried.to,
        count(tried.tools, "tool")
    ))?;
    for tool in &tried.added {
        ui.answer(&format!("  + {tool}"))?;
    }
    for tool in &tried.removed {
        ui.answer(&format!("  - {tool}"))?;
    }
    for Changed { tool, difference } in &tried.changed {
        ui.answer(&format!("  ~ {tool}"))?;
        for line in &difference.lines {
            ui.answer(&format!("      {line}"))?;
        }
    }
    if tried.added.is_empty() && tried.removed.is_empty() && tried.changed.is_empty() {
        ui.answer("  the same tools")?;
    }
    let others: Vec<&str> = tried
        .servers
        .iter()
        .map(String::as_str)
        .filter(|server| *server != name)
        .collect();
    if !others.is_empty() {
        ui.say(&format!("{} change with it", others.join(", ")));
    }
    Ok(())
}

pub(super) async fn remove(world: &World, remove: &Remove) -> Result<(), Failure> {
    let name = &remove.name;
    let client = world.paths.client();
    let path = format!("/api/servers/{}", part(name));
    let left = client.get(&format!("{path}/install")).await?;
    let package = left["package"].as_str();
    let bytes = usize::try_from(left["bytes"].as_u64().unwrap_or(0)).unwrap_or(usize::MAX);
    let uninstall = match package {
        Some(_) if remove.uninstall => true,
        Some(_) if remove.keep => false,
        Some(package) if world.ui.can_ask() => {
            let question = format!("remove the install of {package} too ({})?", size(bytes));
            world.ui.ask(&question)?
        }
        Some(_) | None => false,
    };
    let path = if uninstall {
        format!("{path}?uninstall=true")
    } else {
        path
    };
    let removing = async { client.delete(&path).await };
    world.ui.wait(&format!("stopping {name}"), removing).await?;
    if world.ui.json {
        let uninstalled = package.filter(|_| uninstall);
        return Ok(world
            .ui
            .answer_json(&json!({ "removed": name, "uninstalled": uninstalled }))?);
    }
    world.ui.answer(&format!("removed {name}"))?;
    match package {
        Some(package) if uninstall => world.ui.answer(&format!("uninstalled {package}"))?,
        Some(package) => world
            .ui
            .say(&format!("the install of {package} stays ({})", size(bytes))),
        None => {}
    }
    Ok(())
}

/// The entry that `wharf add` makes of a package.
pub(super) fn entry(of: &OfPackage, args: &[String]) -> Result<Option<Value>, Failure> {
    use wharfinger::model::{Package, PackageKind};
    let (key, kind, spec) = match (&of.npm, &of.pypi) {
        (Some(spec), _) => ("npmPackage", PackageKind::Npm, spec),
        (None, Some(spec)) => ("pypiPackage", PackageKind::Pypi, spec),
        (None, None) if of.allow_scripts => {
            return Err(Failure::usage("`--allow-scripts` is for packages alone")
                .hint("name one with `--npm` or `--pypi`"));
        }
        (None, None) => return Ok(None),
    };
    let option = key.trim_end_matches("Package");
    let package = Package::parse(kind, spec)
        .map_err(|why| Failure::usage(format!("`--{option} {spec}` {why}")))?;
    let mut entry = json!({ key: format!("{}{}", package.name, package.extras) });
    if let Some(version) = &package.version {
        entry["version"] = json!(version);
    }
    if !of.with.is_empty() {
        entry["with"] = json!(of.with);
    }
    if of.allow_scripts {
        entry["allowScripts"] = json!(true);
    }
    if !args.is_empty() {
        entry["args"] = json!(args);
    }
    Ok(Some(entry))
}
