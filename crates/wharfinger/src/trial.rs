//! Trying a server: what came of connecting to it for real, and which servers that ever worked with (A17–A19, A21).

use std::collections::HashMap;

use serde::Serialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::diagnosis::TrialStep;
use crate::discover::{self, Discovery, Found, Known, Unknown};
use crate::journal::{EventKind, StoreError, VerifiedRow};
use crate::launch;
use crate::manage::{Probe, ProbeTarget};
use crate::model::{Declared, NameError, Secret, ServerEntry, ServerName, Source, Transport, hex};
use crate::report::server_info;
use crate::servers::Discovered;
use crate::wharf::{Wharf, lock, now};

/// What came of connecting to a server.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Connected {
    /// Whether it could be asked for its tools.
    pub success: bool,
    /// Why not, with the end of its standard error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Its own names of its tools.
    pub tools: Vec<String>,
    /// Where it ran: `host`, or `remote` for one that is reached by its address.
    pub location: &'static str,
    /// Whether it signed in before.
    pub auth_ran: bool,
    /// What else is to be said.
    pub notes: Vec<String>,
    /// The last lines it wrote to standard error, as they came.
    pub stderr_tail: Vec<String>,
    /// Its own name and version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_version: Option<String>,
    /// The version of the protocol it speaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// The steps that were made, in order; the last one is where it failed, if it did.
    pub steps: Vec<TrialStep>,
}

/// What is known of servers that were tried.
#[derive(Debug, Default)]
pub(crate) struct Tried {
    /// What came of the last time, by name.
    last: HashMap<ServerName, Connected>,
    /// What ran when it worked for the last time, and when that was.
    verified: HashMap<ServerName, (String, u64)>,
}

/// What identifies a server: an edit of it makes another one of it, which nobody has tried (A19). How long it may take,
/// what its tools are called and who shares it do not.
fn identity(entry: &ServerEntry) -> String {
    let runs = match &entry.transport {
        Transport::Stdio { command, args, cwd } => json!([command, args, cwd]),
        Transport::Http { url } => json!([url]),
    };
    let all = json!({"runs": runs, "env": entry.env, "inherited": entry.inherit_env});
    hex(&Sha256::digest(all.to_string()))
}

/// Lines of what a server wrote that are told.
const TAIL: usize = 20;

/// Making ready what runs takes longer than this where something is installed.
const INSTALLING: u64 = 250;

/// Making ready what runs is worth telling where something was installed for it.
fn told(steps: Vec<TrialStep>) -> Vec<TrialStep> {
    let steps = steps.into_iter().map(|step| TrialStep {
        step: match step.step {
            "prepare" => "install",
            other => other,
        },
        ..step
    });
    let worth = |step: &TrialStep| step.step != "install" || step.millis > INSTALLING || !step.ok;
    steps.filter(worth).collect()
}

impl Connected {
    /// It worked.
    pub(crate) fn good(discovered: &Discovered, known: &Known, steps: Vec<TrialStep>) -> Self {
        let tools = known.listing.tools.iter();
        Self {
            success: true,
            tools: tools.map(|tool| tool.name.to_string()).collect(),
            location: "host",
            notes: discovered.warnings.clone(),
            server_version: server_info(known),
            protocol: Some(known.version.as_str().to_owned()),
            steps: told(steps),
            ..Self::default()
        }
    }

    /// It did not.
    pub(crate) fn bad(unknown: &Unknown, steps: Vec<TrialStep>) -> Self {
        let written = &unknown.written;
        Self {
            error: Some(unknown.reason.clone()),
            location: "host",
            stderr_tail: written[written.len().saturating_sub(TAIL)..].to_vec(),
            steps: told(steps),
            ..Self::default()
        }
    }

    fn remote() -> Self {
        Self {
            error: Some("remote servers come later".into()),
            location: "remote",
            ..Self::default()
        }
    }

    fn redacted(mut self, wharf: &Wharf) -> Self {
        let redactor = wharf.redactor();
        let clean = |text: &mut String| *text = redactor.text(text).into_owned();
        self.error.iter_mut().for_each(clean);
        self.server_version.iter_mut().for_each(clean);
        self.stderr_tail.iter_mut().for_each(clean);
        self.notes.iter_mut().for_each(clean);
        self.tools.iter_mut().for_each(clean);
        self
    }
}

impl Wharf {
    /// Reads which servers have worked. Called once, when nothing else runs yet.
    pub(crate) async fn recall_verified(&self) -> Result<(), StoreError> {
        let rows = self.0.store.verified().await?;
        let mut tried = lock(&self.0.tried);
        for VerifiedRow {
            server,
            identity,
            at,
        } in rows
        {
            if let Ok(name) = ServerName::new(&server) {
                tried
                    .verified
                    .insert(name, (identity, u64::try_from(at).unwrap_or_default()));
            }
        }
        Ok(())
    }

    /// When a server as it is now was last connected to, in milliseconds since 1970; `None`: never (A19).
    pub fn verified(&self, entry: &ServerEntry) -> Option<u64> {
        let tried = lock(&self.0.tried);
        let (known, at) = tried.verified.get(&entry.name)?;
        (*known == identity(entry)).then_some(*at)
    }

    /// What came of the last time that an owner's server was connected to in this run.
    pub fn last_connection(&self, name: &str) -> Option<Connected> {
        lock(&self.0.tried).last.get(name).cloned()
    }

    /// Connects to a server as it would be started for its first listing, and says how that went (A21). Its processes
    /// that run are left alone; a failure takes nothing away that is known of it. The error is the message for an unknown
    /// name (V72).
    pub async fn test(&self, name: &str) -> Result<Connected, String> {
        let config = self.config();
        let entry = config
            .server(name)
            .ok_or_else(|| self.no_such_server(name))?;
        if let Transport::Http { .. } = entry.transport {
            return Ok(Connected::remote());
        }
        let declared = entry.tells(&Declared::default());
        let key = discover::key(&self.0, entry, &declared);
        let (trial, known) = discover::connect_once(self, entry, &declared, &key).await;
        let found = match known {
            Ok(known) => Found::Known(std::sync::Arc::new(known)),
            Err(_) => return Ok(trial),
        };
        // The entry may be another one by now; then so is its key, and nothing of this counts.
        if self.config().server(name) == Some(entry) {
            let state = tokio::sync::watch::Sender::new(found);
            let place = discover::place(entry, &declared);
            lock(&self.0.discoveries).insert(place, Discovery { key, state });
            self.changed();
            self.relisted(&entry.name, &declared).await;
            let (server, tools) = (entry.name.clone(), trial.tools.len());
            self.0
                .events
                .tell(EventKind::ToolsChanged { server, tools });
        }
        Ok(trial)
    }

    /// Tries a server that is not registered, and keeps nothing but what it offers (A199).
    pub async fn probe(&self, probe: Probe) -> Result<Connected, NameError> {
        let name = ServerName::new(&probe.name)?;
        let transport = match probe.target {
            ProbeTarget::Stdio { command, args } => {
                let cwd = None;
                Transport::Stdio { command, args, cwd }
            }
            ProbeTarget::Http { .. } => return Ok(Connected::remote()),
        };
        let env = probe.env.into_iter();
        let entry = ServerEntry {
            env: env
                .map(|(key, value)| (key, Some(value.open().clone())))
                .collect(),
            ..ServerEntry::plain(name, Source::Run, transport)
        };
        let planned = launch::plan(launch::Request {
            entry: &entry,
            inherit: &self.0.inherit,
            workspace: std::path::Path::new("/"),
            scratch: None,
            secrets: &std::collections::BTreeMap::new(),
        });
        let secrets: Vec<Secret> = planned.map(|plan| plan.secrets).unwrap_or_default();
        self.learn(secrets.into_iter());
        let declared = entry.tells(&Declared::default());
        let key = discover::key(&self.0, &entry, &declared);
        Ok(discover::connect_once(self, &entry, &declared, &key)
            .await
            .0)
    }

    /// Remembers what came of connecting to a server of the owner.
    pub(crate) async fn connected(&self, entry: &ServerEntry, trial: Connected) -> Connected {
        let trial = trial.redacted(self);
        if entry.installed_by.is_none() {
            lock(&self.0.tried)
                .last
                .insert(entry.name.clone(), trial.clone());
            if trial.success {
                self.verify(entry).await;
            }
        }
        trial
    }

    /// It works as it is now.
    pub(crate) async fn verify(&self, entry: &ServerEntry) {
        let (identity, at) = (identity(entry), now());
        lock(&self.0.tried)
            .verified
            .insert(entry.name.clone(), (identity.clone(), at));
        let row = VerifiedRow {
            server: entry.name.to_string(),
            identity,
            at: i64::try_from(at).unwrap_or(i64::MAX),
        };
        if let Err(error) = self.0.store.keep_verified(row).await {
            tracing::warn!(server = %entry.name, "that it was connected to could not be kept: {error}");
        }
    }

    /// A list that was kept of a server as it is now shows that it worked; programs before this one did not say so.
    pub(crate) async fn verify_kept(&self, entry: &ServerEntry) {
        if entry.installed_by.is_none() && self.verified(entry).is_none() {
            self.verify(entry).await;
        }
    }

    /// Nothing was ever known of it.
    pub(crate) fn forget_trials(&self, server: &ServerName) {
        let mut tried = lock(&self.0.tried);
        tried.last.remove(server);
        tried.verified.remove(server);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn entry(args: &[&str]) -> ServerEntry {
        let transport = Transport::Stdio {
            command: "x".into(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            cwd: None,
        };
        ServerEntry::plain(ServerName::new("s").unwrap(), Source::Settings, transport)
    }

    #[test]
    fn a19_what_runs_is_what_a_server_is() {
        let plain = identity(&entry(&["a"]));
        let check = |change: fn(&mut ServerEntry), same: bool| {
            let mut other = entry(&["a"]);
            change(&mut other);
            assert_eq!(identity(&other) == plain, same);
        };
        check(|_| (), true);
        check(|entry| entry.call_timeout = Duration::from_secs(1), true);
        check(|entry| entry.tool_prefix = "p_".into(), true);
        check(|entry| entry.agent_visible = true, true);
        check(|entry| entry.enabled = false, true);
        check(
            |entry| entry.env.push(("A".into(), Some("b".into()))),
            false,
        );
        check(|entry| entry.env.push(("A".into(), None)), false);
        check(|entry| entry.inherit_env.push("A".into()), false);
        check(
            |entry| {
                entry.transport = Transport::Http {
                    url: "https://a.example".into(),
                }
            },
            false,
        );
        assert_ne!(identity(&entry(&["a", "b"])), plain);
        assert_ne!(identity(&entry(&["ab"])), identity(&entry(&["a", "b"])));
    }
}
