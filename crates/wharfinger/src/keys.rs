//! Credentials of one agent, on their way from its file into the environment of a server, and nowhere else (A100–A105).

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Weak};

use serde_json::Value;

use crate::agent::Agent;
use crate::agentfile::{AgentFile, Error, reveal};
use crate::launch::{self, Request};
use crate::model::{Secret, ServerEntry, is_blocked, is_delicate};
use crate::servers::{Prepare, Prepared};
use crate::waiting::on;
use crate::wharf::{Inner, Wharf, lock};

/// Makes what runs, with the agent's credentials in it, anew for each start (A184).
pub(crate) struct Keyed {
    wharf: Weak<Inner>,
    agent: Arc<Agent>,
    entry: ServerEntry,
    workspace: PathBuf,
    scratch: Option<PathBuf>,
}

impl Keyed {
    /// `None` where the agent has no credentials for that server.
    pub(crate) fn new(
        wharf: &Wharf,
        agent: &Arc<Agent>,
        entry: &ServerEntry,
        workspace: PathBuf,
        scratch: Option<PathBuf>,
    ) -> Option<Arc<Self>> {
        let rights = agent.rights();
        let attached = rights.server(entry.name.as_str())?;
        if wanted(&attached.row, entry).is_empty() {
            return None;
        }
        Some(Arc::new(Self {
            wharf: Arc::downgrade(&wharf.0),
            agent: agent.clone(),
            entry: entry.clone(),
            workspace,
            scratch,
        }))
    }

    async fn make(&self) -> Result<Prepared, String> {
        let wharf = self.wharf.upgrade().map(Wharf).ok_or("it is over")?;
        let rights = self.agent.rights();
        let row = rights
            .server(self.entry.name.as_str())
            .map(|attached| attached.row.clone())
            .ok_or("it is not attached any more")?;
        let file = self.agent.file()?;
        let wanted = wanted(&row, &self.entry);
        let values = on(&file, move |file| values(file, &row, &wanted)).await;
        let values = values.map_err(|error| error.to_string())?;
        // Known before anything can carry it.
        wharf.learn(values.iter().map(|(_, value)| Secret::new(value.clone())));
        let entry = wharf.runnable(&self.entry).await?;
        let request = Request {
            entry: &entry,
            inherit: &wharf.0.inherit,
            workspace: &self.workspace,
            scratch: self.scratch.as_deref(),
        };
        let plan = launch::plan(request).ok_or("it is no process that could be started")?;
        Ok(Prepared {
            plan: Arc::new(plan.with(values)),
            keeps: None,
        })
    }
}

impl Prepare for Keyed {
    fn prepare(&self) -> Pin<Box<dyn Future<Output = Result<Prepared, String>> + Send + '_>> {
        Box::pin(self.make())
    }
}

/// Which variables the agent has for a server (A101). In one of its owner's those are what its row leaves to the agent,
/// and none that the owner sets or that decides whom the server trusts: the row is in the agent's file.
fn wanted(row: &Value, entry: &ServerEntry) -> Vec<String> {
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

/// Their values, as far as they are there: by the package first, then by the server's name (A100).
fn values(
    file: &AgentFile,
    row: &Value,
    wanted: &[String],
) -> Result<Vec<(String, String)>, Error> {
    let text = |key: &str| row.get(key).and_then(Value::as_str);
    let places = [text("npm_package"), text("pypi_package"), text("name")];
    let mut found = vec![];
    for name in wanted {
        for place in places.into_iter().flatten() {
            let secret = file.secret(&format!("mcp:{place}:{name}"))?;
            let value = secret.and_then(|secret| String::from_utf8(reveal(&secret).to_vec()).ok());
            if let Some(value) = value {
                found.push((name.clone(), value));
                break;
            }
        }
    }
    Ok(found)
}

impl Wharf {
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
