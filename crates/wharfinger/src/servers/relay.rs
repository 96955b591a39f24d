//! What a server says of its own accord, sorted: to the actor, to the audience, or answered at once.

use std::sync::Arc;

use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::Notify;
use wharfinger_wire::connection::{Peer, SkipReason, Skipped};
use wharfinger_wire::json::{Raw, raw};
use wharfinger_wire::message::{ErrorObject, Id, METHOD_NOT_FOUND};

use super::stderr::whole_words;
use super::{Audience, Note};
use crate::model::Declared;

/// The ear of a connection.
pub(super) struct Relay {
    pub(super) audience: Arc<dyn Audience>,
    pub(super) declared: Declared,
    /// Its list of tools is not what it was.
    pub(super) changed: Arc<Notify>,
}

impl Peer for Relay {
    fn notification(&self, method: &str, params: Option<&RawValue>) {
        match method {
            "notifications/tools/list_changed" => self.changed.notify_one(),
            // The call it belonged to is over, or nobody asked for it.
            "notifications/progress" | "notifications/subscriptions/acknowledged" => {}
            _ => self.audience.note(Note::Notification {
                method: method.to_owned(),
                params: params.map(|params| Arc::from(params.to_owned())),
            }),
        }
    }

    fn request(
        &self,
        _: &Id,
        method: &str,
        _: Option<&RawValue>,
    ) -> Option<Result<Raw, ErrorObject>> {
        let declares_roots = self.declared.capabilities.contains("\"roots\"");
        Some(match method {
            "roots/list" if declares_roots => {
                let roots: Vec<_> = self
                    .declared
                    .roots
                    .iter()
                    .map(|uri| json!({ "uri": uri }))
                    .collect();
                Ok(raw(&json!({ "roots": roots })))
            }
            _ => Err(ErrorObject::new(
                METHOD_NOT_FOUND,
                format!("not supported: {method}"),
            )),
        })
    }

    fn skipped(&self, skipped: &Skipped) {
        let head: String = skipped.head.chars().take(200).collect();
        let cut = head.len() < skipped.head.len() || skipped.bytes > skipped.head.len() + 1;
        let head = if cut {
            whole_words(&head)
        } else {
            head.trim_end()
        }
        .to_owned();
        match &skipped.reason {
            SkipReason::Malformed(_) => self.audience.note(Note::Noise(head)),
            SkipReason::Oversized => self.audience.note(Note::Noise(format!(
                "a line of {} bytes was skipped, as it is longer than allowed: {head}",
                skipped.bytes
            ))),
            // Late and repeated answers are a server's habit, not worth a line each.
            SkipReason::UnknownReply | SkipReason::RepeatedReply => {}
        }
    }
}
