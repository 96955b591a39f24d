//! What a client may ask for at all: what the servers of its session have, together.

use serde_json::{Value, json};
use wharfinger::Session;
use wharfinger::catalog::Kind;
use wharfinger_wire::era::Version;
use wharfinger_wire::json::{Object, Raw, empty_object, raw};

/// What all servers together can do. Where some have not been asked yet, or there are none yet, what they may turn out to
/// have is promised: a client that was not told of prompts never asks for them.
pub(super) struct Offered {
    all: Value,
    open: bool,
}

impl Offered {
    pub(super) fn to(session: &Session) -> Self {
        let config = session.wharf().config();
        Self {
            open: !session.knows_all() || config.servers.iter().all(|entry| !entry.enabled),
            all: session.directory().capabilities.clone(),
        }
    }

    /// Whether there is what the protocol calls by this name.
    pub(super) fn has(&self, capability: &str) -> bool {
        match capability {
            "tasks" => {
                let extensions = self.all.get("extensions");
                let extended = extensions.is_some_and(|all| all.get(TASKS).is_some());
                extended || self.all.get("tasks").is_some()
            }
            name => self.open || self.all.get(name).is_some(),
        }
    }

    /// Whether resources can be subscribed to.
    pub(super) fn subscribes(&self) -> bool {
        self.open || self.all["resources"]["subscribe"] == json!(true)
    }

    /// As a client of this version is told.
    pub(super) fn to_raw(&self, version: Version) -> Raw {
        let mut object = Object::new();
        for name in ["experimental", "extensions"] {
            if let Some(value) = self.all.get(name) {
                object.set(name, raw(value));
            }
        }
        object.set("logging", empty_object());
        if self.has("prompts") {
            object.set("prompts", raw(&json!({ "listChanged": true })));
        }
        if self.has("resources") {
            let mut resources = json!({ "listChanged": true });
            if self.subscribes() {
                resources["subscribe"] = json!(true);
            }
            object.set("resources", raw(&resources));
        }
        if self.has("completions") {
            object.set("completions", empty_object());
        }
        if version == Version::V2025_11_25
            && let Some(tasks) = self.all.get("tasks")
        {
            object.set("tasks", raw(tasks));
        }
        object.set("tools", raw(&json!({ "listChanged": true })));
        object.to_raw()
    }
}

/// The tasks extension.
pub(super) const TASKS: &str = "io.modelcontextprotocol/tasks";

/// What somebody must have for a method to be known.
pub(super) fn needed(method: &str) -> &str {
    match method.split('/').next().unwrap_or_default() {
        "completion" => "completions",
        group => group,
    }
}

/// The list that a method asks for.
pub(super) fn listed(method: &str) -> Option<Kind> {
    match method {
        "prompts/list" => Some(Kind::Prompt),
        "resources/list" => Some(Kind::Resource),
        "resources/templates/list" => Some(Kind::Template),
        _ => None,
    }
}

/// Methods that only one of the eras has.
pub(super) fn is_of_other_era(method: &str, version: Version) -> bool {
    if version.is_modern() {
        matches!(
            method,
            "resources/subscribe" | "resources/unsubscribe" | "tasks/result" | "tasks/list"
        )
    } else {
        method == "tasks/update"
    }
}
