//! Agents of the agent profile are active while a session is open: their servers run then, asked or not (A180).

use std::time::Duration;

use tokio::time::Instant;

use crate::discover::Found;
use crate::model::{Profile, ServerEntry, SessionId, Status, Transport};
use crate::servers::{self, ServerHandle};
use crate::session::{Session, SessionOptions};
use crate::wharf::{Wharf, lock};

/// How long an agent waits for its servers when it starts (A143); what takes longer joins later.
const BUDGET: Duration = Duration::from_secs(25);

impl Session {
    /// Finds out what the agent's servers list, starts them, and waits for that while the budget of the start lasts:
    /// after it, what is there is there.
    pub(crate) async fn ready(&self) {
        let spent = self.state.began.elapsed();
        let until = Instant::now() + BUDGET.saturating_sub(spent);
        let left = || until.saturating_duration_since(Instant::now());
        self.wharf.disable_missing(&self.state.own).await;
        self.discover_all(left().max(Duration::from_millis(1)))
            .await;
        self.reconcile_all().await;
        // What fails is logged where it does, and shown with its server.
        drop(servers::start_all(&self.startable(), left()).await);
    }

    /// The same, for a server that came while it runs.
    pub(crate) async fn become_active(&self) {
        if self.is_over() {
            return;
        }
        self.discover_all(BUDGET).await;
        self.reconcile_all().await;
        drop(servers::start_all(&self.startable(), Duration::ZERO).await);
    }

    async fn reconcile_all(&self) {
        for entry in &self.config().servers {
            let agent = &self.state.own;
            self.wharf
                .reconcile(agent, &entry.name, &self.state.declared)
                .await;
        }
    }

    /// What does not run yet and was not given up. Sessions that never end start nothing by themselves.
    fn startable(&self) -> Vec<ServerHandle> {
        if self.state.lasting || self.is_over() || self.wharf.is_halted().is_some() {
            return vec![];
        }
        let config = self.config();
        let startable = |entry: &&ServerEntry| {
            // What can't even be listed is tried again with its next discovery.
            let failed = self.wharf.found(entry, &self.state.declared);
            entry.enabled
                && matches!(entry.transport, Transport::Stdio { .. })
                && !matches!(failed, Some(Found::Failed { .. }))
        };
        let entries = config.servers.iter().filter(startable);
        let handles = entries.filter_map(|entry| self.wharf.instance(&self.state, entry));
        handles
            .filter(|handle| match handle.status() {
                Status::NotStarted | Status::Starting => true,
                Status::Running { .. }
                | Status::Exited { .. }
                | Status::Failed { .. }
                | Status::NeedsKeys { .. }
                | Status::Disabled => false,
            })
            .collect()
    }

    /// Whether a server's tools are offered at this moment (A164): not while it is down.
    pub(crate) fn is_available(&self, entry: &ServerEntry) -> bool {
        match self.wharf.status_for(&self.state, entry) {
            None | Some(Status::NotStarted | Status::Running { .. }) => true,
            // What starts joins when it is ready (A143); where nothing was started beforehand, calls start it.
            Some(Status::Starting) => self.state.lasting,
            Some(
                Status::Exited { .. }
                | Status::Failed { .. }
                | Status::NeedsKeys { .. }
                | Status::Disabled,
            ) => false,
        }
    }
}

impl Wharf {
    /// Agents that their owner wants to be active always are so from the start.
    pub(crate) fn activate(&self) {
        let agents: Vec<_> = lock(&self.0.agents).values().cloned().collect();
        for agent in agents {
            if agent.profile == Profile::Agent && agent.rights().always_active {
                self.keep_active(&agent.name);
            }
        }
    }

    /// A session that stays open, so that the agent's servers run.
    pub(crate) fn keep_active(&self, agent: &crate::model::AgentName) {
        let session = self.session(SessionOptions::new(agent.clone(), always(agent)));
        self.0
            .context
            .tasks
            .spawn(async move { session.ready().await });
    }

    /// Ends that session.
    pub(crate) async fn keep_active_no_longer(&self, agent: &crate::model::AgentName) {
        if let Some(session) = self.find_session(agent, always(agent).as_str()) {
            session.end().await;
        }
    }
}

fn always(agent: &crate::model::AgentName) -> SessionId {
    SessionId::new(&format!("always-{agent}")).expect("names of agents are visible ASCII")
}
