//! MCP over HTTP: Streamable HTTP, the old transport with a stream of its own, and `OpenAPI`.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming as Body;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::Options;
use super::pending::Pending;
use super::target::loopback;
use crate::events::Events;
use crate::lock;
use crate::rpc::{self, Incoming, Reply};

/// What a message is about, for the headers that say so.
#[derive(Clone, Copy, Default)]
pub(super) struct About<'a> {
    pub(super) method: Option<&'a str>,
    pub(super) name: Option<&'a str>,
}

pub(super) struct HttpLink {
    uri: Uri,
    client: Client<Connector, Full<Bytes>>,
    opened: Arc<AtomicU64>,
    session: Mutex<Option<HeaderValue>>,
    pub(super) version: Mutex<Option<HeaderValue>>,
    /// Ends of streams that are still being read.
    tails: TaskTracker,
}

impl HttpLink {
    pub(super) fn new(uri: Uri) -> Self {
        let opened = Arc::new(AtomicU64::new(0));
        let mut inner = HttpConnector::new();
        inner.set_nodelay(true);
        let connector = Connector {
            inner,
            opened: opened.clone(),
        };
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .build(connector);
        Self {
            uri,
            client,
            opened,
            session: Mutex::default(),
            version: Mutex::default(),
            tails: TaskTracker::new(),
        }
    }

    /// How many TCP connections it has opened so far.
    pub(super) fn connections(&self) -> u64 {
        self.opened.load(Relaxed)
    }

    fn request(
        &self,
        method: Method,
        uri: Uri,
        body: Bytes,
        options: &Options,
    ) -> Result<Request<Full<Bytes>>> {
        let mut request = Request::builder()
            .method(method)
            .uri(uri)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream");
        if let Some(token) = &options.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        for (name, value) in &options.headers {
            request = request.header(name, value);
        }
        if let Some(id) = lock(&self.session).as_ref() {
            request = request.header("mcp-session-id", id);
        }
        if let Some(version) = lock(&self.version).as_ref() {
            request = request.header("mcp-protocol-version", version);
        }
        Ok(request.body(Full::new(body))?)
    }

    pub(super) async fn post(
        &self,
        body: String,
        about: About<'_>,
        options: &Options,
    ) -> Result<Response<Body>> {
        let mut request = self.request(Method::POST, self.uri.clone(), body.into(), options)?;
        if rpc::is_stateless(&options.protocol) {
            let headers = request.headers_mut();
            let version = HeaderValue::from_str(&options.protocol)?;
            headers.insert("mcp-protocol-version", version);
            if let Some(method) = about.method {
                headers.insert("mcp-method", HeaderValue::from_str(method)?);
            }
            if let Some(name) = about.name {
                headers.insert("mcp-name", HeaderValue::from_str(name)?);
            }
        }
        let response = good(self.client.request(request).await?).await?;
        if let Some(id) = response.headers().get("mcp-session-id") {
            lock(&self.session).get_or_insert_with(|| id.clone());
        }
        Ok(response)
    }

    /// Reads the reply to `id`, as JSON or from an event stream.
    pub(super) async fn reply(&self, id: u64, response: Response<Body>) -> Result<Reply> {
        let kind = response.headers().get(CONTENT_TYPE);
        let streamed = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        let mut body = response.into_body();
        if !streamed {
            let body = body.collect().await?.to_bytes();
            return match rpc::read(body)? {
                Incoming::Reply { id: got, reply } if got == id => Ok(reply),
                _ => bail!("the response is not the reply to this request"),
            };
        }
        let (mut events, mut notes) = (Events::default(), Vec::new());
        loop {
            while let Some(event) = events.next_event() {
                match rpc::read(event.data)? {
                    Incoming::Reply { id: got, mut reply } => {
                        ensure!(got == id, "a reply to request {got} on the stream of {id}");
                        reply.notes = notes;
                        // The end of the stream is usually here already; reading it frees the connection for the next
                        // request.
                        let rest = async move { while let Ok(Some(_)) = chunk(&mut body).await {} };
                        self.tails.spawn(timeout(Duration::from_secs(1), rest));
                        tokio::task::yield_now().await;
                        return Ok(reply);
                    }
                    Incoming::Notification(note) => notes.push(note),
                    Incoming::Request { .. } => {}
                }
            }
            let more = chunk(&mut body).await?;
            events.push(&more.context("the event stream ended without the reply")?);
        }
    }

    pub(super) async fn openapi(
        &self,
        method: Method,
        path: &str,
        body: &str,
        options: &Options,
    ) -> Result<Reply> {
        let base = self.uri.to_string();
        let uri = format!("{}/{path}", base.trim_end_matches('/')).parse()?;
        let body = Bytes::copy_from_slice(body.as_bytes());
        let request = self.request(method, uri, body, options)?;
        let response = good(self.client.request(request).await?).await?;
        Ok(Reply {
            body: response.into_body().collect().await?.to_bytes(),
            failure: None,
            notes: Vec::new(),
        })
    }

    /// Says goodbye, where there is a session to end.
    pub(super) async fn close(&self, options: &Options) {
        if lock(&self.session).is_none() {
            return;
        }
        let bye = self.request(Method::DELETE, self.uri.clone(), Bytes::new(), options);
        let bye = async {
            let response = self.client.request(bye?).await?;
            response.into_body().collect().await?;
            anyhow::Ok(())
        };
        // Whether it was heard is the server's affair.
        timeout(Duration::from_secs(10), bye).await.ok();
    }
}

/// The old transport: an event stream beside the requests, on which all replies come.
pub(super) struct SseLink {
    pub(super) http: HttpLink,
    pub(super) pending: Arc<Pending>,
    /// The one that reads the stream; ends with this value.
    _reader: JoinSet<()>,
}

impl SseLink {
    /// Opens the stream and learns where to post.
    pub(super) async fn open(uri: &Uri, options: &Options) -> Result<Self> {
        let mut http = HttpLink::new(uri.clone());
        let get = http.request(Method::GET, uri.clone(), Bytes::new(), options)?;
        let mut body = good(http.client.request(get).await?).await?.into_body();
        let mut events = Events::default();
        let endpoint = loop {
            if let Some(event) = events.next_event() {
                ensure!(event.name == "endpoint", "the first event is no endpoint");
                break String::from_utf8(event.data.to_vec())?;
            }
            let more = chunk(&mut body).await?;
            events.push(&more.context("the event stream ended early")?);
        };
        http.uri = if endpoint.starts_with("http") {
            loopback(&endpoint)?
        } else {
            let authority = uri.authority().context("no authority")?;
            loopback(&format!("http://{authority}{endpoint}"))?
        };
        let pending = Pending::new();
        let told = pending.clone();
        let mut reader = JoinSet::new();
        reader.spawn(async move {
            while let Ok(Some(bytes)) = chunk(&mut body).await {
                events.push(&bytes);
                while let Some(event) = events.next_event() {
                    told.deliver(event.data).ok();
                }
            }
            told.end();
        });
        Ok(Self {
            http,
            pending,
            _reader: reader,
        })
    }
}

/// The response if its status is a success, else its status and the start of its body.
async fn good(response: Response<Body>) -> Result<Response<Body>> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = response.into_body().collect().await?.to_bytes();
    bail!("HTTP {}: {}", status.as_u16(), rpc::excerpt(&body))
}

async fn chunk(body: &mut Body) -> Result<Option<Bytes>> {
    loop {
        match body.frame().await.transpose()? {
            None => return Ok(None),
            Some(frame) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// Counts the connections it opens.
#[derive(Clone)]
struct Connector {
    inner: HttpConnector,
    opened: Arc<AtomicU64>,
}

type Inner = HttpConnector;
type Connecting<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

impl tower_service::Service<Uri> for Connector {
    type Response = <Inner as tower_service::Service<Uri>>::Response;
    type Error = <Inner as tower_service::Service<Uri>>::Error;
    type Future = Connecting<Self::Response, Self::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        self.opened.fetch_add(1, Relaxed);
        Box::pin(self.inner.call(uri))
    }
}
