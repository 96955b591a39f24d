//! A client of the admin API over the daemon's Unix socket.

use std::io;
use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::UnixStream;

/// A part of a path or query, of the admin API's or another's: what has a meaning there is encoded.
pub fn part(text: &str) -> String {
    let kept = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    let bytes = text.bytes().map(|byte| {
        if kept(byte) {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    });
    bytes.collect::<Vec<_>>().concat()
}

/// Talks to the daemon of one home. Each request is a connection of its own.
#[derive(Clone, Debug)]
pub struct Client {
    socket: PathBuf,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No daemon listens.
    #[error("no daemon runs for this home ({})", .socket.display())]
    NotRunning {
        /// Where it would listen.
        socket: PathBuf,
    },
    /// It said no, in its own words.
    #[error("{title}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// What is wrong.
        title: String,
        /// The way out.
        hint: Option<String>,
        /// The whole problem document.
        problem: Value,
    },
    /// The connection broke.
    #[error("the connection to the daemon broke: {0}")]
    Broken(String),
}

/// One server-sent event.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Its name, `message` when it has none.
    pub event: String,
    /// Its data, which is JSON in all of our streams.
    pub data: Value,
    /// The same as it came: numbers that `data` has to round are whole here.
    pub text: String,
}

/// A stream of server-sent events.
#[derive(Debug)]
pub struct Messages {
    body: Incoming,
    buffer: BytesMut,
}

impl Client {
    /// For the daemon whose socket this is.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self {
            socket: socket.into(),
        }
    }

    /// Where it connects to.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Whether a daemon answers.
    pub async fn is_running(&self) -> bool {
        UnixStream::connect(&self.socket).await.is_ok()
    }

    /// `GET`; the path begins with `/api`.
    pub async fn get(&self, path: &str) -> Result<Value, ClientError> {
        self.ask(Method::GET, path, None).await
    }

    /// `POST`, with a body or without.
    pub async fn post(&self, path: &str, body: Option<&Value>) -> Result<Value, ClientError> {
        self.ask(Method::POST, path, body).await
    }

    /// `PUT`, with a body.
    pub async fn put(&self, path: &str, body: &Value) -> Result<Value, ClientError> {
        self.ask(Method::PUT, path, Some(body)).await
    }

    /// `PATCH`, with a body.
    pub async fn patch(&self, path: &str, body: &Value) -> Result<Value, ClientError> {
        self.ask(Method::PATCH, path, Some(body)).await
    }

    /// `DELETE`.
    pub async fn delete(&self, path: &str) -> Result<Value, ClientError> {
        self.ask(Method::DELETE, path, None).await
    }

    /// A request answered by a stream of events.
    pub async fn stream(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Messages, ClientError> {
        let response = self.send(method, path, body).await?;
        Ok(Messages {
            body: response.into_body(),
            buffer: BytesMut::new(),
        })
    }

    /// Turns a connection into a byte stream for MCP over stdio of an agent.
    pub async fn attach(
        &self,
        agent: &str,
    ) -> Result<TokioIo<hyper::upgrade::Upgraded>, ClientError> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("/agents/{agent}/stdio"))
            .header(header::HOST, "localhost")
            .header(header::CONNECTION, "Upgrade")
            .header(header::UPGRADE, "mcp-stdio")
            .body(Full::default());
        let response = self.exchange(request.map_err(broken)?).await?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(refused(response).await);
        }
        hyper::upgrade::on(response)
            .await
            .map(TokioIo::new)
            .map_err(broken)
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, ClientError> {
        let body = self
            .send(method, path, body)
            .await?
            .into_body()
            .collect()
            .await;
        let bytes = body.map_err(broken)?.to_bytes();
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes).map_err(broken)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Response<Incoming>, ClientError> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::from(
                body.map(ToString::to_string).unwrap_or_default(),
            ));
        let response = self.exchange(request.map_err(broken)?).await?;
        if response.status().is_success() {
            Ok(response)
        } else {
            Err(refused(response).await)
        }
    }

    async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, ClientError> {
        let stream =
            UnixStream::connect(&self.socket)
                .await
                .map_err(|error| match error.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                        ClientError::NotRunning {
                            socket: self.socket.clone(),
                        }
                    }
                    _ => broken(error),
                })?;
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(broken)?;
        // It ends with the response it carries, so nobody needs to wait for it.
        #[expect(
            clippy::disallowed_methods,
            reason = "ends with the connection it drives"
        )]
        tokio::spawn(connection.with_upgrades());
        sender.send_request(request).await.map_err(broken)
    }
}

impl Messages {
    /// The next event; `None` when the stream has ended.
    pub async fn next(&mut self) -> Result<Option<Message>, ClientError> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
                let event = self.buffer.split_to(end + 2);
                match parse(&event)? {
                    Some(message) => return Ok(Some(message)),
                    None => continue,
                }
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(frame) => {
                    if let Some(data) = frame.map_err(broken)?.data_ref() {
                        self.buffer.extend_from_slice(data);
                    }
                }
            }
        }
    }
}

/// `None` for a comment.
fn parse(event: &[u8]) -> Result<Option<Message>, ClientError> {
    let text = String::from_utf8_lossy(event);
    let (mut name, mut data) = (None, String::new());
    for line in text.lines() {
        if let Some(value) = line.strip_prefix("event:") {
            name = Some(value.trim().to_owned());
        } else if let Some(value) = line.strip_prefix("data:") {
            data.push_str(value.trim_start());
        }
    }
    if data.is_empty() {
        return Ok(None);
    }
    let text = data;
    let data = serde_json::from_str(&text).map_err(broken)?;
    Ok(Some(Message {
        event: name.unwrap_or_else(|| "message".into()),
        data,
        text,
    }))
}

async fn refused(response: Response<Incoming>) -> ClientError {
    let status = response.status();
    let bytes = response
        .into_body()
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    let problem: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let text = |key: &str| problem[key].as_str().map(str::to_owned);
    let title = text("detail").or_else(|| text("title"));
    ClientError::Refused {
        status: status.as_u16(),
        title: title.unwrap_or_else(|| format!("the daemon answered {status}")),
        hint: text("hint"),
        problem,
    }
}

fn broken(error: impl std::fmt::Display) -> ClientError {
    ClientError::Broken(error.to_string())
}
