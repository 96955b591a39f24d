//! What one request of a client says about itself, checked by the rules of its era.

use axum::http::{HeaderMap, StatusCode};
use serde_json::json;
use serde_json::value::RawValue;
use wharfinger_wire::era::Version;
use wharfinger_wire::json::{Object, raw, string};
use wharfinger_wire::message::{ErrorObject, HEADER_MISMATCH, INVALID_PARAMS, UNSUPPORTED_VERSION};
use wharfinger_wire::server::{METHOD, NAME, PARAM_PREFIX, PROTOCOL_VERSION_HEADER, RequestMeta};

/// Versions of the stateless era that are served.
pub(super) fn supported() -> Vec<&'static str> {
    Version::ALL
        .into_iter()
        .filter(|version| version.is_modern())
        .map(Version::as_str)
        .collect()
}

/// Whether a request is of the stateless era: its own word, or the header's.
pub(super) fn is_stateless(meta: &RequestMeta, headers: &HeaderMap, has_session: bool) -> bool {
    let header = headers
        .get(PROTOCOL_VERSION_HEADER)
        .and_then(|value| value.to_str().ok());
    let by_header = header.is_some_and(|header| match Version::parse(header) {
        Some(version) => version.is_modern(),
        None => !has_session,
    });
    meta.enveloped || by_header
}

/// Checks a stateless request's own description.
pub(super) fn check_meta(meta: &RequestMeta) -> Result<Version, ErrorObject> {
    if !meta.enveloped || meta.capabilities.is_none() {
        return Err(ErrorObject::new(
            INVALID_PARAMS,
            "params._meta must have io.modelcontextprotocol/protocolVersion and io.modelcontextprotocol/clientCapabilities",
        ));
    }
    let Some(requested) = &meta.version else {
        let message = "io.modelcontextprotocol/protocolVersion must be a string";
        return Err(ErrorObject::new(INVALID_PARAMS, message));
    };
    Version::parse(requested)
        .filter(|version| version.is_modern())
        .ok_or_else(|| {
            ErrorObject::new(UNSUPPORTED_VERSION, "unsupported protocol version").with_data(raw(
                &json!({ "supported": supported(), "requested": requested }),
            ))
        })
}

/// Checks that the headers of a stateless request say what its body says, as proxies rely on them.
pub(super) fn check_headers(
    headers: &HeaderMap,
    meta: &RequestMeta,
    method: &str,
    params: Option<&RawValue>,
) -> Result<(), ErrorObject> {
    agree(
        headers,
        PROTOCOL_VERSION_HEADER,
        meta.version.as_deref().unwrap_or_default(),
    )?;
    agree(headers, METHOD, method)?;
    let named = match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    };
    let params = params
        .and_then(|params| Object::from_raw(params).ok())
        .unwrap_or_default();
    match named.and_then(|member| params.text(member).map(std::borrow::Cow::into_owned)) {
        Some(name) => agree(headers, NAME, &name),
        None => Ok(()),
    }
}

/// Checks that the headers of a call repeat those arguments whose schema names a header for them (`x-mcp-header`).
pub(super) fn check_params(
    headers: &HeaderMap,
    tool: &RawValue,
    params: Option<&RawValue>,
) -> Result<(), ErrorObject> {
    // Most tools name none, and that is quickly seen.
    if !tool.get().contains("\"x-mcp-header\"") {
        return Ok(());
    }
    let tool = Object::from_raw(tool).unwrap_or_default();
    let schema = tool.object("inputSchema").unwrap_or_default();
    let properties = schema.object("properties").unwrap_or_default();
    let params = params.and_then(|params| Object::from_raw(params).ok());
    let params = params.unwrap_or_default();
    let arguments = params.object("arguments").unwrap_or_default();
    for (property, schema) in properties.iter() {
        let schema = Object::from_raw(schema).unwrap_or_default();
        let argument = arguments.get(property).filter(|raw| raw.get() != "null");
        if let (Some(suffix), Some(argument)) = (schema.text("x-mcp-header"), argument) {
            let text = string(argument).unwrap_or_else(|| argument.get().into());
            agree(headers, &format!("{PARAM_PREFIX}{suffix}"), &text)?;
        }
    }
    Ok(())
}

fn agree(headers: &HeaderMap, name: &str, body: &str) -> Result<(), ErrorObject> {
    let mut values = headers.get_all(name).iter();
    let mismatch = |what: &str| {
        ErrorObject::new(
            HEADER_MISMATCH,
            format!("the header {name} {what} the request's body"),
        )
    };
    let Some(value) = values.next() else {
        return Err(mismatch("is missing, it must repeat"));
    };
    if values.next().is_some() {
        return Err(mismatch("is there twice, it must repeat once"));
    }
    let text = value
        .to_str()
        .ok()
        .and_then(|text| decode(text.trim_matches([' ', '\t'])));
    if text.as_deref() == Some(body) {
        Ok(())
    } else {
        Err(mismatch("does not match"))
    }
}

/// Header values that are not plain ASCII come as `=?base64?…?=`.
fn decode(text: &str) -> Option<String> {
    let Some(inner) = text
        .strip_prefix("=?base64?")
        .and_then(|rest| rest.strip_suffix("?="))
    else {
        return Some(text.to_owned());
    };
    String::from_utf8(base64(inner)?).ok()
}

/// Standard base64 with padding; `None` for anything else.
fn base64(text: &str) -> Option<Vec<u8>> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}

/// The HTTP status that goes with an error of a stateless request.
pub(super) fn status(code: i64) -> StatusCode {
    use wharfinger_wire::message::{
        INVALID_REQUEST, METHOD_NOT_FOUND, MISSING_CAPABILITY, PARSE_ERROR,
    };
    match code {
        METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        PARSE_ERROR | INVALID_REQUEST | INVALID_PARAMS | HEADER_MISMATCH | MISSING_CAPABILITY
        | UNSUPPORTED_VERSION => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(text: &str) -> RequestMeta {
        let text = text.replace("M/", "io.modelcontextprotocol/");
        let params = wharfinger_wire::json::raw_from(format!("{{\"_meta\":{text}}}")).unwrap();
        RequestMeta::read(Some(&params))
    }

    #[test]
    fn a_stateless_request_describes_itself_or_is_refused() {
        let check = |text: &str, expect: Result<Version, i64>| {
            assert_eq!(
                check_meta(&meta(text)).map_err(|error| error.code),
                expect,
                "{text}"
            );
        };
        let good = r#"{"M/protocolVersion":"2026-07-28","M/clientCapabilities":{}}"#;
        check(good, Ok(Version::V2026_07_28));
        check("{}", Err(INVALID_PARAMS));
        check(r#"{"M/protocolVersion":"2026-07-28"}"#, Err(INVALID_PARAMS));
        check(
            r#"{"M/protocolVersion":7,"M/clientCapabilities":{}}"#,
            Err(INVALID_PARAMS),
        );
        check(
            r#"{"M/protocolVersion":"v9","M/clientCapabilities":{}}"#,
            Err(UNSUPPORTED_VERSION),
        );
        check(
            r#"{"M/protocolVersion":"2025-11-25","M/clientCapabilities":{}}"#,
            Err(UNSUPPORTED_VERSION),
        );
        let error = check_meta(&meta(
            r#"{"M/protocolVersion":"v9","M/clientCapabilities":{}}"#,
        ))
        .unwrap_err();
        assert_eq!(
            error.data.unwrap().get(),
            r#"{"supported":["2026-07-28"],"requested":"v9"}"#
        );
    }

    #[test]
    fn headers_repeat_the_arguments_that_have_one() {
        let raw = |text: &str| wharfinger_wire::json::raw_from(text.to_owned()).unwrap();
        let tool = raw(r#"{"name":"t","inputSchema":{"type":"object","properties":{
                "region":{"type":"string","x-mcp-header":"Region"},
                "count":{"type":"integer","x-mcp-header":"Count"},"other":{}}}}"#);
        let check = |arguments: &str, headers: &[(&'static str, &str)], expect: bool| {
            let params = raw(&format!(r#"{{"name":"t","arguments":{arguments}}}"#));
            let map: HeaderMap = headers
                .iter()
                .map(|(name, value)| {
                    let name = axum::http::HeaderName::from_static(name);
                    (name, value.parse().unwrap())
                })
                .collect();
            let checked = check_params(&map, &tool, Some(&params));
            let code = checked.as_ref().err().map(|error| error.code);
            assert_eq!(code, (!expect).then_some(HEADER_MISMATCH), "{arguments}");
        };
        let region = r#"{"region":"Hello"}"#;
        check("{}", &[], true);
        check(r#"{"other":"x","region":null}"#, &[], true);
        check(region, &[("mcp-param-region", "Hello")], true);
        check(region, &[("mcp-param-region", "=?base64?SGVsbG8=?=")], true);
        check(region, &[("mcp-param-region", "=?base64?SGVsbG8?=")], false);
        check(
            region,
            &[("mcp-param-region", "=?base64?SGVs!!!bG8=?=")],
            false,
        );
        check(region, &[("mcp-param-region", "hello")], false);
        check(region, &[], false);
        check(r#"{"count":7}"#, &[("mcp-param-count", "7")], true);
        check(r#"{"count":7}"#, &[("mcp-param-count", "8")], false);
    }

    #[test]
    fn headers_repeat_the_body() {
        let good = meta(r#"{"M/protocolVersion":"2026-07-28","M/clientCapabilities":{}}"#);
        let params = wharfinger_wire::json::raw_from(r#"{"name":"é"}"#.into()).unwrap();
        let check = |headers: &[(&'static str, &str)], expect: bool| {
            let map: HeaderMap = headers
                .iter()
                .map(|(name, value)| {
                    (
                        axum::http::HeaderName::from_static(name),
                        value.parse().unwrap(),
                    )
                })
                .collect();
            let checked = check_headers(&map, &good, "tools/call", Some(&params));
            assert_eq!(checked.is_ok(), expect, "{headers:?}");
        };
        let version = ("mcp-protocol-version", "2026-07-28");
        let method = ("mcp-method", "tools/call");
        check(&[version, method, ("mcp-name", "=?base64?w6k=?=")], true);
        check(
            &[
                version,
                ("mcp-method", " tools/call\t"),
                ("mcp-name", "=?base64?w6k=?="),
            ],
            true,
        );
        check(&[version, method, ("mcp-name", "=?base64?w6k?=")], false);
        check(&[version, method, ("mcp-name", "e")], false);
        check(&[version, method], false);
        check(
            &[
                version,
                ("mcp-method", "TOOLS/CALL"),
                ("mcp-name", "=?base64?w6k=?="),
            ],
            false,
        );
        check(&[method, ("mcp-name", "=?base64?w6k=?=")], false);
        check(
            &[
                ("mcp-protocol-version", "2025-11-25"),
                method,
                ("mcp-name", "=?base64?w6k=?="),
            ],
            false,
        );
    }
}
