//! JSON with comments and trailing commas.

use std::collections::HashSet;

use jsonc_parser::ast::{self, Object, ObjectProp};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, parse_to_ast};
use serde_json::{Map, Value};

use super::edit::{Change, Wish};
use super::{NAME, Refused, line_at, line_break};
use crate::model::JSON_OF_PEOPLE;

fn tree(text: &str) -> Result<Option<ast::Value<'_>>, Refused> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &JSON_OF_PEOPLE);
    let parsed = parsed.map_err(|error| Refused::Syntax {
        line: line_at(text, error.range().start),
        message: error.kind().to_string(),
    })?;
    Ok(parsed.value)
}

/// The values; of a key that is there twice the last one, as its clients have it. A file without a value is an empty
/// object.
pub(super) fn parse(text: &str) -> Result<Value, Refused> {
    Ok(tree(text)?.map_or_else(|| Value::Object(Map::new()), |value| plain(&value)))
}

fn plain(value: &ast::Value<'_>) -> Value {
    match value {
        ast::Value::NullKeyword(_) => Value::Null,
        ast::Value::BooleanLit(lit) => lit.value.into(),
        ast::Value::NumberLit(lit) => {
            serde_json::from_str(lit.value).unwrap_or_else(|_| lit.value.into())
        }
        ast::Value::StringLit(lit) => lit.value.as_ref().into(),
        ast::Value::Array(array) => array.elements.iter().map(plain).collect(),
        ast::Value::Object(object) => object
            .properties
            .iter()
            .map(|p| (p.name.as_str().to_owned(), plain(&p.value)))
            .collect(),
    }
}

/// The ways to put our entry in or take it out, the tidiest first.
pub(super) fn changes(text: &str, key: &str, wish: Wish<'_>) -> Result<Vec<Vec<Change>>, Refused> {
    let style = Style::of(text);
    let put = |range: std::ops::Range<usize>, text: String| Change { range, text };
    let Some(root) = tree(text)? else {
        let Wish::Put(entry) = wish else {
            return Ok(vec![]);
        };
        let mut servers = Map::new();
        servers.insert(NAME.into(), entry.clone());
        let whole = Value::Object(
            [(key.to_owned(), Value::Object(servers))]
                .into_iter()
                .collect(),
        );
        let gap = if text.is_empty() || text.ends_with('\n') {
            ""
        } else {
            style.end
        };
        let new = format!("{gap}{}{}", style.multi(&whole, ""), style.end);
        return Ok(vec![vec![put(text.len()..text.len(), new)]]);
    };
    let Some(root) = root.as_object() else {
        return Err(Refused::NotAnObject("the file".into()));
    };
    let Some(servers) = only(root, key)? else {
        let Wish::Put(entry) = wish else {
            return Ok(vec![]);
        };
        let servers = Value::Object([(NAME.to_owned(), entry.clone())].into_iter().collect());
        return Ok(vec![insert(text, &style, root, key, &servers)]);
    };
    let Some(servers) = servers.value.as_object() else {
        return Err(Refused::NotAnObject(format!("`{key}`")));
    };
    Ok(match (only(servers, NAME)?, wish) {
        (None, Wish::Remove) => vec![],
        (None, Wish::Put(entry)) => vec![insert(text, &style, servers, NAME, entry)],
        (Some(known), Wish::Put(entry)) => {
            let new = if text[known.value.range().start..known.value.range().end].contains('\n') {
                style.multi(entry, indentation(text, known.range.start))
            } else {
                entry.to_string()
            };
            vec![vec![put(known.value.start()..known.value.end(), new)]]
        }
        (Some(known), Wish::Remove) => removals(text, servers, known),
    })
}

/// The one member of that name.
fn only<'a, 'b>(object: &'a Object<'b>, key: &str) -> Result<Option<&'a ObjectProp<'b>>, Refused> {
    let mut found = object.properties.iter().filter(|p| p.name.as_str() == key);
    let first = found.next();
    match found.next() {
        Some(_) => Err(Refused::Twice(key.to_owned())),
        None => Ok(first),
    }
}

/// How a file is laid out.
struct Style {
    unit: String,
    end: &'static str,
}

impl Style {
    /// One level of indentation is that of the first line that has any.
    fn of(text: &str) -> Self {
        let indented = text.lines().find_map(|line| {
            let rest = line.trim_start_matches([' ', '\t']);
            let indent = &line[..line.len() - rest.len()];
            (!indent.is_empty() && rest.starts_with('"')).then_some(indent)
        });
        Self {
            unit: indented.unwrap_or("  ").to_owned(),
            end: line_break(text),
        }
    }

    /// A value over several lines, for a place that is indented so far.
    fn multi(&self, value: &Value, indent: &str) -> String {
        let mut out = Vec::new();
        let format = serde_json::ser::PrettyFormatter::with_indent(self.unit.as_bytes());
        let mut writer = serde_json::Serializer::with_formatter(&mut out, format);
        serde::Serialize::serialize(value, &mut writer).expect("a value can be written");
        let text = String::from_utf8(out).expect("JSON is UTF-8");
        text.replace('\n', &format!("{}{indent}", self.end))
    }
}

/// The white space before what stands at an offset, if it is the first on its line.
fn indentation(text: &str, at: usize) -> &str {
    let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let before = &text[line..at];
    let rest = before.trim_start_matches([' ', '\t']);
    &before[..before.len() - rest.len()]
}

/// A member at the end of an object, laid out as the others are.
fn insert(text: &str, style: &Style, object: &Object<'_>, key: &str, value: &Value) -> Vec<Change> {
    let name = Value::from(key);
    let (start, end) = (object.start(), object.end());
    let indent = indentation(text, start);
    let Some(last) = object.properties.last() else {
        let inside = &text[start + 1..end - 1];
        let inner = format!("{indent}{}", style.unit);
        let member = format!("{}{inner}{name}: {}", style.end, style.multi(value, &inner));
        let closing = format!("{}{indent}", style.end);
        // Comments stay where they are, before it.
        return vec![if inside.trim().is_empty() {
            Change {
                range: start + 1..end - 1,
                text: member + &closing,
            }
        } else {
            let at = start + 1 + inside.trim_end().len();
            let closing = if text[at..end].contains('\n') {
                String::new()
            } else {
                closing
            };
            Change {
                range: at..at,
                text: member + &closing,
            }
        }];
    };
    let first = &object.properties[0];
    let is_multi = text[start..first.start()].contains('\n');
    let value_end = last.end();
    let comma = trailing_comma(text, value_end, end - 1);
    let after = comma.map_or(value_end, |at| at + 1);
    // What is said on the line of the last member stays with it.
    let place = if is_multi {
        after_remarks(text, after, end - 1)
    } else {
        after
    };
    let (separator, trailing) = match comma {
        Some(_) => (None, ","),
        None => (
            Some(Change {
                range: value_end..value_end,
                text: ",".into(),
            }),
            "",
        ),
    };
    let new = if is_multi {
        let own = indentation(text, last.start());
        let is_first = text[..last.start()]
            .trim_end_matches([' ', '\t'])
            .ends_with('\n');
        let inner = if is_first {
            own.to_owned()
        } else {
            format!("{indent}{}", style.unit)
        };
        format!(
            "{}{inner}{name}: {}{trailing}",
            style.end,
            style.multi(value, &inner)
        )
    } else {
        format!(" {name}: {value}{trailing}")
    };
    let member = Change {
        range: place..place,
        text: new,
    };
    separator.into_iter().chain([member]).collect()
}

/// Where the comma after a value stands, if there is one before the end of its object.
fn trailing_comma(text: &str, from: usize, to: usize) -> Option<usize> {
    let at = skip_remarks(text, from, to);
    (at < to && text.as_bytes()[at] == b',').then_some(at)
}

/// Over white space and comments.
fn skip_remarks(text: &str, mut at: usize, to: usize) -> usize {
    loop {
        let rest = &text[at..to];
        let trimmed = rest.trim_start();
        at += rest.len() - trimmed.len();
        if trimmed.starts_with("//") {
            at += trimmed.find('\n').unwrap_or(trimmed.len());
        } else if trimmed.starts_with("/*") {
            at += trimmed.find("*/").map_or(trimmed.len(), |end| end + 2);
        } else {
            return at;
        }
    }
}

/// The end of the comments that follow on the same line.
fn after_remarks(text: &str, mut at: usize, to: usize) -> usize {
    loop {
        let rest = &text[at..to];
        let trimmed = rest.trim_start_matches([' ', '\t']);
        let here = at + rest.len() - trimmed.len();
        if trimmed.starts_with("//") {
            let line = trimmed.find('\n').unwrap_or(trimmed.len());
            return here + trimmed[..line].trim_end_matches('\r').len();
        }
        match trimmed.strip_prefix("/*").and_then(|rest| rest.find("*/")) {
            Some(length) if !trimmed[..length].contains('\n') => at = here + length + 4,
            Some(_) | None => return at,
        }
    }
}

/// Ways to take a member out: with its line, or, where that would swallow something, with as little as can be.
fn removals(text: &str, object: &Object<'_>, member: &ObjectProp<'_>) -> Vec<Vec<Change>> {
    let none = |range: std::ops::Range<usize>| Change {
        range,
        text: String::new(),
    };
    let (inside_start, inside_end) = (object.start() + 1, object.end() - 1);
    let (start, end) = (member.start(), member.end());
    let comma = trailing_comma(text, end, inside_end);
    let index = object
        .properties
        .iter()
        .position(|p| p.start() == start)
        .unwrap_or_default();
    let is_last = index + 1 == object.properties.len();
    let before = inside_start
        + text[inside_start..start]
            .trim_end_matches([' ', '\t'])
            .len();
    // The line break before it goes with it, but no empty line.
    let line = text[inside_start..before]
        .strip_suffix('\n')
        .map_or(before, |kept| {
            inside_start + kept.strip_suffix('\r').unwrap_or(kept).len()
        });
    if object.properties.len() == 1 {
        let own_end = comma.unwrap_or(end);
        let rest = comma.map_or(end, |at| at + 1);
        let outside = [inside_start..start, end..own_end, rest..inside_end].map(|part| &text[part]);
        if outside.iter().all(|part| part.trim().is_empty()) {
            return vec![vec![none(inside_start..inside_end)]];
        }
    }
    // The comma that was needed before the last member.
    let needless = (is_last && comma.is_none() && index > 0)
        .then(|| trailing_comma(text, object.properties[index - 1].end(), start))
        .flatten();
    let from = needless.map_or(line, |at| line.max(at + 1));
    let way = |from: usize| {
        let mut changes: Vec<Change> = needless.map(|at| none(at..at + 1)).into_iter().collect();
        match comma {
            // What is said before the comma stays.
            Some(at) if !text[end..at].trim().is_empty() => {
                changes.extend([none(from..end), none(at..at + 1)]);
            }
            Some(at) => {
                let rest = &text[at + 1..inside_end];
                let spaces = rest.len() - rest.trim_start_matches(' ').len();
                let is_first_here = index == 0 && before == start;
                changes.push(none(from..at + 1 + if is_first_here { spaces } else { 0 }));
            }
            None => changes.push(none(from..end)),
        }
        changes
    };
    vec![way(from), way(start)]
}

/// Names that are there twice: of the key that holds the servers, and of servers.
pub(super) fn twice(text: &str, key: &str) -> Result<Vec<String>, Refused> {
    let mut found = vec![];
    let mut look = |object: &Object<'_>, wanted: Option<&str>| {
        let (mut seen, mut told) = (HashSet::new(), HashSet::new());
        for name in object.properties.iter().map(|p| p.name.as_str()) {
            let is_wanted = wanted.is_none_or(|wanted| wanted == name);
            if is_wanted && !seen.insert(name) && told.insert(name) {
                found.push(name.to_owned());
            }
        }
    };
    let root = tree(text)?;
    if let Some(root) = root.as_ref().and_then(ast::Value::as_object) {
        look(root, Some(key));
        for servers in root.properties.iter().filter(|p| p.name.as_str() == key) {
            if let Some(servers) = servers.value.as_object() {
                look(servers, None);
            }
        }
    }
    Ok(found)
}
