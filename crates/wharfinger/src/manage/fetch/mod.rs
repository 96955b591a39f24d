//! Fetches public web addresses for agents (`sys_fetch`).
//!
//! GET and HEAD, without headers, cookies or credentials of anyone's. Names are resolved once for each request, every
//! address is checked (see [`Addresses`]), and the connection goes to the one that was checked, so a name that says
//! something else a moment later changes nothing. Redirects are followed here, one by one, through the same check.
//!
//! Nothing is loaded before the first https request, and no connection and no task outlives a request.

mod addresses;
mod body;
mod connect;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use http_body_util::Empty;
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, CONNECTION, ETAG, HOST, IF_NONE_MATCH, LOCATION, USER_AGENT,
};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use url::Url;

pub use addresses::{Addresses, is_public};
pub use connect::{Resolve, Resolving, System, Trust};

use super::{Fetch, Method};

/// Longest headers of an answer, in bytes.
const HEADERS: usize = 64 * 1024;

/// How much a fetch may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest content, as it is sent and unpacked: 25 MB.
    pub bytes: usize,
    /// Most redirects followed: 5.
    pub redirects: usize,
    /// Longest time for all of it: 60 s.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 25 * 1024 * 1024,
            redirects: 5,
            time: Duration::from_secs(60),
        }
    }
}

/// What a client needs to know.
#[derive(Clone, Debug)]
pub struct Options {
    /// What may be reached.
    pub addresses: Addresses,
    /// Finds addresses of names.
    pub resolver: Arc<dyn Resolve>,
    /// Whose certificates are believed.
    pub trust: Trust,
    /// How much a fetch may take.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            addresses: Addresses::default(),
            resolver: Arc::new(System),
            trust: Trust::default(),
            limits: Limits::default(),
        }
    }
}

/// Why nothing was fetched.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is no address that can be fetched; completes "the URL …".
    #[error("the URL {0}")]
    Url(String),
    /// The address is not a public one.
    #[error(
        "`{host}` may not be fetched: {address} is not a public address{}",
        hint(host, address)
    )]
    Refused {
        /// As the URL names it.
        host: String,
        /// Where it is.
        address: IpAddr,
    },
    /// It leads on and on.
    #[error("`{url}` was not fetched: more than {limit} redirects")]
    Redirects {
        /// Where it began.
        url: String,
        /// How many were followed.
        limit: usize,
    },
    /// A redirect to an address that may not be followed.
    #[error("a redirect of `{from}` was not followed: {why}")]
    Redirect {
        /// What was asked.
        from: String,
        /// What is wrong with where it leads.
        why: String,
    },
    /// The content is longer than the limit; nothing of it is kept.
    #[error("the content is longer than {limit} bytes, the most that is fetched")]
    TooBig {
        /// The limit, in bytes.
        limit: usize,
    },
    /// It took longer than the limit.
    #[error("nothing was fetched in {} s, the most that is waited", .limit.as_secs())]
    TimedOut {
        /// The limit.
        limit: Duration,
    },
    /// The host could not be found or reached, or its certificate is not believed.
    #[error("`{host}` cannot be reached: {source}")]
    Connect {
        /// As the URL names it.
        host: String,
        /// What happened.
        source: std::io::Error,
    },
    /// What came back is not HTTP, or broke off.
    #[error("the server's answer cannot be read: {0}")]
    Protocol(String),
    /// The content is packed in a way that was not asked for.
    #[error("the content is packed with `{0}`, which was not asked for")]
    Encoding(String),
    /// There are no roots to believe certificates by.
    #[error("certificates cannot be checked: {0}")]
    Trust(String),
}

impl Error {
    fn protocol(error: &hyper::Error) -> Self {
        let mut text = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        Self::Protocol(text)
    }

    /// The result an agent gets.
    pub fn to_value(&self) -> Value {
        json!({"success": false, "error": self.to_string()})
    }
}

fn hint(host: &str, address: &IpAddr) -> String {
    if host.trim_matches(['[', ']']) == address.to_string() {
        String::new()
    } else {
        ", and the name leads there".to_owned()
    }
}

/// What was fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// Status of the answer; any is one.
    pub status: u16,
    /// Where it came from in the end.
    pub url: String,
    /// As the server tells it.
    pub content_type: Option<String>,
    /// What the server knows this content by.
    pub etag: Option<String>,
    /// All of it.
    pub content: Content,
}

/// Content, as it can be told in JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Text.
    Text(String),
    /// Anything else.
    Bytes(Vec<u8>),
}

impl Fetched {
    /// The result an agent gets. Nothing is ever cut: too much is an error.
    pub fn to_value(&self) -> Value {
        let (key, content) = match &self.content {
            Content::Text(text) => ("text", text.clone()),
            Content::Bytes(bytes) => (
                "base64",
                base64::engine::general_purpose::STANDARD.encode(bytes),
            ),
        };
        json!({
            "status": self.status,
            "url": self.url,
            "content_type": self.content_type,
            key: content,
            "truncated": false,
        })
    }
}

/// Fetches. Cheap to make and to clone.
#[derive(Clone)]
pub struct Client {
    options: Arc<Options>,
    /// Loaded by the first https request.
    tls: Arc<OnceCell<TlsConnector>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.options).finish()
    }
}

impl Client {
    /// A client; nothing is loaded yet.
    pub fn new(options: Options) -> Self {
        Self {
            options: Arc::new(options),
            tls: Arc::default(),
        }
    }

    /// Fetches an address, following redirects.
    pub async fn fetch(&self, request: &Fetch) -> Result<Fetched, Error> {
        self.fetch_if_changed(request, None).await
    }

    /// The same, of a server that answers with status 304 where it has nothing new since it gave this `ETag`.
    pub async fn fetch_if_changed(
        &self,
        request: &Fetch,
        etag: Option<&str>,
    ) -> Result<Fetched, Error> {
        let limit = self.options.limits.time;
        tokio::time::timeout(limit, self.follow(request, etag))
            .await
            .unwrap_or(Err(Error::TimedOut { limit }))
    }

    async fn follow(&self, request: &Fetch, etag: Option<&str>) -> Result<Fetched, Error> {
        let mut url = parse(&request.url).map_err(Error::Url)?;
        for _ in 0..=self.options.limits.redirects {
            match self.ask(&url, request.method, etag).await? {
                Answer::Content(fetched) => return Ok(fetched),
                Answer::Elsewhere(location) => {
                    let next = next(&url, &location);
                    url = next.map_err(|why| Error::Redirect {
                        from: url.to_string(),
                        why,
                    })?;
                }
            }
        }
        Err(Error::Redirects {
            url: request.url.clone(),
            limit: self.options.limits.redirects,
        })
    }

    /// One request on a connection of its own.
    async fn ask(&self, url: &Url, method: Method, etag: Option<&str>) -> Result<Answer, Error> {
        let Options {
            addresses,
            resolver,
            trust,
            limits,
        } = &*self.options;
        let tls = if url.scheme() == "https" {
            Some(self.tls.get_or_try_init(|| trust.load()).await?.clone())
        } else {
            None
        };
        let stream = connect::connect(url, addresses, &**resolver, tls).await?;
        let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
            .max_buf_size(HEADERS)
            .max_headers(100)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| Error::protocol(&error))?;
        let exchange = async {
            let request =
                request(url, method, etag).map_err(|error| Error::Url(error.to_string()))?;
            let response = sender.send_request(request).await;
            answer(
                url,
                response.map_err(|error| Error::protocol(&error))?,
                limits.bytes,
            )
            .await
        };
        // The connection moves only while it is asked to; it goes when this does.
        tokio::pin!(connection, exchange);
        tokio::select! {
            answer = &mut exchange => answer,
            _ = &mut connection => exchange.await,
        }
    }
}

enum Answer {
    Content(Fetched),
    Elsewhere(String),
}

/// An address that can be asked for.
fn parse(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("cannot be read: {error}"))?;
    check(url)
}

fn check(mut url: Url) -> Result<Url, String> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("must be http or https, not `{}`", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("may not hold a user or password; none is sent".into());
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err("has no host".into());
    }
    // It is the client's own and is not sent.
    url.set_fragment(None);
    Ok(url)
}

/// Where a redirect leads. What was asked under TLS is not asked again without.
fn next(from: &Url, location: &str) -> Result<Url, String> {
    let joined = from.join(location);
    let url = joined.map_err(|error| format!("`{location}` cannot be read: {error}"))?;
    let shown = url.scheme().to_owned();
    let url = check(url).map_err(|why| format!("the address it leads to {why}"))?;
    if from.scheme() == "https" && shown == "http" {
        return Err("it leads from https to http".into());
    }
    Ok(url)
}

fn request(
    url: &Url,
    method: Method,
    etag: Option<&str>,
) -> Result<Request<Empty<bytes::Bytes>>, hyper::http::Error> {
    let method = match method {
        Method::Get => hyper::Method::GET,
        Method::Head => hyper::Method::HEAD,
    };
    let target = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let host = url.host_str().unwrap_or_default();
    let host = match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    let mut builder = Request::builder();
    if let Some(etag) = etag {
        builder = builder.header(IF_NONE_MATCH, etag);
    }
    builder
        .method(method)
        .uri(target)
        .header(HOST, host)
        .header(
            USER_AGENT,
            concat!("wharfinger/", env!("CARGO_PKG_VERSION")),
        )
        .header(ACCEPT, "*/*")
        .header(ACCEPT_ENCODING, "gzip")
        .header(CONNECTION, "close")
        .body(Empty::new())
}

async fn answer(
    url: &Url,
    response: Response<hyper::body::Incoming>,
    limit: usize,
) -> Result<Answer, Error> {
    let status = response.status().as_u16();
    let headers = response.headers().iter();
    let length: usize = headers
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum();
    if length > HEADERS {
        return Err(Error::Protocol(format!(
            "its headers are longer than {HEADERS} bytes"
        )));
    }
    if matches!(status, 301 | 302 | 303 | 307 | 308)
        && let Some(location) = body::text(&response, &LOCATION)
    {
        return Ok(Answer::Elsewhere(location));
    }
    let content_type = body::content_type(&response);
    let etag = body::text(&response, &ETAG);
    let bytes = body::read(response, limit).await?;
    let content = if body::is_text(content_type.as_deref(), &bytes) {
        Content::Text(String::from_utf8_lossy(&bytes).into_owned())
    } else {
        Content::Bytes(bytes)
    };
    Ok(Answer::Content(Fetched {
        status,
        url: url.to_string(),
        content_type,
        etag,
        content,
    }))
}

#[cfg(test)]
mod tests;
