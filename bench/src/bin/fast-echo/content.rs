//! What tools give, and the list of them.

use std::fmt::Write;

/// `size` characters of text as a JSON string, with a line break every 80.
pub(crate) fn blob(size: usize) -> String {
    let letters = b"abcdefghijklmnopqrstuvwxyz";
    let mut json = String::with_capacity(size + size / 80 + 2);
    json.push('"');
    for at in 0..size {
        match at % 80 {
            79 => json.push_str("\\n"),
            column => json.push(char::from(letters[(at / 80 + column) % 26])),
        }
    }
    json.push('"');
    json
}

/// `size` pseudo-random bytes in Base64.
pub(crate) fn image(size: usize) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_be_bytes()[7]
    };
    let mut data = String::with_capacity(size.div_ceil(3) * 4);
    let mut left = size;
    while left > 0 {
        let length = left.min(3);
        let mut word = [0; 4];
        word[1..=length].fill_with(&mut byte);
        let word = u32::from_be_bytes(word);
        for sextet in 0..4 {
            let index = (word >> (18 - 6 * sextet)) as usize & 63;
            let filled = sextet <= length;
            data.push(if filled {
                char::from(ALPHABET[index])
            } else {
                '='
            });
        }
        left -= length;
    }
    data
}

const TEXT: &str = r#""text":{"type":"string","description":"Text to return"}"#;
const BYTES: &str = r#""bytes":{"type":"integer","minimum":0,"description":"Size of the content"}"#;
const PADDING: &str = r#","limit":{"type":"integer","minimum":1,"maximum":100,"default":20,"description":"How many records to return at most"},"order":{"type":"string","enum":["newest","oldest","relevance"],"description":"How the records are sorted"}"#;

/// The tools as they are listed, without the brackets around them.
pub(crate) fn tool_list(prefix: &str, count: usize) -> String {
    let ms = r#""ms":{"type":"integer","minimum":0,"description":"Milliseconds"}"#;
    let steps = r#""count":{"type":"integer","minimum":0,"description":"How often to tell"}"#;
    let mut list = String::new();
    let mut add = |name: &str, description: &str, properties: &str, required: &str| {
        let comma = if list.is_empty() { "" } else { "," };
        let schema =
            format!(r#"{{"type":"object","properties":{{{properties}}},"required":[{required}]}}"#);
        let tool = format!(
            r#"{comma}{{"name":"{prefix}{name}","description":"{description}","inputSchema":{schema}}}"#
        );
        list.push_str(&tool);
    };
    add("echo", "Return the given text.", TEXT, r#""text""#);
    let description = "Answer after the given time, without holding up other calls.";
    add("sleep", description, ms, r#""ms""#);
    let description = "Return this many characters of text.";
    add("blob", description, BYTES, r#""bytes""#);
    let description = "Return this many bytes as Base64 image content.";
    add("image", description, BYTES, r#""bytes""#);
    add("pid", "Return the server's process id.", "", "");
    let description = "Tell of progress this many times at once, then answer.";
    add("progress", description, steps, r#""count""#);
    let properties = format!("{TEXT}{PADDING}");
    let mut name = String::new();
    for number in 7..=count {
        name.clear();
        write!(name, "tool_{number:04}").expect("a string takes everything");
        let description = format!(
            "Search collection {number} and return the matching records as text; padding for list benchmarks, acts like echo."
        );
        add(&name, &description, &properties, r#""text""#);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_has_its_size() {
        for size in [0, 1, 2, 3, 79, 80, 81, 1000] {
            let text: String = serde_json::from_str(&blob(size)).unwrap();
            assert_eq!(text.len(), size);
            let image = image(size);
            assert_eq!(image.len(), size.div_ceil(3) * 4);
            assert_eq!(image.matches('=').count(), (3 - size % 3) % 3, "{image}");
        }
    }

    #[test]
    fn lists_have_as_many_tools_as_asked_for() {
        for (count, expect) in [(0, 6), (6, 6), (7, 7), (500, 500)] {
            let list = format!("[{}]", tool_list("p_", count));
            let tools: Vec<serde_json::Value> = serde_json::from_str(&list).unwrap();
            assert_eq!(tools.len(), expect);
            assert!(tools[0]["name"] == "p_echo");
        }
    }
}
