//! `wharf import`

use std::path::Path;

use serde_json::{Map, Value, json};
use wharfinger::clients::files;
use wharfinger::clients::{CLIENTS, client, guess, read as read_client};
use wharfinger::config::{Config, load};
use wharfinger::import::{Item, Offer, Wish, plan};
use wharfinger::vault::{REDACTED, SecretNames, in_arguments, looks_secret};

use super::add::{Added, tell};
use super::clients::{because, failed, folders, reading};
use super::config::inputs;
use super::{part, read};
use crate::World;
use crate::cli;
use crate::failure::{Exit, Failure};
use crate::paths::quoted;
use crate::ui::count;

pub(super) async fn run(world: &World, import: &cli::Import) -> Result<(), Failure> {
    let offers = offers(world, import.from.as_deref())?;
    let here: Config = load(&inputs(world)?).config;
    let names = SecretNames {
        more: here.daemon.secret_variables.clone(),
    };
    let wish = Wish {
        only: &import.only,
        skip_conflicts: import.skip_conflicts,
    };
    let items = plan(&offers, &here, &names, wish);
    if let Some(missing) = import
        .only
        .iter()
        .find(|name| !items.iter().any(|i| i.found_as == **name))
    {
        return Err(Failure::told(
            Exit::Unknown,
            format!("no client has a server `{missing}`"),
        ));
    }
    if !world.ui.json {
        show(world, &offers, &items)?;
    }
    let taken: Vec<&Item> = items.iter().filter(|item| item.is_taken()).collect();
    if import.dry_run || taken.is_empty() {
        if world.ui.json {
            world
                .ui
                .answer_json(&json!({"plan": facts(&items), "added": null}))?;
        } else if taken.is_empty() {
            world.ui.say("nothing to take over");
        }
        return Ok(());
    }
    agree(world, import.yes, &taken)?;
    let added = carry_out(world, &taken).await?;
    let servers: Vec<Added> = read(&added["servers"])?;
    if world.ui.json {
        world
            .ui
            .answer_json(&json!({"plan": facts(&items), "added": added}))?;
    } else {
        tell(world, &servers, &added, true)?;
        // One that was started has said so already.
        let has_said = |item: &Item| {
            servers
                .iter()
                .any(|s| s.name == item.name && s.error.is_some())
        };
        let asks = |item: &&&Item| !item.asked.is_empty() && !has_said(item);
        for item in taken.iter().filter(asks) {
            let name = quoted(&item.name);
            world.ui.hint(&format!(
                "{} needs {}: `wharf secret set {name} {}`",
                item.name,
                item.asked.join(", "),
                quoted(&item.asked[0])
            ));
        }
        world.ui.hint("`wharf connect CLIENT` gives a client all of them by one entry; its own entries can go then");
    }
    // What does not start now is here all the same, and was told of.
    Ok(())
}

/// What was named, read.
fn offers(world: &World, from: Option<&str>) -> Result<Vec<Offer>, Failure> {
    let folders = folders(world)?;
    let shown = |file: &Path| file.display().to_string();
    match from {
        None => {
            let mut offers = vec![];
            for client in CLIENTS.iter().filter(|client| client.is_found(&folders)) {
                let file = client.file(&folders);
                match reading(client, &file, &folders) {
                    Ok(Some(reading)) => offers.push(Offer {
                        client,
                        file: shown(&file),
                        reading,
                    }),
                    Ok(None) => {}
                    Err(error) => world
                        .ui
                        .warn(&format!("{}: {}", client.id, because(&error))),
                }
            }
            Ok(offers)
        }
        Some(word) if client(word).is_some() && !word.contains('/') => {
            let client = super::clients::named(word)?;
            let file = client.file(&folders);
            let reading = reading(client, &file, &folders).map_err(|error| failed(&error))?;
            let reading = reading.ok_or_else(|| {
                Failure::failed(format!("{} has no file: {}", client.name, shown(&file)))
                    .hint("name the file instead, if it lies elsewhere")
            })?;
            Ok(vec![Offer {
                client,
                file: shown(&file),
                reading,
            }])
        }
        Some(word) => {
            let file = Path::new(word);
            let Some(text) = files::read(file).map_err(|error| failed(&error))? else {
                let known: Vec<&str> = CLIENTS.iter().map(|client| client.id).collect();
                return Err(Failure::told(
                    Exit::Unknown,
                    format!("`{word}` is neither a client nor a file"),
                )
                .hint(format!("clients are {}", known.join(", "))));
            };
            let place = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
            let client = guess(&place, &text)
                .ok_or_else(|| Failure::failed(format!("there is no server in {word}"))
                    .hint("it should have `mcpServers`, `servers`, `mcp_servers`, `context_servers`, `extensions` or `mcp`"))?;
            let home = folders.home.to_string_lossy();
            let reading = read_client(client, &text, &home)
                .map_err(|why| failed(&files::refused(file)(why)))?;
            Ok(vec![Offer {
                client,
                file: word.to_owned(),
                reading,
            }])
        }
    }
}

fn show(world: &World, offers: &[Offer], items: &[Item]) -> Result<(), Failure> {
    for offer in offers {
        for problem in &offer.reading.problems {
            world.ui.warn(&format!("{}: {problem}", offer.file));
        }
    }
    if items.is_empty() {
        return Ok(());
    }
    let row = |item: &Item| {
        let project = item.project.as_ref().map(|project| format!(" ({project})"));
        vec![
            item.found_as.clone(),
            format!("{}{}", item.client.id, project.unwrap_or_default()),
            item.action.to_string(),
            runs(item),
        ]
    };
    let rows: Vec<Vec<String>> = items.iter().map(row).collect();
    world
        .ui
        .table(&["SERVER", "FROM", "WHAT", "COMMAND"], &rows)?;
    for item in items.iter().filter(|item| item.is_taken()) {
        let keys: Vec<&str> = item
            .secrets
            .iter()
            .map(|moved| moved.key.as_str())
            .collect();
        let mut said = vec![];
        if !keys.is_empty() {
            said.push(format!("into the vault: {}", keys.join(", ")));
        }
        if !item.variables.is_empty() {
            said.push(format!("reads the daemon's {}", item.variables.join(", ")));
        }
        if !item.asked.is_empty() {
            said.push(format!("needs {}", item.asked.join(", ")));
        }
        if item.entry.get("enabled") == Some(&Value::Bool(false)) {
            said.push("stays switched off".into());
        }
        if !said.is_empty() {
            world.ui.say(&format!("{}: {}", item.name, said.join("; ")));
        }
        for remark in &item.remarks {
            world.ui.warn(&format!("{}: {remark}", item.name));
        }
    }
    Ok(())
}

/// What it would run, or where it is, without what looks secret in it.
fn runs(item: &Item) -> String {
    let text = |key: &str| item.entry.get(key).and_then(Value::as_str);
    let args = item.entry.get("args").and_then(Value::as_array);
    let words: Vec<&str> = text("command")
        .or(text("url"))
        .into_iter()
        .chain(args.into_iter().flatten().filter_map(Value::as_str))
        .collect();
    let secrets = in_arguments(words.iter().copied());
    let shown = words.iter().map(|word| {
        if looks_secret(word) || secrets.iter().any(|secret| word.contains(secret)) {
            REDACTED.to_owned()
        } else {
            quoted(word)
        }
    });
    shown.collect::<Vec<_>>().join(" ")
}

fn facts(items: &[Item]) -> Value {
    let fact = |item: &Item| {
        json!({
            "server": item.found_as, "client": item.client.id, "file": item.file,
            "project": item.project, "taken": item.is_taken(), "name": item.name,
            "what": item.action.to_string(), "entry": item.entry,
            "secrets": item.secrets.iter().map(|moved| &moved.key).collect::<Vec<_>>(),
            "needs": item.asked, "variables": item.variables, "remarks": item.remarks,
        })
    };
    items.iter().map(fact).collect()
}

fn agree(world: &World, yes: bool, taken: &[&Item]) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !world.ui.can_ask() {
        return Err(
            Failure::usage("nobody is here to be asked, so nothing was taken over")
                .hint("say `--yes`, or `--dry-run` to see what would be taken"),
        );
    }
    let question = format!(
        "take over {}, and start what is switched on once to list its tools?",
        count(taken.len(), "server")
    );
    if world.ui.ask(&question)? {
        Ok(())
    } else {
        Err(Failure::failed("nothing was taken over"))
    }
}

/// Secrets first: an entry that came before them would be started without.
async fn carry_out(world: &World, taken: &[&Item]) -> Result<Value, Failure> {
    let client = world.paths.client();
    for item in taken {
        for moved in &item.secrets {
            let path = format!("/api/secrets/{}/{}", part(&item.name), part(&moved.key));
            client.put(&path, &json!({"value": moved.value()})).await?;
        }
    }
    let servers: Map<String, Value> = taken
        .iter()
        .map(|item| (item.name.clone(), item.entry.clone().into()))
        .collect();
    let what = format!(
        "starting {} to list their tools",
        count(servers.len(), "server")
    );
    let body = json!({"servers": servers, "replace": false});
    Ok(world
        .ui
        .wait(&what, client.post("/api/servers", Some(&body)))
        .await?)
}
