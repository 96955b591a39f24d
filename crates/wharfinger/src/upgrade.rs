//! From one version of a package to another: installed beside, tried, compared, and only then put in force.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::catalog::{self, Listing, Others};
use crate::discover::{self, Found};
use crate::launch::packages::{InstallError, Resolved};
use crate::model::{Declared, Difference, Package, ServerEntry, ServerName};
use crate::packages::{PackageError, directly};
use crate::wharf::{Wharf, lock};

/// Versions that were tried and may be put in force, by server.
pub(crate) type Candidates = Mutex<HashMap<ServerName, Candidate>>;

/// A version that is installed beside the one in force.
pub(crate) struct Candidate {
    from: Package,
    to: Package,
    resolved: Resolved,
}

/// A server whose package there is a newer version of, or might be.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outdated {
    /// The server.
    pub server: ServerName,
    /// Its package.
    pub package: String,
    /// The version in force.
    pub version: String,
    /// The newest one.
    pub newest: Option<String>,
    /// Why that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A tool that another version offers in another way.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangedTool {
    /// Its name.
    pub tool: String,
    /// How.
    pub difference: Difference,
}

/// What another version would bring.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Upgrade {
    /// The server.
    pub server: ServerName,
    /// Its package.
    pub package: String,
    /// The version in force.
    pub from: Option<String>,
    /// The other one, which is installed beside it.
    pub to: String,
    /// Whether it is the one in force already.
    pub same: bool,
    /// Servers that run the same install, and change with it.
    pub servers: Vec<ServerName>,
    /// The version that the entry must name from now on, where it names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pin: Option<String>,
    /// How many tools it offers.
    pub tools: usize,
    /// Tools that are new.
    pub added: Vec<String>,
    /// Tools that are gone.
    pub removed: Vec<String>,
    /// Tools that are others.
    pub changed: Vec<ChangedTool>,
}

impl Wharf {
    /// Servers whose installed package is behind what its registry has.
    pub async fn outdated(&self, limit: Duration) -> Vec<Outdated> {
        let config = self.config();
        let mut all = vec![];
        for entry in &config.servers {
            let Some((wanted, _)) = entry.runs_package() else {
                continue;
            };
            let Ok(Some(locked)) = self.0.packages.kept.locked(&wanted) else {
                continue;
            };
            let version = locked.current.version;
            let stop = self.0.context.stop.child_token();
            let work = self.work(limit, &stop, &|_| {});
            let newest = self.0.packages.kept.newest(&wanted, &work);
            let newest = self.ending(&stop, newest).await;
            let (newest, error) = match newest {
                Ok(newest) => (Some(newest), None),
                Err(error) => (None, Some(self.told(&wanted, &error).message)),
            };
            if newest.as_ref() != Some(&version) {
                all.push(Outdated {
                    server: entry.name.clone(),
                    package: wanted.spec(),
                    version,
                    newest,
                    error,
                });
            }
        }
        all
    }

    /// Installs another version of a server's package beside the one in force, the newest unless one is named, starts
    /// it for a moment, and tells how its tools differ. Nothing else changes until [`Wharf::switch_version`].
    pub async fn try_version(
        &self,
        name: &str,
        to: Option<&str>,
        limit: Duration,
    ) -> Result<Upgrade, PackageError> {
        let (from, entry) = self.package_of(name)?;
        let plain = |message: String| PackageError {
            message,
            hint: None,
        };
        if entry.package.is_none() && from.version.is_some() {
            return Err(PackageError {
                message: format!("the version of `{name}` stands in its command"),
                hint: Some(format!(
                    "`wharf add --replace {name} --{} {}` makes it one that can be upgraded",
                    from.kind.as_str(),
                    from.unpinned().spec()
                )),
            });
        }
        let asked = match to {
            Some(version) => from
                .clone()
                .at(version)
                .map_err(|why| plain(format!("the version {why}")))?,
            None => from.unpinned(),
        };
        let stop = self.0.context.stop.child_token();
        let work = self.work(limit, &stop, &|_| {});
        let resolved = self.0.packages.kept.beside(&asked, &work);
        let resolved = self.ending(&stop, resolved).await;
        let resolved = resolved.map_err(|error| self.told(&asked, &error))?;
        let pin = from.version.is_some().then(|| resolved.version.clone());
        let wanted = match &pin {
            Some(version) => from.clone().at(version).map_err(plain)?,
            None => from.clone(),
        };
        let before = self.0.packages.kept.locked(&from);
        let before = before.map_err(|error| self.told(&from, &error))?;
        let direct = self.0.packages.kept.direct_of(&wanted, &resolved);
        let direct = direct.map_err(|error| self.told(&wanted, &error))?;
        let (_, args) = entry.runs_package().unwrap_or((from.clone(), vec![]));
        let tried = self.list_once(&directly(&entry, direct, args)).await;
        let tried = tried.map_err(|error| PackageError {
            message: format!("{} {} does not do: {error}", wanted.name, resolved.version),
            hint: Some("nothing was changed; the version in force is what it was".into()),
        })?;
        let known = match self.found(&entry, &Declared::default()) {
            Some(Found::Known(known)) => Some(known),
            Some(Found::Asking | Found::Failed { .. }) | None => None,
        };
        let none = Listing::default();
        let old = known.as_ref().map_or(&none, |known| &known.listing);
        let (added, removed, changed) = compare(&entry.name, old, &tried);
        let upgrade = Upgrade {
            server: entry.name.clone(),
            package: from.name.clone(),
            from: before.as_ref().map(|before| before.current.version.clone()),
            to: resolved.version.clone(),
            same: before.is_some_and(|before| before.current == resolved),
            servers: self.servers_of(&from),
            pin,
            tools: tried.tools.len(),
            added,
            removed,
            changed,
        };
        let candidate = Candidate {
            from,
            to: wanted,
            resolved,
        };
        lock(&self.0.packages.candidates).insert(entry.name, candidate);
        Ok(upgrade)
    }

    /// Puts the version in force that was tried, and keeps the other one to go back to. Where the entry names a version,
    /// the caller changes that. Calls in flight are waited for by nobody: the servers stop.
    pub async fn switch_version(&self, name: &str, version: &str) -> Result<(), PackageError> {
        let candidate = {
            let mut candidates = lock(&self.0.packages.candidates);
            let key = candidates
                .iter()
                .find(|(server, candidate)| {
                    server.as_str() == name && candidate.resolved.version == version
                })
                .map(|(server, _)| server.clone());
            key.and_then(|key| candidates.remove(&key))
        };
        let Some(candidate) = candidate else {
            return Err(PackageError {
                message: format!("{version} of the package of `{name}` was not tried"),
                hint: Some(format!("`wharf upgrade {name} --to {version}` tries it")),
            });
        };
        let Candidate { from, to, resolved } = candidate;
        self.put_in_force(&from, &to, resolved).await
    }

    /// Puts the version in force again that was so before the last upgrade; gives it, and whether the entry must name
    /// it.
    pub async fn back_to_earlier(&self, name: &str) -> Result<(String, bool), PackageError> {
        let (from, _) = self.package_of(name)?;
        let earlier = self.0.packages.kept.earlier(&from);
        let earlier = earlier.map_err(|error| PackageError {
            message: error.to_string(),
            hint: Some(format!("`wharf upgrade {name} --to VERSION` installs one")),
        })?;
        let version = earlier.resolved.version.clone();
        let pinned = earlier.wanted != from;
        self.put_in_force(&from, &earlier.wanted, earlier.resolved)
            .await?;
        Ok((version, pinned))
    }

    async fn put_in_force(
        &self,
        from: &Package,
        to: &Package,
        resolved: Resolved,
    ) -> Result<(), PackageError> {
        let told = |error: InstallError| self.told(to, &error);
        let kept = &self.0.packages.kept;
        kept.switch(from, to, resolved).await.map_err(told)?;
        // Those that name a version follow their entry.
        if from == to {
            for server in self.servers_of(to) {
                self.renew_package(&server).await;
            }
        }
        Ok(())
    }

    /// What a server offers is another thing now, and what runs of it is old.
    async fn renew_package(&self, server: &ServerName) {
        self.forget(server);
        let forgotten = self.0.store.forget_discoveries(server.to_string()).await;
        if let Err(error) = forgotten {
            tracing::warn!(server = %server, "its kept tools could not be forgotten: {error}");
        }
        self.restart_server(server.as_str(), None).await;
        if let Err(error) = self.discover(server.as_str()).await {
            tracing::warn!(server = %server, "its tools can't be listed: {error}");
        }
    }

    /// Starts a server for a moment to see its tools, and keeps nothing of it.
    async fn list_once(&self, entry: &ServerEntry) -> Result<Listing, String> {
        let audience = Arc::new(discover::Log {
            wharf: Arc::downgrade(&self.0),
            server: entry.name.clone(),
            steps: None,
        });
        let discovered = discover::start_once(self, entry, &Declared::default(), audience).await;
        let discovered = discovered.map_err(|unknown| unknown.reason)?;
        Ok(catalog::read(discovered.tools.iter().map(|tool| &**tool)))
    }
}

/// Tools that came, went, and changed.
fn compare(
    server: &ServerName,
    old: &Listing,
    new: &Listing,
) -> (Vec<String>, Vec<String>, Vec<ChangedTool>) {
    let by_name = |listing: &Listing| -> BTreeMap<String, Box<RawValue>> {
        let tools = listing.tools.iter();
        tools
            .map(|tool| (tool.name.to_string(), RawValue::to_owned(&tool.raw)))
            .collect()
    };
    let (before, after) = (by_name(old), by_name(new));
    let missing = |of: &BTreeMap<String, _>, from: &BTreeMap<String, _>| {
        let names = of.keys().filter(|name| !from.contains_key(*name));
        names.cloned().collect()
    };
    let others = Others::default();
    let changed = before.iter().filter_map(|(name, old)| {
        let difference = catalog::difference(server, old, after.get(name)?, &others)?;
        Some(ChangedTool {
            tool: name.clone(),
            difference,
        })
    });
    (
        missing(&after, &before),
        missing(&before, &after),
        changed.collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(tools: &[&str]) -> Listing {
        let raws: Vec<Box<RawValue>> = tools
            .iter()
            .map(|tool| RawValue::from_string((*tool).to_owned()).unwrap())
            .collect();
        catalog::read(raws.iter().map(|raw| &**raw))
    }

    #[test]
    fn an_upgrade_says_which_tools_come_go_and_change() {
        let old = listing(&[
            r#"{"name":"same","inputSchema":{"type":"object"}}"#,
            r#"{"name":"gone","inputSchema":{"type":"object"}}"#,
            r#"{"name":"told","description":"a","inputSchema":{"type":"object"}}"#,
        ]);
        let new = listing(&[
            r#"{"name":"told","description":"b","inputSchema":{"type":"object"}}"#,
            r#"{"inputSchema": {"type": "object"}, "name":"same"}"#,
            r#"{"name":"new","inputSchema":{"type":"object"}}"#,
        ]);
        let server = ServerName::new("s").unwrap();
        let (added, removed, changed) = compare(&server, &old, &new);
        assert_eq!((added, removed), (vec!["new".into()], vec!["gone".into()]));
        let changed: Vec<&str> = changed.iter().map(|one| one.tool.as_str()).collect();
        assert_eq!(changed, ["told"]);
    }
}
