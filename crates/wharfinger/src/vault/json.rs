//! Replacing inside JSON without breaking it: only what stands in strings and numbers is touched.
//!
//! A string may spell one value in many ways, so those with escapes are decoded, cleaned, and written anew if anything
//! was found.

use aho_corasick::AhoCorasick;

use super::redact::REDACTED;

/// Replaces every match inside the strings of a JSON text; a number that holds one becomes a string. Text that is not
/// JSON is treated as if it were, which replaces no less.
pub(super) fn redact(text: &[u8], known: &AhoCorasick) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'"' => {
                let end = string_end(text, at + 1);
                string(&text[at..(end + 1).min(text.len())], known, &mut out);
                at = end + 1;
            }
            byte if is_scalar(byte) => {
                let length = text[at..]
                    .iter()
                    .take_while(|byte| is_scalar(**byte))
                    .count();
                let scalar = &text[at..at + length];
                if known.is_match(scalar) {
                    out.extend([b"\"", REDACTED.as_bytes(), b"\""].concat());
                } else {
                    out.extend(scalar);
                }
                at += length;
            }
            byte => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

/// Where the string's closing quote is, or the end of the text.
fn string_end(text: &[u8], mut at: usize) -> usize {
    while at < text.len() && text[at] != b'"' {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    at.min(text.len())
}

fn is_scalar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}

/// A string with its quotes; cut short where the text is.
fn string(text: &[u8], known: &AhoCorasick, out: &mut Vec<u8>) {
    if text.contains(&b'\\')
        && let Ok(decoded) = serde_json::from_slice::<String>(text)
        && known.is_match(&decoded)
    {
        let mut clean = vec![];
        replace(decoded.as_bytes(), known, &mut clean);
        let clean = String::from_utf8_lossy(&clean);
        out.extend(serde_json::to_vec(&clean).unwrap_or_else(|_| b"\"\"".to_vec()));
        return;
    }
    // Its quotes are no part of it, also where a secret has some.
    let inner = text.strip_prefix(b"\"").unwrap_or(text);
    let closed = inner.strip_suffix(b"\"");
    out.push(b'"');
    replace(closed.unwrap_or(inner), known, out);
    out.extend(closed.map(|_| b'"'));
}

fn replace(text: &[u8], known: &AhoCorasick, out: &mut Vec<u8>) {
    let mut from = 0;
    for found in known.find_iter(text) {
        out.extend(&text[from..found.start()]);
        out.extend(REDACTED.as_bytes());
        from = found.end();
    }
    out.extend(&text[from..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_ends_in_the_middle_is_cleaned_as_far_as_it_goes() {
        let known = AhoCorasick::new(["secret-value"]).unwrap();
        let check = |text: &str, expect: &str| {
            assert_eq!(
                String::from_utf8(redact(text.as_bytes(), &known)).unwrap(),
                expect
            );
        };
        check(r#"{"a":"secret-value"#, r#"{"a":"[REDACTED]"#);
        check(r#"["secret-value\"#, r#"["[REDACTED]\"#);
        check(r#"[""#, r#"[""#);
        check("", "");
    }
}
