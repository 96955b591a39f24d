//! What the tools answer (A85, A86, A87, A90, A92), as the guide spells it.

use serde_json::{Map, Value};

use super::{HostDenied, Kind, Location};

/// A server was installed or attached, and asked for its tools (A85).
#[derive(Clone, Debug)]
pub struct Installed {
    /// Its name.
    pub name: String,
    /// Where it comes from.
    pub kind: Kind,
    /// `npm:<package>` and the like.
    pub source: String,
    /// Where it really ran.
    pub location: Location,
    /// It is the owner's registration.
    pub attached_existing: bool,
    /// Names of its tools, as the agent calls them.
    pub tools: Vec<String>,
    /// Names of the variables it is given.
    pub env_keys: Vec<String>,
    /// It asked for this machine and did not get it.
    pub host_denied: Option<HostDenied>,
    /// Why there are no tools, where there are none.
    pub connection: Option<Connection>,
    /// To be told besides.
    pub notes: Vec<String>,
}

/// What went wrong in connecting.
#[derive(Clone, Debug, Default)]
pub struct Connection {
    /// The last error.
    pub error: String,
    /// The server's last lines on standard error.
    pub stderr_tail: String,
}

impl Installed {
    /// The result.
    pub fn to_value(&self) -> Value {
        let verb = if self.attached_existing {
            "attached"
        } else {
            "installed"
        };
        let mut message = if self.tools.is_empty() {
            format!(
                "`{}` is {verb}, but offered no tools. After correcting credentials, arguments or where it runs, use `mcp_restart`",
                self.name
            )
        } else {
            format!(
                "`{}` is {verb}; its tools can be called now. Calls ask for approval until the owner removes the restriction",
                self.name
            )
        };
        for note in &self.notes {
            message = format!("{message}. {note}");
        }
        Members::new(true)
            .put("name", self.name.as_str())
            .put("type", self.kind.name())
            .put("source", self.source.as_str())
            .put("location", self.location.name())
            .flag("attached_existing", self.attached_existing)
            .put("tools_discovered", self.tools.len())
            .list("tools", &self.tools)
            .put("env_keys", self.env_keys.clone())
            .denied(self.host_denied.as_ref())
            .connection(self.connection.as_ref())
            .put("message", message)
            .done()
    }
}

/// What stays of an install that failed; nothing is rolled back (A86).
#[derive(Clone, Debug, Default)]
pub struct Persisted {
    /// The entry is in the configuration.
    pub registration: bool,
    /// Purposes of what was sealed.
    pub credentials: Vec<String>,
}

impl Persisted {
    fn to_value(&self) -> Value {
        let mut members = Map::new();
        members.insert("registration".into(), self.registration.into());
        members.insert("credentials".into(), self.credentials.clone().into());
        Value::Object(members)
    }
}

/// A server was configured, but signing in or connecting failed or took too long (A86).
#[derive(Clone, Debug)]
pub struct InstallFailed {
    /// Its name.
    pub name: String,
    /// Where it comes from.
    pub kind: Kind,
    /// `npm:<package>` and the like.
    pub source: String,
    /// Where it was to run.
    pub location: Location,
    /// What happened, with the program's own words.
    pub error: String,
    /// What stays.
    pub persisted: Persisted,
    /// It failed in signing in.
    pub signing_in: bool,
    /// The server's last lines on standard error.
    pub stderr_tail: Option<String>,
    /// It asked for this machine and did not get it.
    pub host_denied: Option<HostDenied>,
}

impl InstallFailed {
    /// The result.
    pub fn to_value(&self) -> Value {
        let way = if self.signing_in {
            "run `mcp_install` again with `auth: true` to sign in anew"
        } else {
            "correct the cause, then use `mcp_restart`; what it was given stays"
        };
        Members::new(false)
            .flag("configured", true)
            .put("name", self.name.as_str())
            .put("type", self.kind.name())
            .put("source", self.source.as_str())
            .put("location", self.location.name())
            .put("tools_discovered", 0)
            .put("error", self.error.as_str())
            .denied(self.host_denied.as_ref())
            .some("stderr_tail", self.stderr_tail.as_deref())
            .put(
                "message",
                format!("`{}` is configured, but does not run: {way}", self.name),
            )
            .put("persisted", self.persisted.to_value())
            .done()
    }
}

/// A server that is there, and nothing new for it (A87).
#[derive(Clone, Debug)]
pub struct AlreadyInstalled {
    /// Its name.
    pub name: String,
    /// Where it runs.
    pub location: Location,
    /// How many tools it has.
    pub tools: usize,
}

impl AlreadyInstalled {
    /// The result.
    pub fn to_value(&self) -> Value {
        Members::new(true)
            .put("name", self.name.as_str())
            .flag("already_installed", true)
            .put("location", self.location.name())
            .put("tools_discovered", self.tools)
            .put(
                "message",
                format!(
                    "`{}` is installed; nothing was changed. `mcp_restart` connects it again",
                    self.name
                ),
            )
            .done()
    }
}

/// A server that is there got credentials (A87).
#[derive(Clone, Debug)]
pub struct Updated {
    /// Its name.
    pub name: String,
    /// Purposes of what was sealed.
    pub stored: Vec<String>,
}

impl Updated {
    /// The result. It connected again if it signed in again; then [`Restarted`] is the answer.
    pub fn to_value(&self) -> Value {
        Members::new(true)
            .put("name", self.name.as_str())
            .flag("updated", true)
            .put("stored", self.stored.clone())
            .flag("restart_needed", true)
            .put(
                "message",
                format!(
                    "what was given for `{}` is stored; its process gets it with `mcp_restart`",
                    self.name
                ),
            )
            .done()
    }
}

/// A server was started again, or failed to (A90).
#[derive(Clone, Debug)]
pub struct Restarted {
    /// Its name.
    pub name: String,
    /// Names of its tools, as the agent calls them.
    pub tools: Vec<String>,
    /// Where it really ran.
    pub location: Location,
    /// It asked for this machine and did not get it.
    pub host_denied: Option<HostDenied>,
    /// What went wrong; then it does not run.
    pub connection: Option<Connection>,
}

impl Restarted {
    /// The result.
    pub fn to_value(&self) -> Value {
        let message = match &self.connection {
            None => format!(
                "`{}` runs; which of its tools may be called is as it was",
                self.name
            ),
            Some(_) => format!(
                "`{}` does not run. Correct the cause, then use `mcp_restart`",
                self.name
            ),
        };
        Members::new(self.connection.is_none())
            .put("name", self.name.as_str())
            .put("tools_discovered", self.tools.len())
            .list("tools", &self.tools)
            .put("location", self.location.name())
            .denied(self.host_denied.as_ref())
            .connection(self.connection.as_ref())
            .put("message", message)
            .done()
    }
}

/// A server was taken away (A92).
#[derive(Clone, Debug)]
pub struct Uninstalled {
    /// Its name.
    pub name: String,
    /// Tools that went with it, as the agent called them.
    pub tools: Vec<String>,
}

impl Uninstalled {
    /// The result.
    pub fn to_value(&self) -> Value {
        Members::new(true)
            .put("name", self.name.as_str())
            .put("tools_removed", self.tools.len())
            .list("tools", &self.tools)
            .put(
                "message",
                format!(
                    "`{}` is uninstalled. Its sealed credentials stay, and are used if it is installed again",
                    self.name
                ),
            )
            .done()
    }
}

/// Members of a result in the order of the guide.
struct Members(Map<String, Value>);

impl Members {
    fn new(success: bool) -> Self {
        let mut members = Map::new();
        members.insert("success".into(), success.into());
        Self(members)
    }

    fn put(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.insert(key.into(), value.into());
        self
    }

    /// Said only where it holds.
    fn flag(self, key: &str, holds: bool) -> Self {
        if holds { self.put(key, true) } else { self }
    }

    fn some(self, key: &str, text: Option<&str>) -> Self {
        match text {
            Some(text) if !text.is_empty() => self.put(key, text),
            _ => self,
        }
    }

    fn list(self, key: &str, items: &[String]) -> Self {
        if items.is_empty() {
            self
        } else {
            self.put(key, items.to_vec())
        }
    }

    fn denied(self, denied: Option<&HostDenied>) -> Self {
        match denied {
            Some(denied) => self.put("host_denied", denied.to_value()),
            None => self,
        }
    }

    fn connection(self, connection: Option<&Connection>) -> Self {
        match connection {
            Some(connection) => self
                .put("connection_error", connection.error.as_str())
                .some("stderr_tail", Some(&connection.stderr_tail)),
            None => self,
        }
    }

    fn done(self) -> Value {
        Value::Object(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manage::HostReason;
    use serde_json::json;

    fn denied() -> HostDenied {
        HostDenied {
            reason: HostReason::NotApproved,
            text: "why".into(),
        }
    }

    fn connection() -> Connection {
        Connection {
            error: "it ended".into(),
            stderr_tail: "no key".into(),
        }
    }

    #[test]
    fn a85_an_install_that_worked() {
        let mut installed = Installed {
            name: "git".into(),
            kind: Kind::Pypi,
            source: "uvx:mcp-server-git".into(),
            location: Location::SharedContainer,
            attached_existing: false,
            tools: vec!["mcp_git_log".into()],
            env_keys: vec!["KEY".into()],
            host_denied: None,
            connection: None,
            notes: vec![],
        };
        assert_eq!(
            installed.to_value(),
            json!({
                "success": true, "name": "git", "type": "pypi", "source": "uvx:mcp-server-git",
                "location": "shared container", "tools_discovered": 1, "tools": ["mcp_git_log"],
                "env_keys": ["KEY"],
                "message": "`git` is installed; its tools can be called now. Calls ask for approval until the owner removes the restriction",
            })
        );
        installed.tools.clear();
        installed.attached_existing = true;
        installed.host_denied = Some(denied());
        installed.connection = Some(connection());
        installed.notes.push("A note".into());
        assert_eq!(
            installed.to_value(),
            json!({
                "success": true, "name": "git", "type": "pypi", "source": "uvx:mcp-server-git",
                "location": "shared container", "attached_existing": true, "tools_discovered": 0,
                "env_keys": ["KEY"], "host_denied": {"reason": "not_approved", "message": "why"},
                "connection_error": "it ended", "stderr_tail": "no key",
                "message": "`git` is attached, but offered no tools. After correcting credentials, arguments or where it runs, use `mcp_restart`. A note",
            })
        );
    }

    #[test]
    fn a86_an_install_that_failed_says_what_stays() {
        let failed = InstallFailed {
            name: "gmail".into(),
            kind: Kind::Npm,
            source: "npm:g".into(),
            location: Location::Host,
            error: "took longer than 300 s".into(),
            persisted: Persisted {
                registration: true,
                credentials: vec!["mcp:g:file:~/k".into()],
            },
            signing_in: true,
            stderr_tail: None,
            host_denied: None,
        };
        assert_eq!(
            failed.to_value(),
            json!({
                "success": false, "configured": true, "name": "gmail", "type": "npm", "source": "npm:g",
                "location": "host", "tools_discovered": 0, "error": "took longer than 300 s",
                "message": "`gmail` is configured, but does not run: run `mcp_install` again with `auth: true` to sign in anew",
                "persisted": {"registration": true, "credentials": ["mcp:g:file:~/k"]},
            })
        );
        let connecting = InstallFailed {
            signing_in: false,
            ..failed
        };
        let message = connecting.to_value()["message"].clone();
        assert!(message.as_str().unwrap().contains("`mcp_restart`"));
    }

    #[test]
    fn a87_nothing_new_and_something_new() {
        let nothing = AlreadyInstalled {
            name: "git".into(),
            location: Location::Host,
            tools: 3,
        };
        assert_eq!(
            nothing.to_value(),
            json!({
                "success": true, "name": "git", "already_installed": true, "location": "host",
                "tools_discovered": 3,
                "message": "`git` is installed; nothing was changed. `mcp_restart` connects it again",
            })
        );
        let updated = Updated {
            name: "git".into(),
            stored: vec!["mcp:git:KEY".into()],
        };
        assert_eq!(
            updated.to_value(),
            json!({
                "success": true, "name": "git", "updated": true, "stored": ["mcp:git:KEY"],
                "restart_needed": true,
                "message": "what was given for `git` is stored; its process gets it with `mcp_restart`",
            })
        );
    }

    #[test]
    fn a90_a_restart() {
        let restarted = Restarted {
            name: "git".into(),
            tools: vec!["mcp_git_log".into()],
            location: Location::RemoteHttp,
            host_denied: None,
            connection: None,
        };
        assert_eq!(
            restarted.to_value(),
            json!({
                "success": true, "name": "git", "tools_discovered": 1, "tools": ["mcp_git_log"],
                "location": "remote http",
                "message": "`git` runs; which of its tools may be called is as it was",
            })
        );
        let failed = Restarted {
            tools: vec![],
            host_denied: Some(denied()),
            connection: Some(connection()),
            ..restarted
        };
        assert_eq!(
            failed.to_value(),
            json!({
                "success": false, "name": "git", "tools_discovered": 0, "location": "remote http",
                "host_denied": {"reason": "not_approved", "message": "why"},
                "connection_error": "it ended", "stderr_tail": "no key",
                "message": "`git` does not run. Correct the cause, then use `mcp_restart`",
            })
        );
    }

    #[test]
    fn a92_an_uninstall() {
        let uninstalled = Uninstalled {
            name: "git".into(),
            tools: vec!["mcp_git_log".into()],
        };
        assert_eq!(
            uninstalled.to_value(),
            json!({
                "success": true, "name": "git", "tools_removed": 1, "tools": ["mcp_git_log"],
                "message": "`git` is uninstalled. Its sealed credentials stay, and are used if it is installed again",
            })
        );
    }
}
