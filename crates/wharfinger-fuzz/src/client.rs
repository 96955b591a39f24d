//! A well-behaved client, of either era and by either way.

use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, ReadHalf, WriteHalf, split};
use wharfinger_wire::json::{Object, raw};

use crate::dock::{Dock, Stream, within};
use crate::http::{Ask, Reply, send};

/// How a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// Over HTTP, after `initialize`.
    HttpHandshake,
    /// Over HTTP, 2026-07-28.
    HttpStateless,
    /// As lines, after `initialize`.
    LinesHandshake,
    /// As lines, 2026-07-28.
    LinesStateless,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::HttpHandshake,
        Self::HttpStateless,
        Self::LinesHandshake,
        Self::LinesStateless,
    ];

    /// Whether each request describes its client.
    pub fn is_stateless(self) -> bool {
        matches!(self, Self::HttpStateless | Self::LinesStateless)
    }
}

/// A client of the agent `default`.
pub struct Client<'a> {
    dock: &'a Dock,
    way: Way,
    token: String,
    session: String,
    lines: Option<Lines>,
    asked: u64,
}

struct Lines {
    reader: BufReader<ReadHalf<Box<dyn Stream>>>,
    writer: WriteHalf<Box<dyn Stream>>,
}

const STATELESS: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

impl<'a> Client<'a> {
    /// Begins, and lists the tools.
    ///
    /// # Panics
    /// If it is not served.
    pub async fn begin(dock: &'a Dock, way: Way, token: &str) -> Self {
        let lines = match way {
            Way::HttpHandshake | Way::HttpStateless => None,
            Way::LinesHandshake | Way::LinesStateless => {
                let (reader, writer) = split(dock.attach("default").await);
                let reader = BufReader::new(reader);
                Some(Lines { reader, writer })
            }
        };
        let mut client = Self {
            dock,
            way,
            token: token.to_owned(),
            session: String::new(),
            lines,
            asked: 0,
        };
        if !way.is_stateless() {
            let params = json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": { "name": "fuzz", "version": "1" },
            });
            client.ask("initialize", "", &params.to_string()).await;
        }
        let params = format!("{{{}}}", client.meta(""));
        let list = client.ask("tools/list", "", &params).await;
        assert!(
            list.contains("old_give") && list.contains("new_give"),
            "{list}"
        );
        client
    }

    /// How it speaks.
    pub fn way(&self) -> Way {
        self.way
    }

    fn meta(&self, before: &str) -> String {
        if self.way.is_stateless() {
            format!("{before}{STATELESS}")
        } else {
            String::new()
        }
    }

    /// Calls a tool; gives the whole reply.
    ///
    /// # Panics
    /// If there is none.
    pub async fn call(&mut self, tool: &str, arguments: &str) -> String {
        let name = raw(tool);
        let meta = self.meta(",");
        let params = format!(
            "{{\"name\":{},\"arguments\":{arguments}{meta}}}",
            name.get()
        );
        self.ask("tools/call", tool, &params).await
    }

    async fn ask(&mut self, method: &str, name: &str, params: &str) -> String {
        self.asked += 1;
        let id = self.asked;
        let text = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}"
        );
        let reply = within(method, self.exchange(method, name, text)).await;
        let object = Object::parse(&reply).unwrap_or_default();
        let of = object.get("id").map(|id| id.get().to_owned());
        assert_eq!(of, Some(id.to_string()), "the reply to {id} is {reply}");
        reply
    }

    async fn exchange(&mut self, method: &str, name: &str, text: String) -> String {
        if let Some(lines) = &mut self.lines {
            let line = text.replace(['\n', '\r'], " ") + "\n";
            let written = lines.writer.write_all(line.as_bytes()).await;
            written.expect("the daemon reads");
            let mut line = String::new();
            let read = lines.reader.read_line(&mut line).await;
            read.expect("the daemon writes");
            return line;
        }
        let ask = Ask::post("default", &self.token, text);
        let ask = if self.way.is_stateless() {
            let ask = ask.header("MCP-Protocol-Version", "2026-07-28");
            let ask = ask.header("Mcp-Method", method);
            if name.is_empty() {
                ask
            } else {
                ask.header("Mcp-Name", name)
            }
        } else if self.session.is_empty() {
            ask
        } else {
            ask.header("Mcp-Session-Id", &self.session)
        };
        let reply = send(self.dock.address, &ask, |_, _| {}).await;
        let Reply { head, mut messages } = reply.expect("the daemon answers");
        if let Some(session) = head.header("mcp-session-id") {
            session.clone_into(&mut self.session);
        }
        messages
            .pop()
            .unwrap_or_else(|| panic!("no message, but {head:?}"))
    }
}
