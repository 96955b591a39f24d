//! Results, carried from one era into the other.

use std::borrow::Cow;
use std::sync::LazyLock;

use aho_corasick::packed::Searcher;
use serde_json::value::RawValue;

use super::SERVER_INFO;
use crate::json::{self, Object, Raw};

/// Whether a result may hold anything that the eras treat differently; one look at each byte.
pub fn mentions_stateless(result: &RawValue) -> bool {
    static KNOWN: LazyLock<Option<Searcher>> = LazyLock::new(|| {
        Searcher::new([
            "\"resultType\"",
            "\"ttlMs\"",
            "\"cacheScope\"",
            "\"structuredContent\"",
            SERVER_INFO,
        ])
    });
    KNOWN
        .as_ref()
        .is_none_or(|known| known.find(result.get().as_bytes()).is_some())
}

/// A result as clients of the handshake era take it: without the members of the stateless era, and
/// without structured content that is no object.
///
/// A `resultType` other than `complete` stays, since its result means something else to a client
/// that does not know it: whoever passes results on has to deal with it first.
pub fn to_handshake_result(result: &RawValue) -> Cow<'_, RawValue> {
    // Most results have none of it, and that is quickly seen.
    if !mentions_stateless(result) {
        return Cow::Borrowed(result);
    }
    let Ok(mut object) = Object::from_raw(result) else {
        return Cow::Borrowed(result);
    };
    let mut changed = false;
    if object
        .text("resultType")
        .is_some_and(|kind| kind == "complete")
    {
        drop(object.remove("resultType"));
        changed = true;
    }
    for key in ["ttlMs", "cacheScope"] {
        changed |= object.remove(key).is_some();
    }
    if object.contains("structuredContent") && object.object("structuredContent").is_none() {
        drop(object.remove("structuredContent"));
        changed = true;
    }
    let mut meta = object.object("_meta").unwrap_or_default();
    if meta.remove(SERVER_INFO).is_some() {
        let meta = (!meta.is_empty()).then(|| meta.to_raw());
        match meta {
            Some(meta) => object.set("_meta", meta),
            None => drop(object.remove("_meta")),
        }
        changed = true;
    }
    if changed {
        Cow::Owned(object.to_raw())
    } else {
        Cow::Borrowed(result)
    }
}

/// A result as clients of the stateless era take it: with a `resultType` and, for those kinds of
/// result that have it, with how long it may be kept (`ttl_ms`, `scope`). What is there stays.
pub fn to_stateless_result<'a>(
    result: &'a RawValue,
    cache: Option<(u64, &str)>,
) -> Cow<'a, RawValue> {
    let Ok(mut object) = Object::from_raw(result) else {
        return Cow::Borrowed(result);
    };
    let before = object.len();
    if !object.contains("resultType") {
        object.set("resultType", json::raw("complete"));
    }
    if let Some((ttl_ms, scope)) = cache {
        if !object.contains("ttlMs") {
            object.set("ttlMs", json::raw(&ttl_ms));
        }
        if !object.contains("cacheScope") {
            object.set("cacheScope", json::raw(scope));
        }
    }
    if object.len() == before {
        Cow::Borrowed(result)
    } else {
        Cow::Owned(object.to_raw())
    }
}

/// A result that names the program it comes from, in place of any it named before.
pub fn with_server_info(result: &RawValue, info: &RawValue) -> Raw {
    let Ok(mut object) = Object::from_raw(result) else {
        return result.to_owned();
    };
    let mut meta = object.object("_meta").unwrap_or_default();
    meta.set_borrowed(SERVER_INFO, info);
    let meta = meta.to_raw();
    object.set("_meta", meta);
    object.to_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw {
        json::raw_from(text.to_owned()).unwrap()
    }

    #[test]
    fn results_lose_what_the_handshake_era_does_not_know() {
        fn check(before: &str, after: &str) {
            let before = raw(before);
            let made = to_handshake_result(&before);
            assert_eq!(made.get(), after);
            assert_eq!(matches!(made, Cow::Borrowed(_)), before.get() == after);
        }
        check(r#"{"resultType":"complete"}"#, "{}");
        check(
            r#"{"resultType":"complete","tools":[ {"x":1e400} ],"ttlMs":1,"cacheScope":"public","y":0}"#,
            r#"{"tools":[ {"x":1e400} ],"y":0}"#,
        );
        check(
            r#"{"resultType":"input_required","a":1}"#,
            r#"{"resultType":"input_required","a":1}"#,
        );
        check(
            r#"{"content":[],"structuredContent":[1]}"#,
            r#"{"content":[]}"#,
        );
        check(
            r#"{"content":[],"structuredContent":null}"#,
            r#"{"content":[]}"#,
        );
        check(
            r#"{"structuredContent":{ "a":1}}"#,
            r#"{"structuredContent":{ "a":1}}"#,
        );
        check(
            r#"{"_meta":{"io.modelcontextprotocol/serverInfo":{},"a":1},"b":2}"#,
            r#"{"_meta":{"a":1},"b":2}"#,
        );
        check(
            r#"{"_meta":{"io.modelcontextprotocol/serverInfo":{}}}"#,
            "{}",
        );
        check("null", "null");
    }

    #[test]
    fn results_gain_what_the_stateless_era_wants() {
        fn check(before: &str, cache: Option<(u64, &str)>, after: &str) {
            let before = raw(before);
            let made = to_stateless_result(&before, cache);
            assert_eq!(made.get(), after);
            assert_eq!(matches!(made, Cow::Borrowed(_)), before.get() == after);
        }
        let cache = Some((0, "private"));
        check("{}", None, r#"{"resultType":"complete"}"#);
        check(
            r#"{"a":1}"#,
            cache,
            r#"{"a":1,"resultType":"complete","ttlMs":0,"cacheScope":"private"}"#,
        );
        check(r#"{"resultType":"x"}"#, None, r#"{"resultType":"x"}"#);
        check(
            r#"{"ttlMs":5,"resultType":"complete","cacheScope":"public"}"#,
            cache,
            r#"{"ttlMs":5,"resultType":"complete","cacheScope":"public"}"#,
        );
    }

    #[test]
    fn results_name_their_server() {
        let made = with_server_info(&raw(r#"{"_meta":{"a":1}}"#), &raw(r#"{"name":"w"}"#));
        let expected = r#"{"_meta":{"a":1,"io.modelcontextprotocol/serverInfo":{"name":"w"}}}"#;
        assert_eq!(made.get(), expected);
        assert_eq!(to_handshake_result(&made).get(), r#"{"_meta":{"a":1}}"#);
    }
}
