//! What a text looks like to a person: characters that nobody sees, and characters that look like others.

use std::fmt::Write as _;

/// Whether a character leaves no mark, or changes the order of those around it.
pub(super) fn is_unseen(c: char) -> bool {
    let is_space = matches!(c, '\t' | '\n' | '\r');
    (c.is_control() && !is_space)
        || matches!(
            u32::from(c),
            // Soft hyphen, joiners, fillers, vowel separators.
            0xAD | 0x34F | 0x61C | 0x115F | 0x1160 | 0x17B4 | 0x17B5 | 0x180B..=0x180F
            // Zero width, directions, and their overrides and isolates.
            | 0x200B..=0x200F | 0x202A..=0x202E | 0x2060..=0x206F
            // Blanks that are letters or symbols, variation selectors, byte order mark.
            | 0x2800 | 0x3164 | 0xFE00..=0xFE0F | 0xFEFF | 0xFFA0 | 0xFFF9..=0xFFFB
            // Shorthand and musical controls, tags and more variation selectors.
            | 0x1BCA0..=0x1BCA3 | 0x1D173..=0x1D17A | 0xE0000..=0xE0FFF
        )
}

/// The first unseen character of a text. Where prose is allowed, so is what emoji and scripts need to be drawn.
pub(super) fn unseen(text: &str, prose: bool) -> Option<char> {
    if text.is_ascii() && !text.bytes().any(|byte| byte.is_ascii_control()) {
        return None;
    }
    let mut before = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if is_unseen(c) && !(prose && is_drawn(before, c, rest.peek().copied())) {
            return Some(c);
        }
        before = Some(c);
    }
    None
}

fn is_drawn(before: Option<char>, c: char, after: Option<char>) -> bool {
    let (Some(before), after) = (before.map(u32::from), after.map(u32::from)) else {
        return false;
    };
    match c {
        // One style mark after a symbol, or in a keycap.
        '\u{FE0E}' | '\u{FE0F}' => is_symbol(before) || (after == Some(0x20E3) && before < 0x80),
        '\u{200D}' => {
            let of_emoji = (is_symbol(before) || before == 0xFE0F) && after.is_some_and(is_symbol);
            of_emoji || (is_joining(before) && after.is_some_and(is_joining))
        }
        '\u{200C}' => is_joining(before) && after.is_some_and(is_joining),
        _ => false,
    }
}

fn is_symbol(c: u32) -> bool {
    matches!(c, 0xA9 | 0xAE | 0x203C..=0x3299 | 0x1F000..=0x1FAFF)
}

/// Arabic and the scripts of India, in which letters are joined or kept apart.
fn is_joining(c: u32) -> bool {
    matches!(c, 0x600..=0x6FF | 0x900..=0xDFF)
}

/// The text with everything that is not seen written out, for people to read.
pub(in crate::catalog) fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unseen(c) || c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') {
            write!(out, "\\u{{{:X}}}", u32::from(c)).expect("a string takes everything");
        } else {
            out.push(c);
        }
    }
    out
}

/// The plain letter that a character looks like, in lower case. Those that nobody sees are none.
pub(super) fn plain(c: char) -> Option<char> {
    if c.is_ascii() {
        return (!is_unseen(c)).then_some(c.to_ascii_lowercase());
    }
    if is_unseen(c) {
        return None;
    }
    let code = u32::from(c);
    let letter = |offset: u32| char::from(b'a' + u8::try_from(offset % 26).unwrap_or_default());
    let digit = |offset: u32| char::from(b'0' + u8::try_from(offset % 10).unwrap_or_default());
    Some(match code {
        // Full width.
        0xFF01..=0xFF5E => {
            let ascii = u8::try_from(code - 0xFEE0).unwrap_or_default();
            char::from(ascii).to_ascii_lowercase()
        }
        // In circles.
        0x24B6..=0x24E9 => letter(code - 0x24B6),
        // Bold, italic, script and so on: alphabets of 52 letters, then digits.
        0x1D400..=0x1D6A3 => letter(code - 0x1D400),
        0x1D7CE..=0x1D7FF => digit(code - 0x1D7CE),
        _ => LOOKALIKES
            .iter()
            .find(|(_, like)| like.contains(c))
            .map_or_else(|| c.to_lowercase().next().unwrap_or(c), |(plain, _)| *plain),
    })
}

/// Letters of Latin, Cyrillic, Greek and Armenian that are drawn like plain ones, and marks like `-`.
const LOOKALIKES: &[(char, &str)] = &[
    ('a', "аАαΑɑ"),
    ('b', "вВΒЬь"),
    ('c', "сСϲⅽϹ"),
    ('d', "ԁⅾժ"),
    ('e', "еЕΕёЁҽ"),
    ('g', "ɡց"),
    ('h', "һНΗհ"),
    ('i', "іІιΙıɩⅰїӏ"),
    ('j', "јЈϳ"),
    ('k', "кКκΚ"),
    ('l', "ⅼⅬ"),
    ('m', "мМΜⅿ"),
    ('n', "пηΝո"),
    ('o', "оОοΟσօ"),
    ('p', "рРρΡ"),
    ('q', "ԛգ"),
    ('r', "гⲅ"),
    ('s', "ѕЅ"),
    ('t', "тТτΤ"),
    ('u', "υսս"),
    ('v', "νѵⅴ"),
    ('w', "ԝѡա"),
    ('x', "хХχΧⅹ"),
    ('y', "уУγΥүҮ"),
    ('z', "ᴢΖ"),
    ('-', "‐‑‒–—―−"),
    ('\'', "‘’ʼ"),
];

/// What a name looks like at a glance: the same for names that a person may take for one another. Names of plain letters
/// that only differ in case or in `-` and `_` have the same, too.
pub(super) fn glance(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let chars = name.chars().filter_map(|c| match c {
        // Before case is gone.
        'I' | '|' => Some('l'),
        c => plain(c),
    });
    for c in chars {
        let c = match c {
            '0' => 'o',
            '1' => 'l',
            '-' | '.' | ' ' | '/' => '_',
            c => c,
        };
        match (out.chars().next_back(), c) {
            // `rn` looks like `m`, `vv` like `w`, and doubled letters are easily missed.
            (Some('r'), 'n') => replace_last(&mut out, 'm'),
            (Some('v'), 'v') => replace_last(&mut out, 'w'),
            (Some(last), c) if last == c => {}
            _ => out.push(c),
        }
    }
    out
}

fn replace_last(text: &mut String, c: char) {
    text.pop();
    text.push(c);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_seen_is_found() {
        let rows = [
            ('\u{200B}', true),
            ('\u{200A}', false),
            ('\u{200F}', true),
            ('\u{2010}', false),
            ('\u{202A}', true),
            ('\u{202E}', true),
            ('\u{202F}', false),
            ('\u{2060}', true),
            ('\u{2066}', true),
            ('\u{2069}', true),
            ('\u{206F}', true),
            ('\u{2070}', false),
            ('\u{FEFF}', true),
            ('\u{E0041}', true),
            ('\u{E007F}', true),
            ('\u{E0100}', true),
            ('\u{AD}', true),
            ('\u{1B}', true),
            ('\u{0}', true),
            ('\u{7F}', true),
            ('\u{9B}', true),
            ('\u{2800}', true),
            ('\u{3164}', true),
            ('\u{180B}', true),
            ('\u{FE00}', true),
            ('\n', false),
            ('\t', false),
            ('\r', false),
            (' ', false),
            ('é', false),
            ('日', false),
        ];
        for (c, expect) in rows {
            assert_eq!(is_unseen(c), expect, "{:X}", u32::from(c));
            let text = format!("a{c}b");
            assert_eq!(unseen(&text, false).is_some(), expect, "{text:?}");
            assert_eq!(unseen(&text, true).is_some(), expect, "{text:?}");
            assert_eq!(
                shown(&c.to_string()) == format!("\\u{{{:X}}}", u32::from(c)),
                expect || c.is_control()
            );
        }
        assert_eq!(shown("a\u{202E}b\u{2028}\n"), "a\\u{202E}b\\u{2028}\\u{A}");
    }

    #[test]
    fn what_scripts_and_emoji_need_is_fine_in_prose_and_nowhere_else() {
        for text in [
            "⚠️ careful",
            "✔︎",
            "1️⃣ first",
            "👩‍💻",
            "❤️‍🔥",
            "©️",
            "می‌خواهم",
            "क्‍ष",
        ] {
            assert_eq!(unseen(text, true), None, "{text}");
            assert!(unseen(text, false).is_some(), "{text}");
        }
        for text in [
            "\u{FE0F}",
            "a\u{FE0F}",
            "1\u{FE0F}",
            "⚠\u{FE0F}\u{FE0F}",
            "日\u{FE0F}",
            "é\u{FE0F}\u{20E3}",
            "a\u{200D}b",
            "👩\u{200D}",
            "👩\u{200D}b",
            "b\u{200D}👩",
            "\u{200D}👩",
            "ی\u{200C}b",
            "b\u{200C}ی",
            "👩\u{200C}👩",
            "ی\u{200D}b",
            "ی\u{200C}",
            "क\u{200D}",
            "⚠\u{FE00}",
        ] {
            assert!(unseen(text, true).is_some(), "{text:?}");
        }
        assert_eq!(unseen("", true), None);
    }

    #[test]
    fn letters_that_look_alike_are_one() {
        for (text, expect) in [
            ("Read-File", "read_file"),
            ("reаd_file", "read_file"),
            ("ｒｅａｄ＿ｆｉｌｅ", "read_file"),
            ("𝐫𝐞𝐚𝐝", "read"),
            ("𝓡𝓮𝓪𝓭", "read"),
            ("Ⓡⓔⓐⓓ", "read"),
            ("re\u{200B}ad", "read"),
            ("maiI", "mail"),
            ("ma1l", "mal"),
            ("rnail", "mail"),
            ("vveb", "web"),
            ("seearch", "search"),
            ("g0", "go"),
            ("𝟎", "o"),
            ("list files.now/here", "list_files_now_here"),
            ("Ünï", "ünï"),
        ] {
            assert_eq!(glance(text), expect, "{text}");
        }
        assert_ne!(glance("get_file"), glance("get_files"));
        assert_eq!(plain('\u{200B}'), None);
        assert_eq!(plain('\u{7}'), None);
        assert_eq!(plain('Ж'), Some('ж'));
        assert_eq!(plain('’'), Some('\''));
        assert_eq!(
            (plain('！'), plain('～'), plain('𝟿'), plain('𝚣')),
            (Some('!'), Some('~'), Some('9'), Some('z'))
        );
    }
}
