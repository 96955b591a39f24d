//! `subscriptions/listen`: how clients of the stateless era hear of changes.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use wharfinger::SessionNote;
use wharfinger::catalog::{Kind, covers};
use wharfinger_wire::json::{Object, Raw, array, empty_object, raw, string};
use wharfinger_wire::message::{self, ErrorObject, INVALID_PARAMS, Id};

use super::answer::{subscription_end, with_subscription};
use super::client::Client;
use super::envelope;
use super::offered::Offered;
use super::out::Out;
use super::post::FRAMES;
use super::reply::{Frame, json, sse};
use crate::serve::Daemon;

/// Resources that one stream may ask for.
const MOST: usize = 1000;

/// What a client wants to hear of.
struct Wanted {
    tools: bool,
    prompts: bool,
    resources: bool,
    /// Each by its URI.
    updates: Vec<String>,
}

/// Reads the filter; an error when the question is none.
fn wanted(params: Option<&RawValue>) -> Result<Wanted, ErrorObject> {
    let wrong = |text: &str| ErrorObject::new(INVALID_PARAMS, text);
    let params = params
        .and_then(|params| Object::from_raw(params).ok())
        .unwrap_or_default();
    let wanted = params
        .object("notifications")
        .ok_or_else(|| wrong("params.notifications must be an object"))?;
    let on = |name: &str| wanted.get(name).is_some_and(|value| value.get() == "true");
    let texts = |name: &str| match wanted.get(name) {
        None => Ok(vec![]),
        Some(list) => {
            let items = array(list).ok();
            let texts = items.and_then(|items| {
                let text = |item: &RawValue| string(item).map(std::borrow::Cow::into_owned);
                items.into_iter().map(text).collect::<Option<Vec<_>>>()
            });
            texts.filter(|texts| texts.len() <= MOST).ok_or_else(|| {
                wrong(&format!(
                    "params.notifications.{name} must be a list of strings, {MOST} at most"
                ))
            })
        }
    };
    Ok(Wanted {
        tools: on("toolsListChanged"),
        prompts: on("promptsListChanged"),
        resources: on("resourcesListChanged"),
        updates: texts("resourceSubscriptions")?,
    })
}

/// Over HTTP it is always a stream, which the client ends by closing it.
pub(super) fn over_http(
    daemon: &Arc<Daemon>,
    client: &Arc<Client>,
    id: &Id,
    params: Option<&RawValue>,
) -> Response {
    let wanted = match wanted(params) {
        Ok(wanted) => wanted,
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
        let out = Out::Frames(frames.clone());
        let ended = tokio::select! {
            () = subscription(&client, &id, wanted, &out) => true,
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
    out: &Out,
) -> Result<(), ErrorObject> {
    let wanted = wanted(params)?;
    subscription(client, id, wanted, out).await;
    Ok(())
}

/// Acknowledges, then tells of each change; ends when there will be no more.
async fn subscription(client: &Client, id: &Id, wanted: Wanted, out: &Out) {
    let session = client.session();
    let subscription = id.to_raw();
    let tell = |method: &str, params: Raw| {
        let params = with_id(&params, &subscription);
        // A client that does not read misses what does not fit.
        out.note(message::notification(method, Some(&params)));
    };
    let mut generation = session.wharf().generation();
    let mut notes = session.notes();
    // Before it is acknowledged, so that nothing is missed after that.
    let watch = session.watch(&wanted.updates).await;
    let mut honoured = json!({});
    let offered = Offered::to(session);
    for (name, on) in [
        ("toolsListChanged", wanted.tools),
        (
            "promptsListChanged",
            wanted.prompts && offered.has("prompts"),
        ),
        (
            "resourcesListChanged",
            wanted.resources && offered.has("resources"),
        ),
    ] {
        if on {
            honoured[name] = json!(true);
        }
    }
    if !watch.uris.is_empty() {
        honoured["resourceSubscriptions"] = json!(watch.uris);
    }
    tell(
        "notifications/subscriptions/acknowledged",
        raw(&json!({ "notifications": honoured })),
    );
    // What the client has at this moment, it has asked for or will ask for.
    let mut known = client.list(&session.known_tools());
    let mut directory = session.directory();
    loop {
        let note = tokio::select! {
            changed = generation.changed() => match changed {
                Ok(()) => None,
                Err(_) => return,
            },
            note = notes.recv() => match note {
                Ok(note) => Some(note),
                Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return,
            },
        };
        let Some(SessionNote::Notification { method, params, .. }) = note else {
            let now = client.list(&session.known_tools());
            if wanted.tools && now.get() != known.get() {
                tell("notifications/tools/list_changed", empty_object());
            }
            known = now;
            let before = std::mem::replace(&mut directory, session.directory());
            let differs =
                |kind: Kind| before.page(kind).list.get() != directory.page(kind).list.get();
            if wanted.prompts && differs(Kind::Prompt) {
                tell("notifications/prompts/list_changed", empty_object());
            }
            if wanted.resources && (differs(Kind::Resource) || differs(Kind::Template)) {
                tell("notifications/resources/list_changed", empty_object());
            }
            continue;
        };
        let about = params.as_deref().and_then(|raw| Object::from_raw(raw).ok());
        let about = about.unwrap_or_default();
        let passes = match method.as_str() {
            "notifications/prompts/list_changed" => wanted.prompts,
            "notifications/resources/list_changed" => wanted.resources,
            "notifications/resources/updated" => about
                .text("uri")
                .is_some_and(|uri| watch.uris.iter().any(|asked| covers(asked, &uri))),
            _ => false,
        };
        if passes {
            tell(&method, about.to_raw());
        }
    }
}

/// The params of a notification with the subscription it comes by.
fn with_id(params: &RawValue, subscription: &RawValue) -> Raw {
    let marked = with_subscription(json!({}), subscription);
    let Ok(mut object) = Object::from_raw(params) else {
        return marked;
    };
    let mut meta = object.object("_meta").unwrap_or_default();
    meta.set_borrowed(wharfinger_wire::era::SUBSCRIPTION_ID, subscription);
    let meta = meta.to_raw();
    object.set("_meta", meta);
    object.to_raw()
}
