//! JSON as a tree that loses nothing: numbers stay the text they were, and members are sorted, so two trees are equal
//! where two texts mean the same.
//!
//! Bounded, since servers send what they like: what is nested too deeply, or is too large, stays one opaque text.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::value::RawValue;

/// Levels that are looked into. Deeper, no schema was ever meant for people or models.
pub(super) const DEPTH: usize = 64;

/// Bytes of a text that is looked into.
pub(super) const SIZE: usize = 1 << 20;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node<'a> {
    /// Sorted by key. Repeated keys stay in their order; the last one counts.
    Object(Vec<(Cow<'a, str>, Self)>),
    Array(Vec<Self>),
    Text(Cow<'a, str>),
    /// A number, `true`, `false` or `null`; or a string that is no Unicode.
    Plain(&'a str),
    /// Too deep or too large.
    Opaque(&'a str),
}

impl<'a> Node<'a> {
    pub(super) fn of(raw: &'a RawValue) -> Self {
        Self::within(raw.get(), DEPTH)
    }

    fn within(text: &'a str, depth: usize) -> Self {
        if text.len() > SIZE {
            return Self::Opaque(text);
        }
        Reader { text, at: 0 }.value(depth)
    }

    /// The member that readers see.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        let members = self.members();
        let end = members.partition_point(|(name, _)| order(name, key) != Ordering::Greater);
        let (name, value) = members.get(end.checked_sub(1)?)?;
        (name == key).then_some(value)
    }

    pub(super) fn members(&self) -> &[(Cow<'a, str>, Self)] {
        match self {
            Self::Object(members) => members,
            _ => &[],
        }
    }

    pub(super) fn items(&self) -> Option<&[Self]> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Self::Plain(text) => text.parse().ok(),
            _ => None,
        }
    }

    pub(super) fn is(&self, word: &str) -> bool {
        matches!(self, Self::Plain(text) if *text == word)
    }

    /// The stable text: members sorted, no spaces, escapes as few as possible.
    pub(super) fn to_json(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, false);
        out
    }

    /// As programs read it: of repeated members the last one, and numbers of the same value alike.
    pub(super) fn to_loose_json(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, true);
        out
    }

    fn write(&self, out: &mut String, loose: bool) {
        match self {
            Self::Object(members) => {
                out.push('{');
                let mut first = true;
                for (index, (key, value)) in members.iter().enumerate() {
                    if loose && members.get(index + 1).is_some_and(|(next, _)| next == key) {
                        continue;
                    }
                    if !first {
                        out.push(',');
                    }
                    first = false;
                    push_string(out, key);
                    out.push(':');
                    value.write(out, loose);
                }
                out.push('}');
            }
            Self::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    item.write(out, loose);
                }
                out.push(']');
            }
            Self::Text(text) => push_string(out, text),
            Self::Plain(text) => match self.number() {
                // Programs that read `1e400` as infinity write it as null.
                Some(number) if loose && number.is_infinite() => out.push_str("null"),
                Some(number) if loose => out.push_str(&number_text(number)),
                Some(_) | None => out.push_str(text),
            },
            Self::Opaque(text) => out.push_str(text),
        }
    }
}

/// The same for numbers that are the same.
fn number_text(number: f64) -> String {
    // Zero has no sign for programs that write numbers anew.
    format!("{:?}", number + 0.0)
}

pub(super) fn push_string(out: &mut String, text: &str) {
    out.push_str(&serde_json::to_string(text).expect("a string can be written as JSON"));
}

/// As JavaScript sorts: by UTF-16, which differs from Rust's order only beyond the first 65536 characters.
fn order(one: &str, other: &str) -> Ordering {
    if one.is_ascii() && other.is_ascii() {
        one.cmp(other)
    } else {
        one.encode_utf16().cmp(other.encode_utf16())
    }
}

/// Reads a text that is known to be JSON.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(b'}')
    }

    /// The next byte that is no space.
    fn next(&mut self) -> u8 {
        while matches!(self.peek(), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        self.peek()
    }

    fn value(&mut self, depth: usize) -> Node<'a> {
        match self.next() {
            b'{' | b'[' if depth == 0 => Node::Opaque(self.skip()),
            b'{' => {
                let mut members = vec![];
                self.at += 1;
                while self.next() != b'}' {
                    let key = self.string();
                    self.next();
                    // The colon.
                    self.at += 1;
                    members.push((key.unwrap_or_else(Cow::Borrowed), self.value(depth - 1)));
                    self.comma();
                }
                self.at += 1;
                members.sort_by(|(one, _), (other, _)| order(one, other));
                Node::Object(members)
            }
            b'[' => {
                let mut items = vec![];
                self.at += 1;
                while !matches!(self.next(), b']' | b'}') {
                    items.push(self.value(depth - 1));
                    self.comma();
                }
                self.at += 1;
                Node::Array(items)
            }
            b'"' => self.string().map_or_else(Node::Plain, Node::Text),
            _ => {
                let start = self.at;
                while !matches!(
                    self.peek(),
                    b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r'
                ) {
                    self.at += 1;
                }
                Node::Plain(&self.text[start..self.at])
            }
        }
    }

    fn comma(&mut self) {
        if self.next() == b',' {
            self.at += 1;
        }
    }

    /// A string; its text as it stands, quotes and all, where it is no Unicode.
    fn string(&mut self) -> Result<Cow<'a, str>, &'a str> {
        let quoted = self.quoted();
        if !quoted.contains('\\') {
            return Ok(Cow::Borrowed(quoted.trim_matches('"')));
        }
        serde_json::from_str(quoted)
            .map(Cow::Owned)
            .map_err(|_| quoted)
    }

    fn quoted(&mut self) -> &'a str {
        let start = self.at;
        let bytes = self.text.as_bytes();
        self.at += 1;
        while self.at < bytes.len() && bytes[self.at] != b'"' {
            self.at += if bytes[self.at] == b'\\' { 2 } else { 1 };
        }
        self.at = (self.at + 1).min(bytes.len());
        &self.text[start..self.at]
    }

    /// An object or array with all that is in it, at any depth.
    fn skip(&mut self) -> &'a str {
        let start = self.at;
        let mut open = 0_usize;
        while self.at < self.text.len() {
            match self.peek() {
                b'"' => {
                    self.quoted();
                    continue;
                }
                b'{' | b'[' => open += 1,
                b'}' | b']' => open -= 1,
                _ => {}
            }
            self.at += 1;
            if open == 0 {
                break;
            }
        }
        &self.text[start..self.at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn a148_members_are_sorted_and_all_else_stays() {
        let check = |text: &str, expect: &str| {
            assert_eq!(Node::of(&raw(text)).to_json(), expect, "{text}");
        };
        for same in [
            "1", "-0", "1e400", "1.50", "true", "null", "[]", "{}", r#""""#, "[1,2]",
        ] {
            check(same, same);
        }
        check(
            r#" { "b" : [ 2 , 1 ] , "a" : { "d":1, "c":{} } } "#,
            r#"{"a":{"c":{},"d":1},"b":[2,1]}"#,
        );
        check("[ { } , [ ] ]\n", "[{},[]]");
        check(
            r#"{"n":10000000000000000000000000000000001,"m":1.0}"#,
            r#"{"m":1.0,"n":10000000000000000000000000000000001}"#,
        );
        check(
            r#"{"\u0062":"\u00e9\/\n\u001F","a":"\"}{"}"#,
            r#"{"a":"\"}{","b":"é/\n\u001f"}"#,
        );
        check(r#"{"a":"x\\"}"#, r#"{"a":"x\\"}"#);
        check(r#"{"b":1,"a":2,"b":3}"#, r#"{"a":2,"b":1,"b":3}"#);
        check(
            r#"["\ud800",{"k":"\ud800"}]"#,
            r#"["\ud800",{"k":"\ud800"}]"#,
        );
        check(
            r#"{"B":1,"a":1,"_":1,"Z1":1,"Z":1}"#,
            r#"{"B":1,"Z":1,"Z1":1,"_":1,"a":1}"#,
        );
        check(
            "{\"\u{e000}\":1,\"\u{10000}\":2}",
            "{\"\u{10000}\":2,\"\u{e000}\":1}",
        );
    }

    #[test]
    fn of_repeated_members_the_last_is_seen_and_both_are_kept() {
        let text = raw(r#"{"c":1,"b":1,"a":2,"b":3}"#);
        let node = Node::of(&text);
        assert_eq!(node.get("b"), Some(&Node::Plain("3")));
        assert_eq!(node.get("a"), Some(&Node::Plain("2")));
        assert_eq!(node.get("c"), Some(&Node::Plain("1")));
        for missing in ["", "aa", "d"] {
            assert_eq!(node.get(missing), None, "{missing}");
        }
        assert_eq!(node.to_loose_json(), r#"{"a":2.0,"b":3.0,"c":1.0}"#);
        assert_eq!(Node::Plain("1").get("a"), None);
    }

    #[test]
    fn numbers_of_the_same_value_are_loosely_the_same() {
        let loose = |text: &str| Node::of(&raw(text)).to_loose_json();
        assert_eq!(loose("[1.0,1e2]"), loose("[1,100]"));
        assert_ne!(loose("1"), loose("2"));
        assert_eq!(loose("[1e400,-1e400]"), "[null,null]");
        assert_eq!(loose(r#"["1.0",true]"#), r#"["1.0",true]"#);
    }

    #[test]
    fn what_is_too_deep_or_too_large_stays_one_text() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let text = raw(&nested(DEPTH));
        let whole = Node::of(&text);
        let mut node = &whole;
        for _ in 1..DEPTH {
            node = &node.items().unwrap()[0];
        }
        assert_eq!(node, &Node::Array(vec![]));
        let text = raw(&format!(
            "[{},1]",
            nested(DEPTH).replace("[]", r#"["]",{"a":[]}]"#)
        ));
        let whole = Node::of(&text);
        let mut node = &whole;
        for _ in 0..DEPTH {
            node = &node.items().unwrap()[0];
        }
        assert_eq!(node, &Node::Opaque(r#"["]",{"a":[]}]"#));
        assert_eq!(whole.items().unwrap()[1], Node::Plain("1"));
        assert_eq!(whole.to_json(), text.get());

        let fits = raw(&format!("\"{}\"", "x".repeat(SIZE - 2)));
        assert!(Node::of(&fits).text().is_some());
        let large = raw(&format!("\"{}\"", "x".repeat(SIZE - 1)));
        assert_eq!(Node::of(&large), Node::Opaque(large.get()));
    }

    #[test]
    fn a_million_levels_are_no_danger() {
        let text = raw(&format!(
            "{}{}",
            r#"{"a":["#.repeat(80_000),
            "]}".repeat(80_000)
        ));
        assert_eq!(Node::of(&text).to_json(), text.get());
    }
}
