//! The tools, in the order of the suite: what says something while it runs, and what asks.

use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ErrorData, JsonObject,
    ProgressNotificationParam,
};
use rmcp::service::RequestContext;
use serde_json::{Value, json};

use crate::dialogue::{Detour, Dialogue, Earlier};
use crate::fixture::{Change, Fixture};
use crate::offer::literal;
use crate::{fixed, jobs};

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
        _ => asking(name, &arguments, &mut dialogue).await?,
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

async fn asking(
    name: &str,
    arguments: &JsonObject,
    dialogue: &mut Dialogue,
) -> Result<String, Detour> {
    Ok(match name {
        "test_sampling" => {
            let question = model(word(arguments, "prompt"), 100);
            dialogue.ask(json!({"prompt": question})).await?;
            format!("LLM response: {}", dialogue.answer("prompt", "text"))
        }
        "test_elicitation" => {
            let form = json!({
                "type": "object",
                "properties": {
                    "username": {"type": "string", "description": "User's response"},
                    "email": {"type": "string", "description": "User's email address"},
                },
                "required": ["username", "email"],
            });
            let question = user(word(arguments, "message"), &form);
            dialogue.ask(json!({"user": question})).await?;
            format!("User response: {}", outcome(dialogue, "user"))
        }
        "test_elicitation_sep1034_defaults" => {
            let question = user("Please correct what is wrong", &form_of_defaults());
            dialogue.ask(json!({"user": question})).await?;
            format!("Elicitation completed: {}", outcome(dialogue, "user"))
        }
        "test_elicitation_sep1330_enums" => {
            let question = user("Please choose", &form_of_choices());
            dialogue.ask(json!({"user": question})).await?;
            format!("Elicitation completed: {}", outcome(dialogue, "user"))
        }
        "test_streaming_elicitation" => {
            let question = user("Shall it go on?", &form("ok", "boolean"));
            dialogue.ask(json!({"confirm": question})).await?;
            "It went on.".to_owned()
        }
        "test_missing_capability" => {
            dialogue.ask(json!({"prompt": model("Hello?", 10)})).await?;
            "Somebody is there.".to_owned()
        }
        "test_input_required_result_elicitation" => {
            dialogue.ask(json!({"user_name": user_name()})).await?;
            format!("Hello, {}!", dialogue.answer("user_name", "name"))
        }
        "test_input_required_result_sampling" => {
            let question = model("What is the capital of France?", 100);
            dialogue.ask(json!({"capital_question": question})).await?;
            dialogue.answer("capital_question", "text")
        }
        "test_input_required_result_list_roots" => {
            dialogue.ask(json!({"client_roots": roots()})).await?;
            format!("The folders: {}", dialogue.whole_answer("client_roots"))
        }
        "test_input_required_result_request_state"
        | "test_input_required_result_tampered_state" => {
            let question = user("Please confirm", &form("ok", "boolean"));
            dialogue
                .ask_and_remember(json!({"confirm": question}))
                .await?;
            "state-ok".to_owned()
        }
        "test_input_required_result_multiple_inputs" => {
            let questions = json!({
                "user_name": user_name(),
                "greeting": model("Generate a greeting", 50),
                "client_roots": roots(),
            });
            dialogue.ask_and_remember(questions).await?;
            let name = dialogue.answer("user_name", "name");
            let greeting = dialogue.answer("greeting", "text");
            let roots = dialogue.whole_answer("client_roots");
            format!("{greeting}, {name}! The folders: {roots}")
        }
        "test_input_required_result_multi_round" => {
            let first = user("Step 1: What is your name?", &form("name", "string"));
            dialogue.ask_and_remember(json!({"step1": first})).await?;
            let second = user(
                "Step 2: What is your favorite color?",
                &form("color", "string"),
            );
            dialogue.ask_and_remember(json!({"step2": second})).await?;
            let name = dialogue.answer("step1", "name");
            let color = dialogue.answer("step2", "color");
            format!("{name} likes {color}")
        }
        "test_input_required_result_capabilities" => {
            let mut questions = json!({});
            let capabilities = dialogue.capabilities();
            if capabilities.elicitation.is_some() {
                questions["user_name"] = user_name();
            }
            if capabilities.sampling.is_some() {
                questions["greeting"] = model("Generate a greeting", 50);
            }
            if capabilities.roots.is_some() {
                questions["client_roots"] = roots();
            }
            dialogue.ask(questions).await?;
            "That is all there is to ask.".to_owned()
        }
        _ => {
            let text = format!("there is no tool `{name}`");
            return Err(ErrorData::invalid_params(text, None).into());
        }
    })
}

/// How the user answered a form.
fn outcome(dialogue: &Dialogue, question: &str) -> String {
    let answer = dialogue.whole_answer(question);
    let action = answer["action"].as_str().unwrap_or_default();
    format!("action={action}, content={}", answer["content"])
}

/// A question to the user.
pub(crate) fn user(message: &str, form: &Value) -> Value {
    json!({
        "method": "elicitation/create",
        "params": {"mode": "form", "message": message, "requestedSchema": form},
    })
}

pub(crate) fn user_name() -> Value {
    user("What is your name?", &form("name", "string"))
}

/// A form of one member.
pub(crate) fn form(member: &str, kind: &str) -> Value {
    json!({"type": "object", "properties": {member: {"type": kind}}, "required": [member]})
}

/// A question to the model.
fn model(prompt: &str, limit: u32) -> Value {
    let message = json!({"role": "user", "content": fixed::text(prompt)});
    json!({
        "method": "sampling/createMessage",
        "params": {"messages": [message], "maxTokens": limit},
    })
}

fn roots() -> Value {
    json!({"method": "roots/list", "params": {}})
}

fn form_of_defaults() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {
                "type": "string",
                "enum": ["active", "inactive", "pending"],
                "default": "active",
            },
            "verified": {"type": "boolean", "default": true},
        },
    })
}

fn form_of_choices() -> Value {
    let titled = |word: &str| {
        json!([
            {"const": "value1", "title": format!("First {word}")},
            {"const": "value2", "title": format!("Second {word}")},
            {"const": "value3", "title": format!("Third {word}")},
        ])
    };
    let plain = json!(["option1", "option2", "option3"]);
    json!({
        "type": "object",
        "properties": {
            "untitledSingle": {"type": "string", "enum": plain},
            "titledSingle": {"type": "string", "oneOf": titled("Option")},
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}},
        },
    })
}
