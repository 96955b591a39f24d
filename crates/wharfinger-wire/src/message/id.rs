//! The id of a request.

use std::fmt;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::json::{self, Raw};

/// The id of a request: a number or a string, with the text it was written in.
///
/// Two ids are equal when their JSON text is, so `5` and `"5"` are different ids.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Id(Repr);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Repr {
    /// Only what [`fmt::Display`] of the number writes, so that equal text means equal values here.
    Number(u64),
    /// The JSON text of any other number or of a string.
    Text(Arc<str>),
}

impl Id {
    /// A numeric id.
    pub const fn number(number: u64) -> Self {
        Self(Repr::Number(number))
    }

    /// A string id.
    pub fn string(text: &str) -> Self {
        Self(Repr::Text(json::raw(text).get().into()))
    }

    /// Reads an id; anything but a number or a string is none.
    pub fn parse(raw: &RawValue) -> Option<Self> {
        Self::from_text(raw.get())
    }

    /// As [`parse`](Self::parse), from text that is known to be one JSON value.
    pub(super) fn from_text(text: &str) -> Option<Self> {
        match text.as_bytes().first()? {
            b'0'..=b'9' if text == "0" || !text.starts_with('0') => Some(Self(
                text.parse()
                    .map_or_else(|_| Repr::Text(text.into()), Repr::Number),
            )),
            b'"' | b'-' | b'0'..=b'9' => Some(Self(Repr::Text(text.into()))),
            _ => None,
        }
    }

    /// The id as one of the numbers that [`number`](Self::number) makes, whichever way it is
    /// written: `7`, `7.0` and `7e0` are the same number to JSON.
    pub fn as_number(&self) -> Option<u64> {
        match &self.0 {
            Repr::Number(number) => Some(*number),
            Repr::Text(text) => whole(text.parse().ok()?),
        }
    }

    /// The id as raw JSON.
    pub fn to_raw(&self) -> Raw {
        json::raw_from(self.to_string()).expect("an id is a JSON value")
    }

    /// Appends the id's JSON to a buffer.
    pub fn write(&self, out: &mut Vec<u8>) {
        match &self.0 {
            Repr::Number(number) => {
                use std::io::Write as _;
                write!(out, "{number}").expect("writing to memory does not fail");
            }
            Repr::Text(text) => out.extend_from_slice(text.as_bytes()),
        }
    }
}

/// Beyond 2^53 a float no longer names one integer.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be a whole number in range"
)]
fn whole(number: f64) -> Option<u64> {
    let exact = (0.0..9_007_199_254_740_992.0).contains(&number) && number.fract() == 0.0;
    exact.then_some(number as u64)
}

impl fmt::Display for Id {
    /// The JSON text: a string id keeps its quotes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Number(number) => number.fmt(f),
            Repr::Text(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_keep_their_text() {
        fn check(text: &str, number: Option<u64>) {
            let id = Id::parse(&json::raw_from(text.to_owned()).unwrap()).unwrap();
            assert_eq!(id.to_string(), text);
            assert_eq!(id.to_raw().get(), text);
            assert_eq!(id.as_number(), number, "{text}");
        }
        check("0", Some(0));
        check("5", Some(5));
        check("18446744073709551615", Some(u64::MAX));
        check("5.0", Some(5));
        check("5e0", Some(5));
        check("5.5", None);
        check("-1", None);
        check("10000000000000000000000000000000000000000", None);
        check("1e400", None);
        check(r#""5""#, None);
        check(r#""""#, None);
        check(r#""\u00e9""#, None);
    }

    #[test]
    fn other_values_are_no_ids() {
        for text in ["null", "true", "{}", "[1]"] {
            assert_eq!(Id::parse(&json::raw_from(text.to_owned()).unwrap()), None);
        }
    }

    #[test]
    fn a_string_is_not_the_number_it_spells() {
        assert_ne!(Id::string("5"), Id::number(5));
        assert_eq!(Id::string("5"), Id::from_text(r#""5""#).unwrap());
    }
}
