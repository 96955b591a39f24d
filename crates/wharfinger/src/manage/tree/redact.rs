//! A configuration as its agent may read it (A110, A111).

use serde_json::{Map, Value};

use super::MARKER;
use super::secret::{Kind, is_secret_name, scrub, scrub_args};
use crate::manage::package::is_sensitive_header;

/// Shorter values are found in everything, so they are hidden only where they stand.
const SHORTEST: usize = 8;

/// A copy without values of secrets. It has the same shape, so that what is written back can be compared with it.
///
/// Hidden are: values of `env` and `headers`; of fields, pairs and parameters whose name says so; secrets in arguments and
/// addresses; and every value hidden so, wherever else it stands.
pub fn redacted(value: &Value) -> Value {
    let mut found = vec![];
    let mut value = walk(value, &mut found);
    found.retain(|secret| secret.len() >= SHORTEST && secret != MARKER);
    // The longest first: one may be a part of another.
    found.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    found.dedup();
    if !found.is_empty() {
        replace(&mut value, &found);
    }
    value
}

fn walk(value: &Value, found: &mut Vec<String>) -> Value {
    match value {
        Value::Object(members) => {
            let pair = pair(members);
            let members = members.iter().map(|(key, value)| {
                let value = if pair && key == "value" {
                    hide(value, found, true)
                } else {
                    member(key, value, found)
                };
                (key.clone(), value)
            });
            Value::Object(members.collect())
        }
        Value::Array(items) => items.iter().map(|item| walk(item, found)).collect(),
        Value::String(text) => text_of(text, Kind::Free, found).into(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// `{"key": "API_KEY", "value": …}`.
fn pair(members: &Map<String, Value>) -> bool {
    members.contains_key("value")
        && ["key", "name", "header"].iter().any(|name| {
            let name = members.get(*name).and_then(Value::as_str);
            name.is_some_and(|name| is_secret_name(name) || is_sensitive_header(name))
        })
}

fn member(key: &str, value: &Value, found: &mut Vec<String>) -> Value {
    match (key, value) {
        ("env" | "headers" | "environment", Value::Object(_) | Value::Array(_)) => {
            values(value, found)
        }
        ("input_schema" | "inputSchema", _) => schema(value, false, found),
        ("args" | "auth_args" | "authArgs", Value::Array(items)) => args(items, found),
        ("command", Value::String(text)) => text_of(text, Kind::Argument, found).into(),
        ("url" | "uri" | "source" | "endpoint" | "base_url" | "baseUrl", Value::String(text)) => {
            text_of(text, Kind::Address, found).into()
        }
        (key, value) if is_secret_name(key) => {
            let numbers = !key.to_ascii_lowercase().contains("token");
            hide(value, found, numbers)
        }
        (_, value) => walk(value, found),
    }
}

/// The values of `env` and `headers`, of either form: an object, or a list of pairs. Names stay.
fn values(value: &Value, found: &mut Vec<String>) -> Value {
    match value {
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(key, value)| (key.clone(), hide(value, found, true)));
            Value::Object(members.collect())
        }
        Value::Array(items) => {
            let row = |item: &Value, found: &mut Vec<String>| match item {
                Value::Object(members) => {
                    let members = members.iter().map(|(key, value)| {
                        let name = matches!(key.as_str(), "key" | "name" | "header");
                        let value = if name {
                            value.clone()
                        } else {
                            hide(value, found, true)
                        };
                        (key.clone(), value)
                    });
                    Value::Object(members.collect())
                }
                // `NAME=value`
                Value::String(text) => match text.split_once('=') {
                    Some((name, value)) => {
                        found.push(value.to_owned());
                        format!("{name}={MARKER}").into()
                    }
                    None => item.clone(),
                },
                other => hide(other, found, true),
            };
            items.iter().map(|item| row(item, found)).collect()
        }
        other => hide(other, found, true),
    }
}

/// Every text below, and every number where a number may be one. What is empty or yes or no is no secret.
fn hide(value: &Value, found: &mut Vec<String>, numbers: bool) -> Value {
    match value {
        Value::String(text) if text.is_empty() => value.clone(),
        Value::String(text) => {
            found.push(text.clone());
            // `Bearer abc`: the token alone is what may stand elsewhere.
            if let Some((_, token)) = text.split_once(' ') {
                found.push(token.to_owned());
            }
            MARKER.into()
        }
        Value::Number(number) if numbers => {
            found.push(number.to_string());
            MARKER.into()
        }
        Value::Array(items) => items
            .iter()
            .map(|item| hide(item, found, numbers))
            .collect(),
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(key, value)| (key.clone(), hide(value, found, numbers)));
            Value::Object(members.collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn args(items: &[Value], found: &mut Vec<String>) -> Value {
    let texts = items.iter().map(|item| item.as_str().unwrap_or_default());
    let scrubbed = scrub_args(texts);
    items
        .iter()
        .zip(scrubbed)
        .map(|(item, scrubbed)| match item {
            Value::String(text) if scrubbed == MARKER => {
                found.push(text.clone());
                MARKER.into()
            }
            Value::String(text) if text.trim_start().starts_with(['{', '[']) => {
                text_of(text, Kind::Argument, found).into()
            }
            Value::String(_) => scrubbed.into(),
            other => walk(other, found),
        })
        .collect()
}

fn text_of(text: &str, kind: Kind, found: &mut Vec<String>) -> String {
    // Arguments are often JSON.
    if text.trim_start().starts_with(['{', '['])
        && let Ok(inner @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(text)
    {
        let hidden = walk(&inner, found);
        return if hidden == inner {
            text.to_owned()
        } else {
            hidden.to_string()
        };
    }
    scrub(text, kind)
}

/// A schema: names of properties are no fields, but an example of a secret may be one.
fn schema(value: &Value, secret: bool, found: &mut Vec<String>) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter().map(|(key, value)| {
                let value = match (key.as_str(), value) {
                    ("properties" | "$defs" | "definitions", Value::Object(inner)) => {
                        let inner = inner.iter().map(|(name, value)| {
                            (name.clone(), schema(value, is_secret_name(name), found))
                        });
                        Value::Object(inner.collect())
                    }
                    ("default" | "const" | "examples" | "example", value) if secret => {
                        hide(value, found, true)
                    }
                    ("default" | "const" | "examples" | "example", value) => walk(value, found),
                    (_, value) => schema(value, secret, found),
                };
                (key.clone(), value)
            });
            Value::Object(members.collect())
        }
        Value::Array(items) => items
            .iter()
            .map(|item| schema(item, secret, found))
            .collect(),
        Value::String(text) => scrub(text, Kind::Free).into(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// What was hidden in one place is hidden in all.
fn replace(value: &mut Value, found: &[String]) {
    match value {
        Value::String(text) => {
            for secret in found {
                if text.contains(secret.as_str()) {
                    *text = text.replace(secret.as_str(), MARKER);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, found)),
        Value::Object(members) => members.values_mut().for_each(|item| replace(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// `***` stands for the marker.
    fn check(value: &Value, expect: &Value) {
        let expect: Value =
            serde_json::from_str(&expect.to_string().replace("***", MARKER)).unwrap();
        assert_eq!(redacted(value), expect);
    }

    #[test]
    fn a110_values_of_env_and_headers_are_hidden_and_keys_stay() {
        check(
            &json!({"mcp": {"servers": [
                {"name": "a", "env": {"TOKEN": "t", "PORT": "80", "N": 5, "E": ""}, "env_keys": ["TOKEN"]},
                {"name": "b", "headers": {"X-Region": "eu"}, "bearer_token_env_var": "B_TOKEN",
                 "header_env": [{"header": "X-Api-Key", "env": "KEY", "credential_ref": "r"}],
                 "env_schema": [{"key": "API_KEY", "scope": "agent", "required": true}],
                 "credential_files": [{"path": "~/token.json", "required": true}]},
                {"name": "c", "env": [{"key": "A", "value": "v"}, "B=w"], "auth": true},
            ]}}),
            &json!({"mcp": {"servers": [
                {"name": "a", "env": {"TOKEN": "***", "PORT": "***", "N": "***", "E": ""}, "env_keys": ["TOKEN"]},
                {"name": "b", "headers": {"X-Region": "***"}, "bearer_token_env_var": "B_TOKEN",
                 "header_env": [{"header": "X-Api-Key", "env": "KEY", "credential_ref": "r"}],
                 "env_schema": [{"key": "API_KEY", "scope": "agent", "required": true}],
                 "credential_files": [{"path": "~/token.json", "required": true}]},
                {"name": "c", "env": [{"key": "A", "value": "***"}, "B=***"], "auth": true},
            ]}}),
        );
    }

    #[test]
    fn a110_providers_fields_and_params_named_so_are_hidden() {
        check(
            &json!({
                "providers": [{"id": "p", "apiKey": "k", "base_url": "https://x/v1?key=1", "max_tokens": 10}],
                "model": {"provider": "p", "params": [
                    {"key": "api_key", "value": "k"}, {"key": "temperature", "value": 0.5},
                ], "token_budget": 5, "secret_pin": 1234, "client_secret": {"a": ["b"]}, "password": null},
                "limits": {"max_tool_result_tokens": 16000},
            }),
            &json!({
                "providers": [{"id": "p", "apiKey": "***", "base_url": "https://x/v1?key=***", "max_tokens": 10}],
                "model": {"provider": "p", "params": [
                    {"key": "api_key", "value": "***"}, {"key": "temperature", "value": 0.5},
                ], "token_budget": 5, "secret_pin": "***", "client_secret": {"a": ["***"]}, "password": null},
                "limits": {"max_tool_result_tokens": 16000},
            }),
        );
    }

    #[test]
    fn a111_args_urls_and_available_tools_do_not_leak() {
        check(
            &json!({"mcp": {"servers": [{
                "name": "a", "command": "run --token abc", "args": ["--api-key", "abc", "https://u:p@h/", "{\"token\":\"t\",\"n\":1}"],
                "url": "https://h/mcp?key=1", "source": "http:https://h/mcp?key=1",
                "env": {"K": "sekret-12345", "A": "Bearer tok-98765432"},
                "available_tools": [{
                    "name": "t", "description": "with sekret-12345 and tok-98765432",
                    "input_schema": {"type": "object", "properties": {
                        "token": {"type": "string", "description": "A token", "default": "xyz"},
                        "env": {"type": "object"}, "n": {"default": "sekret-12345"},
                    }, "required": ["token"]},
                }],
            }]}, "instructions": "use sekret-12345"}),
            &json!({"mcp": {"servers": [{
                "name": "a", "command": "run --token ***", "args": ["--api-key", "***", "https://u:***@h/", "{\"token\":\"***\",\"n\":1}"],
                "url": "https://h/mcp?key=***", "source": "http:https://h/mcp?key=***",
                "env": {"K": "***", "A": "***"},
                "available_tools": [{
                    "name": "t", "description": "with *** and ***",
                    "input_schema": {"type": "object", "properties": {
                        "token": {"type": "string", "description": "A token", "default": "***"},
                        "env": {"type": "object"}, "n": {"default": "***"},
                    }, "required": ["token"]},
                }],
            }]}, "instructions": "use ***"}),
        );
    }

    #[test]
    fn nothing_secret_is_left_as_it_is() {
        let value = json!({
            "name": "n", "description": "d", "tools": [{"name": "mcp_x_get_token", "enabled": true}],
            "mcp": {"servers": [{"name": "x", "args": ["-y", "@a/b@1.2.3", "--verbose"]}]},
            "locked_fields": ["mcp"], "compute": {"enabled": false},
        });
        assert_eq!(redacted(&value), value);
        assert_eq!(redacted(&redacted(&value)), value);
    }
}
