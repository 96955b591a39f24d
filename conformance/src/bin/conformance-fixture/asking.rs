//! The tools that ask the client, and what they ask.

use rmcp::model::{ClientCapabilities, ErrorData, JsonObject};
use serde_json::{Value, json};

use crate::dialogue::{Detour, Dialogue};
use crate::fixed;
use crate::tools::word;

/// What such a tool says in the end.
pub(crate) async fn call(
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
            let questions = all_that_can_be_answered(dialogue.capabilities());
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

fn all_that_can_be_answered(capabilities: &ClientCapabilities) -> Value {
    let mut questions = json!({});
    if capabilities.elicitation.is_some() {
        questions["user_name"] = user_name();
    }
    if capabilities.sampling.is_some() {
        questions["greeting"] = model("Generate a greeting", 50);
    }
    if capabilities.roots.is_some() {
        questions["client_roots"] = roots();
    }
    questions
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
