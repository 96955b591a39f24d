//! `POST` to the endpoint: one message, or a batch where the version has them.

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use wharfinger::model::AgentName;
use wharfinger_wire::era::Version;
use wharfinger_wire::json::{Object, Raw};
use wharfinger_wire::message::{self, ErrorObject, INTERNAL_ERROR, INVALID_REQUEST, Id, Message};
use wharfinger_wire::server::{PROTOCOL_VERSION_HEADER, RequestMeta, SESSION_ID};

use super::answer::{self, Question};
use super::begin::{Described, begin, make_room};
use super::client::{Client, Running};
use super::here::{self, Told};
use super::out::Out;
use super::reply::{Frame, accepted, json, refuse};
use super::{envelope, find, is_modern, listen, shared};
use crate::serve::Daemon;

/// Progress and log messages of one request that wait for its client to read.
pub(super) const FRAMES: usize = 1024;

/// Reads the body within its limit, and answers by era.
pub(super) async fn handle(
    daemon: Arc<Daemon>,
    agent: AgentName,
    request: hyper::Request<hyper::body::Incoming>,
) -> Response {
    let (parts, body) = request.into_parts();
    let kind = parts
        .headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let kind = kind.map(|kind| kind.split(';').next().unwrap_or_default().trim());
    if !kind.is_some_and(|kind| kind.eq_ignore_ascii_case("application/json")) {
        let text = "the content type must be application/json";
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, None, -32000, text);
    }
    let limit = daemon.wharf.limits().body_bytes;
    let body = match read(body, limit).await {
        Ok(body) => body,
        Err(StatusCode::PAYLOAD_TOO_LARGE) => {
            let text = format!("the request is larger than {limit} bytes");
            return refuse(StatusCode::PAYLOAD_TOO_LARGE, None, -32000, &text);
        }
        Err(_) => return StatusCode::BAD_REQUEST.into_response(),
    };
    // It may have been removed while the body was on its way.
    if let Err(error) = daemon.wharf.agent(agent.as_str()) {
        return (StatusCode::NOT_FOUND, format!("{error}\n")).into_response();
    }
    if body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
        return batch(&daemon, &agent, &parts.headers, &body);
    }
    let message = match message::parse(&body) {
        Ok(message) => message,
        Err(odd) => {
            return refuse(
                StatusCode::BAD_REQUEST,
                odd.id.as_ref(),
                odd.code,
                &odd.reason,
            );
        }
    };
    one(&daemon, &agent, &parts.headers, message).await
}

/// A body, which most of the time is there in one piece.
async fn read(mut body: hyper::body::Incoming, limit: usize) -> Result<Bytes, StatusCode> {
    use axum::body::HttpBody as _;
    use http_body_util::BodyExt as _;
    if body.size_hint().lower() > limit as u64 {
        return Err(StatusCode::PAYLOAD_TOO_LARGE);
    }
    let mut first = Bytes::new();
    let mut all: Vec<u8> = vec![];
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| StatusCode::BAD_REQUEST)?.into_data() else {
            continue;
        };
        if all.len() + first.len() + data.len() > limit {
            return Err(StatusCode::PAYLOAD_TOO_LARGE);
        }
        if all.is_empty() && first.is_empty() {
            if body.is_end_stream() {
                return Ok(data);
            }
            first = data;
        } else {
            if all.is_empty() {
                all.extend_from_slice(&std::mem::take(&mut first));
            }
            all.extend_from_slice(&data);
        }
    }
    Ok(if all.is_empty() { first } else { all.into() })
}

async fn one(
    daemon: &Arc<Daemon>,
    agent: &AgentName,
    headers: &HeaderMap,
    message: Message<'_>,
) -> Response {
    let has_session = headers.contains_key(SESSION_ID);
    match message {
        Message::Request { id, method, params } => {
            let meta = RequestMeta::read(params);
            if envelope::is_stateless(&meta, headers, has_session) {
                return stateless(daemon, agent, headers, &id, &method, params, meta).await;
            }
            if method == "initialize" {
                return initialize(daemon, agent, headers, &id, params).await;
            }
            let client = match known(daemon, agent, headers, Some(&id)) {
                Ok(client) => client,
                Err(refusal) => return *refusal,
            };
            let begun = Begun::new(daemon, &client, &id, &method, params, meta);
            named(one_request(&id, begun).await, &client)
        }
        Message::Notification { method, params } => {
            // In the stateless era, a request is taken back by closing its response.
            if is_modern(headers) {
                return accepted();
            }
            match known(daemon, agent, headers, None) {
                Ok(client) => {
                    notified(&client, &method, params);
                    accepted()
                }
                Err(refusal) => *refusal,
            }
        }
        // In the stateless era nothing is ever asked that way.
        Message::Response { .. } if is_modern(headers) => {
            let text = "a response answers nothing here";
            refuse(StatusCode::BAD_REQUEST, None, INVALID_REQUEST, text)
        }
        Message::Response { id, outcome } => match known(daemon, agent, headers, None) {
            Ok(client) => {
                client.answered(id.as_ref(), outcome);
                accepted()
            }
            Err(refusal) => *refusal,
        },
    }
}

/// What a client tells.
pub(super) fn notified(client: &Client, method: &str, params: Option<&RawValue>) {
    client.touch();
    match method {
        "notifications/cancelled" => {
            let params = params
                .and_then(|params| Object::from_raw(params).ok())
                .unwrap_or_default();
            if let Some(id) = params.get("requestId").and_then(Id::parse) {
                client.cancel(&id);
            }
        }
        "notifications/progress" => {
            if let Some(params) = params {
                client.progressed(params);
            }
        }
        "notifications/roots/list_changed" => client.session().roots_changed(),
        _ => {}
    }
}

/// The client of the session, whose version header must be one that is known.
fn known(
    daemon: &Daemon,
    agent: &AgentName,
    headers: &HeaderMap,
    id: Option<&Id>,
) -> Result<Arc<Client>, Box<Response>> {
    let client = find(daemon, agent, headers, id)?;
    let version = headers
        .get(PROTOCOL_VERSION_HEADER)
        .map(|version| version.to_str());
    if let Some(version) = version
        && version.ok().and_then(Version::parse).is_none()
    {
        let known: Vec<_> = Version::ALL.into_iter().map(Version::as_str).collect();
        let text = format!("unsupported protocol version; known: {}", known.join(", "));
        return Err(Box::new(refuse(StatusCode::BAD_REQUEST, id, -32000, &text)));
    }
    client.touch();
    Ok(client)
}

/// Begins a session of the handshake era.
async fn initialize(
    daemon: &Arc<Daemon>,
    agent: &AgentName,
    headers: &HeaderMap,
    id: &Id,
    params: Option<&RawValue>,
) -> Response {
    if headers.contains_key(SESSION_ID) && find(daemon, agent, headers, None).is_ok() {
        let text = "this session is initialized already";
        return refuse(StatusCode::BAD_REQUEST, Some(id), INVALID_REQUEST, text);
    }
    let version = match answer::requested_version(params) {
        Ok(version) => version,
        Err(error) => return json(StatusCode::OK, message::error(Some(id), &error)),
    };
    if let Err(text) = make_room(daemon, agent) {
        return refuse(
            StatusCode::SERVICE_UNAVAILABLE,
            Some(id),
            INTERNAL_ERROR,
            &text,
        );
    }
    let client = Arc::new(begin(
        daemon,
        agent,
        version,
        Described::by_handshake(params),
    ));
    let session = client.session().id().to_string();
    daemon.gateway.clients().insert(session, client.clone());
    let reply = message::result(id, &answer::initialize(&client).await);
    named(json(StatusCode::OK, reply), &client)
}

fn named(mut response: Response, client: &Client) -> Response {
    if let Ok(id) = HeaderValue::from_str(client.session().id().as_str()) {
        response.headers_mut().insert(SESSION_ID, id);
    }
    response
}

/// A request of the handshake era, with all that it needs when its connection is gone.
struct Begun {
    daemon: Arc<Daemon>,
    client: Arc<Client>,
    running: Running,
    method: String,
    params: Option<Raw>,
    meta: RequestMeta,
}

impl Begun {
    fn new(
        daemon: &Arc<Daemon>,
        client: &Arc<Client>,
        id: &Id,
        method: &str,
        params: Option<&RawValue>,
        meta: RequestMeta,
    ) -> Result<Self, ErrorObject> {
        Ok(Self {
            running: client.begin(id)?,
            daemon: daemon.clone(),
            client: client.clone(),
            method: method.to_owned(),
            params: params.map(ToOwned::to_owned),
            meta,
        })
    }

    /// As [`answered`]; when this is over, the request does not run any more.
    async fn answered(self, out: Out) -> Option<Result<Raw, ErrorObject>> {
        let question = Question {
            daemon: &self.daemon,
            client: &self.client,
            method: &self.method,
            params: self.params.as_deref(),
            meta: &self.meta,
            out,
        };
        answered(question, self.running.cancelled.cancelled()).await
    }
}

/// Answers one request: a client that hangs up has not taken it back.
async fn one_request(id: &Id, begun: Result<Begun, ErrorObject>) -> Response {
    let begun = match begun {
        Ok(begun) => begun,
        Err(error) => return json(StatusCode::OK, message::error(Some(id), &error)),
    };
    let (id, daemon) = (id.clone(), begun.daemon.clone());
    let told = Arc::new(Told::default());
    let out = Out::Told(told.clone());
    let work = Box::pin(async move {
        let answered = begun.answered(out).await?;
        Some(framed(StatusCode::OK, &id, answered))
    });
    here::respond(&daemon.tasks, told, work, true).await
}

/// Runs one request of a batch on a task of its own.
fn ask(id: &Id, begun: Result<Begun, ErrorObject>, frames: mpsc::Sender<Frame>) {
    let begun = match begun {
        Ok(begun) => begun,
        Err(error) => {
            let refused = Frame::reply(StatusCode::OK, message::error(Some(id), &error));
            frames.try_send(refused).ok();
            return;
        }
    };
    let (id, daemon) = (id.clone(), begun.daemon.clone());
    daemon.tasks.spawn(async move {
        let Some(answered) = begun.answered(Out::Frames(frames.clone())).await else {
            return;
        };
        frames
            .send(Frame::reply(StatusCode::OK, reply(&id, answered)))
            .await
            .ok();
    });
}

/// The answer to a question, whose notes go ahead of it; `None` when the client takes it back first.
async fn answered(
    question: Question<'_>,
    taken_back: impl Future<Output = ()>,
) -> Option<Result<Raw, ErrorObject>> {
    tokio::select! {
        answered = question.answer() => Some(answered),
        () = taken_back => None,
        () = question.daemon.stop.cancelled() => {
            Some(Err(ErrorObject::new(INTERNAL_ERROR, "the daemon is stopping")))
        }
    }
}

/// Results beyond this are sent as they lie, with the envelope beside them, in bytes.
const LARGE: usize = 32 << 10;

fn framed(status: StatusCode, id: &Id, answered: Result<Raw, ErrorObject>) -> Frame {
    match answered {
        Ok(result) if result.get().len() > LARGE => {
            let (head, tail) = message::result_around(id);
            let result = String::from(Box::<str>::from(result)).into_bytes();
            Frame::pieces([head, result, tail])
        }
        answered => Frame::reply(status, reply(id, answered)),
    }
}

/// A message from an answer.
pub(super) fn reply(id: &Id, answered: Result<Raw, ErrorObject>) -> Vec<u8> {
    match answered {
        Ok(result) => message::result(id, &result),
        Err(error) => message::error(Some(id), &error),
    }
}

/// A request of the stateless era: all it needs is in it.
async fn stateless(
    daemon: &Arc<Daemon>,
    agent: &AgentName,
    headers: &HeaderMap,
    id: &Id,
    method: &str,
    params: Option<&RawValue>,
    meta: RequestMeta,
) -> Response {
    let refused = |error: &ErrorObject| {
        json(
            envelope::status(error.code),
            message::error(Some(id), error),
        )
    };
    if !meta.enveloped || meta.capabilities.is_none() {
        return envelope::check_meta(&meta).map_or_else(|error| refused(&error), |_| accepted());
    }
    let checked = envelope::check_headers(headers, &meta, method, params)
        .and_then(|()| envelope::check_meta(&meta));
    let version = match checked {
        Ok(version) => version,
        Err(error) => return refused(&error),
    };
    let Described { name, declared } = Described::by_request(&meta);
    let session = shared::session(daemon, agent, declared);
    let client = Arc::new(Client::new(session, version, &name));
    if method == "tools/call"
        && let Err(error) = check_arguments(&client, headers, params)
    {
        return refused(&error);
    }
    if method == "subscriptions/listen" {
        return listen::over_http(daemon, &client, id, params);
    }
    let (id, method) = (id.clone(), method.to_owned());
    let params = params.map(ToOwned::to_owned);
    let told = Arc::new(Told::default());
    let (daemon, out) = (daemon.clone(), Out::Told(told.clone()));
    let tasks = daemon.tasks.clone();
    let work = Box::pin(async move {
        let question = Question {
            daemon: &daemon,
            client: &client,
            method: &method,
            params: params.as_deref(),
            meta: &meta,
            out,
        };
        // Closing the response takes the request back, by dropping this.
        let answered = tokio::select! {
            answered = question.answer() => answered,
            () = daemon.stop.cancelled() => {
                Err(ErrorObject::new(INTERNAL_ERROR, "the daemon is stopping"))
            }
        };
        let status = answered
            .as_ref()
            .err()
            .map_or(StatusCode::OK, |e| envelope::status(e.code));
        Some(framed(status, &id, answered))
    });
    here::respond(&tasks, told, work, false).await
}

/// A tool that is not known yet, or not at all, is found out about by the call itself.
fn check_arguments(
    client: &Client,
    headers: &HeaderMap,
    params: Option<&RawValue>,
) -> Result<(), ErrorObject> {
    let object = params.and_then(|params| Object::from_raw(params).ok());
    let object = object.unwrap_or_default();
    let catalog = client.session().known_tools();
    match object.text("name").and_then(|name| catalog.find(&name)) {
        Some(exposed) => envelope::check_params(headers, &exposed.tool.raw, params),
        None => Ok(()),
    }
}

/// A batch, which only 2025-03-26 has: every request is answered on one stream.
fn batch(daemon: &Arc<Daemon>, agent: &AgentName, headers: &HeaderMap, body: &[u8]) -> Response {
    let messages = match message::parse_batch(body) {
        Ok(messages) if !messages.is_empty() => messages,
        Ok(_) => {
            let text = "an empty batch asks nothing";
            return refuse(StatusCode::BAD_REQUEST, None, INVALID_REQUEST, text);
        }
        Err(odd) => {
            return refuse(
                StatusCode::BAD_REQUEST,
                odd.id.as_ref(),
                odd.code,
                &odd.reason,
            );
        }
    };
    let enveloped = |message: &Result<Message<'_>, _>| match message {
        Ok(Message::Request { params, .. }) => RequestMeta::read(*params).enveloped,
        Ok(_) | Err(_) => false,
    };
    if messages.iter().any(enveloped) || is_modern(headers) {
        let text = "the stateless era has no batches";
        return refuse(StatusCode::BAD_REQUEST, None, INVALID_REQUEST, text);
    }
    let client = match known(daemon, agent, headers, None) {
        Ok(client) if client.version == Version::V2025_03_26 => client,
        Ok(_) => {
            let text = "only protocol version 2025-03-26 has batches";
            return refuse(StatusCode::BAD_REQUEST, None, INVALID_REQUEST, text);
        }
        Err(refusal) => return *refusal,
    };
    let (frames, receiver) = mpsc::channel(FRAMES);
    let mut asked = false;
    for message in messages {
        match message {
            Ok(Message::Request { id, method, params }) => {
                asked = true;
                let meta = RequestMeta::read(params);
                let begun = Begun::new(daemon, &client, &id, &method, params, meta);
                ask(&id, begun, frames.clone());
            }
            Ok(Message::Notification { method, params }) => notified(&client, &method, params),
            Ok(Message::Response { id, outcome }) => client.answered(id.as_ref(), outcome),
            Err(odd) => {
                asked = true;
                let error = ErrorObject::new(odd.code, odd.reason);
                let reply = message::error(odd.id.as_ref(), &error);
                frames.try_send(Frame::reply(StatusCode::OK, reply)).ok();
            }
        }
    }
    drop(frames);
    if asked {
        named(super::reply::sse(receiver, None), &client)
    } else {
        accepted()
    }
}
