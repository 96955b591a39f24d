//! The error of a request, as it stands in a reply.

use serde_json::value::RawValue;

use crate::json::{self, Object, Raw};

/// The text was not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// The JSON was not a request.
pub const INVALID_REQUEST: i64 = -32600;
/// There is no such method.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The method does not take these params.
pub const INVALID_PARAMS: i64 = -32602;
/// The fault is on the side that answers.
pub const INTERNAL_ERROR: i64 = -32603;
/// There is no such resource. Up to 2025-11-25; later versions say [`INVALID_PARAMS`].
pub const RESOURCE_NOT_FOUND: i64 = -32002;
/// The user has to visit a URL first. 2025-11-25 only.
pub const URL_ELICITATION_REQUIRED: i64 = -32042;
/// The HTTP headers say something else than the body. From 2026-07-28.
pub const HEADER_MISMATCH: i64 = -32020;
/// The request needs a capability that the client did not declare. From 2026-07-28.
pub const MISSING_CAPABILITY: i64 = -32021;
/// The server does not speak that protocol version. From 2026-07-28.
pub const UNSUPPORTED_VERSION: i64 = -32022;

/// Why a request failed, in the words of the side that answered.
#[derive(Debug, Clone)]
pub struct ErrorObject {
    /// What kind of error; [`INTERNAL_ERROR`] where none could be read.
    pub code: i64,
    /// One sentence; may be empty.
    pub message: String,
    /// Whatever else the other side told.
    pub data: Option<Raw>,
    /// The error as it was received. If set, this is what [`to_raw`](Self::to_raw) gives, so clear
    /// it when changing one of the others.
    pub raw: Option<Raw>,
}

impl ErrorObject {
    /// An error of our own.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
            raw: None,
        }
    }

    /// The same with data.
    #[must_use]
    pub fn with_data(mut self, data: Raw) -> Self {
        self.data = Some(data);
        self.raw = None;
        self
    }

    /// Reads an error, however odd: what is missing or beyond reading gets a stand-in, and
    /// [`raw`](Self::raw) keeps the original.
    pub fn from_raw(raw: &RawValue) -> Self {
        let object = Object::from_raw(raw).unwrap_or_default();
        let message = object.text("message").or_else(|| json::string(raw));
        Self {
            code: object.get("code").and_then(code).unwrap_or(INTERNAL_ERROR),
            message: message.unwrap_or_default().into_owned(),
            data: object.get("data").map(ToOwned::to_owned),
            raw: Some(raw.to_owned()),
        }
    }

    /// The error as raw JSON: the received one unchanged, or one made of the fields.
    pub fn to_raw(&self) -> Raw {
        if let Some(raw) = &self.raw {
            return raw.clone();
        }
        let mut object = Object::new();
        object.set("code", json::raw(&self.code));
        object.set("message", json::raw(&self.message));
        if let Some(data) = &self.data {
            object.set_borrowed("data", data);
        }
        object.to_raw()
    }
}

impl std::fmt::Display for ErrorObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &*self.message {
            "" => write!(f, "error {}", self.code),
            message => write!(f, "{message} (code {})", self.code),
        }
    }
}

impl std::error::Error for ErrorObject {}

/// A code, also when written as `-32000.0` or in quotes.
#[expect(
    clippy::cast_possible_truncation,
    reason = "checked to be a whole number in range"
)]
fn code(raw: &RawValue) -> Option<i64> {
    let text = raw.get().trim_matches('"');
    text.parse().ok().or_else(|| {
        let number: f64 = text.parse().ok()?;
        (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_errors_are_read_and_kept() {
        fn check(text: &str, code: i64, message: &str, data: Option<&str>) {
            let error = ErrorObject::from_raw(&json::raw_from(text.to_owned()).unwrap());
            assert_eq!((error.code, &*error.message), (code, message), "{text}");
            assert_eq!(error.data.as_ref().map(|data| data.get()), data, "{text}");
            assert_eq!(error.to_raw().get(), text);
        }
        check(
            r#"{"code":-32601,"message":"no"}"#,
            METHOD_NOT_FOUND,
            "no",
            None,
        );
        check(
            r#"{"code":-32000,"message":"x","data":{"a":1e400},"y":1}"#,
            -32000,
            "x",
            Some(r#"{"a":1e400}"#),
        );
        check(r#"{"code":-32001}"#, -32001, "", None);
        check(r#"{"code":0,"message":7}"#, 0, "", None);
        check(
            r#"{"code":3000000000,"message":"m"}"#,
            3_000_000_000,
            "m",
            None,
        );
        check(
            r#"{"code":99999999999999999999999,"message":"m"}"#,
            INTERNAL_ERROR,
            "m",
            None,
        );
        check(r#"{"code":-32000.0,"message":"m"}"#, -32000, "m", None);
        check(r#"{"code":"-32000","message":"m"}"#, -32000, "m", None);
        check(
            r#"{"code":"ENOENT","message":"m"}"#,
            INTERNAL_ERROR,
            "m",
            None,
        );
        check(r#"{"message":"m"}"#, INTERNAL_ERROR, "m", None);
        check(r#""boom""#, INTERNAL_ERROR, "boom", None);
        check("[1]", INTERNAL_ERROR, "", None);
    }

    #[test]
    fn our_own_errors_are_written() {
        let error = ErrorObject::new(INVALID_PARAMS, "a \"b\"").with_data(json::raw(&[1]));
        assert_eq!(
            error.to_raw().get(),
            r#"{"code":-32602,"message":"a \"b\"","data":[1]}"#
        );
    }
}
