//! Finding the id in text that is no JSON, or is too long to keep.
//!
//! A call must fail rather than wait for an answer that came and could not be read. The scanner
//! walks over text piece by piece, counting brackets and skipping strings, and remembers the
//! top-level `id`. It believes nothing else about the text.

use super::Id;

/// Longer ids than this are nobody's.
const LONGEST_TOKEN: usize = 1024;

/// What a [`Scanner`] saw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// The id, if a number or a string stood at the top-level key `id`.
    pub id: Option<Id>,
    /// Whether no top-level `method` was seen: requests have one, replies do not.
    pub response: bool,
}

/// Reads text in pieces and looks for the top-level members that identify a message.
#[derive(Debug, Default)]
pub struct Scanner {
    started: bool,
    /// Not an object: nothing to be found.
    hopeless: bool,
    depth: usize,
    state: State,
    /// The string or bare word being read at depth one, or the key before it.
    token: Vec<u8>,
    key: Key,
    id: Option<Id>,
    method: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum State {
    #[default]
    Between,
    Word,
    String,
    Escape,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum Key {
    #[default]
    Expected,
    Id,
    Other,
}

impl Scanner {
    /// A scanner at the start of a message.
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks at the next piece.
    pub fn feed(&mut self, piece: &[u8]) {
        for &byte in piece {
            if self.hopeless {
                return;
            }
            self.step(byte);
        }
    }

    /// What was found, the text being over.
    pub fn finish(self) -> Found {
        // A word that ends with the text may be cut off: `"id":12` of `"id":123`.
        Found {
            id: self.id,
            response: self.started && !self.hopeless && !self.method,
        }
    }

    fn step(&mut self, byte: u8) {
        match self.state {
            State::Escape => {
                self.keep(byte);
                self.state = State::String;
            }
            State::String => {
                self.keep(byte);
                match byte {
                    b'\\' => self.state = State::Escape,
                    b'"' => self.end_of_token(),
                    _ => {}
                }
            }
            State::Word if matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'a'..=b'z' | b'A'..=b'Z') =>
            {
                self.keep(byte);
            }
            State::Word => {
                self.end_of_token();
                self.between(byte);
            }
            State::Between => self.between(byte),
        }
    }

    fn between(&mut self, byte: u8) {
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => return,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b',' if self.depth == 1 => self.key = Key::Expected,
            b'"' => {
                self.token.clear();
                self.keep(byte);
                self.state = State::String;
            }
            b',' | b':' => {}
            _ => {
                self.token.clear();
                self.keep(byte);
                self.state = State::Word;
            }
        }
        if !self.started {
            self.started = true;
            self.hopeless = byte != b'{';
        }
    }

    fn keep(&mut self, byte: u8) {
        // One more than the longest, which tells that it was cut.
        if self.depth == 1 && self.token.len() <= LONGEST_TOKEN {
            self.token.push(byte);
        }
    }

    fn end_of_token(&mut self) {
        self.state = State::Between;
        if self.depth != 1 {
            return;
        }
        match self.key {
            Key::Expected => {
                self.method |= self.token == br#""method""#;
                self.key = if self.token == br#""id""# {
                    Key::Id
                } else {
                    Key::Other
                };
            }
            Key::Id => {
                // The start of a number would be another number.
                let whole = Some(&self.token).filter(|token| token.len() <= LONGEST_TOKEN);
                let text = whole.and_then(|token| std::str::from_utf8(token).ok());
                let value: Option<&serde_json::value::RawValue> =
                    text.and_then(|text| serde_json::from_str(text).ok());
                self.id = value.and_then(Id::parse);
                self.key = Key::Other;
            }
            Key::Other => {}
        }
    }
}

/// Looks through one text that is at hand as a whole.
pub fn scan(text: &[u8]) -> Found {
    let mut scanner = Scanner::new();
    scanner.feed(text);
    scanner.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, id: Option<Id>, response: bool) {
        let expected = Found { id, response };
        assert_eq!(scan(text.as_bytes()), expected, "{text}");
        let mut scanner = Scanner::new();
        text.as_bytes()
            .chunks(1)
            .for_each(|piece| scanner.feed(piece));
        assert_eq!(scanner.finish(), expected, "byte by byte: {text}");
    }

    #[test]
    fn ids_are_found_in_broken_text() {
        let seven = || Some(Id::number(7));
        check(
            r#"{"jsonrpc":"2.0","id":7,"result":{"a":NaN}}"#,
            seven(),
            true,
        );
        check(
            r#"{"result":{"a":NaN,"id":8,"x":[{"id":9}]},"jsonrpc":"2.0","id":7}"#,
            seven(),
            true,
        );
        check(r#" {"result":"\"id\":8,\\","id" : 7 }"#, seven(), true);
        check(r#"{"id":7,"result":{"text":"cut o"#, seven(), true);
        check(r#"{"id":"a\"7","error":"#, Some(Id::string("a\"7")), true);
        check(r#"{"id":7,"method":"ping","params":{,}"#, seven(), false);
        check(r#"{"method":"x","params":{"method":1},"id":7"#, None, false);
    }

    #[test]
    fn what_is_no_top_level_id_is_not_taken_for_one() {
        check("", None, false);
        check("Server running on stdio", None, false);
        check(r#"[{"id":7}]"#, None, false);
        check(r#""id":7}"#, None, false);
        check(r#"{"result":{"id":7},"x":"id"}"#, None, true);
        check(r#"{"a":"id","b":7}"#, None, true);
        check(r#"{"id":null,"result":1}"#, None, true);
        check(r#"{"id":{"id":7},"result":1}"#, None, true);
        check(r#"{"id":12"#, None, true);
        check(r#"{"id":7x,"result":1}"#, None, true);
    }
    #[test]
    fn a_long_id_is_found_whole_or_not_at_all() {
        let id = |text: &str| Id::from_text(text);
        let longest = "7".repeat(LONGEST_TOKEN);
        check(
            &format!(r#"{{"id":{longest},"result":1}}"#),
            id(&longest),
            true,
        );
        check(&format!(r#"{{"id":{longest}7,"result":1}}"#), None, true);
        check(&format!(r#"{{"id":"{longest}","result":1}}"#), None, true);
    }
}
