//! Whether a server may run on this machine itself (A28–A32).

use serde_json::{Value, json};

use super::package::package_name;
use super::{Error, Kind};

/// What the owner allows of this machine (A39: nothing, unless said otherwise).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppCompute {
    /// Servers may run on this machine at all.
    pub host_access_enabled: bool,
    /// Servers that may, whichever agent runs them.
    pub host_approved: Vec<Approved>,
}

/// A server that may run on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approved {
    /// Its name.
    pub name: String,
    /// What it resolved to when it was approved, as [`super::identity`] tells it. `None`: an old record, good for the
    /// name alone.
    pub source: Option<String>,
}

/// Where a server runs (A34).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// A process of this machine.
    Host,
    /// In the container that agents share.
    SharedContainer,
    /// In the agent's own container.
    IsolatedContainer,
    /// Somewhere else, reached by http.
    RemoteHttp,
}

impl Location {
    /// As results tell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::SharedContainer => "shared container",
            Self::IsolatedContainer => "isolated container",
            Self::RemoteHttp => "remote http",
        }
    }
}

/// Why a server may not run on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostReason {
    /// The owner has not switched it on.
    AppOff,
    /// The name is approved, for another package (A30).
    OtherPackage,
    /// The agent may not, and the server is not approved.
    NotApproved,
}

impl HostReason {
    /// As results tell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::AppOff => "host_access_off",
            Self::OtherPackage => "approved_for_another_package",
            Self::NotApproved => "not_approved",
        }
    }
}

/// A server asked for this machine and did not get it (A32).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostDenied {
    /// Which of the reasons.
    pub reason: HostReason,
    /// In words, with the ways out.
    pub text: String,
}

impl HostDenied {
    /// As `host_denied` in results.
    pub fn to_value(&self) -> Value {
        json!({"reason": self.reason.name(), "message": self.text})
    }
}

impl From<HostDenied> for Error {
    fn from(denied: HostDenied) -> Self {
        Self::Refused(denied.text)
    }
}

/// The gate (A29): the owner allows it at all, and the agent may or the server is approved for the package it is. `source`
/// is the server's [`super::identity`].
pub fn host_gate(
    app: &AppCompute,
    agent_host_access: bool,
    name: &str,
    source: &str,
) -> Result<(), HostDenied> {
    let denied = |reason, text: String| Err(HostDenied { reason, text });
    if !app.host_access_enabled {
        return denied(
            HostReason::AppOff,
            format!(
                "`{name}` may not run on the host: host access is off. Ask the owner to switch it on, or install without `host`"
            ),
        );
    }
    if agent_host_access {
        return Ok(());
    }
    let approved: Vec<&Approved> = app
        .host_approved
        .iter()
        .filter(|a| a.name == name)
        .collect();
    let fits = |a: &&Approved| {
        a.source
            .as_deref()
            .is_none_or(|recorded| same(recorded, source))
    };
    match approved.first() {
        None => denied(
            HostReason::NotApproved,
            format!(
                "`{name}` may not run on the host: this agent has no `compute.host_access` and `{name}` is not approved for the host. Ask the owner for one of them, or install without `host`"
            ),
        ),
        Some(_) if approved.iter().any(fits) => Ok(()),
        Some(first) => denied(
            HostReason::OtherPackage,
            format!(
                "`{name}` may not run on the host: the name is approved for `{}`, and this is `{source}`. Ask the owner to approve this package, or use another name",
                first.source.as_deref().unwrap_or_default()
            ),
        ),
    }
}

/// One package, whatever its version; anything else must be the same to the letter.
fn same(recorded: &str, source: &str) -> bool {
    let bare = |text: &str| {
        let kinds = [("npm:", Kind::Npm), ("uvx:", Kind::Pypi)];
        kinds
            .iter()
            .find_map(|(prefix, kind)| {
                let spec = text.strip_prefix(prefix)?;
                Some(format!("{prefix}{}", package_name(*kind, spec)))
            })
            .unwrap_or_else(|| text.to_owned())
    };
    bare(recorded) == bare(source)
}

/// Whether a registration is offered to agents while its owner has not chosen (A74): what runs on this machine is not.
pub fn suggested(chosen: Option<bool>, location: Location) -> bool {
    chosen.unwrap_or(location != Location::Host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app(enabled: bool, approved: &[(&str, Option<&str>)]) -> AppCompute {
        AppCompute {
            host_access_enabled: enabled,
            host_approved: approved
                .iter()
                .map(|(name, source)| Approved {
                    name: (*name).into(),
                    source: source.map(str::to_owned),
                })
                .collect(),
        }
    }

    #[test]
    fn a28_a29_a30_a32_the_gate_and_its_reasons() {
        let check = |app: &AppCompute, agent: bool, source: &str, expect: Option<HostReason>| {
            let got = host_gate(app, agent, "git", source);
            assert_eq!(
                got.err().map(|d| d.reason),
                expect,
                "{app:?} {agent} {source}"
            );
        };
        let exact = [("git", Some("npm:@a/git"))];
        check(
            &AppCompute::default(),
            true,
            "npm:x",
            Some(HostReason::AppOff),
        );
        check(
            &app(false, &exact),
            true,
            "npm:@a/git",
            Some(HostReason::AppOff),
        );
        check(&app(true, &[]), true, "npm:x", None);
        check(
            &app(true, &[]),
            false,
            "npm:x",
            Some(HostReason::NotApproved),
        );
        check(
            &app(true, &[("other", None)]),
            false,
            "npm:x",
            Some(HostReason::NotApproved),
        );
        check(&app(true, &exact), false, "npm:@a/git", None);
        check(&app(true, &exact), false, "npm:@a/git@2", None);
        check(
            &app(true, &[("git", Some("npm:@a/git@1"))]),
            false,
            "npm:@a/git",
            None,
        );
        check(
            &app(true, &exact),
            false,
            "npm:@b/git",
            Some(HostReason::OtherPackage),
        );
        check(
            &app(true, &exact),
            false,
            "uvx:@a/git",
            Some(HostReason::OtherPackage),
        );
        check(&app(true, &exact), true, "npm:@b/git", None);
        check(&app(true, &[("git", None)]), false, "npm:anything", None);
        // A custom command is not known by the word `custom`.
        let custom = [("git", Some("custom"))];
        check(
            &app(true, &custom),
            false,
            "custom:[\"sh\"]",
            Some(HostReason::OtherPackage),
        );
        let two = [("git", Some("npm:a")), ("git", Some("uvx:b"))];
        check(&app(true, &two), false, "uvx:b", None);
    }

    #[test]
    fn a32_a_denial_says_what_would_do() {
        let denied = host_gate(&app(true, &[("git", Some("npm:a"))]), false, "git", "npm:b");
        assert_eq!(
            denied.unwrap_err().to_value(),
            json!({
                "reason": "approved_for_another_package",
                "message": "`git` may not run on the host: the name is approved for `npm:a`, and this is `npm:b`. Ask the owner to approve this package, or use another name",
            })
        );
    }

    #[test]
    fn a74_what_runs_on_the_host_is_not_offered_unless_chosen() {
        assert!(suggested(None, Location::SharedContainer));
        assert!(suggested(None, Location::IsolatedContainer));
        assert!(suggested(None, Location::RemoteHttp));
        assert!(!suggested(None, Location::Host));
        assert!(suggested(Some(true), Location::Host));
        assert!(!suggested(Some(false), Location::RemoteHttp));
    }
}
