//! The ways in which one secret may be spelt in text and JSON.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;

/// The secret as JSON encoders write it inside a string: plain, `/` escaped, non-ASCII escaped, `<>&` escaped, each
/// also once more, since servers put JSON into the text of JSON.
pub(super) fn escaped(secret: &str) -> BTreeSet<String> {
    let once: BTreeSet<String> = encoders().iter().map(|encode| encode(secret)).collect();
    let twice = once
        .iter()
        .flat_map(|form| encoders().map(|encode| encode(form)));
    twice.chain(once.clone()).collect()
}

fn encoders() -> [fn(&str) -> String; 5] {
    [
        |text| encode(text, false, false, false),
        |text| encode(text, true, false, false),
        |text| encode(text, false, true, false),
        |text| encode(text, true, true, false),
        |text| encode(text, false, true, true),
    ]
}

fn encode(text: &str, slash: bool, ascii: bool, html: bool) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '/' if slash => out.push_str("\\/"),
            '<' | '>' | '&' if html => unicode(&mut out, c),
            c if c.is_control() && c.is_ascii() => unicode(&mut out, c),
            c if ascii && !c.is_ascii() => unicode(&mut out, c),
            c => out.push(c),
        }
    }
    out
}

/// The secret as base64 of either alphabet, also in the middle of something longer (`user:secret`), and as addresses
/// spell it. What of the first and last letters belongs to its neighbours is left out.
pub(super) fn encoded(secret: &str) -> BTreeSet<String> {
    let mut forms = BTreeSet::new();
    for (before, from) in [(0, 0), (1, 2), (2, 3)] {
        let bytes = [&vec![0; before], secret.as_bytes()].concat();
        let whole = BASE64.encode(&bytes);
        let inner = &whole[from..bytes.len() * 8 / 6];
        forms.insert(inner.replace('+', "-").replace('/', "_"));
        forms.insert(inner.to_owned());
    }
    for spelling in [
        |byte: u8| format!("%{byte:02X}"),
        |byte: u8| format!("%{byte:02x}"),
        |byte: u8| match byte {
            b' ' => "+".to_owned(),
            byte => format!("%{byte:02X}"),
        },
    ] {
        let letters = secret.bytes().map(|byte| match byte {
            b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
            byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
            byte => spelling(byte),
        });
        forms.insert(letters.collect());
    }
    forms
}

fn unicode(out: &mut String, c: char) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        write!(out, "\\u{unit:04x}").expect("a string takes everything");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_known_wherever_it_begins() {
        for secret in ["hunter2-hunter2", "s3cr3t>>?/ok", "päßwörter"] {
            let forms = encoded(secret);
            for before in ["", "u", "us", "user:", "x-token:"] {
                for after in ["", "!", "!!", "!!!"] {
                    let text = format!("{before}{secret}{after}");
                    let standard = BASE64.encode(&text);
                    let for_urls = standard.replace('+', "-").replace('/', "_");
                    for whole in [standard, for_urls] {
                        let is_known = forms.iter().any(|form| whole.contains(form));
                        assert!(is_known, "{text}: {whole} in {forms:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn addresses_spell_it_with_percent_signs() {
        let forms = encoded("a b/c+d=é");
        for form in [
            "a%20b%2Fc%2Bd%3D%C3%A9",
            "a%20b%2fc%2bd%3d%c3%a9",
            "a+b%2Fc%2Bd%3D%C3%A9",
        ] {
            assert!(forms.contains(form), "{form} in {forms:?}");
        }
        assert!(encoded("plain-secret").contains("plain-secret"));
    }

    #[test]
    fn each_encoders_spelling_is_known() {
        let forms = escaped("a\"b/é<\n");
        for form in [
            "a\\\"b/é<\\n",
            "a\\\"b\\/é<\\n",
            "a\\\"b/\\u00e9<\\n",
            "a\\\"b/\\u00e9\\u003c\\n",
            "a\\\\\\\"b/é<\\\\n",
        ] {
            assert!(forms.contains(form), "{form} in {forms:?}");
        }
        assert!(escaped("bell\u{7}x").contains("bell\\u0007x"));
        assert_eq!(escaped("plain-secret").len(), 1);
        assert!(escaped("emoji😀x").contains("emoji\\ud83d\\ude00x"));
    }
}
