//! Servers without a wharf, under the policy of agents, and everything they say.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wharfinger::config::load;
use wharfinger::launch::{Inherit, Owner, Request, plan};
use wharfinger::model::{Declared, EffectivePolicy, Limits, Profile, Status};
use wharfinger::policy;
use wharfinger::servers::{
    Asked, Audience, CallError, Context, Gate, Note, Outgoing, Patience, Plans, Prepare, Prepared,
    ServerHandle, Spec,
};
use wharfinger::wire::era::Version;
use wharfinger::wire::json::raw;
use wharfinger_testkit::{Home, poll_until, processes};

use crate::yard::{fake, host, inputs};

pub(crate) struct Rig {
    pub(crate) home: Home,
    pub(crate) context: Context,
    ear: Arc<Ear>,
    made: Arc<AtomicUsize>,
    kept: Arc<()>,
}

#[derive(Default)]
struct Ear(Mutex<Vec<Note>>);

impl Audience for Ear {
    fn note(&self, note: Note) {
        self.0.lock().unwrap().push(note);
    }

    fn asked(&self, _: Asked) {}
}

/// One list of modes for each start, the last one for all that follow.
struct Script {
    steps: Vec<Value>,
    home: std::path::PathBuf,
    made: Arc<AtomicUsize>,
    own: AtomicUsize,
    kept: Arc<()>,
}

impl Prepare for Script {
    fn prepare(&self) -> Pin<Box<dyn Future<Output = Result<Prepared, String>> + Send + '_>> {
        Box::pin(async {
            self.made.fetch_add(1, Ordering::Relaxed);
            let nth = self.own.fetch_add(1, Ordering::Relaxed);
            let entry = &self.steps[nth.min(self.steps.len() - 1)];
            if let Some(reason) = entry["args"][0]
                .as_str()
                .and_then(|arg| arg.strip_prefix('?'))
            {
                return Err(reason.to_owned());
            }
            let inherit = Inherit {
                host: host(),
                ..Inherit::default()
            };
            let request = Request {
                entry: &parsed(entry),
                inherit: &inherit,
                workspace: &self.home,
                scratch: None,
                secrets: &BTreeMap::new(),
            };
            Ok(Prepared {
                plan: Arc::new(plan(request).unwrap()),
                keeps: Some(Box::new(self.kept.clone())),
            })
        })
    }
}

fn parsed(entry: &Value) -> wharfinger::model::ServerEntry {
    let loaded = load(&inputs(&json!({ "s": entry }), &json!({}), host()));
    assert!(!loaded.has_errors(), "{:?}", loaded.problems);
    loaded.config.server("s").unwrap().clone()
}

impl Rig {
    pub(crate) fn new() -> Self {
        let home = Home::new();
        let mark = home.path().file_name().unwrap().to_string_lossy();
        let context = Context {
            owner: Owner::new(&mark.replace(['-', '.'], "")),
            limits: Limits {
                exit_wait: std::time::Duration::from_millis(300),
                term_wait: std::time::Duration::from_millis(300),
                ..Limits::default()
            },
            client: Arc::from(raw(&json!({"name": "test", "version": "0"}))),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            gate: Gate::default(),
        };
        Self {
            home,
            context,
            ear: Arc::default(),
            made: Arc::default(),
            kept: Arc::default(),
        }
    }

    /// A server that runs the fake one with these modes, one list for each start; `change` has the last word on the
    /// policy of agents.
    pub(crate) fn server(
        &self,
        starts: &[&[&str]],
        change: impl FnOnce(&mut EffectivePolicy),
    ) -> ServerHandle {
        let count = format!("count-starts={}", self.home.file("starts").display());
        let steps = starts.iter().map(|modes| {
            let mut modes = modes.to_vec();
            modes.push(&count);
            fake(&modes, json!({}))
        });
        self.made_of(steps.collect(), Some(Version::V2025_06_18), change)
    }

    /// One of the stateless era.
    pub(crate) fn modern_server(
        &self,
        modes: &[&str],
        change: impl FnOnce(&mut EffectivePolicy),
    ) -> ServerHandle {
        self.made_of(vec![fake(modes, json!({}))], None, change)
    }

    /// One that a shell starts: the script gets the fake server as `$0` and its modes.
    pub(crate) fn shell_server(
        &self,
        script: &str,
        change: impl FnOnce(&mut EffectivePolicy),
    ) -> ServerHandle {
        let fake = wharfinger_testkit::fake_server();
        let entry = json!({ "command": "sh", "args": ["-c", script, fake] });
        self.made_of(vec![entry], Some(Version::V2025_06_18), change)
    }

    fn made_of(
        &self,
        steps: Vec<Value>,
        remembered: Option<Version>,
        change: impl FnOnce(&mut EffectivePolicy),
    ) -> ServerHandle {
        let entry = parsed(&fake(&[], json!({})));
        let mut policy = policy::effective(&entry, Profile::Agent);
        change(&mut policy);
        let script = Script {
            steps,
            home: self.home.path().to_owned(),
            made: self.made.clone(),
            own: AtomicUsize::new(0),
            kept: self.kept.clone(),
        };
        let spec = Spec {
            name: entry.name,
            plan: Plans::Made(Arc::new(script)),
            policy,
            declared: Declared::default(),
            roots: Some(vec![]),
            // Known, so that each attempt is one process.
            remembered,
            browser: false,
        };
        ServerHandle::new(&self.context, spec, self.ear.clone())
    }

    /// How many fake servers were started.
    pub(crate) fn starts(&self) -> usize {
        self.home.lines("starts").len()
    }

    /// How often it was made what runs.
    pub(crate) fn made(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }

    /// How much of what was made is kept.
    pub(crate) fn kept(&self) -> usize {
        // One is the rig's, and one each server's script.
        Arc::strong_count(&self.kept) - 1 - self.scripts()
    }

    fn scripts(&self) -> usize {
        Arc::strong_count(&self.made) - 1
    }

    /// Servers that live on.
    pub(crate) fn actors(&self) -> usize {
        Arc::strong_count(&self.ear) - 1
    }

    fn heard<T>(&self, pick: impl FnMut(&Note) -> Option<T>) -> Vec<T> {
        self.ear.0.lock().unwrap().iter().filter_map(pick).collect()
    }

    /// What became of the servers, in words.
    pub(crate) fn told(&self) -> Vec<String> {
        self.heard(|note| match note {
            Note::System { text, .. } => Some(text.clone()),
            _ => None,
        })
    }

    /// Calls and results.
    pub(crate) fn exchanges(&self) -> Vec<(String, String, bool)> {
        self.heard(|note| match note {
            Note::Exchange { head, body, failed } => Some((head.clone(), body.clone(), *failed)),
            _ => None,
        })
    }

    pub(crate) fn statuses(&self) -> Vec<Status> {
        self.heard(|note| match note {
            Note::Status(status) => Some(status.clone()),
            _ => None,
        })
    }

    /// How often tools were announced.
    pub(crate) fn listed(&self) -> usize {
        let listed = |note: &Note| matches!(note, Note::Tools(_)).then_some(());
        self.heard(listed).len()
    }

    pub(crate) async fn until_listed(&self, times: usize) {
        poll_until("its tools", tokio::time::sleep, || self.listed() >= times).await;
        assert_eq!(self.listed(), times);
    }

    pub(crate) fn processes(&self) -> Vec<u32> {
        processes::with_environment_mark(wharfinger::launch::OWNER, self.context.owner.as_str())
    }

    /// Ends everything, and shows that nothing is left.
    pub(crate) async fn close(self) {
        self.context.stop.cancel();
        self.context.tasks.close();
        self.context.tasks.wait().await;
        assert_eq!(self.processes(), Vec::<u32>::new(), "processes are left");
    }
}

/// Calls a tool; the text of its result.
pub(crate) async fn ask(server: &ServerHandle, tool: &str) -> Result<String, CallError> {
    let params = raw(&json!({ "name": tool, "arguments": {} }));
    let outgoing = Outgoing {
        method: "tools/call",
        params: Some(&params),
        log_level: None,
        progress: true,
        patience: Patience::Turn,
    };
    let result = server.call(outgoing, |_| (), |_| ()).await?;
    let result: Value = serde_json::from_str(result.get()).unwrap();
    Ok(result["content"][0]["text"].as_str().unwrap().to_owned())
}

/// As a crash does it.
pub(crate) fn kill(pid: u32) {
    let killed = std::process::Command::new("kill")
        .args(["-9", &pid.to_string()])
        .status();
    assert!(killed.unwrap().success());
}
