//! Arguments that are for the runtime and not for the server (A147): what the model is told of them, and how they are
//! taken out before anything else looks at a call.

use serde_json::value::RawValue;
use wharfinger_wire::json::{Object, Raw, string};

/// Arguments that only the runtime may set: what a model or a program sends of them is forged.
pub const INTERNAL: [&str; 3] = ["_full", "_authorized", "_protection_override"];

const REASON: (&str, &str) = (
    "_reason",
    r#"{"type":"string","description":"Why this call is made, for the person who may have to approve it"}"#,
);
const ASYNC: (&str, &str) = (
    "_async",
    r#"{"type":"boolean","description":"Answer at once with the id of a task, and work on"}"#,
);

/// Arguments without what was for the runtime.
#[derive(Clone, Debug)]
pub struct Stripped {
    /// What the server gets, and what a person approves.
    pub arguments: Raw,
    /// Why the model makes the call.
    pub reason: Option<String>,
    /// It wants the answer later.
    pub is_async: bool,
    /// What was set and may not be.
    pub forged: Vec<&'static str>,
}

/// The arguments are no JSON object that can be read, so it cannot be told what is in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the arguments are not an object that can be read; send one JSON object")]
pub struct Unreadable;

/// Takes out of a call's arguments what is for the runtime. `_reason` and `_async` stay where the tool has a property of
/// that name itself. Arguments that hold nothing of the kind stay as they are, byte for byte.
pub fn strip_internal(arguments: &RawValue, tool: &RawValue) -> Result<Stripped, Unreadable> {
    let mut object = Object::from_raw(arguments).map_err(|_| Unreadable)?;
    let before = object.len();
    let mut of_runtime = |(name, _): (&str, &str)| {
        if declares(tool, name) {
            return None;
        }
        object.remove(name)
    };
    let reason = of_runtime(REASON);
    let is_async = of_runtime(ASYNC);
    let mut forged = vec![];
    for name in INTERNAL {
        if object.remove(name).is_some() {
            forged.push(name);
        }
    }
    let reason = reason.and_then(|reason| {
        let text = string(&reason)?.trim().to_owned();
        (!text.is_empty()).then_some(text)
    });
    Ok(Stripped {
        arguments: if object.len() == before {
            arguments.to_owned()
        } else {
            object.to_raw()
        },
        reason,
        is_async: is_async.is_some_and(|value| value.get() == "true"),
        forged,
    })
}

fn declares(tool: &RawValue, property: &str) -> bool {
    let tool = Object::from_raw(tool).unwrap_or_default();
    let schema = tool.object("inputSchema").unwrap_or_default();
    let properties = schema.object("properties").unwrap_or_default();
    properties.contains(property)
}

/// The tool as the model sees it: with `_reason` and `_async` among its properties where it has none of that name. All
/// else stays byte for byte.
pub fn with_reason(tool: &RawValue) -> Raw {
    added(tool).unwrap_or_else(|| tool.to_owned())
}

fn added(tool: &RawValue) -> Option<Raw> {
    let object = Object::from_raw(tool).ok()?;
    let schema = object.get("inputSchema")?;
    let members = Object::from_raw(schema).ok()?;
    let missing = |properties: Option<&Object<'_>>| {
        let missing = [REASON, ASYNC]
            .into_iter()
            .filter(|(name, _)| !properties.is_some_and(|properties| properties.contains(name)));
        let missing: Vec<_> = missing
            .map(|(name, schema)| format!("\"{name}\":{schema}"))
            .collect();
        missing.join(",")
    };
    let (inside, is_empty, text) = match members.get("properties") {
        Some(properties) => {
            let known = Object::from_raw(properties).ok()?;
            (properties, known.is_empty(), missing(Some(&known)))
        }
        None => (
            schema,
            members.is_empty(),
            format!("\"properties\":{{{}}}", missing(None)),
        ),
    };
    if text.is_empty() {
        return None;
    }
    let comma = if is_empty { "" } else { "," };
    // The object's closing brace, counted from the beginning of the tool's own text.
    let start = inside.get().as_ptr().addr() - tool.get().as_ptr().addr();
    let (head, tail) = tool
        .get()
        .split_at_checked(start + inside.get().len() - 1)?;
    RawValue::from_string(format!("{head}{comma}{text}{tail}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn a147_what_is_for_the_runtime_is_taken_out() {
        let plain = raw(r#"{"name":"t","inputSchema":{"type":"object"}}"#);
        let check =
            |arguments: &str, rest: &str, reason: Option<&str>, is_async: bool, forged: &[&str]| {
                let stripped = strip_internal(&raw(arguments), &plain).unwrap();
                assert_eq!(stripped.arguments.get(), rest);
                assert_eq!(
                    (stripped.reason.as_deref(), stripped.is_async),
                    (reason, is_async),
                    "{arguments}"
                );
                assert_eq!(stripped.forged, forged, "{arguments}");
            };
        let same = r#"{ "a" : 1e400, "b":{"_authorized":true},"reason":"x" }"#;
        check(same, same, None, false, &[]);
        check("{}", "{}", None, false, &[]);
        check(
            r#"{"a": 1.0,"_reason":" to see "}"#,
            r#"{"a":1.0}"#,
            Some("to see"),
            false,
            &[],
        );
        check(r#"{"_reason":"","_async":true}"#, "{}", None, true, &[]);
        check(r#"{"_reason":" ","_async":false}"#, "{}", None, false, &[]);
        check(r#"{"_reason":7,"_async":"true"}"#, "{}", None, false, &[]);
        check(
            r#"{"_full":false,"a":1,"_protection_override":null,"_authorized":true}"#,
            r#"{"a":1}"#,
            None,
            false,
            &["_full", "_authorized", "_protection_override"],
        );
        check(
            r#"{"_authorized":true,"_authorized":false,"a":1}"#,
            r#"{"a":1}"#,
            None,
            false,
            &["_authorized"],
        );
        check(
            r#"{"\u005fauthorized":true}"#,
            "{}",
            None,
            false,
            &["_authorized"],
        );
        check(
            r#"{"_reason":"a","_reason":"b"}"#,
            "{}",
            Some("b"),
            false,
            &[],
        );
    }

    #[test]
    fn a147_what_the_tool_itself_has_stays() {
        let own = raw(
            r#"{"name":"t","inputSchema":{"properties":{"_reason":{},"_async":true,"_full":{}}}}"#,
        );
        let stripped =
            strip_internal(&raw(r#"{"_reason":"x","_async":true,"_full":1}"#), &own).unwrap();
        assert_eq!(stripped.arguments.get(), r#"{"_reason":"x","_async":true}"#);
        assert_eq!(
            (stripped.reason, stripped.is_async, stripped.forged),
            (None, false, vec!["_full"])
        );
    }

    #[test]
    fn p10_what_cannot_be_read_is_not_forwarded() {
        let tool = raw(r#"{"name":"t"}"#);
        for arguments in [
            "[]",
            "null",
            "7",
            r#""x""#,
            r#"{"\ud800":1,"_authorized":true}"#,
        ] {
            assert_eq!(
                strip_internal(&raw(arguments), &tool).unwrap_err(),
                Unreadable,
                "{arguments}"
            );
        }
        assert!(strip_internal(&raw("{}"), &raw("7")).is_ok());
    }

    #[test]
    fn a147_the_model_is_told_of_them_and_all_else_stays() {
        let (reason, later) = (
            format!(r#""_reason":{}"#, REASON.1),
            format!(r#""_async":{}"#, ASYNC.1),
        );
        let check = |tool: &str, expect: &str| {
            let expect = expect.replace("REASON", &reason).replace("ASYNC", &later);
            let seen = with_reason(&raw(tool));
            assert_eq!(seen.get(), expect);
            assert_eq!(with_reason(&seen).get(), seen.get(), "once is enough");
        };
        check(
            r#"{ "x": 1e400, "inputSchema" : {"type": "object" , "properties": { "a" : {} } , "required":["a"]},"z":[ ]}"#,
            r#"{ "x": 1e400, "inputSchema" : {"type": "object" , "properties": { "a" : {} ,REASON,ASYNC} , "required":["a"]},"z":[ ]}"#,
        );
        check(
            r#"{"inputSchema":{"properties":{ }}}"#,
            r#"{"inputSchema":{"properties":{ REASON,ASYNC}}}"#,
        );
        check(
            r#"{"inputSchema":{"type":"object"}}"#,
            r#"{"inputSchema":{"type":"object","properties":{REASON,ASYNC}}}"#,
        );
        check(
            r#"{"inputSchema":{},"a":1}"#,
            r#"{"inputSchema":{"properties":{REASON,ASYNC}},"a":1}"#,
        );
        check(
            r#"{"inputSchema":{"properties":{"_reason":{}}}}"#,
            r#"{"inputSchema":{"properties":{"_reason":{},ASYNC}}}"#,
        );
        check(
            r#"{"inputSchema":{"properties":{"_async":7}}}"#,
            r#"{"inputSchema":{"properties":{"_async":7,REASON}}}"#,
        );
        check(
            r#"{"inputSchema":{"properties":1},"inputSchema":{"properties":{},"properties":{"a":1}}}"#,
            r#"{"inputSchema":{"properties":1},"inputSchema":{"properties":{},"properties":{"a":1,REASON,ASYNC}}}"#,
        );
        for same in [
            r#"{"name":"a"}"#,
            "7",
            r#"{"inputSchema":true}"#,
            r#"{"inputSchema":{"properties":7}}"#,
            r#"{"inputSchema":{"properties":{"_reason":{},"_async":{}}}}"#,
        ] {
            check(same, same);
        }
    }
}
