//! An MCP server that decodes nothing it does not need, so that what comes back is what was sent, byte for byte.
//!
//! The fake server of `wharfinger-testkit` holds values as a program would, and can't hold `1e400`. Its tools:
//!
//! - `give`: the result is the argument `result`, as it was written
//! - `fail`: the error is the argument `error`, as it was written
//! - `show`: the result has the call's arguments as its member `arguments`
//! - `ask`: asks the client the argument `message`, then answers with what it said
//! - `tell`: tells of progress, if that is wanted, and of something to log, before it answers
//! - `begin`: begins a task, of which `tasks/get`, `tasks/result` and `tasks/cancel` tell the argument `message`
//!
//! `mirror ERA PREFIX` speaks the era, `handshake` or `stateless`, and puts the prefix before the tools' names.

use std::collections::HashMap;
use std::io::{BufRead, Write};

use serde_json::json;
use serde_json::value::RawValue;
use wharfinger_wire::era::{Era, Version, to_stateless_result, with_server_info};
use wharfinger_wire::json::{Object, Raw, empty_object, raw};
use wharfinger_wire::message::{
    self, ErrorObject, INVALID_PARAMS, Id, METHOD_NOT_FOUND, Message, UNSUPPORTED_VERSION,
};
use wharfinger_wire::server::negotiate;

const TOOLS: [&str; 6] = ["give", "fail", "show", "ask", "tell", "begin"];

/// The whole program; ends with its input.
pub fn main(arguments: &[String]) {
    let era = match arguments.first().map(String::as_str) {
        Some("stateless") => Era::Stateless,
        _ => Era::Handshake,
    };
    let mut mirror = Mirror {
        era,
        prefix: arguments.get(1).cloned().unwrap_or_default(),
        asked: HashMap::new(),
        tasks: HashMap::new(),
        out: vec![],
    };
    let mut input = std::io::stdin().lock();
    let mut line = vec![];
    while matches!(input.read_until(b'\n', &mut line), Ok(read) if read > 0) {
        if let Ok(message) = message::parse(&line)
            && let Some(answer) = mirror.receive(&message)
        {
            mirror.say(answer);
        }
        let mut output = std::io::stdout().lock();
        if output.write_all(&mirror.out).is_err() || output.flush().is_err() {
            return;
        }
        mirror.out.clear();
        line.clear();
    }
}

struct Mirror {
    era: Era,
    prefix: String,
    /// Calls that wait for their client, by the id of the question.
    asked: HashMap<Id, Id>,
    /// What each task was begun with.
    tasks: HashMap<String, Raw>,
    /// What is written next.
    out: Vec<u8>,
}

/// What becomes of a request.
enum Outcome {
    Result(Raw),
    Error(ErrorObject),
    /// A question of ours comes first.
    Question(Raw),
}

impl Mirror {
    fn say(&mut self, message: Vec<u8>) {
        self.out.extend(message);
        self.out.push(b'\n');
    }

    /// What is written next, if anything.
    fn receive(&mut self, message: &Message<'_>) -> Option<Vec<u8>> {
        match message {
            Message::Request { id, method, params } => Some(match self.answer(method, *params) {
                Outcome::Result(result) => message::result(id, &self.dressed(&result)),
                Outcome::Error(error) => message::error(Some(id), &error),
                Outcome::Question(params) => {
                    let question = Id::string(&format!("question-{id}"));
                    self.asked.insert(question.clone(), id.clone());
                    message::request(&question, "elicitation/create", Some(&params))
                }
            }),
            Message::Response { id, outcome } => {
                let call = self.asked.remove(id.as_ref()?)?;
                let said = match outcome {
                    Ok(said) | Err(said) => said.get(),
                };
                Some(message::result(&call, &text(said)))
            }
            Message::Notification { method, params } => {
                if method == "notifications/cancelled" {
                    let params = Object::from_raw(params.as_deref()?).ok()?;
                    let gone = params.get("requestId").and_then(Id::parse)?;
                    self.asked.retain(|_, call| *call != gone);
                }
                None
            }
        }
    }

    fn answer(&mut self, method: &str, params: Option<&RawValue>) -> Outcome {
        let stateless = self.era == Era::Stateless;
        let params = params.and_then(|params| Object::from_raw(params).ok());
        let params = params.unwrap_or_default();
        match method {
            "initialize" if stateless => Outcome::Error(ErrorObject::new(
                UNSUPPORTED_VERSION,
                "this server has no initialize",
            )),
            "initialize" => {
                let version = negotiate(&params.text("protocolVersion").unwrap_or_default());
                Outcome::Result(raw(&json!({
                    "protocolVersion": version.as_str(),
                    "capabilities": self.capabilities(),
                    "serverInfo": { "name": "mirror", "version": "1" },
                })))
            }
            "server/discover" if stateless => Outcome::Result(raw(&json!({
                "supportedVersions": [Version::LATEST.as_str()],
                "capabilities": self.capabilities(),
                "ttlMs": 0,
                "cacheScope": "private",
            }))),
            "ping" => Outcome::Result(empty_object()),
            "tools/list" => {
                let tool = |name| json!({ "name": format!("{}{name}", self.prefix), "inputSchema": { "type": "object" } });
                Outcome::Result(raw(&json!({ "tools": TOOLS.map(tool) })))
            }
            "tools/call" => self.call(&params),
            "tasks/get" | "tasks/result" | "tasks/cancel" => {
                let id = params.text("taskId").unwrap_or_default();
                let Some(message) = self.tasks.get(&*id) else {
                    return Outcome::Error(ErrorObject::new(INVALID_PARAMS, "no such task"));
                };
                let status = match method {
                    "tasks/cancel" => "cancelled",
                    _ => "completed",
                };
                Outcome::Result(raw(&json!({
                    "taskId": id,
                    "status": status,
                    "ttl": 86_400_000,
                    "ttlMs": 86_400_000,
                    "content": [{ "type": "text", "text": message.get() }],
                })))
            }
            _ => Outcome::Error(ErrorObject::new(METHOD_NOT_FOUND, "Method not found")),
        }
    }

    fn capabilities(&self) -> serde_json::Value {
        match self.era {
            Era::Handshake => {
                json!({ "tools": {}, "tasks": { "cancel": {}, "requests": { "tools": { "call": {} } } } })
            }
            Era::Stateless => {
                json!({ "tools": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } })
            }
        }
    }

    fn call(&mut self, params: &Object<'_>) -> Outcome {
        let name = params.text("name").unwrap_or_default();
        let arguments = params.object("arguments").unwrap_or_default();
        let given = |name: &str| {
            arguments
                .get(name)
                .map_or_else(empty_object, ToOwned::to_owned)
        };
        match name.strip_prefix(&self.prefix) {
            Some("give") => Outcome::Result(given("result")),
            Some("fail") => Outcome::Error(ErrorObject::from_raw(&given("error"))),
            Some("show") => {
                let mut result = Object::new();
                result.set("content", raw(&json!([])));
                if let Some(arguments) = params.get("arguments") {
                    result.set("arguments", arguments.to_owned());
                }
                Outcome::Result(result.to_raw())
            }
            Some("ask") => self.ask(params, &given("message")),
            Some("tell") => {
                let token = params.object("_meta");
                let token = token.as_ref().and_then(|meta| meta.get("progressToken"));
                if let Some(token) = token {
                    let mut progress = Object::new();
                    progress.set_borrowed("progressToken", token);
                    progress.set("progress", raw(&1));
                    self.say(message::notification(
                        "notifications/progress",
                        Some(&progress.to_raw()),
                    ));
                }
                let log = raw(&json!({ "level": "error", "data": "telling" }));
                self.say(message::notification("notifications/message", Some(&log)));
                Outcome::Result(text("told"))
            }
            Some("begin") => {
                let number = self.tasks.len() + 1;
                let id = format!("{}task-{}-{number}", self.prefix, std::process::id());
                self.tasks.insert(id.clone(), given("message"));
                let mut task = json!({
                    "taskId": id,
                    "status": "working",
                    "createdAt": "2026-01-01T00:00:00Z",
                    "lastUpdatedAt": "2026-01-01T00:00:00Z",
                });
                Outcome::Result(match self.era {
                    Era::Handshake => {
                        task["ttl"] = json!(86_400_000);
                        raw(&json!({ "task": task }))
                    }
                    Era::Stateless => {
                        task["resultType"] = json!("task");
                        task["ttlMs"] = json!(86_400_000);
                        raw(&task)
                    }
                })
            }
            _ => Outcome::Error(ErrorObject::new(INVALID_PARAMS, "there is no such tool")),
        }
    }

    fn ask(&self, params: &Object<'_>, message: &RawValue) -> Outcome {
        let mut question = Object::new();
        question.set("message", message.to_owned());
        question.set(
            "requestedSchema",
            raw(&json!({ "type": "object", "properties": {} })),
        );
        match self.era {
            Era::Handshake => Outcome::Question(question.to_raw()),
            Era::Stateless if params.text("requestState").as_deref() == Some("asked") => {
                let said = params.get("inputResponses").map_or("null", RawValue::get);
                Outcome::Result(text(said))
            }
            Era::Stateless => {
                let mut request = Object::new();
                request.set("method", raw("elicitation/create"));
                request.set("params", question.to_raw());
                let mut requests = Object::new();
                requests.set("q", request.to_raw());
                let mut result = Object::new();
                result.set("resultType", raw("input_required"));
                result.set("inputRequests", requests.to_raw());
                result.set("requestState", raw("asked"));
                Outcome::Result(result.to_raw())
            }
        }
    }

    /// What the era wants in every result.
    fn dressed(&self, result: &RawValue) -> Raw {
        match self.era {
            Era::Handshake => result.to_owned(),
            Era::Stateless => {
                let info = raw(&json!({ "name": "mirror", "version": "1" }));
                with_server_info(&to_stateless_result(result, None), &info)
            }
        }
    }
}

fn text(said: &str) -> Raw {
    raw(&json!({ "content": [{ "type": "text", "text": said }] }))
}
