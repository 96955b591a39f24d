//! Requests that take several rounds: servers that ask for input before they answer, and clients of either era that give
//! it in their own way.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use wharfinger::approvals::ApprovalId;
use wharfinger::servers::allowed;
use wharfinger::{CallNote, Refusal, Request, Session, ToolCall};
use wharfinger_wire::era::{mentions_stateless, to_handshake_result, to_stateless_result};
use wharfinger_wire::json::{Object, Raw, empty_object, raw};
use wharfinger_wire::message::{ErrorObject, INTERNAL_ERROR, INVALID_PARAMS};
use wharfinger_wire::server::RequestMeta;

use super::answer::{Question, changed};
use super::park::{Call, Happening, Parking, happenings, not_declared};

/// How often a server may ask for more before its call is given up.
const ROUNDS: usize = 10;

/// How often a client is told to come back by itself. SDKs make an error of the eleventh time; before that the model is
/// told, and two are left for what its server asks.
const COMES_BACK: u64 = 8;

impl Question<'_> {
    /// A request to a server, for a client of the handshake era. A server of the other era answers that it needs input:
    /// its client is asked for it, and the request goes out again with the answers.
    pub(super) async fn of_handshake(&self) -> Result<Raw, ErrorObject> {
        let mut params = Cow::Borrowed(self.checked()?);
        for _ in 0..ROUNDS {
            let over = CancellationToken::new();
            let ended = over.clone().drop_guard();
            let reply = send(&self.sending(), &params, |note| match note {
                CallNote::Asked(asked) => {
                    let out = self.out.clone();
                    self.client.pass(self.daemon, asked, out, over.clone());
                }
                note => self.tell(note),
            })
            .await;
            drop(ended);
            let result = self.told(reply)?;
            if !mentions_stateless(&result) {
                return Ok(result);
            }
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
            if let Some(own) = self.own_roots(&method) {
                responses.set(name.to_owned(), own);
                continue;
            }
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
    pub(super) async fn of_stateless(
        &self,
        cache: Option<(u64, &str)>,
    ) -> Result<Raw, ErrorObject> {
        let params = self.checked()?;
        let object = Object::from_raw(params).unwrap_or_default();
        let bound = self.bound(&object);
        let gateway = &self.daemon.gateway;
        let (mut own, mut came_back) = (None, 0);
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
                own = Some(unsealed(&object, &state)?);
                came_back = times(&state);
                None
            }
            None => None,
        };
        let mut resumed = call;
        for _ in 0..ROUNDS {
            let reply = match resumed.take() {
                Some(call) => self.follow(call, &bound).await,
                None => self.begin(own.as_deref().unwrap_or(params), &bound).await,
            };
            let result = match reply {
                // It comes back by itself, and its call goes on where this one was.
                Followed::Over(Err(Refusal::Waiting { approval, .. }))
                    if came_back < COMES_BACK =>
                {
                    return Ok(self.comes_back(&approval, came_back + 1, &bound));
                }
                Followed::Over(reply) => self.told(reply)?,
                Followed::Asks(question) => return Ok(question),
            };
            if result_type(&result).as_deref() != Some("input_required") {
                return Ok(changed(to_stateless_result(&result, cache)).unwrap_or(result));
            }
            match self.sealed(&result, &bound)? {
                Sealed::Asks(question) => return Ok(question),
                Sealed::Answered(kept) => own = Some(unsealed(&object, kept.get())?),
            }
        }
        let text = format!("the server asked for more input {ROUNDS} times");
        Err(ErrorObject::new(INTERNAL_ERROR, text))
    }

    /// The result that tells a client to make its call again, since it waits for a person.
    fn comes_back(&self, approval: &ApprovalId, times: u64, bound: &str) -> Raw {
        let kept = raw(&json!({ "approval": approval, "times": times }));
        let sealed = self.daemon.gateway.seal.seal(bound, kept.get());
        raw(&json!({ "resultType": "input_required", "requestState": sealed }))
    }

    /// Sends a request to its server. Where the client can be asked something, it runs on its own.
    async fn begin(&self, params: &RawValue, bound: &str) -> Followed {
        let session = self.client.session();
        let asks = ["elicitation", "sampling", "roots"];
        if asks.iter().any(|can| session.declared().can(can)) {
            return self.follow(self.start(params), bound).await;
        }
        let told = |note| self.tell(note);
        Followed::Over(send(&self.sending(), params, told).await)
    }

    fn sending(&self) -> Sending<'_> {
        Sending {
            session: self.client.session(),
            method: self.method,
            meta: self.meta,
            patience: self.client.patience,
            gone: self.out.gone(),
        }
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
        let (happened, happenings) = happenings();
        let (leave, left) = oneshot::channel();
        let running = CancellationToken::new();
        let ended = running.clone();
        let (session, patience) = (self.client.session().clone(), self.client.patience);
        let (method, params, meta) = (self.method.to_owned(), params.to_owned(), self.meta.clone());
        self.daemon.tasks.spawn(async move {
            let note = |note| happened.note(note);
            let sending = Sending {
                session: &session,
                method: &method,
                meta: &meta,
                patience,
                // It is dropped when its client hangs up.
                gone: None,
            };
            let calling = send(&sending, &params, note);
            match running.run_until_cancelled(calling).await {
                Some(reply) => happened.over(reply),
                // Cancelled by now.
                None => drop(left.await),
            }
        });
        Call::new(happenings, leave, ended.drop_guard())
    }

    /// Listens to a call until it is over or needs its client.
    async fn follow(&self, mut call: Call, bound: &str) -> Followed {
        // What it still wants to know is asked again.
        while !call.waits() {
            let mut next = call.next().await;
            // What has happened already belongs to this round.
            while let Some(happening) = next {
                match happening {
                    Happening::Note(CallNote::Asked(asked)) if is_input(&asked.method) => {
                        call.asks(asked);
                    }
                    // Nothing that this client could be asked; dropped, it is answered with an error.
                    Happening::Note(CallNote::Asked(_)) => {}
                    Happening::Note(note) => self.tell(note),
                    Happening::Over(reply) => return Followed::Over(reply),
                }
                next = call.next_now();
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

    /// The roots that this request's server is told of, where that is not for the client to say.
    fn own_roots(&self, method: &str) -> Option<Raw> {
        let params = self.params.filter(|_| method == "roots/list")?;
        self.client.session().own_roots(self.method, params)
    }

    /// A result that asks for input, its state sealed together with what its owner has answered already; a server may
    /// ask only what its client declared.
    fn sealed(&self, result: &RawValue, bound: &str) -> Result<Sealed, ErrorObject> {
        let result = Object::from_raw(result).unwrap_or_default();
        let (mut left, mut own) = (Object::new(), Object::new());
        let requests = result.object("inputRequests").unwrap_or_default();
        for (name, raw) in requests.iter() {
            let request = Object::from_raw(raw).unwrap_or_default();
            let method = request.text("method").unwrap_or_default();
            if let Some(roots) = self.own_roots(&method) {
                own.set(name, roots);
                continue;
            }
            let declared = self.client.session().declared();
            if !is_input(&method) || !allowed(declared, &method, request.get("params")) {
                return Err(not_declared(&method));
            }
            left.set_borrowed(name, raw);
        }
        let state = result.text("requestState");
        let kept = raw(&json!({ "state": state, "own": own.to_raw() }));
        if left.is_empty() && !own.is_empty() {
            return Ok(Sealed::Answered(kept));
        }
        let mut object = result.clone();
        if !own.is_empty() {
            object.set("inputRequests", left.to_raw());
        }
        if state.is_some() || !own.is_empty() {
            let sealed = self.daemon.gateway.seal.seal(bound, kept.get());
            object.set("requestState", raw(&sealed));
        }
        Ok(Sealed::Asks(object.to_raw()))
    }
}

/// What becomes of a result that asks for input.
enum Sealed {
    /// Its client is to be asked.
    Asks(Raw),
    /// Its owner has answered all of it: what the next round takes.
    Answered(Raw),
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

/// Whose request, and how it is made.
struct Sending<'a> {
    session: &'a Session,
    method: &'a str,
    meta: &'a RequestMeta,
    patience: Duration,
    gone: Option<&'a CancellationToken>,
}

/// One request to a server.
async fn send(
    sending: &Sending<'_>,
    params: &RawValue,
    notes: impl FnMut(CallNote) + Send,
) -> Result<Raw, Refusal> {
    let Sending {
        session,
        method,
        meta,
        patience,
        gone,
    } = *sending;
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
        progress,
        log_level,
        patience: Some(patience),
        gone,
        ..ToolCall::new(&name, params)
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

/// How often a client has come back, by the state that it was given.
fn times(kept: &str) -> u64 {
    let kept = Object::parse(kept).unwrap_or_default();
    kept.get("times")
        .and_then(|times| times.get().parse().ok())
        .unwrap_or_default()
}

/// The params of a retry as its server wants them: its own state, and the answers that its client was not asked for.
fn unsealed(params: &Object<'_>, kept: &str) -> Result<Raw, ErrorObject> {
    let kept = Object::parse(kept).unwrap_or_default();
    let mut params = params.clone();
    match kept.get("state").filter(|state| state.get() != "null") {
        Some(state) => params.set("requestState", state.to_owned()),
        None => drop(params.remove("requestState")),
    }
    let own = kept.object("own").unwrap_or_default();
    if !own.is_empty() {
        let responses = params.get("inputResponses").map(ToOwned::to_owned);
        let responses = responses.unwrap_or_else(empty_object);
        let mut all = Object::from_raw(&responses).map_err(|_| {
            ErrorObject::new(INVALID_PARAMS, "params.inputResponses must be an object")
        })?;
        for (name, answer) in own.iter() {
            all.set(name.to_owned(), answer.to_owned());
        }
        let all = all.to_raw();
        params.set("inputResponses", all);
    }
    Ok(params.to_raw())
}
