//! What was found out about the machine and the home, and what is wrong with it.

use serde::Serialize;

use super::known::row;
use super::{Certainty, Command, Finding, Symptom, What, diagnose};
use crate::model::{Problem, Severity};

/// What was found out. Everything is as it was seen at one moment.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = DoctorFacts))]
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// The home folder.
    pub home: HomeFacts,
    /// The daemon, where one runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daemon: Option<Daemon>,
    /// Where a daemon listens, or would.
    pub port: Port,
    /// The `PATH` that servers are given.
    pub path: String,
    /// Programs that many servers need.
    pub runtimes: Vec<Runtime>,
    /// What the entries of servers run, and whether it is there.
    pub programs: Vec<Program>,
    /// Complaints about the configuration.
    pub problems: Vec<Problem>,
    /// Where secrets are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vault: Option<Vault>,
}

/// The home folder.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = DoctorHomeFacts))]
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four facts that have nothing to do with each other"
)]
pub struct HomeFacts {
    /// Where it is.
    pub path: String,
    /// Whether it is there; a daemon makes it.
    pub exists: bool,
    /// Its permissions, `700`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Why it can't be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unusable: Option<String>,
    /// It belongs to somebody else.
    pub foreign: bool,
    /// Room on its disk, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free: Option<u64>,
    /// Private files that others may open.
    pub open: Vec<OpenFile>,
    /// A socket is there, and nobody answers.
    pub stale_socket: bool,
    /// The socket's path is too long for this system.
    pub socket_too_long: bool,
    /// Where it is.
    pub socket: String,
    /// The process that holds the home, as far as it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_by: Option<u32>,
    /// Why the database can't be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// How far files are from the future, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_the_future: Option<u64>,
    /// Since when and why nothing may start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub halted: Option<String>,
}

/// A private file that others may open.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = DoctorOpenFile))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OpenFile {
    /// Which.
    pub path: String,
    /// Its permissions, `644`.
    pub mode: String,
}

/// A daemon that runs.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = DoctorDaemon))]
#[derive(Clone, Debug, Serialize)]
pub struct Daemon {
    /// Of the program.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Where it listens.
    pub url: String,
}

/// An address to listen on.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = DoctorPort))]
#[derive(Clone, Debug, Default, Serialize)]
pub struct Port {
    /// Address and port.
    pub address: String,
    /// Why a daemon could not listen there; nothing where it could, or does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken: Option<String>,
}

/// A program that many servers need.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = DoctorRuntime))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Runtime {
    /// How it is called.
    pub name: String,
    /// Where it was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What it says of its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Why it does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What the entry of a server runs.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = DoctorProgram))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Program {
    /// Whose.
    pub server: String,
    /// As configured.
    pub program: String,
    /// File and line of its entry.
    pub place: String,
    /// Whether it is there.
    pub found: bool,
}

/// Where secrets are kept.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = DoctorVault))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Vault {
    /// `absent`, `unlocked`, `locked` or `foreign`.
    pub state: String,
    /// Where its key is: `keyring`, `file` or `passphrase`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// How something stands.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = DoctorMark))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// Nothing is wrong with it.
    Ok,
    /// A finding is about it.
    Wrong,
    /// Only told.
    Note,
}

/// Something that was looked at.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = DoctorCheck))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What, in a word or two.
    pub what: String,
    /// How it stands.
    pub mark: Mark,
    /// In words.
    pub text: String,
}

/// Less is too little for an install.
const ROOM: u64 = 100_000_000;

/// What was looked at, and what is wrong.
pub fn examine(facts: &Facts) -> (Vec<Check>, Vec<Finding>) {
    let mut checks = vec![];
    let mut all = vec![];
    let mut check = |what: &str, text: String, findings: Vec<Finding>| {
        let mark = if findings.is_empty() {
            Mark::Ok
        } else {
            Mark::Wrong
        };
        checks.push(Check {
            what: what.to_owned(),
            mark,
            text,
        });
        all.extend(findings);
    };
    check("home", home_text(&facts.home), home(&facts.home));
    check("disk", disk_text(&facts.home), disk(&facts.home));
    let problems: Vec<Finding> = facts.problems.iter().map(problem).collect();
    let text = match problems.len() {
        0 => "no complaints".to_owned(),
        1 => "1 complaint".to_owned(),
        number => format!("{number} complaints"),
    };
    check("configuration", text, problems);
    let (text, taken) = port(facts);
    check("address", text, taken);
    if let Some(vault) = &facts.vault {
        check("vault", vault_text(vault), self::vault(vault));
    }
    let missing: Vec<Finding> = facts
        .programs
        .iter()
        .filter(|program| !program.found)
        .map(program_finding)
        .collect();
    let text = match (facts.programs.len(), missing.len()) {
        (0, _) => "no server is configured".to_owned(),
        (all, 0) => format!("those of {all} servers are there"),
        (all, missing) => format!("those of {missing} of {all} servers are missing"),
    };
    check(
        "programs",
        text.replace("of 1 servers", "of 1 server"),
        missing,
    );
    checks.extend(facts.runtimes.iter().map(runtime));
    (checks, all)
}

fn runtime(runtime: &Runtime) -> Check {
    let text = match (&runtime.path, &runtime.version, &runtime.error) {
        (Some(path), Some(version), _) => format!("{version} ({path})"),
        (Some(path), None, error) => {
            format!("{} ({path})", error.as_deref().unwrap_or("no version"))
        }
        (None, ..) => "not found".to_owned(),
    };
    let works = runtime.path.is_some() && runtime.version.is_some();
    Check {
        what: runtime.name.clone(),
        // Nobody may need it; where a server does, a finding is about that server.
        mark: if works { Mark::Ok } else { Mark::Note },
        text,
    }
}

/// A finding of the table, its words filled in.
fn found(code: &str, values: &[(&str, &str)]) -> Finding {
    let row = row(code);
    let fill = |text: &str, quote: bool| {
        values.iter().fold(text.to_owned(), |text, (name, value)| {
            let value = if quote {
                shell_words::quote(value)
            } else {
                (*value).into()
            };
            text.replace(&format!("{{{name}}}"), &value)
        })
    };
    Finding {
        code: row.code,
        title: row.title,
        server: None,
        cause: fill(row.cause, false),
        fix: fill(row.fix, false),
        command: match row.command {
            Command::Words(words) => Some(fill(words, true)),
            Command::None
            | Command::Uvx(_)
            | Command::Env(..)
            | Command::Args(_)
            | Command::Quoted
            | Command::Key => None,
        },
        certainty: row.certainty,
        evidence: None,
        path: values
            .iter()
            .find(|(name, _)| *name == "path")
            .map(|(_, path)| (*path).to_owned()),
        fixable: row.fixable,
    }
}

fn home_text(home: &HomeFacts) -> String {
    match (&home.unusable, &home.mode) {
        (Some(why), _) => format!("{}: {why}", home.path),
        (None, Some(mode)) => format!("{}, mode {mode}", home.path),
        (None, None) if home.exists => home.path.clone(),
        (None, None) => format!("{}, not there yet", home.path),
    }
}

fn home(home: &HomeFacts) -> Vec<Finding> {
    let path = ("path", home.path.as_str());
    let mut findings = vec![];
    if let Some(why) = &home.unusable {
        findings.push(found("WF-001", &[path, ("why", why)]));
    }
    if home.foreign {
        findings.push(found("WF-014", &[path]));
    }
    if home.socket_too_long {
        findings.push(found("WF-011", &[("path", &home.socket)]));
    }
    if let Some(mode) = home.mode.as_ref().filter(|mode| is_open(mode)) {
        findings.push(found("WF-002", &[path, ("mode", mode)]));
    }
    for OpenFile { path, mode } in &home.open {
        findings.push(found("WF-003", &[("path", path), ("mode", mode)]));
    }
    if home.stale_socket {
        findings.push(found("WF-004", &[("path", &home.socket)]));
    }
    if let Some(pid) = home.held_by {
        findings.push(found("WF-006", &[path, ("pid", &pid.to_string())]));
    }
    if let Some(why) = &home.database {
        let database = format!("{}/wharfinger.db", home.path);
        findings.push(found("WF-013", &[("path", &database), ("why", why)]));
    }
    if let Some(seconds) = home.from_the_future {
        let why = format!("files of the home are {seconds} s from the future");
        findings.push(found("WF-008", &[("why", &why)]));
    }
    if let Some(reason) = &home.halted {
        findings.push(found("WF-012", &[("why", reason)]));
    }
    findings
}

/// Whether anybody but its owner may do anything with it.
fn is_open(mode: &str) -> bool {
    u32::from_str_radix(mode, 8).is_ok_and(|mode| mode & 0o077 != 0)
}

fn disk_text(home: &HomeFacts) -> String {
    home.free.map_or_else(
        || "not known".to_owned(),
        |free| format!("{} free", size(free)),
    )
}

fn disk(home: &HomeFacts) -> Vec<Finding> {
    let low = home.free.filter(|free| *free < ROOM);
    let finding = low.map(|free| found("WF-007", &[("path", &home.path), ("free", &size(free))]));
    finding.into_iter().collect()
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes / 1000),
        1_000_000..10_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{} GB", bytes / 1_000_000_000),
    }
}

fn problem(problem: &Problem) -> Finding {
    let code = match problem.severity {
        Severity::Error => "WF-009",
        Severity::Warning => "WF-010",
    };
    let why = format!("{}: {}", problem.key, problem.message);
    let otherwise = "correct it there";
    let hint = problem.hint.as_deref().unwrap_or(otherwise);
    let mut finding = found(code, &[("why", &why), ("hint", hint)]);
    finding.evidence = Some(problem.place.to_string());
    let rest = problem.key.strip_prefix("mcpServers.");
    let rest = rest.or_else(|| problem.key.strip_prefix("mcp.servers."));
    finding.server = rest.map(|rest| rest.split('.').next().unwrap_or_default().to_owned());
    finding
}

fn port(facts: &Facts) -> (String, Vec<Finding>) {
    let address = &facts.port.address;
    match (&facts.daemon, &facts.port.taken) {
        (Some(daemon), _) => (format!("listening on {}", daemon.url), vec![]),
        (None, None) => (format!("{address} is free"), vec![]),
        (None, Some(why)) => {
            let mut finding = found("WF-005", &[("port", address)]);
            finding.evidence = Some(why.clone());
            (format!("{address}: {why}"), vec![finding])
        }
    }
}

fn vault_text(vault: &Vault) -> String {
    match &vault.key {
        Some(key) => format!("{}, key in the {key}", vault.state)
            .replace("in the passphrase", "by passphrase"),
        None => vault.state.clone(),
    }
}

fn vault(vault: &Vault) -> Vec<Finding> {
    match vault.state.as_str() {
        "locked" => vec![found("WF-501", &[])],
        "foreign" => vec![found("WF-504", &[])],
        _ => vec![],
    }
}

/// A program that is not there, before any server is started.
pub fn program_finding(program: &Program) -> Finding {
    let finding = diagnose(&Symptom {
        server: program.server.clone(),
        command: program.program.clone(),
        args: vec![],
        package: None,
        env: vec![],
        is_simple: false,
        place: program.place.clone(),
        what: What::NotFound,
        stderr: vec![],
        noise: vec![],
    });
    debug_assert_eq!(finding.certainty, Certainty::Certain);
    finding
}
