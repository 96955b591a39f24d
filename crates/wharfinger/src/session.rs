//! A session: one conversation of an agent.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::{Notify, broadcast, mpsc};
use tokio_util::sync::CancellationToken;
use wharfinger_wire::json::{Object, raw};
use wharfinger_wire::server::{LOG_LEVELS, log_rank};

use crate::catalog::Catalog;
use crate::config::{Config, delivery};
use crate::conversation::{InFlight, SERIALS, SessionState, Stage};
use crate::discover::Found;
use crate::model::{
    AgentName, Declared, Profile, ServerName, SessionId, Source, Status, Transport,
};
use crate::servers::{Asked, Patience};
use crate::wharf::{Wharf, lock};

/// What a session begins with.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Whose it is.
    pub agent: AgentName,
    /// Its id; unique over all agents.
    pub id: SessionId,
    /// What servers are told about its client; decides what they offer and what they may ask.
    pub declared: Declared,
    /// Names of the host's own tools, which servers' tools never take (V47).
    pub reserved: Vec<String>,
    /// It never ends, so what it has used is not kept running for it: an owner's looks and calls, clients without
    /// sessions. False unless set.
    pub lasting: bool,
}

impl SessionOptions {
    /// A conversation of a client that declares nothing, by a host without tools of its own.
    pub fn new(agent: AgentName, id: SessionId) -> Self {
        Self {
            agent,
            id,
            declared: Declared::default(),
            reserved: vec![],
            lasting: false,
        }
    }
}

/// What a session hears between calls. A listener that is more than 256 behind loses the oldest.
#[derive(Clone, Debug)]
pub enum SessionNote {
    /// A server's notification, redacted.
    Notification {
        /// From whom.
        server: ServerName,
        /// Its method.
        method: String,
        /// Its params.
        params: Option<Arc<RawValue>>,
    },
}

/// A conversation of an agent. Cheap to clone; ends with [`Session::end`] or [`Session::next`], not when dropped.
#[derive(Clone)]
pub struct Session {
    pub(crate) wharf: Wharf,
    pub(crate) state: Arc<SessionState>,
}

impl Wharf {
    /// Begins a session, or gives the one of that id, whose other options stay as they were. Starts nothing (V57), but
    /// for an agent of the agent profile, whose servers run while it has a session (A180).
    pub fn session(&self, options: SessionOptions) -> Session {
        let mut begins = false;
        let state = lock(&self.0.sessions)
            .entry(options.id.clone())
            .or_insert_with(|| {
                // With the lock held: who removes an agent then finds its sessions.
                let own = self.own_agent(&options.agent);
                begins = own.profile == Profile::Agent && !options.lasting;
                Arc::new(SessionState {
                    id: options.id,
                    serial: SERIALS.fetch_add(1, Ordering::Relaxed),
                    own,
                    began: Instant::now(),
                    agent: options.agent,
                    declared: options.declared,
                    reserved: options.reserved.into(),
                    lasting: options.lasting,
                    over: CancellationToken::new(),
                    log_level: Mutex::default(),
                    notes: broadcast::Sender::new(256),
                    calls: Mutex::default(),
                    used: Mutex::new(Instant::now()),
                    none: Notify::new(),
                    asks: Mutex::default(),
                    stopping: Mutex::default(),
                    directory: Mutex::default(),
                })
            })
            .clone();
        let session = Session {
            wharf: self.clone(),
            state,
        };
        if begins {
            // From here on the agent is active (A180).
            let active = session.clone();
            self.0
                .context
                .tasks
                .spawn(async move { active.ready().await });
        }
        session
    }

    /// How many sessions of an agent are open; those that never end do not count.
    pub fn open_sessions(&self, agent: &AgentName) -> usize {
        let sessions = lock(&self.0.sessions);
        sessions
            .values()
            .filter(|state| state.agent == *agent && !state.lasting)
            .count()
    }

    /// The open session of an agent with that id; ids are no secret, so an agent's own is given only to itself.
    pub fn find_session(&self, agent: &AgentName, id: &str) -> Option<Session> {
        let found = lock(&self.0.sessions).get(id).cloned();
        found
            .filter(|state| state.agent == *agent)
            .map(|state| Session {
                wharf: self.clone(),
                state,
            })
    }

    /// All sessions of an agent.
    pub fn sessions_of(&self, agent: &AgentName) -> Vec<Session> {
        let sessions = lock(&self.0.sessions);
        let own = sessions.values().filter(|state| state.agent == *agent);
        own.map(|state| Session {
            wharf: self.clone(),
            state: state.clone(),
        })
        .collect()
    }
}

impl Session {
    /// Its id.
    pub fn id(&self) -> &SessionId {
        &self.state.id
    }

    /// Whose it is.
    pub fn agent(&self) -> &AgentName {
        &self.state.agent
    }

    /// What servers are told about its client.
    pub fn declared(&self) -> &Declared {
        &self.state.declared
    }

    /// Whether it can still be used.
    pub fn is_open(&self) -> bool {
        !self.is_over()
    }

    /// Its client's roots are others now: the servers that ask the client for them (`"roots": "client"`) are told.
    pub fn roots_changed(&self) {
        for handle in self.wharf.used_by(&self.state) {
            if handle.spec().roots.is_none() {
                handle.notify("notifications/roots/list_changed", None);
            }
        }
    }

    /// The wharf it belongs to.
    pub fn wharf(&self) -> &Wharf {
        &self.wharf
    }

    /// The tools it may call. Servers that were never listed are listed now, all at once, for at most
    /// [`Limits::list_wait`](crate::model::Limits::list_wait); what takes longer joins later, and
    /// [`Wharf::generation`] tells.
    pub async fn tools(&self) -> Arc<Catalog> {
        match self.profile() {
            Profile::Chat => self.discover_all(self.wharf.limits().list_wait).await,
            Profile::Agent => self.ready().await,
        }
        self.known_tools()
    }

    pub(crate) async fn discover_all(&self, wait: Duration) {
        let config = self.config();
        self.wharf
            .discover_all(&config, &self.state.declared, wait)
            .await;
    }

    /// The servers it has: of an agent of the agent profile, those that are attached to it.
    pub fn config(&self) -> Arc<Config> {
        self.state.own.view(self.wharf.config(), &self.wharf)
    }

    /// The tools it may call, as far as they are known at this moment. Waits for nothing and starts nothing.
    pub fn known_tools(&self) -> Arc<Catalog> {
        match self.profile() {
            Profile::Chat => self
                .wharf
                .catalog(&self.state.declared, &self.state.reserved),
            Profile::Agent => self.agent_catalog(),
        }
    }

    /// Waits until it is over; from then on it calls nothing.
    pub async fn over(&self) {
        self.state.over.cancelled().await;
    }

    /// Whether it never ends, since clients without sessions share it.
    pub fn is_lasting(&self) -> bool {
        self.state.lasting
    }

    pub(crate) fn is_over(&self) -> bool {
        self.state.over.is_cancelled()
    }

    /// What its servers say between calls, from now on: log messages at its level, changes of resources it subscribed
    /// to, states of its tasks.
    pub fn notes(&self) -> broadcast::Receiver<SessionNote> {
        self.state.notes.subscribe()
    }

    /// What servers ask between calls comes here from now on, and no longer to who listened before. A question that is
    /// dropped is answered with an error.
    pub fn asks(&self) -> mpsc::Receiver<Asked> {
        let (sender, receiver) = mpsc::channel(16);
        *lock(&self.state.asks) = Some(sender);
        receiver
    }

    /// Stops the calls in flight, of this session alone (`/stop`): each server is told (V65), and each call ends with a
    /// refusal. Gives how many there were.
    pub fn stop_calls(&self) -> usize {
        let running = self.calls_in_flight();
        std::mem::take(&mut *lock(&self.state.stopping)).cancel();
        running
    }

    /// How many of its calls run or wait at this moment.
    pub fn calls_in_flight(&self) -> usize {
        let calls = lock(&self.state.calls);
        let waits = |call: &&InFlight| call.stage == Stage::Waiting;
        calls.iter().filter(waits).count()
    }

    /// How long it has called nothing.
    pub fn idle_for(&self) -> Duration {
        let calls = lock(&self.state.calls);
        if calls.is_empty() {
            lock(&self.state.used).elapsed()
        } else {
            Duration::ZERO
        }
    }

    /// Servers that it has used and that run for it.
    pub fn servers_in_use(&self) -> Vec<ServerName> {
        let used = self.wharf.used_by(&self.state);
        let running = used
            .iter()
            .filter(|handle| matches!(handle.status(), Status::Running { .. }));
        let mut names: Vec<_> = running.map(|handle| handle.spec().name.clone()).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Ends this conversation and begins another one of the same client (`/new`, `/resume`): its servers stop first, and
    /// start afresh with the next call (V60). A session of that id that is open is gone on with.
    pub async fn next(&self, id: SessionId) -> Self {
        if id != self.state.id {
            self.end().await;
        }
        self.wharf.session(SessionOptions {
            agent: self.state.agent.clone(),
            id,
            declared: self.state.declared.clone(),
            reserved: self.state.reserved.to_vec(),
            lasting: self.state.lasting,
        })
    }

    /// The least severe log messages it wants, `debug` to `emergency`; false for a level that is none. Servers are
    /// told, those that start later too.
    pub fn set_log_level(&self, level: &str) -> bool {
        let Some(rank) = log_rank(level) else {
            return false;
        };
        *lock(&self.state.log_level) = Some(rank);
        for handle in self.wharf.used_by(&self.state) {
            let session = self.clone();
            self.wharf.0.context.tasks.spawn(async move {
                session.pass_log_level(&handle).await;
            });
        }
        true
    }

    /// The least severe log messages it wants; none where its client never said.
    pub fn log_level(&self) -> Option<&'static str> {
        let rank = *lock(&self.state.log_level);
        rank.map(|rank| LOG_LEVELS[rank])
    }

    /// Tells a server of the handshake era the least severe level that any session of its instance wants.
    pub(crate) async fn pass_log_level(&self, handle: &crate::servers::ServerHandle) {
        let Some(rank) = self.wharf.least_level(handle) else {
            return;
        };
        let Some(description) = handle.description() else {
            return;
        };
        let capabilities = Object::from_raw(&description.capabilities).unwrap_or_default();
        if description.version.is_modern() || !capabilities.contains("logging") {
            return;
        }
        let params = raw(&json!({ "level": LOG_LEVELS[rank] }));
        let outgoing = crate::servers::Outgoing {
            method: "logging/setLevel",
            params: Some(&params),
            log_level: None,
            progress: false,
            patience: Patience::Call,
        };
        if let Err(error) = handle.call(outgoing, |_| (), |_| ()).await {
            tracing::debug!("{error}");
        }
    }

    /// Whether a log level was asked for, so that servers that start later hear of it.
    pub(crate) fn wants_log_level(&self) -> bool {
        lock(&self.state.log_level).is_some()
    }

    /// What the model should know: the prompt sections of active servers (V25), and a line for each server that is
    /// not available, with its reason. Empty when there is nothing to say.
    pub fn instructions(&self) -> String {
        let mut text = String::new();
        let mut missing = String::new();
        let config = self.config();
        for entry in config.servers.iter().filter(|entry| entry.enabled) {
            let found = self.wharf.found(entry, &self.state.declared);
            match (&entry.transport, found) {
                (Transport::Http { .. }, _) => {
                    writeln!(missing, "- {}: remote servers come later", entry.name)
                        .expect("a string takes everything");
                }
                (_, Some(Found::Known(_))) => {
                    if let Some(section) = &entry.prompt_section {
                        if !text.is_empty() {
                            text.push_str("\n\n");
                        }
                        text.push_str(section);
                        if entry.source == Source::Preset
                            && let Some(tool) = self.send_tool()
                        {
                            text.push_str(&delivery(&tool));
                        }
                    }
                }
                (_, Some(Found::Failed { reason, .. })) => {
                    let reason = reason.lines().next().unwrap_or_default();
                    writeln!(missing, "- {}: {reason}", entry.name)
                        .expect("a string takes everything");
                }
                (_, Some(Found::Asking) | None) => {}
            }
        }
        if !missing.is_empty() {
            if !text.is_empty() {
                text.push_str("\n\n");
            }
            text.push_str("These MCP servers are not available at the moment:\n");
            text.push_str(missing.trim_end());
        }
        self.wharf.redactor().text(&text).into_owned()
    }

    /// The active tool that delivers files, as the model sees it: the host's own `send`, or one of a server (V40).
    fn send_tool(&self) -> Option<String> {
        let own = self.state.reserved.iter().find(|name| *name == "send");
        own.cloned().or_else(|| {
            let catalog = self.known_tools();
            let sends = catalog
                .tools
                .iter()
                .find(|tool| tool.tool.name.as_str() == "send");
            sends.map(|tool| tool.name.clone())
        })
    }

    /// Ends it: its calls are stopped, then the instances that nobody else uses, and that is waited for (V60).
    pub async fn end(&self) {
        self.state.over.cancel();
        self.stop_calls();
        {
            let mut sessions = lock(&self.wharf.0.sessions);
            let own = |state: &Arc<SessionState>| Arc::ptr_eq(state, &self.state);
            if sessions.get(&self.state.id).is_some_and(own) {
                sessions.remove(&self.state.id);
            }
        }
        self.wharf
            .0
            .gate
            .with(|desk| desk.end_session(self.state.serial));
        self.wharf.forget_tasks(&self.state);
        let serial = Some(self.state.serial);
        lock(&self.wharf.0.catalogs).retain(|key, _| key.session != serial);
        self.unsubscribe_all().await;
        // What was stopped is gone in a moment, and keeps its servers busy until then.
        tokio::time::timeout(Duration::from_secs(1), self.state.settled())
            .await
            .ok();
        self.wharf.release_instances(&self.state).await;
    }
}
