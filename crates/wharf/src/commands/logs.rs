//! `wharf logs`

use hyper::Method;
use serde_json::{Value, json};
use wharfinger_daemon::client::{Client, Messages};

use super::{list, part, read};
use crate::World;
use crate::cli::Logs;
use crate::failure::Failure;
use crate::ui::plain;

pub(super) async fn run(world: &World, logs: Logs) -> Result<(), Failure> {
    let client = world.paths.client();
    // First the stream, then the past: a line between the two is shown twice, but none is lost.
    let events = if logs.follow {
        Some(client.stream(Method::GET, "/api/events", None).await?)
    } else {
        None
    };
    match &logs.name {
        Some(name) => {
            let lines = kept(&client, name, logs.lines).await?;
            if lines.is_empty() && events.is_none() {
                world
                    .ui
                    .say(&format!("{name} has written nothing to standard error"));
            }
            print(world, name, &lines, false)?;
        }
        None => {
            for server in list::servers(&client.get("/api/servers").await?)? {
                let lines = kept(&client, &server.name, logs.lines).await?;
                print(world, &server.name, &lines, true)?;
            }
        }
    }
    match events {
        Some(events) => follow(world, events, logs.name.as_deref()).await,
        None => Ok(()),
    }
}

async fn kept(client: &Client, name: &str, lines: usize) -> Result<Vec<String>, Failure> {
    let value = client
        .get(&format!("/api/servers/{}/logs?lines={lines}", part(name)))
        .await?;
    read(&value["lines"])
}

fn print(world: &World, server: &str, lines: &[String], named: bool) -> Result<(), Failure> {
    for line in lines {
        if world.ui.json {
            world
                .ui
                .answer_json_line(&json!({"server": server, "line": line}))?;
        } else if named {
            world.ui.answer(&format!("{server}: {line}"))?;
        } else {
            world.ui.answer(line)?;
        }
    }
    Ok(())
}

async fn follow(world: &World, mut events: Messages, only: Option<&str>) -> Result<(), Failure> {
    while let Some(message) = events.next().await? {
        let data = &message.data;
        let line = match only {
            Some(server) if data["event"] == "stderr" && data["server"] == server => {
                Some(plain(&data["line"]))
            }
            Some(_) => None,
            None => describe(data),
        };
        match line {
            Some(_) if world.ui.json => world.ui.answer_json_line(data)?,
            Some(line) => world.ui.answer(&line)?,
            None => {}
        }
    }
    world.ui.say("the daemon has stopped");
    Ok(())
}

/// An event in a line; `None` for kinds that are not for people.
fn describe(data: &Value) -> Option<String> {
    let server = plain(&data["server"]);
    Some(match data["event"].as_str().unwrap_or_default() {
        "stderr" => format!("{server}: {}", plain(&data["line"])),
        "serverStatus" => {
            let status = &data["status"];
            let state = match status["state"].as_str().unwrap_or_default() {
                "notStarted" => "stopped".to_owned(),
                "running" => format!("running, pid {}", status["pid"]),
                "exited" => format!("exited, {}", exit(&status["exit"])),
                "failed" => format!("failed, {}", plain(&status["reason"])),
                other => other.to_owned(),
            };
            let agent = data["agent"]
                .as_str()
                .map(|agent| format!(" for {agent}"))
                .unwrap_or_default();
            format!("{server}: [{state}{agent}]")
        }
        "toolsChanged" => format!("{server}: [tools listed, {}]", data["tools"]),
        "called" => {
            let how = if data["ok"] == json!(true) {
                "answered"
            } else {
                "failed"
            };
            let (tool, agent) = (plain(&data["tool"]), plain(&data["agent"]));
            format!(
                "{server}: [{tool} called by {agent}, {how} after {} ms]",
                data["millis"]
            )
        }
        "toolsDeclared" => {
            let count = data["changed"].as_array().map_or(0, Vec::len);
            let agent = plain(&data["agent"]);
            format!(
                "{server}: [{} of {agent} changed]",
                crate::ui::count(count, "tool")
            )
        }
        "approvalRequested" => {
            let (id, tool, agent) = (&data["id"], &data["tool"], &data["agent"]);
            let [id, tool, agent] = [id, tool, agent].map(plain);
            format!("{server}: [{tool} called by {agent} waits for approval {id}]")
        }
        "approvalResolved" => {
            format!(
                "{server}: [approval {} {}]",
                plain(&data["id"]),
                plain(&data["status"])
            )
        }
        "halted" => format!("[emergency stop: {}]", plain(&data["reason"])),
        "released" => "[the emergency stop is over]".to_owned(),
        "configChanged" => {
            let names = |key: &str| {
                let names = data[key].as_array().into_iter().flatten().map(plain);
                let names: Vec<String> = names.collect();
                (!names.is_empty()).then(|| format!("{key} {}", names.join(", ")))
            };
            let changes: Vec<String> = ["added", "changed", "removed"]
                .into_iter()
                .filter_map(names)
                .collect();
            let problems = data["problems"].as_u64().filter(|count| *count > 0);
            let problems = problems.map(|_| "`wharf status` tells what is wrong".to_owned());
            let changes: Vec<String> = changes.into_iter().chain(problems).collect();
            if changes.is_empty() {
                return None;
            }
            format!("[configuration: {}]", changes.join("; "))
        }
        _ => {
            let missed = data["missed"].as_u64()?;
            format!("[{missed} events were missed: there were too many at once]")
        }
    })
}

/// `{"code": 1}` or `{"signal": 9}` or `"unknown"`.
fn exit(value: &Value) -> String {
    match value.as_object().and_then(|members| members.iter().next()) {
        Some((kind, number)) => format!("{kind} {number}"),
        None => plain(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_has_its_line() {
        let check = |event: &str, mut data: Value, expect: Option<&str>| {
            data["event"] = event.into();
            assert_eq!(describe(&data).as_deref(), expect, "{data}");
        };
        check(
            "stderr",
            json!({"server": "a", "line": "hello"}),
            Some("a: hello"),
        );
        let running =
            json!({"server": "a", "agent": "default", "status": {"state": "running", "pid": 7}});
        check(
            "serverStatus",
            running,
            Some("a: [running, pid 7 for default]"),
        );
        let exited = json!({"server": "a", "agent": null, "status": {"state": "exited", "exit": {"code": 3}}});
        check("serverStatus", exited, Some("a: [exited, code 3]"));
        let called = json!({"server": "a", "agent": "b", "tool": "t", "ok": false, "millis": 5});
        check(
            "called",
            called,
            Some("a: [t called by b, failed after 5 ms]"),
        );
        let nothing = json!({"added": [], "changed": [], "removed": [], "problems": 0});
        check("configChanged", nothing, None);
        let changed = json!({"added": ["x", "y"], "changed": [], "removed": ["z"], "problems": 1});
        check(
            "configChanged",
            changed,
            Some("[configuration: added x, y; removed z; `wharf status` tells what is wrong]"),
        );
        let asked = json!({"id": "task_1", "agent": "bot", "server": "a", "tool": "mcp_a_t"});
        check(
            "approvalRequested",
            asked.clone(),
            Some("a: [mcp_a_t called by bot waits for approval task_1]"),
        );
        let mut answered = asked;
        answered["status"] = "denied".into();
        check(
            "approvalResolved",
            answered,
            Some("a: [approval task_1 denied]"),
        );
        let declared = json!({"agent": "bot", "server": "a", "changed": ["x", "y"]});
        check(
            "toolsDeclared",
            declared,
            Some("a: [2 tools of bot changed]"),
        );
        check(
            "halted",
            json!({"reason": "x"}),
            Some("[emergency stop: x]"),
        );
        check("released", json!({}), Some("[the emergency stop is over]"));
        check("new", json!({}), None);
    }
}
