//! Known secret values leave as `[REDACTED]` (V20), over the final bytes.

use std::borrow::Cow;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::value::RawValue;

use super::{forms, json};
use crate::model::Secret;

/// What stands where a secret stood.
pub const REDACTED: &str = "[REDACTED]";

/// Shorter values are not looked for: they are found in everything.
const SHORTEST: usize = 8;

/// Finds the known secrets in text and in JSON. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Redactor(Option<Arc<Known>>);

#[derive(Debug)]
struct Known {
    /// Raw, escaped and encoded forms: for logs, errors, terminals.
    text: AhoCorasick,
    /// Every form in which one may stand in JSON, and the start of an escape by which it may be spelt otherwise.
    suspect: AhoCorasick,
    longest: usize,
}

impl Redactor {
    /// Knows these values; those shorter than 8 bytes are left out. The longest match wins.
    pub fn new(secrets: &[Secret]) -> Self {
        let long = secrets
            .iter()
            .map(Secret::open)
            .filter(|secret| secret.len() >= SHORTEST);
        let secrets: Vec<&String> = long.collect();
        if secrets.is_empty() {
            return Self(None);
        }
        // Lines of a secret of several lines appear one by one in logs.
        let lines = secrets
            .iter()
            .flat_map(|secret| secret.lines())
            .filter(|l| l.len() >= SHORTEST);
        let raw: Vec<&str> = secrets
            .iter()
            .map(|secret| secret.as_str())
            .chain(lines)
            .collect();
        let escaped = raw.iter().flat_map(|secret| forms::escaped(secret));
        let encoded = secrets.iter().flat_map(|secret| forms::encoded(secret));
        let mut text: Vec<String> = escaped
            .chain(encoded)
            .chain(raw.iter().map(|secret| (*secret).to_owned()))
            .collect();
        text.sort();
        text.dedup();
        let suspect: Vec<String> = text.iter().cloned().chain(["\\u".to_owned()]).collect();
        let longest = text.iter().map(String::len).max().unwrap_or(0);
        let build = |patterns: &[String]| {
            AhoCorasick::builder()
                .match_kind(MatchKind::LeftmostLongest)
                .build(patterns)
        };
        match (build(&text), build(&suspect)) {
            (Ok(text), Ok(suspect)) => Self(Some(Arc::new(Known {
                text,
                suspect,
                longest,
            }))),
            // Only patterns of many gigabytes fail to build.
            _ => Self(None),
        }
    }

    /// Text for people: errors, log lines, command lines.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match &self.0 {
            Some(known) if known.text.is_match(text) => {
                let count = known.text.patterns_len();
                Cow::Owned(known.text.replace_all(text, &vec![REDACTED; count]))
            }
            _ => Cow::Borrowed(text),
        }
    }

    /// A JSON value, which stays one. `None`: nothing was found, so it can go on as it is.
    pub fn json(&self, value: &RawValue) -> Option<Box<RawValue>> {
        let known = self.0.as_ref()?;
        let text = value.get().as_bytes();
        // Most values hold no secret, and this scan is all they cost.
        known.suspect.find(text)?;
        let text = json::redact(text, &known.text);
        if text == value.get().as_bytes() {
            return None;
        }
        let text = String::from_utf8(text).ok();
        let replaced = text.and_then(|text| RawValue::from_string(text).ok());
        // Nothing that could not be cleaned may pass.
        Some(replaced.unwrap_or_else(|| {
            serde_json::value::to_raw_value(REDACTED).expect("a string serializes")
        }))
    }

    /// For bytes that come in pieces; a secret cut in two is found.
    pub fn stream(&self) -> Stream {
        Stream {
            redactor: self.clone(),
            held: vec![],
        }
    }
}

/// A text in pieces. Holds back as many bytes as could be the start of a secret.
#[derive(Debug)]
pub struct Stream {
    redactor: Redactor,
    held: Vec<u8>,
}

impl Stream {
    /// Takes the next piece, gives what can be told to be clean.
    pub fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        let Some(known) = self.redactor.0.clone() else {
            return piece.to_vec();
        };
        self.held.extend(piece);
        // A match that starts before this is whole: the longest one would be in view.
        let decided = (self.held.len() + 1).saturating_sub(known.longest);
        let (mut out, mut from) = (vec![], 0);
        for found in known.text.find_iter(&self.held) {
            if found.start() >= decided {
                break;
            }
            out.extend(&self.held[from..found.start()]);
            out.extend(REDACTED.as_bytes());
            from = found.end();
        }
        let clean = decided.max(from);
        out.extend(&self.held[from..clean]);
        self.held.drain(..clean);
        out
    }

    /// The rest, when nothing more comes.
    pub fn finish(self) -> Vec<u8> {
        let text = String::from_utf8_lossy(&self.held);
        self.redactor.text(&text).into_owned().into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redactor(secrets: &[&str]) -> Redactor {
        let secrets: Vec<_> = secrets
            .iter()
            .map(|s| Secret::new((*s).to_owned()))
            .collect();
        Redactor::new(&secrets)
    }

    fn json(secrets: &[&str], value: &str) -> String {
        let raw = RawValue::from_string(value.to_owned()).unwrap();
        redactor(secrets)
            .json(&raw)
            .map_or_else(|| value.to_owned(), |raw| raw.get().to_owned())
    }

    #[test]
    fn v20_values_are_replaced_in_text_longest_first() {
        let check = |secrets: &[&str], text: &str, expect: &str| {
            assert_eq!(redactor(secrets).text(text), expect);
        };
        check(&["sk-12345678"], "key sk-12345678!", "key [REDACTED]!");
        check(
            &["sk-12345678", "sk-12345678-more"],
            "sk-12345678-more",
            "[REDACTED]",
        );
        check(&["short"], "short", "short");
        check(&["12345678"], "12345678", "[REDACTED]");
        check(&[], "anything", "anything");
        check(
            &["line-one\nline-two!"],
            "saw line-two! here",
            "saw [REDACTED] here",
        );
        check(
            &["qu\"ote-secret"],
            r#"{"a":"qu\"ote-secret"}"#,
            r#"{"a":"[REDACTED]"}"#,
        );
    }

    #[test]
    fn v20_json_stays_json() {
        let check = |secrets: &[&str], value: &str, expect: &str| {
            let got = json(secrets, value);
            assert_eq!(got, expect);
            serde_json::from_str::<serde_json::Value>(&got).unwrap();
        };
        check(
            &["\"quoted-secret\""],
            r#"["quoted-secret","\"quoted-secret\"","x"]"#,
            r#"["quoted-secret","[REDACTED]","x"]"#,
        );
        check(
            &["secret-value"],
            r#"{"a":"x secret-value y"}"#,
            r#"{"a":"x [REDACTED] y"}"#,
        );
        check(
            &["secret-value"],
            r#"{"secret-value":1}"#,
            r#"{"[REDACTED]":1}"#,
        );
        check(
            &["12345678"],
            r#"{"n":12345678,"m":1234567}"#,
            r#"{"n":"[REDACTED]","m":1234567}"#,
        );
        check(&["12345678"], r"[-0.12345678e9]", r#"["[REDACTED]"]"#);
        check(
            &["a\"b\\c/dé\n!"],
            r#"{"a":"a\"b\\c/dé\n!"}"#,
            r#"{"a":"[REDACTED]"}"#,
        );
        check(
            &["a\"b\\c/dé\n!"],
            r#"{"a":"a\"b\\c\/d\u00e9\n!"}"#,
            r#"{"a":"[REDACTED]"}"#,
        );
        check(
            &["se\"cret-x"],
            r#"{"t":"{\"k\":\"se\\\"cret-x\"}"}"#,
            r#"{"t":"{\"k\":\"[REDACTED]\"}"}"#,
        );
        check(
            &["\",\"type\":\""],
            r#"{"a":"b","type":"c"}"#,
            r#"{"a":"b","type":"c"}"#,
        );
        check(
            &["\",\"type\":\""],
            r#"{"a":"\",\"type\":\""}"#,
            r#"{"a":"[REDACTED]"}"#,
        );
    }

    #[test]
    fn nothing_found_costs_no_copy() {
        let raw = RawValue::from_string("{\"a\":1}".into()).unwrap();
        assert!(redactor(&["secret-value"]).json(&raw).is_none());
        assert!(matches!(
            redactor(&["secret-value"]).text("abc"),
            Cow::Borrowed("abc")
        ));
    }

    #[test]
    fn a_secret_cut_anywhere_is_found_in_a_stream() {
        let text = "before secret-value after secret-value-long end secret-valu";
        let expect = "before [REDACTED] after [REDACTED] end secret-valu";
        for size in 1..text.len() {
            let mut stream = redactor(&["secret-value", "secret-value-long"]).stream();
            let mut out = vec![];
            for piece in text.as_bytes().chunks(size) {
                out.extend(stream.push(piece));
            }
            out.extend(stream.finish());
            assert_eq!(String::from_utf8(out).unwrap(), expect, "pieces of {size}");
        }
    }

    #[test]
    fn a_stream_holds_back_no_more_than_it_must() {
        let mut stream = redactor(&["secret-value"]).stream();
        let out = stream.push(&[b'x'; 100]);
        // Its longest form is base64, of four letters for three bytes.
        assert_eq!(out.len(), 100 - ("secret-value".len() / 3 * 4 - 1));
        assert_eq!(redactor(&[]).stream().push(b"abc"), b"abc");
    }
}
