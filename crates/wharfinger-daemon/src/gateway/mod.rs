//! The MCP endpoint of each agent: `/agents/<agent>/mcp` over HTTP, `/agents/<agent>/stdio` for `wharf stdio`.
//!
//! Both eras at once. What a method does is in `answer`; how it travels is in `post`, `stream` and `pump`.

mod answer;
mod ask;
mod begin;
mod client;
mod envelope;
mod here;
mod listen;
mod offered;
mod out;
mod park;
mod patience;
mod post;
mod pump;
mod reply;
mod rounds;
mod seal;
mod shared;
mod stream;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use wharfinger::model::AgentName;
use wharfinger_wire::era::Version;
use wharfinger_wire::message::Id;
use wharfinger_wire::server::PROTOCOL_VERSION_HEADER;

use crate::http::{Way, bearer};
use crate::serve::Daemon;
use client::Client;
use park::Parking;
use seal::Seal;
use shared::Shared;

/// What lives longer than one request.
#[derive(Default)]
pub(crate) struct State {
    /// Clients of the handshake era over HTTP, by their session's id.
    clients: Mutex<HashMap<String, Arc<Client>>>,
    /// Calls of the stateless era that wait for input.
    parking: Parking,
    seal: Seal,
    /// Sessions of clients that have none of their own.
    shared: Shared,
}

impl State {
    /// Its session was ended by somebody else.
    pub(crate) fn forget(&self, session: &str) {
        self.clients().remove(session);
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<String, Arc<Client>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn router() -> Router<Arc<Daemon>> {
    Router::new().route("/agents/{agent}/stdio", post(pump::upgrade))
}

/// The endpoint: who is asked for, whether the caller may, then by HTTP method.
pub(crate) async fn endpoint(
    daemon: Arc<Daemon>,
    agent: AgentName,
    request: hyper::Request<hyper::body::Incoming>,
) -> Response {
    match request.method().as_str() {
        "POST" => post::handle(daemon, agent, request).await,
        "GET" => stream::handle(&daemon, &agent, request.headers()),
        "DELETE" => end(&daemon, &agent, request.headers()).await,
        _ => {
            let allow = [(header::ALLOW, "POST, GET, DELETE")];
            (StatusCode::METHOD_NOT_ALLOWED, allow).into_response()
        }
    }
}

/// An agent's own token opens its endpoint; so does the owner's, and the socket in the home.
pub(crate) fn admit(
    daemon: &Daemon,
    agent: &str,
    way: Way,
    headers: &HeaderMap,
) -> Result<AgentName, Box<Response>> {
    let known = daemon.wharf.agent(agent);
    let trusted = way == Way::Socket
        || bearer(headers).is_some_and(|token| {
            known
                .as_ref()
                .is_ok_and(|agent| daemon.tokens.is(Some(agent), token))
                || daemon.tokens.is(None, token)
        });
    if !trusted {
        let challenge = [(header::WWW_AUTHENTICATE, "Bearer realm=\"wharfinger\"")];
        let text =
            "this endpoint needs the agent's bearer token; `wharf agent endpoint` prints it\n";
        return Err(Box::new(
            (StatusCode::UNAUTHORIZED, challenge, text).into_response(),
        ));
    }
    known.map_err(|error| Box::new((StatusCode::NOT_FOUND, format!("{error}\n")).into_response()))
}

/// Whether a request's header says that it is of the stateless era.
fn is_modern(headers: &HeaderMap) -> bool {
    let version = headers
        .get(PROTOCOL_VERSION_HEADER)
        .and_then(|version| version.to_str().ok());
    version
        .and_then(Version::parse)
        .is_some_and(Version::is_modern)
}

/// A client of the handshake era says goodbye.
async fn end(daemon: &Daemon, agent: &AgentName, headers: &HeaderMap) -> Response {
    if is_modern(headers) {
        return (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "POST")]).into_response();
    }
    match find(daemon, agent, headers, None) {
        Ok(client) => {
            daemon
                .gateway
                .clients()
                .remove(client.session().id().as_str());
            client.end().await;
            StatusCode::OK.into_response()
        }
        Err(refusal) => *refusal,
    }
}

/// The client whose session a request names.
fn find(
    daemon: &Daemon,
    agent: &AgentName,
    headers: &HeaderMap,
    request: Option<&Id>,
) -> Result<Arc<Client>, Box<Response>> {
    let id = headers
        .get(wharfinger_wire::server::SESSION_ID)
        .and_then(|id| id.to_str().ok());
    let Some(id) = id else {
        return Err(Box::new(reply::refuse(
            StatusCode::BAD_REQUEST,
            request,
            -32000,
            "the header Mcp-Session-Id is missing",
        )));
    };
    let client = daemon.gateway.clients().get(id).cloned();
    client
        .filter(|client| client.session().agent() == agent)
        .ok_or_else(|| {
            Box::new(reply::refuse(
                StatusCode::NOT_FOUND,
                request,
                -32001,
                "the session was not found; it may have ended, so begin another with initialize",
            ))
        })
}

/// Ends sessions whose clients have not been heard of for long, and all of them when the daemon stops.
pub(crate) async fn expire(daemon: Arc<Daemon>) {
    let idle = daemon.wharf.limits().session_idle;
    let look = (idle / 10).clamp(Duration::from_millis(100), Duration::from_secs(60));
    while daemon
        .stop
        .run_until_cancelled(tokio::time::sleep(look))
        .await
        .is_some()
    {
        let old: Vec<Arc<Client>> = {
            let mut clients = daemon.gateway.clients();
            let old: Vec<_> = clients
                .values()
                .filter(|client| client.is_idle(idle))
                .cloned()
                .collect();
            for client in &old {
                clients.remove(client.session().id().as_str());
            }
            old
        };
        daemon.begun.expire(&daemon, idle).await;
        for client in old {
            tracing::info!(session = %client.session().id(), "ended, as its client is gone");
            client.end().await;
        }
    }
    daemon.gateway.clients().clear();
}
