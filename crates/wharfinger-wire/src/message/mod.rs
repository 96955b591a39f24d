//! The JSON-RPC envelope.
//!
//! Reading gives the parts of a message with its payload untouched; writing puts an envelope around
//! raw payloads. What methods there are and what their payloads mean is left to others.

mod error;
mod id;
mod scan;
mod write;

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::json;

pub use error::*;
pub use id::Id;
pub use scan::{Found, Scanner, scan};
pub use write::{error, notification, request, result, result_around};
pub(crate) use write::{write_answer, write_notification, write_request};

/// One message, either way.
#[derive(Debug, Clone)]
pub enum Message<'a> {
    /// Wants one answer with the same id.
    Request {
        /// Whose answer it will be.
        id: Id,
        /// What is asked for.
        method: Cow<'a, str>,
        /// With what; `null` counts as none.
        params: Option<&'a RawValue>,
    },
    /// Wants no answer.
    Notification {
        /// What happened.
        method: Cow<'a, str>,
        /// The details; `null` counts as none.
        params: Option<&'a RawValue>,
    },
    /// The answer to a request.
    Response {
        /// Which request; none if the other side could not read that.
        id: Option<Id>,
        /// The result or the error, as sent.
        outcome: Result<&'a RawValue, &'a RawValue>,
    },
}

/// Text that is not a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Malformed {
    /// What is wrong with it.
    pub reason: String,
    /// The JSON-RPC code to answer with, if it came from somebody who asks.
    pub code: i64,
    /// The id, if one could be made out.
    pub id: Option<Id>,
    /// Whether it looked like an answer. If so, whoever waits for that id waits in vain.
    pub response: bool,
}

impl Malformed {
    fn new(reason: impl Into<String>, code: i64, found: Found) -> Self {
        Self {
            reason: reason.into(),
            code,
            id: found.id,
            response: found.response,
        }
    }
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(default, borrow, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(default, borrow)]
    params: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(default, borrow)]
    error: Option<&'a RawValue>,
}

/// Tells `null` from a member that is not there.
fn present<'de: 'a, 'a, D>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error>
where
    D: Deserializer<'de>,
{
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Reads one message.
///
/// ```
/// use wharfinger_wire::message::{Id, Message, parse};
///
/// let message = parse(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)?;
/// assert!(matches!(message, Message::Request { id, .. } if id == Id::number(1)));
/// # Ok::<(), wharfinger_wire::message::Malformed>(())
/// ```
pub fn parse(text: &[u8]) -> Result<Message<'_>, Malformed> {
    match std::str::from_utf8(text) {
        Ok(text) => parse_str(text),
        Err(_) => Err(Malformed::new("not valid UTF-8", PARSE_ERROR, scan(text))),
    }
}

/// Reads one message or, as 2025-03-26 allows, an array of messages.
///
/// The outer error says that the text as a whole is not JSON, or an empty array.
pub fn parse_batch(text: &[u8]) -> Result<Vec<Result<Message<'_>, Malformed>>, Malformed> {
    match std::str::from_utf8(text) {
        Ok(text) => parse_batch_str(text),
        Err(_) => Err(Malformed::new("not valid UTF-8", PARSE_ERROR, scan(text))),
    }
}

pub(crate) fn parse_batch_str(
    text: &str,
) -> Result<Vec<Result<Message<'_>, Malformed>>, Malformed> {
    if !is_batch(text) {
        return parse_str(text).map(|message| vec![Ok(message)]);
    }
    let invalid = |error: serde_json::Error| {
        Malformed::new(
            format!("not valid JSON: {error}"),
            PARSE_ERROR,
            Found::default(),
        )
    };
    let items: Vec<&RawValue> = serde_json::from_str(text).map_err(invalid)?;
    if items.is_empty() {
        return Err(Malformed::new(
            "an empty batch",
            INVALID_REQUEST,
            Found::default(),
        ));
    }
    Ok(items
        .into_iter()
        .map(|item| parse_str(item.get()))
        .collect())
}

/// Whether the text can only be an array.
pub(crate) fn is_batch(text: &str) -> bool {
    text.trim_start().starts_with('[')
}

pub(crate) fn parse_str(text: &str) -> Result<Message<'_>, Malformed> {
    // Without this an array would be read as the members in their order.
    if !text.trim_start().starts_with('{') {
        let valid = serde_json::from_str::<&RawValue>(text).is_ok();
        let (reason, code) = if valid {
            ("not a JSON object", INVALID_REQUEST)
        } else {
            ("not JSON", PARSE_ERROR)
        };
        return Err(Malformed::new(reason, code, Found::default()));
    }
    let envelope: Envelope<'_> = serde_json::from_str(text).map_err(|error| {
        let (reason, code) = if error.is_data() {
            (format!("not a message: {error}"), INVALID_REQUEST)
        } else {
            (format!("not valid JSON: {error}"), PARSE_ERROR)
        };
        Malformed::new(reason, code, scan(text.as_bytes()))
    })?;
    envelope.into_message()
}

impl<'a> Envelope<'a> {
    fn into_message(self) -> Result<Message<'a>, Malformed> {
        let id = self.id.and_then(Id::parse);
        let odd_id = self
            .id
            .is_some_and(|raw| id.is_none() && raw.get() != "null");
        let null_id = self.id.is_some() && id.is_none();
        let answers = self.result.is_some() || self.error.is_some();
        let malformed = |reason: &str, response: bool| {
            Err(Malformed::new(
                reason,
                INVALID_REQUEST,
                Found {
                    id: id.clone(),
                    response,
                },
            ))
        };
        if odd_id {
            return malformed(
                "the id is neither a number nor a string",
                self.method.is_none(),
            );
        }
        let Some(method) = self.method else {
            // A filled `error` outweighs the `null` result that some servers put next to it.
            return match (self.error, self.result) {
                (Some(error), _) => Ok(Message::Response {
                    id,
                    outcome: Err(error),
                }),
                (None, Some(result)) => Ok(Message::Response {
                    id,
                    outcome: Ok(result),
                }),
                (None, None) => malformed("neither method, result nor error", true),
            };
        };
        if answers {
            return malformed("a method and an answer in one message", true);
        }
        let Some(method) = json::string(method) else {
            return malformed("the method is not a string", false);
        };
        let params = self.params;
        match id {
            Some(id) => Ok(Message::Request { id, method, params }),
            None if null_id => malformed("a request whose id is null", false),
            None => Ok(Message::Notification { method, params }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
        match parse(text.as_bytes()) {
            Ok(Message::Request { id, method, params }) => {
                format!(
                    "request {id} {method} {}",
                    params.map_or("-", RawValue::get)
                )
            }
            Ok(Message::Notification { method, params }) => {
                format!(
                    "notification {method} {}",
                    params.map_or("-", RawValue::get)
                )
            }
            Ok(Message::Response { id, outcome }) => {
                let id = id.map_or("-".to_owned(), |id| id.to_string());
                match outcome {
                    Ok(result) => format!("result {id} {}", result.get()),
                    Err(error) => format!("error {id} {}", error.get()),
                }
            }
            Err(Malformed {
                id, response, code, ..
            }) => {
                let id = id.map_or("-".to_owned(), |id| id.to_string());
                format!("malformed {id} {response} {code}")
            }
        }
    }

    #[test]
    fn messages_are_told_apart() {
        let rows = [
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":1e400}}"#,
                r#"request 1 a {"x":1e400}"#,
            ),
            (
                r#"{"id":"1","method":"\u0061","params":null}"#,
                r#"request "1" a -"#,
            ),
            (r#"{"method":"a"}"#, "notification a -"),
            (r#"{"id":1,"result":null}"#, "result 1 null"),
            (
                r#"{"id":1,"result":{"a":10000000000000000000000000000000000000000}}"#,
                r#"result 1 {"a":10000000000000000000000000000000000000000}"#,
            ),
            (
                r#"{"id":1,"result":null,"error":{"code":1}}"#,
                r#"error 1 {"code":1}"#,
            ),
            (r#"{"id":1,"result":{},"error":null,"x":[]}"#, "result 1 {}"),
            (r#"{"id":null,"error":{}}"#, "error - {}"),
            (r#"{"error":{}}"#, "error - {}"),
        ];
        for (text, expected) in rows {
            assert_eq!(told(text), expected, "{text}");
        }
    }

    #[test]
    fn malformed_text_tells_what_can_be_told() {
        let rows = [
            ("", "malformed - false -32700"),
            ("hello", "malformed - false -32700"),
            ("[1]", "malformed - false -32600"),
            (r#"{"id":1}"#, "malformed 1 true -32600"),
            (r#"{"id":1,"method":5}"#, "malformed 1 false -32600"),
            (r#"{"id":null,"method":"a"}"#, "malformed - false -32600"),
            (r#"{"id":{},"method":"a"}"#, "malformed - false -32600"),
            (r#"{"id":{},"result":1}"#, "malformed - true -32600"),
            (
                r#"{"id":1,"method":"a","result":1}"#,
                "malformed 1 true -32600",
            ),
            (
                r#"{"id":1,"result":1,"result":2}"#,
                "malformed 1 true -32600",
            ),
            (r#"{"id":1,"result":NaN}"#, "malformed 1 true -32700"),
            (r#"{"id":1,"result":{"#, "malformed 1 true -32700"),
        ];
        for (text, expected) in rows {
            assert_eq!(told(text), expected, "{text}");
        }
        let latin = parse(b"{\"id\":1,\"result\":\"\xe9\"}").unwrap_err();
        assert_eq!((latin.id, latin.response), (Some(Id::number(1)), true));
    }

    #[test]
    fn a_batch_is_read_one_by_one() {
        let batch = parse_batch(br#" [{"method":"a"},7,{"id":1,"result":{}}]"#).unwrap();
        assert!(matches!(&batch[0], Ok(Message::Notification { method, .. }) if method == "a"));
        assert!(batch[1].is_err());
        assert!(matches!(
            &batch[2],
            Ok(Message::Response { id: Some(_), .. })
        ));
        assert_eq!(parse_batch(br#"{"method":"a"}"#).unwrap().len(), 1);
        assert!(parse_batch(b"[]").is_err());
        assert!(parse_batch(b"[{]").is_err());
    }

    #[test]
    fn depth_is_no_danger() {
        let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
        let text = format!(r#"{{"id":1,"result":{deep}}}"#);
        let Ok(Message::Response {
            outcome: Ok(result),
            ..
        }) = parse(text.as_bytes())
        else {
            panic!("not read");
        };
        assert_eq!(result.get(), deep);
        let cut = &text[..text.len() - 9];
        assert_eq!(parse(cut.as_bytes()).unwrap_err().id, Some(Id::number(1)));
        assert_eq!(
            parse_batch(format!("[{text}]").as_bytes()).unwrap().len(),
            1
        );
    }
}
