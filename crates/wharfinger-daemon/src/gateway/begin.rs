//! How a client begins: what it says of itself, and the session it gets.

use std::sync::Arc;

use serde_json::value::RawValue;
use wharfinger::SessionOptions;
use wharfinger::model::{AgentName, Declared, SessionId};
use wharfinger_wire::era::Version;
use wharfinger_wire::json::Object;
use wharfinger_wire::server::RequestMeta;

use super::answer;
use super::client::Client;
use crate::home::random_hex;
use crate::serve::Daemon;

/// Where an agent has as many sessions as it may, the one that was not heard of for longest makes room, if it is idle:
/// many clients never say goodbye.
pub(super) fn make_room(daemon: &Arc<Daemon>, agent: &AgentName) -> Result<(), String> {
    let limit = daemon.wharf.limits().sessions;
    let oldest = {
        let mut clients = daemon.gateway.clients();
        let own = || {
            clients
                .values()
                .filter(|client| client.session().agent() == agent)
        };
        if own().count() < limit {
            return Ok(());
        }
        let idle = own().filter(|client| client.is_idle(std::time::Duration::ZERO));
        let oldest = idle.max_by_key(|client| client.silent_for()).cloned();
        let oldest =
            oldest.ok_or_else(|| format!("{limit} sessions of this agent are in use already"))?;
        clients.remove(oldest.session().id().as_str());
        oldest
    };
    daemon.tasks.spawn(async move { oldest.end().await });
    Ok(())
}

/// A client with a session of its own, whose servers begin to be listed.
pub(super) fn begin(
    daemon: &Arc<Daemon>,
    agent: &AgentName,
    version: Version,
    described: Described,
) -> Client {
    let session = daemon.wharf.session(SessionOptions {
        agent: agent.clone(),
        id: SessionId::new(&random_hex()[..32]).expect("hex is visible ASCII"),
        declared: described.declared,
        reserved: vec![],
        lasting: false,
    });
    let listing = session.clone();
    // Servers that were never listed start to be now, so that the first `tools/list` waits less.
    daemon
        .tasks
        .spawn(async move { drop(listing.tools().await) });
    Client::new(session, version, &described.name)
}

/// How a client describes itself.
pub(super) struct Described {
    /// What it calls itself.
    pub(super) name: String,
    pub(super) declared: Declared,
}

impl Described {
    /// In the params of `initialize`.
    pub(super) fn by_handshake(params: Option<&RawValue>) -> Self {
        let params = params.and_then(|params| Object::from_raw(params).ok());
        let params = params.unwrap_or_default();
        Self {
            name: answer::client_name(params.get("clientInfo")),
            declared: declared(params.get("capabilities")),
        }
    }

    /// In a request of the stateless era.
    pub(super) fn by_request(meta: &RequestMeta) -> Self {
        Self {
            name: answer::client_name(meta.client_info.as_deref()),
            declared: declared(meta.capabilities.as_deref()),
        }
    }
}

fn declared(capabilities: Option<&RawValue>) -> Declared {
    match capabilities.map(RawValue::get) {
        None | Some("{}") => Declared::default(),
        Some(text) => Declared::by_client(text),
    }
}
