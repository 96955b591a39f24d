//! Configuration text as a tree that remembers where each value stood.

use std::sync::Arc;

use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, parse_to_ast};

use crate::model::{JSON_OF_PEOPLE, Place};

/// A value and where it stood.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    /// The value.
    pub(super) value: Value,
    /// Where its key, or the value itself, stood.
    pub(super) place: Place,
}

/// What a value is. Numbers keep their text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// As written.
    Number(String),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Node>),
    /// An object, members in file order.
    Object(Vec<(String, Node)>),
}

impl Value {
    /// The kind, with its article, as complaints name it.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::Text(_) => "a string",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
        }
    }
}

/// Text that is not JSON, even with comments and trailing commas allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SyntaxError {
    /// Counted from 1.
    pub(super) line: usize,
    /// What was expected.
    pub(super) message: String,
}

/// Reads JSON with comments. An empty text is an empty object.
pub(super) fn parse(file: &Arc<str>, text: &str) -> Result<Node, SyntaxError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = Lines::of(text);
    let parsed =
        parse_to_ast(text, &CollectOptions::default(), &JSON_OF_PEOPLE).map_err(|error| {
            SyntaxError {
                line: lines.at(error.range().start),
                message: error.kind().to_string(),
            }
        })?;
    Ok(match parsed.value {
        Some(value) => node(file, &lines, &value, value.range().start),
        None => Node {
            value: Value::Object(vec![]),
            place: place(file, 1),
        },
    })
}

fn place(file: &Arc<str>, line: usize) -> Place {
    Place::File {
        file: file.clone(),
        line,
    }
}

fn node(file: &Arc<str>, lines: &Lines, value: &ast::Value<'_>, at: usize) -> Node {
    let value = match value {
        ast::Value::NullKeyword(_) => Value::Null,
        ast::Value::BooleanLit(lit) => Value::Bool(lit.value),
        ast::Value::NumberLit(lit) => Value::Number(lit.value.to_owned()),
        ast::Value::StringLit(lit) => Value::Text(lit.value.clone().into_owned()),
        ast::Value::Array(array) => Value::List(
            array
                .elements
                .iter()
                .map(|e| node(file, lines, e, e.range().start))
                .collect(),
        ),
        ast::Value::Object(object) => Value::Object(
            object
                .properties
                .iter()
                .map(|p| {
                    (
                        p.name.as_str().to_owned(),
                        node(file, lines, &p.value, p.range.start),
                    )
                })
                .collect(),
        ),
    };
    Node {
        value,
        place: place(file, lines.at(at)),
    }
}

/// Offsets at which lines begin.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        Self(
            std::iter::once(0)
                .chain(text.match_indices('\n').map(|(at, _)| at + 1))
                .collect(),
        )
    }

    fn at(&self, offset: usize) -> usize {
        self.0.partition_point(|start| *start <= offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Node, SyntaxError> {
        parse(&"f".into(), text)
    }

    #[test]
    fn values_keep_their_lines_and_number_text() {
        let at = |line| Place::File {
            file: "f".into(),
            line,
        };
        let node = read("{ // why\n \"a\": 1e3,\n\n \"b\": [true,\n null],\n}").unwrap();
        let b = vec![
            Node {
                value: Value::Bool(true),
                place: at(4),
            },
            Node {
                value: Value::Null,
                place: at(5),
            },
        ];
        let members = vec![
            (
                "a".to_owned(),
                Node {
                    value: Value::Number("1e3".into()),
                    place: at(2),
                },
            ),
            (
                "b".to_owned(),
                Node {
                    value: Value::List(b),
                    place: at(4),
                },
            ),
        ];
        assert_eq!(
            node,
            Node {
                value: Value::Object(members),
                place: at(1)
            }
        );
    }

    #[test]
    fn a_syntax_error_has_its_line() {
        assert_eq!(read("{\n \"a\": 1\n \"b\": 2 }").unwrap_err().line, 2);
        assert_eq!(read("{\n\n").unwrap_err().line, 1);
        assert!(read("{a: 1}").is_err());
    }

    #[test]
    fn an_empty_file_is_an_empty_object() {
        assert_eq!(read("").unwrap().value, Value::Object(vec![]));
        assert_eq!(read("\u{feff}{}").unwrap().value, Value::Object(vec![]));
    }
}
