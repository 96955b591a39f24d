//! What servers list, against what agents declare and trust: the part of it that is kept in agents' files.

use std::sync::Arc;

use serde_json::{Value, json};
use wharfinger_wire::json::raw;

use crate::agent::{Agent, pin, row};
use crate::agentfile::{Draft, EditError};
use crate::catalog::{
    Before, GivenName, Listed, Other, Others, Outcome, Rules, What, allocate_agent,
    available_tools, reconcile,
};
use crate::discover::{Found, Known};
use crate::journal::{EventKind, Kind, Record, Who};
use crate::model::{DeclarationError, Declared, Pin, Profile, ServerName, declarations, declare};
use crate::rights::{Rights, SHADOWED};
use crate::wharf::{Wharf, lock, now};

/// Which clients a listing is for.
fn listed_for(declared: &Declared) -> &str {
    match &*declared.capabilities {
        "{}" => "",
        other => other,
    }
}

impl Wharf {
    /// A server's list is known, or is another one: every agent that has it looks at it.
    pub(crate) async fn relisted(&self, server: &ServerName, declared: &Declared) {
        let agents: Vec<Arc<Agent>> = lock(&self.0.agents).values().cloned().collect();
        for agent in agents {
            let has = agent.rights().server(server.as_str()).is_some();
            if agent.profile == Profile::Agent && has {
                self.reconcile(&agent, server, declared).await;
            }
        }
    }

    /// Compares what a server lists with what an agent has of it, if there is anything new (A148–A156).
    pub(crate) async fn reconcile(
        &self,
        agent: &Arc<Agent>,
        server: &ServerName,
        declared: &Declared,
    ) {
        let view = agent.view(self.config(), self);
        let Some(entry) = view.server(server.as_str()) else {
            return;
        };
        let declared = entry.tells(declared);
        let Some(Found::Known(known)) = self.found(entry, &declared) else {
            return;
        };
        let listed_for = listed_for(&declared).to_owned();
        let shadows = entry.installed_by.is_none() && is_unmarked(&agent.rights(), server);
        if !shadows && is_settled(&agent.rights(), server, &known, &listed_for) {
            return;
        }
        let (name, known) = (server.clone(), known.clone());
        let done = self
            .edit_agent(agent, move |draft| {
                if shadows {
                    mark(draft, &name);
                }
                compare(draft, &name, &known, &listed_for)
            })
            .await;
        match done {
            Ok(outcomes) => self.tell_outcomes(agent, server, &outcomes).await,
            Err(EditError::Refused(error)) => {
                tracing::warn!(agent = %agent.name, %server, "its tools could not be declared: {error}");
            }
            Err(EditError::File(error)) => {
                tracing::warn!(agent = %agent.name, %server, "its tools could not be declared: {error}");
            }
        }
    }

    async fn tell_outcomes(&self, agent: &Agent, server: &ServerName, outcomes: &[Outcome]) {
        for outcome in outcomes {
            let (kind, word, difference) = match &outcome.what {
                What::Added => (Kind::ToolsDeclared, "new", None),
                What::Filled => (Kind::ToolsDeclared, "filled", None),
                What::Changed(difference) => (Kind::ToolsChanged, "changed", difference.as_ref()),
                What::Accepted(difference) => (Kind::ToolsChanged, "accepted", Some(difference)),
                What::Reverted => (Kind::ToolsChanged, "reverted", None),
                What::Removed => (Kind::ToolsChanged, "removed", None),
                What::Returned => (Kind::ToolsChanged, "returned", None),
            };
            let subject = json!({
                "exposed": outcome.exposed,
                "what": word,
                "class": difference.map(|difference| difference.class),
                "suspicions": outcome.suspicions,
            });
            if let What::Changed(_) = outcome.what {
                tracing::warn!(agent = %agent.name, %server, tool = %outcome.exposed, "changed, so it is off until it is reviewed");
            }
            let record = Record {
                agent: Some(agent.name.clone()),
                server: Some(server.clone()),
                tool: Some(outcome.tool.as_str().to_owned()),
                subject: Some(raw(&subject)),
                text: difference.map(ToString::to_string),
                ..Record::new(kind, Who::Server)
            };
            self.0.journal.write(record).await;
        }
        self.0.events.tell(EventKind::ToolsDeclared {
            agent: agent.name.clone(),
            server: server.clone(),
            changed: outcomes.iter().map(|one| one.exposed.clone()).collect(),
        });
    }
}

/// Whether an agent has installed a server of that name itself, and its row does not say yet that the owner's has stood in
/// its place.
fn is_unmarked(rights: &Rights, server: &ServerName) -> bool {
    let attached = rights.server(server.as_str());
    attached.is_some_and(|attached| attached.source.is_some() && !attached.is_shadowed())
}

/// What is reviewed from now on is the owner's server. Should that go, the agent's own must not have its place.
fn mark(draft: &mut Draft, server: &ServerName) {
    let servers = draft.config.pointer_mut("/mcp/servers");
    for entry in servers.and_then(Value::as_array_mut).into_iter().flatten() {
        if entry["name"] == *server.as_str() {
            entry[SHADOWED] = true.into();
        }
    }
}

/// Whether an agent has seen exactly this list.
fn is_settled(rights: &Rights, server: &ServerName, known: &Known, listed_for: &str) -> bool {
    let listed = |pin: &Pin| {
        let mut tools = known.listing.tools.iter();
        tools.any(|tool| tool.name == pin.tool)
    };
    let pins = rights.pins_of(server);
    let seen = known.listing.tools.iter().all(|tool| {
        let pin = pins.iter().find(|pin| pin.tool == tool.name);
        pin.is_some_and(|pin| {
            pin.current.as_deref() == Some(tool.raw.get())
                && rights.declaration(&pin.exposed).is_some_and(|declaration| {
                    declaration.mcp_tool_hash.is_some()
                        && declaration.mcp_tool_status != Some(crate::model::ToolStatus::Removed)
                })
        })
    });
    seen && pins
        .iter()
        .filter(|pin| pin.listed_for == listed_for)
        .all(|pin| {
            listed(pin)
                || rights.declaration(&pin.exposed).is_none_or(|declaration| {
                    declaration.mcp_tool_status == Some(crate::model::ToolStatus::Removed)
                })
        })
}

/// One comparison, over what the file has at this moment (A98).
fn compare(
    draft: &mut Draft,
    server: &ServerName,
    known: &Known,
    listed_for: &str,
) -> Result<Vec<Outcome>, DeclarationError> {
    let pins: Vec<Pin> = draft.pins.drain(..).filter_map(pin).collect();
    let rows = declarations(&draft.config);
    let given: Vec<GivenName> = pins
        .iter()
        .map(|pin| GivenName {
            server: pin.server.clone(),
            tool: pin.tool.clone(),
            exposed: pin.exposed.clone(),
        })
        .collect();
    let tools = &known.listing.tools;
    let names: Vec<_> = tools.iter().map(|tool| tool.name.clone()).collect();
    // A row that was made by hand for a tool by its exact name is that tool's.
    let own = crate::manage::Tool::ALL.map(|tool| tool.name().to_owned());
    let names = allocate_agent(server, &names, &given, &own);
    let others = Others::new(
        pins.iter()
            .map(|pin| Other {
                server: pin.server.clone(),
                tool: pin.tool.clone(),
                exposed: pin.exposed.clone(),
            })
            .collect(),
    );
    let rights = Rights::read(&draft.config, vec![]);
    let rules = Rules {
        new_tools_restricted: rights.new_tools_restricted,
        accept: rights.accepts(server),
        now_ms: i64::try_from(now()).unwrap_or(i64::MAX),
    };
    let listed = Listed {
        server,
        tools,
        names: &names,
        listed_for,
        complete: true,
    };
    let before = Before {
        declarations: rows,
        pins,
    };
    let after = reconcile(&listed, &before, &rules, &others);
    declare(&mut draft.config, &after.declarations)?;
    let servers = draft.config.pointer_mut("/mcp/servers");
    for entry in servers.and_then(Value::as_array_mut).into_iter().flatten() {
        if entry["name"] == *server.as_str() {
            entry["available_tools"] = available_tools(tools);
        }
    }
    draft.pins = after.pins.into_iter().map(row).collect();
    Ok(after.outcomes)
}
