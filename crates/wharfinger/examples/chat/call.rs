//! One call of a tool: what is heard meanwhile, what the server wants to know first, and the result in words.

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use wharfinger::wire::json::{Raw, raw};
use wharfinger::{CallNote, Refusal, Session, ToolCall};

use crate::question::Question;

/// What a call says before its result.
pub(crate) enum Heard {
    Words(String),
    Question(Question),
}

/// Calls a tool. Servers up to 2025-11-25 ask in the middle of it ([`CallNote::Asked`]); those of 2026-07-28 answer
/// that they need input, and the call is made again with that.
pub(crate) async fn call(
    session: &Session,
    name: &str,
    arguments: Value,
    tell: impl Fn(Heard) + Sync,
) -> Result<Raw, Refusal> {
    // Who calls at once need not wait for servers that the tool is not of.
    if session.known_tools().find(name).is_none() {
        session.tools().await;
    }
    let mut params = json!({"name": name, "arguments": arguments});
    loop {
        let sent = raw(&params);
        let notes = |note| {
            if let Some(heard) = heard(note) {
                tell(heard);
            }
        };
        let result = session.call(ToolCall::new(name, &sent), notes).await?;
        let answer: Value = serde_json::from_str(result.get()).unwrap_or_default();
        if answer["resultType"] != "input_required" {
            return Ok(result);
        }
        let mut responses = Map::new();
        let requests = answer["inputRequests"].as_object();
        for (key, request) in requests.into_iter().flatten() {
            let method = request["method"].as_str().unwrap_or_default();
            let roots = (method == "roots/list").then(|| session.own_roots("tools/call", &sent));
            let response = match roots.flatten() {
                Some(roots) => roots,
                None => ask(method, &request["params"], &tell).await?,
            };
            responses.insert(key.clone(), json!(response));
        }
        params["inputResponses"] = responses.into();
        match answer.get("requestState") {
            Some(state) => params["requestState"] = state.clone(),
            None => drop(
                params
                    .as_object_mut()
                    .and_then(|all| all.shift_remove("requestState")),
            ),
        }
    }
}

async fn ask(method: &str, params: &Value, tell: impl Fn(Heard)) -> Result<Raw, Refusal> {
    let (give, given) = oneshot::channel();
    let give = Box::new(|outcome| drop(give.send(outcome)));
    if let Some(question) = Question::new(method, params, CancellationToken::new(), give) {
        tell(Heard::Question(question));
    }
    let unanswered = |_| Refusal::Unavailable("the call was stopped".to_owned());
    let outcome = given.await.map_err(unanswered)?;
    outcome.map_err(Refusal::Server)
}

fn heard(note: CallNote) -> Option<Heard> {
    Some(match note {
        CallNote::Progress(params) => Heard::Words(progress(&params)),
        CallNote::Notification { method, params } => {
            Heard::Words(notification(&method, params.as_deref().map(RawValue::get)))
        }
        CallNote::Asked(asked) => Heard::Question(Question::asked(asked)?),
    })
}

fn progress(params: &Raw) -> String {
    let params: Value = serde_json::from_str(params.get()).unwrap_or_default();
    let mut text = format!("progress {}", params["progress"]);
    if let Some(total) = params.get("total") {
        text = format!("{text} of {total}");
    }
    match params["message"].as_str() {
        Some(message) => format!("{text}, {message}"),
        None => text,
    }
}

/// A notification in words; log messages are those that are meant for people.
pub(crate) fn notification(method: &str, params: Option<&str>) -> String {
    let params: Value = serde_json::from_str(params.unwrap_or("null")).unwrap_or_default();
    match (method, params["level"].as_str(), &params["data"]) {
        ("notifications/message", Some(level), Value::String(text)) => format!("{level}: {text}"),
        ("notifications/message", Some(level), data) => format!("{level}: {data}"),
        _ => method.to_owned(),
    }
}

/// A result as a person reads it.
pub(crate) fn shown(result: &Raw) -> String {
    let result: Value = serde_json::from_str(result.get()).unwrap_or_default();
    let content = result["content"].as_array().into_iter().flatten();
    let mut lines: Vec<String> = content
        .map(
            |block| match (block["type"].as_str(), block["text"].as_str()) {
                (Some("text"), Some(text)) => text.to_owned(),
                (Some(kind), _) => match block["mimeType"].as_str() {
                    Some(mime) => format!("({kind}, {mime})"),
                    None => format!("({kind})"),
                },
                (None, _) => block.to_string(),
            },
        )
        .collect();
    if lines.is_empty() {
        lines.push(match result.get("structuredContent") {
            Some(structured) => structured.to_string(),
            None => "(nothing)".to_owned(),
        });
    }
    if result["isError"] == true {
        lines.insert(0, "error:".to_owned());
    }
    lines.join("\n")
}
