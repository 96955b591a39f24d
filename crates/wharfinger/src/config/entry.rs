//! One server's entry: its fields, their defaults, what each may be (V11, V21, V22).

use std::time::Duration;

use super::playwright::runs_playwright;
use super::reader::{Manners, Members, error, warning};
use super::tree::{Node, Value};
use crate::model::expand;
use crate::model::{
    Package, PackageKind, Place, Problem, Roots, Scope, ServerEntry, ServerName, Source,
    StderrLevel, Transport, is_blocked,
};

/// A field of an entry, for help, the reference page and complaints.
pub struct Field {
    /// In camelCase.
    pub name: &'static str,
    /// What it may hold.
    pub kind: &'static str,
    /// As it would be written.
    pub default: &'static str,
    /// One sentence.
    pub about: &'static str,
}

const fn field(
    name: &'static str,
    kind: &'static str,
    default: &'static str,
    about: &'static str,
) -> Field {
    Field {
        name,
        kind,
        default,
        about,
    }
}

/// Every field of a server's entry.
pub const FIELDS: &[Field] = &[
    field(
        "command",
        "string",
        "required, unless it is a package or remote",
        "Program to run, found on `PATH`; `${workspace}` is replaced",
    ),
    field(
        "npmPackage",
        "string",
        "none",
        "Package of npm to install and run, in place of a command; see servers.md",
    ),
    field(
        "pypiPackage",
        "string",
        "none",
        "Package of Python's index to install and run, in place of a command",
    ),
    field(
        "version",
        "string",
        "the newest when it is installed",
        "Version of the package",
    ),
    field(
        "with",
        "list of strings",
        "[]",
        "Requirements beside a package of Python, `mcp<2` say",
    ),
    field(
        "allowScripts",
        "boolean",
        "false",
        "When true, scripts of the package and of what it needs may run while it is installed",
    ),
    field(
        "args",
        "list of strings",
        "[]",
        "Its arguments; `${workspace}` is replaced",
    ),
    field(
        "env",
        "object of strings or null",
        "{}",
        "Variables for it; `${workspace}`, `${env:NAME}` and `${secret:KEY}` are replaced, `null` removes one",
    ),
    field(
        "cwd",
        "string or null",
        "null",
        "Working directory, the agent's workspace unless set and relative to it",
    ),
    field(
        "toolPrefix",
        "string",
        "\"\"",
        "Put before the name of each of its tools; letters, digits, `_` and `-`, not starting with `mcp__`",
    ),
    field(
        "enabled",
        "boolean",
        "true",
        "When false it is not started and offers no tools, but keeps its name",
    ),
    field(
        "parallel",
        "boolean",
        "false",
        "When true its calls may overlap; else they run one after the other",
    ),
    field(
        "startupTimeoutSeconds",
        "number above 0",
        "60",
        "Limit for starting it and listing its tools",
    ),
    field(
        "callTimeoutSeconds",
        "number above 0",
        "120",
        "Limit for one call, start-up not included",
    ),
    field(
        "idleTimeoutSeconds",
        "number, 0 or above",
        "1800",
        "Stopped after this long without a call; 0 never. Servers of an agent of the agent profile run while a session of it is open",
    ),
    field(
        "stderrLevel",
        "Trace, Debug, Information, Warning, Error, Critical or None",
        "Warning",
        "Level at which the lines of its standard error are logged",
    ),
    field(
        "promptSection",
        "string or null",
        "null",
        "Text for the model while its tools are active",
    ),
    field(
        "scope",
        "agent or session",
        "agent",
        "Who shares a running instance: the sessions of an agent, or nobody",
    ),
    field(
        "roots",
        "none, workspace or client",
        "workspace; none where a filesystem server is given directories",
        "Folders it is told of when its client declares roots: none, the agent's workspace, or the client's own",
    ),
    field(
        "inheritEnv",
        "list of strings",
        "[]",
        "Host variables it inherits beyond the usual ones, `DOCKER_HOST` say",
    ),
    field(
        "agentVisible",
        "boolean",
        "false",
        "When true, agents of the agent profile may attach it by themselves",
    ),
    field(
        "location",
        "host",
        "host",
        "Where it runs: on this machine, with the rights of whoever runs the daemon; containers come later",
    ),
    field(
        "type",
        "string",
        "stdio",
        "Kept for other programs; `http` and `sse` entries need `url`",
    ),
    field(
        "url",
        "string",
        "none",
        "Address of a remote server; kept, but remote servers come later",
    ),
];

pub(super) const DEFAULT_STARTUP: Duration = Duration::from_secs(60);
const DEFAULT_CALL: Duration = Duration::from_secs(120);
const DEFAULT_IDLE: Duration = Duration::from_secs(1800);

/// Names of [`FIELDS`].
pub(super) fn field_names() -> Vec<&'static str> {
    FIELDS.iter().map(|field| field.name).collect()
}

/// Reads one entry. `None` when it can't be used; the problems say why.
pub(super) fn read(
    key: &str,
    node: &Node,
    path: &str,
    source: Source,
    manners: Manners,
) -> (Option<ServerEntry>, Vec<Problem>) {
    let mut members = match Members::of(node, path, manners) {
        Ok(members) => members,
        Err(problem) => return (None, vec![problem]),
    };
    let name = ServerName::new(key);
    if let Err(why) = &name {
        members.complain("", None, format!("the server's name {key:?} {why}"));
    }
    let named = package(&mut members);
    let transport = transport(&mut members, named.as_ref());
    let package = named.flatten();
    let env = members.variables("env");
    for (name, _, place) in env.iter().filter(|(name, ..)| is_blocked(name)) {
        let message = "no server may have this variable, so it is left out".to_owned();
        members.warn(&format!("env.{name}"), place, message);
    }
    wrong_secrets(&mut members, &env, transport.as_ref());
    let tool_prefix = members.text("toolPrefix");
    if let Some((prefix, place)) = &tool_prefix
        && let Some(why) = wrong_prefix(prefix)
    {
        members.complain("toolPrefix", Some(place), format!("{why}, not {prefix:?}"));
    }
    let mut enabled = members.bool("enabled");
    // What other programs write for `enabled: false`.
    if manners == Manners::Shared && enabled.is_none() {
        enabled = members.bool("disabled").map(|disabled| !disabled);
    }
    location(&mut members);
    let roots = members.choice(
        "roots",
        &[
            ("none", Roots::None),
            ("workspace", Roots::Workspace),
            ("client", Roots::Client),
        ],
    );
    let roots = roots.unwrap_or_else(|| match &transport {
        // Roots would take the place of the directories that its owner gave it.
        Some(Transport::Stdio { command, args, .. }) if names_directories(command, args) => {
            Roots::None
        }
        Some(_) | None => Roots::default(),
    });
    let browser = match &transport {
        Some(Transport::Stdio { command, args, .. }) => runs_playwright(command, args),
        Some(Transport::Http { .. }) | None => false,
    };
    let entry = ServerEntry {
        installed_by: None,
        package,
        agent_visible: members.bool("agentVisible").unwrap_or(false),
        roots,
        name: name.unwrap_or_else(|_| ServerName::new("unnamed").expect("a valid name")),
        source,
        place: members.place().clone(),
        transport: transport.unwrap_or(Transport::Http { url: String::new() }),
        inherit_env: members.texts("inheritEnv").unwrap_or_default(),
        tool_prefix: tool_prefix.map(|(prefix, _)| prefix).unwrap_or_default(),
        enabled: enabled.unwrap_or(true),
        parallel: members.bool("parallel").unwrap_or(false),
        startup_timeout: members
            .seconds("startupTimeoutSeconds", false)
            .unwrap_or(DEFAULT_STARTUP),
        call_timeout: members
            .seconds("callTimeoutSeconds", false)
            .unwrap_or(DEFAULT_CALL),
        idle_timeout: Some(
            members
                .seconds("idleTimeoutSeconds", true)
                .unwrap_or(DEFAULT_IDLE),
        )
        .filter(|limit| !limit.is_zero()),
        stderr_level: members
            .choice("stderrLevel", &StderrLevel::ALL)
            .unwrap_or_default(),
        prompt_section: members.text("promptSection").map(|(text, _)| text),
        scope: members
            .choice(
                "scope",
                &[("agent", Scope::Agent), ("session", Scope::Session)],
            )
            .unwrap_or_default(),
        browser,
        env: env
            .into_iter()
            .map(|(key, value, _)| (key, value))
            .collect(),
    };
    let problems = members.finish(&field_names());
    let usable = !problems
        .iter()
        .any(|p| p.severity == crate::model::Severity::Error);
    (usable.then_some(entry), problems)
}

/// What can only be said of a package.
const OF_PACKAGE: [&str; 3] = ["version", "with", "allowScripts"];

/// The package that an entry names: `None` where it names none, `Some(None)` where it can't be that one.
#[expect(
    clippy::option_option,
    reason = "one that names a wrong package has named one"
)]
fn package(members: &mut Members<'_>) -> Option<Option<Package>> {
    let npm = members.text("npmPackage");
    let pypi = members.text("pypiPackage");
    let (key, kind, named) = match (npm, pypi) {
        (Some((_, place)), Some(_)) => {
            let message = "an entry is one package, of npm or of Python".to_owned();
            members.complain("pypiPackage", Some(&place), message);
            return Some(None);
        }
        (Some(named), None) => ("npmPackage", PackageKind::Npm, named),
        (None, Some(named)) => ("pypiPackage", PackageKind::Pypi, named),
        (None, None) => {
            for key in OF_PACKAGE {
                let said = members.take(key);
                if let Some(node) = said.filter(|node| node.value != Value::Null) {
                    members.warn(key, &node.place, "counts for packages alone".into());
                }
            }
            return None;
        }
    };
    let mut package = match Package::parse(kind, &named.0) {
        Ok(package) => package,
        Err(why) => {
            members.complain(key, Some(&named.1), why);
            return Some(None);
        }
    };
    if let Some((version, place)) = members.text("version") {
        match package.clone().at(&version) {
            Ok(pinned) => package = pinned,
            Err(why) => members.complain("version", Some(&place), why),
        }
    }
    if let Some(with) = members.texts("with") {
        match package.clone().with(with) {
            Ok(more) => package = more,
            Err(why) => members.complain("with", None, why),
        }
    }
    package.allow_scripts = members.bool("allowScripts").unwrap_or(false);
    Some(Some(package))
}

fn transport(members: &mut Members<'_>, package: Option<&Option<Package>>) -> Option<Transport> {
    let kind = members.text("type");
    let url = members.text("url");
    let command = members.text("command");
    let args = members.texts("args").unwrap_or_default();
    let cwd = members
        .text("cwd")
        .map(|(text, _)| text)
        .filter(|text| !text.is_empty());
    if let Some(package) = package {
        if let Some((_, place)) = command.as_ref().or(url.as_ref()) {
            let message = "an entry with a package has no `command` and no `url`".to_owned();
            members.complain("", Some(place), message);
        }
        let package = package.as_ref()?;
        let (command, args) = package.fetched(&args);
        return Some(Transport::Stdio { command, args, cwd });
    }
    match (command, url) {
        (Some((command, place)), _) if command.trim().is_empty() => {
            members.complain("command", Some(&place), "must not be empty".into());
            None
        }
        (Some((command, place)), _) => {
            let odd = std::iter::once(&command)
                .chain(&args)
                .any(|text| text.contains('\0'));
            if odd {
                members.complain(
                    "command",
                    Some(&place),
                    "must not contain a NUL character".into(),
                );
            }
            Some(Transport::Stdio { command, args, cwd })
        }
        (None, Some((url, place))) => {
            members.warn(
                "url",
                &place,
                "remote servers come later; the entry is kept".into(),
            );
            // Kept with it.
            drop(members.variables("headers"));
            Some(Transport::Http { url })
        }
        (None, None) => {
            let needs = match &kind {
                Some((kind, _)) if kind != "stdio" => "`url` is required",
                _ => "`command` is required",
            };
            members.complain("", None, needs.into());
            None
        }
    }
}

/// Complaints about secrets that are taken by no proper name, or where none are: everybody can read a command line.
fn wrong_secrets(
    members: &mut Members<'_>,
    env: &[(String, Option<String>, Place)],
    transport: Option<&Transport>,
) {
    let values = env
        .iter()
        .filter_map(|(name, value, place)| Some((name, value.as_deref()?, place)));
    for (name, value, place) in values {
        for wrong in expand::wrong_secrets(value) {
            let message = format!(
                "`{wrong}` names no secret: letters, digits, `_`, `-` and `.` make a key, as in `${{secret:API_KEY}}`"
            );
            members.complain(&format!("env.{name}"), Some(place), message);
        }
    }
    let Some(Transport::Stdio { command, args, cwd }) = transport else {
        return;
    };
    let texts = std::iter::once(command).chain(args).chain(cwd);
    let taken: Vec<String> = texts
        .flat_map(|text| expand::secrets(text))
        .map(|one| expand::take(&one.key, one.required))
        .collect();
    if let Some(first) = taken.first() {
        let message = format!(
            "`{first}` is replaced in the values of `env` alone, since every program of this machine can read a command \
             line"
        );
        members.complain("args", None, message);
    }
}

/// Where it is to run: here, which need not be said.
fn location(members: &mut Members<'_>) {
    if let Some((location, place)) = members.text("location") {
        match location.as_str() {
            "host" => {}
            "container" => members.complain(
                "location",
                Some(&place),
                "containers come later; until then `host` is where it can run".into(),
            ),
            other => {
                let message = format!("must be `host`, not {other:?}");
                members.complain("location", Some(&place), message);
            }
        }
    }
}

/// Whether a command line is one of a filesystem server that is given the directories it may use.
fn names_directories(command: &str, args: &[String]) -> bool {
    let words: Vec<&str> = std::iter::once(command)
        .chain(args.iter().map(String::as_str))
        .collect();
    let server = words
        .iter()
        .position(|word| word.to_ascii_lowercase().contains("filesystem"));
    let is_path = |word: &&str| {
        ["/", "~", ".", "${workspace}"]
            .iter()
            .any(|start| word.starts_with(start))
    };
    server.is_some_and(|at| words[at + 1..].iter().any(is_path))
}

fn wrong_prefix(prefix: &str) -> Option<&'static str> {
    if !prefix
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
    {
        Some("may hold only letters, digits, `_` and `-`")
    } else if prefix.starts_with("mcp__") {
        Some("may not start with `mcp__`")
    } else if prefix.len() > 40 {
        Some("must leave room for the tool's name, 40 characters at most")
    } else {
        None
    }
}

/// Warnings about `${env:NAME}` of variables that are not set (V15).
pub(super) fn unset_variables(
    entry: &ServerEntry,
    path: &str,
    is_set: impl Fn(&str) -> bool,
) -> Vec<Problem> {
    let copies = entry
        .env
        .iter()
        .filter_map(|(key, value)| Some((key, value.as_deref()?)));
    copies
        .flat_map(|(key, value)| {
            expand::variables(value)
                .into_iter()
                .map(move |name| (key, name))
        })
        .filter(|(_, name)| !is_set(name))
        .map(|(key, name)| unset(&entry.place, &format!("{path}.env.{key}"), &name))
        .collect()
}

fn unset(place: &Place, key: &str, name: &str) -> Problem {
    Problem {
        hint: Some(format!(
            "set `{name}` where the daemon is started, then start it again"
        )),
        ..warning(
            place,
            key,
            format!("`${{env:{name}}}` is not set, so the value is empty"),
        )
    }
}

/// The complaint about a name that a source before this one has taken (V10).
pub(super) fn shadowed(entry: &ServerEntry, path: &str, winner: &ServerEntry) -> Problem {
    warning(
        &entry.place,
        path,
        format!(
            "ignored, since `{}` is defined by {}, which comes first",
            entry.name, winner.place
        ),
    )
}

/// The complaint about a file that is not JSON.
pub(super) fn syntax(place: &Place, message: &str) -> Problem {
    error(place, "(syntax)", message.to_owned())
}
