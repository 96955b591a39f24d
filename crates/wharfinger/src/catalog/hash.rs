//! A tool's definition as one text, whatever the order and spacing its server sends it in, and the hash of it (A148).

use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::listing::Tool;
use super::tree::{Node, SIZE, push_string};
use crate::model::hex;

/// What is stored as `mcp_tool_hash`: the stable JSON text of name, description and input schema. Other programs store
/// the text itself, so we do too; only what is too large for a configuration file is stored as its hash.
pub fn tool_hash(tool: &Tool) -> String {
    let text = hashed_text(tool);
    if text.len() > SIZE {
        hash_of(&text)
    } else {
        text
    }
}

/// Whether a stored hash is that of the tool: the text, whatever its spacing and order, or `sha256:` and its hash in
/// hex. How it was stored is never a change.
pub fn hash_matches(stored: &str, tool: &Tool) -> bool {
    let text = hashed_text(tool);
    if stored.len() == "sha256:".len() + 64 && stored.starts_with("sha256:") {
        return stored.eq_ignore_ascii_case(&hash_of(&text));
    }
    stored == text || loose(stored).is_some_and(|stored| Some(stored) == loose(&text))
}

/// The hash of all of a definition, in hex: an approval is for one definition.
pub fn definition_hash(tool: &RawValue) -> String {
    hex(&Sha256::digest(Node::of(tool).to_json()))
}

/// Whether two definitions differ in nothing but spacing and the order of members.
pub fn is_same_definition(one: &RawValue, other: &RawValue) -> bool {
    one.get() == other.get() || Node::of(one) == Node::of(other)
}

fn hashed_text(tool: &Tool) -> String {
    let node = Node::of(&tool.raw);
    let member = |key, default: &str| {
        let value = node.get(key).filter(|value| !value.is("null"));
        value.map_or_else(|| default.to_owned(), Node::to_json)
    };
    let description = member("description", r#""""#);
    let schema = member("inputSchema", "{}");
    let mut text = format!(r#"{{"description":{description},"input_schema":{schema},"name":"#);
    if let Node::Opaque(whole) = node {
        // Its members are not known, so the whole stands for them.
        text.push_str(whole);
    } else {
        push_string(&mut text, tool.name.as_str());
    }
    text.push('}');
    text
}

fn hash_of(text: &str) -> String {
    format!("sha256:{}", hex(&Sha256::digest(text)))
}

/// The same for texts that programs read as the same value.
fn loose(text: &str) -> Option<String> {
    let raw: &RawValue = serde_json::from_str(text).ok()?;
    Some(Node::of(raw).to_loose_json())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::ToolName;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    fn tool(text: &str) -> Tool {
        let raw = raw(text);
        let object = wharfinger_wire::json::Object::from_raw(&raw).unwrap();
        let name = ToolName::new(&object.text("name").unwrap()).unwrap();
        Tool {
            name,
            raw: Arc::from(raw.clone()),
        }
    }

    const READ: &str = r#"{"name":"read","title":"Read","description":"Reads \"a\" file","inputSchema":{"type":"object","required":["b","a"],"properties":{"b":{"maximum":1e400},"a":{"default":1.50}}},"annotations":{"readOnlyHint":true}}"#;
    const TEXT: &str = r#"{"description":"Reads \"a\" file","input_schema":{"properties":{"a":{"default":1.50},"b":{"maximum":1e400}},"required":["b","a"],"type":"object"},"name":"read"}"#;

    #[test]
    fn a148_the_hash_is_over_sorted_json() {
        assert_eq!(tool_hash(&tool(READ)), TEXT);
        let check = |text: &str, expect: &str| assert_eq!(tool_hash(&tool(text)), expect);
        check(
            r#"{"name":"a/b"}"#,
            r#"{"description":"","input_schema":{},"name":"a/b"}"#,
        );
        check(
            r#"{"inputSchema":null,"description":null,"name":"a","name":"b"}"#,
            r#"{"description":"","input_schema":{},"name":"b"}"#,
        );
    }

    #[test]
    fn a148_either_form_is_accepted_and_no_format_is_a_change() {
        let read = tool(READ);
        let hash = hash_of(TEXT);
        let spaced = TEXT.replace(':', " : ").replace("\"Reads", " \"Reads");
        let normal = TEXT.replace("1.50", "1.5").replace("1e400", "null");
        let other_order = r#"{"name":"read","input_schema":{"type":"object","required":["b","a"],"properties":{"a":{"default":1.5},"b":{"maximum":null}}},"description":"Reads \u0022a\u0022 file"}"#;
        for stored in [
            TEXT,
            &hash,
            &hash.to_uppercase().replace("SHA256", "sha256"),
            &spaced,
            &normal,
            other_order,
        ] {
            assert!(hash_matches(stored, &read), "{stored}");
        }
        let no_hash = &hash["sha256:".len()..];
        let other_array = TEXT.replace(r#""b","a""#, r#""a","b""#);
        let other_name = TEXT.replace(r#""read""#, r#""raed""#);
        let other_hash = hash_of("other");
        for stored in [
            "",
            "{}",
            "sha256:",
            "null",
            no_hash,
            &other_hash,
            &other_array,
            &other_name,
            &hash[..70],
            &format!("{hash}0"),
        ] {
            assert!(!hash_matches(stored, &read), "{stored}");
        }
        assert!(
            !hash_matches("x", &tool(r#"{"name":"x"}"#)),
            "no text that is no JSON"
        );
        // A text of the length of a hash is a text.
        let long = tool(&format!(r#"{{"name":"{}"}}"#, "n".repeat(25)));
        let text = tool_hash(&long);
        assert_eq!(text.len(), hash.len());
        assert!(hash_matches(&text, &long));
    }

    #[test]
    fn a148_title_annotations_and_output_are_not_in_it() {
        let more = READ.replace(
            "\"title\":\"Read\"",
            "\"title\":\"Other\",\"outputSchema\":{},\"_meta\":{}",
        );
        assert!(hash_matches(TEXT, &tool(&more)));
    }

    #[test]
    fn a_definition_is_hashed_with_all_that_is_in_it() {
        let hash = |text: &str| definition_hash(&raw(text));
        assert_eq!(hash(r#"{"b":1, "a":2}"#), hash(r#"{"a":2,"b":1}"#));
        assert_eq!(
            hash("{}"),
            "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
        );
        for other in [
            r#"{"a":2,"b":1.0}"#,
            r#"{"a":2,"b":1,"b":1}"#,
            r#"{"a":2}"#,
            r#"{"a":"2","b":1}"#,
        ] {
            assert_ne!(hash(other), hash(r#"{"a":2,"b":1}"#), "{other}");
            assert!(
                !is_same_definition(&raw(other), &raw(r#"{"a":2,"b":1}"#)),
                "{other}"
            );
        }
        assert!(is_same_definition(
            &raw(r#"{"b":1, "a":2}"#),
            &raw(r#"{"a":2,"b":1}"#)
        ));
    }

    #[test]
    fn what_just_fits_is_stored_as_it_is() {
        let around = r#"{"description":"","input_schema":{},"name":"a"}"#.len();
        for (length, is_text) in [(SIZE - around, true), (SIZE - around + 1, false)] {
            let text = format!(r#"{{"name":"a","description":"{}"}}"#, "x".repeat(length));
            assert_eq!(tool_hash(&tool(&text)).starts_with('{'), is_text);
        }
    }

    #[test]
    fn what_is_too_large_is_stored_as_a_hash_and_never_the_same_as_another() {
        let large = |fill: &str| format!(r#"{{"name":"a","description":"{}"}}"#, fill.repeat(SIZE));
        let (one, other) = (tool(&large("x")), tool(&large("y")));
        let stored = tool_hash(&one);
        assert!(
            stored.starts_with("sha256:") && stored.len() == 71,
            "{stored:.80}"
        );
        assert!(hash_matches(&stored, &one) && !hash_matches(&stored, &other));
    }
}
