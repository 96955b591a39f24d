//! Secrets as their owner sets and sees them: those for all agents in the vault, those of one agent in its file. No value
//! comes back out of here (A107).

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};
use wharfinger_wire::json::raw;

use crate::agent::Agent;
use crate::agentfile::{self, AgentFile, EditError, SetBy};
use crate::agents::AgentError;
use crate::journal::{Kind, Record, Who};
use crate::keys::{places, wanted};
use crate::model::{
    AgentName, Profile, Secret, ServerEntry, ServerName, Status, is_blocked, is_delicate,
};
use crate::rights::Rights;
use crate::vault::{KeyPlace, VaultError, VaultState};
use crate::waiting::on;
use crate::wharf::{Wharf, lock};

/// How the vault stands.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VaultReport {
    /// Whether its secrets can be read and set.
    pub state: VaultState,
    /// Where its key is.
    pub key: Option<KeyPlace>,
    /// Why it is not unlocked, and the way out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A secret, without its value.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SecretReport {
    /// Whose it is.
    pub server: String,
    /// Which of them.
    pub key: String,
    /// The agent that has it for itself; `null` for all agents.
    pub agent: Option<String>,
    /// Whether the server can't start without it.
    pub required: bool,
    /// Whether there is a value.
    pub set: bool,
}

/// All secrets that are set or asked for.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Secrets {
    /// See [`VaultReport`].
    pub vault: VaultReport,
    /// By server and key; those for all agents first.
    pub secrets: Vec<SecretReport>,
}

/// What came of setting or removing a secret.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SecretChange {
    /// As it is now.
    #[serde(flatten)]
    pub secret: SecretReport,
    /// Whether something of the server takes it; one that is not registered yet may.
    pub used: bool,
    /// Whether a process runs that still has what was before; the next start takes the change.
    pub running: bool,
    /// The server was attached to the agent with it, or detached, since no credential of it is left (A108).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attached: Option<bool>,
}

/// Why a secret was not set or removed.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The vault said no.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// The agent, or its file.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// It would reach nobody.
    #[error("{text}")]
    Useless {
        /// Why.
        text: String,
        /// The way out.
        hint: String,
    },
    /// There is none.
    #[error("`{key}` of `{server}` is not set")]
    Unset {
        /// Whose.
        server: String,
        /// Which.
        key: String,
    },
}

impl Wharf {
    /// How the vault stands.
    pub fn vault(&self) -> VaultReport {
        let standing = self.0.vault.standing();
        VaultReport {
            state: standing.state,
            key: standing.key,
            reason: standing.reason,
        }
    }

    /// All secrets that are set, and those that servers ask for.
    pub fn secrets(&self) -> Secrets {
        let config = self.config();
        let vault = &self.0.vault;
        let mut secrets = vec![];
        for entry in &config.servers {
            let server = entry.name.as_str();
            secrets.extend(entry.secrets().into_iter().map(|reference| SecretReport {
                server: server.to_owned(),
                set: vault.is_set(server, &reference.key),
                key: reference.key,
                agent: None,
                required: reference.required,
            }));
        }
        let unused = vault.names().into_iter().map(|(server, key)| SecretReport {
            server,
            key,
            agent: None,
            required: false,
            set: true,
        });
        for unused in unused {
            let is_known =
                |known: &SecretReport| known.server == unused.server && known.key == unused.key;
            if !secrets.iter().any(is_known) {
                secrets.push(unused);
            }
        }
        let agents: Vec<_> = lock(&self.0.agents).values().cloned().collect();
        for agent in agents {
            secrets.extend(self.secrets_of(&agent));
        }
        secrets.sort();
        Secrets {
            vault: self.vault(),
            secrets,
        }
    }

    /// What one agent has for itself, and what its servers ask of it.
    fn secrets_of(&self, agent: &Agent) -> Vec<SecretReport> {
        let Ok(file) = agent.file() else {
            return vec![];
        };
        let config = self.config();
        let mut set: Vec<(String, String)> = stored(&file)
            .into_iter()
            .map(|(place, key)| (server_at(agent, &place), key))
            .collect();
        set.sort();
        set.dedup();
        let report = |server: &str, key: &str, required, set| SecretReport {
            server: server.to_owned(),
            key: key.to_owned(),
            agent: Some(agent.name.to_string()),
            required,
            set,
        };
        let mut found = vec![];
        if agent.profile == Profile::Agent {
            let view = agent.view(config, self);
            for attached in &agent.rights().attached {
                let Some(entry) = view.server(attached.name.as_str()) else {
                    continue;
                };
                for name in wanted(&attached.row, entry) {
                    let place = (entry.name.to_string(), name);
                    let is_set = set.contains(&place);
                    let required = is_required(&attached.row, &place.1);
                    found.push(report(&place.0, &place.1, required, is_set));
                    set.retain(|known| *known != place);
                }
            }
        }
        found.extend(
            set.iter()
                .map(|(server, key)| report(server, key, false, true)),
        );
        found
    }

    /// Keys that a server can't start without for an agent, and that are not set.
    pub(crate) fn needs_keys(&self, entry: &ServerEntry, agent: &Agent) -> Vec<String> {
        let server = entry.name.as_str();
        let rights = agent.rights();
        let row = rights
            .server(server)
            .filter(|_| agent.profile == Profile::Agent)
            .map(|attached| &attached.row);
        let of_agent = row.map(|row| {
            let mut names = wanted(row, entry);
            names.retain(|name| is_required(row, name));
            names
        });
        let of_owner = entry
            .secrets()
            .into_iter()
            .filter(|one| one.required && !self.0.vault.is_set(server, &one.key));
        let mut needed: Vec<String> = of_owner
            .map(|one| one.key)
            .chain(of_agent.into_iter().flatten())
            .collect();
        if needed.is_empty() {
            return needed;
        }
        let own = agent.file().map(|file| stored(&file)).unwrap_or_default();
        let places = places(row.unwrap_or(&Value::Null), entry);
        let has = |key: &String| {
            let mut own = own.iter();
            own.any(|(place, name)| name == key && places.contains(place))
        };
        needed.retain(|key| !has(key));
        needed.sort();
        needed.dedup();
        needed
    }

    /// An agent that can start a server for which the owner has set no secrets, where there is one.
    pub(crate) fn agent_with_keys(&self, entry: &ServerEntry) -> Option<Arc<Agent>> {
        let takes = entry.secrets();
        let is_missing = |one: &crate::model::expand::SecretReference| {
            one.required && !self.0.vault.is_set(entry.name.as_str(), &one.key)
        };
        if !takes.iter().any(is_missing) {
            return None;
        }
        let agents: Vec<_> = lock(&self.0.agents).values().cloned().collect();
        let has_server = |agent: &Arc<Agent>| {
            agent.profile == Profile::Chat || agent.rights().server(entry.name.as_str()).is_some()
        };
        agents
            .into_iter()
            .filter(has_server)
            .find(|agent| self.needs_keys(entry, agent).is_empty())
    }

    /// Sets a secret: for all agents, or for one, which gets the server with it (A108). Processes that run keep what
    /// they have.
    pub async fn set_secret(
        &self,
        server: &ServerName,
        key: &str,
        value: Secret,
        agent: Option<&str>,
    ) -> Result<SecretChange, SecretError> {
        // Known before anything can carry it.
        self.learn(std::iter::once(value.clone()));
        let attached = match agent {
            None => {
                self.0.vault.set(server.as_str(), key, &value).await?;
                None
            }
            Some(agent) => self.set_of_agent(server, key, value, agent).await?,
        };
        self.note_secret(server, key, agent, Kind::SecretSet);
        self.secret_changed(server).await;
        Ok(self.change_of(server, key, agent, attached))
    }

    /// Removes a secret. An agent that has no credential of the server any more loses the server with it (A108).
    pub async fn remove_secret(
        &self,
        server: &ServerName,
        key: &str,
        agent: Option<&str>,
    ) -> Result<SecretChange, SecretError> {
        let (was_set, attached) = match agent {
            None => (self.0.vault.remove(server.as_str(), key).await?, None),
            Some(agent) => self.remove_of_agent(server, key, agent).await?,
        };
        if !was_set {
            return Err(SecretError::Unset {
                server: server.to_string(),
                key: key.to_owned(),
            });
        }
        self.note_secret(server, key, agent, Kind::SecretRemoved);
        self.secret_changed(server).await;
        Ok(self.change_of(server, key, agent, attached))
    }

    /// Opens the vault: with a passphrase, or because its key is there now. What could not start without it is tried
    /// again.
    pub async fn unlock_vault(
        &self,
        passphrase: Option<&Secret>,
    ) -> Result<VaultReport, VaultError> {
        self.0.vault.unlock(passphrase).await?;
        for entry in &self.config().servers {
            if !entry.secrets().is_empty() {
                self.secret_changed(&entry.name).await;
            }
        }
        Ok(self.vault())
    }

    async fn set_of_agent(
        &self,
        server: &ServerName,
        key: &str,
        value: Secret,
        agent: &str,
    ) -> Result<Option<bool>, SecretError> {
        let (agent, file) = self.usable(agent)?;
        let config = self.config();
        let entry = config.server(server.as_str());
        let rights = agent.rights();
        let attached = rights
            .server(server.as_str())
            .filter(|_| agent.profile == Profile::Agent);
        let row = match (attached, entry) {
            (Some(attached), _) => attached.row.clone(),
            (None, Some(entry)) => crate::installed::row(entry),
            (None, None) => json!({ "name": server }),
        };
        let is_own = attached.is_some() && entry.is_none();
        let is_taken = entry.is_some_and(|entry| entry.secrets().iter().any(|one| one.key == key));
        if let Some(entry) = entry
            && !is_taken
        {
            settable(entry, key, &agent)?;
        }
        let place = match (agent.profile, entry) {
            (Profile::Chat, _) | (_, None) if !is_own => server.to_string(),
            _ => package(&row).unwrap_or_else(|| server.to_string()),
        };
        let purpose = format!("mcp:{place}:{key}");
        let sealing = on(&file, move |file| {
            file.set_secret(&purpose, value.open().as_bytes(), SetBy::Owner)
        });
        sealing.await.map_err(AgentError::File)?;
        if agent.profile == Profile::Chat || (entry.is_none() && !is_own) {
            return Ok(None);
        }
        let is_new = attached.is_none();
        if is_new {
            self.attach(agent.name.as_str(), server.as_str()).await?;
        }
        if !is_taken {
            self.declare_keys(&agent, server, vec![(key.to_owned(), "agent")])
                .await?;
        }
        Ok(is_new.then_some(true))
    }

    async fn remove_of_agent(
        &self,
        server: &ServerName,
        key: &str,
        agent: &str,
    ) -> Result<(bool, Option<bool>), SecretError> {
        let (agent, file) = self.usable(agent)?;
        let rights = agent.rights();
        let attached = rights.server(server.as_str());
        let row = attached.map_or(Value::Null, |attached| attached.row.clone());
        let mut places = vec![server.to_string()];
        places.extend(package(&row));
        let (key, looked) = (key.to_owned(), places.clone());
        let removing = on(&file, move |file| {
            let mut was_set = false;
            for place in &looked {
                was_set |= file.remove_secret(&format!("mcp:{place}:{key}"))?;
            }
            let left = stored(file);
            Ok((
                was_set,
                left.iter().any(|(place, _)| looked.contains(place)),
            ))
        });
        let (was_set, is_left) = removing.await.map_err(AgentError::File)?;
        let is_attached = attached.is_some() && agent.profile == Profile::Agent;
        // What it has installed by itself is not its owner's to attach again.
        let is_owners = self.config().server(server.as_str()).is_some();
        if was_set && !is_left && is_attached && is_owners {
            self.detach(agent.name.as_str(), server.as_str()).await?;
            return Ok((true, Some(false)));
        }
        Ok((was_set, None))
    }

    /// Names that a server uses stand in the agent's row of it; rows that are there stay (A104).
    pub(crate) async fn declare_keys(
        &self,
        agent: &Arc<Agent>,
        server: &ServerName,
        keys: Vec<(String, &'static str)>,
    ) -> Result<(), AgentError> {
        let name = server.clone();
        let edited = self
            .edit_agent(agent, move |draft| {
                let rows = draft.config.pointer_mut("/mcp/servers");
                let rows = rows.and_then(Value::as_array_mut);
                let row = rows
                    .into_iter()
                    .flatten()
                    .find(|row| row["name"] == *name.as_str());
                let Some(row) = row else {
                    return Err(());
                };
                append(row, &keys);
                Ok(())
            })
            .await;
        match edited {
            // It was detached meanwhile.
            Ok(()) | Err(EditError::Refused(())) => Ok(()),
            Err(EditError::File(error)) => Err(AgentError::File(error)),
        }
    }

    /// A server of an agent runs: variables it was given, and that its row does not name yet, are named there (A104).
    pub(crate) fn declare_used(&self, agent: &AgentName, server: &ServerName) {
        let agent = self.own_agent(agent);
        let rights = agent.rights();
        let (Profile::Agent, Some(attached)) = (agent.profile, rights.server(server.as_str()))
        else {
            return;
        };
        let view = agent.view(self.config(), self);
        let (Some(entry), Ok(file)) = (view.server(server.as_str()), agent.file()) else {
            return;
        };
        let own = stored(&file);
        let places = places(&attached.row, entry);
        let has = |key: &str| {
            let mut own = own.iter();
            own.any(|(place, name)| name == key && places.contains(place))
        };
        let is_installed = entry.installed_by.is_some();
        let set = entry.env.iter().filter(|(name, _)| !is_blocked(name));
        let set = set.filter_map(|(name, value)| {
            let takes = crate::model::expand::secrets(value.as_deref()?);
            let of_owner = |key: &str| self.0.vault.is_set(server.as_str(), key);
            let is_given = takes.iter().all(|one| has(&one.key) || of_owner(&one.key));
            let is_own = is_installed || takes.iter().any(|one| has(&one.key));
            is_given.then(|| (name.clone(), if is_own { "agent" } else { "app" }))
        });
        let from_file = wanted(&attached.row, entry).into_iter();
        let from_file = from_file
            .filter(|name| has(name))
            .map(|name| (name, "agent"));
        let used: Vec<_> = set.chain(from_file).collect();
        if append(&mut attached.row.clone(), &used) == 0 {
            return;
        }
        let (wharf, server) = (self.clone(), server.clone());
        self.0.context.tasks.spawn(async move {
            if let Err(error) = wharf.declare_keys(&agent, &server, used).await {
                tracing::warn!(agent = %agent.name, %server, "its variables could not be named: {error}");
            }
        });
    }

    /// What could not be listed or started is tried again with what is set now; what runs keeps what it has.
    async fn secret_changed(&self, server: &ServerName) {
        self.forget(server);
        self.changed();
        for handle in self.handles(server.as_str(), None) {
            if matches!(handle.status(), Status::Failed { .. }) {
                handle.stop().await;
            }
        }
        let (wharf, server) = (self.clone(), server.clone());
        self.0.context.tasks.spawn(async move {
            let is_on = |entry: &ServerEntry| entry.enabled;
            if wharf.config().server(server.as_str()).is_some_and(is_on) {
                // What fails is told where the server is.
                wharf.discover(server.as_str()).await.ok();
            }
            for agent in wharf.agents() {
                if wharf.own_agent(&agent).profile == Profile::Agent {
                    for session in wharf.sessions_of(&agent) {
                        session.become_active().await;
                    }
                }
            }
        });
    }

    fn note_secret(&self, server: &ServerName, key: &str, agent: Option<&str>, kind: Kind) {
        self.0.journal.write_now(Record {
            agent: agent.and_then(|agent| AgentName::new(agent).ok()),
            server: Some(server.clone()),
            subject: Some(raw(&json!({ "key": key }))),
            ..Record::new(kind, Who::Owner)
        });
    }

    fn change_of(
        &self,
        server: &ServerName,
        key: &str,
        agent: Option<&str>,
        attached: Option<bool>,
    ) -> SecretChange {
        let all = self.secrets().secrets;
        let found = all.iter().find(|one| {
            one.server == server.as_str() && one.key == key && one.agent.as_deref() == agent
        });
        let takes = |entry: &ServerEntry| entry.secrets().iter().any(|one| one.key == key);
        let entry_takes = self.config().server(server.as_str()).map(takes);
        let runs = self.handles(server.as_str(), None);
        let runs = runs
            .iter()
            .any(|handle| matches!(handle.status(), Status::Running { .. } | Status::Starting));
        SecretChange {
            secret: found.cloned().unwrap_or_else(|| SecretReport {
                server: server.to_string(),
                key: key.to_owned(),
                agent: agent.map(str::to_owned),
                required: false,
                set: false,
            }),
            used: agent.is_some() || entry_takes.unwrap_or(true),
            running: runs,
            attached,
        }
    }
}

/// The server whose credentials lie under a name: its own, or its package's (A100).
fn server_at(agent: &Agent, place: &str) -> String {
    let rights = agent.rights();
    let mut servers = rights.attached.iter();
    let by_package = servers.find(|attached| {
        let is = |key: &str| attached.row[key] == *place;
        is("npm_package") || is("pypi_package")
    });
    by_package.map_or_else(|| place.to_owned(), |attached| attached.name.to_string())
}

/// Where credentials lie in an agent's file, and which: `mcp:<place>:<KEY>`. Files are others' business.
fn stored(file: &AgentFile) -> Vec<(String, String)> {
    let purposes = file.purposes("mcp:").unwrap_or_default();
    let split = |purpose: String| {
        let rest = purpose.strip_prefix("mcp:")?;
        let (place, key) = rest.split_once(':')?;
        (!key.contains(':')).then(|| (place.to_owned(), key.to_owned()))
    };
    purposes.into_iter().filter_map(split).collect()
}

/// Forgets an agent's credentials for a server that was taken from it. Those of a package stay while another server of it
/// is there.
pub(crate) async fn forget(
    file: &Arc<AgentFile>,
    rights: &Rights,
    server: &str,
) -> Result<(), agentfile::Error> {
    let row = rights.server(server).map(|attached| &attached.row);
    let mut places = vec![server.to_owned()];
    let others = || {
        rights
            .attached
            .iter()
            .filter(|other| other.name.as_str() != server)
    };
    if let Some(package) = row.and_then(package)
        && !others().any(|other| self::package(&other.row).as_ref() == Some(&package))
    {
        places.push(package);
    }
    on(file, move |file| {
        for place in places {
            file.remove_secrets(&format!("mcp:{place}:"))?;
        }
        Ok(())
    })
    .await
}

fn package(row: &Value) -> Option<String> {
    let text = |key: &str| row[key].as_str().filter(|text| !text.is_empty());
    text("npm_package")
        .or_else(|| text("pypi_package"))
        .map(str::to_owned)
}

fn is_required(row: &Value, name: &str) -> bool {
    let rows = row["env_schema"].as_array().into_iter().flatten();
    rows.into_iter()
        .any(|row| row["key"] == *name && row["scope"] == "agent" && row["required"] == true)
}

/// Appends names that a row does not have yet; how many.
fn append(row: &mut Value, keys: &[(String, &'static str)]) -> usize {
    let mut added = 0;
    for (key, scope) in keys {
        let rows = row["env_schema"].as_array().into_iter().flatten();
        if rows.into_iter().any(|known| known["key"] == **key) {
            continue;
        }
        if !row["env_schema"].is_array() {
            row["env_schema"] = json!([]);
        }
        if let Some(rows) = row["env_schema"].as_array_mut() {
            rows.push(json!({ "key": key, "scope": scope }));
            added += 1;
        }
    }
    added
}

/// Whether an agent may have a variable of its own in a server of the owner's, which the entry does not leave to it.
fn settable(entry: &ServerEntry, key: &str, agent: &Agent) -> Result<(), SecretError> {
    let server = &entry.name;
    let useless = |text: String, hint: String| Err(SecretError::Useless { text, hint });
    let leave = format!(
        "let the entry of `{server}` take it: `\"{key}\": \"${{secret:{key}}}\"` in its `env`"
    );
    if is_blocked(key) || is_delicate(key) {
        return useless(
            format!(
                "`{key}` decides what a program runs or trusts, so no agent has one of its own"
            ),
            leave,
        );
    }
    if entry
        .env
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case(key))
    {
        return useless(
            format!("the entry of `{server}` sets `{key}` itself, for every agent"),
            leave,
        );
    }
    if agent.profile == Profile::Chat {
        return useless(
            format!(
                "nothing of `{server}` takes `{key}`, so `{}` would have it in vain",
                agent.name
            ),
            leave,
        );
    }
    Ok(())
}

impl From<agentfile::Error> for SecretError {
    fn from(error: agentfile::Error) -> Self {
        Self::Agent(AgentError::File(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a104_only_names_that_are_not_there_are_appended() {
        let mut row = json!({ "env_schema": [{ "key": "A", "scope": "app", "description": "d" }] });
        let used = [
            ("A".to_owned(), "agent"),
            ("B".to_owned(), "app"),
            ("C".to_owned(), "agent"),
        ];
        assert_eq!(append(&mut row, &used), 2);
        assert_eq!(append(&mut row, &used), 0);
        let expect = json!({ "env_schema": [
            { "key": "A", "scope": "app", "description": "d" },
            { "key": "B", "scope": "app" },
            { "key": "C", "scope": "agent" },
        ]});
        assert_eq!(row, expect);
        let mut none = json!({ "name": "s" });
        assert_eq!(append(&mut none, &[]), 0);
        assert_eq!(none, json!({ "name": "s" }));
    }
}
