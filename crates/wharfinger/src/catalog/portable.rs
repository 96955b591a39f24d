//! Schemas rewritten to their equivalent for clients that would drop a whole list because of one of them.

use serde_json::value::RawValue;
use wharfinger_wire::json::{Object, raw_from};

/// Whether a client of that name and version is known to drop a list that holds a boolean property schema.
pub fn needs_portable(client: &str) -> bool {
    let client = client.to_ascii_lowercase();
    ["claude", "gemini", "mcp-test-client"]
        .iter()
        .any(|known| client.contains(known))
}

/// The tool with `true` and `false` as property schemas written as objects: `{}` and `{"not":{}}` mean the same.
/// `None` where there is nothing to rewrite.
pub fn portable(tool: &RawValue) -> Option<Box<RawValue>> {
    // Nearly every tool has no such schema, and that is quickly seen.
    if !["true", "false"]
        .iter()
        .any(|word| tool.get().contains(word))
    {
        return None;
    }
    let mut tool = Object::from_raw(tool).ok()?;
    let rewritten: Vec<_> = ["inputSchema", "outputSchema"]
        .into_iter()
        .filter_map(|member| Some((member, schema(tool.get(member)?)?)))
        .collect();
    if rewritten.is_empty() {
        return None;
    }
    for (member, schema) in rewritten {
        tool.set(member, schema);
    }
    Some(tool.to_raw())
}

fn schema(schema: &RawValue) -> Option<Box<RawValue>> {
    let mut schema = Object::from_raw(schema).ok()?;
    let mut properties = Object::from_raw(schema.get("properties")?)
        .ok()?
        .into_owned();
    let boolean: Vec<(String, &str)> = properties
        .iter()
        .filter_map(|(key, value)| match value.get() {
            "true" => Some((key.to_owned(), "{}")),
            "false" => Some((key.to_owned(), r#"{"not":{}}"#)),
            _ => None,
        })
        .collect();
    if boolean.is_empty() {
        return None;
    }
    for (key, object) in boolean {
        properties.set(key, raw_from(object.to_owned()).ok()?);
    }
    schema.set("properties", properties.to_raw());
    Some(schema.to_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boolean_property_schemas_become_objects_and_nothing_else_changes() {
        let check = |tool: &str, expect: Option<&str>| {
            let raw = RawValue::from_string(tool.to_owned()).unwrap();
            assert_eq!(
                portable(&raw).as_deref().map(RawValue::get),
                expect,
                "{tool}"
            );
        };
        check(
            r#"{"name":"a","inputSchema":{"type":"object","properties":{"v":true,"w":false,"x":{"default":1.50}},"z":true}}"#,
            Some(
                r#"{"name":"a","inputSchema":{"type":"object","properties":{"v":{},"w":{"not":{}},"x":{"default":1.50}},"z":true}}"#,
            ),
        );
        check(
            r#"{"name":"a","inputSchema":{"type":"object","additionalProperties":false}}"#,
            None,
        );
        check(r#"{"name":"a","annotations":{"readOnlyHint":true}}"#, None);
        check(r#"{"name":"a"}"#, None);
    }

    #[test]
    fn clients_that_need_it_are_known_by_name() {
        assert!(needs_portable("claude-code") && needs_portable("gemini-cli-mcp-client"));
        assert!(!needs_portable("codex-mcp-client"));
    }
}
