//! A small HTTP/1.1 client that sends exactly what it is told.

use std::future::Future;
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use wharfinger_testkit::PATIENCE;

/// Nothing that is waited for takes longer.
pub(crate) async fn within<T>(what: &str, waited: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, waited)
        .await
        .unwrap_or_else(|_| panic!("waited {PATIENCE:?} in vain for {what}"))
}

/// A request on its way.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    address: SocketAddr,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Ask {
    pub(crate) fn new(address: SocketAddr, method: &str, path: &str) -> Self {
        let ask = Self {
            address,
            method: method.to_owned(),
            path: path.to_owned(),
            headers: vec![],
            body: vec![],
        };
        ask.header("Host", &address.to_string())
            .header("Connection", "close")
    }

    /// The only header of that name.
    pub(crate) fn header(self, name: &str, value: &str) -> Self {
        self.without(name).also(name, value)
    }

    /// One more header.
    pub(crate) fn also(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers
            .retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    pub(crate) fn method(mut self, method: &str) -> Self {
        method.clone_into(&mut self.method);
        self
    }

    pub(crate) fn to(mut self, path: &str) -> Self {
        path.clone_into(&mut self.path);
        self
    }

    pub(crate) fn bearer(self, token: &str) -> Self {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.header("Content-Type", "application/json")
            .body(body.to_string())
    }

    /// Sends it and reads the head of the response, both at once: a response may come before all is sent.
    pub(crate) async fn send(self) -> Response {
        let what = format!("the answer to {} {}", self.method, self.path);
        within(&what, self.exchange()).await
    }

    async fn exchange(self) -> Response {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (reader, mut writer) = stream.into_split();
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            head = head + name + ": " + value + "\r\n";
        }
        if !self.body.is_empty() || self.method == "POST" {
            head = head + "Content-Length: " + &self.body.len().to_string() + "\r\n";
        }
        head.push_str("\r\n");
        let writing = async {
            // One that refuses early may stop reading.
            let sent = writer.write_all(head.as_bytes()).await;
            if sent.is_ok() {
                writer.write_all(&self.body).await.ok();
            }
        };
        let mut reader = BufReader::new(reader);
        let ((), (status, headers)) = tokio::join!(writing, read_head(&mut reader));
        Response {
            status,
            headers,
            reader,
            pending: vec![],
            over: false,
            _writer: writer,
        }
    }
}

async fn read_head(reader: &mut BufReader<OwnedReadHalf>) -> (u16, Vec<(String, String)>) {
    let first = line(reader).await;
    let status = first.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.unwrap_or_else(|| panic!("no status line: {first:?}"));
    let mut headers = vec![];
    loop {
        let line = line(reader).await;
        let Some((name, value)) = line.split_once(':') else {
            return (status, headers);
        };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

async fn line(reader: &mut BufReader<OwnedReadHalf>) -> String {
    let mut line = String::new();
    reader.read_line(&mut line).await.unwrap();
    line.trim_end().to_owned()
}

/// A response whose body is read as it comes. The connection ends with it.
pub(crate) struct Response {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    reader: BufReader<OwnedReadHalf>,
    pending: Vec<u8>,
    over: bool,
    _writer: OwnedWriteHalf,
}

/// A server-sent event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) data: Value,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(known, _)| known == name);
        found.next().map(|(_, value)| value.as_str())
    }

    pub(crate) fn kind(&self) -> &str {
        self.header("content-type").unwrap_or_default()
    }

    /// What comes next of the body; false at its end.
    async fn more(&mut self) -> bool {
        if self.over {
            return false;
        }
        if self.header("transfer-encoding") == Some("chunked") {
            let size = line(&mut self.reader).await;
            let size = usize::from_str_radix(&size, 16).unwrap_or_default();
            let mut chunk = vec![0; size];
            self.reader.read_exact(&mut chunk).await.unwrap();
            line(&mut self.reader).await;
            self.over = size == 0;
            self.pending.extend(chunk);
        } else {
            let length = self.header("content-length");
            let length = length.and_then(|length| length.parse().ok());
            let mut rest = vec![0; length.unwrap_or(0)];
            self.reader.read_exact(&mut rest).await.unwrap();
            self.pending.extend(rest);
            self.over = true;
        }
        true
    }

    pub(crate) async fn text(mut self) -> String {
        within("the rest of a body", async { while self.more().await {} }).await;
        String::from_utf8(self.pending).unwrap()
    }

    pub(crate) async fn json(self) -> Value {
        let text = self.text().await;
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}"))
    }

    /// The next event; none when the stream has ended.
    pub(crate) async fn event(&mut self) -> Option<Event> {
        if self.kind() != "text/event-stream" {
            while self.more().await {}
            let text = String::from_utf8_lossy(&self.pending);
            panic!("no stream but {} {text}", self.status);
        }
        within("the next event", async {
            loop {
                let end = self.pending.windows(2).position(|pair| pair == b"\n\n");
                if let Some(end) = end {
                    let event: Vec<u8> = self.pending.drain(..end + 2).collect();
                    match parse(std::str::from_utf8(&event).unwrap()) {
                        Some(event) => return Some(event),
                        None => continue,
                    }
                }
                if !self.more().await {
                    return None;
                }
            }
        })
        .await
    }

    /// The next message of an MCP stream.
    pub(crate) async fn message(&mut self) -> Option<Value> {
        self.event().await.map(|event| event.data)
    }

    /// All messages, whichever form the response has.
    pub(crate) async fn messages(mut self) -> Vec<Value> {
        if self.kind() == "application/json" {
            return vec![self.json().await];
        }
        let mut messages = vec![];
        while let Some(message) = self.message().await {
            messages.push(message);
        }
        messages
    }
}

/// None for a comment.
fn parse(event: &str) -> Option<Event> {
    let (mut name, mut data) = ("message", String::new());
    for line in event.lines() {
        if let Some(value) = line.strip_prefix("event: ") {
            name = value;
        } else if let Some(value) = line.strip_prefix("data: ") {
            data.push_str(value);
        }
    }
    (!data.is_empty()).then(|| Event {
        name: name.to_owned(),
        data: serde_json::from_str(&data).unwrap(),
    })
}
