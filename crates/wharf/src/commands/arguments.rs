//! From `KEY=VALUE` words to the arguments of a call, as the tool's schema wants them.

use serde_json::{Map, Value};

/// How deep references and alternatives of a schema are followed.
const DEEPEST: usize = 8;

/// Each value as text where the schema allows a text or says nothing; else as JSON where it is JSON.
pub(super) fn arguments(words: &[(String, String)], schema: &Value) -> Map<String, Value> {
    let typed = |(key, text): &(String, String)| {
        let wanted = takes_text(&schema["properties"][key], schema, 0);
        let value = match wanted {
            Some(false) => serde_json::from_str(text)
                .ok()
                .filter(|value: &Value| !value.is_string()),
            Some(true) | None => None,
        };
        (
            key.clone(),
            value.unwrap_or_else(|| Value::from(text.as_str())),
        )
    };
    words.iter().map(typed).collect()
}

/// Whether a schema takes a text; `None` when it doesn't say.
fn takes_text(schema: &Value, root: &Value, depth: usize) -> Option<bool> {
    if depth > DEEPEST {
        return None;
    }
    let any = |found: Vec<Option<bool>>| {
        let known: Vec<bool> = found.iter().copied().flatten().collect();
        (known.len() == found.len()).then(|| known.contains(&true))
    };
    if let Some(reference) = schema["$ref"].as_str() {
        let target = reference
            .strip_prefix('#')
            .and_then(|pointer| root.pointer(pointer));
        return takes_text(target?, root, depth + 1);
    }
    match &schema["type"] {
        Value::String(name) => return Some(name == "string"),
        Value::Array(names) => return Some(names.iter().any(|name| name == "string")),
        _ => {}
    }
    if let Some(values) = schema["enum"].as_array() {
        return Some(values.iter().any(Value::is_string));
    }
    if let Some(value) = schema.get("const") {
        return Some(value.is_string());
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(choices) = schema[key].as_array() {
            return any(choices
                .iter()
                .map(|choice| takes_text(choice, root, depth + 1))
                .collect());
        }
    }
    let parts = schema["allOf"].as_array()?;
    parts
        .iter()
        .find_map(|part| takes_text(part, root, depth + 1))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(property: &Value, text: &str, expect: &Value) {
        let schema =
            json!({"properties": {"k": property}, "$defs": {"Count": {"type": "integer"}}});
        let made = arguments(&[("k".into(), text.into())], &schema);
        assert_eq!(&made["k"], expect, "{text} for {property}");
    }

    #[test]
    fn a_value_is_what_the_schema_wants() {
        check(&json!({"type": "string"}), "5", &json!("5"));
        check(&json!({"type": "integer"}), "5", &json!(5));
        check(&json!({"type": "integer"}), "five", &json!("five"));
        check(&json!({"type": "boolean"}), "true", &json!(true));
        check(&json!({"type": "array"}), "[1, \"a\"]", &json!([1, "a"]));
        check(
            &json!({"type": "object"}),
            "{\"a\": null}",
            &json!({"a": null}),
        );
        check(&json!({"type": ["integer", "null"]}), "null", &json!(null));
        check(&json!({"type": ["integer", "string"]}), "5", &json!("5"));
        check(&json!({"type": "array"}), "\"a\"", &json!("\"a\""));
        check(&json!({"enum": [1, 2]}), "2", &json!(2));
        check(&json!({"enum": ["1", "2"]}), "2", &json!("2"));
        check(
            &json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}),
            "7",
            &json!(7),
        );
        check(
            &json!({"anyOf": [{"type": "integer"}, {"type": "string"}]}),
            "7",
            &json!("7"),
        );
        check(&json!({"$ref": "#/$defs/Count"}), "7", &json!(7));
        check(&json!({"$ref": "#/$defs/None"}), "7", &json!("7"));
    }

    #[test]
    fn a_schema_that_says_nothing_gets_text() {
        check(&json!({"description": "anything"}), "5", &json!("5"));
        check(&json!(true), "5", &json!("5"));
        assert_eq!(
            arguments(&[("k".into(), "5".into())], &json!(null))["k"],
            json!("5")
        );
    }
}
