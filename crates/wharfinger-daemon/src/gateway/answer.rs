//! What each method does, whichever way the request came.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use serde_json::json;
use serde_json::value::RawValue;
use wharfinger::{CallNote, Refusal, Target, ToolCall};
use wharfinger_wire::era::{
    SERVER_INFO, Version, to_handshake_result, to_stateless_result, with_server_info,
};
use wharfinger_wire::json::{Object, Raw, empty_object, raw};
use wharfinger_wire::message::{
    self, ErrorObject, INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND,
};
use wharfinger_wire::server::{RequestMeta, is_logged_at, log_rank};

use super::client::Client;
use super::envelope::supported;

/// A request on its way to its answer.
pub(super) struct Question<'a> {
    pub(super) client: &'a Arc<Client>,
    pub(super) method: &'a str,
    pub(super) params: Option<&'a RawValue>,
    pub(super) meta: &'a RequestMeta,
}

/// Who we are, for clients.
static SERVER: LazyLock<Raw> = LazyLock::new(|| {
    raw(&json!({
        "name": "wharfinger",
        "title": "Wharfinger",
        "version": env!("CARGO_PKG_VERSION"),
    }))
});

fn capabilities() -> Raw {
    raw(&json!({ "logging": {}, "tools": { "listChanged": true } }))
}

impl Question<'_> {
    /// Answers; notifications that belong to it go to `tell`, complete and in order.
    pub(super) async fn answer(
        &self,
        tell: impl FnMut(Vec<u8>) + Send,
    ) -> Result<Raw, ErrorObject> {
        if self.client.version.is_modern() {
            let result = self.stateless(tell).await?;
            return Ok(with_server_info(&result, &SERVER));
        }
        match self.method {
            "ping" => Ok(empty_object()),
            "tools/list" => Ok(self.list().await.clone().as_ref().to_owned()),
            "tools/call" => self.call(tell).await,
            "logging/setLevel" => self.set_level(),
            _ => Err(unknown_method(self.method)),
        }
    }

    async fn stateless(&self, tell: impl FnMut(Vec<u8>) + Send) -> Result<Raw, ErrorObject> {
        let result = match self.method {
            "server/discover" => discover(self.client),
            "tools/list" => {
                let list = self.list().await;
                to_stateless_result(&list, Some((0, "private"))).into_owned()
            }
            "tools/call" => self.call(tell).await?,
            _ => return Err(unknown_method(self.method)),
        };
        Ok(result)
    }

    async fn list(&self) -> Arc<RawValue> {
        let catalog = self.client.session().tools().await;
        let list = self.client.list(&catalog);
        self.client.sees(&list);
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

    async fn call(&self, mut tell: impl FnMut(Vec<u8>) + Send) -> Result<Raw, ErrorObject> {
        let params = self.params.unwrap_or(RawValue::NULL);
        let object = Object::from_raw(params)
            .map_err(|_| ErrorObject::new(INVALID_PARAMS, "params must be an object"))?;
        let Some(name) = object.text("name") else {
            return Err(ErrorObject::new(
                INVALID_PARAMS,
                "params.name must be a string",
            ));
        };
        let arguments = object.get("arguments");
        // It is JSON, so its first character says what it is.
        if arguments.is_some_and(|arguments| !arguments.get().starts_with('{')) {
            return Err(ErrorObject::new(
                INVALID_PARAMS,
                "params.arguments must be an object",
            ));
        }
        // A client may call without having listed: what it knows from before is found out then.
        let session = self.client.session();
        if session.known_tools().find(&name).is_none() {
            session.tools().await;
        }
        let level = self.meta.log_level.as_deref();
        let call = ToolCall {
            target: Target::Exposed(&name),
            params,
            progress: self.meta.progress_token.is_some(),
            log_level: level,
        };
        let reply = session
            .call(call, |note| {
                if let Some(message) = self.note(note) {
                    tell(message);
                }
            })
            .await;
        match reply {
            Ok(result) => self.result(result),
            Err(Refusal::Server(error)) => Err(error),
            Err(
                refusal @ (Refusal::Unknown(_) | Refusal::Unavailable(_) | Refusal::Failed { .. }),
            ) => {
                let result = error_result(&refusal.to_string());
                self.result(result)
            }
        }
    }

    /// A result, carried into the client's era.
    fn result(&self, result: Raw) -> Result<Raw, ErrorObject> {
        if self.client.version.is_modern() {
            return Ok(changed(to_stateless_result(&result, None)).unwrap_or(result));
        }
        // Only servers of the stateless era say what kind of result it is.
        if result.get().contains("\"resultType\"")
            && let Some(kind) = Object::from_raw(&result)
                .unwrap_or_default()
                .text("resultType")
            && kind != "complete"
        {
            let text = format!(
                "the tool answered with a result of type {kind:?}, which your protocol version does not know"
            );
            return Err(ErrorObject::new(INTERNAL_ERROR, text));
        }
        Ok(changed(to_handshake_result(&result)).unwrap_or(result))
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
        }
    }

    /// In the stateless era, log messages come only with a request that asks for them.
    fn wants(&self, params: Option<&RawValue>) -> bool {
        let least = self.meta.log_level.as_deref().and_then(log_rank);
        least.is_some_and(|least| is_logged_at(params, least))
    }
}

/// What became of a result, if it is not what it was.
fn changed(result: Cow<'_, RawValue>) -> Option<Raw> {
    match result {
        Cow::Owned(changed) => Some(changed),
        Cow::Borrowed(_) => None,
    }
}

/// An error as the model sees it: a result, so that it can do something about it.
fn error_result(text: &str) -> Raw {
    raw(&json!({ "content": [{ "type": "text", "text": text }], "isError": true }))
}

fn unknown_method(method: &str) -> ErrorObject {
    ErrorObject::new(METHOD_NOT_FOUND, format!("method not found: {method}"))
}

/// The result of `initialize`.
pub(super) fn initialize(client: &Client) -> Raw {
    let mut result = Object::new();
    result.set("protocolVersion", raw(client.version.as_str()));
    result.set("capabilities", capabilities());
    result.set("serverInfo", SERVER.clone());
    let instructions = client.session().instructions();
    if !instructions.is_empty() {
        result.set("instructions", raw(&instructions));
    }
    result.to_raw()
}

fn discover(client: &Client) -> Raw {
    let mut result = Object::new();
    result.set("resultType", raw("complete"));
    result.set("supportedVersions", raw(&supported()));
    result.set("capabilities", capabilities());
    let instructions = client.session().instructions();
    if !instructions.is_empty() {
        result.set("instructions", raw(&instructions));
    }
    result.set("ttlMs", raw(&0));
    result.set("cacheScope", raw("private"));
    result.to_raw()
}

/// The acknowledgement of a subscription, and its end.
pub(super) fn with_subscription(params: serde_json::Value, id: &RawValue) -> Raw {
    let mut object = Object::new();
    if let serde_json::Value::Object(members) = params {
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
