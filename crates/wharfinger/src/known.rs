//! Known servers, for agents: what they can have, what to weigh before, and what is not installed afresh.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::manage::{self, Available, Install, Kind};
use crate::registry::{Document, Entry, bundled, is_lookalike};
use crate::session::Session;
use crate::wharf::Wharf;

/// Most known servers that one question is answered with.
const MOST: usize = 20;

impl Wharf {
    /// The list of known servers in force: the one in the program, unless another one was given.
    pub fn known_servers(&self) -> Arc<Document> {
        let given = self.0.known.load_full();
        given.unwrap_or_else(|| Arc::new(bundled().clone()))
    }

    /// Takes another list of known servers.
    pub fn know_servers(&self, document: Arc<Document>) {
        self.0.known.store(Some(document));
    }
}

impl Session {
    /// What an agent can have without its owner's help (A77): servers of its owner that are available to agents, and,
    /// where it looks for something, known ones, with what they need and what to weigh before (A6).
    pub(crate) fn available(&self, arguments: &Value) -> Result<Value, manage::Error> {
        let Available { query } = Available::read(arguments)?;
        let query = query.unwrap_or_default();
        let config = self.wharf.config();
        let rights = self.state.own.rights();
        let open = config
            .servers
            .iter()
            .filter(|entry| entry.enabled && entry.agent_visible);
        let servers: Vec<Value> = open
            .map(|entry| {
                json!({
                    "name": entry.name,
                    "source": crate::installed::source(entry),
                    "attached": rights.server(entry.name.as_str()).is_some(),
                })
            })
            .filter(|server| query.is_empty() || names(server, &query))
            .collect();
        let document = self.wharf.known_servers();
        let known: Vec<Value> = match query.as_str() {
            "" => vec![],
            query => document
                .search(query)
                .into_iter()
                .take(MOST)
                .map(told)
                .collect(),
        };
        Ok(json!({ "success": true, "servers": servers, "known": known }))
    }

    /// What an agent is told of a package that it installs, beside what comes of it; or why it may not (A5, A6, A13).
    pub(crate) fn weighed(&self, install: &Install) -> Result<Vec<String>, manage::Error> {
        let Some(package) = &install.package else {
            return Ok(vec![]);
        };
        let name = manage::package_name(install.kind, package);
        let looks = match install.kind {
            Kind::Npm => Entry {
                npm_package: Some(name.clone()),
                ..Entry::default()
            },
            Kind::Pypi => Entry {
                pypi_package: Some(name.clone()),
                ..Entry::default()
            },
            Kind::Custom | Kind::Http => return Ok(vec![]),
        };
        if is_lookalike(&looks) {
            return Err(manage::Error::Refused(format!(
                "`{name}` is named like a well-known server and is another one; `mcp_available` tells which packages are known"
            )));
        }
        let document = self.wharf.known_servers();
        let of_kind = |entry: &&Entry| match install.kind {
            Kind::Npm => entry.npm_package.as_ref() == Some(&name),
            Kind::Pypi => entry.pypi_package.as_ref() == Some(&name),
            Kind::Custom | Kind::Http => false,
        };
        let Some(entry) = document.entries.iter().find(of_kind) else {
            return Ok(vec![]);
        };
        match &entry.deprecated {
            Some(text) => Err(manage::Error::Refused(format!(
                "`{name}` is not to be installed any more: {text}"
            ))),
            None => Ok(entry.advisory.iter().cloned().collect()),
        }
    }
}

fn names(server: &Value, query: &str) -> bool {
    let has = |key: &str, word: &str| {
        server[key]
            .as_str()
            .is_some_and(|text| text.to_lowercase().contains(word))
    };
    let query = query.to_lowercase();
    query
        .split_whitespace()
        .all(|word| has("name", word) || has("source", word))
}

/// A known server, as `mcp_install` takes it.
fn told(entry: &Entry) -> Value {
    let (kind, package) = match (&entry.npm_package, &entry.pypi_package) {
        (Some(package), _) => ("npm", Some(package)),
        (None, Some(package)) => ("pypi", Some(package)),
        (None, None) => ("http", None),
    };
    let mut told = json!({
        "name": entry.name,
        "type": kind,
        "description": entry.description,
        "required_env_keys": entry.required_env_keys,
    });
    let more = [
        ("package", package),
        ("url", entry.url.as_ref()),
        ("prerequisite", entry.prerequisite.as_ref()),
        ("advisory", entry.advisory.as_ref()),
    ];
    for (key, value) in more {
        if let Some(value) = value {
            told[key] = json!(value);
        }
    }
    if !entry.args.is_empty() {
        told["args"] = json!(entry.args);
    }
    told
}
