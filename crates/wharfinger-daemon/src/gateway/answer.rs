//! What each method does, whichever way the request came.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use wharfinger::catalog::Kind;
use wharfinger::servers::allowed;
use wharfinger::{CallNote, Refusal, Request, Session, Target, ToolCall};
use wharfinger_wire::era::{
    SERVER_INFO, Version, to_handshake_result, to_stateless_result, with_server_info,
};
use wharfinger_wire::json::{Object, Raw, empty_object, raw};
use wharfinger_wire::message::{
    self, ErrorObject, INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND,
};
use wharfinger_wire::server::{RequestMeta, is_logged_at, log_rank};

use super::client::Client;
use super::envelope::supported;
use super::out::Out;
use super::park::{Call, Happening, Parking, not_declared};
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

/// How often a server may ask for more before its call is given up.
const ROUNDS: usize = 10;

/// What all servers together can do. Where some have not been asked yet, or there are none yet, what they may turn out to
/// have is promised: a client that was not told of prompts never asks for them.
pub(super) struct Offered {
    all: Value,
    open: bool,
}

impl Offered {
    pub(super) fn to(session: &Session) -> Self {
        let config = session.wharf().config();
        Self {
            open: !session.knows_all() || config.servers.iter().all(|entry| !entry.enabled),
            all: session.directory().capabilities.clone(),
        }
    }

    /// Whether there is what the protocol calls by this name.
    pub(super) fn has(&self, capability: &str) -> bool {
        match capability {
            "tasks" => {
                let extensions = self.all.get("extensions");
                let extended = extensions.is_some_and(|all| all.get(TASKS).is_some());
                extended || self.all.get("tasks").is_some()
            }
            name => self.open || self.all.get(name).is_some(),
        }
    }

    /// Whether resources can be subscribed to.
    pub(super) fn subscribes(&self) -> bool {
        self.open || self.all["resources"]["subscribe"] == json!(true)
    }

    /// As a client of this version is told.
    fn to_raw(&self, version: Version) -> Raw {
        let mut object = Object::new();
        for name in ["experimental", "extensions"] {
            if let Some(value) = self.all.get(name) {
                object.set(name, raw(value));
            }
        }
        object.set("logging", empty_object());
        if self.has("prompts") {
            object.set("prompts", raw(&json!({ "listChanged": true })));
        }
        if self.has("resources") {
            let mut resources = json!({ "listChanged": true });
            if self.subscribes() {
                resources["subscribe"] = json!(true);
            }
            object.set("resources", raw(&resources));
        }
        if self.has("completions") {
            object.set("completions", empty_object());
        }
        if version == Version::V2025_11_25
            && let Some(tasks) = self.all.get("tasks")
        {
            object.set("tasks", raw(tasks));
        }
        object.set("tools", raw(&json!({ "listChanged": true })));
        object.to_raw()
    }
}

/// The tasks extension.
const TASKS: &str = "io.modelcontextprotocol/tasks";

/// What somebody must have for a method to be known.
fn needed(method: &str) -> &str {
    match method.split('/').next().unwrap_or_default() {
        "completion" => "completions",
        group => group,
    }
}

/// The list that a method asks for.
fn listed(method: &str) -> Option<Kind> {
    match method {
        "prompts/list" => Some(Kind::Prompt),
        "resources/list" => Some(Kind::Resource),
        "resources/templates/list" => Some(Kind::Template),
        _ => None,
    }
}

/// Methods that only one of the eras has.
fn is_of_other_era(method: &str, version: Version) -> bool {
    if version.is_modern() {
        matches!(
            method,
            "resources/subscribe" | "resources/unsubscribe" | "tasks/result" | "tasks/list"
        )
    } else {
        method == "tasks/update"
    }
}

impl Question<'_> {
    /// Answers; what belongs to it goes out before.
    pub(super) async fn answer(&self) -> Result<Raw, ErrorObject> {
        if self.client.version.is_modern() {
            self.is_offered().await?;
            let result = self.stateless().await?;
            return Ok(with_server_info(&result, &SERVER));
        }
        self.is_offered().await?;
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
    fn checked(&self) -> Result<&RawValue, ErrorObject> {
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

    /// A request to a server, for a client of the handshake era. A server of the other era answers that it needs input:
    /// its client is asked for it, and the request goes out again with the answers.
    async fn of_handshake(&self) -> Result<Raw, ErrorObject> {
        let mut params = Cow::Borrowed(self.checked()?);
        for _ in 0..ROUNDS {
            let over = CancellationToken::new();
            let ended = over.clone().drop_guard();
            let session = self.client.session();
            let reply = send(
                session,
                self.method,
                &params,
                self.meta,
                |note| match note {
                    CallNote::Asked(asked) => {
                        let out = self.out.clone();
                        self.client.pass(self.daemon, asked, out, over.clone());
                    }
                    note => self.tell(note),
                },
            )
            .await;
            drop(ended);
            let result = self.told(reply)?;
            match result_type(&result).as_deref() {
                None | Some("complete") => {
                    return Ok(changed(to_handshake_result(&result)).unwrap_or(result));
                }
                Some("input_required") => params = Cow::Owned(self.gather(&result).await?),
                Some(other) => {
                    let text = format!(
                        "the server answered with a result of type {other:?}, which your protocol version does not know"
                    );
                    return Err(ErrorObject::new(INTERNAL_ERROR, text));
                }
            }
        }
        let text = format!("the server asked for more input {ROUNDS} times");
        Err(ErrorObject::new(INTERNAL_ERROR, text))
    }

    /// Asks the client everything that a result asks for, one after the other; gives the params of the next round.
    async fn gather(&self, result: &RawValue) -> Result<Raw, ErrorObject> {
        let odd = |text: &str| ErrorObject::new(INTERNAL_ERROR, text);
        let result = Object::from_raw(result).unwrap_or_default();
        let requests = result.object("inputRequests").unwrap_or_default();
        let mut responses = Object::new();
        for (name, request) in requests.iter() {
            let request = Object::from_raw(request)
                .map_err(|_| odd("the server asks for input with something that is no request"))?;
            let method = request.text("method").unwrap_or_default();
            let params = request.get("params");
            if !is_input(&method) || !allowed(self.client.session().declared(), &method, params) {
                return Err(odd(&format!(
                    "the server asks for input that the client did not declare: {method}"
                )));
            }
            let asking = self.client.question(&self.out, &method, params, drop);
            responses.set(name.to_owned(), asking.await?);
        }
        let mut params =
            Object::from_raw(self.params.unwrap_or(RawValue::NULL)).unwrap_or_default();
        params.set("inputResponses", responses.to_raw());
        match result.get("requestState") {
            Some(state) => params.set("requestState", state.to_owned()),
            None => drop(params.remove("requestState")),
        }
        Ok(params.to_raw())
    }

    /// A request to a server, for a client of the stateless era. What a server of the same era wants back goes through
    /// sealed; what one of the other era asks meanwhile parks the call.
    async fn of_stateless(&self, cache: Option<(u64, &str)>) -> Result<Raw, ErrorObject> {
        let params = self.checked()?;
        let object = Object::from_raw(params).unwrap_or_default();
        let bound = self.bound(&object);
        let gateway = &self.daemon.gateway;
        let mut own = None;
        let call = match object.text("requestState") {
            Some(state) if Parking::is_one(&state) => {
                let responses = object.get("inputResponses");
                Some(gateway.parking.resume(&bound, &state, responses)?)
            }
            Some(state) => {
                let state = gateway.seal.open(&bound, &state).ok_or_else(|| {
                    let text = "params.requestState is not what was given for this request";
                    ErrorObject::new(INVALID_PARAMS, text)
                })?;
                let mut object = object.clone();
                object.set("requestState", raw(&state));
                own = Some(object.to_raw());
                None
            }
            None => None,
        };
        let params = own.as_deref().unwrap_or(params);
        let session = self.client.session();
        let asks = ["elicitation", "sampling", "roots"];
        let reply = if let Some(call) = call {
            self.follow(call, &bound).await
        } else if asks.iter().any(|can| session.declared().can(can)) {
            self.follow(self.start(params), &bound).await
        } else {
            let told = |note| self.tell(note);
            let reply = send(session, self.method, params, self.meta, told).await;
            Followed::Over(reply)
        };
        let result = match reply {
            Followed::Over(reply) => self.told(reply)?,
            Followed::Asks(question) => return Ok(question),
        };
        if result_type(&result).as_deref() == Some("input_required") {
            return self.sealed(&result, &bound);
        }
        Ok(changed(to_stateless_result(&result, cache)).unwrap_or(result))
    }

    /// Whose a request is and what it asks for: only who asks for the same again gets what was kept for it.
    fn bound(&self, params: &Object<'_>) -> String {
        let session = self.client.session();
        let name = ["name", "uri", "taskId"]
            .into_iter()
            .find_map(|member| params.text(member));
        format!(
            "{}\n{}\n{}\n{}",
            session.agent(),
            session.id(),
            self.method,
            name.unwrap_or_default()
        )
    }

    /// Starts a call on a task of its own, so that it outlives the request.
    fn start(&self, params: &RawValue) -> Call {
        let (happened, happenings) = mpsc::unbounded_channel();
        let running = CancellationToken::new();
        let ended = running.clone();
        let session = self.client.session().clone();
        let (method, params, meta) = (self.method.to_owned(), params.to_owned(), self.meta.clone());
        self.daemon.tasks.spawn(async move {
            let note = |note| drop(happened.send(Happening::Note(note)));
            let calling = send(&session, &method, &params, &meta, note);
            if let Some(reply) = running.run_until_cancelled(calling).await {
                drop(happened.send(Happening::Over(reply)));
            }
        });
        Call::new(happenings, ended.drop_guard())
    }

    /// Listens to a call until it is over or needs its client.
    async fn follow(&self, mut call: Call, bound: &str) -> Followed {
        // What it still wants to know is asked again.
        while !call.waits() {
            match call.happenings.recv().await {
                Some(Happening::Note(CallNote::Asked(asked))) => {
                    call.asks(asked);
                    while let Ok(Happening::Note(CallNote::Asked(more))) =
                        call.happenings.try_recv()
                    {
                        call.asks(more);
                    }
                }
                Some(Happening::Note(note)) => self.tell(note),
                Some(Happening::Over(reply)) => return Followed::Over(reply),
                None => {
                    let stopped = Refusal::Unavailable("the call was stopped".into());
                    return Followed::Over(Err(stopped));
                }
            }
        }
        let limits = self.client.session().wharf().limits();
        let agent = self.client.session().agent().as_str();
        let gateway = &self.daemon.gateway;
        let (state, question) = gateway
            .parking
            .park(bound, agent, call, limits.session_requests);
        let (daemon, wait) = (self.daemon.clone(), limits.input_wait);
        self.daemon.tasks.spawn(async move {
            let waited = daemon
                .stop
                .run_until_cancelled(tokio::time::sleep(wait))
                .await;
            match waited {
                Some(()) => daemon.gateway.parking.forget(&state),
                None => daemon.gateway.parking.clear(),
            }
        });
        Followed::Asks(question)
    }

    /// A result that asks for input, its state sealed; a server may ask only what its client declared.
    fn sealed(&self, result: &RawValue, bound: &str) -> Result<Raw, ErrorObject> {
        let mut object = Object::from_raw(result).unwrap_or_default();
        let requests = object.object("inputRequests").unwrap_or_default();
        for (_, request) in requests.iter() {
            let request = Object::from_raw(request).unwrap_or_default();
            let method = request.text("method").unwrap_or_default();
            let declared = self.client.session().declared();
            if !is_input(&method) || !allowed(declared, &method, request.get("params")) {
                return Err(not_declared(&method));
            }
        }
        if let Some(state) = object.text("requestState") {
            let sealed = self.daemon.gateway.seal.seal(bound, &state);
            object.set("requestState", raw(&sealed));
        }
        Ok(object.to_raw())
    }

    /// A reply, or why there is none in this client's words.
    fn told(&self, reply: Result<Raw, Refusal>) -> Result<Raw, ErrorObject> {
        match reply {
            Ok(result) => Ok(result),
            Err(Refusal::Server(error)) => Err(self.in_words_of_era(error)),
            Err(
                refusal @ (Refusal::Unknown(_) | Refusal::Unavailable(_) | Refusal::Failed { .. }),
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
    fn tell(&self, note: CallNote) {
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

/// What became of a call that was listened to.
enum Followed {
    Over(Result<Raw, Refusal>),
    /// The result that asks its client for input.
    Asks(Raw),
}

/// What servers may ask for as input.
fn is_input(method: &str) -> bool {
    matches!(
        method,
        "elicitation/create" | "sampling/createMessage" | "roots/list"
    )
}

/// One request to a server.
async fn send(
    session: &Session,
    method: &str,
    params: &RawValue,
    meta: &RequestMeta,
    notes: impl FnMut(CallNote) + Send,
) -> Result<Raw, Refusal> {
    let progress = meta.progress_token.is_some();
    // A client of the handshake era says it once or never; it hears of what matters even so.
    let log_level = meta.log_level.as_deref().or_else(|| {
        let handshake = !meta.enveloped;
        handshake.then(|| session.log_level().unwrap_or("info"))
    });
    if method != "tools/call" {
        let request = Request {
            method,
            params: Some(params),
            progress,
            log_level,
        };
        return session.request(request, notes).await;
    }
    let object = Object::from_raw(params).unwrap_or_default();
    let name = object.text("name").unwrap_or_default();
    // A client may call without having listed: what it knows from before is found out then.
    if session.known_tools().find(&name).is_none() {
        session.tools().await;
    }
    let call = ToolCall {
        target: Target::Exposed(&name),
        params,
        progress,
        log_level,
    };
    session.call(call, notes).await
}

/// The kind of a result. Only servers of the stateless era say it.
fn result_type(result: &RawValue) -> Option<String> {
    if !result.get().contains("\"resultType\"") {
        return None;
    }
    let object = Object::from_raw(result).ok()?;
    object.text("resultType").map(Cow::into_owned)
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
