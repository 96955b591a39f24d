//! The lists of tools: ordinary, many, awkward and illegal ones.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::modes::Modes;

/// The tools that do something of their own, see `call.rs`.
pub(crate) const BUILT_IN: [&str; 5] = ["work", "echo", "env", "cwd", "pid"];

/// The list as the modes want it at start.
pub(crate) fn list(modes: &Modes) -> Vec<Value> {
    let mut tools = base(modes);
    if let Some(count) = modes.count("huge-line-tools") {
        tools.extend((0..count).map(|n| described(&format!("t{n}"), &"d".repeat(1000))));
    }
    if let Some(first) = tools.first_mut()
        && let Some(levels) = modes.count("deep")
    {
        first["inputSchema"] = deep_schema(levels);
    }
    if modes.on("dup-tools") {
        tools.extend(tools.clone());
    }
    tools
}

fn base(modes: &Modes) -> Vec<Value> {
    if modes.on("tool") {
        return modes.all("tool").iter().map(|name| plain(name)).collect();
    }
    if let Some(count) = modes.count("tools") {
        return (0..count).map(|n| plain(&format!("tool_{n}"))).collect();
    }
    if modes.on("weird-tools") {
        return weird();
    }
    if modes.on("odd-tool") {
        return odd();
    }
    if let Some(file) = modes.file("schema-by-start") {
        return by_start(count_up(file));
    }
    let mut tools: Vec<Value> = BUILT_IN.into_iter().map(built_in).collect();
    if modes.on("roots") {
        tools.push(plain("roots"));
    }
    tools
}

/// A tool without arguments.
pub(crate) fn plain(name: &str) -> Value {
    described(name, &format!("The tool {name}"))
}

fn described(name: &str, description: &str) -> Value {
    with_schema(name, description, json!({"type": "object"}))
}

fn with_schema(name: &str, description: &str, schema: Value) -> Value {
    let mut tool = json!({"name": name, "description": description});
    tool["inputSchema"] = schema;
    tool
}

fn built_in(name: &str) -> Value {
    let (description, properties) = match name {
        "echo" => (
            "Answers with the message",
            json!({"message": {"type": "string"}}),
        ),
        "env" => ("Answers with the whole environment, as JSON", json!({})),
        "cwd" => ("Answers with the working directory", json!({})),
        "pid" => ("Answers with the process id", json!({})),
        _ => ("Does work", json!({"x": {"type": "string"}})),
    };
    let mut schema = json!({"type": "object"});
    schema["properties"] = properties;
    if name == "echo" {
        schema["required"] = json!(["message"]);
    }
    with_schema(name, description, schema)
}

/// Another definition, and now and then another tool, at each start.
fn by_start(start: usize) -> Vec<Value> {
    let property = if start.is_multiple_of(2) { "x" } else { "y" };
    let kind = if start.is_multiple_of(3) {
        "integer"
    } else {
        "string"
    };
    let schema = json!({"type": "object", "properties": {property: {"type": kind}}});
    let mut tools = vec![with_schema("work", &format!("does work v{start}"), schema)];
    if !start.is_multiple_of(2) {
        tools.push(plain("only_on_odd_starts"));
    }
    tools
}

fn count_up(file: &Path) -> usize {
    let before = fs::read_to_string(file)
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let now = before.unwrap_or(0_usize) + 1;
    if let Err(error) = fs::write(file, now.to_string()) {
        crate::complain(&format!(
            "fake-server: cannot write {}: {error}",
            file.display()
        ));
    }
    now
}

fn deep_schema(levels: usize) -> Value {
    // Moved inwards, not copied: `json!` would copy all of it at each level.
    (0..levels).fold(json!({"type": "string"}), |inner, _| {
        let mut level = json!({"type": "object", "properties": {}});
        level["properties"]["a"] = inner;
        level
    })
}

/// Legal by the protocol, awkward for somebody: each of these has broken a real client.
fn weird() -> Vec<Value> {
    let object = || json!({"type": "object"});
    let (seventy, fifty_eight) = ("n".repeat(70), "x".repeat(58));
    let tools = [
        ("plain", object()),
        ("dot.name", json!({"type": "object", "properties": {}})),
        ("slash/name", object()),
        ("with space", object()),
        ("under__score", object()),
        ("Ünïcode", object()),
        (&seventy, object()),
        (&fifty_eight, object()),
        ("dash-name", object()),
        ("dash_name", object()),
        (
            "ref",
            json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "properties": {"a": {"$ref": "#/$defs/A"}},
                "$defs": {"A": {"type": "object", "properties": {"n": {"type": ["integer", "null"]}}}},
            }),
        ),
        (
            "anyof_root",
            json!({
                "type": "object",
                "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
                "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            }),
        ),
        (
            "notype_prop",
            json!({"type": "object", "properties": {"v": {"description": "anything"}}}),
        ),
        (
            "prefix_items",
            json!({"type": "object", "properties": {"p": {
                "type": "array",
                "prefixItems": [{"type": "string"}, {"type": "number"}],
                "items": false,
            }}}),
        ),
        (
            "bool_schema",
            json!({"type": "object", "properties": {"v": true}}),
        ),
    ];
    tools
        .into_iter()
        .map(|(name, schema)| with_schema(name, &format!("d {name}"), schema))
        .collect()
}

/// Not legal: one of these must not spoil the others.
fn odd() -> Vec<Value> {
    vec![
        plain("good_first"),
        json!({"name": "no_schema", "description": "has no inputSchema"}),
        with_schema("schema_is_true", "its schema is `true`", json!(true)),
        with_schema(
            "bool_property",
            "legal",
            json!({"type": "object", "properties": {"v": true, "w": false}}),
        ),
        json!("a string where a tool should be"),
        json!({"description": "has no name", "inputSchema": {"type": "object"}}),
        plain("good_last"),
    ]
}
