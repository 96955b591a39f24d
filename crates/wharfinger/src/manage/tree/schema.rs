//! Types of the fields that are known (A212, A213). What is not known is left alone.

use serde_json::Value;

use crate::manage::Complaint;

/// What a field holds.
#[derive(Clone, Copy)]
enum Type {
    Flag,
    Text,
    Texts,
    /// A whole number above 0.
    Count,
    /// An object whose values are strings.
    TextMap,
    Rows,
    OneOf(&'static [&'static str]),
}

const SERVER: [(&str, Type); 24] = [
    ("name", Type::Text),
    ("transport", Type::OneOf(&["stdio", "http"])),
    ("command", Type::Text),
    ("args", Type::Texts),
    ("url", Type::Text),
    ("headers", Type::TextMap),
    ("header_env", Type::Rows),
    ("bearer_token_env_var", Type::Text),
    ("env", Type::TextMap),
    ("env_keys", Type::Texts),
    ("env_schema", Type::Rows),
    ("npm_package", Type::Text),
    ("pypi_package", Type::Text),
    ("source", Type::Text),
    ("tool_call_timeout_ms", Type::Count),
    ("available_tools", Type::Rows),
    ("restricted", Type::Flag),
    ("host_requested", Type::Flag),
    ("run_location", Type::OneOf(&["host", "shared"])),
    ("credential_files", Type::Rows),
    ("auth", Type::Flag),
    ("auth_args", Type::Texts),
    ("auth_port", Type::Count),
    ("description", Type::Text),
];

const TOOL: [(&str, Type); 7] = [
    ("name", Type::Text),
    ("enabled", Type::Flag),
    ("visible", Type::Flag),
    ("restricted", Type::Flag),
    ("locked", Type::Flag),
    ("mcp_tool_hash", Type::Text),
    (
        "mcp_tool_status",
        Type::OneOf(&["new", "changed", "removed"]),
    ),
];

/// Everything in `tools`, `limits` and `mcp` that is not of its type.
pub fn violations(config: &Value) -> Vec<Complaint> {
    let mut found = vec![];
    rows(&config["tools"], "tools", &TOOL, &mut found);
    let mcp = &config["mcp"];
    if !mcp.is_null() && !mcp.is_object() {
        complain(&mut found, "mcp", "must be an object");
    }
    if !matches!(mcp["new_tools_restricted"], Value::Null | Value::Bool(_)) {
        complain(
            &mut found,
            "mcp.new_tools_restricted",
            "must be true or false",
        );
    }
    rows(&mcp["servers"], "mcp.servers", &SERVER, &mut found);
    match &config["limits"] {
        Value::Null => {}
        Value::Object(limits) => {
            for (key, value) in limits {
                let good = value
                    .as_f64()
                    .is_some_and(|number| number > 0.0 && number.is_finite());
                if !good && !value.is_null() {
                    complain(
                        &mut found,
                        &format!("limits.{key}"),
                        "must be a number above 0",
                    );
                }
            }
        }
        _ => complain(&mut found, "limits", "must be an object"),
    }
    found
}

fn complain(found: &mut Vec<Complaint>, field: &str, text: impl Into<String>) {
    found.push(Complaint {
        field: field.into(),
        text: text.into(),
    });
}

fn rows(list: &Value, at: &str, fields: &[(&str, Type)], found: &mut Vec<Complaint>) {
    let list = match list {
        Value::Null => return,
        Value::Array(list) => list,
        _ => return complain(found, at, "must be a list"),
    };
    let mut names: Vec<&str> = vec![];
    for (i, row) in list.iter().enumerate() {
        let Some(name) = row["name"].as_str().filter(|name| !name.is_empty()) else {
            complain(
                found,
                &format!("{at}[{i}]"),
                "must be an object with a `name`",
            );
            continue;
        };
        let at = format!("{at}.{name}");
        if names.contains(&name) {
            complain(found, &at, "is there twice");
        }
        names.push(name);
        for (field, wanted) in fields {
            let value = &row[*field];
            if !value.is_null()
                && let Some(text) = mismatch(*wanted, value)
            {
                complain(found, &format!("{at}.{field}"), text);
            }
        }
    }
}

fn mismatch(wanted: Type, value: &Value) -> Option<String> {
    let list = value.as_array();
    let (good, text) = match wanted {
        Type::Flag => (value.is_boolean(), "must be true or false"),
        Type::Text => (value.is_string(), "must be a string"),
        Type::Texts => (
            list.is_some_and(|list| list.iter().all(Value::is_string)),
            "must be a list of strings",
        ),
        Type::Count => (
            value.as_u64().is_some_and(|number| number > 0),
            "must be a whole number above 0",
        ),
        Type::TextMap => (
            value
                .as_object()
                .is_some_and(|map| map.values().all(Value::is_string)),
            "must be an object of strings",
        ),
        Type::Rows => (
            list.is_some_and(|list| list.iter().all(Value::is_object)),
            "must be a list of objects",
        ),
        Type::OneOf(names) => {
            let good = value.as_str().is_some_and(|text| names.contains(&text));
            return (!good).then(|| format!("must be one of {}", names.join(", ")));
        }
    };
    (!good).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn p31_every_field_of_the_format_is_fine_and_wrong_types_are_told() {
        let good = json!({
            "tools": [{"name": "a", "enabled": true, "visible": false, "restricted": true, "locked": false,
                       "mcp_tool_hash": "{}", "mcp_tool_status": "new", "unknown": [1]}],
            "limits": {"max_file_write_bytes": 5, "max_daily_budget_usd": 0.5, "max_active_turns": null},
            "mcp": {"new_tools_restricted": true, "servers": [
                {"name": "s", "transport": "stdio", "command": "c", "args": [], "env": {"A": "b"}, "env_keys": ["A"],
                 "env_schema": [{}], "npm_package": "n", "source": "npm:n", "tool_call_timeout_ms": 1,
                 "available_tools": [{}], "restricted": true, "host_requested": false, "run_location": "shared",
                 "credential_files": [{}], "unknown": 1},
                {"name": "h", "transport": "http", "url": "u", "headers": {}, "header_env": [{}],
                 "bearer_token_env_var": "B"},
            ]},
        });
        assert_eq!(violations(&good), []);
        assert_eq!(violations(&json!({})), []);
        let bad = json!({
            "tools": [{"name": "a", "enabled": "yes"}, {"name": "a"}, {}],
            "limits": {"n": 0, "m": "5"},
            "mcp": {"new_tools_restricted": 1, "servers": [
                {"name": "s", "args": "x", "tool_call_timeout_ms": -1, "run_location": "moon", "headers": {"a": 1}},
            ]},
        });
        let texts: Vec<String> = violations(&bad).iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "`tools.a.enabled` must be true or false",
                "`tools.a` is there twice",
                "`tools[2]` must be an object with a `name`",
                "`mcp.new_tools_restricted` must be true or false",
                "`mcp.servers.s.args` must be a list of strings",
                "`mcp.servers.s.headers` must be an object of strings",
                "`mcp.servers.s.tool_call_timeout_ms` must be a whole number above 0",
                "`mcp.servers.s.run_location` must be one of host, shared",
                "`limits.n` must be a number above 0",
                "`limits.m` must be a number above 0",
            ]
        );
    }
}
