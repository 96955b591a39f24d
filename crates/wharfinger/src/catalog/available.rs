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
