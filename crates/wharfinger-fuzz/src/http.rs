//! HTTP/1.1 that sends exactly what it is told, and gives the messages of a response as text, as they come.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A request.
#[derive(Debug, Clone)]
pub struct Ask {
    /// Its method.
    pub method: String,
    /// Its path.
    pub path: String,
    /// Its headers, in this order, as bytes: names and values may be odd.
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
    /// Its body.
    pub body: Vec<u8>,
}

impl Ask {
    /// A `POST` of a message to an agent's endpoint, with the headers that every client sends.
    pub fn post(agent: &str, token: &str, body: impl Into<Vec<u8>>) -> Self {
        let ask = Self {
            method: "POST".into(),
            path: format!("/agents/{agent}/mcp"),
            headers: vec![],
            body: body.into(),
        };
        ask.header("Host", "127.0.0.1")
            .header("Connection", "close")
            .header("Authorization", &format!("Bearer {token}"))
            .header("Content-Type", "application/json")
            .header("Accept", "application/json, text/event-stream")
    }

    /// One more header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Another method.
    #[must_use]
    pub fn method(mut self, method: &str) -> Self {
        method.clone_into(&mut self.method);
        self
    }

    fn head(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path).into_bytes();
        for (name, value) in &self.headers {
            head.extend([name, &b": "[..], value, b"\r\n"].concat());
        }
        head.extend(format!("Content-Length: {}\r\n\r\n", self.body.len()).bytes());
        head
    }
}

/// The head of a response.
#[derive(Debug, Clone, Default)]
pub struct Head {
    /// Its status.
    pub status: u16,
    /// Its headers, names in small letters.
    pub headers: Vec<(String, String)>,
}

impl Head {
    /// The first header of that name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(known, _)| known == name);
        found.next().map(|(_, value)| value.as_str())
    }
}

/// A response, all of it.
#[derive(Debug, Clone)]
pub struct Reply {
    /// Its head.
    pub head: Head,
    /// The messages in it.
    pub messages: Vec<String>,
}

/// Sends a request and reads its response to the end. `told` hears each message as it comes.
pub async fn send(
    address: SocketAddr,
    ask: &Ask,
    mut told: impl FnMut(&Head, &str),
) -> io::Result<Reply> {
    let (mut reader, mut writer) = TcpStream::connect(address).await?.into_split();
    let writing = async {
        // One that refuses early may stop reading.
        if writer.write_all(&ask.head()).await.is_ok() {
            writer.write_all(&ask.body).await.ok();
        }
    };
    let reading = async {
        let mut response = Response::default();
        let mut buffer = vec![0; 16 << 10];
        let mut messages = vec![];
        loop {
            let read = match reader.read(&mut buffer).await {
                Ok(read) => read,
                // It closes at once where it did not read all.
                Err(_) if response.head.is_some() => 0,
                Err(error) => return Err(error),
            };
            for message in response.take(&buffer[..read]) {
                told(response.head.as_ref().unwrap_or(&Head::default()), &message);
                messages.push(message);
            }
            if read == 0 || response.over {
                let head = response.head.ok_or(io::ErrorKind::UnexpectedEof)?;
                return Ok(Reply { head, messages });
            }
        }
    };
    let ((), reply) = tokio::join!(writing, reading);
    reply
}

/// A response as far as it has come.
#[derive(Default)]
struct Response {
    raw: Vec<u8>,
    head: Option<Head>,
    body: Vec<u8>,
    over: bool,
}

impl Response {
    /// Takes a piece; gives the messages that are complete with it. An empty piece is the end.
    fn take(&mut self, piece: &[u8]) -> Vec<String> {
        self.raw.extend(piece);
        if self.head.is_none() {
            let Some(end) = find(&self.raw, b"\r\n\r\n") else {
                return vec![];
            };
            self.head = Some(head(&self.raw[..end]));
            self.raw.drain(..end + 4);
        }
        let head = self.head.clone().unwrap_or_default();
        if head.header("transfer-encoding") == Some("chunked") {
            self.unchunk();
        } else {
            self.body.append(&mut self.raw);
            let length = head.header("content-length").and_then(|l| l.parse().ok());
            self.over = length.is_some_and(|length: usize| self.body.len() >= length);
        }
        self.over |= piece.is_empty();
        match head.header("content-type") {
            Some("text/event-stream") => self.events(),
            Some("application/json") if self.over => vec![text(&std::mem::take(&mut self.body))],
            _ => vec![],
        }
    }

    fn unchunk(&mut self) {
        while let Some(end) = find(&self.raw, b"\r\n") {
            let size = usize::from_str_radix(text(&self.raw[..end]).trim(), 16).unwrap_or(0);
            if self.raw.len() < end + 4 + size {
                return;
            }
            self.body.extend(&self.raw[end + 2..end + 2 + size]);
            self.raw.drain(..end + 4 + size);
            self.over |= size == 0;
        }
    }

    fn events(&mut self) -> Vec<String> {
        let mut messages = vec![];
        while let Some(end) = find(&self.body, b"\n\n") {
            let event = text(&self.body[..end]);
            self.body.drain(..end + 2);
            let data: Vec<&str> = event
                .split('\n')
                .filter_map(|line| line.strip_prefix("data: "))
                .collect();
            if !data.is_empty() {
                messages.push(data.join("\n"));
            }
        }
        messages
    }
}

fn head(bytes: &[u8]) -> Head {
    let text = text(bytes);
    let mut lines = text.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1));
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    };
    Head {
        status: status.and_then(|status| status.parse().ok()).unwrap_or(0),
        headers: lines.filter_map(header).collect(),
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
