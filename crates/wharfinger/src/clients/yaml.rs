//! YAML, as Goose has it: one document, block style where we edit.

use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use serde_json::{Map, Value};

use super::edit::{Change, Wish};
use super::{NAME, Refused, line_break};

/// Deeper than anybody writes by hand.
const DEEPEST: usize = 128;

/// Where a key of a mapping stands.
#[derive(Clone, Copy, Debug)]
struct Key {
    /// Counted from 1.
    line: usize,
    column: usize,
}

/// What is half read.
enum Open {
    List(Vec<Value>),
    Object {
        members: Map<String, Value>,
        key: Option<String>,
    },
}

/// A document, and where the keys of its two outermost mappings stand.
struct Read {
    root: Value,
    keys: Vec<(Vec<String>, Key)>,
}

/// The values; an alias is not followed, so it is text.
pub(super) fn parse(text: &str) -> Result<Value, Refused> {
    Ok(read(text)?.root)
}

fn read(text: &str) -> Result<Read, Refused> {
    let mut open: Vec<Open> = vec![];
    let mut root = None;
    let mut keys = vec![];
    let mut documents = 0;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| Refused::Syntax {
            line: error.marker().line(),
            message: error.info().to_owned(),
        })?;
        let done = match event {
            Event::DocumentStart(_) => {
                documents += 1;
                continue;
            }
            Event::SequenceStart(..) => {
                open.push(Open::List(vec![]));
                None
            }
            Event::MappingStart(..) => {
                open.push(Open::Object {
                    members: Map::new(),
                    key: None,
                });
                None
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(Open::List(items)) => Some(Value::Array(items)),
                Some(Open::Object { members, .. }) => Some(Value::Object(members)),
                None => None,
            },
            Event::Scalar(text, style, _, tag) => Some(if tag.is_none() {
                scalar(&text, style)
            } else {
                text.as_ref().into()
            }),
            Event::Alias(id) => Some(format!("*{id}").into()),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => continue,
        };
        if open.len() > DEEPEST {
            return Err(Refused::Unsafe("it is nested too deeply"));
        }
        if let Some(value) = done {
            place(&mut open, &mut root, &mut keys, value, span)?;
        }
    }
    if documents > 1 {
        return Err(Refused::Unsafe("there is more than one document in it"));
    }
    let root = match root {
        None | Some(Value::Null) => Value::Object(Map::new()),
        Some(root) => root,
    };
    Ok(Read { root, keys })
}

/// Puts a value that is whole where it belongs.
fn place(
    open: &mut [Open],
    root: &mut Option<Value>,
    keys: &mut Vec<(Vec<String>, Key)>,
    value: Value,
    span: Span,
) -> Result<(), Refused> {
    let depth = open.len();
    let mut path: Vec<String> = vec![];
    if depth <= 2 {
        path.extend(open.iter().filter_map(|open| match open {
            Open::Object { key, .. } => key.clone(),
            Open::List(_) => Some(String::new()),
        }));
    }
    match open.last_mut() {
        None => *root = Some(value),
        Some(Open::List(items)) => items.push(value),
        Some(Open::Object { members, key }) => {
            if let Some(key) = key.take() {
                members.insert(key, value);
                return Ok(());
            }
            let name = match value {
                Value::String(text) => text,
                other => other.to_string(),
            };
            if members.contains_key(&name) {
                return Err(Refused::Twice(name));
            }
            if depth <= 2 {
                path.push(name.clone());
                let key = Key {
                    line: span.start.line(),
                    column: span.start.col(),
                };
                keys.push((path, key));
            }
            *key = Some(name);
        }
    }
    Ok(())
}

/// A scalar without a tag, by the core schema.
fn scalar(text: &str, style: ScalarStyle) -> Value {
    if style != ScalarStyle::Plain {
        return text.into();
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => true.into(),
        "false" | "False" | "FALSE" => false.into(),
        _ => {
            let is_number = text.starts_with(|c: char| c.is_ascii_digit() || c == '-');
            match serde_json::from_str(text) {
                Ok(number @ Value::Number(_)) if is_number => number,
                _ => text.into(),
            }
        }
    }
}

/// The ways to put our entry in or take it out.
pub(super) fn changes(text: &str, key: &str, wish: Wish<'_>) -> Result<Vec<Vec<Change>>, Refused> {
    let Read { root, keys } = read(text)?;
    let end = line_break(text);
    let at = |path: &[&str]| {
        keys.iter()
            .find(|(known, _)| known == path)
            .map(|(_, key)| *key)
    };
    let one = |range: Range<usize>, text: String| Ok(vec![vec![Change { range, text }]]);
    let Some(servers) = at(&[key]) else {
        let Wish::Put(entry) = wish else {
            return Ok(vec![]);
        };
        let gap = if text.is_empty() || text.ends_with('\n') {
            ""
        } else {
            end
        };
        let new = format!("{gap}{key}:{end}{}", block("  ", entry, end));
        return one(text.len()..text.len(), new);
    };
    if servers.column != 0 {
        return Err(Refused::Unsafe("it is not written in block style"));
    }
    let line = line(text, servers.line);
    let is_empty = match root.get(key) {
        Some(Value::Object(members)) => members.is_empty(),
        Some(_) | None => true,
    };
    match (at(&[key, NAME]), wish) {
        (None, Wish::Remove) => Ok(vec![]),
        // `extensions: {}`, or nothing after the colon.
        (None, Wish::Put(entry)) if is_empty => {
            Ok(vec![fill(text, line, &block("  ", entry, end), end)])
        }
        (None, Wish::Put(entry)) => {
            let is_sibling = |path: &&(Vec<String>, Key)| path.0.len() == 2 && path.0[0] == key;
            let sibling = keys.iter().find(is_sibling).map(|(_, key)| *key);
            match sibling.filter(|sibling| sibling.line > servers.line) {
                Some(sibling) => one(
                    line.end..line.end,
                    block(&" ".repeat(sibling.column), entry, end),
                ),
                None => Err(Refused::Unsafe("its servers are written on one line")),
            }
        }
        (Some(known), wish) => {
            if known.line <= servers.line {
                return Err(Refused::Unsafe("its servers are written on one line"));
            }
            let range = extent(text, known);
            match wish {
                Wish::Put(entry) => one(range, block(&" ".repeat(known.column), entry, end)),
                Wish::Remove if root[key].as_object().is_some_and(|all| all.len() == 1) => {
                    let kept =
                        line.end - (text[line.clone()].len() - text[line.clone()].trim_end().len());
                    let bare = vec![
                        Change {
                            range: kept..kept,
                            text: " {}".into(),
                        },
                        Change {
                            range: range.clone(),
                            text: String::new(),
                        },
                    ];
                    Ok(vec![
                        bare,
                        vec![Change {
                            range,
                            text: String::new(),
                        }],
                    ])
                }
                Wish::Remove => one(range, String::new()),
            }
        }
    }
}

/// A block after a line like `extensions: {} # none yet`, in place of the braces.
fn fill(text: &str, line: Range<usize>, block: &str, end: &str) -> Vec<Change> {
    let written = text[line.clone()].trim_end_matches(['\n', '\r']);
    let after = line.start + written.find(':').map_or(written.len(), |at| at + 1);
    let braces = text[after..line.end].find("{}");
    let braces = braces.map_or(after..after, |at| after..after + at + 2);
    let rest = &text[braces.end..line.end];
    if rest.trim().is_empty() {
        return vec![Change {
            range: braces.start..line.end,
            text: format!("{end}{block}"),
        }];
    }
    let gap = if rest.ends_with('\n') { "" } else { end };
    vec![
        Change {
            range: braces,
            text: String::new(),
        },
        Change {
            range: line.end..line.end,
            text: format!("{gap}{block}"),
        },
    ]
}

/// The bytes of a line, its break included.
fn line(text: &str, number: usize) -> Range<usize> {
    let mut start = 0;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if index + 1 == number {
            return start..start + line.len();
        }
        start += line.len();
    }
    text.len()..text.len()
}

/// The lines of a key and its value; empty lines and comments after it are what follows.
fn extent(text: &str, key: Key) -> Range<usize> {
    let first = line(text, key.line);
    let (mut end, mut at) = (first.end, first.end);
    for line in text[first.end..].split_inclusive('\n') {
        at += line.len();
        let rest = line.trim_start_matches(' ');
        if rest.trim().is_empty() || rest.starts_with('#') {
            continue;
        }
        if line.len() - rest.len() <= key.column {
            break;
        }
        end = at;
    }
    first.start..end
}

/// Our entry in block style, indented so far.
fn block(indent: &str, entry: &Value, end: &str) -> String {
    let unit = if indent.is_empty() { "  " } else { indent };
    let mut out = format!("{indent}{NAME}:{end}");
    write(&mut out, &format!("{indent}{unit}"), unit, entry, end);
    out
}

fn write(out: &mut String, indent: &str, unit: &str, value: &Value, end: &str) {
    for (key, value) in value.as_object().into_iter().flatten() {
        match value {
            Value::Object(members) if !members.is_empty() => {
                out.extend([indent, key, ":", end]);
                write(out, &format!("{indent}{unit}"), unit, value, end);
            }
            Value::Array(items) if !items.is_empty() => {
                out.extend([indent, key, ":", end]);
                for item in items {
                    out.extend([indent, unit, "- ", &word(item), end]);
                }
            }
            other => out.extend([indent, key, ": ", &word(other), end]),
        }
    }
}

/// A value on one line; text in quotes unless it can be nothing else.
fn word(value: &Value) -> String {
    let Value::String(text) = value else {
        return value.to_string();
    };
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c))
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
            .contains(&text.to_ascii_lowercase().as_str());
    if is_plain {
        text.clone()
    } else {
        value.to_string().replace('\u{7f}', "\\u007F")
    }
}
