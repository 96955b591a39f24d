//! Agents' files go to others and come from others.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::Value;

use crate::agent::Agent;
use crate::agentfile::{self, AgentFile};
use crate::agents::{AgentError, blocking, path};
use crate::journal::{Kind, Record, Who};
use crate::model::{AgentName, Profile};
use crate::rights::Rights;
use crate::wharf::{Wharf, lock};

impl Wharf {
    /// Writes a copy of an agent's file to a path where nothing is yet.
    pub async fn export_agent(&self, name: &str, to: PathBuf) -> Result<(), AgentError> {
        let (agent, file) = self.usable(name)?;
        blocking(move || file.export_to(&to)).await?;
        self.0.journal.write_now(Record {
            agent: Some(agent.name.clone()),
            ..Record::new(Kind::AgentExported, Who::Owner)
        });
        Ok(())
    }

    /// Takes a copy of a file in as an agent. A file from elsewhere runs nothing of its own before that is confirmed
    /// (T1), whoever's it says it is: [`AgentError::Unconfirmed`] says what it would.
    pub async fn import_agent(
        &self,
        from: PathBuf,
        name: Option<AgentName>,
        confirmed: bool,
    ) -> Result<AgentName, AgentError> {
        let _changing = self.0.changing_agents.lock().await;
        let keys = self.0.keys.clone();
        let looked = from.clone();
        let (keys, peek) = blocking(move || {
            let keys = keys.get()?;
            let peek = agentfile::peek(&looked, &keys)?;
            Ok((keys, peek))
        })
        .await?;
        let name = match name {
            Some(name) => name,
            None => AgentName::new(&crate::installed::agent_name(&peek.name))
                .map_err(|why| AgentError::Refused(format!("the name {:?} {why}", peek.name)))?,
        };
        if lock(&self.0.agents).contains_key(&name) {
            return Err(AgentError::Exists(name));
        }
        let mut runs = crate::installed::would_run(&peek.servers, &self.config());
        if peek.profile.as_deref() == Some(Profile::Chat.as_str()) {
            let all = "every server that is registered, and nobody is asked: its profile is `chat`";
            runs.push(all.to_owned());
        }
        if !confirmed && !runs.is_empty() {
            return Err(AgentError::Unconfirmed { runs });
        }
        let (to, own) = (path(&self.0.agents_folder, &name), name.clone());
        let agent = blocking(move || {
            agentfile::copy(&from, &to, &keys)?;
            let file = AgentFile::open(&to, &keys)?;
            if confirmed {
                file.trust()?;
            }
            if !file.is_read_only() {
                // What waits in the original waits for that one's agent.
                file.settle_tasks(|_| false)?;
            }
            Agent::of_file(own, file)
        })
        .await?;
        let agent = Arc::new(agent);
        self.keep_agent(agent.clone());
        self.0.journal.write_now(Record {
            agent: Some(name.clone()),
            ..Record::new(Kind::AgentImported, Who::Owner)
        });
        self.disable_missing(&agent).await;
        Ok(name)
    }

    /// What is in the file of an agent alone may run from now on (T1); gives what that is.
    pub async fn confirm_agent(&self, name: &str) -> Result<Vec<String>, AgentError> {
        let (agent, file) = self.usable(name)?;
        // No edit publishes what it read before this.
        let editing = agent.editing.lock().await;
        blocking(move || file.trust()).await?;
        agent.is_trusted.store(true, Ordering::Release);
        // Its view is made anew.
        agent.rights.store(Arc::new(Rights::clone(&agent.rights())));
        drop(editing);
        self.changed();
        let rows: Vec<Value> = agent
            .rights()
            .attached
            .iter()
            .map(|attached| attached.row.clone())
            .collect();
        self.0.journal.write_now(Record {
            agent: Some(agent.name.clone()),
            ..Record::new(Kind::AgentImported, Who::Owner)
        });
        for session in self.sessions_of(&agent.name) {
            session.become_active().await;
        }
        Ok(crate::installed::would_run(&rows, &self.config()))
    }
}
