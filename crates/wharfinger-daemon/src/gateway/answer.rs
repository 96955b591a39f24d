//! What each method does, whichever way the request came.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use wharfinger::{CallNote, Refusal, Request};
use wharfinger_wire::era::{SERVER_INFO, Version, to_stateless_result, with_server_info};
use wharfinger_wire::json::{Object, Raw, empty_object, raw};
use wharfinger_wire::message::{
    self, ErrorObject, INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND,
};
use wharfinger_wire::server::{RequestMeta, is_logged_at, log_rank};

use super::client::Client;
use super::envelope::supported;
use super::offered::{Offered, TASKS, is_of_other_era, listed, needed};
use super::out::Out;
use super::park::not_declared;
use crate::serve::Daemon;

/// A request on its way to its answer.
pub(super) struct Question<'a> {
    pub(super) daemon: &'a Arc<Daemon>,
    pub(super) client: &'a Arc<Client>,
    pub(super) method: &'a str,
    pub(super) params: Option<&'a RawValue>,
    pub(super) meta: &'a RequestMeta,
    /// Where notifications that belong to it go, complete and in order, and what its server asks meanwhile.
    pub(super) out: Out,
}

/// Who we are, for clients.
static SERVER: LazyLock<Raw> = LazyLock::new(|| {
    raw(&json!({
        "name": "wharfinger",
        "title": "Wharfinger",
        "version": env!("CARGO_PKG_VERSION"),
    }))
});

/// How long a client that asks what there is waits for servers that were never asked themselves.
const SETTLE: Duration = Duration::from_secs(2);

impl Question<'_> {
    /// Answers; what belongs to it goes out before.
    pub(super) async fn answer(&self) -> Result<Raw, ErrorObject> {
        self.is_offered().await?;
        if self.client.version.is_modern() {
            let result = self.stateless().await?;
            return Ok(with_server_info(&result, &SERVER));
        }
        match self.method {
            "ping" => Ok(empty_object()),
            "tools/list" => {
                self.begins_at_start()?;
                Ok(self.tools().await.clone().as_ref().to_owned())
            }
            "tools/call" => self.of_handshake().await,
            "logging/setLevel" => self.set_level(),
            method => match listed(method) {
                Some(kind) => {
                    self.begins_at_start()?;
                    let page = self.client.session().list(kind).await;
                    self.client.sees(kind, &page.list);
                    Ok(page.list.as_ref().to_owned())
                }
                None if self.knows(method) => self.of_handshake().await,
                None => Err(unknown_method(method)),
            },
        }
    }

    async fn stateless(&self) -> Result<Raw, ErrorObject> {
        let private = |ttl| Some((ttl, "private"));
        match self.method {
            "server/discover" => Ok(discover(self.client).await),
            "tools/list" => {
                self.begins_at_start()?;
                let list = self.tools().await;
                Ok(to_stateless_result(&list, private(0)).into_owned())
            }
            "tools/call" => self.of_stateless(None).await,
            // A resource may be kept for as long as its server says; if it says nothing, not at all.
            "resources/read" => self.of_stateless(private(0)).await,
            method => match listed(method) {
                Some(kind) => {
                    self.begins_at_start()?;
                    let page = self.client.session().list(kind).await;
                    Ok(to_stateless_result(&page.list, private(page.ttl_ms)).into_owned())
                }
                None if self.knows(method) => self.of_stateless(None).await,
                None => Err(unknown_method(method)),
            },
        }
    }

    /// What no server has is no method of ours. Servers that were never asked are asked first.
    async fn is_offered(&self) -> Result<(), ErrorObject> {
        if listed(self.method).is_none() && !Request::knows(self.method) {
            return Ok(());
        }
        let session = self.client.session();
        if self.client.version.is_modern() && needed(self.method) == "tasks" {
            let declared = session.declared().capability("extensions");
            if declared.is_none_or(|extensions| extensions.get(TASKS).is_none()) {
                return Err(not_declared(self.method));
            }
        }
        if !session.knows_all() {
            session.settle(session.wharf().limits().list_wait).await;
        }
        if Offered::to(session).has(needed(self.method)) {
            Ok(())
        } else {
            Err(unknown_method(self.method))
        }
    }

    fn knows(&self, method: &str) -> bool {
        Request::knows(method) && !is_of_other_era(method, self.client.version)
    }

    /// Lists come in one page, so there is no other place to begin at.
    fn begins_at_start(&self) -> Result<(), ErrorObject> {
        let params = self.params.and_then(|params| Object::from_raw(params).ok());
        match params.unwrap_or_default().text("cursor") {
            Some(cursor) if !cursor.is_empty() => {
                let text = format!("there is no page at the cursor {cursor:?}");
                Err(ErrorObject::new(INVALID_PARAMS, text))
            }
            _ => Ok(()),
        }
    }

    async fn tools(&self) -> Arc<RawValue> {
        let catalog = self.client.session().tools().await;
        let list = self.client.list(&catalog);
        self.client.sees_tools(&list);
        list
    }

    fn set_level(&self) -> Result<Raw, ErrorObject> {
        let params = self.params.and_then(|params| Object::from_raw(params).ok());
        let params = params.unwrap_or_default();
        let level = params.text("level").unwrap_or_default();
        if self.client.session().set_log_level(&level) {
            Ok(empty_object())
        } else {
            Err(ErrorObject::new(
                INVALID_PARAMS,
                format!("there is no log level {level:?}"),
            ))
        }
    }

    /// Checks what can be checked before a server is asked.
    pub(super) fn checked(&self) -> Result<&RawValue, ErrorObject> {
        let wrong = |text| Err(ErrorObject::new(INVALID_PARAMS, text));
        let params = self.params.unwrap_or(RawValue::NULL);
        let Ok(object) = Object::from_raw(params) else {
            return wrong("params must be an object");
        };
        if self.method != "tools/call" {
            return Ok(params);
        }
        if object.text("name").is_none() {
            return wrong("params.name must be a string");
        }
        let arguments = object.get("arguments");
        // It is JSON, so its first character says what it is.
        if arguments.is_some_and(|arguments| !arguments.get().starts_with('{')) {
            return wrong("params.arguments must be an object");
        }
        Ok(params)
    }

    /// A reply, or why there is none in this client's words.
    pub(super) fn told(&self, reply: Result<Raw, Refusal>) -> Result<Raw, ErrorObject> {
        match reply {
            Ok(result) => Ok(result),
            Err(Refusal::Server(error)) => Err(self.in_words_of_era(error)),
            // No error: the model is told to come back.
            Err(Refusal::Waiting { text, .. }) => Ok(text_result(&text)),
            Err(
                refusal @ (Refusal::Unknown(_)
                | Refusal::Unavailable(_)
                | Refusal::Denied(_)
                | Refusal::Failed { .. }),
            ) => {
                let text = refusal.to_string();
                // The model sees it, so that it can do something about it.
                if self.method == "tools/call" {
                    Ok(error_result(&text))
                } else {
                    Err(ErrorObject::new(INTERNAL_ERROR, text))
                }
            }
        }
    }

    /// The stateless era has another code for resources that are not there.
    fn in_words_of_era(&self, error: ErrorObject) -> ErrorObject {
        if !self.client.version.is_modern() || error.code != RESOURCE_NOT_FOUND {
            return error;
        }
        ErrorObject {
            code: INVALID_PARAMS,
            raw: None,
            ..error
        }
    }

    /// What is said meanwhile, if this client wants it.
    pub(super) fn tell(&self, note: CallNote) {
        if let Some(message) = self.note(note) {
            // A client that does not read misses what does not fit.
            self.out.note(message);
        }
    }

    /// A notification as it is sent; `None` for one that this client does not want.
    fn note(&self, note: CallNote) -> Option<Vec<u8>> {
        match note {
            CallNote::Progress(params) => {
                let token = self.meta.progress_token.as_deref()?;
                let mut params = Object::from_raw(&params).ok()?;
                params.set_borrowed("progressToken", token);
                Some(message::notification(
                    "notifications/progress",
                    Some(&params.to_raw()),
                ))
            }
            CallNote::Notification { method, params } => {
                let wanted = !self.client.version.is_modern()
                    || (method == "notifications/message" && self.wants(params.as_deref()));
                wanted.then(|| message::notification(&method, params.as_deref()))
            }
            // Answered with an error: there is nobody to ask.
            CallNote::Asked(_) => None,
        }
    }

    /// In the stateless era, log messages come only with a request that asks for them.
    fn wants(&self, params: Option<&RawValue>) -> bool {
        let least = self.meta.log_level.as_deref().and_then(log_rank);
        least.is_some_and(|least| is_logged_at(params, least))
    }
}

/// What became of a result, if it is not what it was.
pub(super) fn changed(result: Cow<'_, RawValue>) -> Option<Raw> {
    match result {
        Cow::Owned(changed) => Some(changed),
        Cow::Borrowed(_) => None,
    }
}

/// A result of one text.
fn text_result(text: &str) -> Raw {
    raw(&json!({ "content": [{ "type": "text", "text": text }] }))
}

/// An error as the model sees it: a result, so that it can do something about it.
fn error_result(text: &str) -> Raw {
    raw(&json!({ "content": [{ "type": "text", "text": text }], "isError": true }))
}

fn unknown_method(method: &str) -> ErrorObject {
    ErrorObject::new(METHOD_NOT_FOUND, format!("method not found: {method}"))
}

/// The result of `initialize`.
pub(super) async fn initialize(client: &Client) -> Raw {
    client.session().settle(SETTLE).await;
    let mut result = Object::new();
    result.set("protocolVersion", raw(client.version.as_str()));
    result.set(
        "capabilities",
        Offered::to(client.session()).to_raw(client.version),
    );
    result.set("serverInfo", SERVER.clone());
    let instructions = client.session().instructions();
    if !instructions.is_empty() {
        result.set("instructions", raw(&instructions));
    }
    result.to_raw()
}

async fn discover(client: &Client) -> Raw {
    client.session().settle(SETTLE).await;
    let mut result = Object::new();
    result.set("resultType", raw("complete"));
    result.set("supportedVersions", raw(&supported()));
    result.set(
        "capabilities",
        Offered::to(client.session()).to_raw(client.version),
    );
    let instructions = client.session().instructions();
    if !instructions.is_empty() {
        result.set("instructions", raw(&instructions));
    }
    result.set("ttlMs", raw(&0));
    result.set("cacheScope", raw("private"));
    result.to_raw()
}

/// The acknowledgement of a subscription, and its end.
pub(super) fn with_subscription(params: Value, id: &RawValue) -> Raw {
    let mut object = Object::new();
    if let Value::Object(members) = params {
        for (key, value) in members {
            object.set(key, raw(&value));
        }
    }
    let mut meta = Object::new();
    meta.set_borrowed(wharfinger_wire::era::SUBSCRIPTION_ID, id);
    object.set("_meta", meta.to_raw());
    object.to_raw()
}

/// What a session is begun for: the name a client gives itself.
pub(super) fn client_name(info: Option<&RawValue>) -> String {
    let info = info
        .and_then(|info| Object::from_raw(info).ok())
        .unwrap_or_default();
    info.text("name").unwrap_or_default().into_owned()
}

/// The result that ends a subscription.
pub(super) fn subscription_end(id: &RawValue) -> Raw {
    let end = with_subscription(json!({ "resultType": "complete" }), id);
    let mut object = Object::from_raw(&end).unwrap_or_default();
    let mut meta = object.object("_meta").unwrap_or_default();
    meta.set(SERVER_INFO, SERVER.clone());
    let meta = meta.to_raw();
    object.set("_meta", meta);
    object.to_raw()
}

/// The version of a handshake, and whether the request was one at all.
pub(super) fn requested_version(params: Option<&RawValue>) -> Result<Version, ErrorObject> {
    let params = params
        .and_then(|params| Object::from_raw(params).ok())
        .unwrap_or_default();
    let requested = params.text("protocolVersion").ok_or_else(|| {
        ErrorObject::new(INVALID_PARAMS, "params.protocolVersion must be a string")
    })?;
    Ok(wharfinger_wire::server::negotiate(&requested))
}
