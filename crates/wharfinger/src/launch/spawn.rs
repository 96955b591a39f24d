//! From an entry to a running process.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};

use super::environment::Inherit;
use super::process::Process;
use super::tree::{INSTANCE, OWNER, Owner};
use crate::model::expand;
use crate::model::{Secret, ServerEntry, Transport, is_blocked};

/// What a start is made from.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// What was configured.
    pub entry: &'a ServerEntry,
    /// The host's environment and what of it is passed on.
    pub inherit: &'a Inherit,
    /// What `${workspace}` stands for.
    pub workspace: &'a Path,
    /// Where it stands if its entry does not say; the workspace when `None` (A192).
    pub scratch: Option<&'a Path>,
    /// The secrets that its variables take, by key, as far as they are set.
    pub secrets: &'a BTreeMap<String, Secret>,
}

/// A command ready to be run: everything expanded, secrets in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Found on the `PATH` of `env` unless it has a slash.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Made if it is missing.
    pub cwd: PathBuf,
    /// All of the environment, but for the marks of its owner.
    pub env: Secret<BTreeMap<String, String>>,
    /// Names of variables that the entry sets and no server may have (A197).
    pub refused: Vec<String>,
    /// Keys of secrets that it can't do without and that are not set; it is not started.
    pub missing: Vec<String>,
    /// Values that came in by `${env:NAME}` (V20) and `${secret:KEY}`.
    pub secrets: Vec<Secret>,
}

impl Plan {
    /// The same with more variables, whose values are as they stand (A102, A121).
    pub(crate) fn with(mut self, values: Vec<(String, String)>) -> Self {
        let mut env = self.env.open().clone();
        env.extend(values);
        self.env = Secret::new(env);
        self
    }
}

/// Expands an entry (V13–V18). `None` for a server that is no process.
pub fn plan(request: Request<'_>) -> Option<Plan> {
    let Request {
        entry,
        inherit,
        workspace,
        scratch,
        secrets: given,
    } = request;
    let Transport::Stdio { command, args, cwd } = &entry.transport else {
        return None;
    };
    let dir = workspace.to_string_lossy();
    let mut env = inherit.base(&entry.inherit_env);
    let (mut refused, mut secrets) = (vec![], vec![]);
    let mut missing: Vec<String> = vec![];
    for (name, value) in &entry.env {
        if is_blocked(name) {
            refused.push(name.clone());
            continue;
        }
        let Some(template) = value else {
            env.remove(name);
            continue;
        };
        let taken = expand::secrets(template);
        let is_absent = |reference: &&expand::SecretReference| !given.contains_key(&reference.key);
        if taken.iter().any(|reference| is_absent(&reference)) {
            let needed = taken.iter().filter(is_absent).filter(|one| one.required);
            missing.extend(needed.map(|reference| reference.key.clone()));
            // Neither empty nor as it stands (contrast V15).
            env.remove(name);
            continue;
        }
        secrets.extend(taken.iter().filter_map(|one| given.get(&one.key).cloned()));
        let copied = expand::variables(template).into_iter();
        secrets.extend(
            copied
                .filter_map(|copy| inherit.host.get(&copy).cloned())
                .map(Secret::new),
        );
        // A name that says secret is one, however its value got here.
        let value = expand::value(
            template,
            &dir,
            |copy| inherit.host.get(copy).cloned(),
            |key| given.get(key).map(|secret| secret.open().clone()),
        );
        if inherit.secret.matches(name) {
            secrets.push(Secret::new(value.clone()));
        }
        env.insert(name.clone(), value);
    }
    let cwd = cwd.as_ref().map_or_else(
        || scratch.unwrap_or(workspace).to_owned(),
        |cwd| workspace.join(expand::workspace(cwd, &dir)),
    );
    Some(Plan {
        program: expand::workspace(command, &dir),
        args: args
            .iter()
            .filter(|arg| !arg.is_empty())
            .map(|arg| at_home(&expand::workspace(arg, &dir), inherit))
            .collect(),
        cwd,
        env: Secret::new(env),
        refused,
        missing: unique(missing),
        secrets,
    })
}

fn unique(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names.dedup();
    names
}

/// An argument that begins at the home folder, `~/notes`, as a shell would have it (A22).
fn at_home(arg: &str, inherit: &Inherit) -> String {
    match (arg.strip_prefix("~/"), inherit.host.get("HOME")) {
        (Some(rest), Some(home)) => format!("{}/{rest}", home.trim_end_matches('/')),
        (Some(_), None) | (None, _) => arg.to_owned(),
    }
}

/// Why a process could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// There is no such program.
    #[error("`{program}` was not found{}", .hint.map(|hint| format!("; {hint}")).unwrap_or_default())]
    NotFound {
        /// As configured.
        program: String,
        /// What usually provides it.
        hint: Option<&'static str>,
    },
    /// It is there but may not be run.
    #[error("`{program}` may not be run: {source}")]
    NotExecutable {
        /// As configured.
        program: String,
        /// The system's word.
        source: io::Error,
    },
    /// Its working directory can't be used.
    #[error("can't use the working directory {}: {source}", .path.display())]
    Directory {
        /// After expansion.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
    /// Secrets that it can't do without are not set.
    #[error("it needs {}, which is not set", .keys.join(" and "))]
    NeedsKeys {
        /// Their keys.
        keys: Vec<String>,
    },
    /// Anything else the system says.
    #[error("can't start `{program}`: {source}")]
    Other {
        /// As configured.
        program: String,
        /// The system's word.
        source: io::Error,
    },
}

/// A started process and its pipes.
#[derive(Debug)]
pub struct Launched {
    /// Its life.
    pub process: Process,
    /// Closing it asks a server to exit.
    pub stdin: ChildStdin,
    /// What it says.
    pub stdout: ChildStdout,
    /// Must be read all the time, or the server blocks.
    pub stderr: ChildStderr,
}

/// Starts a plan in a process group of its own, marked as its owner's.
pub fn spawn(plan: &Plan, owner: &Owner) -> Result<Launched, SpawnError> {
    if !plan.missing.is_empty() {
        let keys = plan.missing.clone();
        return Err(SpawnError::NeedsKeys { keys });
    }
    std::fs::create_dir_all(&plan.cwd).map_err(|source| SpawnError::Directory {
        path: plan.cwd.clone(),
        source,
    })?;
    let program = find(plan)?;
    let mark = owner.next_instance();
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that starts servers"
    )]
    let mut command = Command::new(program);
    command
        .args(&plan.args)
        .current_dir(&plan.cwd)
        .env_clear()
        .envs(plan.env.open())
        .env(OWNER, owner.as_str())
        .env(INSTANCE, &mark)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    #[cfg(unix)]
    command.process_group(0);
    let mut child = command.spawn().map_err(|source| refuse(plan, source))?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
        unreachable!("all three were asked for");
    };
    Ok(Launched {
        process: Process::new(child, mark),
        stdin,
        stdout,
        stderr,
    })
}

/// The program's path, by the `PATH` the server itself gets: a daemon started by a client may have another one.
fn find(plan: &Plan) -> Result<PathBuf, SpawnError> {
    let program = Path::new(&plan.program);
    if plan.program.contains('/') {
        return Ok(plan.cwd.join(program));
    }
    find_on(&plan.program, plan.env.open()).ok_or_else(|| not_found(plan))
}

/// Where a program is on the `PATH` of an environment.
pub fn find_on(program: &str, environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    let path = environment
        .get("PATH")
        .map_or("/usr/local/bin:/usr/bin:/bin", String::as_str);
    std::env::split_paths(path)
        .map(|dir| dir.join(program))
        .find(|candidate| is_executable(candidate))
}

/// Whether there is what a plan runs, as far as that can be told before its folder is made.
pub fn has_program(plan: &Plan) -> bool {
    let program = Path::new(&plan.program);
    if plan.program.contains('/') {
        return program.is_relative() || program.exists();
    }
    find_on(&plan.program, plan.env.open()).is_some()
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.is_file()
}

fn refuse(plan: &Plan, source: io::Error) -> SpawnError {
    let program = plan.program.clone();
    match source.kind() {
        io::ErrorKind::NotFound => not_found(plan),
        io::ErrorKind::PermissionDenied => SpawnError::NotExecutable { program, source },
        _ => SpawnError::Other { program, source },
    }
}

fn not_found(plan: &Plan) -> SpawnError {
    let hint = match plan.program.as_str() {
        "npx" | "npm" | "node" => Some("install Node.js, or put it on the `PATH` of the daemon"),
        "uvx" | "uv" => {
            Some("install uv (`pip install uv`), or put it on the `PATH` of the daemon")
        }
        "python" | "python3" => Some("install Python, or put it on the `PATH` of the daemon"),
        "docker" | "podman" => Some("install a container engine"),
        "bunx" | "bun" => Some("install Bun"),
        "deno" => Some("install Deno"),
        _ => None,
    };
    SpawnError::NotFound {
        program: plan.program.clone(),
        hint,
    }
}
