//! What always answers the same: contents of tools, prompts and resources, and completions.

use rmcp::ErrorData;
use rmcp::model::{CallToolResult, GetPromptResult, JsonObject, ReadResourceResult};
use serde_json::{Value, json};

use crate::offer::literal;

/// One grey pixel.
const PICTURE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mNoAAAAggCB2kUIOwAAAABJRU5ErkJggg==";
/// Two samples of silence.
const SOUND: &str = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQIAAACAgA==";

/// The result of a tool that only has one.
pub(crate) fn tool(name: &str) -> Option<CallToolResult> {
    let content = match name {
        "test_simple_text" => json!([text("This is a simple text response for testing.")]),
        "test_image_content" => json!([picture()]),
        "test_audio_content" => {
            json!([{"type": "audio", "data": SOUND, "mimeType": "audio/wav"}])
        }
        "test_embedded_resource" => json!([resource(
            "test://embedded-resource",
            "text/plain",
            "This is an embedded resource content.",
        )]),
        "test_multiple_content_types" => json!([
            text("Multiple content types test:"),
            picture(),
            resource(
                "test://mixed-content-resource",
                "application/json",
                r#"{"test":"data","value":123}"#,
            ),
        ]),
        "test_reconnection" => json!([text("It was not interrupted.")]),
        "test_error_handling" => {
            let content = json!([text("This tool intentionally returns an error for testing")]);
            return Some(CallToolResult::error(literal(content)));
        }
        _ => return None,
    };
    Some(CallToolResult::success(literal(content)))
}

/// A prompt that asks nothing.
pub(crate) fn prompt(name: &str, arguments: &JsonObject) -> Result<GetPromptResult, ErrorData> {
    let argument = |name: &str| arguments.get(name).and_then(Value::as_str);
    let contents = match name {
        "test_simple_prompt" => vec![text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => vec![text(&format!(
            "Prompt with arguments: arg1='{}', arg2='{}'",
            argument("arg1").unwrap_or_default(),
            argument("arg2").unwrap_or_default(),
        ))],
        "test_prompt_with_embedded_resource" => vec![
            resource(
                argument("resourceUri").unwrap_or("test://static-text"),
                "text/plain",
                "Embedded resource content for testing.",
            ),
            text("Please process the embedded resource above."),
        ],
        "test_prompt_with_image" => vec![picture(), text("Please analyze the image above.")],
        "passing_prompt" => vec![text("Still here.")],
        _ => {
            return Err(ErrorData::invalid_params(
                format!("there is no prompt `{name}`"),
                None,
            ));
        }
    };
    Ok(said_by_user(contents))
}

/// A prompt of these contents.
pub(crate) fn said_by_user(contents: Vec<Value>) -> GetPromptResult {
    let messages: Vec<Value> = contents
        .into_iter()
        .map(|content| json!({"role": "user", "content": content}))
        .collect();
    GetPromptResult::new(literal(messages.into()))
}

pub(crate) fn read(uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let with_id = uri
        .strip_prefix("test://template/")
        .and_then(|rest| rest.strip_suffix("/data"));
    let content = match (uri, with_id) {
        ("test://static-text", _) => json!({
            "uri": uri,
            "mimeType": "text/plain",
            "text": "This is the content of the static text resource.",
        }),
        ("test://static-binary", _) => {
            json!({"uri": uri, "mimeType": "image/png", "blob": PICTURE})
        }
        ("test://watched-resource", _) => {
            json!({"uri": uri, "mimeType": "text/plain", "text": "Nothing happened."})
        }
        (_, Some(id)) => {
            let text =
                json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            json!({"uri": uri, "mimeType": "application/json", "text": text.to_string()})
        }
        _ => {
            return Err(ErrorData::resource_not_found(
                "there is no such resource",
                Some(json!({"uri": uri})),
            ));
        }
    };
    Ok(ReadResourceResult::new(literal(json!([content]))))
}

/// What an argument could become.
pub(crate) fn completions(beginning: &str) -> Vec<String> {
    ["paris", "park", "party", "test"]
        .into_iter()
        .filter(|word| word.starts_with(beginning))
        .map(str::to_owned)
        .collect()
}

pub(crate) fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn picture() -> Value {
    json!({"type": "image", "data": PICTURE, "mimeType": "image/png"})
}

fn resource(uri: &str, kind: &str, text: &str) -> Value {
    json!({"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": text}})
}
