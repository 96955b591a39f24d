//! What is kept of a listing for when its server is away.

use serde_json::{Value, json};
use wharfinger_wire::json::Object;

use super::listing::Tool;

/// What an entry's `available_tools` keeps of a listing (A156): what each tool is, readable without its server (A159). A
/// schema with numbers or depths that a configuration cannot hold is left empty there.
pub fn available_tools(tools: &[Tool]) -> Value {
    let one = |tool: &Tool| {
        let object = Object::from_raw(&tool.raw).unwrap_or_default();
        let schema = object.get("inputSchema");
        let schema = schema.and_then(|schema| serde_json::from_str(schema.get()).ok());
        json!({
            "name": tool.name,
            "description": tool.description(),
            "input_schema": schema.unwrap_or_else(|| json!({})),
        })
    };
    tools.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::value::RawValue;

    use super::*;
    use crate::model::ToolName;

    #[test]
    fn a156_a159_the_last_listing_is_readable_without_its_server() {
        let tools = [
            r#"{"name":"a","title":"A","description":"Does","inputSchema":{"type":"object","properties":{"z":{"maximum":1.5},"a":{}}}}"#,
            r#"{"name":"b"}"#,
            r#"{"name":"c","inputSchema":{"maximum":1e400}}"#,
        ];
        let tools = tools.map(|text| Tool {
            name: ToolName::new(&text[9..10]).unwrap(),
            raw: Arc::from(RawValue::from_string(text.into()).unwrap()),
        });
        assert_eq!(
            available_tools(&tools).to_string(),
            concat!(
                r#"[{"name":"a","description":"Does","input_schema":{"type":"object","properties":{"z":{"maximum":1.5},"a":{}}}},"#,
                r#"{"name":"b","description":"","input_schema":{}},"#,
                r#"{"name":"c","description":"","input_schema":{}}]"#
            )
        );
        assert_eq!(available_tools(&[]), json!([]));
    }
}
