//! What an agent may do, read from its file: which servers it has, what it may do with their tools.
//!
//! A published value: calls read it without a lock or the file.

use std::collections::HashMap;

use serde_json::Value;

use crate::catalog::Accept;
use crate::model::{Declaration, Pin, ServerName, declarations};

/// A server that an agent has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Attached {
    pub(crate) name: ServerName,
    /// Tools that are not declared need a person (A166).
    pub(crate) restricted: bool,
    /// What is taken without a review of its tools, where that is not what it is for all (beyond the guide).
    pub(crate) accept: Option<Accept>,
    /// `npm:…`, `uvx:…`, `custom` or `http:…`, where the agent has it from itself or from another owner's program.
    pub(crate) source: Option<String>,
    /// The row as it is, with what we do not know.
    pub(crate) row: Value,
}

/// Everything an agent may do. Of the chat profile, nothing of it is asked.
#[derive(Clone, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a setting of its own"
)]
pub(crate) struct Rights {
    /// In the order of the file.
    pub(crate) attached: Vec<Attached>,
    declarations: HashMap<String, Declaration>,
    /// By the name that the agent sees.
    pins: HashMap<String, Pin>,
    exposed: HashMap<(ServerName, String), String>,
    /// New tools need a person (A157).
    pub(crate) new_tools_restricted: bool,
    /// Which changes of definitions are taken without a review.
    pub(crate) accept: Accept,
    /// Its servers run whether a session is open or not.
    pub(crate) always_active: bool,
    /// Whoever sits at its client may be asked for approvals.
    pub(crate) ask_client: bool,
    /// Its servers may be asked to run on the host (A29).
    pub(crate) host_access: bool,
}

/// Our own settings of an agent lie in its file's `metadata`, which other programs keep.
pub(crate) const OURS: &str = "wharfinger";

/// Which changes of tools are taken without a review: of an agent among [`OURS`], of a server in its row.
pub(crate) const ACCEPT: &str = "accept_changes";

/// In the row of a server that an agent has installed: the owner has registered one of that name since.
pub(crate) const SHADOWED: &str = "wharfinger_shadowed";

impl Attached {
    pub(crate) fn is_shadowed(&self) -> bool {
        flag(&self.row, SHADOWED)
    }
}

/// A setting of ours.
pub(crate) fn ours<'a>(config: &'a Value, key: &str) -> Option<&'a Value> {
    config.get("metadata")?.get(OURS)?.get(key)
}

impl Rights {
    pub(crate) fn read(config: &Value, pins: Vec<Pin>) -> Self {
        let rows = config.pointer("/mcp/servers").and_then(Value::as_array);
        let mut attached: Vec<Attached> = vec![];
        for row in rows.into_iter().flatten() {
            let name = row.get("name").and_then(Value::as_str);
            let Some(Ok(name)) = name.map(ServerName::new) else {
                continue;
            };
            if attached.iter().any(|known| known.name == name) {
                continue;
            }
            let source = row.get("source").and_then(Value::as_str);
            attached.push(Attached {
                name,
                restricted: flag(row, "restricted"),
                accept: row
                    .get(ACCEPT)
                    .and_then(Value::as_str)
                    .and_then(Accept::parse),
                source: source.map(str::to_owned),
                row: row.clone(),
            });
        }
        let rows = declarations(config).into_iter();
        let restricted = config.pointer("/mcp/new_tools_restricted");
        let accept = ours(config, ACCEPT).and_then(Value::as_str);
        Self {
            attached,
            declarations: rows.map(|row| (row.name.clone(), row)).collect(),
            exposed: pins
                .iter()
                .map(|pin| {
                    let place = (pin.server.clone(), pin.tool.as_str().to_owned());
                    (place, pin.exposed.clone())
                })
                .collect(),
            pins: pins
                .into_iter()
                .map(|pin| (pin.exposed.clone(), pin))
                .collect(),
            new_tools_restricted: restricted.and_then(Value::as_bool).unwrap_or(true),
            accept: accept.and_then(Accept::parse).unwrap_or_default(),
            always_active: ours(config, "always_active").and_then(Value::as_bool) == Some(true),
            ask_client: ours(config, "ask_client").and_then(Value::as_bool) == Some(true),
            host_access: config
                .pointer("/compute/host_access")
                .and_then(Value::as_bool)
                == Some(true),
        }
    }

    pub(crate) fn server(&self, name: &str) -> Option<&Attached> {
        self.attached
            .iter()
            .find(|attached| attached.name.as_str() == name)
    }

    /// Which changes of a server's tools are taken without a review.
    pub(crate) fn accepts(&self, server: &ServerName) -> Accept {
        let own = self
            .server(server.as_str())
            .and_then(|server| server.accept);
        own.unwrap_or(self.accept)
    }

    /// By the name that the agent sees.
    pub(crate) fn declaration(&self, exposed: &str) -> Option<&Declaration> {
        self.declarations.get(exposed)
    }

    pub(crate) fn pin(&self, exposed: &str) -> Option<&Pin> {
        self.pins.get(exposed)
    }

    /// What the agent calls a server's tool.
    pub(crate) fn exposed(&self, server: &ServerName, tool: &str) -> Option<&str> {
        let place = (server.clone(), tool.to_owned());
        self.exposed.get(&place).map(String::as_str)
    }

    pub(crate) fn pins_of(&self, server: &ServerName) -> Vec<Pin> {
        let own = self.pins.values().filter(|pin| pin.server == *server);
        own.cloned().collect()
    }

    /// All pins.
    pub(crate) fn pins(&self) -> impl Iterator<Item = &Pin> {
        self.pins.values()
    }
}

fn flag(row: &Value, key: &str) -> bool {
    row.get(key).and_then(Value::as_bool) == Some(true)
}
