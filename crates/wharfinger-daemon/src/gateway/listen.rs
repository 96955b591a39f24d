//! `subscriptions/listen`: how clients of the stateless era hear of changes.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use wharfinger_wire::json::Object;
use wharfinger_wire::message::{self, ErrorObject, INVALID_PARAMS, Id};

use super::answer::{subscription_end, with_subscription};
use super::client::Client;
use super::envelope;
use super::post::FRAMES;
use super::reply::{Frame, json, sse};
use crate::serve::Daemon;

/// Whether changes of the tool list are asked for; an error when the question is none.
fn wanted(params: Option<&RawValue>) -> Result<bool, ErrorObject> {
    let params = params
        .and_then(|params| Object::from_raw(params).ok())
        .unwrap_or_default();
    let wanted = params.object("notifications").ok_or_else(|| {
        ErrorObject::new(INVALID_PARAMS, "params.notifications must be an object")
    })?;
    Ok(wanted
        .get("toolsListChanged")
        .is_some_and(|value| value.get() == "true"))
}

/// Over HTTP it is always a stream, which the client ends by closing it.
pub(super) fn over_http(
    daemon: &Arc<Daemon>,
    client: &Arc<Client>,
    id: &Id,
    params: Option<&RawValue>,
) -> Response {
    let tools = match wanted(params) {
        Ok(tools) => tools,
        Err(error) => {
            return json(
                envelope::status(error.code),
                message::error(Some(id), &error),
            );
        }
    };
    let (frames, receiver) = mpsc::channel(FRAMES);
    let (client, id, stop) = (client.clone(), id.clone(), daemon.stop.clone());
    let over = client.session().clone();
    daemon.tasks.spawn(async move {
        let told = |message| frames.try_send(Frame::note(message)).is_ok();
        let ended = tokio::select! {
            () = subscription(&client, &id, tools, told) => true,
            () = stop.cancelled() => true,
            () = over.over() => true,
            () = frames.closed() => false,
        };
        if ended {
            let end = message::result(&id, &subscription_end(&id.to_raw()));
            frames.send(Frame::reply(StatusCode::OK, end)).await.ok();
        }
    });
    sse(receiver, None)
}

/// Over stdio, the client ends it by taking the request back; then nothing more is said.
pub(super) async fn over_stdio(
    client: &Client,
    id: &Id,
    params: Option<&RawValue>,
    send: impl FnMut(Vec<u8>) -> bool,
) -> Result<(), ErrorObject> {
    let tools = wanted(params)?;
    subscription(client, id, tools, send).await;
    Ok(())
}

/// Acknowledges, then tells of each change; ends when there will be no more.
async fn subscription(
    client: &Client,
    id: &Id,
    tools: bool,
    mut send: impl FnMut(Vec<u8>) -> bool,
) {
    let raw = id.to_raw();
    let mut generation = client.session().wharf().generation();
    let honoured = if tools {
        json!({ "toolsListChanged": true })
    } else {
        json!({})
    };
    let acknowledged = with_subscription(json!({ "notifications": honoured }), &raw);
    send(message::notification(
        "notifications/subscriptions/acknowledged",
        Some(&acknowledged),
    ));
    // What the client has at this moment, it has asked for or will ask for.
    let session = client.session();
    let mut known = client.list(&session.known_tools());
    while generation.changed().await.is_ok() {
        let now = client.list(&session.known_tools());
        if tools && now.get() != known.get() {
            known = now;
            let params = with_subscription(json!({}), &raw);
            send(message::notification(
                "notifications/tools/list_changed",
                Some(&params),
            ));
        }
    }
}
