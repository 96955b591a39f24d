//! What a session tells servers about its client.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

/// Capabilities and roots a session declares to servers. Sessions of one agent share an instance only when theirs
/// are equal, since servers offer different tools to different clients.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Declared {
    /// The `capabilities` object as JSON text, its members in a fixed order.
    pub capabilities: Arc<str>,
    /// `file://` URIs answered to `roots/list`, where they are known beforehand; only asked for when `capabilities`
    /// has `roots`.
    pub roots: Arc<[String]>,
}

impl Default for Declared {
    fn default() -> Self {
        Self {
            capabilities: "{}".into(),
            roots: Arc::new([]),
        }
    }
}

/// Which folders a server is told to keep to, where its client declares that it knows some.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Roots {
    /// None: the server is not told of roots. The default of entries that name directories themselves.
    None,
    /// The agent's workspace.
    #[default]
    Workspace,
    /// Those of the client, asked for when the server asks.
    Client,
}

/// A `capabilities` object larger than this many bytes is cut down to what the protocol defines.
const LARGEST: usize = 8 << 10;

/// Capabilities that the protocol defines and servers act on.
const KNOWN: [&str; 5] = ["roots", "sampling", "elicitation", "tasks", "extensions"];

impl Declared {
    /// A client with these roots, `file://` URIs, and no other capability.
    pub fn with_roots(roots: Vec<String>) -> Self {
        Self {
            capabilities: r#"{"roots":{}}"#.into(),
            roots: roots.into(),
        }
    }

    /// What a client says it can do, as its `capabilities` object. What is no object counts as nothing.
    ///
    /// ```
    /// use wharfinger::model::Declared;
    ///
    /// let one = Declared::by_client(r#"{"sampling":{},"elicitation":{"url":{},"form":{}}}"#);
    /// let other = Declared::by_client(r#"{ "elicitation":{"form":{},"url":{}}, "sampling":{} }"#);
    /// assert_eq!(one, other);
    /// assert!(one.can("elicitation") && !one.can("roots"));
    /// ```
    pub fn by_client(capabilities: &str) -> Self {
        let Ok(Value::Object(mut object)) = serde_json::from_str(capabilities) else {
            return Self::default();
        };
        if capabilities.len() > LARGEST {
            object.retain(|key, _| KNOWN.contains(&key.as_str()));
        }
        let text = sorted(Value::Object(object)).to_string();
        if text.len() > LARGEST {
            return Self::default();
        }
        Self {
            capabilities: text.into(),
            ..Self::default()
        }
    }

    /// Whether the client can do what the protocol calls by this name.
    pub fn can(&self, capability: &str) -> bool {
        self.capability(capability).is_some()
    }

    /// The value of a capability.
    pub fn capability(&self, name: &str) -> Option<Value> {
        // Asked with every call, and most of the time the answer is no.
        if !self.capabilities.contains(name) {
            return None;
        }
        let all: Value = serde_json::from_str(&self.capabilities).ok()?;
        all.get(name).filter(|value| value.is_object()).cloned()
    }

    /// What a server is told when it is told of these roots only.
    #[must_use]
    pub fn with(&self, roots: Roots) -> Self {
        if roots != Roots::None || !self.can("roots") {
            return self.clone();
        }
        let Ok(Value::Object(mut object)) = serde_json::from_str(&self.capabilities) else {
            return Self::default();
        };
        object.shift_remove("roots");
        Self {
            capabilities: Value::Object(object).to_string().into(),
            roots: Arc::new([]),
        }
    }

    /// A short key for maps of this process; not stable over versions.
    pub fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// The same with the members of every object by name, so that equal objects are equal text.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut members: Vec<_> = object.into_iter().collect();
            members.sort_by(|(one, _), (other, _)| one.cmp(other));
            let sorted = members
                .into_iter()
                .map(|(key, value)| (key, sorted(value)))
                .collect();
            Value::Object(sorted)
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(capabilities: &str, expect: &str) {
        assert_eq!(&*Declared::by_client(capabilities).capabilities, expect);
    }

    #[test]
    fn equal_capabilities_are_equal_text() {
        check(
            r#"{"b":[{"d":1,"c":2}],"a":{}}"#,
            r#"{"a":{},"b":[{"c":2,"d":1}]}"#,
        );
        check("[]", "{}");
        check("not json", "{}");
    }

    #[test]
    fn an_oversized_description_is_cut_down() {
        let filling = "x".repeat(LARGEST);
        check(
            &format!(r#"{{"roots":{{}},"experimental":{{"x":"{filling}"}}}}"#),
            r#"{"roots":{}}"#,
        );
        check(&format!(r#"{{"roots":{{"x":"{filling}"}}}}"#), "{}");
    }

    #[test]
    fn a_server_without_roots_is_not_told_of_them() {
        let client = Declared::by_client(r#"{"roots":{"listChanged":true},"sampling":{}}"#);
        let told = |roots| client.with(roots).capabilities.to_string();
        assert_eq!(told(Roots::None), r#"{"sampling":{}}"#);
        assert_eq!(told(Roots::Workspace), &*client.capabilities);
        assert_eq!(Declared::default().with(Roots::None), Declared::default());
    }
}
