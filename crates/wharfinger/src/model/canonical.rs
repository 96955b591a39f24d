//! One text for each JSON value, however it was written: what digests and hashes are made of.
//!
//! After RFC 8785: no white space, members sorted by their keys as UTF-16, strings with the fewest escapes. Unlike
//! there, numbers stay the text they were, since one who rounds `1e400` or a long id would hash something else than
//! what is sent; and a key that is there twice stays there twice, since nobody knows which one its reader takes.

use std::cmp::Ordering;
use std::ops::Range;

use serde_json::value::RawValue;

/// Values deeper than this stay as they were written. Deeper ones are nobody's honest arguments, and sorting each
/// level anew would take longer with each.
const DEEPEST: usize = 128;

/// The canonical text of a value. Takes time in proportion to its length.
///
/// ```
/// use wharfinger::model::canonical;
/// use wharfinger::wire::json::raw_from;
///
/// let value = raw_from(r#"{ "b": [1.0, "\u0041"], "a": null }"#.to_owned())?;
/// assert_eq!(canonical(&value), r#"{"a":null,"b":[1.0,"A"]}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn canonical(value: &RawValue) -> String {
    let text = value.get();
    let mut writer = Writer {
        text,
        at: 0,
        out: String::with_capacity(text.len()),
        members: vec![],
    };
    writer.value(0);
    writer.out
}

/// Reads a text that is known to be JSON from its front to its end, and writes what it finds.
struct Writer<'a> {
    text: &'a str,
    at: usize,
    out: String,
    /// Of the objects being written, those of the innermost last: where the key, without its quotes, and the member
    /// stand in `out`.
    members: Vec<(Range<usize>, Range<usize>)>,
}

impl<'a> Writer<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The next character that is no white space, which is not taken.
    fn next(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.peek() {
            self.at += 1;
        }
        self.peek()
    }

    fn value(&mut self, depth: usize) {
        match self.next() {
            Some(b'{') if depth < DEEPEST => self.object(depth),
            Some(b'[') if depth < DEEPEST => self.array(depth),
            Some(b'{' | b'[') => {
                let nested = self.nested();
                self.out.push_str(nested);
            }
            Some(b'"') => self.string(),
            // A number, or one of the three words.
            Some(_) => {
                let from = self.at;
                while let Some(b'a'..=b'z' | b'0'..=b'9' | b'E' | b'+' | b'-' | b'.') = self.peek()
                {
                    self.at += 1;
                }
                // Where a text that is no JSON got in here after all, it goes no further.
                self.at = self.at.max((from + 1).min(self.text.len()));
                let word = self.text.get(from..self.at).unwrap_or_default();
                self.out.push_str(word);
            }
            None => {}
        }
    }

    fn array(&mut self, depth: usize) {
        self.at += 1;
        self.out.push('[');
        while let Some(next) = self.next() {
            match next {
                b']' => break,
                b',' => {
                    self.at += 1;
                    self.out.push(',');
                }
                _ => self.value(depth + 1),
            }
        }
        self.at += 1;
        self.out.push(']');
    }

    fn object(&mut self, depth: usize) {
        self.at += 1;
        self.out.push('{');
        let (begin, first) = (self.out.len(), self.members.len());
        while let Some(next) = self.next() {
            match next {
                b'}' => break,
                b',' => {
                    self.at += 1;
                }
                _ => {
                    let start = self.out.len();
                    self.string();
                    let key = start + 1..self.out.len() - 1;
                    // The colon.
                    self.next();
                    self.at += 1;
                    self.out.push(':');
                    self.value(depth + 1);
                    self.members.push((key, start..self.out.len()));
                    self.out.push(',');
                }
            }
        }
        self.at += 1;
        let members = &mut self.members[first..];
        let out = &self.out;
        let order = |one: &(Range<usize>, _), other: &(Range<usize>, _)| {
            by_key(&out[one.0.clone()], &out[other.0.clone()])
        };
        if !members.is_sorted_by(|one, other| order(one, other).is_le()) {
            // A stable sort: of keys that are there twice, each stays on its side.
            members.sort_by(order);
            let mut sorted = String::with_capacity(out.len() - begin);
            for (_, member) in members {
                sorted.push_str(&out[member.clone()]);
                sorted.push(',');
            }
            self.out.truncate(begin);
            self.out.push_str(&sorted);
        }
        self.members.truncate(first);
        if self.out.len() > begin {
            // The comma after the last one.
            self.out.pop();
        }
        self.out.push('}');
    }

    /// Skips a string, gives what is between its quotes.
    fn quoted(&mut self) -> &'a str {
        let bytes = self.text.as_bytes();
        let from = (self.at + 1).min(bytes.len());
        let mut at = from;
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'"' => break,
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
        let end = at.min(bytes.len());
        self.at = (end + 1).min(bytes.len());
        self.text.get(from..end).unwrap_or_default()
    }

    fn string(&mut self) {
        let inner = self.quoted();
        self.out.push('"');
        let mut rest = inner;
        while let Some(at) = rest.find('\\') {
            self.out.push_str(&rest[..at]);
            rest = self.escape(&rest[at..]);
        }
        self.out.push_str(rest);
        self.out.push('"');
    }

    /// Writes the escape at the front of a text, gives what is behind it.
    fn escape<'b>(&mut self, text: &'b str) -> &'b str {
        if let Some(unit) = unit(text) {
            // Half of a pair alone is no character; it stays what it is.
            let pair = unit_pair(unit, text);
            let (character, length) = match pair {
                Some(character) => (Some(character), 12),
                None => (char::from_u32(u32::from(unit)), 6),
            };
            match character {
                Some(character) => self.character(character),
                None => self.hex(unit),
            }
            return text.get(length..).unwrap_or_default();
        }
        match text.as_bytes().get(1) {
            Some(b'/') => self.out.push('/'),
            _ => self.out.push_str(text.get(..2).unwrap_or_default()),
        }
        text.get(2..).unwrap_or_default()
    }

    fn character(&mut self, character: char) {
        match character {
            '"' => self.out.push_str("\\\""),
            '\\' => self.out.push_str("\\\\"),
            '\u{8}' => self.out.push_str("\\b"),
            '\t' => self.out.push_str("\\t"),
            '\n' => self.out.push_str("\\n"),
            '\u{c}' => self.out.push_str("\\f"),
            '\r' => self.out.push_str("\\r"),
            control if control < ' ' => {
                self.hex(u16::try_from(u32::from(control)).unwrap_or_default());
            }
            other => self.out.push(other),
        }
    }

    fn hex(&mut self, unit: u16) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        self.out.push_str("\\u");
        for shift in [12, 8, 4, 0] {
            self.out
                .push(char::from(DIGITS[usize::from(unit >> shift) & 15]));
        }
    }

    /// Skips an object or array, gives its text.
    fn nested(&mut self) -> &'a str {
        let from = self.at;
        let mut depth = 0_usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    self.quoted();
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                break;
            }
        }
        self.text.get(from..self.at).unwrap_or_default()
    }
}

/// The UTF-16 unit that a text begins with, if it does with `\uXXXX`.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

/// The character that a unit and the one after it are together.
fn unit_pair(high: u16, text: &str) -> Option<char> {
    if !(0xd800..0xdc00).contains(&high) {
        return None;
    }
    let low = unit(text.get(6..)?)?;
    char::decode_utf16([high, low]).next()?.ok()
}

/// The order of two keys, written without their quotes: that of their UTF-16.
fn by_key(one: &str, other: &str) -> Ordering {
    let plain = |key: &str| key.is_ascii() && !key.contains('\\');
    if plain(one) && plain(other) {
        return one.cmp(other);
    }
    units(one).cmp(&units(other))
}

fn units(mut rest: &str) -> Vec<u16> {
    let mut units = vec![];
    while let Some(next) = rest.chars().next() {
        let mut length = next.len_utf8();
        if next != '\\' {
            units.extend(next.encode_utf16(&mut [0; 2]).iter());
        } else if let Some(one) = unit(rest) {
            units.push(one);
            length = 6;
        } else {
            let escaped = match rest.as_bytes().get(1) {
                Some(b'b') => 8,
                Some(b't') => 9,
                Some(b'n') => 10,
                Some(b'f') => 12,
                Some(b'r') => 13,
                Some(other) => u16::from(*other),
                None => 0,
            };
            units.push(escaped);
            length = 2;
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    units
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: &str, expect: &str) {
        let raw = RawValue::from_string(value.to_owned()).unwrap();
        let got = canonical(&raw);
        assert_eq!(got, expect, "{value:.80}");
        // It is JSON, and canonical itself.
        let again = RawValue::from_string(got).unwrap();
        assert_eq!(canonical(&again), expect, "{value:.80}");
    }

    #[test]
    fn a148_members_are_sorted_and_white_space_is_left_out() {
        check(" { } ", "{}");
        check("[ ]", "[]");
        check("\n[ 1 , {\t\"a\" : [ ] } ]\r", "[1,{\"a\":[]}]");
        check(
            r#"{"b":{"z":1,"y":[{"d":1,"c":2}]},"a":true,"":null}"#,
            r#"{"":null,"a":true,"b":{"y":[{"c":2,"d":1}],"z":1}}"#,
        );
        check(
            r#"{"a b":1,"a":2,"a!":3,"a#":4}"#,
            r#"{"a":2,"a b":1,"a!":3,"a#":4}"#,
        );
    }

    #[test]
    fn numbers_stay_the_text_they_were() {
        check(
            "[1.0, 1e400 ,-0,12345678901234567890123,1E+2]",
            "[1.0,1e400,-0,12345678901234567890123,1E+2]",
        );
        check("-0.5e-3", "-0.5e-3");
        check("true", "true");
    }

    #[test]
    fn strings_have_the_fewest_escapes() {
        check(
            r#""\u0041\/\u00e9\u000a\u001f\u0020\"\\\ud83d\ude00 \u007f""#,
            "\"A/é\\n\\u001f \\\"\\\\😀 \u{7f}\"",
        );
        // Half a pair is no character.
        check(
            r#""\uD83D x \uDE00\ud83d\u0041""#,
            r#""\ud83d x \ude00\ud83dA""#,
        );
        check(r#"{"\u0062":1,"a":2}"#, r#"{"a":2,"b":1}"#);
    }

    #[test]
    fn keys_are_sorted_by_their_utf16() {
        // RFC 8785, 3.2.3.
        check(
            r#"{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}"#,
            "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"ö\":7,\"€\":1,\"😀\":5,\"\u{fb33}\":3}",
        );
    }

    #[test]
    fn keys_are_sorted_by_what_they_say_and_not_by_how_it_is_written() {
        check(r#"{"\"":1,"\n":2}"#, r#"{"\n":2,"\"":1}"#);
    }

    #[test]
    fn a_key_that_is_there_twice_stays_there_twice() {
        check(r#"{"a":1,"A":0,"\u0061":2}"#, r#"{"A":0,"a":1,"a":2}"#);
        check(r#"{"A":0,"a":2,"a":1}"#, r#"{"A":0,"a":2,"a":1}"#);
    }

    #[test]
    fn depth_is_no_danger_and_what_is_deepest_stays_as_it_was() {
        let deep = format!(
            "{}1{}",
            r#"{"b":1, "a":["#.repeat(200_000),
            "]}".repeat(200_000)
        );
        let raw = RawValue::from_string(deep.clone()).unwrap();
        let got = canonical(&raw);
        assert!(got.starts_with(r#"{"a":[{"a":[{"#) && got.ends_with(r#"],"b":1}],"b":1}"#));
        assert!(got.contains(r#"{"b":1, "a":[{"b":1, "a":["#));
        let brackets = format!("{}\"] [[\"{}", "[ ".repeat(130), "] ".repeat(130));
        let expect = format!("{}[ [ \"] [[\"] ]{}", "[".repeat(128), "]".repeat(128));
        check(brackets.trim(), &expect);
        let braces = format!("{}1{}", r#"{ "a":"#.repeat(130), "}".repeat(130));
        let expect = format!(
            "{}{}1{}",
            r#"{"a":"#.repeat(128),
            r#"{ "a":"#.repeat(2),
            "}".repeat(130)
        );
        check(&braces, &expect);
    }

    #[test]
    fn it_takes_time_in_proportion_to_the_length() {
        let members: Vec<String> = (0..100_000)
            .rev()
            .map(|n| format!("\"k{n:06}\":{n}"))
            .collect();
        let raw = RawValue::from_string(format!("{{{}}}", members.join(", "))).unwrap();
        let mut expect: Vec<&str> = members.iter().map(String::as_str).collect();
        expect.sort_unstable();
        assert_eq!(canonical(&raw), format!("{{{}}}", expect.join(",")));
    }
}
