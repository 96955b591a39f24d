//! `wharf clients`, and where clients are.

use std::path::{Path, PathBuf};

use serde_json::json;
use wharfinger::clients::files::{self, FileError};
use wharfinger::clients::{CLIENTS, Client, Folders, Reading, client, read};

use crate::World;
use crate::cli;
use crate::failure::{Exit, Failure};

pub(super) fn run(world: &World, clients: &cli::Clients) -> Result<(), Failure> {
    let folders = folders(world)?;
    let mut rows = vec![];
    let mut facts = vec![];
    for client in CLIENTS {
        let is_found = client.is_found(&folders);
        if !is_found && !clients.all {
            continue;
        }
        let file = client.file(&folders);
        let reading = reading(client, &file, &folders);
        let (connected, others, problem) = match &reading {
            Ok(Some(reading)) => (reading.has_ours(), reading.others(), None),
            Ok(None) => (false, 0, None),
            Err(error) => (false, 0, Some(because(error))),
        };
        facts.push(json!({
            "client": client.id, "name": client.name, "found": is_found, "file": file,
            "connected": connected, "servers": others, "problem": problem,
        }));
        let state = match (is_found, connected, &problem) {
            (false, ..) => "not found",
            (true, _, Some(_)) => "can't be read",
            (true, true, None) => "connected",
            (true, false, None) => "-",
        };
        rows.push(vec![
            client.id.to_owned(),
            state.to_owned(),
            others.to_string(),
            file.display().to_string(),
        ]);
    }
    if world.ui.json {
        return Ok(world.ui.answer_json(&json!({"clients": facts}))?);
    }
    if rows.is_empty() {
        world.ui.say("no MCP client is found here");
        world
            .ui
            .hint("`wharf clients --all` lists those that are known");
        return Ok(());
    }
    world
        .ui
        .table(&["CLIENT", "WHARF", "SERVERS", "FILE"], &rows)?;
    for fact in &facts {
        if let (Some(id), Some(problem)) = (fact["client"].as_str(), fact["problem"].as_str()) {
            world.ui.warn(&format!("{id}: {problem}"));
        }
    }
    Ok(())
}

/// What a client's file has; `None` where there is no file.
pub(super) fn reading(
    client: &Client,
    file: &Path,
    folders: &Folders,
) -> Result<Option<Reading>, FileError> {
    let Some(text) = files::read(file)? else {
        return Ok(None);
    };
    let home = folders.home.to_string_lossy();
    read(client, &text, &home)
        .map(Some)
        .map_err(files::refused(file))
}

/// The folders of whoever runs this.
pub(super) fn folders(world: &World) -> Result<Folders, Failure> {
    let home = world.user.as_deref().ok_or_else(|| {
        Failure::usage("there is no home folder in which clients could be").hint("set `HOME`")
    })?;
    let mut folders = Folders::of(home);
    let variable = |name: &str| {
        let value = world
            .environment
            .get(name)
            .filter(|value| !value.is_empty());
        value.map(PathBuf::from).filter(|path| path.is_absolute())
    };
    if let Some(config) = variable("XDG_CONFIG_HOME") {
        if folders.programs == folders.config {
            folders.programs.clone_from(&config);
        }
        folders.config = config;
    }
    folders.codex = variable("CODEX_HOME");
    folders.claude = variable("CLAUDE_CONFIG_DIR");
    Ok(folders)
}

/// The client of that name.
pub(super) fn named(id: &str) -> Result<&'static Client, Failure> {
    client(id).ok_or_else(|| {
        let known: Vec<&str> = CLIENTS.iter().map(|client| client.id).collect();
        Failure::told(Exit::Unknown, format!("there is no client `{id}`"))
            .hint(format!("known are {}", known.join(", ")))
    })
}

/// A failure about a file, with its cause and the way out.
pub(super) fn failed(error: &FileError) -> Failure {
    let failure = Failure::failed(error.to_string());
    let failure = match std::error::Error::source(error) {
        Some(cause) => failure.because(cause),
        None => failure,
    };
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// The same on one line.
pub(super) fn because(error: &FileError) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
