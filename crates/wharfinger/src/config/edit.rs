//! Edits of `settings.json` that keep the comments and the order people wrote.

use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde_json::Value;

use crate::model::{JSON_OF_PEOPLE, ServerName};

/// Why a text could not be edited.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// It must be mended by hand first.
    #[error("settings.json can't be read: {0}")]
    Syntax(String),
    /// `mcpServers`, or the file, is something else than an object.
    #[error("`{0}` in settings.json is not an object")]
    NotAnObject(&'static str),
    /// There is no such server in it.
    #[error("`{0}` is not in settings.json")]
    Unknown(ServerName),
}

/// The text with a server added at the end, or its entry replaced.
pub fn set(text: &str, name: &ServerName, entry: &Value) -> Result<String, EditError> {
    edit(text, |servers| {
        match servers.get(name.as_str()) {
            Some(known) => known.set_value(input(entry)),
            None => {
                servers.append(name.as_str(), input(entry));
            }
        }
        Ok(())
    })
}

/// The text without a server.
pub fn remove(text: &str, name: &ServerName) -> Result<String, EditError> {
    edit(text, |servers| {
        servers
            .get(name.as_str())
            .ok_or_else(|| EditError::Unknown(name.clone()))?
            .remove();
        Ok(())
    })
}

/// The text with a server switched on or off.
pub fn set_enabled(text: &str, name: &ServerName, enabled: bool) -> Result<String, EditError> {
    edit(text, |servers| {
        let known = servers
            .get(name.as_str())
            .and_then(|property| property.object_value());
        let entry = known.ok_or_else(|| EditError::Unknown(name.clone()))?;
        if let Some(foreign) = entry.get("disabled") {
            foreign.remove();
        }
        match (entry.get("enabled"), enabled) {
            (Some(member), true) => member.remove(),
            (Some(member), false) => member.set_value(CstInputValue::Bool(false)),
            (None, true) => {}
            (None, false) => {
                entry.append("enabled", CstInputValue::Bool(false));
            }
        }
        Ok(())
    })
}

/// The text with a server's package in another version.
pub fn set_version(text: &str, name: &ServerName, version: &str) -> Result<String, EditError> {
    edit(text, |servers| {
        let known = servers
            .get(name.as_str())
            .and_then(|property| property.object_value());
        let entry = known.ok_or_else(|| EditError::Unknown(name.clone()))?;
        let version = CstInputValue::String(version.to_owned());
        match entry.get("version") {
            Some(member) => member.set_value(version),
            None => drop(entry.append("version", version)),
        }
        Ok(())
    })
}

/// A text value of an entry, in its `env` or `headers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextMember {
    /// Whose.
    pub server: ServerName,
    /// `env` or `headers`.
    pub section: String,
    /// Its name there.
    pub name: String,
    /// The value that is replaced; another one stays.
    pub before: String,
    /// The value that takes its place.
    pub after: String,
}

/// The text with single values of entries replaced, everything around them as it is.
pub fn replace_texts(text: &str, members: &[TextMember]) -> Result<String, EditError> {
    edit(text, |servers| {
        for member in members {
            let entry = servers
                .get(member.server.as_str())
                .and_then(|property| property.object_value())
                .ok_or_else(|| EditError::Unknown(member.server.clone()))?;
            let section = entry
                .get(&member.section)
                .and_then(|property| property.object_value());
            let property = section.and_then(|section| section.get(&member.name));
            let value = property
                .as_ref()
                .and_then(jsonc_parser::cst::CstObjectProp::value);
            let literal = value.and_then(|value| value.as_string_lit());
            let is_same = literal
                .and_then(|literal| literal.decoded_value().ok())
                .is_some_and(|value| value == member.before);
            if let Some(property) = property.filter(|_| is_same) {
                property.set_value(CstInputValue::String(member.after.clone()));
            }
        }
        Ok(())
    })
}

fn edit(
    text: &str,
    change: impl FnOnce(&CstObject) -> Result<(), EditError>,
) -> Result<String, EditError> {
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    let root = CstRootNode::parse(text, &JSON_OF_PEOPLE)
        .map_err(|error| EditError::Syntax(error.to_string()))?;
    let top = root
        .object_value_or_create()
        .ok_or(EditError::NotAnObject("the file"))?;
    let servers = top
        .object_value_or_create("mcpServers")
        .ok_or(EditError::NotAnObject("mcpServers"))?;
    top.ensure_multiline();
    servers.ensure_multiline();
    change(&servers)?;
    let mut text = root.to_string();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(members) => CstInputValue::Object(
            members
                .iter()
                .map(|(key, value)| (key.clone(), input(value)))
                .collect(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn name(text: &str) -> ServerName {
        ServerName::new(text).unwrap()
    }

    #[test]
    fn an_entry_is_added_to_nothing() {
        let text = set("", &name("time"), &json!({"command": "uvx", "args": ["a"]})).unwrap();
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            read,
            json!({"mcpServers": {"time": {"command": "uvx", "args": ["a"]}}})
        );
        assert!(text.ends_with("}\n") && text.lines().count() > 4, "{text}");
    }

    #[test]
    fn comments_order_and_unknown_members_stay() {
        let before = "{\n  // mine\n  \"theme\": \"dark\",\n  \"mcpServers\": {\n    // clock\n    \"time\": { \"command\": \"uvx\" }, // why\n    \"b\": { \"command\": \"b\" }\n  }\n}\n";
        let after = set(before, &name("c"), &json!({"command": "c"})).unwrap();
        assert!(
            after.starts_with(&before[..before.len() - 9].trim_end()[..60]),
            "{after}"
        );
        for kept in ["// mine", "// clock", "// why", "\"theme\": \"dark\""] {
            assert!(after.contains(kept), "{kept} in {after}");
        }
        let removed = remove(&after, &name("c")).unwrap();
        assert_eq!(removed, before);
        let replaced = set(before, &name("b"), &json!({"command": "new"})).unwrap();
        assert!(replaced.contains("new") && replaced.contains("// clock"));
    }

    #[test]
    fn a_server_is_switched_off_and_on() {
        let before =
            "{\n  \"mcpServers\": {\n    \"a\": {\n      \"command\": \"x\"\n    }\n  }\n}\n";
        let off = set_enabled(before, &name("a"), false).unwrap();
        assert!(off.contains("\"enabled\": false"), "{off}");
        assert_eq!(set_enabled(&off, &name("a"), true).unwrap(), before);
        let foreign = "{\n  \"mcpServers\": {\n    \"a\": {\n      \"command\": \"x\",\n      \"disabled\": true\n    }\n  }\n}\n";
        assert_eq!(set_enabled(foreign, &name("a"), true).unwrap(), before);
    }

    #[test]
    fn single_values_are_replaced_and_everything_around_them_stays() {
        let before = "{\n  \"mcpServers\": {\n    // one\n    \"a\": { \"env\": { \"Z\": \"1\", /* two */ \"K\": \"old\\u0020one\", \"A\": \"2\" } }\n  }\n}\n";
        let member = |server: &str, value: &str| TextMember {
            server: name(server),
            section: "env".into(),
            name: "K".into(),
            before: value.into(),
            after: "${secret:K}".into(),
        };
        let after = replace_texts(before, &[member("a", "old one")]).unwrap();
        assert_eq!(
            after,
            before.replace("\"old\\u0020one\"", "\"${secret:K}\"")
        );
        // It was changed meanwhile.
        assert_eq!(
            replace_texts(before, &[member("a", "older")]).unwrap(),
            before
        );
        assert_eq!(
            replace_texts(before, &[member("b", "old one")]),
            Err(EditError::Unknown(name("b")))
        );
    }

    #[test]
    fn what_can_not_be_edited_says_why() {
        // What can't be read can't be edited either.
        assert!(matches!(
            set("{mcpServers: {}}", &name("a"), &json!({})),
            Err(EditError::Syntax(_))
        ));
        assert_eq!(remove("{}", &name("a")), Err(EditError::Unknown(name("a"))));
        assert_eq!(
            set("{\"mcpServers\": []}", &name("a"), &json!({})),
            Err(EditError::NotAnObject("mcpServers"))
        );
        assert!(matches!(
            set("{", &name("a"), &json!({})),
            Err(EditError::Syntax(_))
        ));
        assert_eq!(
            set("[]", &name("a"), &json!({})),
            Err(EditError::NotAnObject("the file"))
        );
    }
}
