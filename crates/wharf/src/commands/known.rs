//! `wharf add NAME` where NAME is a known server: what it is, what it needs, and connecting to it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use wharfinger::manage::check_name;
use wharfinger::registry::{Answers, Entry, FillError, fill};
use wharfinger_daemon::client::ClientError;

use super::add::{options, told};
use super::registry::Known;
use super::test::Trial;
use super::{part, read};
use crate::World;
use crate::cli::Add;
use crate::failure::{Exit, Failure};
use crate::paths::quoted;
use crate::ui::read_input;

/// Credentials by key, on their way into the vault.
type Secrets = BTreeMap<String, String>;

pub(super) async fn run(world: &World, add: &Add) -> Result<(), Failure> {
    let value = look_up(world, add).await?;
    let known: Known = read(&value["entry"])?;
    let suggested = value["suggestedName"].as_str().unwrap_or(&known.name);
    let name = add.known.called.as_deref().unwrap_or(suggested);
    check_name(name).map_err(|why| {
        Failure::usage(format!("the name `{name}` {why}")).hint("`--as NAME` gives it another one")
    })?;
    if add.known.location.as_deref() == Some("container") {
        return Err(
            Failure::usage("containers come later, so it can only run on this machine")
                .hint("leave `--location` out to run it here"),
        );
    }
    introduce(world, &known, value["from"] == "official");
    if let Some(text) = known.deprecated.as_ref().filter(|_| !add.known.deprecated) {
        return Err(Failure::failed(format!(
            "`{}` should not be installed any more: {text}",
            known.name
        ))
        .hint("`--deprecated` adds it all the same"));
    }
    let taken = is_taken(world, name).await?;
    if taken && !add.replace {
        return Err(
            Failure::failed(format!("there is a server `{name}` already")).hint(
                "`--as NAME` gives this one another name, `--replace` takes the place of that one",
            ),
        );
    }
    let entry: Entry = serde_json::from_value(value["entry"].clone()).map_err(|error| {
        Failure::failed("the daemon's answer is not understood").because(&error)
    })?;
    let set = set_already(world, name).await?;
    let (answers, secrets) = ask(world, add, &known, &set)?;
    let filled = fill(&entry, &answers).map_err(|error| refused(&error))?;
    let mut server = filled.as_object().cloned().unwrap_or_default();
    plain_variables(add, &known, &mut server);
    options(add, &mut server);
    save(world, add, name, server, secrets).await
}

async fn look_up(world: &World, add: &Add) -> Result<Value, Failure> {
    let path = format!("/api/registry/{}", part(&add.name));
    let client = world.paths.client();
    let asking = client.get(&path);
    match world.ui.wait("looking it up", asking).await {
        Err(ClientError::Refused {
            status: 404,
            title,
            hint,
            ..
        }) => {
            let failure =
                Failure::told(Exit::Usage, format!("{title}, and there is nothing to run"));
            let command = format!(
                "`wharf add {} -- npx -y some-mcp-server` adds a command",
                quoted(&add.name)
            );
            Err(failure.hint(match hint {
                Some(hint) if hint.ends_with('?') => format!("{hint} {command}"),
                Some(hint) => format!("{hint}; {command}"),
                None => command,
            }))
        }
        answer => Ok(answer?),
    }
}

/// What somebody should know before it is there.
fn introduce(world: &World, known: &Known, official: bool) {
    let ui = &world.ui;
    let badges: Vec<String> = std::iter::once(known.source())
        .chain(known.badges.clone())
        .collect();
    ui.say(&format!(
        "{}: {} ({})",
        known.display_name,
        known.description,
        badges.join(", ")
    ));
    if official {
        ui.say("it is from the official registry, where anybody can publish");
    }
    if let Some(needs) = &known.prerequisite {
        ui.say(needs);
    }
    for file in known.credential_files.iter().filter(|file| file.required) {
        ui.say(&format!("it looks for its credentials in {}", file.path));
    }
    if let Some(sign_in) = known.sign_in() {
        ui.say(&format!(
            "it signs in with a browser before it is of use: `{sign_in}`"
        ));
    }
    if let Some(advisory) = &known.advisory {
        ui.warn(advisory);
    }
    ui.say(match known.location.as_str() {
        "remote" => "it runs elsewhere, and sees what agents send it",
        "host" => "it runs on this machine, with your rights",
        _ => "it runs on this machine, with your rights; a container would keep it apart, and comes later",
    });
}

async fn is_taken(world: &World, name: &str) -> Result<bool, Failure> {
    let value = world.paths.client().get("/api/servers").await?;
    let servers = value["servers"].as_array().into_iter().flatten();
    Ok(servers.into_iter().any(|server| server["name"] == name))
}

/// Keys of that server whose values are in the vault.
async fn set_already(world: &World, name: &str) -> Result<BTreeSet<String>, Failure> {
    let value = world.paths.client().get("/api/secrets").await?;
    let rows = value["secrets"].as_array().into_iter().flatten();
    let own =
        rows.filter(|row| row["server"] == name && row["agent"].is_null() && row["set"] == true);
    Ok(own
        .filter_map(|row| row["key"].as_str().map(str::to_owned))
        .collect())
}

/// Everything that has to be filled in and given: from options, then from whoever sits there.
fn ask(
    world: &World,
    add: &Add,
    known: &Known,
    set: &BTreeSet<String>,
) -> Result<(Answers, Secrets), Failure> {
    let mut answers: Answers = add.known.args.iter().cloned().collect();
    if let Some(name) = answers
        .keys()
        .find(|name| !known.placeholders.contains(name))
    {
        let (name, known) = (name.clone(), known.placeholders.clone());
        return Err(refused(&FillError::Unknown { name, known }));
    }
    let mut secrets = given(world, add, known)?;
    let open_args: Vec<&String> = known
        .placeholders
        .iter()
        .filter(|part| !answers.contains_key(*part))
        .collect();
    let wanted = known.required_env_keys.iter();
    let open_keys: Vec<&String> = wanted
        .filter(|key| !secrets.contains_key(*key) && !set.contains(*key))
        .collect();
    let mut missing = (vec![], vec![]);
    let lost = |error: std::io::Error| Failure::failed("can't read the answer").because(&error);
    for name in open_args {
        let answer = if world.ui.can_ask() {
            world.ui.ask_line(&format!("{name}:")).map_err(lost)?
        } else {
            String::new()
        };
        if answer.is_empty() {
            missing.0.push(name.clone());
        } else {
            answers.insert(name.clone(), answer);
        }
    }
    for key in open_keys {
        let answer = if world.ui.can_ask() {
            world
                .ui
                .ask_secret(&format!("{key} (not shown):"))
                .map_err(lost)?
        } else {
            String::new()
        };
        if answer.is_empty() {
            missing.1.push(key.clone());
        } else {
            secrets.insert(key.clone(), answer);
        }
    }
    if missing.0.is_empty() && missing.1.is_empty() {
        return Ok((answers, secrets));
    }
    let (args, keys) = missing;
    let names = args
        .iter()
        .chain(&keys)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    let mut words = vec!["wharf".to_owned(), "add".into(), quoted(&add.name)];
    words.extend(
        add.known
            .called
            .iter()
            .flat_map(|name| ["--as".to_owned(), quoted(name)]),
    );
    let filled = add
        .known
        .args
        .iter()
        .map(|(name, value)| format!("--arg {}", quoted(&format!("{name}={value}"))));
    words.extend(filled);
    words.extend(args.iter().map(|name| format!("--arg {name}=VALUE")));
    words.extend(
        add.known
            .secret_file
            .iter()
            .map(|(key, file)| format!("--secret-file {}", quoted(&format!("{key}={file}")))),
    );
    words.extend(keys.iter().map(|key| format!("--secret-file {key}=FILE")));
    Err(Failure::usage(format!("`{}` needs {names}", known.name))
        .hint(format!("`{}`; `--env KEY` takes one of this shell's variables, and a FILE of `-` is standard input", words.join(" ")))
        .with("missing", json!({"args": args, "keys": keys})))
}

/// Credentials that options give: a file, standard input, or a variable of this shell.
fn given(world: &World, add: &Add, known: &Known) -> Result<Secrets, Failure> {
    let mut secrets = Secrets::new();
    let is_known = |key: &String| {
        known.required_env_keys.contains(key) || known.optional_env_keys.contains(key)
    };
    for (key, file) in &add.known.secret_file {
        if !is_known(key) {
            return Err(no_such_key(known, key));
        }
        let text = if file == "-" {
            read_input()
        } else {
            std::fs::read_to_string(file)
        };
        let text = text.map_err(|error| {
            Failure::usage(format!("can't read {key} from {file}")).because(&error)
        })?;
        secrets.insert(key.clone(), text.trim_end_matches(['\r', '\n']).to_owned());
    }
    for (key, value) in &add.env {
        match value {
            Some(value) if is_known(key) => drop(secrets.insert(key.clone(), value.clone())),
            // A variable of its own, which stands in its entry.
            Some(_) => {}
            None if is_known(key) => {
                let value = world.environment.get(key).filter(|value| !value.is_empty());
                let value = value
                    .ok_or_else(|| Failure::usage(format!("this shell has no variable `{key}`")))?;
                secrets.insert(key.clone(), value.clone());
            }
            None => return Err(no_such_key(known, key)),
        }
    }
    secrets.retain(|_, value| !value.is_empty());
    Ok(secrets)
}

fn no_such_key(known: &Known, key: &str) -> Failure {
    let keys: Vec<&str> = known
        .required_env_keys
        .iter()
        .chain(&known.optional_env_keys)
        .map(String::as_str)
        .collect();
    let failure = Failure::usage(format!("`{}` has no key `{key}`", known.name));
    match keys.as_slice() {
        [] => failure.hint(format!(
            "`--env {key}=VALUE` sets a variable that is no secret"
        )),
        keys => failure.hint(format!(
            "it has {}; `--env {key}=VALUE` sets a variable that is no secret",
            keys.join(", ")
        )),
    }
}

/// Variables that the list does not know are written as they are.
fn plain_variables(add: &Add, known: &Known, server: &mut Map<String, Value>) {
    let keys: Vec<&String> = known
        .required_env_keys
        .iter()
        .chain(&known.optional_env_keys)
        .collect();
    let plain = add.env.iter().filter(|(key, _)| !keys.contains(&key));
    for (key, value) in plain {
        let env = server.entry("env").or_insert_with(|| json!({}));
        env[key] = json!(value);
    }
}

fn refused(error: &FillError) -> Failure {
    let failure = Failure::usage(error.to_string());
    match error {
        FillError::Secret(_) => {
            failure.hint("a credential goes into a variable: `--secret-file KEY=FILE`")
        }
        FillError::Missing(_) | FillError::Unknown { .. } => failure,
    }
}

/// Credentials first, so that the entry can be connected to when it is there.
async fn save(
    world: &World,
    add: &Add,
    name: &str,
    server: Map<String, Value>,
    secrets: Secrets,
) -> Result<(), Failure> {
    let client = world.paths.client();
    for (key, value) in &secrets {
        let path = format!("/api/secrets/{}/{}", part(name), part(key));
        client.put(&path, &json!({ "value": value })).await?;
    }
    let connect = !add.known.no_connect;
    let body = json!({"servers": {name: server}, "replace": add.replace, "connect": connect});
    let what = format!("connecting to {name}");
    let value = world
        .ui
        .wait(&what, client.post("/api/servers", Some(&body)))
        .await?;
    let trial: Option<Trial> = read(&value["servers"][0]["connection"])?;
    if let Some(trial) = trial.filter(|trial| trial.success && !world.ui.json) {
        world.ui.say(&trial.steps());
    }
    told(world, &value, connect)
}
