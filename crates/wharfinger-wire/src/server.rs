//! What somebody who answers requests needs, whichever way they arrive.
//!
//! Sessions, status codes and streams are left to the doors.

use serde_json::value::RawValue;

use crate::era::{CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION, Version};
use crate::json::{Object, Raw};

/// HTTP header: the session of the handshake era.
pub const SESSION_ID: &str = "mcp-session-id";
/// HTTP header: the protocol version, from 2025-06-18.
pub const PROTOCOL_VERSION_HEADER: &str = "mcp-protocol-version";
/// HTTP header: the request's method, from 2026-07-28.
pub const METHOD: &str = "mcp-method";
/// HTTP header: the tool, prompt, resource or task asked for, from 2026-07-28.
pub const NAME: &str = "mcp-name";
/// HTTP headers that begin so repeat arguments, from 2026-07-28.
pub const PARAM_PREFIX: &str = "mcp-param-";
/// HTTP header: the last event a client got from a stream it lost.
pub const LAST_EVENT_ID: &str = "last-event-id";

/// What a request says about its client in `params._meta`.
#[derive(Debug, Clone, Default)]
pub struct RequestMeta {
    /// Whether it names a protocol version, well or badly: that makes it a stateless request.
    pub enveloped: bool,
    /// The protocol version, if it is a string.
    pub version: Option<String>,
    /// The program that asks, if it is an object.
    pub client_info: Option<Raw>,
    /// What that program can do, if it is an object. Required of stateless requests.
    pub capabilities: Option<Raw>,
    /// From which level on log messages are wanted.
    pub log_level: Option<String>,
    /// With what to mark progress, if it is a number or a string.
    pub progress_token: Option<Raw>,
}

impl RequestMeta {
    /// Reads the description from a request's params. What is odd counts as missing.
    pub fn read(params: Option<&RawValue>) -> Self {
        // Most requests of the handshake era have none, and that is quickly seen.
        let params = params
            .filter(|raw| raw.get().contains("\"_meta\""))
            .and_then(|raw| Object::from_raw(raw).ok())
            .unwrap_or_default();
        let meta = params.object("_meta").unwrap_or_default();
        let text = |key: &str| meta.text(key).map(std::borrow::Cow::into_owned);
        let object = |key: &str| {
            meta.get(key)
                .filter(|raw| Object::from_raw(raw).is_ok())
                .map(ToOwned::to_owned)
        };
        let token = meta.get("progressToken");
        Self {
            enveloped: meta.contains(PROTOCOL_VERSION),
            version: text(PROTOCOL_VERSION),
            client_info: object(CLIENT_INFO),
            capabilities: object(CLIENT_CAPABILITIES),
            log_level: text(LOG_LEVEL),
            progress_token: token
                .filter(|raw| crate::message::Id::parse(raw).is_some())
                .map(ToOwned::to_owned),
        }
    }
}

/// The version to answer an `initialize` with: the requested one, if a handshake can lead to it,
/// or else the latest of those.
pub fn negotiate(requested: &str) -> Version {
    Version::parse(requested)
        .filter(|version| !version.is_modern())
        .unwrap_or(Version::LATEST_HANDSHAKE)
}

/// Log levels, least severe first.
pub const LOG_LEVELS: [&str; 8] = [
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
];

/// How severe a log level is; `None` for one that is none.
pub fn log_rank(level: &str) -> Option<usize> {
    LOG_LEVELS.iter().position(|known| *known == level)
}

/// Whether a `notifications/message` is at least as severe as that rank. One without a level is.
pub fn is_logged_at(params: Option<&RawValue>, least: usize) -> bool {
    let params = params.and_then(|raw| Object::from_raw(raw).ok());
    let rank = params.and_then(|params| log_rank(&params.text("level")?));
    rank.is_none_or(|rank| rank >= least)
}

/// Appends one server-sent event that carries a message.
///
/// Line ends in the message, which JSON has between tokens only, become separate data lines; those
/// in the id, which has none, are left out.
pub fn sse_event(out: &mut Vec<u8>, id: Option<&str>, message: &[u8]) {
    out.extend_from_slice(b"event: message\n");
    if let Some(id) = id {
        out.extend_from_slice(b"id: ");
        out.extend(
            id.bytes()
                .filter(|byte| !matches!(byte, b'\n' | b'\r' | b'\0')),
        );
        out.push(b'\n');
    }
    for line in message.split(|byte| matches!(byte, b'\n' | b'\r')) {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn versions_are_negotiated() {
        for (requested, answered) in [
            ("2024-11-05", Version::V2024_11_05),
            ("2025-06-18", Version::V2025_06_18),
            ("2026-07-28", Version::V2025_11_25),
            ("2030-01-01", Version::V2025_11_25),
            ("", Version::V2025_11_25),
        ] {
            assert_eq!(negotiate(requested), answered, "{requested}");
        }
    }

    #[test]
    fn log_messages_are_told_by_their_severity() {
        let warning = json::raw_from(r#"{"level":"warning","data":1}"#.into()).unwrap();
        let rank = |level| log_rank(level).unwrap();
        assert!(is_logged_at(Some(&warning), rank("warning")));
        assert!(is_logged_at(Some(&warning), rank("debug")));
        assert!(!is_logged_at(Some(&warning), rank("error")));
        assert!(is_logged_at(None, rank("emergency")));
        assert_eq!(log_rank("loud"), None);
    }

    #[test]
    fn a_request_is_asked_about_its_client() {
        fn check(meta: &str, expected: [Option<&str>; 5], enveloped: bool) {
            let meta = meta.replace("M/", "io.modelcontextprotocol/");
            let params = json::raw_from(format!(r#"{{"_meta":{meta}}}"#)).unwrap();
            let read = RequestMeta::read(Some(&params));
            let raw = |raw: &Option<Raw>| raw.as_ref().map(|raw| raw.get().to_owned());
            let told = [
                read.version.clone(),
                raw(&read.client_info),
                raw(&read.capabilities),
                read.log_level.clone(),
                raw(&read.progress_token),
            ];
            assert_eq!(told, expected.map(|text| text.map(str::to_owned)));
            assert_eq!(read.enveloped, enveloped);
        }
        check(
            r#"{"M/protocolVersion":"2026-07-28","M/clientInfo":{"name":"c"},"M/clientCapabilities":{},"M/logLevel":"info","progressToken":7}"#,
            [
                Some("2026-07-28"),
                Some(r#"{"name":"c"}"#),
                Some("{}"),
                Some("info"),
                Some("7"),
            ],
            true,
        );
        check(
            r#"{"M/protocolVersion":1,"M/clientInfo":null,"M/clientCapabilities":[],"progressToken":true}"#,
            [None; 5],
            true,
        );
        check(
            r#"{"progressToken":"a"}"#,
            [None, None, None, None, Some(r#""a""#)],
            false,
        );
        check("5", [None; 5], false);
        assert!(!RequestMeta::read(None).enveloped);
    }

    #[test]
    fn events_hold_a_message() {
        fn check(id: Option<&str>, message: &str, expected: &str) {
            let mut out = Vec::new();
            sse_event(&mut out, id, message.as_bytes());
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
        check(None, "{}", "event: message\ndata: {}\n\n");
        check(
            Some("4"),
            "{\n}",
            "event: message\nid: 4\ndata: {\ndata: }\n\n",
        );
        check(Some("a\nb"), "1", "event: message\nid: ab\ndata: 1\n\n");
    }
}
