//! Credentials on their way into the environment of a server, and nowhere else: those of one agent from its file, those of
//! the owner from the vault (A99–A105).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Weak};

use serde_json::Value;

use crate::agent::Agent;
use crate::agentfile::{AgentFile, Error, reveal};
use crate::launch::{self, Request};
use crate::model::expand::SecretReference;
use crate::model::{Profile, Secret, ServerEntry, is_blocked, is_delicate};
use crate::servers::{Prepare, Prepared};
use crate::waiting::on;
use crate::wharf::{Inner, Wharf, lock};

/// Makes what runs, with its credentials in it, anew for each start (A184).
pub(crate) struct Keyed {
    wharf: Weak<Inner>,
    /// Whose process it is; `None` where it is for nobody yet.
    agent: Option<Arc<Agent>>,
    entry: ServerEntry,
    workspace: PathBuf,
    scratch: Option<PathBuf>,
}

impl Keyed {
    /// `None` where the server takes no secrets, and the agent has none for it.
    pub(crate) fn new(
        wharf: &Wharf,
        agent: Option<&Arc<Agent>>,
        entry: &ServerEntry,
        workspace: PathBuf,
        scratch: Option<PathBuf>,
    ) -> Option<Arc<Self>> {
        let of_agent = agent.and_then(|agent| Some(wanted(&row(agent, entry)?, entry)));
        if entry.secrets().is_empty() && of_agent.is_none_or(|names| names.is_empty()) {
            return None;
        }
        Some(Arc::new(Self {
            wharf: Arc::downgrade(&wharf.0),
            agent: agent.cloned(),
            entry: entry.clone(),
            workspace,
            scratch,
        }))
    }

    async fn make(&self) -> Result<Prepared, String> {
        let wharf = self.wharf.upgrade().map(Wharf).ok_or("it is over")?;
        let OfAgent {
            variables,
            mut secrets,
            sealed,
        } = self.of_agent().await?;
        for reference in self.entry.secrets() {
            if secrets.contains_key(&reference.key) {
                continue;
            }
            if let Some(value) = wharf.of_owner(&self.entry, &reference)? {
                secrets.insert(reference.key, value);
            }
        }
        // Known before anything can carry them.
        let values = variables
            .iter()
            .map(|(_, value)| Secret::new(value.clone()));
        wharf.learn(values.chain(secrets.values().cloned()));
        let references = self.entry.secrets().into_iter();
        let missing: Vec<String> = references
            .filter(|one| one.required && !secrets.contains_key(&one.key))
            .map(|one| one.key)
            .collect();
        // Before anything is installed or started.
        if !missing.is_empty() {
            return Err(match sealed {
                Some(why) => unreadable(&missing, &why),
                None => needs(self.entry.name.as_str(), &missing, None),
            });
        }
        let entry = wharf.runnable(&self.entry).await?;
        let request = Request {
            entry: &entry,
            inherit: &wharf.0.inherit,
            workspace: &self.workspace,
            scratch: self.scratch.as_deref(),
            secrets: &secrets,
        };
        let plan = launch::plan(request).ok_or("it is no process that could be started")?;
        wharf.learn(plan.secrets.iter().cloned());
        Ok(Prepared {
            // The agent's own come last (A102).
            plan: Arc::new(plan.with(variables)),
            keeps: None,
        })
    }

    /// What the agent has of its own: variables, and secrets in place of its owner's.
    async fn of_agent(&self) -> Result<OfAgent, String> {
        let Some(agent) = &self.agent else {
            return Ok(OfAgent::default());
        };
        let file = match (agent.profile, agent.file()) {
            (_, Ok(file)) => file,
            (Profile::Agent, Err(why)) => return Err(why),
            (Profile::Chat, Err(_)) => return Ok(OfAgent::default()),
        };
        let row = row(agent, &self.entry);
        if row.is_none() && agent.profile == Profile::Agent {
            return Err("it is not attached any more".into());
        }
        let row = row.unwrap_or(Value::Null);
        let names = wanted(&row, &self.entry);
        let keys = self.entry.secrets().into_iter().map(|one| one.key);
        let all: Vec<String> = names.iter().cloned().chain(keys).collect();
        let places = places(&row, &self.entry);
        let found = on(&file, move |file| values(file, &places, &all)).await;
        let found = found.map_err(|error| error.to_string())?;
        let (server, agent) = (self.entry.name.as_str(), Some(agent.name.as_str()));
        let missing: Vec<String> = required(&row)
            .filter(|name| names.contains(name) && !found.values.contains_key(name))
            .collect();
        // What may be missing is left out (A112).
        if !missing.is_empty() {
            return Err(match found.sealed {
                Some(why) => unreadable(&missing, &why),
                None => needs(server, &missing, agent),
            });
        }
        let variables = found
            .values
            .iter()
            .filter(|(name, _)| names.contains(name))
            .map(|(name, value)| (name.clone(), value.open().clone()));
        Ok(OfAgent {
            variables: variables.collect(),
            secrets: found.values,
            sealed: found.sealed,
        })
    }
}

/// What an agent gives of its own.
#[derive(Default)]
struct OfAgent {
    variables: Vec<(String, String)>,
    /// By key.
    secrets: BTreeMap<String, Secret>,
    /// Why some of it can't be read.
    sealed: Option<String>,
}

fn unreadable(keys: &[String], why: &str) -> String {
    format!(
        "it needs {}, and credentials of the agent can't be read: {why}",
        keys.join(" and ")
    )
}

impl Prepare for Keyed {
    fn prepare(&self) -> Pin<Box<dyn Future<Output = Result<Prepared, String>> + Send + '_>> {
        Box::pin(self.make())
    }
}

/// What is missing, and the commands that set it.
pub(crate) fn needs(server: &str, keys: &[String], agent: Option<&str>) -> String {
    let agent = agent.map_or_else(String::new, |agent| format!(" --agent {agent}"));
    let commands: Vec<String> = keys
        .iter()
        .map(|key| format!("`wharf secret set {server} {key}{agent}`"))
        .collect();
    let (verb, sets) = match keys.len() {
        1 => ("is", "sets it"),
        _ => ("are", "set them"),
    };
    format!(
        "it needs {}, which {verb} not set: {} {sets}",
        keys.join(" and "),
        commands.join(" and ")
    )
}

/// What an agent's file says of a server. The chat profile has servers without a row.
fn row(agent: &Agent, entry: &ServerEntry) -> Option<Value> {
    if agent.profile == Profile::Chat {
        return None;
    }
    let rights = agent.rights();
    let attached = rights.server(entry.name.as_str())?;
    Some(attached.row.clone())
}

/// Under which names an agent's credentials for a server may lie: its package first, then its own name (A100).
pub(crate) fn places(row: &Value, entry: &ServerEntry) -> Vec<String> {
    let text = |key: &str| row.get(key).and_then(Value::as_str);
    let mut places: Vec<String> = [text("npm_package"), text("pypi_package")]
        .into_iter()
        .flatten()
        .filter(|place| !place.is_empty())
        .chain([entry.name.as_str()])
        .map(str::to_owned)
        .collect();
    places.dedup();
    places
}

/// Variables of the agent that its row says the server can't do without.
fn required(row: &Value) -> impl Iterator<Item = String> {
    let rows = row.get("env_schema").and_then(Value::as_array);
    let rows = rows.into_iter().flatten();
    rows.filter(|row| row["scope"] == "agent" && row["required"] == true)
        .filter_map(|row| row["key"].as_str().map(str::to_owned))
}

/// Which variables the agent has for a server (A101). In one of its owner's those are what its row leaves to the agent,
/// and none that the owner sets or that decides whom the server trusts: the row is in the agent's file.
pub(crate) fn wanted(row: &Value, entry: &ServerEntry) -> Vec<String> {
    let is_own = entry.installed_by.is_some();
    let rows = row.get("env_schema").and_then(Value::as_array);
    let of_agent = rows
        .into_iter()
        .flatten()
        .filter(|row| row["scope"] == "agent");
    let keys = row.get("env_keys").and_then(Value::as_array);
    let keys = keys.filter(|_| is_own);
    let is_set = |name: &str| {
        let mut set = entry.env.iter();
        set.any(|(known, _)| known.eq_ignore_ascii_case(name))
    };
    let mut names: Vec<String> = of_agent
        .filter_map(|row| row["key"].as_str())
        .chain(keys.into_iter().flatten().filter_map(Value::as_str))
        .filter(|name| !is_blocked(name))
        .filter(|name| is_own || !(is_delicate(name) || is_set(name)))
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    names
}

/// What an agent has of credentials.
#[derive(Default)]
pub(crate) struct Values {
    pub(crate) values: BTreeMap<String, Secret>,
    /// Why some of them can't be read (A112).
    pub(crate) sealed: Option<String>,
}

/// Their values, as far as they are there and can be read.
fn values(file: &AgentFile, places: &[String], names: &[String]) -> Result<Values, Error> {
    let mut found = Values::default();
    for name in names {
        for place in places {
            let secret = match file.secret(&format!("mcp:{place}:{name}")) {
                Ok(secret) => secret,
                Err(error @ Error::Sealed { .. }) => {
                    found.sealed = Some(error.to_string());
                    continue;
                }
                Err(error) => return Err(error),
            };
            let value = secret.and_then(|secret| String::from_utf8(reveal(&secret).to_vec()).ok());
            if let Some(value) = value {
                found.values.insert(name.clone(), Secret::new(value));
                break;
            }
        }
    }
    Ok(found)
}

impl Wharf {
    /// A secret of the owner's; an error where it is set, can't be read, and is needed.
    fn of_owner(
        &self,
        entry: &ServerEntry,
        reference: &SecretReference,
    ) -> Result<Option<Secret>, String> {
        match self.0.vault.read(entry.name.as_str(), &reference.key) {
            Ok(found) => Ok(found),
            Err(_) if !reference.required => Ok(None),
            Err(error) => Err(format!("it needs {}, and {error}", reference.key)),
        }
    }

    /// Values become known secrets.
    pub(crate) fn learn(&self, values: impl Iterator<Item = Secret>) {
        let mut secrets = lock(&self.0.secrets);
        for secret in values {
            if !secrets.contains(&secret) {
                secrets.push(secret);
            }
        }
        let redactor = crate::vault::Redactor::new(&secrets);
        self.0.redactor.store(Arc::new(redactor));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::{AgentName, ServerName, Source, Transport};

    #[test]
    fn a101_variables_of_the_agent_are_those_of_its_scope_and_the_old_list() {
        let row = json!({
            "env_schema": [
                { "key": "B", "scope": "agent" },
                { "key": "C", "scope": "app" },
                { "key": "LD_PRELOAD", "scope": "agent" },
            ],
            "env_keys": ["A", "B"],
        });
        let own = entry(Some("bot"));
        assert_eq!(wanted(&row, &own), ["A", "B"]);
        assert!(wanted(&json!({}), &own).is_empty());
    }

    fn entry(installed_by: Option<&str>) -> ServerEntry {
        let transport = Transport::Stdio {
            command: "x".into(),
            args: vec![],
            cwd: None,
        };
        let name = ServerName::new("s").unwrap();
        let mut entry = ServerEntry::plain(name, Source::Settings, transport);
        entry.installed_by = installed_by.map(|name| AgentName::new(name).unwrap());
        entry.env.push(("SET".into(), Some("owner's".into())));
        entry
    }

    #[test]
    fn a101_variables_of_the_owner_stay_the_owners() {
        let scoped = ["FREE", "SET", "set", "PATH", "https_proxy"]
            .map(|key| json!({ "key": key, "scope": "agent" }));
        let row = json!({ "env_schema": scoped, "env_keys": ["OTHER"] });
        assert_eq!(wanted(&row, &entry(None)), ["FREE"]);
        assert_eq!(
            wanted(&row, &entry(Some("bot"))),
            ["FREE", "OTHER", "PATH", "SET", "https_proxy", "set"]
        );
    }
}
