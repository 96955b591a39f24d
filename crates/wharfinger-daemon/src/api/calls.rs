//! A call from an owner's door.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use utoipa::ToSchema;
use wharfinger::{CallNote, Refusal, Target, ToolCall, Wharf};
use wharfinger_wire::json::{Object, Raw, empty_object, raw, string};

use super::ApiError;
use super::events::{frame, stream};
use super::problem::{Body, Path};
use super::servers::owner_session;
use crate::serve::Daemon;

/// Which tool to call, and with what.
#[derive(Deserialize, ToSchema)]
pub(crate) struct NewCall {
    /// The name agents see; or `server` and `tool`.
    name: Option<String>,
    /// Whose tool.
    server: Option<String>,
    /// Its server's own name for it.
    tool: Option<String>,
    /// In which session of the agent; the owner's own unless given.
    session: Option<String>,
    /// An object; empty unless given.
    #[schema(value_type = Option<Object>)]
    arguments: Option<Box<RawValue>>,
    /// Past everything that an agent is held to: no approval is asked, and the journal says so.
    #[serde(default, rename = "asOwner")]
    as_owner: bool,
}

/// Calls a tool. The answer is a stream: `progress` and `log` as they come, `waiting` with the `approval` that has to be
/// answered first, then one `result` or `error`. Hanging up cancels the call.
#[utoipa::path(post, path = "/api/agents/{agent}/call", params(("agent" = String, Path)), request_body = NewCall,
    responses((status = 200, content_type = "text/event-stream", description = "progress, log, waiting, then result or error"),
        (status = 404, body = ApiError), (status = 422, body = ApiError)))]
pub(crate) async fn call(
    State(daemon): State<Arc<Daemon>>,
    Path(agent): Path<String>,
    Body(new): Body<NewCall>,
) -> Result<Response, ApiError> {
    let agent = daemon.wharf.agent(&agent)?;
    let arguments = new.arguments.unwrap_or_else(empty_object);
    if Object::from_raw(&arguments).is_err() {
        let error = ApiError::invalid("the call can't be made");
        return Err(error.with_field("arguments".into(), "must be an object".into()));
    }
    if new.name.is_none() && (new.server.is_none() || new.tool.is_none()) {
        return Err(ApiError::invalid(
            "`name`, or `server` and `tool`, say what to call",
        ));
    }
    let session = match &new.session {
        None => owner_session(&daemon, &agent),
        Some(id) => daemon
            .wharf
            .find_session(&agent, id)
            .ok_or_else(|| ApiError::unknown(format!("there is no open session `{id}`")))?,
    };
    let (frames, receiver) = mpsc::channel(1024);
    let stop = daemon.stop.clone();
    let wharf = daemon.wharf.clone();
    daemon.tasks.spawn(async move {
        let params = params(
            new.name
                .as_deref()
                .or(new.tool.as_deref())
                .unwrap_or_default(),
            &arguments,
        );
        let target = match (&new.name, &new.server, &new.tool) {
            (Some(name), ..) => Target::Exposed(name),
            (None, server, tool) => Target::Direct {
                server: server.as_deref().unwrap_or_default(),
                tool: tool.as_deref().unwrap_or_default(),
            },
        };
        if let Target::Exposed(name) = target
            && session.known_tools().find(name).is_none()
        {
            session.tools().await;
        }
        let call = ToolCall {
            target,
            params: &params,
            progress: true,
            log_level: Some("info"),
            patience: None,
            gone: None,
            as_owner: new.as_owner,
        };
        let told = |note| {
            if let Some(frame) = note_frame(&wharf, note) {
                frames.try_send(frame).ok();
            }
        };
        let reply = tokio::select! {
            reply = session.call(call, told) => reply,
            () = frames.closed() => return,
            () = stop.cancelled() => Err(Refusal::Unavailable("the daemon is stopping".into())),
        };
        let last = match reply {
            Ok(result) => frame("result", &result),
            Err(Refusal::Server(error)) => frame(
                "error",
                &json!({ "message": error.message, "code": error.code, "kind": "server" }),
            ),
            Err(refusal) => {
                let kind = match &refusal {
                    Refusal::Unknown(_) => "unknown",
                    Refusal::Unavailable(_) => "unavailable",
                    Refusal::Denied(_) => "denied",
                    Refusal::Waiting { .. } => "waiting",
                    Refusal::Failed { .. } | Refusal::Server(_) => "failed",
                };
                frame(
                    "error",
                    &json!({ "message": refusal.to_string(), "kind": kind }),
                )
            }
        };
        frames.send(last).await.ok();
    });
    Ok(stream(futures_util::stream::unfold(
        receiver,
        |mut receiver| async { receiver.recv().await.map(|frame| (frame, receiver)) },
    )))
}

fn params(name: &str, arguments: &RawValue) -> Raw {
    let mut params = Object::new();
    params.set("name", raw(name));
    params.set_borrowed("arguments", arguments);
    params.to_raw()
}

fn note_frame(wharf: &Wharf, note: CallNote) -> Option<axum::body::Bytes> {
    match note {
        CallNote::Progress(params) => {
            let mut params = Object::from_raw(&params).ok()?.into_owned();
            if let Some(approval) = waits_for(wharf, &params) {
                return Some(frame("waiting", &approval));
            }
            // It means nothing outside of the protocol.
            drop(params.remove("progressToken"));
            Some(frame("progress", &params.to_raw()))
        }
        CallNote::Notification { method, params } if method == "notifications/message" => {
            Some(frame("log", &*params?))
        }
        CallNote::Notification { .. } | CallNote::Asked(_) => None,
    }
}

/// Progress in the name of an approval is no progress yet.
fn waits_for(wharf: &Wharf, params: &Object) -> Option<serde_json::Value> {
    let token = params.get("progressToken").and_then(string)?;
    if !token.starts_with("task_") {
        return None;
    }
    let approvals = wharf.approvals();
    let approval = approvals.iter().find(|open| open.id.as_str() == token)?;
    Some(json!({ "approval": approval.id, "tool": approval.binding.exposed }))
}
