//! An agent's tools as its owner sees and sets them: flags, locks, reviews, and settings that hang together with them
//! (A157–A160).

use serde_json::{Value, json};

use crate::agent::{Agent, pin, row};
use crate::agentfile::{Draft, EditError};
use crate::agents::AgentError;
use crate::catalog::{self, Accept, Other, Others, ReviewError};
use crate::journal::{Kind, Record, Who};
use crate::manage;
use crate::model::{
    Declaration, Difference, Pin, Profile, ServerName, Suspicion, ToolStatus, declarations,
    declare, nearest,
};
use crate::policy::{self, Flag, Tri};
use crate::rights::{ACCEPT, OURS};
use crate::wharf::Wharf;

/// A tool of an agent.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are the flags of a declaration"
)]
pub struct AgentTool {
    /// As the agent calls it.
    pub name: String,
    /// Whose; none for the tools with which an agent manages itself.
    pub server: Option<ServerName>,
    /// As its server names it.
    pub tool: String,
    /// It may be called.
    pub enabled: bool,
    /// The model is told of it.
    pub visible: bool,
    /// Each call waits for a person.
    pub restricted: bool,
    /// Nothing but its owner loosens it.
    pub locked: bool,
    /// `new`, `changed` or `removed`.
    pub status: Option<ToolStatus>,
    /// How it differs from what was reviewed.
    pub change: Option<Difference>,
    /// When that was seen, in milliseconds since 1970.
    pub changed_at: Option<i64>,
    /// What is suspicious about it.
    pub suspicions: Vec<Suspicion>,
    /// The hash of what it is now; a review names it, so that nobody accepts what came in between.
    pub hash: Option<String>,
}

/// A tool's definition, without its server (A159).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definitions {
    /// The one that was reviewed, JSON.
    pub reviewed: Option<String>,
    /// The one that was last listed, JSON.
    pub current: Option<String>,
}

/// How the switches of a server's tools stand (A160).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switches {
    /// Whether each call waits for a person.
    pub restricted: Tri,
    /// Whether the model is told of them.
    pub visible: Tri,
    /// Whether they may be called.
    pub enabled: Tri,
}

/// What is switched: one tool, or all of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// The tool that the agent calls so.
    Tool(String),
    /// All tools of that server that are not locked.
    Server(String),
}

/// Settings of an agent; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentSettings {
    /// New tools need a person (A157).
    pub new_tools_restricted: Option<bool>,
    /// Which changes of tools are taken without a review.
    pub accept_changes: Option<Accept>,
    /// Whoever sits at its client may approve its calls.
    pub ask_client: Option<bool>,
    /// Its servers run whether a session is open or not.
    pub always_active: Option<bool>,
    /// Servers it installs may be asked to run on this machine (A29).
    pub host_access: Option<bool>,
}

/// Settings of one server of an agent; what is `None` stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerSettings {
    /// Tools that are not declared need a person (A166).
    pub restricted: Option<bool>,
    /// Which changes of its tools are taken without a review.
    pub accept_changes: Option<Accept>,
}

impl Wharf {
    fn own_usable(&self, name: &str) -> Result<std::sync::Arc<Agent>, AgentError> {
        let agent = self.own_agent(&self.agent(name)?);
        if agent.profile == Profile::Chat {
            return Err(AgentError::Chat(agent.name.clone()));
        }
        agent.file().map_err(|reason| AgentError::Unusable {
            name: agent.name.clone(),
            reason,
        })?;
        Ok(agent)
    }

    /// All tools of an agent, those of its servers by name, then its own.
    pub fn agent_tools(&self, name: &str) -> Result<Vec<AgentTool>, AgentError> {
        let agent = self.own_usable(name)?;
        let rights = agent.rights();
        let others = Others::new(
            rights
                .pins()
                .map(|pin| Other {
                    server: pin.server.clone(),
                    tool: pin.tool.clone(),
                    exposed: pin.exposed.clone(),
                })
                .collect(),
        );
        let mut pins: Vec<&Pin> = rights.pins().collect();
        pins.sort_by(|one, other| {
            (one.server.as_str(), &one.exposed).cmp(&(other.server.as_str(), &other.exposed))
        });
        let none = Declaration::default();
        let redactor = self.redactor();
        let servers = pins.into_iter().map(|pin| {
            let declaration = rights.declaration(&pin.exposed).unwrap_or(&none);
            let current = pin
                .current
                .as_deref()
                .and_then(|text| serde_json::from_str(text).ok());
            let raw: Option<&serde_json::value::RawValue> = current;
            AgentTool {
                change: pin.change.clone().map(|change| clean(change, &redactor)),
                changed_at: pin.changed_at,
                suspicions: raw
                    .map(|raw| catalog::suspicions(&pin.server, raw, &others))
                    .unwrap_or_default(),
                hash: raw.map(catalog::definition_hash),
                ..tool(
                    declaration,
                    &pin.exposed,
                    Some(pin.server.clone()),
                    pin.tool.as_str(),
                )
            }
        });
        let own = manage::Tool::ALL.into_iter().filter_map(|own| {
            let declaration = rights.declaration(own.name())?;
            Some(tool(declaration, own.name(), None, own.name()))
        });
        Ok(servers.chain(own).collect())
    }

    /// How the switches of each server of an agent stand, in the order of its file.
    pub fn switches(&self, name: &str) -> Result<Vec<(ServerName, Switches)>, AgentError> {
        let agent = self.own_usable(name)?;
        let rights = agent.rights();
        let all = rights.attached.iter().map(|attached| {
            let rows: Vec<Declaration> = rights
                .pins_of(&attached.name)
                .iter()
                .filter_map(|pin| rights.declaration(&pin.exposed).cloned())
                .collect();
            let switches = Switches {
                restricted: policy::tri_state(&rows, Flag::Restricted),
                visible: policy::tri_state(&rows, Flag::Visible),
                enabled: policy::tri_state(&rows, Flag::Enabled),
            };
            (attached.name.clone(), switches)
        });
        Ok(all.collect())
    }

    /// What a tool of an agent is, as its file knows it; its server need not run (A159).
    pub fn definitions(&self, name: &str, tool: &str) -> Result<Definitions, AgentError> {
        let agent = self.own_usable(name)?;
        let rights = agent.rights();
        if let Some(pin) = rights.pin(tool) {
            return Ok(Definitions {
                reviewed: pin.reviewed.clone(),
                current: pin.current.clone(),
            });
        }
        let own = manage::Tool::named(tool);
        let own = own.ok_or_else(|| no_tool(&agent, tool))?;
        Ok(Definitions {
            reviewed: None,
            current: Some(own.definition().to_string()),
        })
    }

    /// Switches something of a tool, or of all tools of a server that are not locked; gives how many changed.
    pub async fn switch_tools(
        &self,
        name: &str,
        which: Which,
        flag: Flag,
        on: bool,
    ) -> Result<usize, AgentError> {
        let agent = self.own_usable(name)?;
        let names = match &which {
            Which::Tool(tool) => {
                let declaration = agent.rights().declaration(tool).cloned();
                let declaration = declaration.ok_or_else(|| no_tool(&agent, tool))?;
                let loosens = match flag {
                    Flag::Restricted => !on,
                    Flag::Visible | Flag::Enabled => on,
                };
                if declaration.locked {
                    return Err(AgentError::Refused(format!(
                        "`{tool}` is locked; `wharf tools unlock {tool} --agent {name}` comes first"
                    )));
                }
                if loosens && declaration.is_pending() {
                    return Err(AgentError::Refused(format!(
                        "`{tool}` is not what was reviewed; look with `wharf tools diff {tool} --agent {name}`, then `wharf tools review {tool} --agent {name} --accept`"
                    )));
                }
                vec![tool.clone()]
            }
            Which::Server(server) => {
                let server_name = ServerName::new(server)
                    .ok()
                    .filter(|server| agent.rights().server(server.as_str()).is_some());
                let server_name = server_name.ok_or_else(|| AgentError::Attached {
                    agent: agent.name.clone(),
                    server: server.clone(),
                    attached: false,
                })?;
                let pins = agent.rights().pins_of(&server_name);
                pins.into_iter().map(|pin| pin.exposed).collect()
            }
        };
        let changed = self
            .edit_declarations(&agent, move |draft| {
                let mut rows = declarations(&draft.config);
                rows.retain(|row| names.contains(&row.name));
                Ok(policy::bulk(&rows, flag, on))
            })
            .await?;
        let (server, tool) = match which {
            Which::Tool(tool) => (None, Some(tool)),
            Which::Server(server) => (ServerName::new(&server).ok(), None),
        };
        let flag = match flag {
            Flag::Restricted => "restricted",
            Flag::Visible => "visible",
            Flag::Enabled => "enabled",
        };
        let record = Record {
            agent: Some(agent.name.clone()),
            server,
            tool,
            subject: Some(wharfinger_wire::json::raw(
                &json!({ "flag": flag, "on": on, "changed": changed }),
            )),
            ..Record::new(Kind::ToolsBulk, Who::Owner)
        };
        self.0.journal.write(record).await;
        Ok(changed.len())
    }

    /// Locks a tool's row against everything but its owner, or unlocks it.
    pub async fn lock_tool(&self, name: &str, tool: &str, on: bool) -> Result<(), AgentError> {
        let agent = self.own_usable(name)?;
        let exposed = tool.to_owned();
        if agent.rights().declaration(tool).is_none() {
            return Err(no_tool(&agent, tool));
        }
        self.edit_declarations(&agent, move |draft| {
            let mut rows = declarations(&draft.config);
            rows.retain(|row| row.name == exposed);
            for row in &mut rows {
                row.locked = on;
            }
            Ok(rows)
        })
        .await?;
        let record = Record {
            agent: Some(agent.name.clone()),
            tool: Some(tool.to_owned()),
            subject: Some(wharfinger_wire::json::raw(
                &json!({ "flag": "locked", "on": on }),
            )),
            ..Record::new(Kind::ToolsBulk, Who::Owner)
        };
        self.0.journal.write(record).await;
        Ok(())
    }

    async fn edit_declarations(
        &self,
        agent: &std::sync::Arc<Agent>,
        edit: impl FnOnce(&mut Draft) -> Result<Vec<Declaration>, AgentError> + Send + 'static,
    ) -> Result<Vec<String>, AgentError> {
        let edited = self.edit_agent(agent, move |draft| {
            let changed = edit(draft)?;
            declare(&mut draft.config, &changed)
                .map_err(|error| AgentError::Refused(error.to_string()))?;
            Ok(changed.into_iter().map(|row| row.name).collect())
        });
        edited.await.map_err(of_edit)
    }

    /// Decides about a tool that changed since its review. `seen` is the [`AgentTool::hash`] of what was looked at.
    pub async fn review_tool(
        &self,
        name: &str,
        tool: &str,
        decision: catalog::Decision,
    ) -> Result<(), AgentError> {
        let agent = self.own_usable(name)?;
        let (exposed, accepted) = (
            tool.to_owned(),
            matches!(decision, catalog::Decision::Accept { .. }),
        );
        let edited = self.edit_agent(&agent, move |draft| {
            let mut rows = declarations(&draft.config);
            let mut pins: Vec<Pin> = draft.pins.drain(..).filter_map(pin).collect();
            catalog::review(&exposed, &decision, &mut rows, &mut pins)?;
            draft.pins = pins.into_iter().map(row).collect();
            rows.retain(|row| row.name == exposed);
            declare(&mut draft.config, &rows)
                .map_err(|error| ReviewError::Unknown(error.to_string()))?;
            Ok(())
        });
        edited.await.map_err(|error| match error {
            EditError::Refused(ReviewError::Unknown(_)) => no_tool(&agent, tool),
            EditError::Refused(error) => AgentError::Refused(error.to_string()),
            EditError::File(error) => AgentError::File(error),
        })?;
        let record = Record {
            agent: Some(agent.name.clone()),
            tool: Some(tool.to_owned()),
            subject: Some(wharfinger_wire::json::raw(&json!({ "accepted": accepted }))),
            ..Record::new(Kind::ToolsReviewed, Who::Owner)
        };
        self.0.journal.write(record).await;
        Ok(())
    }

    /// Changes settings of an agent.
    pub async fn set_agent(&self, name: &str, settings: AgentSettings) -> Result<(), AgentError> {
        let agent = self.own_usable(name)?;
        let active = settings.always_active;
        let edited = self.edit_agent(&agent, move |draft| {
            let config = &mut draft.config;
            if let Some(on) = settings.new_tools_restricted {
                object(config, "mcp")?["new_tools_restricted"] = on.into();
            }
            if let Some(on) = settings.host_access {
                object(config, "compute")?["host_access"] = on.into();
            }
            let ours = object(object(config, "metadata")?, OURS)?;
            if let Some(accept) = settings.accept_changes {
                ours[ACCEPT] = accept.as_str().into();
            }
            if let Some(on) = settings.ask_client {
                ours["ask_client"] = on.into();
            }
            if let Some(on) = settings.always_active {
                ours["always_active"] = on.into();
            }
            Ok(())
        });
        edited.await.map_err(of_edit)?;
        match active {
            Some(true) => self.keep_active(&agent.name),
            Some(false) => self.keep_active_no_longer(&agent.name).await,
            None => {}
        }
        Ok(())
    }

    /// Changes settings of one server of an agent.
    pub async fn set_agent_server(
        &self,
        name: &str,
        server: &str,
        settings: ServerSettings,
    ) -> Result<(), AgentError> {
        let agent = self.own_usable(name)?;
        let missing = AgentError::Attached {
            agent: agent.name.clone(),
            server: server.to_owned(),
            attached: false,
        };
        let server = server.to_owned();
        let edited = self.edit_agent(&agent, move |draft| {
            let rows = draft.config.pointer_mut("/mcp/servers");
            let mut rows = rows.and_then(Value::as_array_mut).into_iter().flatten();
            let Some(row) = rows.find(|row| row["name"] == *server) else {
                return Err(missing);
            };
            if let Some(on) = settings.restricted {
                row["restricted"] = on.into();
            }
            if let Some(accept) = settings.accept_changes {
                row[ACCEPT] = accept.as_str().into();
            }
            Ok(())
        });
        edited.await.map_err(of_edit)
    }
}

fn tool(declaration: &Declaration, name: &str, server: Option<ServerName>, own: &str) -> AgentTool {
    AgentTool {
        name: name.to_owned(),
        server,
        tool: own.to_owned(),
        enabled: declaration.enabled,
        visible: declaration.visible,
        restricted: declaration.restricted,
        locked: declaration.locked,
        status: declaration.mcp_tool_status,
        change: None,
        changed_at: None,
        suspicions: vec![],
        hash: None,
    }
}

/// A server may have put a secret into its definition.
fn clean(mut change: Difference, redactor: &crate::vault::Redactor) -> Difference {
    for line in &mut change.lines {
        for text in [&mut line.old, &mut line.new].into_iter().flatten() {
            *text = redactor.text(text).into_owned();
        }
    }
    change
}

fn no_tool(agent: &Agent, tool: &str) -> AgentError {
    let rights = agent.rights();
    let mut known: Vec<&str> = rights.pins().map(|pin| pin.exposed.as_str()).collect();
    known.sort_unstable();
    AgentError::NoTool {
        agent: agent.name.clone(),
        name: tool.to_owned(),
        near: nearest(tool, known).map(str::to_owned),
    }
}

/// A member that is an object; made where it is missing.
fn object<'a>(value: &'a mut Value, key: &str) -> Result<&'a mut Value, AgentError> {
    let member = &mut value[key];
    if member.is_null() {
        *member = json!({});
    }
    if member.is_object() {
        Ok(member)
    } else {
        Err(AgentError::Refused(format!(
            "`{key}` of the agent's configuration is no object"
        )))
    }
}

fn of_edit(error: EditError<AgentError>) -> AgentError {
    match error {
        EditError::Refused(error) => error,
        EditError::File(error) => AgentError::File(error),
    }
}
