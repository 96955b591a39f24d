//! One client session with a server, over any of the transports.

mod http;
mod pending;
mod stdio;
mod target;

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use http_body_util::BodyExt;
use hyper::Method;
use hyper::header::HeaderValue;
use serde::Deserialize;
use tokio::time::timeout;

use crate::rpc::{self, Reply};
use crate::{lock, session::http::About};
use http::{HttpLink, SseLink};
use stdio::StdioLink;
pub use target::Target;

/// How a session speaks.
#[derive(Clone, Debug)]
pub struct Options {
    /// The protocol version.
    pub protocol: String,
    /// The bearer token, over HTTP.
    pub token: Option<String>,
    /// Further HTTP headers.
    pub headers: Vec<(String, String)>,
    /// After so long, a request counts as failed.
    pub timeout: Duration,
    /// Show a stdio server's standard error.
    pub stderr: bool,
}

impl Options {
    /// What there is to say about a protocol version alone.
    pub fn new(protocol: &str) -> Self {
        Self {
            protocol: protocol.to_owned(),
            token: None,
            headers: Vec::new(),
            timeout: Duration::from_secs(30),
            stderr: false,
        }
    }
}

/// A session with a server.
pub struct Session {
    options: Options,
    next_id: AtomicU64,
    link: Link,
}

enum Link {
    Stdio(StdioLink),
    Sse(SseLink),
    Http(HttpLink),
    OpenApi(HttpLink),
}

impl Session {
    /// Connects and, where the protocol has one, does the handshake.
    pub async fn open(target: &Target, options: &Options) -> Result<Self> {
        let link = match target {
            Target::Stdio(words) => Link::Stdio(StdioLink::start(words, options.stderr)?),
            Target::Http(uri) => Link::Http(HttpLink::new(uri.clone())),
            Target::OpenApi(uri) => Link::OpenApi(HttpLink::new(uri.clone())),
            Target::Sse(uri) => {
                Link::Sse(timeout(options.timeout, SseLink::open(uri, options)).await??)
            }
        };
        let session = Self {
            options: options.clone(),
            next_id: AtomicU64::new(1),
            link,
        };
        if !matches!(target, Target::OpenApi(_)) && !rpc::is_stateless(&options.protocol) {
            session.initialize().await?;
        }
        Ok(session)
    }

    async fn initialize(&self) -> Result<()> {
        #[derive(Deserialize)]
        struct Hello {
            result: Agreed,
        }
        #[derive(Deserialize)]
        struct Agreed {
            #[serde(rename = "protocolVersion")]
            version: String,
        }
        let version = &self.options.protocol;
        let hello = format!(
            r#""protocolVersion":"{version}","capabilities":{{}},"clientInfo":{{"name":"mcp-load","version":"0.1"}}"#
        );
        let reply = self.ask("initialize", None, &hello, None).await?;
        let hello: Hello = serde_json::from_slice(&reply.body).context("initialize")?;
        if let Link::Http(http) | Link::Sse(SseLink { http, .. }) = &self.link {
            let agreed = HeaderValue::from_str(&hello.result.version)?;
            *lock(&http.version) = Some(agreed);
        }
        self.notify(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
            .await
    }

    /// Calls a tool. A JSON-RPC error, a failed call and a timeout are all errors.
    pub async fn call(&self, tool: &str, arguments: &str) -> Result<Reply> {
        if let Link::OpenApi(http) = &self.link {
            let work = http.openapi(Method::POST, tool, arguments, &self.options);
            return self.limit(work).await;
        }
        let members = format!(r#""name":"{tool}","arguments":{arguments}"#);
        self.ask("tools/call", Some(tool), &members, None).await
    }

    /// The same, asking for progress; it is in the reply's notes.
    pub async fn call_with_progress(&self, tool: &str, arguments: &str) -> Result<Reply> {
        let members = format!(r#""name":"{tool}","arguments":{arguments}"#);
        let token = self.next_id.load(Relaxed);
        self.ask("tools/call", Some(tool), &members, Some(token))
            .await
    }

    /// Lists all tools, following cursors. Gives the size of the replies.
    pub async fn list(&self, names: &mut Vec<String>) -> Result<usize> {
        names.clear();
        if let Link::OpenApi(http) = &self.link {
            #[derive(Deserialize)]
            struct Document {
                paths: HashMap<String, serde_json::Value>,
            }
            let work = http.openapi(Method::GET, "openapi.json", "", &self.options);
            let reply = self.limit(work).await?;
            let document: Document = serde_json::from_slice(&reply.body)?;
            let paths = document.paths.into_keys();
            names.extend(paths.map(|path| path.trim_start_matches('/').to_owned()));
            return Ok(reply.body.len());
        }
        let (mut bytes, mut cursor) = (0, String::new());
        loop {
            let reply = self.ask("tools/list", None, &cursor, None).await?;
            bytes += reply.body.len();
            let (page, next) = rpc::tools(&reply)?;
            names.extend(page);
            match next {
                Some(next) if names.len() < 1_000_000 => {
                    cursor = format!(r#""cursor":{}"#, serde_json::to_string(&next)?);
                }
                _ => return Ok(bytes),
            }
        }
    }

    /// The tool of that name, or the only sensible one that ends in it after a prefix.
    pub async fn find_tool(&self, name: &str) -> Result<String> {
        let mut names = Vec::new();
        self.list(&mut names).await?;
        if names.iter().any(|known| known == name) {
            return Ok(name.to_owned());
        }
        let ends = |known: &&String| {
            let head = known.strip_suffix(name);
            head.is_some_and(|head| !head.ends_with(|c: char| c.is_ascii_alphanumeric()))
        };
        let found = names.iter().filter(ends).min_by_key(|known| known.len());
        found.cloned().with_context(|| {
            let some: Vec<_> = names.iter().take(5).collect();
            format!("no tool `{name}` among {} such as {some:?}", names.len())
        })
    }

    async fn limit<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        timeout(self.options.timeout, work)
            .await
            .map_err(|_| anyhow!("timed out"))?
    }

    async fn ask(
        &self,
        method: &str,
        name: Option<&str>,
        members: &str,
        progress: Option<u64>,
    ) -> Result<Reply> {
        let id = self.next_id.fetch_add(1, Relaxed);
        let params = rpc::params(&self.options.protocol, members, progress);
        let body = rpc::request(id, method, &params);
        let about = About {
            method: Some(method),
            name,
        };
        let work = async {
            match &self.link {
                Link::Stdio(stdio) => {
                    let reply = stdio.pending.expect(id)?;
                    stdio.send(&body).await?;
                    reply.await.context("the server closed its output")
                }
                Link::Sse(sse) => {
                    let reply = sse.pending.expect(id)?;
                    let response = sse.http.post(body, about, &self.options).await?;
                    response.into_body().collect().await?;
                    reply.await.context("the event stream ended")
                }
                Link::Http(http) => {
                    let response = http.post(body, about, &self.options).await?;
                    http.reply(id, response).await
                }
                Link::OpenApi(_) => bail!("no JSON-RPC over OpenAPI"),
            }
        };
        let reply = self.limit(work).await?;
        match &reply.failure {
            Some(failure) => bail!("{failure}"),
            None => Ok(reply),
        }
    }

    async fn notify(&self, message: &str) -> Result<()> {
        match &self.link {
            Link::Stdio(stdio) => stdio.send(message).await,
            Link::Http(http) | Link::Sse(SseLink { http, .. }) => {
                let body = message.to_owned();
                let response = http.post(body, About::default(), &self.options).await?;
                response.into_body().collect().await?;
                Ok(())
            }
            Link::OpenApi(_) => Ok(()),
        }
    }

    /// How many TCP connections this session has opened so far.
    pub fn connections(&self) -> u64 {
        match &self.link {
            Link::Stdio(_) => 0,
            Link::Sse(SseLink { http, .. }) | Link::Http(http) | Link::OpenApi(http) => {
                http.connections()
            }
        }
    }

    /// Ends the session as the transport wants it.
    pub async fn close(self) {
        match self.link {
            Link::Stdio(stdio) => stdio.close().await,
            Link::Http(http) => http.close(&self.options).await,
            Link::Sse(_) | Link::OpenApi(_) => {}
        }
    }
}
