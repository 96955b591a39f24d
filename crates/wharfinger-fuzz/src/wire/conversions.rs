//! From one era into the other and back: only the members that an era has of its own come and go.

use serde_json::value::RawValue;
use wharfinger_wire::era::{
    CLIENT_CAPABILITIES, CLIENT_INFO, ClientDescription, LOG_LEVEL, PROTOCOL_VERSION, SERVER_INFO,
    Version, supported_versions, to_handshake_result, to_stateless_result, with_request_meta,
    with_server_info, without_request_meta,
};
use wharfinger_wire::json::{Object, Raw, empty_object, raw, string};
use wharfinger_wire::message::{ErrorObject, Id};
use wharfinger_wire::server::{
    LOG_LEVELS, RequestMeta, is_logged_at, log_rank, negotiate, sse_event,
};

use super::members;

type Members = Vec<(String, String)>;

pub(super) fn check(value: &RawValue) {
    check_request(value);
    check_result(value);
    check_rest(value);
}

/// The members but for some, and but for `_meta`.
fn rest(object: &Object<'_>, but: &[&str]) -> Members {
    let other = |member: &(String, String)| member.0 != "_meta" && !but.contains(&&*member.0);
    members(object).into_iter().filter(other).collect()
}

/// The members of `_meta` but for some; none if there is no such object.
fn meta(object: &Object<'_>, but: &[&str]) -> Members {
    let meta = object.object("_meta").unwrap_or_default();
    let other = |member: &(String, String)| !but.contains(&&*member.0);
    members(&meta).into_iter().filter(other).collect()
}

const OF_REQUEST: [&str; 4] = [
    PROTOCOL_VERSION,
    CLIENT_INFO,
    CLIENT_CAPABILITIES,
    LOG_LEVEL,
];

fn check_request(params: &RawValue) {
    let client = ClientDescription {
        info: raw("fuzz"),
        capabilities: empty_object(),
    };
    let before = Object::from_raw(params).unwrap_or_default();
    for level in [None, Some("info")] {
        let made = with_request_meta(Some(params), Version::LATEST, &client, level);
        let after = Object::from_raw(&made).expect("params are an object");
        assert_eq!(rest(&after, &[]), rest(&before, &[]));
        assert_eq!(meta(&after, &OF_REQUEST), meta(&before, &OF_REQUEST));
        let read = RequestMeta::read(Some(&made));
        assert!(read.enveloped);
        assert_eq!(read.version.as_deref(), Some(Version::LATEST.as_str()));
        assert_eq!(read.log_level.as_deref(), level);
        assert_eq!(read.capabilities.as_deref().map(RawValue::get), Some("{}"));
        let again = with_request_meta(Some(&made), Version::LATEST, &client, level);
        assert_eq!(again.get(), made.get());

        let bare = without_request_meta(Some(&made));
        let bare = bare.as_deref().map_or("{}", RawValue::get);
        let bare = Object::parse(bare).expect("it stays an object");
        assert_eq!(rest(&bare, &[]), rest(&before, &[]));
        assert_eq!(meta(&bare, &[]), meta(&before, &OF_REQUEST));
    }
    let read = RequestMeta::read(Some(params));
    assert!(read.version.is_none() || read.enveloped);
    if let Some(token) = &read.progress_token {
        assert!(Id::parse(token).is_some());
    }
}

fn check_result(result: &RawValue) {
    let Ok(before) = Object::from_raw(result) else {
        assert_eq!(to_handshake_result(result).get(), result.get());
        assert_eq!(to_stateless_result(result, None).get(), result.get());
        return;
    };
    let caching = ["resultType", "ttlMs", "cacheScope"];
    let old = to_handshake_result(result);
    let of_old = Object::from_raw(&old).expect("it stays an object");
    let but = ["resultType", "ttlMs", "cacheScope", "structuredContent"];
    assert_eq!(rest(&of_old, &but), rest(&before, &but));
    assert_eq!(meta(&of_old, &[SERVER_INFO]), meta(&before, &[SERVER_INFO]));
    if before.object("structuredContent").is_some() {
        let structured = |object: &Object<'_>| {
            object
                .get("structuredContent")
                .map(|raw| raw.get().to_owned())
        };
        assert_eq!(structured(&of_old), structured(&before));
    }
    assert_eq!(to_handshake_result(&old).get(), old.get());

    let new = to_stateless_result(result, Some((7, "private")));
    let of_new = Object::from_raw(&new).expect("it stays an object");
    assert_eq!(rest(&of_new, &caching), rest(&before, &caching));
    assert_eq!(meta(&of_new, &[]), meta(&before, &[]));
    for name in caching {
        let given = before.get(name).map(RawValue::get);
        let made = of_new.get(name).map(RawValue::get);
        assert!(made.is_some() && (given.is_none() || made == given));
    }
    assert_eq!(
        to_stateless_result(&new, Some((8, "public"))).get(),
        new.get()
    );

    let info: Raw = raw("fuzz");
    let named = with_server_info(result, &info);
    let of_named = Object::from_raw(&named).expect("it stays an object");
    assert_eq!(rest(&of_named, &[]), rest(&before, &[]));
    assert_eq!(
        meta(&of_named, &[SERVER_INFO]),
        meta(&before, &[SERVER_INFO])
    );
    assert_eq!(with_server_info(&named, &info).get(), named.get());
    // There and back. A name spelt with escapes is not looked for where no other is found.
    if !result.get().contains('\\') {
        let stateless = with_server_info(&new, &info);
        let back = to_handshake_result(&stateless);
        let of_back = Object::from_raw(&back).expect("it stays an object");
        assert_eq!(rest(&of_back, &[]), rest(&of_old, &[]));
        assert_eq!(meta(&of_back, &[]), meta(&of_old, &[]));
    }
}

fn check_rest(value: &RawValue) {
    let error = ErrorObject::from_raw(value);
    let _versions: Vec<String> = supported_versions(&error);
    if let Some(text) = string(value) {
        let version = negotiate(&text);
        assert!(!version.is_modern());
        match Version::parse(&text) {
            Some(known) if !known.is_modern() => assert_eq!(version, known),
            _ => assert_eq!(version, Version::LATEST_HANDSHAKE),
        }
        assert_eq!(log_rank(&text).map(|rank| LOG_LEVELS[rank]), {
            LOG_LEVELS.into_iter().find(|level| *level == text)
        });
    }
    // What passes a rank passes the lower ones.
    let passes: Vec<bool> = (0..LOG_LEVELS.len())
        .map(|rank| is_logged_at(Some(value), rank))
        .collect();
    assert!(passes.is_sorted_by(|lower, higher| lower >= higher));
    assert!(passes[0]);
}

/// A reader of the stream finds one event, with the message in it.
pub(super) fn check_sse(message: &[u8]) {
    let id = std::str::from_utf8(message).ok();
    let mut stream = vec![];
    sse_event(&mut stream, id, message);
    let mut events = vec![];
    let mut data: Vec<&[u8]> = vec![];
    let text = stream.strip_suffix(b"\n").expect("it ends with a line end");
    for line in text.split(|byte| matches!(byte, b'\n' | b'\r')) {
        if line.is_empty() {
            events.push(std::mem::take(&mut data));
        } else if let Some(value) = line.strip_prefix(b"data: ") {
            data.push(value);
        } else {
            let other = [&b"event: message"[..], b"id: "];
            assert!(other.iter().any(|start| line.starts_with(start)));
        }
    }
    assert!(data.is_empty(), "no half event");
    let sent: Vec<&[u8]> = message
        .split(|byte| matches!(byte, b'\n' | b'\r'))
        .collect();
    assert_eq!(events, [sent]);
}
