//! A request for a server that is installed (A87): what it is given is stored, and what cannot be changed is said.

use serde_json::Value;

use super::{Plan, SealedFile, SealedValue, bare_source, files, secrets};
use crate::manage::entry::{self, Server, servers};
use crate::manage::package::name_for;
use crate::manage::{Error, Install, Kind};

/// News for a server that is installed (A87).
#[derive(Clone, Debug, PartialEq)]
pub struct Rerun {
    /// Its name.
    pub name: String,
    /// Stored, in place of what was stored.
    pub secrets: Vec<SealedValue>,
    /// Likewise.
    pub files: Vec<SealedFile>,
    /// Names of variables to be declared.
    pub env_keys: Vec<String>,
    /// Signs in again, and connects again.
    pub auth: bool,
    install: Install,
}

impl Rerun {
    /// Declares what is new in what the configuration is now (A98).
    pub fn apply(&self, config: &mut Value) -> Result<(), Error> {
        entry::find(config, &self.name)?;
        let list = config
            .pointer_mut("/mcp/servers")
            .and_then(Value::as_array_mut);
        let entry = list
            .into_iter()
            .flatten()
            .find(|entry| entry["name"] == self.name);
        if let Some(entry) = entry {
            entry::merge_env_keys(entry, &self.env_keys);
            entry::merge_files(entry, &self.install);
            if self.auth {
                entry["auth"] = true.into();
                if !self.install.auth_args.is_empty() {
                    entry["auth_args"] = self.install.auth_args.clone().into();
                }
                if let Some(port) = self.install.auth_port {
                    entry["auth_port"] = port.into();
                }
            }
        }
        Ok(())
    }
}

/// The server the request is about: of the name it gives, else of its package, else of the name its package makes.
pub(super) fn installed<'a>(
    install: &Install,
    config: &'a Value,
    wanted: Option<&String>,
) -> Option<Server<'a>> {
    if let Some(name) = &install.name {
        let fitted = (install.kind == Kind::Custom)
            .then(|| name_for(Kind::Custom, name))
            .flatten();
        return servers(config).find(|s| s.name() == name || Some(s.name()) == fitted.as_deref());
    }
    let wanted = wanted?;
    servers(config).find(|s| {
        s.text("source")
            .is_some_and(|source| source != "custom" && bare_source(source) == *wanted)
    })
}

/// What a request means for a server that is there.
pub(super) fn rerun(install: Install, server: Server<'_>, wanted: &str) -> Result<Plan, Error> {
    let name = server.name().to_owned();
    let kept = server.text("source").map(bare_source);
    let kept = match kept.as_deref() {
        Some("custom") => server.text("command").map(str::to_owned),
        _ => kept,
    };
    let given = install.package.is_some() || install.url.is_some();
    if given && kept.as_deref().is_some_and(|kept| kept != wanted) {
        return Err(Error::refused(format!(
            "another server is called `{name}`: `{}`. Give another `name`, or `mcp_uninstall` that one first",
            kept.unwrap_or_default()
        )));
    }
    // Nothing that was asked for is dropped in silence.
    let args = server.0["args"].as_array().map_or(&[][..], Vec::as_slice);
    let tail = args.len().saturating_sub(install.args.len());
    let same_args = args[tail..].iter().eq(install.args.iter());
    let headers = install.headers.iter();
    let changed = [
        ("args", !install.args.is_empty() && !same_args),
        ("host", install.host && !server.wants_host()),
        (
            "headers",
            headers
                .into_iter()
                .any(|(k, v)| server.0["headers"][k] != *v),
        ),
        (
            "bearer_token_env_var",
            install.bearer_token_env_var.is_some()
                && server.text("bearer_token_env_var") != install.bearer_token_env_var.as_deref(),
        ),
        (
            "header_env",
            install.header_env.iter().any(|row| {
                let kept = server.0["header_env"].as_array().into_iter().flatten();
                !kept
                    .into_iter()
                    .any(|old| old["header"] == row.header && old["env"] == row.env)
            }),
        ),
    ];
    let changed: Vec<&str> = changed
        .iter()
        .filter(|(_, c)| *c)
        .map(|(f, _)| *f)
        .collect();
    if !changed.is_empty() {
        return Err(Error::refused(format!(
            "`{name}` is installed, and `{}` cannot be changed on it. `mcp_uninstall` it (sealed credentials stay), then install it anew",
            changed.join("`, `")
        )));
    }
    let auth = install.auth == Some(true) && !server.is_http();
    let env_keys: Vec<String> = entry::env_keys(&install)
        .into_iter()
        .filter(|key| {
            let kept = server.0["env_keys"].as_array().into_iter().flatten();
            !kept.into_iter().any(|k| k == key)
        })
        .collect();
    if install.env.is_empty() && install.credential_files.is_empty() && !auth && env_keys.is_empty()
    {
        return Ok(Plan::AlreadyInstalled { name });
    }
    Ok(Plan::Rerun(Box::new(Rerun {
        secrets: secrets(&name, install.env.clone()),
        files: files(server.namespace(), &install.credential_files),
        env_keys,
        auth,
        install,
        name,
    })))
}
