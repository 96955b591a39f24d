//! The other agent's client: what it has must stay its own, and go on working.

use serde_json::{Value, json};

use super::MARK;
use crate::dock::{Dock, within};
use crate::http::{Ask, Reply, send};

const AGENT: &str = "neighbour";

pub(super) struct Neighbour {
    token: String,
    pub(super) session: String,
    pub(super) task: String,
    pub(super) state: String,
}

impl Neighbour {
    pub(super) fn move_in(dock: &Dock) -> Self {
        let token = dock.agent(AGENT);
        let mut neighbour = Self {
            token,
            session: String::new(),
            task: String::new(),
            state: String::new(),
        };
        dock.runtime.block_on(async {
            let hello = json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": { "name": "neighbour", "version": "1" },
            });
            let reply = neighbour.posts(dock, "initialize", hello).await;
            let session = reply.head.header("mcp-session-id");
            session
                .expect("it has a session")
                .clone_into(&mut neighbour.session);
            neighbour.posts(dock, "tools/list", json!({})).await;
            let begin = json!({
                "name": "old_begin",
                "arguments": { "message": MARK },
                "task": { "ttl": 86_400_000 },
            });
            let task = neighbour.result(dock, "tools/call", begin).await;
            let task = task["result"]["task"]["taskId"].as_str();
            task.expect("it has a task").clone_into(&mut neighbour.task);
            neighbour.state = neighbour.asks(dock, "new_ask").await;
        });
        neighbour
    }

    /// A request in its session.
    async fn posts(&self, dock: &Dock, method: &str, params: Value) -> Reply {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let mut ask = Ask::post(AGENT, &self.token, message.to_string());
        if !self.session.is_empty() {
            ask = ask.header("Mcp-Session-Id", &self.session);
        }
        let reply = within(
            "the neighbour's answer",
            send(dock.address, &ask, |_, _| {}),
        )
        .await;
        reply.expect("the neighbour is answered")
    }

    async fn result(&self, dock: &Dock, method: &str, params: Value) -> Value {
        let reply = self.posts(dock, method, params).await;
        let last = reply.messages.last().map_or("", String::as_str);
        serde_json::from_str(last).unwrap_or_default()
    }

    async fn calls(&self, dock: &Dock, name: &str, arguments: Value) -> Value {
        let params = json!({ "name": name, "arguments": arguments });
        self.result(dock, "tools/call", params).await
    }

    /// Calls a tool that asks for input, in the stateless era; gives the state with which to come back.
    pub(super) async fn asks(&self, dock: &Dock, name: &str) -> String {
        let result = self.stateless(dock, name, json!({})).await;
        assert!(result.to_string().contains(MARK), "no question: {result}");
        let state = result["result"]["requestState"].as_str();
        state.expect("it was given a state").to_owned()
    }

    async fn stateless(&self, dock: &Dock, name: &str, more: Value) -> Value {
        let mut params = json!({
            "name": name,
            "arguments": { "message": MARK },
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} },
            },
        });
        if let (Value::Object(params), Value::Object(more)) = (&mut params, more) {
            params.extend(more);
        }
        let message =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let ask = Ask::post(AGENT, &self.token, message.to_string())
            .header("MCP-Protocol-Version", "2026-07-28")
            .header("Mcp-Method", "tools/call")
            .header("Mcp-Name", name);
        let reply = within(
            "the neighbour's answer",
            send(dock.address, &ask, |_, _| {}),
        )
        .await;
        let reply = reply.expect("the neighbour is answered");
        let last = reply.messages.last().map_or("", String::as_str);
        serde_json::from_str(last).unwrap_or_default()
    }

    /// All that is its own still works.
    pub(super) async fn is_served(&self, dock: &Dock, parked: &str) {
        let pong = self.result(dock, "ping", json!({})).await;
        assert_eq!(pong["result"], json!({}), "{pong}");
        let shown = self.calls(dock, "old_show", json!({ "mine": MARK })).await;
        assert_eq!(shown["result"]["arguments"]["mine"], MARK, "{shown}");
        let task = json!({ "taskId": self.task });
        let task = self.result(dock, "tasks/get", task).await;
        assert_eq!(task["result"]["taskId"], self.task, "{task}");
        assert!(task.to_string().contains(MARK), "{task}");
        for (name, state) in [("new_ask", &*self.state), ("old_ask", parked)] {
            let input = if name == "new_ask" { "q" } else { "input-1" };
            let more = json!({
                "requestState": state,
                "inputResponses": { input: { "action": "accept", "content": { "said": "yes" } } },
            });
            let told = self.stateless(dock, name, more).await;
            let text = told["result"]["content"][0]["text"].as_str().unwrap_or("");
            assert!(text.contains("accept"), "{name}: {told}");
        }
    }
}
