//! `wharf call`

use hyper::Method;
use serde_json::{Map, Value, json};
use wharfinger_daemon::client::{Client, Message, Messages};

use super::arguments::arguments;
use super::list;
use super::tools::{self, Listing};
use super::{part, read};
use crate::World;
use crate::cli::Call;
use crate::failure::{Exit, Failure};
use crate::ui::{Ui, plain, size};

/// What is called, and what is known of it.
struct Target {
    /// For the daemon.
    body: Map<String, Value>,
    schema: Value,
    /// The lists name it, or can't tell.
    known: bool,
}

pub(super) async fn run(world: &World, call: Call) -> Result<(), Failure> {
    let given = match &call.args {
        Some(text) => Some(object(text)?),
        None => None,
    };
    let client = world.paths.client();
    let agent = &call.agent.agent;
    let listing: Listing = read(&tools::ask(world, &client, agent).await?)?;
    let Target {
        mut body,
        schema,
        known,
    } = target(&client, &call.tool, &listing).await?;
    let arguments = given.unwrap_or_else(|| arguments(&call.values, &schema));
    body.insert("arguments".into(), arguments.into());
    if call.as_owner {
        body.insert("asOwner".into(), true.into());
    }
    let path = format!("/api/agents/{}/call", part(agent));
    let messages = client
        .stream(Method::POST, &path, Some(&body.into()))
        .await?;
    let what = format!("waiting for {}", call.tool);
    let Message {
        data: result, text, ..
    } = result(&world.ui, messages, &what, known).await?;
    if world.ui.json {
        // As it came, so that no number is rounded.
        world.ui.answer(&text)?;
    } else {
        print(&world.ui, &result)?;
    }
    if result["isError"] != json!(true) {
        return Ok(());
    }
    // The answer has said it to programs.
    let exit = if known { Exit::Failed } else { Exit::Unknown };
    if world.ui.json {
        return Err(Failure::Known(exit));
    }
    let failure = Failure::told(exit, "the tool returned an error");
    Err(if known {
        failure
    } else {
        failure.hint(WHAT_THERE_IS)
    })
}

const WHAT_THERE_IS: &str = "`wharf tools` lists what there is";

fn object(text: &str) -> Result<Map<String, Value>, Failure> {
    match serde_json::from_str(text) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err(Failure::usage("`--args` must be a JSON object")),
        Err(error) => Err(Failure::usage("`--args` is not JSON").because(&error)),
    }
}

/// A name of the agent's list, or a server and its tool: the longest known server that the text begins with.
async fn target(client: &Client, text: &str, listing: &Listing) -> Result<Target, Failure> {
    let (body, found) = if text.contains('/') {
        let servers = list::servers(&client.get("/api/servers").await?)?;
        let known = |server: &str| servers.iter().any(|known| known.name == server);
        let splits = text
            .rmatch_indices('/')
            .map(|(at, _)| (&text[..at], &text[at + 1..]));
        let split = splits
            .clone()
            .find(|(server, _)| known(server))
            .or_else(|| splits.clone().next());
        let (server, tool) = split.unwrap_or((text, ""));
        let found = listing
            .tools
            .iter()
            .find(|t| t.server == server && t.own_name == tool);
        (json!({"server": server, "tool": tool}), found)
    } else {
        (
            json!({"name": text}),
            listing.tools.iter().find(|tool| tool.name == text),
        )
    };
    let missing = listing
        .unavailable
        .iter()
        .any(|missing| body["server"] == json!(missing.server));
    let Value::Object(body) = body else {
        unreachable!("an object was made")
    };
    Ok(Target {
        body,
        schema: found
            .map(|tool| tool.input_schema.clone())
            .unwrap_or_default(),
        known: found.is_some() || missing,
    })
}

/// Passes on what the server says meanwhile, up to its result.
async fn result(
    ui: &Ui,
    mut messages: Messages,
    what: &str,
    known: bool,
) -> Result<Message, Failure> {
    let mut next = ui.wait(what, messages.next()).await?;
    let mut asked = None;
    while let Some(message) = next {
        let data = &message.data;
        match message.event.as_str() {
            "progress" => ui.progress(&progress(data)),
            // It is told every few seconds, which is of no use to people.
            "waiting" if asked.as_ref() == Some(&data["approval"]) => {}
            "waiting" => {
                ui.clear();
                let id = plain(&data["approval"]);
                ui.say(&format!(
                    "waiting for approval {id}: `wharf approve {id}` or `wharf deny {id}`"
                ));
                asked = Some(data["approval"].clone());
            }
            "log" => {
                ui.clear();
                let logger = data["logger"]
                    .as_str()
                    .map(|name| format!("{name}: "))
                    .unwrap_or_default();
                ui.say(&format!(
                    "{}: {logger}{}",
                    plain(&data["level"]),
                    plain(&data["data"])
                ));
            }
            "result" => {
                ui.clear();
                return Ok(message);
            }
            "error" => {
                ui.clear();
                return Err(refused(data, known));
            }
            _ => {}
        }
        next = messages.next().await?;
    }
    ui.clear();
    Err(Failure::failed(
        "the daemon ended before there was a result",
    ))
}

/// Why there is no result. A server that is asked for a tool it doesn't have may call that what it likes.
fn refused(data: &Value, known: bool) -> Failure {
    let unknown = match data["kind"].as_str() {
        Some("unknown") => true,
        Some("server") => !known,
        _ => false,
    };
    let message = plain(&data["message"]);
    if unknown {
        Failure::told(Exit::Unknown, message).hint(WHAT_THERE_IS)
    } else {
        Failure::failed(message)
    }
}

fn progress(data: &Value) -> String {
    let total = data
        .get("total")
        .map(|total| format!("/{total}"))
        .unwrap_or_default();
    let message = data["message"]
        .as_str()
        .map(|text| format!(" {text}"))
        .unwrap_or_default();
    format!("progress {}{total}{message}", plain(&data["progress"]))
}

fn print(ui: &Ui, result: &Value) -> Result<(), Failure> {
    let parts = result["content"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    for part in parts {
        ui.answer(&show(part))?;
    }
    if let (true, Some(structured)) = (parts.is_empty(), result.get("structuredContent")) {
        ui.answer_json(structured)?;
    }
    Ok(())
}

/// A text as it is, anything else in a line.
fn show(part: &Value) -> String {
    let text = |key: &str| part[key].as_str().unwrap_or_default();
    let describe = |words: &[&str]| {
        let words: Vec<&str> = words
            .iter()
            .copied()
            .filter(|word| !word.is_empty())
            .collect();
        format!("[{}]", words.join(", "))
    };
    match text("type") {
        "text" => text("text").to_owned(),
        kind @ ("image" | "audio") => describe(&[
            &format!("{kind} {}", text("mimeType")),
            &size(decoded(text("data"))),
        ]),
        "resource_link" => describe(&[
            &format!("link {}", text("uri")),
            text("name"),
            text("mimeType"),
        ]),
        "resource" => {
            let resource = &part["resource"];
            let text = |key: &str| resource[key].as_str().unwrap_or_default();
            let bytes = match resource["text"].as_str() {
                Some(text) => text.len(),
                None => decoded(text("blob")),
            };
            describe(&[
                &format!("resource {}", text("uri")),
                text("mimeType"),
                &size(bytes),
            ])
        }
        _ => describe(&[&part.to_string()]),
    }
}

/// How many bytes a base64 text stands for.
fn decoded(text: &str) -> usize {
    text.trim_end_matches('=').len() * 3 / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_has_its_line() {
        let check = |part: &Value, expect: &str| assert_eq!(show(part), expect);
        check(&json!({"type": "text", "text": "a\nb"}), "a\nb");
        check(
            &json!({"type": "image", "mimeType": "image/png", "data": "A".repeat(18_266)}),
            "[image image/png, 13.7 kB]",
        );
        check(
            &json!({"type": "audio", "mimeType": "audio/wav", "data": "UklGRg=="}),
            "[audio audio/wav, 4 B]",
        );
        check(
            &json!({"type": "resource_link", "uri": "file:///a", "name": "a"}),
            "[link file:///a, a]",
        );
        check(
            &json!({"type": "resource", "resource": {"uri": "demo://1", "mimeType": "text/plain", "text": "abc"}}),
            "[resource demo://1, text/plain, 3 B]",
        );
        check(&json!({"type": "new"}), "[{\"type\":\"new\"}]");
    }

    #[test]
    fn progress_is_a_line() {
        let check = |data: &Value, expect: &str| assert_eq!(progress(data), expect);
        check(
            &json!({"progress": 1, "total": 3, "message": "step"}),
            "progress 1/3 step",
        );
        check(&json!({"progress": 0.5}), "progress 0.5");
    }
}
