//! The tools: which is which, and those that say something while they run.

use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, JsonObject, ProgressNotificationParam,
};
use rmcp::service::RequestContext;
use serde_json::{Value, json};

use crate::dialogue::{Detour, Dialogue, Earlier};
use crate::fixture::{Change, Fixture};
use crate::offer::literal;
use crate::{asking, fixed, jobs};

type Outcome = Result<CallToolResponse, Detour>;

pub(crate) async fn call(
    fixture: &Fixture,
    request: CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Outcome {
    let name = request.name.as_ref();
    let arguments = request.arguments.unwrap_or_default();
    if let Some(result) = fixed::tool(name) {
        return Ok(result.into());
    }
    let earlier = Earlier {
        responses: request.input_responses,
        state: request.request_state,
    };
    let mut dialogue = Dialogue::new(fixture.era(), name, &context, earlier)?;
    if let Some(outcome) = jobs::call(fixture, name, &arguments, &mut dialogue).await {
        return outcome;
    }
    let said = match name {
        "test_tool_with_logging" => {
            for text in [
                "Tool execution started",
                "Tool processing data",
                "Tool execution completed",
            ] {
                fixture.log(&context, text).await;
            }
            "It is in the log.".to_owned()
        }
        "test_logging_tool" => {
            fixture.log(&context, "It was called").await;
            "It is in the log.".to_owned()
        }
        "test_tool_with_progress" => {
            progress(&context).await;
            "It is done.".to_owned()
        }
        "test_trigger_tool_change" => {
            fixture.change(Change::Tools, &context.peer).await;
            "The list of tools is another one now.".to_owned()
        }
        "test_trigger_prompt_change" => {
            fixture.change(Change::Prompts, &context.peer).await;
            "The list of prompts is another one now.".to_owned()
        }
        "test_custom_header" => format!("Looking in {}", word(&arguments, "region")),
        "json_schema_2020_12_tool" => format!("It is {}", Value::Object(arguments)),
        "passing_tool" => "Still here.".to_owned(),
        _ => asking::call(name, &arguments, &mut dialogue).await?,
    };
    Ok(text(&said).into())
}

/// A result of one text.
pub(crate) fn text(said: &str) -> CallToolResult {
    CallToolResult::success(literal(json!([fixed::text(said)])))
}

/// A text argument, empty if there is none.
pub(crate) fn word<'a>(arguments: &'a JsonObject, name: &str) -> &'a str {
    let value = arguments.get(name).and_then(Value::as_str);
    value.unwrap_or_default()
}

async fn progress(context: &RequestContext<RoleServer>) {
    let Some(token) = context.meta.get_progress_token() else {
        return;
    };
    for (progress, message) in [(0.0, "Begun"), (50.0, "Half of it"), (100.0, "All of it")] {
        let notification = ProgressNotificationParam::new(token.clone(), progress)
            .with_total(100.0)
            .with_message(message);
        // Whoever doesn't listen any more has no use for it.
        drop(context.peer.notify_progress(notification).await);
    }
}
