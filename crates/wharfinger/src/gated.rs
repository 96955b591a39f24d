//! A call of an agent of the agent profile: what may be called, what needs a person, and what is not called at all
//! (A161–A166, A223, A227).

use std::sync::Arc;

use serde_json::Value;
use wharfinger_wire::json::{Object, Raw, raw};

use crate::approvals::Reason;
use crate::bound::{arguments, with_arguments};
use crate::call::{CallNote, Refusal, ToolCall};
use crate::catalog::{self, Catalog, Offer, Tool};
use crate::desk::{Admitted, Asking, Passage};
use crate::discover::{Found as Discovered, key};
use crate::manage;
use crate::model::{Declaration, Declared, OnClash, ServerName, ToolName};
use crate::policy::{self, Caller, Rights as Known, Verdict, Why};
use crate::record::Recording;
use crate::rights::Rights;
use crate::session::Session;
use crate::target::Found;
use crate::wharf::{CatalogKey, lock};

impl Session {
    /// A call that passes the gate first.
    pub(crate) async fn gated(
        &self,
        found: &Found<'_>,
        call: ToolCall<'_>,
        notes: &mut (impl FnMut(CallNote) + Send),
        recording: &mut Recording<'_>,
    ) -> Result<Raw, Refusal> {
        // Nobody is asked about what can't be done.
        if let Some(halted) = self.wharf.is_halted() {
            return Err(Refusal::Unavailable(format!(
                "every MCP server was stopped ({}); `wharf release` lets them start again",
                halted.reason
            )));
        }
        if call.as_owner {
            recording.bypasses();
            return self.carry_out(found, call, notes).await;
        }
        let Admitted {
            params,
            approval,
            consent,
        } = match self.admit(found, call, notes, recording).await? {
            Passage::Open(admitted) => admitted,
            Passage::Collected(id, consent, outcome) => {
                recording.collects(&id);
                if let (Some(consent), Ok(result)) = (consent, &outcome) {
                    self.expects_round(consent, result);
                }
                return outcome.map(|result| (*result).to_owned());
            }
        };
        let call = ToolCall {
            params: params.as_deref().unwrap_or(call.params),
            ..call
        };
        if let Some(allowed) = &approval {
            recording.allowed(allowed.id());
        }
        let reply = self.carry_out(found, call, notes).await;
        if let Some(allowed) = approval {
            allowed.over(&reply).await;
        }
        if let (Some(consent), Ok(result)) = (consent, &reply) {
            self.expects_round(consent, result);
        }
        reply
    }

    async fn admit(
        &self,
        found: &Found<'_>,
        call: ToolCall<'_>,
        notes: &mut (impl FnMut(CallNote) + Send),
        recording: &mut Recording<'_>,
    ) -> Result<Passage, Refusal> {
        let before = arguments(call.params);
        let definition = self
            .definition(found)
            .ok_or_else(|| Refusal::Unavailable(self.why_not(&found.exposed)))?;
        let stripped = policy::strip_internal(&before, &definition)
            .map_err(|error| Refusal::Unavailable(error.to_string()))?;
        if !stripped.forged.is_empty() {
            let text = format!(
                "the arguments set {}, which only the program itself may set",
                stripped.forged.join(", ")
            );
            recording.is_forged();
            return Err(Refusal::Unavailable(text));
        }
        let rights = self.state.own.rights();
        let known = Self::known_of(&rights, found);
        let restricted = match policy::verdict(&known, Caller::Model) {
            Verdict::Refuse(_) => return Err(Refusal::Unavailable(self.why_not(&found.exposed))),
            Verdict::Ask(_) => Some((Reason::Restricted, self.why(&known, found))),
            Verdict::Run => None,
        };
        // What protects the agent itself weighs more, whatever the tool is.
        let protected = self.protected(found, &stripped.arguments);
        let reason = protected
            .map(|why| (Reason::Protection, why))
            .or(restricted);
        let params = (stripped.arguments.get() != before.get())
            .then(|| with_arguments(call.params, &stripped.arguments));
        let Some((reason, why)) = reason else {
            return Ok(Passage::Open(Admitted::freely(params)));
        };
        let binding = self
            .binding(found, &stripped.arguments)
            .map_err(Refusal::Unavailable)?;
        let asking = Asking {
            binding,
            reason,
            why,
            said: stripped.reason,
            arguments: Arc::from(stripped.arguments),
        };
        let call = ToolCall {
            params: params.as_deref().unwrap_or(call.params),
            ..call
        };
        let passage = self
            .pass(found, asking, call, stripped.is_async, notes)
            .await?;
        Ok(match passage {
            Passage::Open(
                admitted @ Admitted {
                    params: None,
                    approval: _,
                    consent: _,
                },
            ) => Passage::Open(Admitted { params, ..admitted }),
            other => other,
        })
    }

    fn why(&self, known: &Known, found: &Found<'_>) -> String {
        let what = if known.declaration.is_some() {
            "the tool is restricted"
        } else {
            "its server is restricted, and the tool is not declared"
        };
        format!(
            "The agent `{}` wants to call `{}`: {what}.",
            self.state.agent, found.exposed
        )
    }

    /// Changes of itself that an agent may ask for, but not make alone (A89, A234).
    fn protected(
        &self,
        found: &Found<'_>,
        arguments: &serde_json::value::RawValue,
    ) -> Option<String> {
        if found.entry.is_some() || found.tool != manage::Tool::UpdateConfig.name() {
            return None;
        }
        let value: Value = serde_json::from_str(arguments.get()).ok()?;
        let request = manage::UpdateConfig::read(&value).ok()?;
        let file = self.state.own.file().ok()?;
        let registered = self.registered();
        let registered: Vec<&str> = registered.iter().map(String::as_str).collect();
        // What is refused is refused where it is done.
        let changes = manage::tree::review(&file.config(), &request, &registered).ok()?;
        changes.needs_approval().then(|| {
            format!(
                "The agent `{}` wants to change its own `{}`, which loosens what it may do.",
                self.state.agent, request.path
            )
        })
    }

    /// Servers whose entries are the owner's.
    pub(crate) fn registered(&self) -> Vec<String> {
        let config = self.wharf.config();
        config
            .servers
            .iter()
            .map(|entry| entry.name.to_string())
            .collect()
    }

    /// What there is to know of a tool before it is called.
    fn known_of(rights: &Rights, found: &Found<'_>) -> Known {
        let exposed = found.exposed.as_ref();
        let server = found.server();
        Known {
            declaration: rights.declaration(exposed).cloned(),
            server_restricted: is_restricted(rights, &server),
            pinned: found.entry.is_none()
                || rights.pin(exposed).is_some_and(|pin| {
                    let same = pin.server == server && pin.tool.as_str() == found.tool;
                    same && pin.is_reviewed()
                }),
        }
    }

    /// The definition of a tool as the agent's file knows it.
    pub(crate) fn definition(&self, found: &Found<'_>) -> Option<Raw> {
        if found.entry.is_none() {
            let tool = manage::Tool::named(&found.tool)?;
            return Some(raw(&tool.definition()));
        }
        let rights = self.state.own.rights();
        let current = rights.pin(&found.exposed)?.current.clone()?;
        serde_json::value::RawValue::from_string(current).ok()
    }

    /// Whether what its server lists of a tool is what the agent's file has last seen of it.
    pub(crate) fn is_as_seen(&self, found: &Found<'_>) -> bool {
        let Some(entry) = found.entry else {
            return true;
        };
        let rights = self.state.own.rights();
        let pin = rights.pin(&found.exposed);
        let Some(Discovered::Known(known)) = self.wharf.found(entry, &self.state.declared) else {
            return false;
        };
        let mut listed = known.listing.tools.iter();
        let listed = listed.find(|tool| tool.name.as_str() == found.tool);
        listed
            .zip(pin)
            .is_some_and(|(tool, pin)| pin.current.as_deref() == Some(tool.raw.get()))
    }

    /// What runs when a tool is called, as one short text.
    pub(crate) fn what_runs(&self, found: &Found<'_>) -> String {
        match found.entry {
            Some(entry) => key(&self.wharf.0, entry, &Declared::default()),
            None => "wharfinger".into(),
        }
    }

    /// Why a tool that the agent's file names can't be called (A162).
    pub(crate) fn why_not(&self, exposed: &str) -> String {
        let rights = self.state.own.rights();
        let agent = &self.state.agent;
        if let Some(pin) = rights.pin(exposed) {
            let config = self.config();
            let Some(entry) = config.server(pin.server.as_str()) else {
                let why = config.broken.iter().find(|(name, ..)| *name == pin.server);
                let why = why.map_or("it is not registered or not attached", |(.., problem)| {
                    &problem.message
                });
                return format!("{exposed}: its server `{}` is not there: {why}", pin.server);
            };
            if !self.is_available(entry) {
                let status = self.wharf.status_for(&self.state, entry);
                let status = status.map(|status| {
                    let word = status.word();
                    format!("status: {word}: {}", self.wharf.clean(status))
                });
                return format!(
                    "{exposed}: its server `{}` is not available: {}",
                    pin.server,
                    status.unwrap_or_default()
                );
            }
        }
        let declaration = rights.declaration(exposed);
        let known = Known {
            declaration: declaration.cloned(),
            server_restricted: false,
            pinned: rights
                .pin(exposed)
                .is_none_or(crate::model::Pin::is_reviewed),
        };
        match policy::verdict(&known, Caller::Model) {
            Verdict::Refuse(why) => format!("{} ({})", why.message(exposed), next_step(why, agent)),
            Verdict::Run | Verdict::Ask(_) => format!(
                "{exposed}: what its server lists is not what this agent has seen; list the tools again"
            ),
        }
    }

    /// The tools of an agent of the agent profile: those of its servers that it may be told of, as they were last seen,
    /// and its own.
    pub(crate) fn agent_catalog(&self) -> Arc<Catalog> {
        let generation = *self.wharf.0.generation.borrow();
        let place = CatalogKey {
            declared: self.state.declared.key(),
            reserved: self.state.reserved.clone(),
            session: Some(self.state.serial),
        };
        if let Some((made, catalog)) = lock(&self.wharf.0.catalogs).get(&place)
            && *made == generation
        {
            return catalog.clone();
        }
        let rights = self.state.own.rights();
        let config = self.config();
        let mut offered: Vec<(ServerName, Vec<Tool>, Vec<String>)> = vec![];
        for entry in config.servers.iter().filter(|entry| entry.enabled) {
            let Some(Discovered::Known(known)) = self.wharf.found(entry, &self.state.declared)
            else {
                continue;
            };
            if !self.is_available(entry) {
                continue;
            }
            let (mut tools, mut names) = (vec![], vec![]);
            for tool in &known.listing.tools {
                if let Some((tool, name)) = shown(&rights, &entry.name, tool) {
                    tools.push(tool);
                    names.push(name);
                }
            }
            offered.push((entry.name.clone(), tools, names));
        }
        offered.push(own_tools(&rights));
        let offers: Vec<Offer<'_>> = offered
            .iter()
            .map(|(server, tools, names)| Offer {
                server,
                on_clash: OnClash::Suffix,
                tools,
                names,
            })
            .collect();
        let claims = &self.wharf.0.claims;
        let catalog = Arc::new(catalog::merge(&offers, &self.state.reserved, &lock(claims)));
        self.wharf.keep_catalog(place, generation, &catalog);
        catalog
    }
}

pub(crate) fn is_restricted(rights: &Rights, server: &ServerName) -> bool {
    let attached = rights.server(server.as_str());
    attached.is_some_and(|attached| attached.restricted)
}

/// A tool as the model is told of it, and by which name; nothing where it is not, or is not what was last seen of it.
fn shown(rights: &Rights, server: &ServerName, tool: &Tool) -> Option<(Tool, String)> {
    let exposed = rights.exposed(server, tool.name.as_str())?;
    let pin = rights.pin(exposed)?;
    if pin.current.as_deref() != Some(tool.raw.get()) {
        return None;
    }
    let declaration = rights.declaration(exposed)?;
    let known = Known {
        declaration: Some(declaration.clone()),
        server_restricted: is_restricted(rights, server),
        pinned: pin.is_reviewed(),
    };
    policy::is_listed(&known).then(|| {
        let described = described(tool, server);
        (told(&described, declaration), exposed.to_owned())
    })
}

/// A tool without a description gets one that names it and its server (A146).
fn described(tool: &Tool, server: &ServerName) -> Tool {
    if !tool.description().trim().is_empty() {
        return tool.clone();
    }
    let Ok(mut object) = Object::from_raw(&tool.raw) else {
        return tool.clone();
    };
    let text = format!("The tool `{}` of the MCP server `{server}`", tool.name);
    object.set("description", raw(&text));
    Tool {
        name: tool.name.clone(),
        raw: Arc::from(object.to_raw()),
    }
}

/// A model that may have to wait for a person can say why it calls.
fn told(tool: &Tool, declaration: &Declaration) -> Tool {
    if !declaration.restricted {
        return tool.clone();
    }
    Tool {
        name: tool.name.clone(),
        raw: Arc::from(policy::with_reason(&tool.raw)),
    }
}

/// The tools with which an agent manages itself, as far as its owner lets it have them (A89).
fn own_tools(rights: &Rights) -> (ServerName, Vec<Tool>, Vec<String>) {
    let (mut tools, mut names) = (vec![], vec![]);
    for tool in manage::Tool::ALL {
        let Some(declaration) = rights.declaration(tool.name()) else {
            continue;
        };
        let known = Known {
            declaration: Some(declaration.clone()),
            server_restricted: false,
            pinned: true,
        };
        if policy::is_listed(&known) {
            let one = Tool {
                name: ToolName::new(tool.name()).expect("our own names are names"),
                raw: Arc::from(raw(&tool.definition())),
            };
            tools.push(told(&one, declaration));
            names.push(tool.name().to_owned());
        }
    }
    (ServerName::own(), tools, names)
}

/// What an owner can do about it.
fn next_step(why: Why, agent: &crate::model::AgentName) -> String {
    match why {
        Why::Changed | Why::Removed | Why::NotReviewed => {
            format!("its owner looks with `wharf tools diff --agent {agent}`")
        }
        Why::NotDeclared | Why::NotEnabled | Why::Hidden | Why::NotAuthorized => {
            format!("its owner looks with `wharf tools list --agent {agent}`")
        }
    }
}
