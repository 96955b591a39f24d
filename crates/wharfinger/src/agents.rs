//! Agents of the chat profile: a name each, kept in the database.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::journal::{AgentRow, Kind, StoreError};
use crate::model::{AgentName, nearest};
use crate::wharf::{Wharf, lock};

/// The agent that is always there.
const DEFAULT: &str = "default";

/// Why an agent could not be made or removed.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// There is one of that name.
    #[error("there is an agent `{0}` already")]
    Exists(AgentName),
    /// There is none of that name.
    #[error("there is no agent `{name}`{}", .near.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    Unknown {
        /// As it was given.
        name: String,
        /// The nearest one there is.
        near: Option<String>,
    },
    /// `default` stays.
    #[error("the agent `default` can't be removed, since it is the one meant where none is named")]
    Default,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

pub(crate) async fn load(wharf: &Wharf) -> Result<(), StoreError> {
    let mut names: Vec<String> = wharf
        .0
        .store
        .agents()
        .await?
        .into_iter()
        .map(|row| row.name)
        .collect();
    if !names.iter().any(|name| name == DEFAULT) {
        wharf.0.store.add_agent(row(DEFAULT)).await?;
        names.push(DEFAULT.to_owned());
    }
    let valid = names.iter().filter_map(|name| AgentName::new(name).ok());
    lock(&wharf.0.agents).extend(valid);
    Ok(())
}

fn row(name: &str) -> AgentRow {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    AgentRow {
        name: name.to_owned(),
        created: i64::try_from(now.as_millis()).unwrap_or(i64::MAX),
    }
}

impl Wharf {
    /// All agents, by name.
    pub fn agents(&self) -> Vec<AgentName> {
        lock(&self.0.agents).iter().cloned().collect()
    }

    /// The agent of that name.
    pub fn agent(&self, name: &str) -> Result<AgentName, AgentError> {
        let agents = lock(&self.0.agents);
        agents
            .get(name)
            .cloned()
            .ok_or_else(|| AgentError::Unknown {
                name: name.to_owned(),
                near: nearest(name, agents.iter().map(AgentName::as_str)).map(str::to_owned),
            })
    }

    /// Makes an agent.
    pub async fn add_agent(&self, name: AgentName) -> Result<(), AgentError> {
        if !self.0.store.add_agent(row(name.as_str())).await? {
            return Err(AgentError::Exists(name));
        }
        self.record_agent(Kind::AgentAdded, &name).await;
        lock(&self.0.agents).insert(name);
        Ok(())
    }

    /// Ends an agent's sessions and forgets it. Its workspace stays.
    pub async fn remove_agent(&self, name: &str) -> Result<(), AgentError> {
        let agent = self.agent(name)?;
        if agent.as_str() == DEFAULT {
            return Err(AgentError::Default);
        }
        self.0.store.remove_agent(name.to_owned()).await?;
        lock(&self.0.agents).remove(name);
        self.record_agent(Kind::AgentRemoved, &agent).await;
        for session in self.sessions_of(&agent) {
            session.end().await;
        }
        Ok(())
    }
}
