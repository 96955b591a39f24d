//! `wharf secret`: keys of servers, sealed. Values come in by a prompt, standard input or a file, and never go out.

use std::io::{self, IsTerminal};
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use wharfinger::model::expand::take;

use super::{part, read};
use crate::World;
use crate::cli::secret::{ListSecrets, RemoveSecret, Secret, SetSecret};
use crate::failure::{Exit, Failure};
use crate::ui::{count, read_input};

pub(super) async fn run(world: &World, command: Secret) -> Result<(), Failure> {
    match command {
        Secret::Set(set) => self::set(world, &set).await,
        Secret::List(list) => self::list(world, &list).await,
        Secret::Remove(remove) => self::remove(world, &remove).await,
        Secret::Import(import) => self::import(world, import.yes).await,
        Secret::Unlock => unlock(world).await,
    }
}

#[derive(Deserialize)]
struct Secrets {
    vault: Vault,
    secrets: Vec<Known>,
}

#[derive(Deserialize)]
struct Vault {
    state: String,
    key: Option<String>,
    reason: Option<String>,
}

#[derive(Deserialize)]
struct Known {
    server: String,
    key: String,
    agent: Option<String>,
    required: bool,
    set: bool,
}

#[derive(Deserialize)]
struct Change {
    used: bool,
    running: bool,
    attached: Option<bool>,
}

async fn set(world: &World, set: &SetSecret) -> Result<(), Failure> {
    let SetSecret {
        server,
        key,
        agent,
        file,
    } = set;
    // Nobody is asked for a value that nobody takes.
    let client = world.paths.client();
    client.get("/api/status").await?;
    let value = value(&format!("{key} of {server}"), file.as_deref())?;
    let change = put(world, server, key, &value, agent.as_deref()).await?;
    if world.ui.json {
        return Ok(world.ui.answer_json(&change)?);
    }
    let change: Change = read(&change)?;
    let whose = of(agent.as_deref());
    world.ui.answer(&format!("set {key} of {server}{whose}"))?;
    if let (Some(agent), Some(true)) = (agent, change.attached) {
        world.ui.say(&format!("attached {server} to {agent}"));
    }
    if !change.used {
        world
            .ui
            .warn(&format!("no variable of {server} takes {key}"));
        world.ui.hint(&format!(
            "write `\"{key}\": \"${{secret:{key}}}\"` into the `env` of its entry in settings.json"
        ));
    }
    restart(world, server, change.running);
    Ok(())
}

/// Hands a value to the daemon.
pub(super) async fn put(
    world: &World,
    server: &str,
    key: &str,
    value: &str,
    agent: Option<&str>,
) -> Result<Value, Failure> {
    let mut body = json!({ "value": value });
    if let Some(agent) = agent {
        body["agent"] = json!(agent);
    }
    let path = format!("/api/secrets/{}/{}", part(server), part(key));
    Ok(world.paths.client().put(&path, &body).await?)
}

async fn list(world: &World, list: &ListSecrets) -> Result<(), Failure> {
    let mut value = world.paths.client().get("/api/secrets").await?;
    if let (Some(server), Some(secrets)) = (&list.server, value["secrets"].as_array_mut()) {
        secrets.retain(|secret| secret["server"] == **server);
    }
    if world.ui.json {
        return Ok(world.ui.answer_json(&value)?);
    }
    let Secrets { vault, secrets } = read(&value)?;
    if secrets.is_empty() {
        world.ui.say("no secrets yet");
        world.ui.hint("`wharf secret set SERVER KEY` sets one");
    } else {
        let row = |secret: &Known| {
            let state = match (secret.set, secret.required) {
                (true, _) => "set",
                (false, true) => "needed",
                (false, false) => "not set",
            };
            vec![
                secret.server.clone(),
                secret.key.clone(),
                secret.agent.clone().unwrap_or_else(|| "-".into()),
                state.to_owned(),
            ]
        };
        let rows: Vec<_> = secrets.iter().map(row).collect();
        world
            .ui
            .table(&["SERVER", "KEY", "AGENT", "STATE"], &rows)?;
    }
    tell(world, &vault);
    Ok(())
}

/// What is out of the ordinary with the vault.
fn tell(world: &World, vault: &Vault) {
    if let Some(reason) = &vault.reason {
        world
            .ui
            .warn(&format!("the vault is {}: {reason}", vault.state));
    }
}

async fn remove(world: &World, remove: &RemoveSecret) -> Result<(), Failure> {
    let RemoveSecret { server, key, agent } = remove;
    let of_agent = agent
        .as_ref()
        .map_or_else(String::new, |agent| format!("?agent={}", part(agent)));
    let path = format!("/api/secrets/{}/{}{of_agent}", part(server), part(key));
    let value = world.paths.client().delete(&path).await?;
    if world.ui.json {
        return Ok(world.ui.answer_json(&value)?);
    }
    let change: Change = read(&value)?;
    let whose = of(agent.as_deref());
    world
        .ui
        .answer(&format!("removed {key} of {server}{whose}"))?;
    if let (Some(agent), Some(false)) = (agent, change.attached) {
        world.ui.say(&format!(
            "detached {server} from {agent}, which has no key of it left"
        ));
    }
    restart(world, server, change.running);
    Ok(())
}

fn of(agent: Option<&str>) -> String {
    agent.map_or_else(String::new, |agent| format!(" for {agent}"))
}

fn restart(world: &World, server: &str, running: bool) {
    if running {
        world
            .ui
            .say(&format!("{server} runs, and keeps what it has"));
        world
            .ui
            .hint(&format!("`wharf restart {server}` applies it"));
    }
}

#[derive(Deserialize)]
struct Plain {
    server: String,
    member: String,
    key: String,
    stays: Option<String>,
}

async fn import(world: &World, yes: bool) -> Result<(), Failure> {
    let client = world.paths.client();
    let path = "/api/secrets/import";
    let mut answer = client.post(path, Some(&json!({ "apply": false }))).await?;
    let found: Vec<Plain> = read(&answer["secrets"])?;
    let taken = found.iter().filter(|one| one.stays.is_none()).count();
    if !world.ui.json {
        for one in &found {
            let Plain {
                server,
                member,
                key,
                stays,
            } = one;
            match stays {
                None => world
                    .ui
                    .answer(&format!("{server}: {member} becomes {}", take(key, true)))?,
                Some(why) => world
                    .ui
                    .warn(&format!("{server}: {member} stays, since {why}")),
            }
        }
    }
    if taken > 0 && (yes || agreed(world, taken)?) {
        answer = client.post(path, Some(&json!({ "apply": true }))).await?;
        world
            .ui
            .say(&format!("{} moved into the vault", count(taken, "secret")));
    }
    if world.ui.json {
        return Ok(world.ui.answer_json(&answer)?);
    }
    if found.is_empty() {
        world.ui.say("no secret stands plain in settings.json");
    }
    Ok(())
}

fn agreed(world: &World, taken: usize) -> Result<bool, Failure> {
    if !world.ui.can_ask() {
        world.ui.hint("`wharf secret import --yes` does it");
        return Ok(false);
    }
    let question = format!("move {} into the vault?", count(taken, "secret"));
    world
        .ui
        .ask(&question)
        .map_err(|error| Failure::failed("can't ask on this terminal").because(&error))
}

async fn unlock(world: &World) -> Result<(), Failure> {
    let client = world.paths.client();
    let Secrets { vault, .. } = read(&client.get("/api/secrets").await?)?;
    let value = match (vault.state.as_str(), vault.key.as_deref()) {
        ("unlocked", _) => json!({ "vault": { "state": vault.state, "key": vault.key } }),
        ("absent", _) | (_, Some("passphrase")) => {
            let passphrase = new_passphrase(&vault)?;
            let body = json!({ "passphrase": passphrase });
            client.post("/api/secrets/unlock", Some(&body)).await?
        }
        _ => client.post("/api/secrets/unlock", None).await?,
    };
    if world.ui.json {
        return Ok(world.ui.answer_json(&value)?);
    }
    Ok(world.ui.answer("the vault is unlocked")?)
}

/// After the start of a daemon that could not ask for itself; nobody has to know the passphrase right now.
pub(super) async fn unlock_if_locked(world: &World) -> Result<(), Failure> {
    let client = world.paths.client();
    let Secrets { vault, .. } = read(&client.get("/api/secrets").await?)?;
    if vault.state != "locked" {
        return Ok(());
    }
    let passphrase = prompt("the passphrase of the vault (empty for later)")?;
    if !passphrase.is_empty() {
        let body = json!({ "passphrase": passphrase });
        client.post("/api/secrets/unlock", Some(&body)).await?;
    }
    Ok(())
}

/// A new one is asked for twice: what was mistyped could never be opened.
fn new_passphrase(vault: &Vault) -> Result<String, Failure> {
    let passphrase = value("the passphrase of the vault", None)?;
    if vault.state == "absent" && io::stdin().is_terminal() {
        let again = value("it once more", None)?;
        if again != passphrase {
            return Err(Failure::usage("the two are not the same"));
        }
    }
    Ok(passphrase)
}

/// A value: from a file, from a terminal without showing it, else from standard input. One line end is dropped.
pub(super) fn value(what: &str, file: Option<&Path>) -> Result<String, Failure> {
    let mut value = match file {
        Some(file) => std::fs::read_to_string(file).map_err(|error| {
            Failure::usage(format!("can't read {}", file.display())).because(&error)
        })?,
        None if io::stdin().is_terminal() => prompt(what)?,
        None => read_input()
            .map_err(|error| Failure::usage("can't read standard input").because(&error))?,
    };
    if value.ends_with('\n') {
        value.pop();
        if value.ends_with('\r') {
            value.pop();
        }
    }
    if value.is_empty() {
        return Err(Failure::usage(format!("{what} is empty")));
    }
    Ok(value)
}

/// Asks on the terminal, without showing what is typed.
pub(super) fn prompt(what: &str) -> Result<String, Failure> {
    rpassword::prompt_password(format!("{what}: ")).map_err(|error| {
        if error.kind() == io::ErrorKind::Interrupted {
            return Failure::Known(Exit::Interrupted);
        }
        Failure::failed("can't ask on this terminal").because(&error)
    })
}
