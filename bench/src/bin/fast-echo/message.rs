//! What comes in, as far as it has to be read, and what goes out.

use std::borrow::Cow;
use std::fmt::Arguments as Format;
use std::io::Write;

use serde::Deserialize;
use serde_json::value::RawValue;

/// A message of the client's.
#[derive(Deserialize)]
pub(crate) struct Message<'a> {
    #[serde(borrow)]
    pub(crate) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) params: Option<&'a RawValue>,
}

/// The params of `tools/call`.
#[derive(Deserialize)]
pub(crate) struct CallParams<'a> {
    #[serde(borrow)]
    pub(crate) name: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) arguments: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    pub(crate) meta: Option<Meta<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct Meta<'a> {
    #[serde(borrow, rename = "progressToken")]
    pub(crate) token: Option<&'a RawValue>,
}

/// The arguments of all tools.
#[derive(Deserialize, Default)]
pub(crate) struct Arguments<'a> {
    #[serde(borrow)]
    pub(crate) text: Option<&'a RawValue>,
    pub(crate) ms: Option<u64>,
    pub(crate) bytes: Option<usize>,
    pub(crate) count: Option<u64>,
}

/// The string value of the first `"key":"value"` in `json`; enough for flat values without escapes.
pub(crate) fn field<'a>(json: &'a str, key: &str) -> Option<&'a str> {
    let mut places = json.match_indices(key);
    let (at, _) = places.find(|(at, _)| json[..*at].ends_with('"'))?;
    let rest = json[at + key.len()..].strip_prefix('"')?.trim_start();
    let rest = rest.strip_prefix(':')?.trim_start().strip_prefix('"')?;
    rest.split('"').next()
}

// Writing to memory does not fail, so the outcome of `writeln!` says nothing.

pub(crate) fn result(out: &mut Vec<u8>, id: &str, members: Format<'_>) {
    writeln!(
        out,
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{{members}}}}}"#
    )
    .ok();
}

/// `json` is the text as a JSON string, quotes and escapes included.
pub(crate) fn text(out: &mut Vec<u8>, id: &str, complete: &str, json: &str) {
    let members = format_args!(r#"{complete}"content":[{{"type":"text","text":{json}}}]"#);
    result(out, id, members);
}

pub(crate) fn error(out: &mut Vec<u8>, id: &str, code: i32, message: &str, data: &str) {
    writeln!(
        out,
        r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}"{data}}}}}"#
    )
    .ok();
}

pub(crate) fn progress(out: &mut Vec<u8>, token: &str, done: u64, total: u64) {
    writeln!(
        out,
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{done},"total":{total}}}}}"#
    )
    .ok();
}
