//! What becomes of a call of a tool with which an agent manages itself. `manage` says what may be done; here it is done.

use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use wharfinger_wire::json::{Raw, raw};

use crate::agentfile::{AgentFile, EditError, FileWrite, Protection, StoredFile, Writing};
use crate::agents::{Leaves, remove_server};
use crate::bound::arguments;
use crate::call::Refusal;
use crate::journal::{Kind, Record, Who};
use crate::manage::{
    self, AppCompute, Approved, Connection, Envelope, Install, InstallFailed, Installed, Location,
    NewServer, Persisted, Plan, Registration, Restart, Restarted, Situation, Tool, Uninstall,
    Uninstalled, Updated, WriteMode,
};
use crate::model::{ServerName, Transport};
use crate::packages::Installing;
use crate::session::Session;
use crate::waiting::on;
use crate::wharf::{Wharf, now};

/// Sealed is not yet where the server looks for it.
const FILES_LATER: &str = "the content of `credential_files` is sealed, and is not written for the server yet: that comes with containers";

/// How long an agent waits for a server that it has installed or restarted.
const CONNECT: Duration = Duration::from_secs(60);

impl Session {
    /// Does what an agent asks of itself. Errors are results, so that the model can do something about them.
    pub(crate) async fn manage(&self, tool: &str, params: &RawValue) -> Result<Raw, Refusal> {
        let arguments: Value = serde_json::from_str(arguments(params).get()).unwrap_or_default();
        let Some(tool) = Tool::named(tool) else {
            return Err(Refusal::Unknown(format!("there is no tool `{tool}`")));
        };
        let file = self.state.own.file().map_err(Refusal::Unavailable)?;
        let done = match tool {
            Tool::Install => self.install(&arguments).await,
            Tool::Available => self.available(&arguments),
            Tool::Restart => self.restart_own(&arguments).await,
            Tool::Uninstall => self.uninstall(&arguments).await,
            Tool::GetConfig => get_config(&file, &arguments),
            Tool::UpdateConfig => self.update_config(&arguments).await,
            Tool::FsRead => fs_read(&file, arguments).await,
            Tool::FsWrite => fs_write(&file, arguments).await,
            Tool::Fetch => self.fetch(&arguments).await,
        };
        let (value, failed) = match done {
            Ok(value) => {
                let failed = value["success"] == false;
                (value, failed)
            }
            Err(error) => (error.to_value(), true),
        };
        let value = self
            .wharf
            .redactor()
            .json(&raw(&value))
            .unwrap_or_else(|| raw(&value));
        let mut result = json!({
            "content": [{ "type": "text", "text": value.get() }],
            "structuredContent": value,
        });
        if failed {
            result["isError"] = true.into();
        }
        Ok(raw(&result))
    }

    async fn install(&self, arguments: &Value) -> Result<Value, manage::Error> {
        let install = Install::read(arguments)?;
        let agent = &self.state.own;
        let file = agent.file().map_err(manage::Error::Refused)?;
        let app = compute(&self.wharf);
        let registrations = registrations(&self.wharf);
        let situation = Situation {
            config: &file.config(),
            app: &app,
            container: None,
            credentials: envelope(&file),
            registrations: &registrations,
        };
        let kind = install.kind;
        let weighed = self.weighed(&install);
        match manage::plan(install, &situation)? {
            Plan::New(mut new) => {
                new.notes.extend(weighed?);
                new.secrets
                    .extend(new.files.iter().map(|file| file.value(now())));
                if !new.files.is_empty() {
                    new.notes.push(FILES_LATER.into());
                }
                self.install_new(*new).await
            }
            Plan::Attach { name, secrets, .. } => {
                seal(&file, secrets).await?;
                self.attach_own(&name, kind).await
            }
            Plan::Rerun(mut rerun) => {
                let files = rerun.files.iter().map(|file| file.value(now()));
                rerun.secrets.extend(files);
                let stored: Vec<String> = rerun
                    .secrets
                    .iter()
                    .map(|one| one.purpose.clone())
                    .collect();
                let name = rerun.name.clone();
                seal(&file, rerun.secrets.clone()).await?;
                self.edit_own(move |config| rerun.apply(config)).await?;
                Ok(Updated { name, stored }.to_value())
            }
            Plan::AlreadyInstalled { name } => Ok(manage::AlreadyInstalled {
                tools: self.tools_of(&name).len(),
                location: self.location(&name),
                name,
            }
            .to_value()),
        }
    }

    async fn install_new(&self, new: NewServer) -> Result<Value, manage::Error> {
        let file = self.state.own.file().map_err(manage::Error::Refused)?;
        let sealed: Vec<String> = new.secrets.iter().map(|one| one.purpose.clone()).collect();
        let (name, kind, source) = (new.name.clone(), new.kind, new.source().to_owned());
        let (env_keys, location, notes) = (new.env_keys(), new.location, new.notes.clone());
        seal(&file, new.secrets.clone()).await?;
        self.edit_own(move |config| new.apply(config)).await?;
        self.note_server(&name, Kind::ServerAttached).await;
        match self.connect(&name).await {
            Ok(()) => Ok(Installed {
                tools: self.tools_of(&name),
                name,
                kind,
                source,
                location,
                attached_existing: false,
                env_keys,
                host_denied: None,
                connection: None,
                notes,
            }
            .to_value()),
            Err(connection) => Ok(InstallFailed {
                name,
                kind,
                source,
                location,
                error: connection.error,
                persisted: Persisted {
                    registration: true,
                    credentials: sealed,
                },
                signing_in: false,
                stderr_tail: Some(connection.stderr_tail).filter(|tail| !tail.is_empty()),
                host_denied: None,
            }
            .to_value()),
        }
    }

    async fn attach_own(&self, name: &str, kind: manage::Kind) -> Result<Value, manage::Error> {
        self.wharf
            .attach(self.state.agent.as_str(), name)
            .await
            .map_err(|error| manage::Error::Refused(error.to_string()))?;
        let connection = self.connect(name).await.err();
        Ok(Installed {
            tools: self.tools_of(name),
            name: name.to_owned(),
            kind,
            source: "registered".into(),
            location: self.location(name),
            attached_existing: true,
            env_keys: vec![],
            host_denied: None,
            connection,
            notes: vec![],
        }
        .to_value())
    }

    async fn restart_own(&self, arguments: &Value) -> Result<Value, manage::Error> {
        let Restart { name } = Restart::read(arguments)?;
        let file = self.state.own.file().map_err(manage::Error::Refused)?;
        manage::find(&file.config(), &name)?;
        self.wharf.drop_server_of(&name, &self.state.agent).await;
        self.wharf.forget_failure(&name);
        let connection = self.connect(&name).await.err();
        self.note_server(&name, Kind::Restarted).await;
        Ok(Restarted {
            tools: match &connection {
                None => self.tools_of(&name),
                Some(_) => vec![],
            },
            location: self.location(&name),
            name,
            host_denied: None,
            connection,
        }
        .to_value())
    }

    async fn uninstall(&self, arguments: &Value) -> Result<Value, manage::Error> {
        let Uninstall { name } = Uninstall::read(arguments)?;
        let file = self.state.own.file().map_err(manage::Error::Refused)?;
        manage::find(&file.config(), &name)?;
        let tools = self.tools_of(&name);
        let config = self.config();
        let entry = config.server(&name);
        let package = entry.filter(|entry| entry.installed_by.is_some());
        let package = package.and_then(|entry| entry.package.clone());
        let gone = name.clone();
        let edited = self
            .wharf
            .edit_agent(&self.state.own, move |draft| {
                remove_server(draft, &gone, Leaves::Strictness)
            })
            .await;
        edited.map_err(|error| refused(&error))?;
        self.note_server(&name, Kind::ServerDetached).await;
        // Its install goes, unless somebody else uses it (A66).
        if let Some(package) = package {
            self.wharf.drop_server_of(&name, &self.state.agent).await;
            if let Err(error) = self.wharf.remove_package(&package).await {
                tracing::warn!("{error}");
            }
        }
        Ok(Uninstalled { name, tools }.to_value())
    }

    async fn update_config(&self, arguments: &Value) -> Result<Value, manage::Error> {
        let request = manage::UpdateConfig::read(arguments)?;
        let registered = self.registered();
        let edited = self.wharf.edit_agent(&self.state.own, move |draft| {
            let registered: Vec<&str> = registered.iter().map(String::as_str).collect();
            manage::tree::update(&mut draft.config, &request, &registered)
        });
        edited
            .await
            .map(|changes| changes.to_value())
            .map_err(|error| match error {
                EditError::Refused(error) => error,
                EditError::File(error) => manage::Error::Refused(error.to_string()),
            })
    }

    async fn fetch(&self, arguments: &Value) -> Result<Value, manage::Error> {
        let request = manage::Fetch::read(arguments)?;
        let fetched = self.wharf.0.web.fetch(&request).await;
        let fetched = fetched.map_err(|error| manage::Error::Refused(error.to_string()))?;
        Ok(fetched.to_value())
    }

    /// Starts a server of this agent as its sessions would, and waits for its tools to be declared.
    async fn connect(&self, name: &str) -> Result<(), Connection> {
        let failed = |error: String| Connection {
            error: self.wharf.redactor().text(&error).into_owned(),
            stderr_tail: self.wharf.log_tail(name, 20).join("\n"),
        };
        let config = self.config();
        let Some(entry) = config.server(name) else {
            let broken = config.broken.iter();
            let mut broken = broken.filter(|(known, ..)| known.as_str() == name);
            let why = broken.next().map(|(.., problem)| problem.message.clone());
            return Err(failed(why.unwrap_or_else(|| "it is not registered".into())));
        };
        if let Transport::Http { .. } = entry.transport {
            return Err(failed(
                "remote MCP servers come later; the entry is kept".into(),
            ));
        }
        // With a limit of its own, not that of a start (A63).
        if let Some(package) = &entry.package {
            let installed = self.wharf.install_package(package, Installing::default());
            installed.await.map_err(|error| {
                let hint = error.hint.map(|hint| format!("; {hint}"));
                failed(error.message + &hint.unwrap_or_default())
            })?;
        }
        let handle = self
            .wharf
            .instance(&self.state, entry)
            .ok_or_else(|| failed("it is no process that could be started".into()))?;
        let ready = tokio::time::timeout(CONNECT, handle.start());
        match ready.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(failed(error.to_string())),
            Err(_) => return Err(failed("it took too long to start".into())),
        }
        self.wharf
            .discover_one(entry, &self.state.declared)
            .await
            .map_err(failed)?;
        self.wharf
            .reconcile(&self.state.own, &entry.name, &self.state.declared)
            .await;
        Ok(())
    }

    /// What the agent calls the tools of a server, as far as its file knows them.
    fn tools_of(&self, name: &str) -> Vec<String> {
        let Ok(server) = ServerName::new(name) else {
            return vec![];
        };
        let pins = self.state.own.rights().pins_of(&server);
        let mut names: Vec<String> = pins.into_iter().map(|pin| pin.exposed).collect();
        names.sort();
        names
    }

    fn location(&self, name: &str) -> Location {
        let config = self.config();
        match config.server(name).map(|entry| &entry.transport) {
            Some(Transport::Http { .. }) => Location::RemoteHttp,
            Some(Transport::Stdio { .. }) | None => Location::Host,
        }
    }

    async fn edit_own(
        &self,
        edit: impl FnOnce(&mut Value) -> Result<(), manage::Error> + Send + 'static,
    ) -> Result<(), manage::Error> {
        let edited = self
            .wharf
            .edit_agent(&self.state.own, move |draft| edit(&mut draft.config))
            .await;
        edited.map_err(|error| match error {
            EditError::Refused(error) => error,
            EditError::File(error) => manage::Error::Refused(error.to_string()),
        })
    }

    async fn note_server(&self, name: &str, kind: Kind) {
        let record = Record {
            session: Some(self.state.id.clone()),
            server: ServerName::new(name).ok(),
            ..Record::new(kind, Who::Agent(self.state.agent.clone()))
        };
        self.wharf.0.journal.write(record).await;
    }
}

fn refused<E: std::fmt::Display>(error: &EditError<E>) -> manage::Error {
    manage::Error::Refused(error.to_string())
}

/// What the owner allows of this machine (A39).
pub(crate) fn compute(wharf: &Wharf) -> AppCompute {
    let config = wharf.config();
    let approved = config.daemon.host_approved.iter().map(|text| {
        let (name, source) = match text.split_once('=') {
            Some((name, source)) => (name, Some(source.to_owned())),
            None => (text.as_str(), None),
        };
        Approved {
            name: name.to_owned(),
            source,
        }
    });
    AppCompute {
        host_access_enabled: config.daemon.host_access,
        host_approved: approved.collect(),
    }
}

/// Servers of the owner that an agent may attach (A73, A74): all of them run on this machine, so none may, unless its
/// owner says so.
fn registrations(wharf: &Wharf) -> Vec<Registration> {
    let config = wharf.config();
    let registered = config.servers.iter().map(|entry| Registration {
        name: entry.name.to_string(),
        source: crate::installed::source(entry),
        agent_visible: entry.agent_visible,
        variables: entry.env.iter().map(|(name, _)| name.clone()).collect(),
    });
    registered.collect()
}

fn envelope(file: &AgentFile) -> Envelope {
    use crate::agentfile::EnvelopeState;
    match file.envelope(crate::agentfile::Envelope::Credentials) {
        Ok(EnvelopeState::Absent | EnvelopeState::Unlocked) => Envelope::Open,
        Ok(EnvelopeState::Locked) | Err(_) => Envelope::Locked,
        Ok(EnvelopeState::Foreign) => Envelope::Foreign,
    }
}

/// Seals credentials before anything is started with them (A84).
async fn seal(
    file: &std::sync::Arc<AgentFile>,
    secrets: Vec<manage::SealedValue>,
) -> Result<(), manage::Error> {
    if secrets.is_empty() {
        return Ok(());
    }
    let sealed = on(file, move |file| {
        secrets.iter().try_for_each(|secret| {
            let value = secret.value.open().as_bytes();
            file.set_secret(&secret.purpose, value, crate::agentfile::SetBy::Owner)
        })
    });
    sealed
        .await
        .map_err(|error| manage::Error::Refused(error.to_string()))
}

fn get_config(file: &AgentFile, arguments: &Value) -> Result<Value, manage::Error> {
    let request = manage::GetConfig::read(arguments)?;
    Ok(manage::tree::read(&file.config(), request.section))
}

async fn fs_read(
    file: &std::sync::Arc<AgentFile>,
    arguments: Value,
) -> Result<Value, manage::Error> {
    let request = manage::FsRead::read(&arguments)?;
    let limit = manage::files::limit(&file.config());
    let path = request.path.clone();
    let there = on(file, move |file| file.read_file(&path, limit)).await;
    let there = there.map_err(|error| manage::Error::Refused(error.to_string()))?;
    manage::files::read(&request, there.map(stored).as_ref())
}

async fn fs_write(
    file: &std::sync::Arc<AgentFile>,
    arguments: Value,
) -> Result<Value, manage::Error> {
    let request = manage::FsWrite::read(&arguments)?;
    let limit = manage::files::limit(&file.config());
    let path = request.path.clone();
    let mime_type = request.mime_type.clone().or_else(|| match &request.mode {
        WriteMode::Write(content) => Some(manage::files::guess(&path, content).to_owned()),
        WriteMode::Append(_) | WriteMode::Edit { .. } => None,
    });
    let write = FileWrite {
        content: match request.mode {
            WriteMode::Write(content) => Writing::Whole(content),
            WriteMode::Append(more) => Writing::Append(more),
            WriteMode::Edit { old, new } => Writing::Edit { old, new },
        },
        mime_type,
        limit,
    };
    let done = on(file, move |file| file.write_file(&path, write)).await;
    let info = done.map_err(|error| manage::Error::Refused(error.to_string()))?;
    Ok(json!({
        "success": true, "path": info.path, "size": info.size, "mime_type": info.mime_type,
    }))
}

/// A file as `manage` reads it.
fn stored(file: StoredFile) -> manage::files::File {
    manage::files::File {
        content: file.content,
        mime_type: file.info.mime_type,
        protection: match file.info.protection {
            Protection::None => manage::Protection::None,
            Protection::NoDelete => manage::Protection::NoDelete,
            Protection::ReadOnly => manage::Protection::ReadOnly,
        },
        created_at: file.info.created_at,
        updated_at: file.info.updated_at,
    }
}
