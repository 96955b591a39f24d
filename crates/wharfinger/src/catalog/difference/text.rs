//! Texts of definitions: whether two say the same, and as much of them as fits a line.

use crate::catalog::suspicion::shown;
use crate::catalog::tree::{Node, push_string};
use crate::model::Class;

/// Characters of a text that are shown.
const SHOWN: usize = 300;

/// Whether two texts differ in nothing but spacing, dates and numbers.
pub(super) fn class_of_texts(old: &str, new: &str) -> Class {
    let same = old
        .split_whitespace()
        .map(without_figure)
        .eq(new.split_whitespace().map(without_figure));
    if same {
        Class::Cosmetic
    } else {
        Class::Meaning
    }
}

/// A word with its figure taken out: what stands before it, and behind.
fn without_figure(word: &str) -> (&str, bool, &str) {
    let is_edge = |c: char| c.is_ascii_punctuation();
    let start = word.len() - word.trim_start_matches(is_edge).len();
    let core = word[start..].trim_end_matches(is_edge);
    if is_figure(core) {
        (&word[..start], true, &word[start + core.len()..])
    } else {
        (word, false, "")
    }
}

/// A date, a time, a number or the name of a month. Longer numbers may be accounts or telephones, four parts with dots
/// an address: they are no figures, since it matters which they are.
fn is_figure(word: &str) -> bool {
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let lower = word.to_ascii_lowercase();
    if MONTHS
        .iter()
        .any(|month| *month == lower || month[..3] == lower)
    {
        return true;
    }
    let is_mark = |c: char| matches!(c, '.' | ',' | ':' | '/' | '-' | '+' | 'T' | 'Z');
    let digits = word.chars().filter(char::is_ascii_digit).count();
    let most = if word.contains('T') { 17 } else { 8 };
    (1..=most).contains(&digits)
        && word.chars().all(|c| c.is_ascii_digit() || is_mark(c))
        && word.matches('.').count() <= 2
}

/// JSON for people, cut where it is long.
pub(super) fn excerpt(node: &Node<'_>) -> String {
    cut(&node.to_json(), 0)
}

/// Two texts as JSON, from a little before where they begin to differ.
pub(super) fn around(old: &str, new: &str) -> (String, String) {
    let same = old
        .chars()
        .zip(new.chars())
        .take_while(|(old, new)| old == new)
        .count();
    let longest = old.chars().count().max(new.chars().count());
    let start = if longest <= SHOWN {
        0
    } else {
        same.saturating_sub(40)
    };
    let quoted = |text: &str| {
        let mut json = String::new();
        let part: String = text.chars().skip(start).take(SHOWN + 1).collect();
        push_string(&mut json, &part);
        cut(&json, start)
    };
    (quoted(old), quoted(new))
}

fn cut(json: &str, start: usize) -> String {
    let mut part: String = json.chars().take(SHOWN).collect();
    if part.len() < json.len() {
        part.push('…');
    }
    let before = if start > 0 { "…" } else { "" };
    format!("{before}{}", shown(&part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spacing_dates_and_numbers_are_cosmetic() {
        for (old, new) in [
            ("a  b\n c", "a b c"),
            ("As of 2024-05-01.", "As of 2025-11-30."),
            ("At most 10 files", "At most 1,000 files"),
            ("(5%)", "(7.5%)"),
            ("since May 1, 2024", "since June 12, 2025"),
            ("since 1 Jan", "since 2 Dec"),
            ("2024-05-01T10:30:00Z", "2024-05-01T10:30:00Z "),
            ("2024-05-01T10:30:00Z", "2025-05-01T11:30:00Z"),
            ("version 1.2.3", "version 1.3.0"),
            ("12345678", "87654321"),
            ("2024-05-01T10:30:00.001Z", "2024-05-01T10:30:00.002Z"),
        ] {
            assert_eq!(class_of_texts(old, new), Class::Cosmetic, "{old} {new}");
        }
        for (old, new) in [
            ("a b", "a c"),
            ("a b", "ab"),
            ("a", "a 1"),
            ("Reads", "reads"),
            ("to 123456789", "to 987654321"),
            ("at 10.0.0.1", "at 10.0.0.2"),
            ("http://10/", "http://20/"),
            ("v1", "v2"),
            ("id1", "id2"),
            ("10 files", "$10 files"),
            ("(10", "10)"),
            ("555-1234-56", "555-1234-57"),
            ("2024-05-01T10:30:00.0001Z", "2024-05-01T10:30:00.0002Z"),
            ("T", "1"),
            ("-", "10"),
            ("x", ""),
            ("-a", "+a"),
            ("mayor", "may"),
        ] {
            assert_eq!(class_of_texts(old, new), Class::Meaning, "{old} {new}");
            assert_eq!(class_of_texts(new, old), Class::Meaning, "{old} {new}");
        }
    }

    #[test]
    fn what_is_shown_is_short_and_visible() {
        assert_eq!(
            excerpt(&Node::Text("a\u{202E}b\n".into())),
            "\"a\\u{202E}b\\n\""
        );
        let long = "x".repeat(SHOWN);
        assert_eq!(
            excerpt(&Node::Text(long.as_str().into())),
            format!("\"{}…", &long[1..])
        );
        assert_eq!(
            excerpt(&Node::Text(long[2..].into())),
            format!("\"{}\"", &long[2..])
        );
        assert_eq!(around("a b", "a c"), ("\"a b\"".into(), "\"a c\"".into()));
        let fits = "y".repeat(SHOWN - 2);
        assert_eq!(around(&fits, "").0, format!("\"{fits}\""));
        let (old, new) = around(&format!("{long}{long}b"), &format!("{long}{long}c{long}"));
        assert_eq!(old, format!("…\"{}b\"", "x".repeat(40)));
        assert_eq!(
            new,
            format!("…\"{}c{}…", "x".repeat(40), &long[..SHOWN - 42])
        );
    }
}
