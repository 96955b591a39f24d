//! The least MCP client over Streamable HTTP: one connection for each request, nothing hidden.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(90);

/// Status, headers in lower case, and body of an answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// The JSON-RPC messages in it, whether it is one or a stream of them.
    pub(crate) fn messages(&self) -> Vec<Value> {
        let read = |text: &str| {
            serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {self:#?}"))
        };
        let is_stream = self
            .header("content-type")
            .is_some_and(|t| t.starts_with("text/event-stream"));
        if is_stream {
            let data = self
                .body
                .lines()
                .filter_map(|line| line.strip_prefix("data:"));
            data.map(str::trim)
                .filter(|text| !text.is_empty())
                .map(read)
                .collect()
        } else if self.body.is_empty() {
            Vec::new()
        } else {
            vec![read(&self.body)]
        }
    }
}

/// Sends one request to `http://HOST:PORT/PATH`.
fn send(method: &str, url: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let rest = url.strip_prefix("http://").expect("a plain URL");
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let mut head = vec![
        format!("{method} /{path} HTTP/1.1"),
        format!("Host: {host}"),
    ];
    head.push("Connection: close".to_owned());
    head.extend(
        headers
            .iter()
            .map(|(name, value)| format!("{name}: {value}")),
    );
    head.push(format!("Content-Length: {}", body.len()));
    let request = format!("{}\r\n\r\n{body}", head.join("\r\n"));
    stream.write_all(request.as_bytes()).unwrap();
    read_answer(BufReader::new(stream))
}

fn read_answer(mut stream: impl BufRead) -> Answer {
    let mut line = || {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    };
    let status_line = line();
    let status = status_line
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok());
    let status = status.unwrap_or_else(|| panic!("no HTTP status in {status_line:?}"));
    let mut headers = Vec::new();
    loop {
        let header = line();
        let Some((name, value)) = header.split_once(':') else {
            break;
        };
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let mut answer = Answer {
        status,
        headers,
        body: String::new(),
    };
    let body = if answer.header("transfer-encoding") == Some("chunked") {
        read_chunks(&mut stream)
    } else if let Some(length) = answer.header("content-length") {
        let mut body = vec![0; length.parse().unwrap()];
        stream.read_exact(&mut body).unwrap();
        body
    } else {
        let mut body = Vec::new();
        stream.read_to_end(&mut body).unwrap();
        body
    };
    answer.body = String::from_utf8(body).unwrap();
    answer
}

fn read_chunks(stream: &mut impl BufRead) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let mut size = String::new();
        stream.read_line(&mut size).unwrap();
        let size = u64::from_str_radix(size.trim_end(), 16).unwrap();
        stream.by_ref().take(size).read_to_end(&mut body).unwrap();
        stream.read_line(&mut String::new()).unwrap();
        if size == 0 {
            return body;
        }
    }
}

/// A session of protocol 2025-11-25.
pub(crate) struct Session {
    url: String,
    token: String,
    id: Option<String>,
    requests: u64,
    /// What the model is told.
    pub(crate) instructions: String,
}

impl Session {
    pub(crate) fn open(url: &str, token: &str) -> Self {
        Self::open_as(url, token, &json!({}))
    }

    /// Of a client that can do this.
    pub(crate) fn open_as(url: &str, token: &str, capabilities: &Value) -> Self {
        let mut session = Self {
            url: url.to_owned(),
            token: token.to_owned(),
            id: None,
            requests: 0,
            instructions: String::new(),
        };
        let hello = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities,
            "clientInfo": {"name": "e2e", "version": "0"},
        });
        let (answer, result) = session.ask("initialize", &hello);
        assert_eq!(
            result["result"]["protocolVersion"], "2025-11-25",
            "{result}"
        );
        session.id = answer.header("mcp-session-id").map(ToOwned::to_owned);
        let told = result["result"]["instructions"].as_str();
        told.unwrap_or_default()
            .clone_into(&mut session.instructions);
        let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let answer = session.send("POST", &done.to_string());
        assert_eq!(answer.status, 202, "{answer:#?}");
        session
    }

    /// The whole reply to a request.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Value {
        self.ask(method, params).1
    }

    /// All tools, page after page.
    pub(crate) fn tool_names(&mut self) -> Vec<String> {
        let mut names = Vec::new();
        let mut params = json!({});
        loop {
            let reply = self.request("tools/list", &params);
            let tools = reply["result"]["tools"].as_array();
            let tools = tools.unwrap_or_else(|| panic!("no list of tools in {reply}"));
            names.extend(
                tools
                    .iter()
                    .map(|tool| tool["name"].as_str().unwrap().to_owned()),
            );
            match reply["result"].get("nextCursor") {
                Some(cursor) if !cursor.is_null() => params = json!({"cursor": cursor}),
                _ => return names,
            }
        }
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.request("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    fn ask(&mut self, method: &str, params: &Value) -> (Answer, Value) {
        self.requests += 1;
        let id = self.requests;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let answer = self.send("POST", &message.to_string());
        let reply = answer
            .messages()
            .into_iter()
            .find(|message| message["id"] == id);
        let reply = reply.unwrap_or_else(|| panic!("no reply to {method} in {answer:#?}"));
        (answer, reply)
    }

    /// Ends it, as clients do when a conversation is over.
    pub(crate) fn end(self) {
        let answer = self.send("DELETE", "");
        assert!(matches!(answer.status, 200..=204), "{answer:#?}");
    }

    fn send(&self, method: &str, body: &str) -> Answer {
        let bearer = format!("Bearer {}", self.token);
        let mut headers = vec![
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ];
        if let Some(id) = &self.id {
            headers.push(("Mcp-Session-Id", id));
            headers.push(("MCP-Protocol-Version", "2025-11-25"));
        }
        send(method, &self.url, &headers, body)
    }
}
