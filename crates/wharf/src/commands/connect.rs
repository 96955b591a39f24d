//! `wharf connect` and `wharf disconnect`

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use wharfinger::clients::files;
use wharfinger::clients::{self, CLIENTS, Change, Client, Edited, Endpoint, Refused, is_only_us};
use wharfinger::model::AgentName;
use wharfinger::vault::REDACTED;
use wharfinger_daemon::client::ClientError;

use super::clients::{failed, folders, named};
use super::part;
use crate::World;
use crate::cli;
use crate::failure::{Exit, Failure};

/// A client's file that may change.
struct Target {
    client: &'static Client,
    file: PathBuf,
    /// Its text; `None` where there is no file.
    before: Option<String>,
}

/// A file and what is to become of it.
struct Plan {
    target: Target,
    edited: Edited,
    /// What takes its place instead of the edited text.
    restored: Restored,
}

/// How a file becomes what it was before our entry.
#[derive(PartialEq, Eq)]
enum Restored {
    /// By taking our entry out.
    Edited,
    /// By what was kept.
    Kept(String),
    /// By removing it, since it is all ours.
    Removed,
}

pub(super) async fn connect(world: &World, connect: &cli::Connect) -> Result<(), Failure> {
    let endpoint = endpoint(world, &connect.agent, connect.http).await?;
    let mut plans = vec![];
    let mut failures = vec![];
    for target in targets(world, &connect.which)? {
        match target.and_then(|target| plan_connect(target, &endpoint)) {
            Ok(plan) => plans.push(plan),
            Err(failure) => failures.push(failure),
        }
    }
    let secret = match &endpoint {
        Endpoint::Stdio { .. } => None,
        Endpoint::Http { token, .. } => Some(token.as_str()),
    };
    let changing = plans.iter().any(|plan| plan.edited.is_changed());
    show(world, &plans, secret);
    if secret.is_some() && changing {
        world.ui.warn(
            "the agent's token will stand in that file; whoever reads it can act as the agent",
        );
    }
    let agreed = connect.dry_run || !changing || agree(world, connect.yes)?;
    let writes = agreed && !connect.dry_run;
    for plan in plans
        .iter()
        .filter(|plan| writes && plan.edited.is_changed())
    {
        if let Err(error) = write(plan) {
            failures.push(error);
        }
    }
    tell(world, &plans, "connected", secret, connect.dry_run)?;
    if !connect.dry_run && !world.ui.json {
        for plan in plans.iter().filter(|plan| plan.edited.is_changed()) {
            world.ui.hint(&format!(
                "{}: {}",
                plan.target.client.name, plan.target.client.reload
            ));
        }
    }
    end(world, failures)
}

pub(super) fn disconnect(world: &World, disconnect: &cli::Disconnect) -> Result<(), Failure> {
    let mut plans = vec![];
    let mut failures = vec![];
    for target in targets(world, &disconnect.which)? {
        match target.and_then(plan_disconnect) {
            Ok(plan) => plans.push(plan),
            Err(failure) => failures.push(failure),
        }
    }
    if disconnect.dry_run {
        show(world, &plans, None);
    } else {
        for plan in plans.iter().filter(|plan| plan.edited.is_changed()) {
            if let Err(error) = write(plan) {
                failures.push(error);
            }
        }
    }
    tell(world, &plans, "disconnected", None, disconnect.dry_run)?;
    let stays = |plan: &&Plan| plan.edited.is_changed() && plan.restored == Restored::Edited;
    for plan in plans.iter().filter(stays) {
        let backup = files::backup_of(&plan.target.file);
        if backup.exists() && !world.ui.json {
            let id = plan.target.client.id;
            world.ui.say(&format!(
                "{id}: as it was before `wharf connect` it stays in {}",
                backup.display()
            ));
        }
    }
    end(world, failures)
}

/// The files that were named. One that can't be read does not keep the others from it.
fn targets(world: &World, which: &cli::Which) -> Result<Vec<Result<Target, Failure>>, Failure> {
    let folders = folders(world)?;
    let clients: Vec<&'static Client> = match &which.client {
        Some(id) => vec![named(id)?],
        None => CLIENTS
            .iter()
            .filter(|client| client.is_found(&folders))
            .collect(),
    };
    if clients.is_empty() && !world.ui.json {
        world.ui.say("no MCP client is found here");
        world
            .ui
            .hint("name one: `wharf clients --all` lists those that are known");
    }
    let mut targets = vec![];
    for client in clients {
        let file = match &which.project {
            None => client.file(&folders),
            Some(project) => match client.project_file(&absolute(project)?) {
                Some(file) => file,
                // Of all of them, those that have one.
                None if which.all => continue,
                None => {
                    return Err(Failure::usage(format!(
                        "{} has no file of a project",
                        client.name
                    ))
                    .hint(format!("`wharf connect {}` is for all of them", client.id)));
                }
            },
        };
        let inside = which
            .project
            .as_deref()
            .map(|project| files::check_inside(&file, project));
        let target = inside
            .unwrap_or(Ok(()))
            .and_then(|()| files::read(&file))
            .map(|before| Target {
                client,
                file,
                before,
            })
            .map_err(|error| failed(&error));
        targets.push(target);
    }
    Ok(targets)
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    let path = std::path::absolute(path).map_err(|error| {
        Failure::usage(format!("`{}` is no folder", path.display())).because(&error)
    })?;
    if path.is_dir() {
        Ok(path)
    } else {
        Err(Failure::usage(format!("`{}` is no folder", path.display())))
    }
}

fn plan_connect(target: Target, endpoint: &Endpoint) -> Result<Plan, Failure> {
    let before = target.before.as_deref().unwrap_or_default();
    let edited = clients::connect(target.client, before, endpoint).map_err(refused(&target))?;
    if edited.is_changed() && matches!(endpoint, Endpoint::Http { .. }) {
        files::check_private(&target.file).map_err(|error| failed(&error))?;
    }
    Ok(Plan {
        target,
        edited,
        restored: Restored::Edited,
    })
}

fn plan_disconnect(target: Target) -> Result<Plan, Failure> {
    let before = target.before.as_deref().unwrap_or_default();
    let edited = clients::disconnect(target.client, before).map_err(refused(&target))?;
    let kept = files::kept(&target.file);
    let restored = match kept {
        Some(kept) if is_only_us(target.client, &kept, before) => Restored::Kept(kept),
        None if is_only_us(target.client, "", before) => Restored::Removed,
        Some(_) | None => Restored::Edited,
    };
    Ok(Plan {
        target,
        edited,
        restored,
    })
}

fn refused(target: &Target) -> impl FnOnce(Refused) -> Failure {
    let file = target.file.clone();
    move |why| failed(&files::refused(&file)(why))
}

/// Carries a plan out, unless the file has changed since it was read.
fn write(plan: &Plan) -> Result<(), Failure> {
    let Target {
        client,
        file,
        before,
    } = &plan.target;
    let now = files::read(file).map_err(|error| failed(&error))?;
    if now != *before {
        return Err(Failure::failed(format!(
            "{} has just been changed by somebody else",
            file.display()
        ))
        .hint(format!("close {} and try again", client.name)));
    }
    let done = match &plan.restored {
        Restored::Removed => files::remove(file),
        Restored::Kept(kept) => {
            files::write(file, kept).and_then(|()| files::remove(&files::backup_of(file)))
        }
        Restored::Edited => keep(plan).and_then(|()| files::write(file, &plan.edited.text)),
    };
    done.map_err(|error| failed(&error))
}

/// Keeps the file as it is without our entry.
fn keep(plan: &Plan) -> Result<(), files::FileError> {
    let Target {
        client,
        file,
        before,
    } = &plan.target;
    match before {
        // Nothing to go back to, and what is kept of an older one would lead elsewhere.
        None => files::remove(&files::backup_of(file)),
        Some(before) => {
            let has_ours =
                clients::disconnect(client, before).is_ok_and(|edited| edited.is_changed());
            if has_ours {
                Ok(())
            } else {
                files::keep(file, before)
            }
        }
    }
}

/// Where our entry leads.
async fn endpoint(world: &World, agent: &str, http: bool) -> Result<Endpoint, Failure> {
    let unknown = || {
        Failure::told(Exit::Unknown, format!("there is no agent `{agent}`"))
            .hint("`wharf agent list` lists them, `wharf agent new` makes one")
    };
    let asked = world
        .paths
        .client()
        .get(&format!("/api/agents/{}/endpoint", part(agent)))
        .await;
    match asked {
        Ok(answer) if http => {
            let text = |key: &str| answer[key].as_str().unwrap_or_default().to_owned();
            return Ok(Endpoint::Http {
                url: text("url"),
                token: text("token"),
            });
        }
        Err(ClientError::Refused { status: 404, .. }) => return Err(unknown()),
        // A command needs no daemon: it starts one.
        Ok(_) => {}
        Err(ClientError::NotRunning { .. }) if !http => {}
        Err(error) => return Err(error.into()),
    }
    if AgentName::new(agent).is_err() {
        return Err(unknown());
    }
    // A client starts it from an environment of its own, so it names the home.
    let home = world.paths.home().display().to_string();
    let args = ["--home", &home, "stdio", "--agent", agent]
        .map(str::to_owned)
        .to_vec();
    Ok(Endpoint::Stdio {
        command: world.program.display().to_string(),
        args,
    })
}

/// What would change, on standard error; only what we write or take away, since what stands around it may be secret.
fn show(world: &World, plans: &[Plan], secret: Option<&str>) {
    if world.ui.json {
        return;
    }
    for plan in plans.iter().filter(|plan| plan.edited.is_changed()) {
        let before = plan.target.before.as_deref().unwrap_or_default();
        let is_new = if plan.target.before.is_none() {
            " (new)"
        } else {
            ""
        };
        world
            .ui
            .say(&format!("{}{is_new}", plan.target.file.display()));
        for change in &plan.edited.changes {
            let line = before[..change.range.start].matches('\n').count() + 1;
            world.ui.say(&format!("@@ line {line} @@"));
            for (sign, text) in [
                ("-", &before[change.range.clone()]),
                ("+", change.text.as_str()),
            ] {
                for line in hidden(text, secret)
                    .lines()
                    .filter(|line| !line.trim().is_empty())
                {
                    world.ui.say(&format!("{sign} {line}"));
                }
            }
        }
    }
}

fn hidden(text: &str, secret: Option<&str>) -> String {
    match secret {
        Some(secret) if !secret.is_empty() => text.replace(secret, REDACTED),
        Some(_) | None => text.to_owned(),
    }
}

/// Whether to go on: said beforehand, or when asked.
fn agree(world: &World, yes: bool) -> Result<bool, Failure> {
    if yes {
        return Ok(true);
    }
    if !world.ui.can_ask() {
        return Err(
            Failure::usage("nobody is here to be asked, so nothing was written")
                .hint("say `--yes`, or `--dry-run` to see what would be written"),
        );
    }
    if world.ui.ask("write it?")? {
        Ok(true)
    } else {
        Err(Failure::failed("nothing was written"))
    }
}

/// What came of it.
fn tell(
    world: &World,
    plans: &[Plan],
    done: &str,
    secret: Option<&str>,
    dry_run: bool,
) -> Result<(), Failure> {
    if world.ui.json {
        let facts: Vec<Value> = plans.iter().map(|plan| fact(plan, secret)).collect();
        return Ok(world
            .ui
            .answer_json(&json!({"dryRun": dry_run, "clients": facts}))?);
    }
    for plan in plans {
        let client = plan.target.client;
        let text = match (plan.edited.is_changed(), dry_run) {
            (true, true) => format!("{}: would be {done}", client.id),
            (true, false) => format!("{}: {done}", client.id),
            (false, _) => format!("{}: {done} already", client.id),
        };
        world.ui.answer(&text)?;
    }
    Ok(())
}

fn fact(plan: &Plan, secret: Option<&str>) -> Value {
    let before = plan.target.before.as_deref().unwrap_or_default();
    let change = |change: &Change| {
        json!({
            "line": before[..change.range.start].matches('\n').count() + 1,
            "removed": hidden(&before[change.range.clone()], secret),
            "added": hidden(&change.text, secret),
        })
    };
    json!({
        "client": plan.target.client.id,
        "file": plan.target.file,
        "changed": plan.edited.is_changed(),
        "restored": plan.restored != Restored::Edited,
        "changes": plan.edited.changes.iter().map(change).collect::<Vec<_>>(),
        "reload": plan.target.client.reload,
    })
}

/// One failure is told as itself; of several, the others before it.
fn end(world: &World, mut failures: Vec<Failure>) -> Result<(), Failure> {
    let Some(last) = failures.pop() else {
        return Ok(());
    };
    for failure in failures {
        world.ui.fail(failure);
    }
    Err(last)
}
