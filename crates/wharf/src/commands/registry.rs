//! `wharf search` and `wharf registry`: servers that are known.

use serde::Deserialize;
use serde_json::{Value, json};
use wharfinger_daemon::client::ClientError;
use wharfinger_daemon::known_servers;

use super::{part, read};
use crate::World;
use crate::cli::{Registry, Search};
use crate::failure::{Exit, Failure};
use crate::paths::quoted;
use crate::ui::count;

/// A known server, as the API tells it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Known {
    pub(super) name: String,
    pub(super) display_name: String,
    pub(super) description: String,
    #[serde(default)]
    pub(super) badges: Vec<String>,
    pub(super) needs: Option<String>,
    pub(super) prerequisite: Option<String>,
    pub(super) advisory: Option<String>,
    pub(super) deprecated: Option<String>,
    #[serde(default)]
    pub(super) placeholders: Vec<String>,
    #[serde(default)]
    pub(super) required_env_keys: Vec<String>,
    #[serde(default)]
    pub(super) optional_env_keys: Vec<String>,
    #[serde(default)]
    auth_args: Vec<String>,
    #[serde(default)]
    auth: bool,
    #[serde(default)]
    pub(super) credential_files: Vec<CredentialFile>,
    npm_package: Option<String>,
    pypi_package: Option<String>,
    url: Option<String>,
    version: Option<String>,
    repo: Option<String>,
    pub(super) location: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct CredentialFile {
    pub(super) path: String,
    #[serde(default)]
    pub(super) required: bool,
}

impl Known {
    /// The command that signs in, where it has to.
    pub(super) fn sign_in(&self) -> Option<String> {
        let runner = match (&self.npm_package, &self.pypi_package) {
            (Some(package), _) => format!("npx -y {package}"),
            (None, Some(package)) => format!("uvx {package}"),
            (None, None) => return None,
        };
        let words = self
            .auth_args
            .iter()
            .map(|word| format!(" {}", quoted(word)));
        self.auth.then(|| runner + &words.collect::<String>())
    }

    /// What runs, in a few words.
    pub(super) fn source(&self) -> String {
        let at = |mark: &str| {
            self.version
                .as_ref()
                .map(|v| format!("{mark}{v}"))
                .unwrap_or_default()
        };
        match (&self.npm_package, &self.pypi_package, &self.url) {
            (Some(package), ..) => format!("npm {package}{}", at("@")),
            (None, Some(package), _) => format!("PyPI {package}{}", at("==")),
            (None, None, url) => url.clone().unwrap_or_default(),
        }
    }
}

/// What a daemon that runs says of the list, or what lies in the home.
async fn list(world: &World, query: &str) -> Result<Value, Failure> {
    match world
        .paths
        .client()
        .get(&format!("/api/registry{query}"))
        .await
    {
        Err(ClientError::NotRunning { .. }) => Ok(known_servers(world.paths.home())),
        answer => Ok(answer?),
    }
}

pub(super) async fn search(world: &World, search: &Search) -> Result<(), Failure> {
    let words = search.words.join(" ");
    let query = |from: &str| format!("/api/registry?q={}&from={from}", part(&words));
    let client = world.paths.client();
    if !client.is_running().await {
        return offline(world, &words);
    }
    if world.ui.json {
        let value = client
            .get(&query(if search.offline { "list" } else { "all" }))
            .await?;
        return Ok(world.ui.answer_json(&value)?);
    }
    // The list is there at once; the official registry may take its time.
    let value = client.get(&query("list")).await?;
    let known: Vec<Known> = read(&value["entries"])?;
    table(world, &known)?;
    if search.offline {
        return found(world, &words, known.len());
    }
    let query = query("official");
    let asking = client.get(&query);
    let value = world
        .ui
        .wait("asking the official registry", asking)
        .await?;
    let official = &value["official"];
    let servers: Vec<Official> = read(&json!(
        official["servers"].as_array().cloned().unwrap_or_default()
    ))?;
    if let Some(problem) = official["problem"].as_str() {
        world.ui.warn(problem);
        world.ui.hint("`--offline` looks in the list alone");
    }
    if !servers.is_empty() {
        if !known.is_empty() {
            world.ui.answer("")?;
        }
        let rows: Vec<Vec<String>> = servers.iter().map(Official::row).collect();
        world
            .ui
            .table(&["OFFICIAL REGISTRY", "RUNS", "DESCRIPTION"], &rows)?;
    }
    found(world, &words, known.len() + servers.len())
}

/// Without a daemon: what lies in the home, else the list in the program.
fn offline(world: &World, words: &str) -> Result<(), Failure> {
    let known = wharfinger_daemon::search_known_servers(world.paths.home(), words);
    if world.ui.json {
        return Ok(world.ui.answer_json(&known)?);
    }
    let known: Vec<Known> = read(&known["entries"])?;
    table(world, &known)?;
    world
        .ui
        .say("the official registry was not asked, since no daemon runs");
    found(world, words, known.len())
}

fn found(world: &World, words: &str, count: usize) -> Result<(), Failure> {
    if count > 0 {
        world
            .ui
            .hint("`wharf add NAME` adds one; `wharf registry show NAME` shows it first");
        return Ok(());
    }
    world.ui.say(&format!("nothing is known for `{words}`"));
    world
        .ui
        .hint("`wharf registry list` lists all that are known");
    Err(Failure::Known(Exit::Failed))
}

/// A server of the official registry.
#[derive(Deserialize)]
struct Official {
    name: String,
    description: String,
    entry: Option<Known>,
    problem: Option<String>,
}

impl Official {
    fn row(&self) -> Vec<String> {
        let runs = match (&self.entry, &self.problem) {
            (Some(entry), _) => entry.source(),
            (None, Some(problem)) => format!("not here: {problem}"),
            (None, None) => String::new(),
        };
        vec![self.name.clone(), runs, self.description.clone()]
    }
}

fn table(world: &World, known: &[Known]) -> Result<(), Failure> {
    if known.is_empty() {
        return Ok(());
    }
    let row = |known: &Known| {
        vec![
            known.name.clone(),
            known.badges.join(", "),
            known.description.clone(),
            known.needs.clone().unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<String>> = known.iter().map(row).collect();
    Ok(world
        .ui
        .table(&["NAME", "BADGES", "DESCRIPTION", "NEEDS"], &rows)?)
}

pub(super) async fn registry(world: &World, command: &Registry) -> Result<(), Failure> {
    match command {
        Registry::List => {
            let value = list(world, "").await?;
            if world.ui.json {
                return Ok(world.ui.answer_json(&value)?);
            }
            let known: Vec<Known> = read(&value["entries"])?;
            table(world, &known)?;
            tell(world, &value);
            Ok(())
        }
        Registry::Show(show) => self::show(world, &show.name).await,
        Registry::Refresh => {
            let client = world.paths.client();
            let fetching = client.post("/api/registry/refresh", None);
            let value = world.ui.wait("fetching the list", fetching).await?;
            if world.ui.json {
                world.ui.answer_json(&value)?;
            } else if value["problem"].is_null() {
                let servers = usize::try_from(value["count"].as_u64().unwrap_or_default());
                world.ui.answer(&format!(
                    "{} known",
                    count(servers.unwrap_or_default(), "server")
                ))?;
            }
            tell(world, &value);
            if value["problem"].is_null() {
                Ok(())
            } else {
                Err(Failure::Known(Exit::Failed))
            }
        }
    }
}

/// Where the list comes from, and what is wrong with it.
fn tell(world: &World, value: &Value) {
    let updated = value["updatedAt"].as_str().unwrap_or("an unknown day");
    let origin = match value["origin"].as_str() {
        Some("remote") => "fetched",
        Some("cache") => "fetched earlier",
        _ => "the one in the program",
    };
    if !world.ui.json {
        world.ui.say(&format!("the list of {updated}, {origin}"));
    }
    if let Some(dropped) = value["dropped"].as_u64().filter(|dropped| *dropped > 0) {
        world
            .ui
            .warn(&format!("{dropped} of its entries can't be used"));
    }
    if let Some(problem) = value["problem"].as_str() {
        world.ui.warn(&format!("no newer list: {problem}"));
    }
}

async fn show(world: &World, name: &str) -> Result<(), Failure> {
    let path = format!("/api/registry/{}", part(name));
    let value = match world.paths.client().get(&path).await {
        Err(ClientError::NotRunning { .. }) => {
            let known = wharfinger_daemon::known_server(world.paths.home(), name);
            known.ok_or_else(|| {
                Failure::told(Exit::Unknown, format!("no server is known as `{name}`"))
                    .hint("`wharf registry list` lists them")
            })?
        }
        answer => answer?,
    };
    if world.ui.json {
        return Ok(world.ui.answer_json(&value)?);
    }
    let known: Known = read(&value["entry"])?;
    let mut lines = vec![];
    let mut line = |label: &str, value: &str| {
        if !value.is_empty() {
            lines.push(format!("{label:14}{value}"));
        }
    };
    line("name", &known.name);
    line(
        "is",
        &format!("{}: {}", known.display_name, known.description),
    );
    line("runs", &known.source());
    line("badges", &known.badges.join(", "));
    line("source", known.repo.as_deref().unwrap_or_default());
    line("needs", known.prerequisite.as_deref().unwrap_or_default());
    line("keys", &known.required_env_keys.join(", "));
    line("optional keys", &known.optional_env_keys.join(", "));
    line("to fill in", &known.placeholders.join(", "));
    for file in &known.credential_files {
        line(
            "file",
            &format!(
                "{}{}",
                file.path,
                if file.required { "" } else { " (it writes it)" }
            ),
        );
    }
    line("signs in", &known.sign_in().unwrap_or_default());
    line(
        "best in",
        match known.location.as_str() {
            "host" => "this machine",
            "remote" => "runs elsewhere",
            _ => "a container (which comes later)",
        },
    );
    line("advisory", known.advisory.as_deref().unwrap_or_default());
    line(
        "deprecated",
        known.deprecated.as_deref().unwrap_or_default(),
    );
    Ok(world.ui.answer(&lines.join("\n"))?)
}
