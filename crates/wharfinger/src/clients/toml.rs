//! TOML, as Codex has it.

use std::ops::Range;

use serde_json::{Map, Value};
use toml_edit::{Document, Item, Table, TableLike, Value as TomlValue};

use super::edit::{Change, Wish};
use super::{NAME, Refused, line_at, line_break};

fn document(text: &str) -> Result<Document<&str>, Refused> {
    Document::parse(text).map_err(|error| Refused::Syntax {
        line: line_at(text, error.span().map_or(0, |span| span.start)),
        message: error
            .message()
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned(),
    })
}

/// The values; dates as their text.
pub(super) fn parse(text: &str) -> Result<Value, Refused> {
    Ok(table(document(text)?.as_table()))
}

fn table(table: &dyn TableLike) -> Value {
    table
        .iter()
        .map(|(key, item)| (key.to_owned(), plain(item)))
        .collect::<Map<_, _>>()
        .into()
}

fn plain(item: &Item) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Value(value) => value_of(value),
        Item::Table(members) => table(members),
        Item::ArrayOfTables(tables) => tables.iter().map(|members| table(members)).collect(),
    }
}

fn value_of(value: &TomlValue) -> Value {
    match value {
        TomlValue::String(text) => text.value().as_str().into(),
        TomlValue::Integer(number) => (*number.value()).into(),
        TomlValue::Float(number) => (*number.value()).into(),
        TomlValue::Boolean(value) => (*value.value()).into(),
        TomlValue::Datetime(time) => time.value().to_string().into(),
        TomlValue::Array(items) => items.iter().map(value_of).collect(),
        TomlValue::InlineTable(members) => table(members),
    }
}

/// The ways to put our entry in or take it out.
pub(super) fn changes(text: &str, key: &str, wish: Wish<'_>) -> Result<Vec<Vec<Change>>, Refused> {
    let document = document(text)?;
    let servers = document.as_table().get(key);
    let known = match servers {
        Some(Item::Table(servers)) => servers.get_key_value(NAME),
        Some(Item::Value(TomlValue::InlineTable(_))) => {
            return Err(Refused::Unsafe("its servers are written on one line"));
        }
        Some(_) => return Err(Refused::NotAnObject(format!("`{key}`"))),
        None => None,
    };
    let end = line_break(text);
    Ok(match (known, wish) {
        (None, Wish::Put(entry)) => {
            let gap = match text {
                "" => String::new(),
                text if text.ends_with('\n') => end.to_owned(),
                _ => end.repeat(2),
            };
            let new = gap + &block(key, entry, end);
            vec![vec![Change {
                range: text.len()..text.len(),
                text: new,
            }]]
        }
        (Some((_, Item::Table(known))), wish) if !known.is_dotted() => {
            let mut ranges = vec![];
            extent(text, known, &mut ranges);
            ranges.sort_by_key(|range| range.start);
            let Some(first) = ranges.first_mut() else {
                return Ok(vec![]);
            };
            let new = match wish {
                Wish::Put(entry) => block(key, entry, end),
                Wish::Remove => {
                    // The empty line before it goes with it.
                    let before = &text[..first.start];
                    let kept = before
                        .strip_suffix('\n')
                        .map(|b| b.strip_suffix('\r').unwrap_or(b));
                    if let Some(kept) = kept.filter(|kept| kept.ends_with('\n')) {
                        first.start = kept.len();
                    }
                    String::new()
                }
            };
            let mut texts = std::iter::once(new).chain(std::iter::repeat(String::new()));
            let changes = ranges.into_iter().map(|range| Change {
                range,
                text: texts.next().unwrap_or_default(),
            });
            vec![changes.collect()]
        }
        // `wharf = { … }` under `[mcp_servers]`.
        (Some((name, Item::Value(value))), wish) => {
            let (Some(name), Some(value)) = (name.span(), value.span()) else {
                return Ok(vec![]);
            };
            match wish {
                Wish::Put(entry) => {
                    vec![vec![Change {
                        range: value,
                        text: inline(entry),
                    }]]
                }
                Wish::Remove => {
                    let range = whole_lines(text, name.start..value.end);
                    vec![vec![Change {
                        range,
                        text: String::new(),
                    }]]
                }
            }
        }
        (None, Wish::Remove) | (Some(_), _) => vec![],
    })
}

/// The lines of a table and of those in it, each up to its last value: what is said after that belongs to what follows.
fn extent(text: &str, table: &Table, ranges: &mut Vec<Range<usize>>) {
    let mut own = table.span().filter(|_| !table.is_implicit());
    for (key, item) in table {
        match item {
            Item::Table(inner) if !inner.is_dotted() => extent(text, inner, ranges),
            Item::Table(_) | Item::Value(_) => {
                let end = deepest_end(item).or_else(|| table.key(key)?.span().map(|s| s.end));
                if let (Some(own), Some(end)) = (&mut own, end) {
                    own.end = own.end.max(end);
                }
            }
            Item::ArrayOfTables(tables) => {
                for inner in tables {
                    extent(text, inner, ranges);
                }
            }
            Item::None => {}
        }
    }
    ranges.extend(own.map(|range| whole_lines(text, range)));
}

/// Where the last value of an item ends.
fn deepest_end(item: &Item) -> Option<usize> {
    match item {
        Item::Value(value) => value.span().map(|span| span.end),
        Item::Table(table) => table.iter().filter_map(|(_, item)| deepest_end(item)).max(),
        Item::ArrayOfTables(_) | Item::None => None,
    }
}

/// From the start of the first line to the end of the last one, its line break included.
fn whole_lines(text: &str, range: Range<usize>) -> Range<usize> {
    let start = text[..range.start].rfind('\n').map_or(0, |at| at + 1);
    let end = text[range.end..]
        .find('\n')
        .map_or(text.len(), |at| range.end + at + 1);
    start..end
}

/// Our entry as a table of its own.
fn block(key: &str, entry: &Value, end: &str) -> String {
    let members = entry.as_object().into_iter().flatten();
    let lines = members.map(|(name, value)| format!("{name} = {}{end}", inline(value)));
    format!("[{key}.{NAME}]{end}{}", lines.collect::<String>())
}

/// A value on one line. The names in our entries are bare keys.
fn inline(value: &Value) -> String {
    match value {
        // Every escape of JSON is one of TOML.
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(_) => value.to_string().replace('\u{7f}', "\\u007F"),
        Value::Array(items) => {
            format!(
                "[{}]",
                items.iter().map(inline).collect::<Vec<_>>().join(", ")
            )
        }
        Value::Object(members) if members.is_empty() => "{}".into(),
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(key, value)| format!("{key} = {}", inline(value)));
            format!("{{ {} }}", members.collect::<Vec<_>>().join(", "))
        }
    }
}
