//! The connection: what came and what it means. Its beginning is in `handshake.rs`, calls are in
//! `call.rs`.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use serde_json::{Value, json};

use crate::era::{self, Era};
use crate::modes::Modes;
use crate::output::Output;
use crate::{call, startup, tools};

/// A request of the client.
pub(crate) struct Request {
    pub(crate) id: Value,
    pub(crate) method: String,
    pub(crate) params: Value,
    pub(crate) modern: bool,
}

pub(crate) struct Server {
    modes: Modes,
    pub(crate) output: Output,
    tools: Mutex<Vec<Value>>,
    era: Mutex<Era>,
    calls: AtomicUsize,
    asked: AtomicUsize,
    cancelled: Mutex<HashSet<String>>,
    /// Requests of ours that the client hasn't answered.
    waiting: Mutex<HashMap<String, Sender<Value>>>,
    roots: Mutex<Option<Value>>,
    /// The ids of the `subscriptions/listen` requests that want to hear of tools.
    listeners: Mutex<Vec<Value>>,
    /// The URIs that were subscribed to.
    subscribed: Mutex<Vec<Value>>,
    /// The same in 2026-07-28, with the ids of the requests.
    watched: Mutex<Vec<(Value, Value)>>,
    tasks: Mutex<Vec<String>>,
    task_count: AtomicUsize,
}

impl Server {
    pub(crate) fn new(modes: Modes) -> Self {
        let output = Output::new(modes.on("crlf"));
        if modes.on("banner") {
            output.raw(b"Welcome to BadServer v0!\n\n");
        }
        Self {
            tools: Mutex::new(tools::list(&modes)),
            output,
            era: Mutex::new(Era::Open),
            calls: AtomicUsize::new(0),
            asked: AtomicUsize::new(0),
            cancelled: Mutex::default(),
            waiting: Mutex::default(),
            roots: Mutex::default(),
            listeners: Mutex::default(),
            subscribed: Mutex::default(),
            watched: Mutex::default(),
            tasks: Mutex::default(),
            task_count: AtomicUsize::new(0),
            modes,
        }
    }

    pub(crate) fn subscribed(&self) -> MutexGuard<'_, Vec<Value>> {
        self.subscribed.lock().expect("no holder panics")
    }

    pub(crate) fn watched(&self) -> MutexGuard<'_, Vec<(Value, Value)>> {
        self.watched.lock().expect("no holder panics")
    }

    pub(crate) fn tasks(&self) -> MutexGuard<'_, Vec<String>> {
        self.tasks.lock().expect("no holder panics")
    }

    pub(crate) fn task_count(&self) -> &AtomicUsize {
        &self.task_count
    }

    pub(crate) fn modes(&self) -> &Modes {
        &self.modes
    }

    /// Takes one line from the client. What isn't JSON is passed over.
    pub(crate) fn receive(self: &Arc<Self>, line: &[u8]) {
        if let Some(file) = self.modes.file("record") {
            startup::append_line(file, String::from_utf8_lossy(line).trim_end());
        }
        let Ok(mut message) = serde_json::from_slice::<Value>(line) else {
            return;
        };
        let Some(method) = message["method"].as_str().map(ToOwned::to_owned) else {
            return self.answered(&message);
        };
        let params = message["params"].take();
        if message.get("id").is_none() {
            return self.notified(&method, &params);
        }
        let modern = era::speaks_modern(&self.modes) && era::is_modern(&params);
        let request = Request {
            id: message["id"].take(),
            method,
            params,
            modern,
        };
        if self.takes_its_time(&request) {
            let server = Arc::clone(self);
            thread::spawn(move || server.handle(&request));
        } else {
            self.handle(&request);
        }
    }

    /// Whether answering takes so long that other messages must be read meanwhile.
    fn takes_its_time(&self, request: &Request) -> bool {
        match request.method.as_str() {
            "initialize" => self.modes.on("slow-init"),
            "tools/call" => {
                let slow = ["slow-call", "wait-for", "ask", "progress-pause-ms"];
                self.modes.any(&slow) || request.params["name"] == "roots"
            }
            _ => false,
        }
    }

    fn handle(self: &Arc<Self>, request: &Request) {
        let era = *self.era.lock().expect("no holder panics");
        if era == Era::Mute {
            return;
        }
        match request.method.as_str() {
            "initialize" => return self.initialize(request, era),
            "server/discover" => return self.discover(request),
            _ => {}
        }
        if request.modern || (era == Era::Modern && !self.modes.on("modern-unlocked")) {
            if let Err((code, message)) = era::check(&request.params) {
                return self.output.error(&request.id, code, &message);
            }
            self.settle(Era::Modern);
        }
        match request.method.as_str() {
            "ping" if self.modes.on("no-pong") => {}
            "ping" => self.plain_result(request, json!({})),
            "tools/list" => self.list_tools(request),
            "tools/call" => call::answer(self, request),
            "subscriptions/listen" if request.modern => self.listen(request),
            _ if self.other(request) => {}
            _ => self
                .output
                .error(&request.id, era::METHOD_NOT_FOUND, "Method not found"),
        }
    }

    fn list_tools(&self, request: &Request) {
        if self.modes.on("no-reply-to-list") {
            return;
        }
        let tools = self.tools.lock().expect("no holder panics").clone();
        let pages = self.modes.count("pages").unwrap_or(1).max(1);
        let page: usize = request.params["cursor"]
            .as_str()
            .and_then(|cursor| cursor.strip_prefix("page-")?.parse().ok())
            .unwrap_or(0);
        let size = tools.len().div_ceil(pages);
        let these: Vec<Value> = tools.into_iter().skip(page * size).take(size).collect();
        let mut result = json!({"tools": these});
        if self.modes.on("page-loop") {
            result["nextCursor"] = json!("again");
        } else if page + 1 < pages {
            result["nextCursor"] = json!(format!("page-{}", page + 1));
        }
        if request.modern {
            era::dress(&mut result, &self.server_info(), true);
        }
        self.plain_result(request, result);
    }

    fn listen(&self, request: &Request) {
        let wanted = request.params["notifications"]["toolsListChanged"] == json!(true);
        if wanted {
            self.listeners
                .lock()
                .expect("no holder panics")
                .push(request.id.clone());
        }
        let mut granted = if wanted {
            json!({"toolsListChanged": true})
        } else {
            json!({})
        };
        if let Some(uris) = request.params["notifications"]["resourceSubscriptions"].as_array() {
            let watched = uris.iter().map(|uri| (request.id.clone(), uri.clone()));
            self.watched().extend(watched);
            granted["resourceSubscriptions"] = json!(uris);
        }
        let params =
            json!({"_meta": {era::SUBSCRIPTION_KEY: request.id}, "notifications": granted});
        self.output
            .notify("notifications/subscriptions/acknowledged", &params);
    }

    pub(crate) fn plain_result(&self, request: &Request, result: Value) {
        let mut result = result;
        if request.modern {
            era::dress(&mut result, &self.server_info(), false);
        }
        let wrong = self.modes.text("wrong-id") == Some("all");
        let id = if wrong {
            json!(99999)
        } else {
            request.id.clone()
        };
        self.output.result(&id, &result);
    }

    fn notified(&self, method: &str, params: &Value) {
        match method {
            "notifications/initialized" => {
                for _ in 0..self.modes.count("notify-after-init").unwrap_or(0) {
                    self.tell_tools_changed();
                }
                self.ask_for_roots();
            }
            "notifications/roots/list_changed" => self.ask_for_roots(),
            "notifications/cancelled" => {
                let id = &params["requestId"];
                let text = id
                    .as_str()
                    .map_or_else(|| id.to_string(), ToOwned::to_owned);
                self.listeners
                    .lock()
                    .expect("no holder panics")
                    .retain(|one| one != id);
                self.watched().retain(|(one, _)| one != id);
                self.cancelled
                    .lock()
                    .expect("no holder panics")
                    .insert(id.to_string());
                if let Some(file) = self.modes.file("cancel-file") {
                    startup::append_line(file, &text);
                }
            }
            _ => {}
        }
    }

    fn ask_for_roots(&self) {
        if self.modes.on("roots") {
            self.output.request("roots", "roots/list", &json!({}));
        }
    }

    /// An answer to a request of ours.
    fn answered(&self, message: &Value) {
        let Some(id) = message["id"].as_str() else {
            return;
        };
        let answer = if message.get("error").is_some() {
            json!({"error": message["error"]})
        } else {
            message["result"].clone()
        };
        if id == "roots" {
            *self.roots.lock().expect("no holder panics") = Some(answer);
        } else if let Some(asker) = self.waiting.lock().expect("no holder panics").remove(id) {
            // The call that asked may have been cancelled.
            drop(asker.send(answer));
        }
    }

    /// Sends a request to the client; the answer comes out of the channel.
    pub(crate) fn ask(&self, method: &str, params: &Value) -> Receiver<Value> {
        let id = format!("ask-{}", self.asked.fetch_add(1, Ordering::Relaxed));
        let (sender, receiver) = channel();
        self.waiting
            .lock()
            .expect("no holder panics")
            .insert(id.clone(), sender);
        self.output.request(&id, method, params);
        receiver
    }

    pub(crate) fn roots(&self) -> Option<Value> {
        self.roots.lock().expect("no holder panics").clone()
    }

    pub(crate) fn is_cancelled(&self, id: &Value) -> bool {
        self.cancelled
            .lock()
            .expect("no holder panics")
            .contains(&id.to_string())
    }

    /// The number of this call, from one.
    pub(crate) fn count_call(&self) -> usize {
        self.calls.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn has_tool(&self, name: &Value) -> bool {
        self.tools
            .lock()
            .expect("no holder panics")
            .iter()
            .any(|tool| tool["name"] == *name)
    }

    pub(crate) fn add_tool(&self, name: &str) {
        self.tools
            .lock()
            .expect("no holder panics")
            .push(tools::plain(name));
        self.tell_tools_changed();
    }

    fn tell_tools_changed(&self) {
        const CHANGED: &str = "notifications/tools/list_changed";
        if *self.era.lock().expect("no holder panics") != Era::Modern {
            return self
                .output
                .message(&json!({"jsonrpc": "2.0", "method": CHANGED}));
        }
        for id in self.listeners.lock().expect("no holder panics").iter() {
            self.output
                .notify(CHANGED, &json!({"_meta": {era::SUBSCRIPTION_KEY: id}}));
        }
    }

    pub(crate) fn settle(&self, era: Era) {
        *self.era.lock().expect("no holder panics") = era;
    }
}
