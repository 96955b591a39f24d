//! What is suspicious about a tool's definition, whether it is new or changed.

use serde_json::value::RawValue;

use crate::model::{ServerName, Suspicion, ToolName};

/// A tool of the same agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Other {
    /// Whose.
    pub server: ServerName,
    /// As its server names it.
    pub tool: ToolName,
    /// As the agent calls it.
    pub exposed: String,
}

/// All tools of an agent, prepared for looking whether another one imitates them.
#[derive(Debug, Default)]
pub struct Others(Vec<Other>);

impl Others {
    /// Prepares tools. Those of the server that is looked at may be among them; they do not count.
    pub fn new(tools: Vec<Other>) -> Self {
        Self(tools)
    }
}

/// What is suspicious about a definition of a server's tool.
pub fn suspicions(server: &ServerName, tool: &RawValue, others: &Others) -> Vec<Suspicion> {
    let _ = (server, tool, &others.0);
    vec![]
}
