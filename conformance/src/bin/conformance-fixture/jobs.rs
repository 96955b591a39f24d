//! Tools that can become a task, in the stateless era. A client that doesn't know tasks waits for
//! the result, unless the tool is one that only exists as a task.

use std::time::Duration;

use rmcp::model::{
    CallToolResponse, CallToolResult, ClientCapabilities, CreateTaskResult, ErrorData, JsonObject,
};
use rmcp::task_manager::{TaskContext, TaskExit, TaskOptions};
use serde_json::{Value, json};

use crate::asking::{form, user, user_name};
use crate::dialogue::{Detour, Dialogue};
use crate::era::Era;
use crate::fixed;
use crate::fixture::Fixture;
use crate::offer::literal;
use crate::tools::{text, word};

/// The longest that a client waits for a result: the suite asks for a minute, since it cancels the task.
const PATIENCE: Duration = Duration::from_secs(1);

/// The call of such a tool, or nothing if it's another.
pub(crate) async fn call(
    fixture: &Fixture,
    name: &str,
    arguments: &JsonObject,
    dialogue: &mut Dialogue,
) -> Option<Result<CallToolResponse, Detour>> {
    let job = match name {
        "greet" => {
            let greeting = format!("Hello, {}!", word(arguments, "name"));
            return Some(Ok(text(&greeting).into()));
        }
        "slow_compute" => {
            let seconds = arguments.get("seconds").and_then(Value::as_f64);
            Job::Compute(Duration::from_secs_f64(seconds.unwrap_or_default()))
        }
        "failing_job" => Job::Fail,
        "protocol_error_job" => Job::Break,
        "confirm_delete" => Job::Delete(word(arguments, "filename").to_owned()),
        "multi_input" => Job::AskTwice,
        "test_tool_with_task" => match greeted(fixture, dialogue).await {
            Ok(name) => Job::Greet(name),
            Err(detour) => return Some(Err(detour)),
        },
        _ => return None,
    };
    if fixture.era() == Era::Handshake {
        return Some(job.run_at_once(dialogue).await.map(Into::into));
    }
    if dialogue.capabilities().supports_tasks() {
        let task = fixture.tasks().spawn(TaskOptions::new(), |context| {
            Box::pin(async move { job.run(&context).await })
        });
        return Some(Ok(CreateTaskResult::new(task).into()));
    }
    if matches!(job, Job::Fail) {
        return Some(Err(only_as_task().into()));
    }
    Some(job.run_at_once(dialogue).await.map(Into::into))
}

/// The first round of the tool that goes on as a task.
async fn greeted(fixture: &Fixture, dialogue: &mut Dialogue) -> Result<String, Detour> {
    if fixture.era() == Era::Stateless && !dialogue.capabilities().supports_tasks() {
        return Err(only_as_task().into());
    }
    dialogue
        .ask_and_remember(json!({"user_name": user_name()}))
        .await?;
    Ok(dialogue.answer("user_name", "name"))
}

fn only_as_task() -> ErrorData {
    let needed = ClientCapabilities::builder().enable_tasks().build();
    ErrorData::missing_required_client_capability(needed)
}

enum Job {
    Compute(Duration),
    Fail,
    Break,
    Delete(String),
    AskTwice,
    Greet(String),
}

impl Job {
    /// As a task.
    async fn run(self, task: &TaskContext) -> Result<CallToolResult, TaskExit> {
        match self {
            Self::Compute(time) => tokio::select! {
                () = tokio::time::sleep(time) => Ok(computed()),
                () = task.cancelled() => Err(TaskExit::Cancelled),
            },
            Self::Fail => {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(failed())
            }
            Self::Break => Err(broken().into()),
            Self::Delete(file) => {
                let answer = task
                    .request_input("confirm", literal(confirmation(&file)))
                    .await?;
                Ok(deleted(&file, &answer))
            }
            Self::AskTwice => {
                let (first, second) = tokio::try_join!(
                    task.request_input("first", literal(half("first"))),
                    task.request_input("second", literal(half("second"))),
                )?;
                Ok(text(&format!("{first} and {second}")))
            }
            Self::Greet(name) => Ok(text(&format!("Hello, {name}!"))),
        }
    }

    /// While the client waits.
    async fn run_at_once(self, dialogue: &mut Dialogue) -> Result<CallToolResult, Detour> {
        Ok(match self {
            Self::Compute(time) => {
                tokio::time::sleep(time.min(PATIENCE)).await;
                computed()
            }
            Self::Fail => failed(),
            Self::Break => return Err(broken().into()),
            Self::Delete(file) => {
                dialogue
                    .ask(json!({"confirm": confirmation(&file)}))
                    .await?;
                deleted(&file, dialogue.whole_answer("confirm"))
            }
            Self::AskTwice => {
                let questions = json!({"first": half("first"), "second": half("second")});
                dialogue.ask(questions).await?;
                let first = dialogue.whole_answer("first");
                text(&format!("{first} and {}", dialogue.whole_answer("second")))
            }
            Self::Greet(name) => text(&format!("Hello, {name}!")),
        })
    }
}

fn computed() -> CallToolResult {
    text("It took its time.")
}

fn failed() -> CallToolResult {
    CallToolResult::error(literal(json!([fixed::text("This job always fails.")])))
}

fn broken() -> ErrorData {
    ErrorData::internal_error("this job breaks", None)
}

fn confirmation(file: &str) -> Value {
    user(&format!("Delete {file}?"), &form("confirm", "boolean"))
}

fn deleted(file: &str, answer: &Value) -> CallToolResult {
    let sure = answer["action"] == "accept" && answer["content"]["confirm"] != false;
    text(&if sure {
        format!("{file} is deleted.")
    } else {
        format!("{file} is still there.")
    })
}

fn half(which: &str) -> Value {
    user(&format!("The {which} half?"), &form("value", "string"))
}
