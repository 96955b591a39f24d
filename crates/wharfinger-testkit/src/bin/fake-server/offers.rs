//! Everything beside tools: prompts, resources, completions, subscriptions, tasks.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::era;
use crate::server::{Request, Server};

/// The tasks extension of 2026-07-28.
const TASKS: &str = "io.modelcontextprotocol/tasks";

impl Server {
    /// What the modes add to the capabilities.
    pub(crate) fn more_capabilities(&self, capabilities: &mut Value) {
        let modes = self.modes();
        if modes.on("prompt") {
            capabilities["prompts"] = json!({"listChanged": true});
        }
        if modes.any(&["resource", "template"]) {
            capabilities["resources"] = json!({"subscribe": true, "listChanged": true});
        }
        if modes.on("complete") {
            capabilities["completions"] = json!({});
        }
        if modes.on("tasks") {
            capabilities["tasks"] =
                json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
            capabilities["extensions"] = json!({TASKS: {}});
        }
    }

    /// Answers a request that is about none of the tools; false for a method that is unknown.
    pub(crate) fn other(&self, request: &Request) -> bool {
        let modes = self.modes();
        let params = &request.params;
        let result = match request.method.as_str() {
            "prompts/list" if modes.on("prompt") => {
                let all = modes.all("prompt").iter();
                let prompts: Vec<Value> = all
                    .map(|name| json!({"name": name, "description": format!("The prompt {name}")}))
                    .collect();
                self.page(request, json!({"prompts": prompts}))
            }
            "prompts/get" if modes.on("prompt") => {
                let name = params["name"].as_str().unwrap_or_default();
                if !modes.all("prompt").iter().any(|known| known == name) {
                    return self.refuse(request, era::INVALID_PARAMS, "no such prompt");
                }
                let text = format!("{} of {}", name, self.own_name());
                let content = json!({"type": "text", "text": text});
                json!({"messages": [{"role": "user", "content": content}]})
            }
            "resources/list" if modes.any(&["resource", "template"]) => {
                let all = modes.all("resource").iter();
                let resources: Vec<Value> = all
                    .map(|uri| json!({"uri": uri, "name": uri, "x-odd": 1}))
                    .collect();
                self.page(request, json!({"resources": resources}))
            }
            "resources/templates/list" if modes.on("template") => {
                let all = modes.all("template").iter();
                let templates: Vec<Value> = all
                    .map(|text| json!({"uriTemplate": text, "name": text}))
                    .collect();
                self.page(request, json!({"resourceTemplates": templates}))
            }
            "resources/read" if modes.any(&["resource", "template"]) => return self.read(request),
            "resources/subscribe" if !request.modern => {
                self.subscribed().push(params["uri"].clone());
                json!({})
            }
            "resources/unsubscribe" if !request.modern => {
                self.subscribed().retain(|uri| *uri != params["uri"]);
                json!({})
            }
            "completion/complete" if modes.on("complete") => {
                let about = params["ref"]["name"].as_str();
                let about = about.or(params["ref"]["uri"].as_str()).unwrap_or_default();
                let value = params["argument"]["value"].as_str().unwrap_or_default();
                json!({"completion": {"values": [format!("{about}: {value}")]}})
            }
            method if method.starts_with("tasks/") && modes.on("tasks") => {
                return self.task(request);
            }
            _ => return false,
        };
        self.plain_result(request, result);
        true
    }

    fn own_name(&self) -> &str {
        self.modes().text("name").unwrap_or("fake-server")
    }

    fn page(&self, request: &Request, mut result: Value) -> Value {
        if request.modern {
            era::dress(&mut result, &self.server_info(), true);
            result["ttlMs"] = json!(self.modes().count("ttl").unwrap_or(0));
        }
        result
    }

    fn refuse(&self, request: &Request, code: i64, message: &str) -> bool {
        self.output.error(&request.id, code, message);
        true
    }

    fn read(&self, request: &Request) -> bool {
        let uri = request.params["uri"].as_str().unwrap_or_default();
        let modes = self.modes();
        let start = |template: &String| template.split('{').next().map(str::to_owned);
        let known = modes.all("resource").iter().any(|known| known == uri)
            || modes
                .all("template")
                .iter()
                .filter_map(start)
                .any(|start| uri.starts_with(&start));
        if !known {
            let code = if request.modern {
                era::INVALID_PARAMS
            } else {
                -32002
            };
            return self.refuse(request, code, "no such resource");
        }
        let text = format!("{uri} of {}", self.own_name());
        let result = json!({"contents": [{"uri": uri, "text": text}]});
        let result = self.page(request, result);
        self.plain_result(request, result);
        true
    }

    /// Tells of every resource that somebody wants to hear of.
    pub(crate) fn touch_resources(&self) {
        const UPDATED: &str = "notifications/resources/updated";
        for uri in self.subscribed().iter() {
            self.output.notify(UPDATED, &json!({"uri": uri}));
        }
        for (id, uri) in self.watched().iter() {
            let params = json!({"uri": uri, "_meta": {era::SUBSCRIPTION_KEY: id}});
            self.output.notify(UPDATED, &params);
        }
    }

    /// Whether a call is to become a task.
    pub(crate) fn becomes_task(&self, request: &Request) -> bool {
        let declared = &request.params["_meta"][era::CAPABILITIES_KEY]["extensions"];
        self.modes().on("tasks")
            && (!request.params["task"].is_null() || declared.get(TASKS).is_some())
    }

    /// The result that a call becomes a task.
    pub(crate) fn begin_task(&self, request: &Request) {
        let number = self.task_count().fetch_add(1, Ordering::Relaxed) + 1;
        let id = format!("task-{number}");
        self.tasks().push(id.clone());
        let result = if request.modern {
            let mut task = described(&id, "working");
            task["resultType"] = json!("task");
            task
        } else {
            json!({"task": described(&id, "working")})
        };
        self.plain_result(request, result);
    }

    fn task(&self, request: &Request) -> bool {
        let id = request.params["taskId"].as_str().unwrap_or_default();
        let known = self.tasks().iter().any(|known| known == id);
        if !known && request.method != "tasks/list" {
            return self.refuse(request, era::INVALID_PARAMS, "no such task");
        }
        let result = match request.method.as_str() {
            "tasks/list" => {
                let tasks = self.tasks().clone();
                let all = tasks.iter().map(|id| described(id, "working"));
                json!({"tasks": all.collect::<Vec<_>>()})
            }
            "tasks/result" => {
                let related = json!({"io.modelcontextprotocol/related-task": {"taskId": id}});
                let content = json!([{"type": "text", "text": format!("result of {id}")}]);
                json!({"content": content, "_meta": related})
            }
            "tasks/cancel" if !request.modern => described(id, "cancelled"),
            "tasks/get" => described(id, "working"),
            _ => json!({}),
        };
        self.plain_result(request, result);
        true
    }
}

/// A task as it stands.
fn described(id: &str, status: &str) -> Value {
    let at = "2026-01-01T00:00:00Z";
    json!({"taskId": id, "status": status, "createdAt": at, "lastUpdatedAt": at, "ttl": 60000})
}
