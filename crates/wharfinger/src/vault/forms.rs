//! The ways in which one secret may be spelt in text and JSON.

use std::collections::BTreeSet;
use std::fmt::Write as _;

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

fn unicode(out: &mut String, c: char) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        write!(out, "\\u{unit:04x}").expect("a string takes everything");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
