//! JSON-RPC messages as a load client needs them: built as text, read just far enough to match a reply to its request
//! and to tell success from failure.

use anyhow::{Result, bail};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Whether a protocol version has no handshake.
pub fn is_stateless(version: &str) -> bool {
    version >= "2026-07-28"
}

/// A request's params: its members, and what its protocol version and its wish for progress put in `_meta`.
pub fn params(version: &str, members: &str, progress: Option<u64>) -> String {
    let mut meta = Vec::new();
    if is_stateless(version) {
        meta.push(format!(
            r#""io.modelcontextprotocol/protocolVersion":"{version}","io.modelcontextprotocol/clientInfo":{{"name":"mcp-load","version":"0.1"}},"io.modelcontextprotocol/clientCapabilities":{{}}"#
        ));
    }
    meta.extend(progress.map(|token| format!(r#""progressToken":{token}"#)));
    if meta.is_empty() {
        return format!("{{{members}}}");
    }
    let comma = if members.is_empty() { "" } else { "," };
    format!(r#"{{{members}{comma}"_meta":{{{}}}}}"#, meta.join(","))
}

/// A request.
pub fn request(id: u64, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<String>,
    result: Option<Outcome>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Outcome {
    #[serde(rename = "isError", default)]
    is_error: bool,
}

/// What came in on a connection.
pub enum Incoming {
    /// The reply to a request of ours.
    Reply {
        /// Which one.
        id: u64,
        /// What it says.
        reply: Reply,
    },
    /// A request of the server's.
    Request {
        /// Raw JSON.
        id: String,
        /// What it wants.
        method: String,
    },
    /// Something the server tells.
    Notification(Bytes),
}

/// A reply to a request.
#[derive(Debug)]
pub struct Reply {
    /// The whole message.
    pub body: Bytes,
    /// The JSON-RPC error, or the text of a failed tool call.
    pub failure: Option<String>,
    /// Notifications that came before it.
    pub notes: Vec<Bytes>,
}

/// Reads one message.
pub fn read(body: Bytes) -> Result<Incoming> {
    let envelope: Envelope<'_> = match serde_json::from_slice(&body) {
        Ok(envelope) => envelope,
        Err(error) => bail!("not a JSON-RPC message ({error}): {}", excerpt(&body)),
    };
    if let Some(method) = envelope.method {
        return Ok(match envelope.id {
            Some(id) => Incoming::Request {
                id: id.get().to_owned(),
                method,
            },
            None => Incoming::Notification(body),
        });
    }
    let failure = match (&envelope.result, envelope.error) {
        (_, Some(error)) => Some(format!(
            "JSON-RPC error {}",
            excerpt(error.get().as_bytes())
        )),
        (Some(outcome), None) if outcome.is_error => Some(format!("tool error {}", excerpt(&body))),
        (Some(_), None) => None,
        (None, None) => Some("a reply without result or error".to_owned()),
    };
    // A server that can't read a request answers with a null id.
    let id = envelope.id.map_or("null", RawValue::get);
    match id.trim_matches('"').parse() {
        Ok(id) => {
            let notes = Vec::new();
            let reply = Reply {
                body,
                failure,
                notes,
            };
            Ok(Incoming::Reply { id, reply })
        }
        Err(_) => bail!("a reply to the unknown id {id}: {}", excerpt(&body)),
    }
}

/// The start of a text, for messages.
pub fn excerpt(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).into_owned()
}

/// The tool names and the next cursor of a `tools/list` reply.
pub fn tools(reply: &Reply) -> Result<(Vec<String>, Option<String>)> {
    #[derive(Deserialize)]
    struct Body {
        result: List,
    }
    #[derive(Deserialize)]
    struct List {
        tools: Vec<Tool>,
        #[serde(rename = "nextCursor")]
        next: Option<String>,
    }
    #[derive(Deserialize)]
    struct Tool {
        name: String,
    }
    let Body { result } = serde_json::from_slice(&reply.body)?;
    let names = result.tools.into_iter().map(|tool| tool.name).collect();
    Ok((names, result.next))
}

/// How far a progress notification says that things are; `None` if it is none.
pub fn progress(note: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Note<'a> {
        method: &'a str,
        params: Params,
    }
    #[derive(Deserialize)]
    struct Params {
        progress: u64,
    }
    let note: Note<'_> = serde_json::from_slice(note).ok()?;
    (note.method == "notifications/progress").then_some(note.params.progress)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_told_apart() {
        let read = |text: &'static str| read(Bytes::from_static(text.as_bytes()));
        let failure = |text| match read(text).unwrap() {
            Incoming::Reply { id: 7, reply } => reply.failure.unwrap_or_default(),
            _ => panic!("not a reply to 7"),
        };
        let check = |text, start: &str| assert!(failure(text).starts_with(start), "{text}");
        assert_eq!(
            failure(r#"{"jsonrpc":"2.0","id":7,"result":{"content":[]}}"#),
            ""
        );
        check(r#"{"id":7,"result":{"isError":true}}"#, "tool error");
        check(
            r#"{"id":"7","error":{"code":1,"message":"m"}}"#,
            "JSON-RPC error",
        );
        check(r#"{"id":7}"#, "a reply without");
        assert!(matches!(
            read(r#"{"id":"s1","method":"ping"}"#).unwrap(),
            Incoming::Request { .. }
        ));
        assert!(matches!(
            read(r#"{"method":"notifications/x"}"#).unwrap(),
            Incoming::Notification(_)
        ));
        assert!(read(r#"{"id":null,"error":{}}"#).is_err());
        assert!(read("no json").is_err());
    }

    #[test]
    fn params_carry_what_the_version_wants() {
        let check = |version, members, progress, expect: &str| {
            assert_eq!(params(version, members, progress), expect);
        };
        check("2025-06-18", r#""a":1"#, None, r#"{"a":1}"#);
        check("2025-06-18", "", None, "{}");
        check(
            "2025-06-18",
            r#""a":1"#,
            Some(4),
            r#"{"a":1,"_meta":{"progressToken":4}}"#,
        );
        let modern = params("2026-07-28", "", Some(4));
        let start = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
        assert!(modern.starts_with(start), "{modern}");
        assert!(modern.ends_with(r#","progressToken":4}}"#), "{modern}");
    }

    #[test]
    fn progress_is_read() {
        let note =
            br#"{"method":"notifications/progress","params":{"progressToken":1,"progress":12}}"#;
        assert_eq!(progress(note), Some(12));
        assert_eq!(progress(br#"{"method":"x","params":{"progress":1}}"#), None);
    }
}
