//! What an `mcp_install` comes to: a new server, an attachment, news for a server that is there, nothing, or a refusal
//! (A73, A80–A83, A87). Pure: whoever carries the plan out applies it to what the configuration is then.

mod rerun;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use super::entry::{self, Server, servers};
use super::host::{AppCompute, Location, host_gate};
use super::package::{is_sensitive_header, name_for, package_name};
use super::{CredentialFile, Error, Install, Kind};
use crate::model::{Secret, is_delicate};

pub use rerun::Rerun;
use rerun::{installed, rerun};

/// Whether something can be sealed for the agent (A112).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Envelope {
    /// Yes; one that is not there yet is made.
    Open,
    /// Not until it is unlocked.
    Locked,
    /// Not on this machine: it opens with keys that are elsewhere.
    Foreign,
}

/// A server the owner registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Its name.
    pub name: String,
    /// `npm:<package>`, `uvx:<package>`, `http:<url>`, or the command of a custom one.
    pub source: String,
    /// Whether agents may attach it.
    pub agent_visible: bool,
    /// Names of variables that the owner sets.
    pub variables: Vec<String>,
}

/// What a plan depends on besides the request.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The agent's configuration.
    pub config: &'a Value,
    /// What the owner allows of this machine.
    pub app: &'a AppCompute,
    /// Whether servers can be run in a container, and in which; `None`: there is no such place.
    pub container: Option<Location>,
    /// See [`Envelope`].
    pub credentials: Envelope,
    /// What the owner registered.
    pub registrations: &'a [Registration],
}

/// A credential to be sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedValue {
    /// `mcp:<name>:<KEY>`.
    pub purpose: String,
    /// What is sealed.
    pub value: Secret,
}

/// A credential file to be sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedFile {
    /// `mcp:<package, else name>:file:<path>` (A114).
    pub purpose: String,
    /// Its content.
    pub content: Secret<Vec<u8>>,
}

impl SealedFile {
    /// As it is kept (A115): with what it takes to write it again. `at` is now, in milliseconds since 1970.
    pub fn value(&self, at: u64) -> SealedValue {
        let value = json!({
            "encoding": "base64",
            "data": BASE64.encode(self.content.open()),
            "mode": 0o600,
            "captured_at": at,
        });
        SealedValue {
            purpose: self.purpose.clone(),
            value: Secret::new(value.to_string()),
        }
    }
}

/// A server to be added.
#[derive(Clone, Debug, PartialEq)]
pub struct NewServer {
    /// Its name.
    pub name: String,
    /// Where it comes from.
    pub kind: Kind,
    /// The entry, without values of credentials.
    pub entry: Value,
    /// Where it will run.
    pub location: Location,
    /// To be sealed before it is started (A84).
    pub secrets: Vec<SealedValue>,
    /// Likewise.
    pub files: Vec<SealedFile>,
    /// Whether to sign in before the first start.
    pub auth: bool,
    /// The agent gets a container with a browser (A81).
    pub browser: bool,
    /// To be told with the result.
    pub notes: Vec<String>,
}

impl NewServer {
    /// What is kept as `source`.
    pub fn source(&self) -> &str {
        Server(&self.entry).text("source").unwrap_or_default()
    }

    /// Names of the variables it is given.
    pub fn env_keys(&self) -> Vec<String> {
        let keys = self.entry["env_keys"].as_array().into_iter().flatten();
        keys.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// Puts it into what the configuration is now (A98).
    pub fn apply(&self, config: &mut Value) -> Result<(), Error> {
        entry::put(config, self.entry.clone())?;
        if self.browser {
            if !config["compute"].is_object() {
                config["compute"] = json!({});
            }
            config["compute"]["enabled"] = true.into();
            config["compute"]["browser"] = true.into();
        }
        Ok(())
    }
}

/// What a request comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// A server that was not there.
    New(Box<NewServer>),
    /// The owner's registration of this name (A73); what the request gives besides goes with it.
    Attach {
        /// Its name.
        name: String,
        /// To be sealed for the agent.
        secrets: Vec<SealedValue>,
        /// Likewise.
        files: Vec<SealedFile>,
        /// The agent's own choice, if it made one (A76).
        auth: Option<bool>,
    },
    /// News for a server that is there.
    Rerun(Box<Rerun>),
    /// It is there, and nothing is new.
    AlreadyInstalled {
        /// Its name.
        name: String,
    },
}

/// Decides. Nothing is changed by a refusal.
pub fn plan(install: Install, at: &Situation<'_>) -> Result<Plan, Error> {
    sealing(&install, at.credentials)?;
    headers(&install)?;
    let given = match install.kind {
        Kind::Http => install.url.as_deref(),
        Kind::Npm | Kind::Pypi | Kind::Custom => install.package.as_deref(),
    };
    let wanted = source_of(install.kind, given.unwrap_or_default());
    if let Some(server) = installed(&install, at.config, given.is_some().then_some(&wanted)) {
        let mut registrations = at.registrations.iter();
        if let Some(owned) = registrations.find(|r| r.name == server.name()) {
            variables(&install, owned, Some(server))?;
        }
        return rerun(install, server, &wanted);
    }
    let derived = match (install.kind, &install.name) {
        (Kind::Custom, Some(name)) => name_for(Kind::Custom, name),
        (_, Some(name)) => Some(name.clone()),
        (Kind::Custom, None) => None,
        (kind, None) => given.and_then(|given| name_for(kind, given)),
    };
    if let Some(registration) = registered(&install, at.registrations, given.map(|_| &*wanted)) {
        return attach(install, registration);
    }
    let Some(given) = given else {
        return Err(Error::refused(match install.kind {
            Kind::Http => "type `http` needs `url`, the address of the server's endpoint".into(),
            Kind::Custom => "type `custom` needs `package`: the command to run".to_owned(),
            Kind::Npm | Kind::Pypi => format!(
                "type `{}` needs `package`: the package to run",
                install.kind.name()
            ),
        }));
    };
    let name = match derived {
        Some(name) => name,
        None if install.kind == Kind::Custom && install.name.is_none() => {
            return Err(Error::refused(
                "type `custom` needs `name`: what to call the server",
            ));
        }
        None => {
            return Err(Error::refused(
                "no name can be made from this; give a `name`",
            ));
        }
    };
    free(&name, at)?;
    let package = given.to_owned();
    new(install, name, &package, at)
}

fn new(install: Install, name: String, package: &str, at: &Situation<'_>) -> Result<Plan, Error> {
    let location = location(&install, &name, package, at)?;
    if location == Location::Host
        && let Some(file) = install
            .credential_files
            .iter()
            .find(|f| !f.path.starts_with("~/"))
    {
        return Err(Error::refused(format!(
            "credential file `{}` must be below the home folder, `~/…`, for a server on the host",
            file.path
        )));
    }
    let browser = ["@playwright/mcp", "@modelcontextprotocol/server-puppeteer"];
    let browser = install.kind == Kind::Npm
        && location != Location::Host
        && browser.contains(&&*package_name(Kind::Npm, package));
    let http = install.kind == Kind::Http;
    let auth = install.auth == Some(true);
    let mut notes = vec![];
    if http && auth {
        notes
            .push("`auth` has no meaning for a server reached by http; it was left out".to_owned());
    }
    let entry = entry::build(&install, &name, package, location);
    let namespace = Server(&entry).namespace().to_owned();
    Ok(Plan::New(Box::new(NewServer {
        kind: install.kind,
        entry,
        location,
        secrets: secrets(&name, install.env),
        files: files(&namespace, &install.credential_files),
        auth: auth && !http,
        browser,
        notes,
        name,
    })))
}

/// Nothing is sealed where nothing can be (A80, A112).
fn sealing(install: &Install, credentials: Envelope) -> Result<(), Error> {
    let content = install.credential_files.iter().any(|f| f.content.is_some());
    if install.env.is_empty() && !content {
        return Ok(());
    }
    match credentials {
        Envelope::Open => Ok(()),
        Envelope::Locked => Err(Error::refused(
            "the agent's credentials are locked, so nothing can be sealed and nothing was stored. Ask the owner to unlock them, then run `mcp_install` again with the same arguments",
        )),
        Envelope::Foreign => Err(Error::refused(
            "the agent's credentials were sealed on another machine, so nothing can be sealed and nothing was stored. Ask the owner to open them here with the owner key or a share password, then run `mcp_install` again with the same arguments",
        )),
    }
}

/// Secrets do not stand in headers that are kept as they are (A24, A80).
fn headers(install: &Install) -> Result<(), Error> {
    let names: Vec<&str> = install
        .headers
        .iter()
        .map(|(name, _)| name.as_str())
        .filter(|name| is_sensitive_header(name))
        .collect();
    if names.is_empty() {
        return Ok(());
    }
    Err(Error::refused(format!(
        "`headers` are kept readable, and `{}` would hold a secret. Give its value in `env` and name it with `header_env`, or with `bearer_token_env_var` for `Authorization: Bearer`",
        names.join("`, `")
    )))
}

fn source_of(kind: Kind, given: &str) -> String {
    match kind {
        Kind::Npm => format!("npm:{}", package_name(kind, given)),
        Kind::Pypi => format!("uvx:{}", package_name(kind, given)),
        Kind::Http => format!("http:{given}"),
        Kind::Custom => given.to_owned(),
    }
}

/// The same form for what is kept.
fn bare_source(source: &str) -> String {
    let of = |prefix, kind| {
        let spec = source.strip_prefix(prefix)?;
        Some(source_of(kind, spec))
    };
    of("npm:", Kind::Npm)
        .or_else(|| of("uvx:", Kind::Pypi))
        .unwrap_or_else(|| source.to_owned())
}

/// The registration the request is about, by the name it gives or by its package (A73).
fn registered<'a>(
    install: &Install,
    registrations: &'a [Registration],
    wanted: Option<&str>,
) -> Option<&'a Registration> {
    let by_name = registrations
        .iter()
        .find(|r| Some(&r.name) == install.name.as_ref());
    by_name.or_else(|| {
        registrations
            .iter()
            .find(|r| wanted == Some(&*bare_source(&r.source)))
    })
}

fn attach(install: Install, registration: &Registration) -> Result<Plan, Error> {
    let name = registration.name.clone();
    if !registration.agent_visible {
        return Err(Error::refused(format!(
            "`{name}` is set up by the owner but not available to agents. Ask the owner to turn on its \"Available to agents\" toggle, then run `mcp_install` again"
        )));
    }
    variables(&install, registration, None)?;
    let package = ["npm:", "uvx:"]
        .iter()
        .find_map(|p| registration.source.strip_prefix(p));
    let kind = if registration.source.starts_with("uvx:") {
        Kind::Pypi
    } else {
        Kind::Npm
    };
    let namespace = package.map_or_else(|| name.clone(), |spec| package_name(kind, spec));
    Ok(Plan::Attach {
        secrets: secrets(&name, install.env),
        files: files(&namespace, &install.credential_files),
        auth: install.auth,
        name,
    })
}

/// What a server of the owner's is given is the owner's, but for variables that its entry leaves to the agent (A101).
fn variables(
    install: &Install,
    registration: &Registration,
    entry: Option<Server<'_>>,
) -> Result<(), Error> {
    let refused: Vec<String> = entry::env_keys(install)
        .into_iter()
        .filter(|key| {
            let is_left = entry.is_some_and(|entry| entry.leaves(key));
            let is_set = registration.variables.contains(key);
            !is_left || is_set || is_delicate(key)
        })
        .collect();
    if refused.is_empty() {
        return Ok(());
    }
    Err(Error::refused(format!(
        "`{}` is set up by the owner, and `{}` is not for the agent to set in it; nothing was stored. Run `mcp_install` again without it, and ask the owner to set it",
        registration.name,
        refused.join("`, `")
    )))
}

/// A name that would be taken for another server is not given (A15, A27).
fn free(name: &str, at: &Situation<'_>) -> Result<(), Error> {
    let whose = if servers(at.config).any(|s| s.name() == name) {
        "is installed from another package"
    } else if at.registrations.iter().any(|r| r.name == name) {
        "is a server of the owner's, from another package"
    } else {
        return Ok(());
    };
    Err(Error::refused(format!(
        "`{name}` {whose}; give another `name`"
    )))
}

fn location(
    install: &Install,
    name: &str,
    package: &str,
    at: &Situation<'_>,
) -> Result<Location, Error> {
    if install.kind == Kind::Http {
        return Ok(Location::RemoteHttp);
    }
    if install.host {
        let agent = at.config["compute"]["host_access"] == true;
        let entry = entry::build(install, name, package, Location::Host);
        host_gate(at.app, agent, name, &entry::identity(&entry))?;
        return Ok(Location::Host);
    }
    at.container.ok_or_else(|| {
        Error::refused(format!(
            "`{name}` would run in a container, and servers cannot be run in containers here; it is not run on the host instead. Ask the owner for host access and install with `host: true`, or use a server reached by http"
        ))
    })
}

fn secrets(name: &str, env: Vec<(String, Secret)>) -> Vec<SealedValue> {
    env.into_iter()
        .map(|(key, value)| SealedValue {
            purpose: format!("mcp:{name}:{key}"),
            value,
        })
        .collect()
}

fn files(namespace: &str, files: &[CredentialFile]) -> Vec<SealedFile> {
    files
        .iter()
        .filter_map(|file| {
            Some(SealedFile {
                purpose: format!("mcp:{namespace}:file:{}", file.path),
                content: file.content.clone()?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests;
