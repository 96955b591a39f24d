//! `GET` on the endpoint: the stream of a session of the handshake era, for what belongs to no request.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use wharfinger::SessionNote;
use wharfinger::catalog::Kind;
use wharfinger::model::AgentName;
use wharfinger_wire::message;
use wharfinger_wire::server::SESSION_ID;

use super::client::Client;
use super::out::Out;
use super::post::FRAMES;
use super::reply::{refuse, sse};
use super::{find, is_modern};
use crate::serve::Daemon;

pub(super) fn handle(daemon: &Arc<Daemon>, agent: &AgentName, headers: &HeaderMap) -> Response {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if is_modern(headers) {
        return (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "POST")]).into_response();
    }
    let accept = text(header::ACCEPT.as_str()).unwrap_or("*/*");
    if !accept.contains("text/event-stream") && !accept.contains("*/*") {
        let text = "this stream is text/event-stream, which the Accept header must name";
        return refuse(StatusCode::NOT_ACCEPTABLE, None, -32000, text);
    }
    let client = match find(daemon, agent, headers, None) {
        Ok(client) => client,
        Err(refusal) => return *refusal,
    };
    if client.streaming.swap(true, Ordering::AcqRel) {
        let text = "this session has its stream already";
        return refuse(StatusCode::CONFLICT, None, -32000, text);
    }
    let (frames, receiver) = mpsc::channel(FRAMES);
    let id = HeaderValue::from_str(client.session().id().as_str());
    let (told, stop, serving) = (client.clone(), daemon.stop.clone(), daemon.clone());
    daemon.tasks.spawn(async move {
        let gone = async {
            tokio::select! {
                () = frames.closed() => {}
                () = told.session().over() => {}
            }
        };
        let out = Out::Frames(frames.clone());
        let telling = tell(&serving, &told, &out, gone);
        stop.run_until_cancelled(telling).await;
        told.streaming.store(false, Ordering::Release);
        told.touch();
    });
    let mut response = sse(receiver, None);
    if let Ok(id) = id {
        response.headers_mut().insert(SESSION_ID, id);
    }
    response
}

/// Tells a client of the handshake era what belongs to none of its requests, until it is gone.
pub(super) async fn tell(
    daemon: &Arc<Daemon>,
    client: &Arc<Client>,
    out: &Out,
    gone: impl Future<Output = ()>,
) {
    let session = client.session();
    let mut notes = session.notes();
    let mut asks = session.asks();
    let over = CancellationToken::new();
    let _ended = over.clone().drop_guard();
    let mut generation = session.wharf().generation();
    let mut gone = std::pin::pin!(gone);
    // A change since the last list counts, also one from before this stream was opened.
    generation.mark_changed();
    loop {
        let message = tokio::select! {
            () = &mut gone => return,
            changed = generation.changed() => {
                if changed.is_err() {
                    return;
                }
                for kind in client.others_changed() {
                    let method = match kind {
                        Kind::Prompt => "notifications/prompts/list_changed",
                        Kind::Resource | Kind::Template => "notifications/resources/list_changed",
                    };
                    out.note(message::notification(method, None));
                }
                if !client.knows_a_list() || !client.list_changed() {
                    continue;
                }
                message::notification("notifications/tools/list_changed", None)
            },
            Some(asked) = asks.recv() => {
                client.pass(daemon, asked, out.clone(), over.clone());
                continue;
            }
            note = notes.recv() => match note {
                Ok(SessionNote::Notification { method, params, .. }) => {
                    message::notification(&method, params.as_deref())
                }
                Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return,
            },
        };
        // A client that does not read misses what does not fit.
        out.note(message);
    }
}
