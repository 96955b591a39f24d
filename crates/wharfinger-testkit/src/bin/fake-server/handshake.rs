//! How the connection begins: `initialize`, or `server/discover` of 2026-07-28.

use std::sync::Arc;
use std::thread;

use serde_json::{Value, json};

use crate::era::{self, Era};
use crate::leave;
use crate::server::{Request, Server};

impl Server {
    pub(crate) fn initialize(self: &Arc<Self>, request: &Request, era: Era) {
        let id = &request.id;
        let requested = &request.params["protocolVersion"];
        if self.modes().on("never-init") {
            return;
        }
        if let Some(delay) = self.modes().seconds("slow-init") {
            thread::sleep(delay);
        }
        if era::locked(self.modes(), era) {
            return self.output.message(&era::refusal(id, requested));
        }
        if self.modes().on("init-error") {
            return self.output.error(id, -32000, "not today");
        }
        self.settle(Era::Handshake);
        let mut result = self.introduction();
        result["protocolVersion"] = json!(self.handshake_version(requested));
        result["serverInfo"] = self.server_info();
        self.output.result(id, &result);
        self.start_talking();
    }

    fn handshake_version(&self, requested: &Value) -> String {
        if self.modes().on("init-bad-version") {
            return "1999-01-01".to_owned();
        }
        match (self.modes().text("protocol"), requested.as_str()) {
            (Some(version), _) => version.to_owned(),
            (None, Some(version)) if version <= "2025-11-25" => version.to_owned(),
            _ => "2025-11-25".to_owned(),
        }
    }

    pub(crate) fn discover(&self, request: &Request) {
        let id = &request.id;
        if self.modes().on("discover-silent") {
            self.settle(Era::Mute);
        } else if self.modes().on("discover-dies") {
            leave(3);
        } else if let Some(code) = self
            .modes()
            .text("discover-error")
            .and_then(|c| c.parse().ok())
        {
            self.output.error(id, code, "discover refused");
        } else if !era::speaks_modern(self.modes()) {
            self.output
                .error(id, era::METHOD_NOT_FOUND, "Method not found");
        } else if let Err((code, message)) = era::check(&request.params) {
            self.output.error(id, code, &message);
        } else {
            self.settle(Era::Modern);
            let mut result = self.introduction();
            result["supportedVersions"] = json!([era::MODERN]);
            era::dress(&mut result, &self.server_info(), true);
            self.output.result(id, &result);
        }
    }

    /// The part of the first answer that both eras share.
    fn introduction(&self) -> Value {
        let mut result = json!({"capabilities": {}});
        if !self.modes().on("no-tools-capability") {
            result["capabilities"]["tools"] = json!({"listChanged": true});
        }
        if self.modes().on("log") || self.modes().on("notify-flood") {
            result["capabilities"]["logging"] = json!({});
        }
        self.more_capabilities(&mut result["capabilities"]);
        if let Some(text) = self.modes().text("instructions") {
            result["instructions"] = json!(text);
        }
        result
    }

    pub(crate) fn server_info(&self) -> Value {
        let name = self.modes().text("name").unwrap_or("fake-server");
        json!({"name": name, "version": self.modes().text("version").unwrap_or("1.0.0")})
    }

    /// What some servers can't wait to say once they have answered `initialize`.
    fn start_talking(self: &Arc<Self>) {
        for n in 0..self.modes().count("notify-flood").unwrap_or(0) {
            let params = json!({"level": "info", "data": format!("flood {n}")});
            self.output.notify("notifications/message", &params);
        }
        if let Some(pause) = self.modes().seconds("list-changed") {
            let server = Arc::clone(self);
            thread::spawn(move || {
                for n in 1.. {
                    thread::sleep(pause);
                    server.add_tool(&format!("late_{n}"));
                }
            });
        }
        if let Some(pause) = self.modes().seconds("ping-me") {
            let server = Arc::clone(self);
            thread::spawn(move || {
                for n in 0.. {
                    thread::sleep(pause);
                    server
                        .output
                        .request(&format!("srv-{n}"), "ping", &json!({}));
                }
            });
        }
    }
}
