//! Envelopes around raw payloads.

use serde_json::value::RawValue;

use super::{ErrorObject, Id};
use crate::json::{Object, write_string};

const START: &[u8] = br#"{"jsonrpc":"2.0""#;

/// A request, without a newline at its end.
pub fn request(id: &Id, method: &str, params: Option<&RawValue>) -> Vec<u8> {
    built(params, |out| write_request(out, id, method, params))
}

/// A notification, without a newline at its end.
pub fn notification(method: &str, params: Option<&RawValue>) -> Vec<u8> {
    built(params, |out| write_notification(out, method, params))
}

/// The answer to a request that went well, without a newline at its end.
pub fn result(id: &Id, result: &RawValue) -> Vec<u8> {
    built(Some(result), |out| write_answer(out, Some(id), Ok(result)))
}

/// What stands before and after the result of a request that went well.
pub fn result_around(id: &Id) -> (Vec<u8>, Vec<u8>) {
    let mut head = START.to_vec();
    head.extend_from_slice(br#","id":"#);
    id.write(&mut head);
    head.extend_from_slice(br#","result":"#);
    (head, b"}".to_vec())
}

/// The answer to a request that failed, or to something whose id could not be read; without a
/// newline at its end.
///
/// Without an id the member is left out: the MCP schema makes it optional, and widely used clients
/// refuse the `null` of JSON-RPC.
pub fn error(id: Option<&Id>, error: &ErrorObject) -> Vec<u8> {
    let error = error.to_raw();
    built(Some(&error), |out| write_answer(out, id, Err(&error)))
}

fn built(payload: Option<&RawValue>, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::with_capacity(96 + payload.map_or(0, |raw| raw.get().len()));
    write(&mut out);
    out
}

/// Whatever can be written as the params of a message.
pub(crate) trait Params {
    fn write(&self, out: &mut Vec<u8>);
}

impl Params for RawValue {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.get().as_bytes());
    }
}

/// Saves making a raw value of it first, which would read all of it once more.
impl Params for Object<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        Object::write(self, out);
    }
}

pub(crate) fn write_request<P: Params + ?Sized>(
    out: &mut Vec<u8>,
    id: &Id,
    method: &str,
    params: Option<&P>,
) {
    out.extend_from_slice(START);
    out.extend_from_slice(br#","id":"#);
    id.write(out);
    write_rest(out, method, params);
}

pub(crate) fn write_notification(out: &mut Vec<u8>, method: &str, params: Option<&RawValue>) {
    out.extend_from_slice(START);
    write_rest(out, method, params);
}

fn write_rest<P: Params + ?Sized>(out: &mut Vec<u8>, method: &str, params: Option<&P>) {
    out.extend_from_slice(br#","method":"#);
    write_string(out, method);
    if let Some(params) = params {
        out.extend_from_slice(br#","params":"#);
        params.write(out);
    }
    out.push(b'}');
}

pub(crate) fn write_answer(
    out: &mut Vec<u8>,
    id: Option<&Id>,
    outcome: Result<&RawValue, &RawValue>,
) {
    out.extend_from_slice(START);
    if let Some(id) = id {
        out.extend_from_slice(br#","id":"#);
        id.write(out);
    }
    let (name, payload): (&[u8], _) = match outcome {
        Ok(result) => (br#","result":"#, result),
        Err(error) => (br#","error":"#, error),
    };
    out.extend_from_slice(name);
    out.extend_from_slice(payload.get().as_bytes());
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::raw;
    use crate::message::METHOD_NOT_FOUND;

    #[test]
    fn envelopes() {
        fn check(written: Vec<u8>, expected: &str) {
            assert_eq!(String::from_utf8(written).unwrap(), expected);
        }
        let (id, params) = (Id::string("a"), raw(&[1]));
        check(
            request(&id, "x/y", Some(&params)),
            r#"{"jsonrpc":"2.0","id":"a","method":"x/y","params":[1]}"#,
        );
        check(
            request(&Id::number(3), "a\"b", None),
            r#"{"jsonrpc":"2.0","id":3,"method":"a\"b"}"#,
        );
        check(
            notification("n", Some(&params)),
            r#"{"jsonrpc":"2.0","method":"n","params":[1]}"#,
        );
        check(
            result(&id, &params),
            r#"{"jsonrpc":"2.0","id":"a","result":[1]}"#,
        );
        check(
            error(None, &ErrorObject::new(METHOD_NOT_FOUND, "no")),
            r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"no"}}"#,
        );
    }
}
