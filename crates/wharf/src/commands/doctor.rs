//! `wharf doctor`

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use wharfinger::config::{Inputs, Loaded, load};
use wharfinger::doctor::examine;
use wharfinger::launch::Inherit;
use wharfinger::vault::SecretNames;
use wharfinger_daemon::doctor::{Asked, look, mend};

use super::{config, part, read};
use crate::World;
use crate::cli::doctor::Doctor;
use crate::failure::{Exit, Failure};
use crate::ui::count;

/// How long a daemon may take to say that it is there.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
struct Report {
    facts: Value,
    checks: Vec<Check>,
    findings: Vec<Finding>,
}

#[derive(Deserialize)]
struct Check {
    what: String,
    mark: String,
    text: String,
}

/// Something that is wrong.
#[derive(Clone, Deserialize)]
pub(super) struct Finding {
    pub(super) code: String,
    title: String,
    server: Option<String>,
    cause: String,
    fix: String,
    command: Option<String>,
    certainty: String,
    evidence: Option<String>,
    path: Option<String>,
    fixable: bool,
}

#[derive(Deserialize)]
struct Trial {
    running: Option<u32>,
    steps: Vec<Step>,
    tools: Option<usize>,
    stderr: Vec<String>,
    finding: Option<Finding>,
}

#[derive(Deserialize)]
struct Step {
    #[serde(rename = "step")]
    what: String,
    ok: bool,
    millis: u64,
}

pub(super) async fn run(world: &World, doctor: Doctor) -> Result<(), Failure> {
    if let Some(name) = &doctor.name {
        return one(world, name).await;
    }
    let mut value = report(world, None).await?;
    if doctor.fix {
        let fixed = fix(world, &read::<Report>(&value)?)?;
        value = report(world, None).await?;
        value["fixed"] = json!(fixed);
    }
    name_home(world, &mut value);
    let report: Report = read(&value)?;
    if world.ui.json {
        world.ui.answer_json(&value)?;
    } else {
        for path in value["fixed"].as_array().into_iter().flatten() {
            world
                .ui
                .say(&format!("mended {}", path.as_str().unwrap_or_default()));
        }
        world.ui.answer(&in_full(world, &report, doctor.all))?;
        if report.facts["daemon"].is_null() {
            no_daemon(world);
        }
    }
    if report.findings.is_empty() {
        Ok(())
    } else {
        Err(Failure::Known(Exit::Failed))
    }
}

fn no_daemon(world: &World) {
    world
        .ui
        .say("no daemon runs, so no server was looked at beyond its entry");
    world
        .ui
        .hint(&format!("start one with `{} up`", world.paths.wharf()));
}

/// Starts one server for a moment.
async fn one(world: &World, name: &str) -> Result<(), Failure> {
    let mut value = report(world, Some(name)).await?;
    name_home(world, &mut value);
    let known: Report = read(&value)?;
    let client = world.paths.client();
    // An entry that can't be used, or no daemon: nothing can be started.
    let unusable = known
        .findings
        .iter()
        .any(|finding| finding.code == "WF-009");
    if unusable || known.facts["daemon"].is_null() {
        if world.ui.json {
            world.ui.answer_json(&value)?;
        } else if !known.findings.is_empty() {
            let blocks: Vec<String> = known.findings.iter().map(block).collect();
            world.ui.answer(&blocks.join("\n\n"))?;
        }
        if known.findings.is_empty() {
            return Err(Failure::told(
                Exit::NoDaemon,
                format!("no daemon runs, so {name} was not started"),
            )
            .hint(format!("start one with `{} up`", world.paths.wharf())));
        }
        return Err(Failure::Known(Exit::Failed));
    }
    let path = format!("/api/servers/{}/trial", part(name));
    let mut tried = world
        .ui
        .wait(&format!("starting {name}"), client.post(&path, None))
        .await?;
    name_home_of(world, &mut tried["finding"]);
    let trial: Trial = read(&tried)?;
    // What is known of it from before is what the trial has looked for.
    let mut findings: Vec<Value> = value["findings"].as_array().cloned().unwrap_or_default();
    findings.retain(|finding| {
        finding["code"]
            .as_str()
            .is_some_and(|code| code.starts_with("WF-0") && code != "WF-000")
    });
    findings.extend(trial.finding.is_some().then(|| tried["finding"].clone()));
    let wrong = !findings.is_empty();
    if world.ui.json {
        world
            .ui
            .answer_json(&json!({"trial": tried, "findings": findings}))?;
    } else {
        let findings: Vec<Finding> = read(&Value::from(findings))?;
        world.ui.answer(&of_trial(name, &trial, &findings))?;
    }
    if wrong {
        Err(Failure::Known(Exit::Failed))
    } else {
        Ok(())
    }
}

/// What the daemon finds; where none answers, what can be found without one.
async fn report(world: &World, name: Option<&str>) -> Result<Value, Failure> {
    let client = world.paths.client();
    let status = tokio::time::timeout(PATIENCE, client.get("/api/status")).await;
    if let Ok(Ok(_)) = status {
        let path = match name {
            Some(name) => format!("/api/doctor?server={}", part(name)),
            None => "/api/doctor".to_owned(),
        };
        let asked = client.get(&path);
        return Ok(world.ui.wait("looking at this machine", asked).await?);
    }
    offline(world, name).await
}

async fn offline(world: &World, name: Option<&str>) -> Result<Value, Failure> {
    // What can't be read is told as a finding about the home.
    let inputs = config::inputs(world).unwrap_or_else(|_| Inputs {
        environment: world.environment.clone(),
        ..Inputs::default()
    });
    let loaded = load(&inputs);
    if let Some(name) = name {
        known(&loaded, name)?;
    }
    let Loaded {
        config, problems, ..
    } = loaded;
    let inherit = Inherit {
        host: world.environment.clone(),
        more: config.daemon.pass_variables.clone(),
        secret: SecretNames {
            more: config.daemon.secret_variables.clone(),
        },
    };
    let looking = look(Asked {
        home: world.paths.home().to_owned(),
        environment: inherit.base(&[]),
        listen: config.daemon.listen.to_string(),
        daemon: None,
        programs: wharfinger::programs(&config.servers, &inherit),
        problems,
        runtimes: name.is_none(),
    });
    let facts = world.ui.wait("looking at this machine", looking).await;
    let (checks, mut findings) = examine(&facts);
    if let Some(name) = name {
        findings.retain(|finding| finding.server.as_deref() == Some(name));
    }
    let report = json!({"facts": facts, "checks": checks, "findings": findings});
    let failed =
        |error: serde_json::Error| Failure::failed("can't write the answer").because(&error);
    let raw: Box<RawValue> = to_raw_value(&report).map_err(failed)?;
    match config::redactor(&inputs, &config).json(&raw) {
        Some(clean) => serde_json::from_str(clean.get()).map_err(failed),
        None => Ok(report),
    }
}

fn known(loaded: &Loaded, name: &str) -> Result<(), Failure> {
    let config = &loaded.config;
    let broken = config.broken.iter().map(|(name, ..)| name.as_str());
    let all: Vec<&str> = config
        .servers
        .iter()
        .map(|entry| entry.name.as_str())
        .chain(broken)
        .collect();
    if all.contains(&name) {
        return Ok(());
    }
    let failure = Failure::told(Exit::Unknown, format!("there is no MCP server `{name}`"));
    Err(match all.as_slice() {
        [] => failure.hint("none is configured; `wharf add` adds one"),
        all => failure.hint(format!("known: {}", all.join(", "))),
    })
}

/// Mends what needs no decision; gives the paths.
fn fix(world: &World, report: &Report) -> Result<Vec<String>, Failure> {
    let mut fixed = vec![];
    for finding in report.findings.iter().filter(|finding| finding.fixable) {
        let Some(path) = &finding.path else {
            continue;
        };
        let mended = mend(world.paths.home(), &finding.code, Path::new(path))
            .map_err(|error| Failure::failed(format!("can't mend {path}")).because(&error))?;
        if mended {
            fixed.push(path.clone());
        }
    }
    Ok(fixed)
}

/// Commands that are told work for the home that was named.
fn name_home(world: &World, report: &mut Value) {
    for finding in report["findings"].as_array_mut().into_iter().flatten() {
        name_home_of(world, finding);
    }
}

fn name_home_of(world: &World, finding: &mut Value) {
    let Some(command) = finding.get("command").and_then(Value::as_str) else {
        return;
    };
    if let Some(rest) = command.strip_prefix("wharf ") {
        finding["command"] = json!(format!("{} {rest}", world.paths.wharf()));
    }
}

/// The sum first, then what is wrong, then the rest in brief.
fn in_full(world: &World, report: &Report, all: bool) -> String {
    let mut blocks = vec![match report.findings.len() {
        0 => "nothing is wrong".to_owned(),
        1 => "1 thing is wrong".to_owned(),
        number => format!("{number} things are wrong"),
    }];
    blocks.extend(report.findings.iter().map(block));
    if all {
        let width = report
            .checks
            .iter()
            .map(|check| check.what.chars().count())
            .max()
            .unwrap_or(0);
        let line =
            |check: &Check| format!("{:5}  {:width$}  {}", check.mark, check.what, check.text);
        let lines: Vec<String> = report.checks.iter().map(line).collect();
        blocks.push(lines.join("\n"));
    } else {
        blocks.push(in_brief(world, &report.checks));
    }
    blocks.retain(|block| !block.is_empty());
    blocks.join("\n\n")
}

fn in_brief(world: &World, checks: &[Check]) -> String {
    let of = |mark: &str| -> Vec<&str> {
        let those = checks.iter().filter(|check| check.mark == mark);
        those.map(|check| check.what.as_str()).collect()
    };
    let line = |label: &str, names: Vec<&str>| {
        (!names.is_empty()).then(|| format!("{label}{}", names.join(", ")))
    };
    let lines = [
        line("fine       ", of("ok")),
        line("not there  ", of("note")),
    ];
    let mut lines: Vec<String> = lines.into_iter().flatten().collect();
    if !lines.is_empty() {
        lines.push(format!("`{} doctor --all` shows each", world.paths.wharf()));
    }
    lines.join("\n")
}

/// One finding.
fn block(finding: &Finding) -> String {
    let about = finding.server.iter().map(|server| format!("{server}: "));
    let head = format!(
        "{} {}{} ({})",
        finding.code,
        about.collect::<String>(),
        finding.title,
        finding.certainty
    );
    let mut lines = vec![head];
    let mut line = |label: &str, words: &str| {
        let words = words.replace('\n', "\n         ");
        lines.push(format!("  {label:6} {words}"));
    };
    line("cause", &finding.cause);
    if let Some(evidence) = finding
        .evidence
        .as_ref()
        .filter(|seen| **seen != finding.cause)
    {
        line("seen", evidence);
    }
    line("fix", &finding.fix);
    if let Some(command) = &finding.command {
        line("run", command);
    }
    lines.join("\n")
}

fn of_trial(name: &str, trial: &Trial, findings: &[Finding]) -> String {
    let sum = match (trial.running, trial.tools, &trial.finding) {
        (Some(pid), ..) => format!("{name} runs (pid {pid}), so it was not started"),
        (None, Some(tools), _) => format!("{name} works, {}", count(tools, "tool")),
        (None, None, Some(_)) => format!("{name} does not work"),
        (None, None, None) => format!("{name} was not started"),
    };
    let steps = trial.steps.iter().map(|step| {
        let failed = if step.ok { "" } else { "  failed" };
        format!("{:10}  {} ms{failed}", step.what, step.millis)
    });
    let steps: Vec<String> = steps.collect();
    let mut blocks = vec![sum, steps.join("\n")];
    blocks.extend(findings.iter().map(block));
    if !trial.stderr.is_empty() {
        blocks.push(format!("what it wrote\n  {}", trial.stderr.join("\n  ")));
    }
    blocks.retain(|block| !block.is_empty());
    blocks.join("\n\n")
}

/// A finding in two lines of talk, where another command has failed.
pub(super) fn tell(world: &World, finding: &Value) -> Result<(), Failure> {
    let mut finding = finding.clone();
    name_home_of(world, &mut finding);
    let finding: Finding = read(&finding)?;
    let Finding {
        code,
        cause,
        fix,
        command,
        ..
    } = finding;
    if code == "WF-000" {
        return Ok(());
    }
    world.ui.say(&format!("cause: {cause} ({code})"));
    match command {
        Some(command) => world.ui.hint(&format!("{fix}: `{command}`")),
        None => world.ui.hint(&fix),
    }
    Ok(())
}
