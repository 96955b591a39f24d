//! What a server says of its own accord, sorted: to the actor, to the audience, or answered at once.

use std::sync::Arc;

use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::Notify;
use wharfinger_wire::connection::{Peer, Reply, SkipReason, Skipped};
use wharfinger_wire::json::{Object, raw};
use wharfinger_wire::message::{ErrorObject, Id, METHOD_NOT_FOUND};

use super::asked::Questions;
use super::stderr::{Lines, whole_words};
use super::{Audience, Note};
use crate::model::Declared;

/// The ear of a connection.
pub(super) struct Relay {
    pub(super) audience: Arc<dyn Audience>,
    pub(super) declared: Declared,
    /// See [`Spec::roots`](super::Spec::roots).
    pub(super) roots: Option<Vec<String>>,
    pub(super) questions: Questions,
    /// Its list of tools is not what it was.
    pub(super) changed: Arc<Notify>,
    /// What it writes that is no message, beside the audience.
    pub(super) noise: Lines,
}

impl Relay {
    fn hear_noise(&self, text: String) {
        self.noise.push(text.clone());
        self.audience.note(Note::Noise(text));
    }
}

impl Peer for Relay {
    fn notification(&self, method: &str, params: Option<&RawValue>) {
        match method {
            "notifications/tools/list_changed" => self.changed.notify_one(),
            // The call it belonged to is over, or nobody asked for it.
            "notifications/progress" | "notifications/subscriptions/acknowledged" => {}
            "notifications/cancelled" => {
                let params = params.and_then(|params| Object::from_raw(params).ok());
                let params = params.unwrap_or_default();
                if let Some(id) = params.get("requestId").and_then(Id::parse) {
                    self.questions.take_back(&id);
                }
            }
            _ => self.audience.note(Note::Notification {
                method: method.to_owned(),
                params: params.map(|params| Arc::from(params.to_owned())),
            }),
        }
    }

    fn request(&self, reply: Reply, method: &str, params: Option<&RawValue>) {
        if !allowed(&self.declared, method, params) {
            let text = format!("the client did not declare that it can do this: {method}");
            // A closed connection has nobody to read the answer.
            reply
                .give(Err(ErrorObject::new(METHOD_NOT_FOUND, text)))
                .ok();
            return;
        }
        if let (Some(roots), "roots/list") = (&self.roots, method) {
            let roots: Vec<_> = roots.iter().map(|uri| json!({ "uri": uri })).collect();
            reply.give(Ok(raw(&json!({ "roots": roots })))).ok();
            return;
        }
        if let Some(asked) = self.questions.ask(reply, method, params) {
            self.audience.asked(asked);
        }
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
            SkipReason::Malformed(_) => self.hear_noise(head),
            SkipReason::Oversized => self.hear_noise(format!(
                "a line of {} bytes was skipped, as it is longer than allowed: {head}",
                skipped.bytes
            )),
            // Late and repeated answers are a server's habit, not worth a line each.
            SkipReason::UnknownReply | SkipReason::RepeatedReply => {}
        }
    }
}

/// Whether a client of these capabilities may be asked this. Methods that no capability stands for pass.
pub fn allowed(declared: &Declared, method: &str, params: Option<&RawValue>) -> bool {
    match method {
        "roots/list" => declared.can("roots"),
        "sampling/createMessage" => declared.can("sampling"),
        "elicitation/create" => {
            let params = params.and_then(|params| Object::from_raw(params).ok());
            let by_url = params.unwrap_or_default().text("mode").as_deref() == Some("url");
            let elicitation = declared.capability("elicitation");
            elicitation.is_some_and(|modes| {
                let named = |mode: &str| modes.get(mode).is_some_and(|mode| !mode.is_null());
                // An empty object means forms, as it did before there were modes.
                if by_url {
                    named("url")
                } else {
                    named("form") || !named("url")
                }
            })
        }
        "tasks/get" | "tasks/result" | "tasks/list" | "tasks/cancel" => declared.can("tasks"),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_may_ask_only_what_its_client_declared() {
        let check = |capabilities: &str, method: &str, params: &str, expect: bool| {
            let params = RawValue::from_string(params.to_owned()).unwrap();
            let declared = Declared::by_client(capabilities);
            assert_eq!(
                allowed(&declared, method, Some(&params)),
                expect,
                "{capabilities} {method} {params}"
            );
        };
        check("{}", "roots/list", "{}", false);
        check(r#"{"roots":{}}"#, "roots/list", "{}", true);
        check(r#"{"roots":{}}"#, "sampling/createMessage", "{}", false);
        check(r#"{"sampling":{}}"#, "sampling/createMessage", "{}", true);
        let (form, url) = (r#"{"message":"x"}"#, r#"{"mode":"url"}"#);
        check(r#"{"elicitation":{}}"#, "elicitation/create", form, true);
        check(r#"{"elicitation":{}}"#, "elicitation/create", url, false);
        check(
            r#"{"elicitation":{"url":{}}}"#,
            "elicitation/create",
            url,
            true,
        );
        check(
            r#"{"elicitation":{"url":{}}}"#,
            "elicitation/create",
            form,
            false,
        );
        check(
            r#"{"elicitation":{"form":{},"url":{}}}"#,
            "elicitation/create",
            form,
            true,
        );
        check("{}", "tasks/get", "{}", false);
        check("{}", "x-vendor/ask", "{}", true);
    }
}
