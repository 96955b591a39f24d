//! Credentials among the arguments of a tool: they go to the process they are for, and into no record of the call.

use serde_json::Value;
use serde_json::value::RawValue;

use super::tree::MARKER;

/// The arguments without the credentials in them; `None` where there are none.
pub fn without_credentials(tool: &str, arguments: &RawValue) -> Option<Box<RawValue>> {
    if tool != super::Tool::Install.name() {
        return None;
    }
    let mut arguments: Value = serde_json::from_str(arguments.get()).ok()?;
    let mut hidden = false;
    let mut hide = |value: &mut Value| {
        if !value.is_null() {
            *value = MARKER.into();
            hidden = true;
        }
    };
    for map in ["env", "headers"] {
        match arguments.get_mut(map) {
            Some(Value::Object(members)) => members.values_mut().for_each(&mut hide),
            // Whatever it was meant to be.
            Some(other) => hide(other),
            None => {}
        }
    }
    match arguments.get_mut("credential_files") {
        Some(Value::Array(files)) => {
            for file in files {
                match file {
                    Value::Object(file) => file.get_mut("content").into_iter().for_each(&mut hide),
                    other => hide(other),
                }
            }
        }
        Some(other) => hide(other),
        None => {}
    }
    hidden.then(|| wharfinger_wire::json::raw(&arguments))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wharfinger_wire::json::raw;

    use super::*;

    fn check(arguments: &Value, expect: Option<&Value>) {
        let found = without_credentials("mcp_install", &raw(arguments));
        let found = found.map(|raw| serde_json::from_str::<Value>(raw.get()).unwrap());
        assert_eq!(found.as_ref(), expect, "{arguments}");
    }

    #[test]
    fn a83_credentials_are_taken_out_of_what_is_recorded() {
        check(
            &json!({ "package": "p", "env": { "K": "hunter2", "N": 5 }, "headers": { "X": "y" },
                "credential_files": [{ "path": "~/k", "content": "hunter2" }, { "path": "~/l" }] }),
            Some(
                &json!({ "package": "p", "env": { "K": MARKER, "N": MARKER }, "headers": { "X": MARKER },
                    "credential_files": [{ "path": "~/k", "content": MARKER }, { "path": "~/l" }] }),
            ),
        );
        check(&json!({ "package": "p", "env_keys": ["K"] }), None);
        check(&json!({ "env": {}, "credential_files": [] }), None);
    }

    #[test]
    fn arguments_of_a_wrong_shape_hide_nothing_less() {
        check(
            &json!({ "env": "K=hunter2" }),
            Some(&json!({ "env": MARKER })),
        );
        check(
            &json!({ "env": ["K=hunter2"] }),
            Some(&json!({ "env": MARKER })),
        );
        check(
            &json!({ "credential_files": ["hunter2"] }),
            Some(&json!({ "credential_files": [MARKER] })),
        );
        assert!(without_credentials("echo", &raw(&json!({ "env": "x" }))).is_none());
    }
}
