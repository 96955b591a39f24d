//! What the fixture lists. The tables are JSON, as they go over the wire.

use rmcp::model::{Prompt, Resource, ResourceTemplate, ServerCapabilities, Tool};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::era::Era;

/// All tools, but for the one that comes and goes.
pub(crate) fn tools() -> Vec<Tool> {
    table(include_str!("tools.json"))
}

/// All prompts, but for the one that comes and goes.
pub(crate) fn prompts() -> Vec<Prompt> {
    table(include_str!("prompts.json"))
}

pub(crate) fn passing_tool() -> Tool {
    literal(json!({
        "name": "passing_tool",
        "description": "Here until `test_trigger_tool_change` is called again",
        "inputSchema": {"type": "object"},
    }))
}

pub(crate) fn passing_prompt() -> Prompt {
    literal(json!({
        "name": "passing_prompt",
        "description": "Here until `test_trigger_prompt_change` is called again",
    }))
}

pub(crate) fn resources() -> Vec<Resource> {
    literal(json!([
        {
            "uri": "test://static-text",
            "name": "static-text",
            "description": "A text that stays the same",
            "mimeType": "text/plain",
        },
        {
            "uri": "test://static-binary",
            "name": "static-binary",
            "description": "A picture that stays the same",
            "mimeType": "image/png",
        },
        {
            "uri": "test://watched-resource",
            "name": "watched-resource",
            "description": "A text to subscribe to",
            "mimeType": "text/plain",
        },
    ]))
}

pub(crate) fn templates() -> Vec<ResourceTemplate> {
    literal(json!([{
        "uriTemplate": "test://template/{id}/data",
        "name": "template",
        "description": "One resource for each id",
        "mimeType": "application/json",
    }]))
}

pub(crate) fn capabilities(era: Era) -> ServerCapabilities {
    let mut capabilities = json!({
        "completions": {},
        "logging": {},
        "prompts": {"listChanged": true},
        "resources": {"listChanged": true, "subscribe": true},
        "tools": {"listChanged": true},
    });
    if era == Era::Stateless {
        capabilities["extensions"] = json!({"io.modelcontextprotocol/tasks": {}});
    }
    literal(capabilities)
}

fn table<T: DeserializeOwned>(text: &str) -> Vec<T> {
    serde_json::from_str(text).expect("the table is part of the program")
}

/// A value of the protocol, as it is on the wire.
pub(crate) fn literal<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("it is written as the protocol wants it")
}
