//! MCP over stdio, as `wharf stdio` carries it: newline-delimited messages on an upgraded connection.

use std::io::Cursor;
use std::os::fd::AsFd as _;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper_util::rt::TokioIo;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use wharfinger::model::AgentName;
use wharfinger_wire::era::Version;
use wharfinger_wire::json::raw;
use wharfinger_wire::lines::{Line, LineReader};
use wharfinger_wire::message::{
    self, ErrorObject, INTERNAL_ERROR, INVALID_REQUEST, Id, METHOD_NOT_FOUND, Malformed, Message,
    UNSUPPORTED_VERSION,
};
use wharfinger_wire::server::RequestMeta;

use super::answer::{self, Question};
use super::begin::{Described, begin};
use super::client::Client;
use super::out::Out;
use super::post::{notified, reply};
use super::{admit, envelope, listen, shared, stream};
use crate::http::Way;
use crate::serve::Daemon;

/// Messages that wait for a client to read them; then its requests wait.
const QUEUE: usize = 1024;

/// Descriptions of itself that one program may have a session of its own for.
const VARIANTS: usize = 8;

/// Turns the connection into a byte stream.
pub(super) async fn upgrade(
    State(daemon): State<Arc<Daemon>>,
    Path(agent): Path<String>,
    axum::Extension(way): axum::Extension<Way>,
    mut request: Request,
) -> Response {
    let agent = match admit(&daemon, &agent, way, request.headers()) {
        Ok(agent) => agent,
        Err(refusal) => return *refusal,
    };
    let upgrade = request.headers().get(header::UPGRADE);
    if upgrade.is_none_or(|kind| kind != "mcp-stdio") {
        return (
            StatusCode::UPGRADE_REQUIRED,
            [(header::UPGRADE, "mcp-stdio")],
        )
            .into_response();
    }
    let upgraded = hyper::upgrade::on(&mut request);
    let serving = daemon.clone();
    daemon.tasks.spawn(async move {
        match upgraded.await {
            Ok(connection) => {
                // `wharf stdio` comes by the socket of the home, of which it can be seen when nobody is at its end.
                match connection.downcast::<TokioIo<UnixStream>>() {
                    Ok(parts) => {
                        let stream = parts.io.into_inner();
                        let gone = Gone::of(&stream);
                        let (reader, writer) = tokio::io::split(stream);
                        let reader = Cursor::new(parts.read_buf).chain(reader);
                        serve(&serving, &agent, reader, writer, gone).await;
                    }
                    Err(connection) => {
                        let (reader, writer) = tokio::io::split(TokioIo::new(connection));
                        serve(&serving, &agent, reader, writer, Gone(None)).await;
                    }
                }
            }
            Err(error) => tracing::debug!("an upgrade failed: {error}"),
        }
    });
    let headers = [
        (header::CONNECTION, "Upgrade"),
        (header::UPGRADE, "mcp-stdio"),
    ];
    (StatusCode::SWITCHING_PROTOCOLS, headers, Body::empty()).into_response()
}

/// One client on a byte stream, until it closes its end.
struct Pump {
    daemon: Arc<Daemon>,
    agent: AgentName,
    out: mpsc::Sender<Vec<u8>>,
    client: Option<Arc<Client>>,
    /// The same program where it describes itself otherwise, as each request of the stateless era may.
    variants: Vec<Arc<Client>>,
    /// Ends subscriptions, which would go on for ever.
    input_over: CancellationToken,
}

/// Tells when nobody is at the other end of a socket any more. That nothing more is sent says less: a client may be done
/// with asking, and still read.
struct Gone(Option<UnixStream>);

impl Gone {
    fn of(stream: &UnixStream) -> Self {
        let same = stream.as_fd().try_clone_to_owned();
        let same = same.and_then(|same| UnixStream::from_std(same.into()));
        Self(same.ok())
    }

    async fn wait(&self) {
        let Some(stream) = &self.0 else {
            return std::future::pending().await;
        };
        while let Ok(ready) = stream.ready(Interest::WRITABLE).await {
            if ready.is_write_closed() {
                return;
            }
            // Not again until something has happened to it.
            let seen = || Err::<(), _>(std::io::ErrorKind::WouldBlock.into());
            stream.try_io(Interest::WRITABLE, seen).ok();
        }
    }
}

async fn serve(
    daemon: &Arc<Daemon>,
    agent: &AgentName,
    reader: impl AsyncRead + Unpin,
    writer: impl AsyncWrite + Send + Unpin + 'static,
    gone: Gone,
) {
    let (out, messages) = mpsc::channel(QUEUE);
    let writing = daemon.tasks.spawn(write(writer, messages));
    let mut lines = LineReader::with_limit(reader, daemon.wharf.limits().body_bytes);
    let mut pump = Pump {
        daemon: daemon.clone(),
        agent: agent.clone(),
        out,
        client: None,
        variants: vec![],
        input_over: CancellationToken::new(),
    };
    let stop = daemon.stop.clone();
    loop {
        let session = pump.client.as_ref().map(|client| client.session().clone());
        // Its session is over when its agent is removed.
        let over = async {
            match &session {
                Some(session) => session.over().await,
                None => std::future::pending().await,
            }
        };
        let next = tokio::select! {
            next = lines.next_line() => Some(next),
            () = over => None,
            () = stop.cancelled() => None,
        };
        match next {
            Some(Ok(Some(Line::Text(text) | Line::Unfinished(text)))) => {
                pump.line(text.as_bytes()).await;
            }
            Some(Ok(Some(Line::NotUtf8(_)))) => {
                let malformed = Malformed {
                    reason: "a message is not UTF-8".into(),
                    code: message::PARSE_ERROR,
                    id: None,
                    response: false,
                };
                pump.odd(&malformed).await;
            }
            Some(Ok(Some(Line::Oversized(line)))) => {
                let reason = format!("a message of {} bytes is longer than allowed", line.bytes);
                let id = line.found.id.filter(|_| !line.found.response);
                let malformed = Malformed {
                    reason,
                    code: INVALID_REQUEST,
                    id,
                    response: line.found.response,
                };
                pump.odd(&malformed).await;
            }
            Some(Ok(None) | Err(_)) | None => break,
        }
    }
    // The end of its input is its goodbye. What it asked before is still answered, if it reads.
    let Pump {
        out,
        client,
        variants,
        input_over,
        ..
    } = pump;
    input_over.cancel();
    for client in client.into_iter().chain(variants) {
        client.answers_no_more();
        tokio::select! {
            () = client.idle() => {}
            () = out.closed() => {}
            () = gone.wait() => {}
            () = client.session().over() => {}
            () = stop.cancelled() => {}
        }
        client.end().await;
    }
    drop(out);
    writing.await.ok();
}

/// Writes what is there in one go.
async fn write(mut writer: impl AsyncWrite + Unpin, mut messages: mpsc::Receiver<Vec<u8>>) {
    while let Some(mut bytes) = messages.recv().await {
        bytes.push(b'\n');
        while bytes.len() < 64 << 10
            && let Ok(next) = messages.try_recv()
        {
            bytes.extend(next);
            bytes.push(b'\n');
        }
        if writer.write_all(&bytes).await.is_err() || writer.flush().await.is_err() {
            return;
        }
    }
    writer.shutdown().await.ok();
}

impl Pump {
    async fn send(&self, message: Vec<u8>) {
        self.out.send(message).await.ok();
    }

    async fn refuse(&self, id: &Id, error: &ErrorObject) {
        self.send(message::error(Some(id), error)).await;
    }

    /// A request that can't be read is answered when its id can; nothing else is answered.
    async fn odd(&self, malformed: &Malformed) {
        tracing::debug!("a client sent an odd line: {}", malformed.reason);
        if let Some(id) = malformed.id.as_ref().filter(|_| !malformed.response) {
            self.refuse(id, &ErrorObject::new(malformed.code, &*malformed.reason))
                .await;
        }
    }

    async fn line(&mut self, text: &[u8]) {
        if text.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        if text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
            match message::parse_batch(text) {
                Ok(messages) => {
                    for message in messages {
                        match message {
                            Ok(message) => self.message(message).await,
                            Err(odd) => self.odd(&odd).await,
                        }
                    }
                }
                Err(odd) => self.odd(&odd).await,
            }
            return;
        }
        match message::parse(text) {
            Ok(message) => self.message(message).await,
            Err(odd) => self.odd(&odd).await,
        }
    }

    async fn message(&mut self, message: Message<'_>) {
        match message {
            Message::Request { id, method, params } => self.request(id, &method, params).await,
            Message::Notification { method, params } => {
                for client in self.client.iter().chain(&self.variants) {
                    notified(client, &method, params);
                }
            }
            Message::Response { id, outcome } => {
                if let Some(client) = &self.client {
                    client.answered(id.as_ref(), outcome);
                }
            }
        }
    }

    async fn request(&mut self, id: Id, method: &str, params: Option<&RawValue>) {
        // It may have been removed since the connection was opened.
        if let Err(error) = self.daemon.wharf.agent(self.agent.as_str()) {
            let error = ErrorObject::new(INVALID_REQUEST, error.to_string());
            return self.refuse(&id, &error).await;
        }
        let meta = RequestMeta::read(params);
        if method == "initialize" && !meta.enveloped {
            return self.initialize(&id, params).await;
        }
        // A question about us decides nothing: clients ask it before they choose an era.
        let probe = method == "server/discover";
        let client = match (&self.client, meta.enveloped) {
            (Some(client), enveloped) if client.version.is_modern() == enveloped && !probe => {
                match envelope::check_meta(&meta) {
                    Err(error) if enveloped => return self.refuse(&id, &error).await,
                    Ok(version) if enveloped => self.variant(&client.clone(), version, &meta),
                    Ok(_) | Err(_) => client.clone(),
                }
            }
            (Some(client), false) if client.version.is_modern() && !probe => {
                let error = envelope::check_meta(&meta).err();
                let error = error.unwrap_or_else(|| ErrorObject::new(INVALID_REQUEST, ""));
                return self.refuse(&id, &error).await;
            }
            (Some(client), true) if !client.version.is_modern() && !probe => {
                let text = "this connection was opened with initialize, so requests do not carry a protocol version";
                return self
                    .refuse(&id, &ErrorObject::new(INVALID_REQUEST, text))
                    .await;
            }
            (_, true) => match envelope::check_meta(&meta) {
                Ok(version) => self.stateless(version, &meta, probe),
                Err(error) => return self.refuse(&id, &error).await,
            },
            (_, false) if probe => {
                let error = envelope::check_meta(&meta).err();
                let error = error.unwrap_or_else(|| ErrorObject::new(METHOD_NOT_FOUND, ""));
                return self.refuse(&id, &error).await;
            }
            // Without a handshake: some clients only ping, some forget it.
            (_, false) => self.handshake(Version::LATEST_HANDSHAKE, params),
        };
        self.run(client, id, method, params, meta).await;
    }

    /// A client of the stateless era; a probe leaves the era open.
    fn stateless(&mut self, version: Version, meta: &RequestMeta, probe: bool) -> Arc<Client> {
        let described = Described::by_request(meta);
        if probe {
            // Only this question is answered with it, so it shares a session.
            let session = shared::session(&self.daemon, &self.agent, described.declared);
            return Arc::new(Client::new(session, version, &described.name));
        }
        let client = Arc::new(begin(&self.daemon, &self.agent, version, described));
        self.client = Some(client.clone());
        client
    }

    /// The client as this request describes it: another description is another session, since servers may answer it
    /// otherwise.
    fn variant(
        &mut self,
        first: &Arc<Client>,
        version: Version,
        meta: &RequestMeta,
    ) -> Arc<Client> {
        let described = Described::by_request(meta);
        let mut known = std::iter::once(first).chain(&self.variants);
        let same = |client: &&Arc<Client>| *client.session().declared() == described.declared;
        if let Some(client) = known.find(same) {
            return client.clone();
        }
        if self.variants.len() >= VARIANTS {
            let session = shared::session(&self.daemon, &self.agent, described.declared);
            return Arc::new(Client::new(session, version, &described.name));
        }
        let client = Arc::new(begin(&self.daemon, &self.agent, version, described));
        self.variants.push(client.clone());
        client
    }

    fn handshake(&mut self, version: Version, params: Option<&RawValue>) -> Arc<Client> {
        let described = Described::by_handshake(params);
        let client = Arc::new(begin(&self.daemon, &self.agent, version, described));
        self.client = Some(client.clone());
        let (told, out) = (client.clone(), Out::Lines(self.out.clone()));
        // Ends with the pump: its sender goes, or the daemon stops.
        let gone = self.out.clone();
        let (stop, daemon) = (self.daemon.stop.clone(), self.daemon.clone());
        self.daemon.tasks.spawn(async move {
            let ended = async {
                tokio::select! {
                    () = gone.closed() => {}
                    () = told.session().over() => {}
                }
            };
            stop.run_until_cancelled(stream::tell(&daemon, &told, &out, ended))
                .await;
        });
        client
    }

    async fn initialize(&mut self, id: &Id, params: Option<&RawValue>) {
        if let Some(client) = &self.client {
            let error = if client.version.is_modern() {
                let data = json!({ "supported": envelope::supported(), "requested": answer::requested_version(params).map(Version::as_str).unwrap_or_default() });
                ErrorObject::new(
                    UNSUPPORTED_VERSION,
                    "this connection serves the stateless era, which has no initialize",
                )
                .with_data(raw(&data))
            } else {
                ErrorObject::new(INVALID_REQUEST, "this connection is initialized already")
            };
            return self.refuse(id, &error).await;
        }
        match answer::requested_version(params) {
            Ok(version) => {
                let client = self.handshake(version, params);
                let result = answer::initialize(&client).await;
                self.send(message::result(id, &result)).await;
            }
            Err(error) => self.refuse(id, &error).await,
        }
    }

    /// Runs a request beside the others.
    async fn run(
        &self,
        client: Arc<Client>,
        id: Id,
        method: &str,
        params: Option<&RawValue>,
        meta: RequestMeta,
    ) {
        let running = match client.begin(&id) {
            Ok(running) => running,
            Err(error) => return self.refuse(&id, &error).await,
        };
        let input_over = self.input_over.clone();
        let (out, method) = (self.out.clone(), method.to_owned());
        let (params, stop) = (params.map(ToOwned::to_owned), self.daemon.stop.clone());
        let daemon = self.daemon.clone();
        self.daemon.tasks.spawn(async move {
            let told = Out::Lines(out.clone());
            let params = params.as_deref();
            let answering = async {
                if client.version.is_modern() && method == "subscriptions/listen" {
                    listen::over_stdio(&client, &id, params, &told).await?;
                    return Ok(answer::subscription_end(&id.to_raw()));
                }
                let question = Question {
                    daemon: &daemon,
                    client: &client,
                    method: &method,
                    params,
                    meta: &meta,
                    out: told,
                };
                question.answer().await
            };
            let listens = method == "subscriptions/listen";
            let answered = tokio::select! {
                biased;
                // First, since the end of the daemon also ends sessions, and what was asked is still answered.
                () = stop.cancelled() => if listens && client.version.is_modern() {
                    Ok(answer::subscription_end(&id.to_raw()))
                } else {
                    Err(ErrorObject::new(INTERNAL_ERROR, "the daemon is stopping"))
                },
                () = input_over.cancelled(), if listens => return,
                // What was taken back is not answered.
                () = running.cancelled.cancelled() => return,
                answered = answering => answered,
            };
            out.send(reply(&id, answered)).await.ok();
            drop(running);
        });
    }
}
