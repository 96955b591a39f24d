//! Agents: a file each, in which everything lies that an agent is given. Those of the chat profile are trusted with
//! every server; those of the agent profile have what is in their file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::agent::{Agent, LazyKeys, rights};
use crate::agentfile::{self, AgentFile, Draft, EditError, NewAgent, PinRow};
use crate::journal::{Kind, Record, StoreError, Who};
use crate::model::{AgentName, Declaration, Profile, ServerName, declarations, declare, nearest};
use crate::wharf::{Inner, Wharf, lock};

/// The agent that is always there.
const DEFAULT: &str = "default";

/// Why something could not be done with an agent.
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
    /// Its file can't be used.
    #[error("the agent `{name}` can't be used: {reason}")]
    Unusable {
        /// Whose.
        name: AgentName,
        /// Why.
        reason: String,
    },
    /// An agent of the chat profile has every server.
    #[error("the agent `{0}` has the profile chat, which has every server that is switched on")]
    Chat(AgentName),
    /// There is no server of that name.
    #[error("there is no server `{name}`{}; `wharf add` registers one", .near.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    NoServer {
        /// As it was given.
        name: String,
        /// The nearest one there is.
        near: Option<String>,
    },
    /// The agent has no tool of that name.
    #[error("the agent `{agent}` has no tool `{name}`{}", .near.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    NoTool {
        /// Whose.
        agent: AgentName,
        /// As it was given.
        name: String,
        /// The nearest one there is.
        near: Option<String>,
    },
    /// The agent has that server, or does not.
    #[error("the server `{server}` is {} attached to the agent `{agent}`", if *.attached { "already" } else { "not" })]
    Attached {
        /// Whose.
        agent: AgentName,
        /// Which.
        server: String,
        /// Whether it is.
        attached: bool,
    },
    /// Its file comes from elsewhere.
    #[error("the file comes from elsewhere, so what would run of it has to be confirmed: {}", .runs.join("; "))]
    Unconfirmed {
        /// What its own servers would run.
        runs: Vec<String>,
    },
    /// A change that can't be made.
    #[error("{0}")]
    Refused(String),
    /// Its file.
    #[error(transparent)]
    File(#[from] agentfile::Error),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a declaration could not be changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeclareError {
    /// It may not be changed like that.
    #[error("{0}")]
    Refused(&'static str),
    /// There is none.
    #[error("no tool `{0}` is declared")]
    Unknown(String),
    /// The file.
    #[error("{0}")]
    File(String),
}

/// What an agent begins with.
fn new(name: &AgentName, profile: Profile) -> NewAgent {
    let mut config = json!({});
    if profile == Profile::Agent {
        crate::manage::merge_missing(&mut config);
    }
    NewAgent {
        name: name.to_string(),
        meta: vec![(agentfile::PROFILE.to_owned(), profile.as_str().to_owned())],
        config,
    }
}

/// Opens every agent's file, after those that were kept elsewhere before were given one.
pub(crate) async fn load(wharf: &Wharf) -> Result<(), crate::wharf::OpenError> {
    let failed = |source| crate::wharf::OpenError::Store {
        path: wharf.0.agents_folder.clone(),
        source,
    };
    let before = wharf.0.store.agents().await.map_err(failed)?;
    let before: Vec<AgentName> = before
        .into_iter()
        .filter_map(|row| AgentName::new(&row.name).ok())
        .collect();
    let folder = wharf.0.agents_folder.clone();
    let keys = wharf.0.keys.clone();
    let migrated = before.clone();
    let opened = tokio::task::spawn_blocking(move || open_all(&folder, &migrated, &keys)).await;
    let agents = opened
        .unwrap_or_else(|_| Err(agentfile::Error::Closed))
        .map_err(|source| crate::wharf::OpenError::Agents {
            path: wharf.0.agents_folder.clone(),
            source,
        })?;
    for agent in &agents {
        if let Err(reason) = &agent.file {
            tracing::warn!(agent = %agent.name, "can't be used: {reason}");
        }
    }
    {
        let mut known = lock(&wharf.0.agents);
        known.extend(
            agents
                .into_iter()
                .map(|agent| (agent.name.clone(), Arc::new(agent))),
        );
    }
    // From here on the files say who there is.
    for name in before {
        let moved = wharf.agent(name.as_str()).is_ok();
        if moved {
            wharf
                .0
                .store
                .remove_agent(name.to_string())
                .await
                .map_err(failed)?;
        }
    }
    Ok(())
}

fn open_all(
    folder: &Path,
    migrated: &[AgentName],
    keys: &LazyKeys,
) -> Result<Vec<Agent>, agentfile::Error> {
    agentfile::private_folder(folder)?;
    let default = AgentName::new(DEFAULT).expect("it is a name");
    let keys = keys.get()?;
    for name in migrated.iter().chain([&default]) {
        let path = path(folder, name);
        if !path.exists() {
            AgentFile::create(&path, &new(name, Profile::Chat), &keys)?.close()?;
        }
    }
    let found = std::fs::read_dir(folder).map_err(|source| agentfile::Error::Io {
        doing: "read",
        path: folder.to_owned(),
        source,
    })?;
    let mut paths: Vec<PathBuf> = found.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let mut agents = vec![];
    for path in paths {
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let kind = path.extension().is_some_and(|kind| kind == "adf");
        let Some(Ok(name)) = stem.filter(|_| kind).map(AgentName::new) else {
            continue;
        };
        let opened =
            AgentFile::open(&path, &keys).and_then(|file| Agent::of_file(name.clone(), file));
        agents.push(opened.unwrap_or_else(|error| Agent::unusable(name, error.to_string())));
    }
    Ok(agents)
}

pub(crate) fn path(folder: &Path, name: &AgentName) -> PathBuf {
    folder.join(format!("{name}.adf"))
}

/// An agent as its owner sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a setting of its own"
)]
pub struct AgentState {
    /// Its name.
    pub name: AgentName,
    /// Its profile.
    pub profile: Profile,
    /// Its file.
    pub file: PathBuf,
    /// Why it can't be used, if it can't.
    pub problem: Option<String>,
    /// Servers that are attached to it, whether they are there or not; of a chat agent none.
    pub attached: Vec<AttachedServer>,
    /// Calls of it wait for a person.
    pub awaits_approval: bool,
    /// New tools need a person (A157).
    pub new_tools_restricted: bool,
    /// Changes of tools that are taken without a review: `nothing`, `cosmetic` or `wider`.
    pub accept_changes: &'static str,
    /// Whoever sits at its client may approve its calls.
    pub ask_client: bool,
    /// Its servers run whether a session is open or not.
    pub always_active: bool,
    /// Servers it installs may be asked to run on the host.
    pub host_access: bool,
}

/// A server of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachedServer {
    /// Its name.
    pub name: ServerName,
    /// The owner has registered it.
    pub registered: bool,
    /// Tools of it that are not declared need a person.
    pub restricted: bool,
    /// Changes of its tools that are taken without a review, where that is another than its agent's.
    pub accept_changes: Option<&'static str>,
    /// Where it comes from, if the agent has it from elsewhere than its owner's registry.
    pub source: Option<String>,
    /// Why it does not run, if it can't.
    pub problem: Option<String>,
}

impl Wharf {
    /// All agents, by name.
    pub fn agents(&self) -> Vec<AgentName> {
        lock(&self.0.agents).keys().cloned().collect()
    }

    /// The agent of that name.
    pub fn agent(&self, name: &str) -> Result<AgentName, AgentError> {
        let agents = lock(&self.0.agents);
        let found = agents.get_key_value(name).map(|(name, _)| name.clone());
        found.ok_or_else(|| AgentError::Unknown {
            name: name.to_owned(),
            near: nearest(name, agents.keys().map(AgentName::as_str)).map(str::to_owned),
        })
    }

    /// The agent of that name; one that never was there is of the chat profile, as programs that embed us know it. One
    /// that was removed may do nothing, whoever still has its name; and when all are let go, nobody may.
    pub(crate) fn own_agent(&self, name: &AgentName) -> Arc<Agent> {
        let agents = lock(&self.0.agents);
        if let Some(known) = agents.get(name) {
            return known.clone();
        }
        // With the other lock held, so that no name is in neither.
        let was_removed = lock(&self.0.removed_agents).contains(name);
        drop(agents);
        Arc::new(if was_removed {
            Agent::unusable(name.clone(), "it was removed".into())
        } else if self.0.context.stop.is_cancelled() {
            Agent::unusable(name.clone(), "the program is stopping".into())
        } else {
            Agent::chat(name.clone())
        })
    }

    /// An agent that can be used.
    pub(crate) fn usable(&self, name: &str) -> Result<(Arc<Agent>, Arc<AgentFile>), AgentError> {
        let agent = self.own_agent(&self.agent(name)?);
        let file = agent.file().map_err(|reason| AgentError::Unusable {
            name: agent.name.clone(),
            reason,
        })?;
        Ok((agent, file))
    }

    /// How an agent stands.
    pub fn agent_state(&self, name: &str) -> Result<AgentState, AgentError> {
        let agent = self.own_agent(&self.agent(name)?);
        let rights = agent.rights();
        let config = self.config();
        let view = agent.view(config.clone(), self);
        let attached = rights.attached.iter().map(|attached| {
            let broken = view.broken.iter();
            let mut broken = broken.filter(|(name, ..)| *name == attached.name);
            AttachedServer {
                name: attached.name.clone(),
                registered: config.server(attached.name.as_str()).is_some(),
                restricted: attached.restricted,
                accept_changes: attached.accept.map(crate::catalog::Accept::as_str),
                source: attached.source.clone(),
                problem: broken.next().map(|(.., problem)| problem.message.clone()),
            }
        });
        Ok(AgentState {
            attached: attached.collect(),
            profile: agent.profile,
            file: path(&self.0.agents_folder, &agent.name),
            problem: agent.problem().map(str::to_owned),
            awaits_approval: self.approvals().iter().any(|approval| {
                approval.binding.agent == agent.name
                    && approval.stage == crate::approvals::Stage::PendingApproval
            }),
            new_tools_restricted: rights.new_tools_restricted,
            accept_changes: rights.accept.as_str(),
            ask_client: rights.ask_client,
            always_active: rights.always_active,
            host_access: rights.host_access,
            name: agent.name.clone(),
        })
    }

    /// Makes an agent, with a file of its own.
    pub async fn add_agent(&self, name: AgentName, profile: Profile) -> Result<(), AgentError> {
        let _changing = self.0.changing_agents.lock().await;
        if lock(&self.0.agents).contains_key(&name) {
            return Err(AgentError::Exists(name));
        }
        let (keys, own) = (self.0.keys.clone(), name.clone());
        let path = path(&self.0.agents_folder, &name);
        let made = blocking(move || {
            let keys = keys.get()?;
            let file = AgentFile::create(&path, &new(&own, profile), &keys)?;
            Agent::of_file(own, file)
        });
        let agent = made.await?;
        self.keep_agent(Arc::new(agent));
        self.0.journal.write_now(Record {
            agent: Some(name),
            ..Record::new(Kind::AgentAdded, Who::Owner)
        });
        Ok(())
    }

    /// It is there from now on.
    pub(crate) fn keep_agent(&self, agent: Arc<Agent>) {
        let mut agents = lock(&self.0.agents);
        lock(&self.0.removed_agents).remove(&agent.name);
        agents.insert(agent.name.clone(), agent);
    }

    /// Ends an agent's sessions, and removes it and its file. Its workspace stays.
    pub async fn remove_agent(&self, name: &str) -> Result<(), AgentError> {
        let agent = self.agent(name)?;
        if agent.as_str() == DEFAULT {
            return Err(AgentError::Default);
        }
        let _changing = self.0.changing_agents.lock().await;
        let removed = {
            let mut agents = lock(&self.0.agents);
            lock(&self.0.removed_agents).insert(agent.clone());
            agents.remove(name)
        };
        for session in self.sessions_of(&agent) {
            session.end().await;
        }
        self.withdraw(&agent, "its agent was removed").await;
        let path = path(&self.0.agents_folder, &agent);
        let file = removed.and_then(|removed| removed.file().ok());
        blocking(move || {
            if let Some(file) = file {
                file.shut()?;
            }
            agentfile::delete(&path)
        })
        .await?;
        // Who came in between found an agent without a file.
        for session in self.sessions_of(&agent) {
            session.end().await;
        }
        self.0.journal.write_now(Record {
            agent: Some(agent),
            ..Record::new(Kind::AgentRemoved, Who::Owner)
        });
        Ok(())
    }

    /// The one way in which an agent's configuration changes. What it has of servers follows while it runs (A93): new
    /// ones start, those that are gone stop; nobody waits for that (A94). Whoever asked for it may go away meanwhile:
    /// what was written must also count.
    pub(crate) async fn edit_agent<T, E>(
        &self,
        agent: &Arc<Agent>,
        edit: impl FnOnce(&mut Draft) -> Result<T, E> + Send + 'static,
    ) -> Result<T, EditError<E>>
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        let (wharf, agent) = (self.clone(), agent.clone());
        let editing = async move { wharf.edit_whole(&agent, edit).await };
        let edited = self.0.context.tasks.spawn(editing).await;
        edited.unwrap_or(Err(EditError::File(agentfile::Error::Closed)))
    }

    async fn edit_whole<T, E>(
        &self,
        agent: &Arc<Agent>,
        edit: impl FnOnce(&mut Draft) -> Result<T, E> + Send + 'static,
    ) -> Result<T, EditError<E>>
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        let _editing = agent.editing.lock().await;
        let file = agent
            .file()
            .map_err(|reason| EditError::File(agentfile::Error::Refused(reason)))?;
        let edited = tokio::task::spawn_blocking(move || {
            let done = file.edit(edit)?;
            Ok((done, rights(&file)?))
        });
        let edited = edited.await;
        let (done, rights) = edited.unwrap_or(Err(EditError::File(agentfile::Error::Closed)))?;
        let before = agent.rights.swap(Arc::new(rights));
        self.changed();
        self.apply(agent, &before);
        Ok(done)
    }

    /// Gives an agent a server that the owner has registered. Its tools arrive as new ones do (A75).
    pub async fn attach(&self, name: &str, server: &str) -> Result<(), AgentError> {
        let (agent, _) = self.usable(name)?;
        if agent.profile == Profile::Chat {
            return Err(AgentError::Chat(agent.name.clone()));
        }
        let config = self.config();
        let Some(entry) = config.server(server) else {
            let known = config.servers.iter().map(|entry| entry.name.as_str());
            return Err(AgentError::NoServer {
                name: server.to_owned(),
                near: nearest(server, known).map(str::to_owned),
            });
        };
        let row = crate::installed::row(entry);
        let refused = AgentError::Attached {
            agent: agent.name.clone(),
            server: server.to_owned(),
            attached: true,
        };
        let name = server.to_owned();
        let added = self
            .edit_agent(&agent, move |draft| {
                let rows = rows(&mut draft.config)?;
                if rows.iter().any(|row| row["name"] == *name) {
                    return Err(Some(refused));
                }
                rows.push(row);
                Ok(())
            })
            .await;
        edited(added)?;
        self.note_server(&agent, server, Kind::ServerAttached);
        Ok(())
    }

    /// Takes a server from an agent; what was declared of its tools goes with it, and so do the agent's credentials for
    /// it (A108).
    pub async fn detach(&self, name: &str, server: &str) -> Result<(), AgentError> {
        let (agent, file) = self.usable(name)?;
        let rights = agent.rights();
        let refused = AgentError::Attached {
            agent: agent.name.clone(),
            server: server.to_owned(),
            attached: false,
        };
        let name = server.to_owned();
        let removed = self
            .edit_agent(&agent, move |draft| {
                if remove_server(draft, &name, Leaves::Nothing).map_err(Some)? {
                    Ok(())
                } else {
                    Err(Some(refused))
                }
            })
            .await;
        edited(removed)?;
        self.note_server(&agent, server, Kind::ServerDetached);
        crate::secrets::forget(&file, &rights, server).await?;
        Ok(())
    }

    fn note_server(&self, agent: &Agent, server: &str, kind: Kind) {
        self.0.journal.write_now(Record {
            agent: Some(agent.name.clone()),
            server: ServerName::new(server).ok(),
            ..Record::new(kind, Who::Owner)
        });
    }

    /// Changes one declaration of an agent.
    pub(crate) async fn declare(
        &self,
        agent: &Arc<Agent>,
        exposed: &str,
        change: impl FnOnce(&mut Declaration) -> Result<(), &'static str> + Send + 'static,
    ) -> Result<(), DeclareError> {
        let name = exposed.to_owned();
        let done = self
            .edit_agent(agent, move |draft| {
                let mut all = declarations(&draft.config);
                let found = all.iter_mut().find(|row| row.name == name);
                let found = found.ok_or(DeclareError::Unknown(name))?;
                change(found).map_err(DeclareError::Refused)?;
                let changed = [found.clone()];
                declare(&mut draft.config, &changed)
                    .map_err(|error| DeclareError::File(error.to_string()))?;
                Ok(())
            })
            .await;
        done.map_err(|error| match error {
            EditError::Refused(refused) => refused,
            EditError::File(error) => DeclareError::File(error.to_string()),
        })
    }

    /// Tools of servers that are not there any more are switched off (A140, A202).
    pub(crate) async fn disable_missing(&self, agent: &Arc<Agent>) {
        let view = agent.view(self.config(), self);
        let rights = agent.rights();
        let missing = |server: &ServerName| {
            view.server(server.as_str()).is_none()
                && !view.broken.iter().any(|(name, ..)| name == server)
        };
        let off: Vec<String> = rights
            .pins()
            .filter(|pin| missing(&pin.server))
            .filter(|pin| {
                let declaration = rights.declaration(&pin.exposed);
                declaration.is_some_and(|declaration| declaration.enabled)
            })
            .map(|pin| pin.exposed.clone())
            .collect();
        if off.is_empty() {
            return;
        }
        let done = self
            .edit_agent(agent, move |draft| {
                let mut changed = declarations(&draft.config);
                changed.retain(|row| off.contains(&row.name));
                for row in &mut changed {
                    row.enabled = false;
                }
                declare(&mut draft.config, &changed)
            })
            .await;
        if let Err(error) = done {
            tracing::warn!(agent = %agent.name, "tools of servers that are gone could not be switched off: {error}");
        }
    }
}

/// The list of an agent's servers.
fn rows<E>(config: &mut Value) -> Result<&mut Vec<Value>, Option<E>> {
    let mcp = &mut config["mcp"];
    if !mcp.is_object() {
        *mcp = json!({});
    }
    let rows = &mut mcp["servers"];
    if rows.is_null() {
        *rows = json!([]);
    }
    rows.as_array_mut().ok_or(None)
}

/// What stays of a server that is taken away.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaves {
    /// Its owner knows what goes.
    Nothing,
    /// What its tools may not do: an agent that takes a server away and gets it again is no freer than before.
    Strictness,
}

/// Takes a server out of an agent's configuration, and its tools with it (A92); false when it is not there.
pub(crate) fn remove_server(
    draft: &mut Draft,
    name: &str,
    leaves: Leaves,
) -> Result<bool, AgentError> {
    let not_a_list = || AgentError::Refused("`mcp.servers` of the agent is not a list".into());
    let rows = rows::<AgentError>(&mut draft.config).map_err(|_| not_a_list())?;
    let before = rows.len();
    rows.retain(|row| row["name"] != *name);
    if rows.len() == before {
        return Ok(false);
    }
    let strict: BTreeSet<String> = match leaves {
        Leaves::Nothing => BTreeSet::new(),
        Leaves::Strictness => {
            let rows = declarations(&draft.config).into_iter();
            let strict = rows.filter(|row| {
                let is_on = row.enabled && row.visible;
                !is_on || row.restricted || row.locked || row.is_pending()
            });
            strict.map(|row| row.name).collect()
        }
    };
    let goes = |pin: &PinRow| pin.server == name && !strict.contains(&pin.exposed);
    let gone: BTreeSet<String> = draft
        .pins
        .iter()
        .filter(|pin| goes(pin))
        .map(|pin| pin.exposed.clone())
        .collect();
    draft.pins.retain(|pin| !goes(pin));
    if let Some(tools) = draft.config.get_mut("tools").and_then(Value::as_array_mut) {
        tools.retain(|row| {
            let name = row["name"].as_str().unwrap_or_default();
            // What is locked outlives even its server.
            row["locked"] == true || !gone.contains(name)
        });
    }
    Ok(true)
}

fn edited<T>(result: Result<T, EditError<Option<AgentError>>>) -> Result<T, AgentError> {
    result.map_err(|error| match error {
        EditError::Refused(Some(refused)) => refused,
        EditError::Refused(None) => {
            AgentError::Refused("`mcp.servers` of the agent is not a list".into())
        }
        EditError::File(error) => AgentError::File(error),
    })
}

/// Does something that may block.
pub(crate) async fn blocking<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, agentfile::Error> + Send + 'static,
) -> Result<T, agentfile::Error> {
    let done = tokio::task::spawn_blocking(act).await;
    done.unwrap_or(Err(agentfile::Error::Closed))
}

impl Inner {
    /// Closes all files, in good order.
    pub(crate) fn close_agents(&self) {
        let agents: Vec<_> = std::mem::take(&mut *lock(&self.agents))
            .into_values()
            .collect();
        for agent in agents {
            if let Ok(file) = agent.file()
                && let Err(error) = file.shut()
            {
                tracing::warn!(agent = %agent.name, "{error}");
            }
        }
    }
}
