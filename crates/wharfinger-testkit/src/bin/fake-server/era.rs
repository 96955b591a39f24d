//! Which protocol the connection speaks: the handshake of 2024-11-05 … 2025-11-25, or the
//! requests of 2026-07-28 that carry everything in their `_meta`.

use serde_json::{Value, json};

use crate::modes::Modes;

pub(crate) const MODERN: &str = "2026-07-28";
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
pub(crate) const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
pub(crate) const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";
const SERVER_KEY: &str = "io.modelcontextprotocol/serverInfo";

pub(crate) const INVALID_PARAMS: i64 = -32602;
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;

/// What the messages so far have settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    Open,
    Handshake,
    Modern,
    /// A `server/discover` came that this server can't bear: nothing is answered any more.
    Mute,
}

pub(crate) fn speaks_modern(modes: &Modes) -> bool {
    modes.any(&["modern", "modern-only", "modern-unlocked"])
}

/// Whether `initialize` must be refused.
pub(crate) fn locked(modes: &Modes, era: Era) -> bool {
    modes.on("modern-only") || (modes.on("modern") && era == Era::Modern)
}

/// Whether a request is one of 2026-07-28: it says so itself.
pub(crate) fn is_modern(params: &Value) -> bool {
    params["_meta"].get(VERSION_KEY).is_some()
}

/// Whether a request of 2026-07-28 carries what it must; the error is what to tell the client.
pub(crate) fn check(params: &Value) -> Result<(), (i64, String)> {
    let meta = &params["_meta"];
    match meta.get(VERSION_KEY).and_then(Value::as_str) {
        None => Err((
            INVALID_PARAMS,
            format!("params._meta lacks `{VERSION_KEY}`"),
        )),
        Some(MODERN) if meta.get(CAPABILITIES_KEY).is_none() => Err((
            INVALID_PARAMS,
            format!("params._meta lacks `{CAPABILITIES_KEY}`"),
        )),
        Some(MODERN) => Ok(()),
        Some(other) => Err((
            UNSUPPORTED_VERSION,
            format!("protocol version {other} not served"),
        )),
    }
}

/// The error of an `initialize` on a connection that speaks 2026-07-28.
pub(crate) fn refusal(id: &Value, requested: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {
        "code": UNSUPPORTED_VERSION,
        "message": "connection is serving the 2026-07-28 protocol; the initialize handshake is not accepted",
        "data": {"supported": [MODERN], "requested": requested},
    }})
}

/// What 2026-07-28 wants in each result beyond the result itself.
pub(crate) fn dress(result: &mut Value, server_info: &Value, cacheable: bool) {
    let Some(result) = result.as_object_mut() else {
        return;
    };
    result
        .entry("resultType")
        .or_insert_with(|| json!("complete"));
    result.insert("_meta".to_owned(), json!({SERVER_KEY: server_info}));
    if cacheable {
        result.insert("ttlMs".to_owned(), json!(0));
        result.insert("cacheScope".to_owned(), json!("private"));
    }
}
