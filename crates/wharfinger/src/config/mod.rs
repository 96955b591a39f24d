//! Configuration: its sources and their order, presets, `${…}`, validation, differences, edits.
//!
//! Takes text, gives values and problems; only `files` touches the disk. What becomes of a bad entry (refuse the
//! start, or keep the last good one) is decided by the story `change`.

mod daemon;
mod difference;
mod edit;
mod entry;
mod environment;
pub mod files;
mod pasted;
mod playwright;
mod reader;
mod tree;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use daemon::{Daemon, SETTINGS, Setting};
pub use difference::{Difference, difference};
pub use edit::{EditError, remove, set, set_enabled, set_version};
pub use entry::{FIELDS, Field};
pub use pasted::{Pasted, PastedError, pasted};
pub(crate) use playwright::delivery;
pub use playwright::{DEFAULT_PACKAGE, Playwright};

use crate::model::{Place, Problem, ServerEntry, ServerName, Severity, Source, nearest};
use reader::{Manners, Members, error, warning};
use tree::{Node, Value};

/// A file's name and text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// As complaints name it.
    pub name: Arc<str>,
    /// Its content.
    pub text: String,
}

/// Everything configuration is made of.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// `config.json`, when there is one.
    pub host: Option<File>,
    /// `settings.json`, when there is one.
    pub settings: Option<File>,
    /// The environment of whoever starts us: `Mcp__Servers__…` and `PLAYWRIGHT_…` are settings (V4, V30), and
    /// `${env:NAME}` of entries is looked up in it. An embedder who wants neither leaves it empty.
    pub environment: BTreeMap<String, String>,
    /// Servers for this run alone, after all others.
    pub run: Vec<ServerEntry>,
}

/// Servers in source order (V3), and the daemon's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Unique names, in the order in which they win clashes and list their tools.
    pub servers: Vec<ServerEntry>,
    /// See [`Daemon`].
    pub daemon: Daemon,
    /// See [`Playwright`].
    pub playwright: Playwright,
    /// Entries that can't be used, by name, each with its first complaint; their names are taken all the same.
    pub broken: Vec<(ServerName, Source, Problem)>,
}

impl Config {
    /// The server of that name.
    pub fn server(&self, name: &str) -> Option<&ServerEntry> {
        self.servers
            .iter()
            .find(|entry| entry.name.as_str() == name)
    }
}

/// What could be read, and everything that is wrong with the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// What could be read.
    pub config: Config,
    /// In the order of the sources.
    pub problems: Vec<Problem>,
    /// `settings.json` as a whole could not be read.
    pub settings_unreadable: bool,
}

impl Loaded {
    /// Whether anything is wrong enough to refuse a start (V23).
    pub fn has_errors(&self) -> bool {
        self.problems
            .iter()
            .any(|problem| problem.severity == Severity::Error)
    }
}

/// Reads all sources (V3–V10). Never fails: what can't be used is left out and complained about.
pub fn load(inputs: &Inputs) -> Loaded {
    let mut loaded = Loaded::default();
    let host = host(inputs, &mut loaded);
    let preset = loaded.config.playwright.entry();
    let settings = settings(inputs, &mut loaded);
    let candidates = host
        .into_iter()
        .chain(preset.map(|entry| Candidate {
            key: "mcp.playwright".into(),
            entry: Ok(entry),
        }))
        .chain(settings)
        .chain(inputs.run.iter().cloned().map(|entry| Candidate {
            key: entry.name.to_string(),
            entry: Ok(entry),
        }));
    for candidate in candidates {
        keep_first(candidate, inputs, &mut loaded);
    }
    loaded
}

/// An entry and where it was read, or the name and the complaint of one that can't be used.
struct Candidate {
    key: String,
    entry: Result<ServerEntry, (ServerName, Source, Problem)>,
}

/// The first of a name wins whole; a broken one takes its name too (V10, V12).
fn keep_first(candidate: Candidate, inputs: &Inputs, loaded: &mut Loaded) {
    let (name, place) = match &candidate.entry {
        Ok(entry) => (&entry.name, &entry.place),
        Err((name, _, problem)) => (name, &problem.place),
    };
    if let Some(winner) = loaded.config.server(name.as_str()) {
        let problem = match &candidate.entry {
            Ok(entry) => entry::shadowed(entry, &candidate.key, winner),
            Err(_) => warning(
                place,
                &candidate.key,
                format!("ignored, since `{name}` is defined before"),
            ),
        };
        loaded.problems.push(problem);
        return;
    }
    if loaded.config.broken.iter().any(|(taken, ..)| taken == name) {
        let message = format!("ignored, since `{name}` is defined before, though wrongly");
        loaded
            .problems
            .push(warning(place, &candidate.key, message));
        return;
    }
    match candidate.entry {
        Ok(entry) => {
            let set = |variable: &str| inputs.environment.contains_key(variable);
            if entry.enabled {
                loaded
                    .problems
                    .extend(entry::unset_variables(&entry, &candidate.key, set));
            }
            loaded.config.servers.push(entry);
        }
        Err(broken) => loaded.config.broken.push(broken),
    }
}

/// `config.json` under the environment.
fn host(inputs: &Inputs, loaded: &mut Loaded) -> Vec<Candidate> {
    let default = File {
        name: "config.json".into(),
        text: String::new(),
    };
    let file = inputs.host.as_ref().unwrap_or(&default);
    let mut root = match tree::parse(&file.name, &file.text) {
        Ok(root) => root,
        Err(error) => {
            let place = Place::File {
                file: file.name.clone(),
                line: error.line,
            };
            loaded.problems.push(entry::syntax(&place, &error.message));
            return vec![];
        }
    };
    environment::overlay(&mut root, &inputs.environment);
    let problems = &mut loaded.problems;
    let Some(mut top) = open(&root, "", problems) else {
        return vec![];
    };
    let mcp = top.take("mcp").and_then(|node| open(node, "mcp", problems));
    if let Some(mut daemon) = top
        .take("daemon")
        .and_then(|node| open(node, "daemon", problems))
    {
        loaded.config.daemon = daemon::read(&mut daemon);
        let known: Vec<_> = SETTINGS.iter().map(|setting| setting.name).collect();
        problems.extend(daemon.finish(&known));
    }
    problems.extend(top.finish(&["mcp", "daemon"]));
    let mut candidates = vec![];
    let mut playwright = None;
    if let Some(mut mcp) = mcp {
        playwright = mcp
            .take("playwright")
            .and_then(|node| open(node, "mcp.playwright", problems));
        if let Some(servers) = mcp.take("servers") {
            candidates = entries(
                servers,
                "mcp.servers",
                Source::Host,
                Manners::Host,
                problems,
            );
            // By name, not by position (V5).
            candidates.sort_by(|a, b| {
                let name = |c: &Candidate| match &c.entry {
                    Ok(entry) => entry.name.to_string(),
                    Err((name, ..)) => name.to_string(),
                };
                let (a, b) = (name(a), name(b));
                a.to_lowercase().cmp(&b.to_lowercase()).then(a.cmp(&b))
            });
        }
        problems.extend(mcp.finish(&["servers", "playwright"]));
    }
    let mut complaints = vec![];
    let mut complain = |place: &Place, key: &str, message| {
        complaints.push(error(place, key, message));
    };
    loaded.config.playwright =
        Playwright::read(playwright.as_mut(), &inputs.environment, &mut complain);
    problems.extend(complaints);
    problems.extend(
        playwright
            .into_iter()
            .flat_map(|rest| rest.finish(&playwright::SETTINGS)),
    );
    candidates
}

fn open<'a>(node: &'a Node, path: &str, problems: &mut Vec<Problem>) -> Option<Members<'a>> {
    if node.value == Value::Null {
        return None;
    }
    Members::of(node, path, Manners::Host)
        .map_err(|problem| problems.push(problem))
        .ok()
}

/// Members of `settings.json` that we read; others belong to other programs.
const SETTINGS_MEMBERS: [&str; 1] = ["mcpServers"];

/// `mcpServers` of `settings.json`, in file order (V8).
fn settings(inputs: &Inputs, loaded: &mut Loaded) -> Vec<Candidate> {
    let Some(file) = &inputs.settings else {
        return vec![];
    };
    let root = match tree::parse(&file.name, &file.text) {
        Ok(root) => root,
        Err(error) => {
            let place = Place::File {
                file: file.name.clone(),
                line: error.line,
            };
            loaded.problems.push(entry::syntax(&place, &error.message));
            loaded.settings_unreadable = true;
            return vec![];
        }
    };
    let Value::Object(members) = &root.value else {
        let message = format!("must be an object, not {}", root.value.kind());
        loaded.problems.push(error(&root.place, "(top)", message));
        loaded.settings_unreadable = true;
        return vec![];
    };
    for (key, node) in members
        .iter()
        .filter(|(key, _)| !SETTINGS_MEMBERS.contains(&key.as_str()))
    {
        let near = nearest(key, SETTINGS_MEMBERS);
        loaded.problems.push(Problem {
            hint: near.map(|name| format!("did you mean `{name}`?")),
            ..warning(&node.place, key, "unknown member, kept but not used".into())
        });
    }
    match members
        .iter()
        .rev()
        .find(|(key, _)| key == SETTINGS_MEMBERS[0])
    {
        Some((key, node)) if node.value != Value::Null => entries(
            node,
            key,
            Source::Settings,
            Manners::Shared,
            &mut loaded.problems,
        ),
        _ => vec![],
    }
}

fn entries(
    node: &Node,
    path: &str,
    source: Source,
    manners: Manners,
    problems: &mut Vec<Problem>,
) -> Vec<Candidate> {
    let Value::Object(members) = &node.value else {
        let message = format!("must be an object of servers, not {}", node.value.kind());
        problems.push(error(&node.place, path, message));
        return vec![];
    };
    let mut candidates = vec![];
    for (name, node) in members {
        let key = format!("{path}.{name}");
        let (read, found) = entry::read(name, node, &key, source, manners);
        let first = found
            .iter()
            .find(|problem| problem.severity == Severity::Error)
            .cloned();
        problems.extend(found);
        let entry = match (read, first, ServerName::new(name)) {
            (Some(entry), ..) => Ok(entry),
            (None, Some(problem), Ok(name)) => Err((name, source, problem)),
            _ => continue,
        };
        candidates.push(Candidate { key, entry });
    }
    candidates
}

#[cfg(test)]
mod tests;
