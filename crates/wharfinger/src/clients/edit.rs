//! Our entry goes in, is brought up to date, and comes out again.
//!
//! Each format says which bytes to put where; here the result is read again, and given back only if nothing but our
//! entry differs.

use std::ops::Range;

use serde_json::{Map, Value};

use super::{Client, Endpoint, Format, NAME, Refused, json, shape, toml, unmarked, yaml};

/// Bytes of a text that others take the place of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Of the text before.
    pub range: Range<usize>,
    /// What stands there after.
    pub text: String,
}

/// A text before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    /// What was changed, in the order of the text; none where it was as wanted.
    pub changes: Vec<Change>,
    /// The whole text after.
    pub text: String,
}

impl Edited {
    /// Whether anything is to be written.
    pub fn is_changed(&self) -> bool {
        !self.changes.is_empty()
    }
}

/// What to do with the entry.
#[derive(Clone, Copy)]
pub(super) enum Wish<'a> {
    Put(&'a Value),
    Remove,
}

/// Whether an entry, under whatever name, leads to a gateway of ours.
pub fn is_ours(entry: &Value) -> bool {
    let words = shape::words(entry);
    let program = words.first().map(|word| {
        let name = word.rsplit(['/', '\\']).next().unwrap_or_default();
        name.strip_suffix(".exe").unwrap_or(name)
    });
    let by_command = program == Some("wharf") && words.iter().any(|word| word == "stdio");
    let is_bridge = || {
        words.iter().any(|word| word == "mcp-remote") && words.iter().any(|word| is_endpoint(word))
    };
    by_command || shape::address(entry).is_some_and(is_endpoint) || is_bridge()
}

/// `http://127.0.0.1:PORT/agents/NAME/mcp`
fn is_endpoint(address: &str) -> bool {
    let Ok(url) = url::Url::parse(address) else {
        return false;
    };
    let here = matches!(url.host_str(), Some("127.0.0.1" | "localhost" | "[::1]"));
    let path: Vec<&str> = url
        .path_segments()
        .map(Iterator::collect)
        .unwrap_or_default();
    here && matches!(path.as_slice(), ["agents", _, "mcp"])
}

/// The text with our entry in it, for a new file or an old one. What is there already and as wanted is not touched.
pub fn connect(client: &Client, text: &str, endpoint: &Endpoint) -> Result<Edited, Refused> {
    let entry = shape::entry(client.shape, endpoint);
    put(client, text, &entry)
}

pub(super) fn put(client: &Client, text: &str, entry: &Value) -> Result<Edited, Refused> {
    let before = parse(client.format, text)?;
    let known = lookup(&before, client.key)?;
    if let Some(known) = known {
        if !is_ours(known) {
            return Err(Refused::Taken(NAME.into()));
        }
        if known == entry {
            return Ok(unchanged(text));
        }
    }
    carry_out(client, text, &before, Wish::Put(entry))
}

/// The text without our entry; as it was where there is none.
pub fn disconnect(client: &Client, text: &str) -> Result<Edited, Refused> {
    let before = parse(client.format, text)?;
    match lookup(&before, client.key)? {
        Some(known) if is_ours(known) => carry_out(client, text, &before, Wish::Remove),
        Some(_) | None => Ok(unchanged(text)),
    }
}

/// Whether a text is an older one with our entry in it and nothing else changed: then the older one may take its place.
pub fn is_only_us(client: &Client, older: &str, now: &str) -> bool {
    let Ok(read) = parse(client.format, now) else {
        return false;
    };
    let Ok(Some(entry)) = lookup(&read, client.key) else {
        return false;
    };
    let has_none = parse(client.format, older)
        .is_ok_and(|older| lookup(&older, client.key).is_ok_and(|known| known.is_none()));
    has_none && put(client, older, entry).is_ok_and(|edited| edited.text == now)
}

fn unchanged(text: &str) -> Edited {
    Edited {
        changes: vec![],
        text: text.to_owned(),
    }
}

pub(super) fn parse(format: Format, text: &str) -> Result<Value, Refused> {
    let (text, _) = unmarked(text);
    match format {
        Format::Json => json::parse(text),
        Format::Toml => toml::parse(text),
        Format::Yaml => yaml::parse(text),
    }
}

/// Our entry, if the file has one.
fn lookup<'a>(root: &'a Value, key: &str) -> Result<Option<&'a Value>, Refused> {
    let Value::Object(top) = root else {
        return Err(Refused::NotAnObject("the file".into()));
    };
    match top.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(servers)) => Ok(servers.get(NAME)),
        Some(_) => Err(Refused::NotAnObject(format!("`{key}`"))),
    }
}

/// Tries the ways there are, from the tidiest on, and takes the first that leaves all else as it was.
fn carry_out(
    client: &Client,
    text: &str,
    before: &Value,
    wish: Wish<'_>,
) -> Result<Edited, Refused> {
    let (body, mark) = unmarked(text);
    let ways = match client.format {
        Format::Json => json::changes(body, client.key, wish)?,
        Format::Toml => toml::changes(body, client.key, wish)?,
        Format::Yaml => yaml::changes(body, client.key, wish)?,
    };
    for mut changes in ways {
        for change in &mut changes {
            change.range = change.range.start + mark..change.range.end + mark;
        }
        let after = apply(text, &changes);
        let Ok(read) = parse(client.format, &after) else {
            continue;
        };
        let wanted = match wish {
            Wish::Put(entry) => Some(entry),
            Wish::Remove => None,
        };
        let there = lookup(&read, client.key).unwrap_or_default();
        if there == wanted && same(&rest(before, client.key), &rest(&read, client.key)) {
            return Ok(Edited {
                changes,
                text: after,
            });
        }
    }
    Err(Refused::Unsafe(
        "it can't be edited without touching other parts of it",
    ))
}

/// The text with changes made; they do not overlap and are in order.
fn apply(text: &str, changes: &[Change]) -> String {
    let mut after = String::with_capacity(text.len() + 512);
    let mut done = 0;
    for change in changes {
        after.push_str(&text[done..change.range.start]);
        after.push_str(&change.text);
        done = change.range.end;
    }
    after.push_str(&text[done..]);
    after
}

/// What is not ours: everything but our entry, and what would hold it where it holds nothing else.
fn rest(root: &Value, key: &str) -> Value {
    let mut root = root.clone();
    if let Value::Object(top) = &mut root {
        let is_empty = match top.get_mut(key) {
            Some(Value::Object(servers)) => {
                servers.shift_remove(NAME);
                servers.is_empty()
            }
            Some(Value::Null) => true,
            Some(_) | None => false,
        };
        if is_empty {
            top.shift_remove(key);
        }
    }
    root
}

/// Equal, with members in the same order.
fn same(a: &Value, b: &Value) -> bool {
    let members = |a: &Map<String, Value>, b: &Map<String, Value>| {
        a.len() == b.len() && a.iter().zip(b).all(|((k, v), (l, w))| k == l && same(v, w))
    };
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => members(a, b),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (a, b) => a == b,
    }
}
