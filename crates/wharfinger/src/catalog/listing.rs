//! The pages of a `tools/list` as tools. One odd tool never blanks a list.

use std::sync::Arc;

use serde_json::value::RawValue;
use wharfinger_wire::json::{self, Object};

use crate::model::ToolName;

/// A tool as its server described it; every member stays, known or not.
#[derive(Clone, Debug)]
pub struct Tool {
    /// As its server names it.
    pub name: ToolName,
    /// The whole object.
    pub raw: Arc<RawValue>,
}

impl Tool {
    /// Its description, as its server wrote it; empty where there is none.
    pub fn description(&self) -> String {
        let object = Object::from_raw(&self.raw).unwrap_or_default();
        let description = object.get("description").and_then(json::string);
        description.unwrap_or_default().into_owned()
    }
}

/// The tools of a server in listing order.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// Those that can be offered.
    pub tools: Vec<Tool>,
    /// What was left out or mended, and why.
    pub warnings: Vec<String>,
}

/// Reads tool objects.
pub fn read<'a>(items: impl IntoIterator<Item = &'a RawValue>) -> Listing {
    let mut listing = Listing::default();
    for (index, item) in items.into_iter().enumerate() {
        let Ok(mut tool) = Object::from_raw(item) else {
            listing.warnings.push(format!(
                "tool {} of the list is left out: not an object",
                index + 1
            ));
            continue;
        };
        let name = tool.text("name").map(|name| ToolName::new(&name));
        let Some(Ok(name)) = name else {
            listing.warnings.push(format!(
                "tool {} of the list is left out: it has no name",
                index + 1
            ));
            continue;
        };
        match schema(&tool) {
            Schema::Object => listing.tools.push(Tool {
                name,
                raw: Arc::from(item.to_owned()),
            }),
            // Arguments are an object whatever the schema says, so these mean the same.
            Schema::Anything => {
                tool.set(
                    "inputSchema",
                    json::raw(&serde_json::json!({"type": "object"})),
                );
                listing.warnings.push(format!(
                    "tool `{name}` has no usable inputSchema; any object is taken"
                ));
                listing.tools.push(Tool {
                    name,
                    raw: Arc::from(tool.to_raw()),
                });
            }
            Schema::Wrong(what) => {
                listing.warnings.push(format!(
                    "tool `{name}` is left out: its inputSchema is {what}"
                ));
            }
        }
    }
    listing
}

enum Schema {
    Object,
    Anything,
    Wrong(String),
}

fn schema(tool: &Object<'_>) -> Schema {
    let Some(schema) = tool.get("inputSchema") else {
        return Schema::Anything;
    };
    match schema.get() {
        "true" | "null" => Schema::Anything,
        "false" => Schema::Wrong("false, which nothing satisfies".into()),
        _ => match Object::from_raw(schema) {
            Err(_) => Schema::Wrong(format!("no schema: {:.40}", schema.get())),
            Ok(object) => match object.get("type").map(RawValue::get) {
                Some("\"object\"") => Schema::Object,
                None if object.is_empty() => Schema::Anything,
                None => Schema::Wrong("without type \"object\"".into()),
                Some(other) => Schema::Wrong(format!("of type {other:.40}")),
            },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(list: &str, expect: &[&str], warnings: usize) {
        let list = RawValue::from_string(list.to_owned()).unwrap();
        let listing = read(json::array(&list).unwrap());
        let raws: Vec<_> = listing.tools.iter().map(|tool| tool.raw.get()).collect();
        assert_eq!(
            (raws.as_slice(), listing.warnings.len()),
            (expect, warnings),
            "{:?}",
            listing.warnings
        );
    }

    #[test]
    fn every_member_of_a_tool_stays_as_it_was() {
        let tool = r#"{"x-odd": 1e400,"name":"a","inputSchema":{"type":"object","$defs":{}},"execution":{"taskSupport":"required"}}"#;
        check(&format!("[{tool}]"), &[tool], 0);
    }

    #[test]
    fn what_is_odd_is_said() {
        let warning = |schema: &str| {
            let list = format!(r#"[{{"name":"a","inputSchema":{schema}}}]"#);
            let list = RawValue::from_string(list).unwrap();
            read(json::array(&list).unwrap()).warnings.remove(0)
        };
        let left_out = "tool `a` is left out: its inputSchema is";
        assert_eq!(
            warning("false"),
            format!("{left_out} false, which nothing satisfies")
        );
        assert_eq!(warning("7"), format!("{left_out} no schema: 7"));
        assert_eq!(
            warning(r#"{"type":"string"}"#),
            format!("{left_out} of type \"string\"")
        );
        assert_eq!(
            warning(r#"{"x":1}"#),
            format!("{left_out} without type \"object\"")
        );
        assert_eq!(
            warning("{}"),
            "tool `a` has no usable inputSchema; any object is taken"
        );
    }

    #[test]
    fn an_odd_tool_is_left_out_or_mended_and_the_rest_stays() {
        let good = r#"{"name":"good","inputSchema":{"type":"object"}}"#;
        check(
            &format!(r#"[7,{{"title":"x"}},{{"name":""}},{good}]"#),
            &[good],
            3,
        );
        for schema in ["true", "null", "{}"] {
            check(
                &format!(r#"[{{"name":"a","inputSchema":{schema},"z":1}},{good}]"#),
                &[
                    r#"{"name":"a","inputSchema":{"type":"object"},"z":1}"#,
                    good,
                ],
                1,
            );
        }
        check(
            r#"[{"name":"a"}]"#,
            &[r#"{"name":"a","inputSchema":{"type":"object"}}"#],
            1,
        );
        for schema in [
            "false",
            "7",
            "[]",
            r#"{"type":"string"}"#,
            r#"{"properties":{}}"#,
        ] {
            check(
                &format!(r#"[{{"name":"a","inputSchema":{schema}}},{good}]"#),
                &[good],
                1,
            );
        }
    }
}
