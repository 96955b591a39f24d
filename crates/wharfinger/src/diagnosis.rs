//! What is wrong with servers: from what became of them to the table of known failures. Everything is redacted.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde::Serialize;
use wharfinger_wire::connection::CallError;
use wharfinger_wire::era::InitializeError;

use crate::discover::{Found, Log, Unknown, key, start_once};
use crate::doctor::{Finding, Program, Symptom, What, diagnose};
use crate::kept::keep_discovered;
use crate::launch::{self, Inherit, Plan, Request, SpawnError};
use crate::model::{Declared, Exit, PackageKind, ServerEntry, Source, Status, Transport};
use crate::servers::{LastWords, ServerHandle, StartError, Step};
use crate::vault::is_secret_name;
use crate::wharf::{Wharf, lock};

/// A start for the sake of seeing what happens.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Trial {
    /// Whose.
    pub server: String,
    /// Whether nothing was started, since a process of it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<u32>,
    /// What was done, in order; the last one is what failed, where something did.
    pub steps: Vec<TrialStep>,
    /// How many tools it lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<usize>,
    /// The end of what it wrote, where it failed: of standard output what is no message, after `(stdout)`.
    pub stderr: Vec<String>,
    /// What is wrong, where something is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finding: Option<Finding>,
}

/// A step of it.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TrialStep {
    /// `prepare`, `start`, `initialize` or `list`.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub step: &'static str,
    /// Whether it was done.
    pub ok: bool,
    /// How long it took, in milliseconds.
    pub millis: u64,
}

/// Lines of standard error that a trial shows.
const TAIL: usize = 20;

/// What an entry looks like to whom this happened, before anybody has read what it wrote.
pub(crate) fn symptom(entry: &ServerEntry, what: What) -> Symptom {
    let (command, args) = match &entry.transport {
        Transport::Stdio { command, args, .. } => (command.clone(), args.clone()),
        Transport::Http { url } => (url.clone(), vec![]),
    };
    let own = entry.package.as_ref().and_then(|_| entry.runs_package());
    let own = own.map(|(_, args)| args);
    Symptom {
        server: entry.name.to_string(),
        command,
        args: own.unwrap_or(args),
        package: entry.package.clone(),
        env: entry.env.clone(),
        is_simple: is_simple(entry),
        place: entry.place.to_string(),
        what,
        stderr: vec![],
        noise: vec![],
    }
}

/// Whether `wharf add --replace` with a command and variables says all of it, and nothing that is not to be shown.
fn is_simple(entry: &ServerEntry) -> bool {
    let plain = ServerEntry::plain(entry.name.clone(), entry.source, entry.transport.clone());
    let plain = ServerEntry {
        place: entry.place.clone(),
        env: entry.env.clone(),
        package: entry.package.clone(),
        ..plain
    };
    let cwd = matches!(&entry.transport, Transport::Stdio { cwd: Some(_), .. });
    let shown = entry.env.iter().all(|(name, value)| {
        let value = value.as_deref();
        value.is_some_and(|value| value.starts_with("${") || !is_secret_name(name))
    });
    entry.source == Source::Settings && plain == *entry && !cwd && shown
}

/// Of each server that is switched on, what it runs, and whether that is there.
pub fn programs(servers: &[ServerEntry], inherit: &Inherit) -> Vec<Program> {
    let enabled = servers.iter().filter(|entry| entry.enabled);
    let program = |entry: &ServerEntry| {
        let plan = launch::plan(Request {
            entry,
            inherit,
            workspace: Path::new("/"),
            scratch: None,
            // What it runs is the same without them.
            secrets: &BTreeMap::new(),
        })?;
        // What installs a package is brought along, but for what runs that.
        let program = match entry.package.as_ref().map(|package| package.kind) {
            None => plan.program,
            Some(PackageKind::Npm) => "node".to_owned(),
            Some(PackageKind::Pypi) => "python3".to_owned(),
        };
        let plan = Plan { program, ..plan };
        Some(Program {
            server: entry.name.to_string(),
            found: launch::has_program(&plan),
            program: plan.program,
            place: entry.place.to_string(),
        })
    };
    enabled.filter_map(program).collect()
}

/// What an entry looks like that did not start.
pub(crate) fn failed(entry: &ServerEntry, error: &StartError) -> Symptom {
    let none = Box::<LastWords>::default();
    let (what, words) = match error {
        StartError::Spawn(error) => (spawn(error), &none),
        StartError::Exited { exit, words } => (What::Exited(*exit), words),
        StartError::TimedOut { words, .. } => (What::TimedOut, words),
        StartError::Protocol { error, words } => (protocol(error), words),
        StartError::List { reason, words } => (What::List(reason.clone()), words),
        StartError::Prepare(reason) => (What::Prepare(reason.clone()), &none),
        StartError::Again { reason, .. } | StartError::GaveUp { reason, .. } => {
            (What::Other(reason.clone()), &none)
        }
        StartError::Halted(_) | StartError::Stopped => (What::Other(error.to_string()), &none),
    };
    Symptom {
        stderr: words.stderr.clone(),
        noise: words.noise.clone(),
        ..symptom(entry, what)
    }
}

fn spawn(error: &SpawnError) -> What {
    match error {
        SpawnError::NotFound { .. } => What::NotFound,
        SpawnError::NotExecutable { .. } => What::NotExecutable(error.to_string()),
        SpawnError::Directory { .. } => What::Directory(error.to_string()),
        SpawnError::NeedsKeys { .. } => What::Prepare(error.to_string()),
        SpawnError::Other { .. } => What::NotStarted(error.to_string()),
    }
}

fn protocol(error: &InitializeError) -> What {
    let text = match error {
        // With its code, which tells more than the words.
        InitializeError::Call(CallError::Server(object)) => format!("{object} ({})", object.code),
        InitializeError::Call(_) | InitializeError::Version(_) | InitializeError::Odd => {
            error.to_string()
        }
    };
    What::Protocol(text)
}

impl Wharf {
    /// What is wrong with a server, as far as it was tried; of one that runs, nothing.
    pub fn finding(&self, name: &str) -> Option<Finding> {
        let config = self.config();
        let entry = config.server(name)?;
        if !entry.enabled {
            return None;
        }
        let handles = self.handles(name, None);
        let runs = |handle: &ServerHandle| matches!(handle.status(), Status::Running { .. });
        if handles.iter().any(runs) {
            return None;
        }
        if let Some(Found::Failed { finding, .. }) = self.found(entry, &Declared::default()) {
            return Some((*finding).clone());
        }
        let error = handles.iter().find_map(ServerHandle::failure)?;
        match error {
            // It worked, and went as it came.
            StartError::Exited {
                exit: Exit::Code(0),
                ..
            } => None,
            error => Some(self.clean_finding(diagnose(&failed(entry, &error)))),
        }
    }

    /// What is wrong with every server, as far as each was tried.
    pub fn findings(&self) -> Vec<Finding> {
        let config = self.config();
        let names = config.servers.iter().map(|entry| entry.name.as_str());
        names.filter_map(|name| self.finding(name)).collect()
    }

    /// Starts a server for a moment, to see what happens; nothing is started where a process of it runs. The error is the
    /// message for a server that is not there or is none that can be started.
    pub async fn try_server(&self, name: &str) -> Result<Trial, String> {
        let config = self.config();
        let Some(entry) = config.server(name) else {
            return Err(self.no_such_server(name));
        };
        if let Transport::Http { .. } = entry.transport {
            return Err("remote servers come later".into());
        }
        let handles = self.handles(name, None);
        let running = handles.iter().find_map(|handle| match handle.status() {
            Status::Running { pid } => Some(pid),
            _ => None,
        });
        let mut trial = Trial {
            server: name.to_owned(),
            running,
            steps: vec![],
            tools: None,
            stderr: vec![],
            finding: None,
        };
        if running.is_some() {
            return Ok(trial);
        }
        let audience = Arc::new(Log {
            wharf: Arc::downgrade(&self.0),
            server: entry.name.clone(),
            steps: Some(Mutex::default()),
        });
        let began = Instant::now();
        let declared = Declared::default();
        let outcome = start_once(self, entry, &declared, audience.clone()).await;
        let took = audience.steps.as_ref().map(|steps| lock(steps).clone());
        trial.steps = steps(began, &took.unwrap_or_default(), outcome.is_ok());
        match outcome {
            Ok(discovered) => {
                trial.tools = Some(discovered.tools.len());
                let key = key(&self.0, entry, &declared);
                // It works, so what went wrong before does not count any more; the next who asks reads what is kept.
                if keep_discovered(self, entry, &key, &discovered)
                    .await
                    .is_ok()
                {
                    self.forget_failure(name);
                    self.verify(entry).await;
                }
            }
            Err(Unknown {
                finding, written, ..
            }) => {
                let redactor = self.redactor();
                let shown = written.len().saturating_sub(TAIL);
                let shown = written[shown..].iter().map(|line| redactor.text(line));
                trial.stderr = shown.map(Cow::into_owned).collect();
                trial.finding = Some(self.clean_finding(finding));
            }
        }
        Ok(trial)
    }

    /// A finding without the secrets that are known.
    pub(crate) fn clean_finding(&self, finding: Finding) -> Finding {
        let redactor = self.redactor();
        let clean = |text: String| redactor.text(&text).into_owned();
        Finding {
            cause: clean(finding.cause),
            fix: clean(finding.fix),
            command: finding.command.map(clean),
            evidence: finding.evidence.map(clean),
            ..finding
        }
    }
}

/// How long each step took; a process that was started again begins anew.
pub(crate) fn steps(began: Instant, seen: &[(Step, Instant)], ok: bool) -> Vec<TrialStep> {
    const ALL: [(Step, &str); 4] = [
        (Step::Prepared, "prepare"),
        (Step::Started, "start"),
        (Step::Initialized, "initialize"),
        (Step::Listed, "list"),
    ];
    let mut steps = vec![];
    let mut before = began;
    let millis = |from: Instant, to: Instant| {
        u64::try_from(to.saturating_duration_since(from).as_millis()).unwrap_or(u64::MAX)
    };
    for (step, name) in ALL {
        let at = seen.iter().rev().find(|(seen, _)| *seen == step);
        let Some((_, at)) = at else {
            if !ok {
                let millis = millis(before, Instant::now());
                steps.push(TrialStep {
                    step: name,
                    ok: false,
                    millis,
                });
            }
            break;
        };
        steps.push(TrialStep {
            step: name,
            ok: true,
            millis: millis(before, *at),
        });
        before = *at;
    }
    steps
}
