//! `wharf approvals`, `approve` and `deny`

use std::time::{SystemTime, UNIX_EPOCH};

use hyper::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use wharfinger_daemon::client::{Client, ClientError, Messages};

use super::{part, read};
use crate::World;
use crate::cli::{Approvals, Approve, Deny};
use crate::failure::{Exit, Failure};
use crate::ui::plain;

/// How much of an id is enough.
const SHORTEST: usize = 8;

#[derive(Deserialize)]
struct Approval {
    id: String,
    agent: String,
    name: String,
    arguments: Value,
    created: u64,
    expires: u64,
    stage: String,
}

pub(super) async fn run(world: &World, approvals: &Approvals) -> Result<(), Failure> {
    let client = world.paths.client();
    if approvals.watch {
        // First, so that nothing comes in between.
        let events = client.stream(Method::GET, "/api/events", None).await?;
        return watch(world, &client, events).await;
    }
    let mut all = ask(&client).await?;
    if !approvals.all {
        all.retain(waits);
    }
    if world.ui.json {
        return Ok(world.ui.answer_json(&all)?);
    }
    if all.is_empty() {
        world.ui.say("nothing waits for an approval");
        return Ok(());
    }
    let all: Vec<Approval> = read(&all.into())?;
    let now = now();
    let row = |approval: &Approval| {
        let arguments = approval.arguments.to_string();
        let waits = match approval.stage.as_str() {
            "pending_approval" => span(now.saturating_sub(approval.created)),
            stage => stage.to_owned(),
        };
        vec![
            approval.id.clone(),
            approval.agent.clone(),
            approval.name.clone(),
            waits,
            format!("in {}", span(approval.expires.saturating_sub(now))),
            arguments,
        ]
    };
    let rows: Vec<_> = all.iter().map(row).collect();
    let headers = ["ID", "AGENT", "TOOL", "WAITS", "EXPIRES", "ARGUMENTS"];
    world.ui.table(&headers, &rows)?;
    if let Some(first) = all.iter().find(|one| one.stage == "pending_approval") {
        world.ui.hint(&format!(
            "`wharf approve {0}` or `wharf deny {0}`",
            first.id
        ));
    }
    Ok(())
}

fn waits(approval: &Value) -> bool {
    approval["stage"] == "pending_approval"
}

async fn ask(client: &Client) -> Result<Vec<Value>, Failure> {
    let value = client.get("/api/approvals").await?;
    read(&value["approvals"])
}

/// What waits, and then what comes and goes.
async fn watch(world: &World, client: &Client, mut events: Messages) -> Result<(), Failure> {
    let mut told = vec![];
    for approval in ask(client).await?.into_iter().filter(waits) {
        told.push(plain(&approval["id"]));
        came(world, approval)?;
    }
    while let Some(event) = events.next().await? {
        let data = event.data;
        match data["event"].as_str() {
            Some("approvalRequested") => {
                let id = plain(&data["id"]);
                if told.contains(&id) {
                    continue;
                }
                match client.get(&format!("/api/approvals/{}", part(&id))).await {
                    Ok(approval) => came(world, approval)?,
                    // It was answered at once, which is told next.
                    Err(ClientError::Refused { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
                told.push(id);
            }
            Some("approvalResolved") => {
                told.retain(|id| data["id"] != **id);
                if world.ui.json {
                    world.ui.answer_json_line(&data)?;
                } else {
                    let [id, status, agent, tool] =
                        ["id", "status", "agent", "tool"].map(|key| plain(&data[key]));
                    world
                        .ui
                        .answer(&format!("{id}  {status}  {agent}  {tool}"))?;
                }
            }
            _ => {}
        }
    }
    world.ui.say("the daemon has stopped");
    Ok(())
}

fn came(world: &World, mut value: Value) -> Result<(), Failure> {
    if world.ui.json {
        value["event"] = "approvalRequested".into();
        return Ok(world.ui.answer_json_line(&value)?);
    }
    let Approval {
        id,
        agent,
        name,
        arguments,
        ..
    } = read(&value)?;
    let start = format!("{id}  waits  {agent}  {name}");
    let rest = arguments.to_string();
    let rest = world.ui.rest_of_line(&rest, start.chars().count() + 2);
    Ok(world.ui.answer(&format!("{start}  {rest}"))?)
}

pub(super) async fn approve(world: &World, approve: &Approve) -> Result<(), Failure> {
    let arguments = match &approve.args {
        None => None,
        Some(text) => match serde_json::from_str(text) {
            Ok(Value::Object(members)) => Some(members),
            Ok(_) => return Err(Failure::usage("`--args` must be a JSON object")),
            Err(error) => return Err(Failure::usage("`--args` is not JSON").because(&error)),
        },
    };
    let scope = match (approve.session, approve.arguments, approve.always) {
        (true, ..) => "session",
        (_, true, _) => "arguments",
        (.., true) => "always",
        _ => "once",
    };
    let mut body = json!({"action": "approve", "scope": scope});
    if let Some(arguments) = arguments {
        body["modifiedArgs"] = arguments.into();
    }
    let Some(approval) = answer(world, &approve.id, &body).await? else {
        return Ok(());
    };
    let more = match scope {
        "session" => ", and every call of it in this session",
        "arguments" => ", and every call of it with these arguments until the daemon ends",
        "always" => ", which needs no approval from now on",
        _ => "",
    };
    let Approval { name, agent, .. } = &approval;
    world
        .ui
        .answer(&format!("approved the call of {name} by {agent}{more}"))?;
    Ok(())
}

pub(super) async fn deny(world: &World, deny: &Deny) -> Result<(), Failure> {
    let body = json!({"action": "deny", "reason": deny.reason});
    let Some(approval) = answer(world, &deny.id, &body).await? else {
        return Ok(());
    };
    let Approval { name, agent, .. } = &approval;
    world
        .ui
        .answer(&format!("denied the call of {name} by {agent}"))?;
    Ok(())
}

/// Nothing is left to be said to programs.
async fn answer(world: &World, id: &str, body: &Value) -> Result<Option<Approval>, Failure> {
    let client = world.paths.client();
    let id = whole(&ask(&client).await?, id)?;
    let path = format!("/api/approvals/{}", part(&id));
    let value = client.post(&path, Some(body)).await?;
    if world.ui.json {
        world.ui.answer_json(&value)?;
        return Ok(None);
    }
    read(&value).map(Some)
}

/// The id that a text is the beginning of; what is none of those that are open is left to the daemon.
fn whole(open: &[Value], text: &str) -> Result<String, Failure> {
    let ids = open.iter().filter_map(|approval| approval["id"].as_str());
    let found: Vec<&str> = ids.filter(|id| id.starts_with(text)).collect();
    match found.as_slice() {
        [id] if text.len() >= SHORTEST || *id == text => Ok((*id).to_owned()),
        [] => Ok(text.to_owned()),
        _ if text.len() < SHORTEST => Err(Failure::usage(format!(
            "`{text}` is too short: an id may be shortened to {SHORTEST} characters"
        ))
        .hint("`wharf approvals` lists what waits")),
        many => Err(Failure::told(
            Exit::Usage,
            format!("`{text}` is the beginning of {}", many.join(" and of ")),
        )),
    }
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(now.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

/// A length of time, roughly.
fn span(millis: u64) -> String {
    match millis / 1000 {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min", seconds / 60),
        seconds @ 3600..172_800 => format!("{} h", (seconds + 1800) / 3600),
        seconds => format!("{} d", (seconds + 43_200) / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_may_be_shortened() {
        let open = [json!({"id": "task_abcdef"}), json!({"id": "task_abczzz"})];
        let check = |text: &str, expect: Result<&str, &str>| {
            let found = whole(&open, text).map_err(|failure| match failure {
                Failure::Told(told) => told.message,
                other => panic!("{other:?}"),
            });
            assert_eq!(
                found.as_ref().map(String::as_str).map_err(String::as_str),
                expect,
                "{text}"
            );
        };
        check("task_abcdef", Ok("task_abcdef"));
        check("task_abcd", Ok("task_abcdef"));
        check("task_other", Ok("task_other"));
        check(
            "task_abc",
            Err("`task_abc` is the beginning of task_abcdef and of task_abczzz"),
        );
        check(
            "task_ab",
            Err("`task_ab` is too short: an id may be shortened to 8 characters"),
        );
    }

    #[test]
    fn a_span_is_rough() {
        let all = [0, 59_999, 60_000, 3_600_000, 90_000_000, 172_800_000].map(span);
        assert_eq!(all, ["0 s", "59 s", "1 min", "1 h", "25 h", "2 d"]);
    }
}
