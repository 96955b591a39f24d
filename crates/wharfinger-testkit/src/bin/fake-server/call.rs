//! One `tools/call`, in the order in which it misbehaves.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::output::Shape;
use crate::server::{Request, Server};
use crate::{complain, era, leave};

/// How often a held call looks whether it may go on.
const LOOK: Duration = Duration::from_millis(2);
/// Stands in the result for a number that no `Value` can hold.
const RAW: &str = "\"@raw@\"";

/// A call that was cancelled isn't answered.
struct Cancelled;

pub(crate) fn answer(server: &Server, request: &Request) {
    if server.becomes_task(request) {
        return server.begin_task(request);
    }
    let number = server.count_call();
    if server.modes().on("touch") {
        server.touch_resources();
    }
    talk_around(server, request);
    crash(server, request, number);
    report_progress(server, request);
    if server.modes().on("hang-call") {
        return;
    }
    let Ok(asked) = ask_client(server, request) else {
        return;
    };
    if hold(server, request).is_err() {
        return;
    }
    if server.modes().on("list-changed-on-call") {
        server.add_tool(&format!("added_{number}"));
    }
    reply(server, request, number, asked);
}

/// What comes on stdout although it isn't the answer.
fn talk_around(server: &Server, request: &Request) {
    let (modes, output) = (server.modes(), &server.output);
    if let Some(level) = modes.text("log") {
        let data = format!("working on {}", request.params["name"]);
        let params = json!({"level": level, "logger": "fake", "data": data});
        output.notify("notifications/message", &params);
    }
    if modes.on("garbage") {
        output.raw(b"DEBUG: about to work \x1b[31mcolour\x1b[0m\n");
    }
    if modes.on("utf8-bad") {
        output.raw(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"\xff\xfe\"}}\n");
    }
}

fn crash(server: &Server, request: &Request, number: usize) {
    let modes = server.modes();
    if modes.on("crash-mid-line") {
        let start = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"content\":[{{\"ty",
            request.id
        );
        server.output.raw(start.as_bytes());
        leave(41);
    }
    if modes
        .count("crash-after")
        .is_some_and(|last| number >= last)
    {
        complain("Segfault (simulated)");
        leave(42);
    }
}

fn report_progress(server: &Server, request: &Request) {
    let Some(token) = request.params["_meta"].get("progressToken") else {
        return;
    };
    let total = server.modes().count("progress").unwrap_or(0);
    for step in 1..=total {
        let message = format!("step {step}");
        let params =
            json!({"progressToken": token, "progress": step, "total": total, "message": message});
        server.output.notify("notifications/progress", &params);
        if let Some(pause) = server.modes().milliseconds("progress-pause-ms") {
            thread::sleep(pause);
        }
    }
}

/// What the client has to say first: what it answered, or (2026-07-28) the result that asks.
enum Asked {
    Nothing,
    Answer(Value),
    Ask(Value),
}

fn ask_client(server: &Server, request: &Request) -> Result<Asked, Cancelled> {
    let for_roots = request.params["name"] == "roots";
    if for_roots && !request.modern {
        return wait(server, request, || server.roots()).map(Asked::Answer);
    }
    let methods: Vec<&str> = if for_roots {
        vec!["roots/list"]
    } else {
        let asked = server.modes().all("ask");
        asked.iter().map(String::as_str).collect()
    };
    let [first, more @ ..] = methods.as_slice() else {
        return Ok(Asked::Nothing);
    };
    if !request.modern {
        let answer = server.ask(first, &question(first));
        let mut said = receive(server, request, &answer)?;
        for method in more {
            let answer = server.ask(method, &question(method));
            said = json!([said, receive(server, request, &answer)?]);
        }
        return Ok(Asked::Answer(said));
    }
    if request.params["requestState"] == "state-1" {
        let responses = &request.params["inputResponses"];
        return Ok(Asked::Answer(if more.is_empty() {
            responses["q"].clone()
        } else {
            responses.clone()
        }));
    }
    let mut requests = json!({"q": {"method": first, "params": question(first)}});
    for (n, method) in more.iter().enumerate() {
        requests[format!("q{}", n + 2)] = json!({"method": method, "params": question(method)});
    }
    Ok(Asked::Ask(json!({
        "resultType": "input_required",
        "inputRequests": requests,
        "requestState": "state-1",
    })))
}

fn question(method: &str) -> Value {
    match method {
        "sampling/createMessage" => json!({
            "messages": [{"role": "user", "content": {"type": "text", "text": "Say hello"}}],
            "maxTokens": 20,
        }),
        "elicitation/create" => json!({
            "message": "May I?",
            "requestedSchema": {
                "type": "object",
                "properties": {"yes": {"type": "boolean"}},
                "required": ["yes"],
            },
        }),
        _ => json!({}),
    }
}

/// Keeps the call until its time or its file has come.
fn hold(server: &Server, request: &Request) -> Result<(), Cancelled> {
    if let Some(delay) = server.modes().seconds("slow-call") {
        let end = Instant::now() + delay;
        wait(server, request, || (Instant::now() >= end).then_some(()))?;
    }
    if let Some(file) = server.modes().file("wait-for") {
        wait(server, request, || Path::exists(file).then_some(()))?;
    }
    Ok(())
}

fn wait<T>(
    server: &Server,
    request: &Request,
    mut look: impl FnMut() -> Option<T>,
) -> Result<T, Cancelled> {
    loop {
        if server.is_cancelled(&request.id) {
            return Err(Cancelled);
        }
        if let Some(found) = look() {
            return Ok(found);
        }
        thread::sleep(LOOK);
    }
}

fn receive(
    server: &Server,
    request: &Request,
    answer: &Receiver<Value>,
) -> Result<Value, Cancelled> {
    wait(server, request, || match answer.recv_timeout(LOOK) {
        Ok(answer) => Some(answer),
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) => Some(Value::Null),
    })
}

fn reply(server: &Server, request: &Request, number: usize, asked: Asked) {
    let modes = server.modes();
    let id = if modes.on("wrong-id") {
        json!(99999)
    } else {
        request.id.clone()
    };
    if !server.has_tool(&request.params["name"]) {
        let message = format!("Unknown tool: {}", request.params["name"]);
        return server.output.error(&id, era::INVALID_PARAMS, &message);
    }
    if modes.on("error-no-message") {
        return server
            .output
            .message(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32000}}));
    }
    if modes.on("invalid-json-reply") {
        let reply = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[}}}}");
        return server.output.line(&reply);
    }
    let mut result = match asked {
        Asked::Ask(question) => question,
        _ if modes.on("null-result") => Value::Null,
        Asked::Answer(answer) => text_result(&answer.to_string()),
        Asked::Nothing => ordinary_result(server, request, number),
    };
    if request.modern {
        era::dress(&mut result, &server.server_info(), false);
    }
    let reply = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
    let number = if modes.on("nan") {
        "NaN"
    } else {
        "1180591620717411303424"
    };
    server
        .output
        .shaped(&reply.replace(RAW, number), shape(server));
}

fn shape(server: &Server) -> Shape {
    let modes = server.modes();
    if modes.on("truncated-reply") {
        Shape::Truncated
    } else if modes.on("batch-reply") {
        Shape::InArray
    } else if modes.on("dup-reply") {
        Shape::Twice
    } else {
        Shape::Whole
    }
}

fn ordinary_result(server: &Server, request: &Request, number: usize) -> Value {
    let modes = server.modes();
    if modes.on("error-as-result") {
        return text_result("Error: it failed");
    }
    if modes.on("tool-error") {
        let mut result = text_result("it failed");
        result["isError"] = json!(true);
        return result;
    }
    let mut result = match modes.count("huge") {
        Some(bytes) => text_result(&"x".repeat(bytes)),
        None => text_result(&text(server, request, number)),
    };
    if let (Some(uri), Some(content)) = (modes.text("link"), result["content"].as_array_mut()) {
        content.push(json!({"type": "resource_link", "uri": uri, "name": "link"}));
    }
    if modes.any(&["nan", "big-int"]) {
        result["structuredContent"] = json!({"v": RAW.trim_matches('"')});
    }
    result
}

fn text_result(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

fn text(server: &Server, request: &Request, number: usize) -> String {
    let name = request.params["name"].as_str().unwrap_or_default();
    let arguments = &request.params["arguments"];
    match (name, server.modes().text("say")) {
        ("echo", _) => arguments["message"].as_str().unwrap_or_default().to_owned(),
        ("env", _) => environment(),
        ("cwd", _) => std::env::current_dir()
            .map_or_else(|error| error.to_string(), |path| path.display().to_string()),
        ("pid", _) => std::process::id().to_string(),
        (_, Some(said)) => said.to_owned(),
        ("work", None) => format!("ok {number}"),
        (_, None) if arguments.is_null() => format!("called {name} {{}}"),
        (_, None) => format!("called {name} {arguments}"),
    }
}

fn environment() -> String {
    let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    let variables: BTreeMap<String, String> = std::env::vars_os()
        .map(|(name, value)| (lossy(name), lossy(value)))
        .collect();
    json!(variables).to_string()
}
