//! Events, broadcast to whoever listens. A listener that is too slow loses the oldest and is told how many.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use tokio::sync::broadcast;

use crate::model::{AgentName, ServerName, Status};

/// Something that happened.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Milliseconds since 1970, UTC.
    pub at: u64,
    /// What.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// What can happen.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, Serialize)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    tag = "event"
)]
pub enum EventKind {
    /// Configuration changed; the lists hold names of servers.
    ConfigChanged {
        /// New servers.
        added: Vec<ServerName>,
        /// Servers with another entry.
        changed: Vec<ServerName>,
        /// Servers that are gone.
        removed: Vec<ServerName>,
        /// Complaints about the new configuration.
        problems: usize,
    },
    /// An instance changed its state.
    ServerStatus {
        /// Of which server.
        server: ServerName,
        /// For which agent; none while its tools are being discovered.
        agent: Option<AgentName>,
        /// The new state.
        status: Status,
    },
    /// A package is being installed, or was, or could not be.
    Package {
        /// As its own tools write it.
        package: String,
        /// Servers of the owner that run it.
        servers: Vec<ServerName>,
        /// What is being done, `installed`, or `failed`.
        step: String,
        /// Why it could not be installed.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// A server's tools are known, or changed.
    ToolsChanged {
        /// Of which server.
        server: ServerName,
        /// How many there are now.
        tools: usize,
    },
    /// A call ended.
    Called {
        /// Who called.
        agent: AgentName,
        /// Whom.
        server: ServerName,
        /// Its own name for the tool.
        tool: String,
        /// It answered, and not with an error.
        ok: bool,
        /// From request to reply.
        millis: u64,
    },
    /// Tools of a server were declared for an agent, or what it may do with them is another thing.
    ToolsDeclared {
        /// Whose.
        agent: AgentName,
        /// Of which server.
        server: ServerName,
        /// As the agent calls them.
        changed: Vec<String>,
    },
    /// A call waits for a person (A225).
    ApprovalRequested {
        /// The approval.
        id: String,
        /// Who calls.
        agent: AgentName,
        /// Whom.
        server: ServerName,
        /// What, as the agent calls it.
        tool: String,
    },
    /// A call does not wait any more. Told once of each.
    ApprovalResolved {
        /// The approval.
        id: String,
        /// Who called.
        agent: AgentName,
        /// Whom.
        server: ServerName,
        /// What, as the agent calls it.
        tool: String,
        /// `approved`, `denied`, `expired` or `cancelled`.
        status: &'static str,
    },
    /// A line of a server's standard error.
    Stderr {
        /// Whose.
        server: ServerName,
        /// Redacted, at most as long as the limit.
        line: String,
    },
    /// What became of a supervised server, or of a call to it.
    Log {
        /// Whose.
        server: ServerName,
        /// Whose process.
        agent: Option<AgentName>,
        /// Whether it is an error.
        failed: bool,
        /// Redacted.
        text: String,
    },
    /// An emergency stop: every server is stopped, and none starts.
    Halted {
        /// In the words of who did it.
        reason: String,
    },
    /// Servers may start again after an emergency stop.
    Released,
}

/// The channel of all events.
#[derive(Clone, Debug)]
pub struct Events(broadcast::Sender<Event>);

impl Default for Events {
    fn default() -> Self {
        Self(broadcast::Sender::new(1024))
    }
}

impl Events {
    /// Tells everybody who listens.
    pub fn tell(&self, kind: EventKind) {
        // Nobody listening is no failure; and then nothing needs to be made.
        if self.0.receiver_count() > 0 {
            let at = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            let at = u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
            self.0.send(Event { at, kind }).ok();
        }
    }

    /// Everything from now on. A listener that is more than 1024 events behind loses the oldest.
    pub fn listen(&self) -> broadcast::Receiver<Event> {
        self.0.subscribe()
    }
}
