//! What a request says about its client.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{
    CLIENT_CAPABILITIES, CLIENT_INFO, ClientDescription, LOG_LEVEL, PROTOCOL_VERSION, Version,
};
use crate::json::{self, Object, Raw};

/// The params of a stateless request: as given, with what the protocol wants to know about the
/// client in `_meta`, in place of what was there before.
///
/// Without a log level none stays, so the server is to send no log messages. Params that are
/// neither an object nor missing are replaced, as no method has any.
pub fn with_request_meta(
    params: Option<&RawValue>,
    version: Version,
    client: &ClientDescription,
    log_level: Option<&str>,
) -> Raw {
    let mut object = params
        .and_then(|raw| Object::from_raw(raw).ok())
        .unwrap_or_default();
    let mut meta = object.object("_meta").unwrap_or_default();
    meta.set(PROTOCOL_VERSION, json::raw(version.as_str()));
    meta.set_borrowed(CLIENT_INFO, &client.info);
    meta.set_borrowed(CLIENT_CAPABILITIES, &client.capabilities);
    match log_level {
        Some(level) => meta.set(LOG_LEVEL, json::raw(level)),
        None => drop(meta.remove(LOG_LEVEL)),
    }
    let meta = meta.to_raw();
    object.set("_meta", meta);
    object.to_raw()
}

/// What all these keys begin with.
const PREFIX: &str = "io.modelcontextprotocol/";

/// The params of a request without what it says about its client. If that was all, there are none.
pub fn without_request_meta(params: Option<&RawValue>) -> Option<Cow<'_, RawValue>> {
    let raw = params?;
    // Most requests have none of it, and that is quickly seen.
    if !raw.get().contains(PREFIX) {
        return Some(Cow::Borrowed(raw));
    }
    let Ok(mut object) = Object::from_raw(raw) else {
        return Some(Cow::Borrowed(raw));
    };
    let Some(mut meta) = object.object("_meta") else {
        return Some(Cow::Borrowed(raw));
    };
    let before = meta.len();
    for key in [
        PROTOCOL_VERSION,
        CLIENT_INFO,
        CLIENT_CAPABILITIES,
        LOG_LEVEL,
    ] {
        drop(meta.remove(key));
    }
    if meta.len() == before {
        return Some(Cow::Borrowed(raw));
    }
    if meta.is_empty() {
        drop(object.remove("_meta"));
    } else {
        let meta = meta.to_raw();
        object.set("_meta", meta);
    }
    (!object.is_empty()).then(|| Cow::Owned(object.to_raw()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> ClientDescription {
        ClientDescription {
            info: json::raw("me"),
            capabilities: json::empty_object(),
        }
    }

    #[test]
    fn a_request_describes_its_client() {
        fn check(params: Option<&str>, level: Option<&str>, expected: &str) {
            let params = params.map(|text| json::raw_from(text.to_owned()).unwrap());
            let made = with_request_meta(params.as_deref(), Version::LATEST, &client(), level);
            let expected = expected
                .replace("VCC", r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":"me","io.modelcontextprotocol/clientCapabilities":{}"#)
                .replace("LOG", r#""io.modelcontextprotocol/logLevel""#);
            assert_eq!(made.get(), expected);
        }
        check(None, None, r#"{"_meta":{VCC}}"#);
        check(Some("{}"), Some("info"), r#"{"_meta":{VCC,LOG:"info"}}"#);
        check(
            Some(r#"{"a":1e400,"_meta":{"progressToken":7},"b":[ 1 ]}"#),
            None,
            r#"{"a":1e400,"_meta":{"progressToken":7,VCC},"b":[ 1 ]}"#,
        );
        check(
            Some(
                r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"1","io.modelcontextprotocol/clientInfo":{"name":"x"},"io.modelcontextprotocol/clientCapabilities":{"roots":{}},"io.modelcontextprotocol/logLevel":"debug","io.modelcontextprotocol/x":1}}"#,
            ),
            None,
            r#"{"_meta":{VCC,"io.modelcontextprotocol/x":1}}"#,
        );
        check(Some(r#"{"_meta":5}"#), None, r#"{"_meta":{VCC}}"#);
    }

    #[test]
    fn the_description_can_be_taken_out_again() {
        fn check(before: Option<&str>, after: Option<&str>) {
            let raw = |text: &str| json::raw_from(text.to_owned()).unwrap();
            let (before, after) = (before.map(raw), after.map(raw));
            let made = without_request_meta(before.as_deref());
            assert_eq!(
                made.as_ref().map(|raw| raw.get()),
                after.as_ref().map(|raw| raw.get())
            );
        }
        check(None, None);
        check(Some("{}"), Some("{}"));
        check(
            Some(r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"1"}}"#),
            None,
        );
        check(
            Some(
                r#"{"a":[ 1 ],"_meta":{"progressToken":1,"io.modelcontextprotocol/logLevel":"debug"}}"#,
            ),
            Some(r#"{"a":[ 1 ],"_meta":{"progressToken":1}}"#),
        );
        check(Some(r#"{"_meta":{ "x":1}}"#), Some(r#"{"_meta":{ "x":1}}"#));
    }
}
