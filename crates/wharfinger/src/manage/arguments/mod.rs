//! What each tool takes, read from raw JSON: parsed, not cast (P30). All that is wrong is told at once, by field.
//!
//! Flags a program puts into arguments for itself (`_authorized` and the like) are gone before these see them.

mod files;
mod install;
mod reader;
mod shapes;

use serde_json::Value;

pub use files::{Encoding, FsRead, FsWrite, Protection, WriteMode};
pub use install::{CredentialFile, HeaderEnv, Install, Kind};
pub use shapes::{Attach, CredentialGet, CredentialSet, Detach, PackageNamed, Probe, ProbeTarget};

use super::Error;
use reader::Reader;
pub(super) use reader::kind;

/// `mcp_available`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Available {
    /// Words to look for.
    pub query: Option<String>,
}

impl Available {
    /// Reads the arguments of a call.
    pub fn read(arguments: &Value) -> Result<Self, Error> {
        let mut reader = Reader::new(arguments)?;
        let query = reader.word("query");
        reader.done(Self { query })
    }
}

/// `mcp_restart`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restart {
    /// The server.
    pub name: String,
}

impl Restart {
    /// Reads the arguments of a call.
    pub fn read(arguments: &Value) -> Result<Self, Error> {
        let mut reader = Reader::new(arguments)?;
        let name = reader.required("name");
        reader.done(Self { name })
    }
}

/// `mcp_uninstall`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uninstall {
    /// The server.
    pub name: String,
}

impl Uninstall {
    /// Reads the arguments of a call.
    pub fn read(arguments: &Value) -> Result<Self, Error> {
        let mut reader = Reader::new(arguments)?;
        let name = reader.required("name");
        reader.done(Self { name })
    }
}

/// A part of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// All of it.
    Config,
    /// `tools`: what may be called.
    Tools,
    /// `limits`.
    Limits,
    /// `mcp`: servers, and how new tools begin.
    Mcp,
}

impl Section {
    /// Every section and its name.
    pub const ALL: [(&'static str, Self); 4] = [
        ("config", Self::Config),
        ("tools", Self::Tools),
        ("limits", Self::Limits),
        ("mcp", Self::Mcp),
    ];
}

/// `sys_get_config`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetConfig {
    /// All of it unless given.
    pub section: Section,
}

impl GetConfig {
    /// Reads the arguments of a call.
    pub fn read(arguments: &Value) -> Result<Self, Error> {
        let mut reader = Reader::new(arguments)?;
        let section = reader.choice("section", &Section::ALL);
        reader.done(Self {
            section: section.unwrap_or(Section::Config),
        })
    }
}

/// What `sys_update_config` does at its path.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Puts a value there; an object is laid over the one that is there, member by member (P36).
    Set(Value),
    /// Adds an entry to the list that is there.
    Append(Value),
    /// Takes away what is there.
    Remove,
}

/// `sys_update_config`.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateConfig {
    /// Members by name, with dots between: `tools.mcp_install.enabled`, `mcp.servers.github.tool_call_timeout_ms`.
    pub path: String,
    /// What to do there.
    pub action: Action,
}

impl UpdateConfig {
    /// Reads the arguments of a call.
    pub fn read(arguments: &Value) -> Result<Self, Error> {
        #[derive(Clone, Copy)]
        enum Verb {
            Set,
            Append,
            Remove,
        }
        let verbs = [
            ("set", Verb::Set),
            ("append", Verb::Append),
            ("remove", Verb::Remove),
        ];
        let mut reader = Reader::new(arguments)?;
        let path = reader.required("path");
        let verb = reader.choice("action", &verbs).unwrap_or(Verb::Set);
        let value = reader.value("value");
        let action = match (verb, value) {
            (Verb::Set, Some(value)) => Action::Set(value),
            (Verb::Append, Some(value)) => Action::Append(value),
            (Verb::Remove, None | Some(Value::Null)) => Action::Remove,
            (Verb::Remove, Some(_)) => {
                reader.complain("value", "is not for action `remove`");
                Action::Remove
            }
            (Verb::Set | Verb::Append, None) => {
                reader.complain("value", "is missing");
                Action::Remove
            }
        };
        reader.done(Self { path, action })
    }
}

/// What a web server is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The page.
    Get,
    /// Only what is said about it.
    Head,
}

impl Method {
    /// Every method and its name.
    pub const ALL: [(&'static str, Self); 2] = [("GET", Self::Get), ("HEAD", Self::Head)];
}

/// `sys_fetch`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Where.
    pub url: String,
    /// GET unless given.
    pub method: Method,
}

impl Fetch {
    /// Reads the arguments of a call.
    pub fn read(arguments: &Value) -> Result<Self, Error> {
        let mut reader = Reader::new(arguments)?;
        let url = reader.required("url");
        if url.len() > 8192 {
            reader.complain("url", "is longer than 8192 bytes");
        }
        let method = reader.choice("method", &Method::ALL);
        reader.done(Self {
            url,
            method: method.unwrap_or(Method::Get),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn complaints<T: std::fmt::Debug>(read: Result<T, Error>) -> String {
        read.unwrap_err().to_string()
    }

    #[test]
    fn a90_a92_a_name_is_all_they_take() {
        assert_eq!(Restart::read(&json!({"name": "git"})).unwrap().name, "git");
        assert_eq!(
            Uninstall::read(&json!({"name": " git "})).unwrap().name,
            "git"
        );
        assert_eq!(complaints(Restart::read(&json!({}))), "`name` is missing");
        assert_eq!(complaints(Restart::read(&Value::Null)), "`name` is missing");
        assert_eq!(
            complaints(Uninstall::read(&json!({"name": ""}))),
            "`name` is empty"
        );
        assert_eq!(
            complaints(Uninstall::read(&json!({"name": 3}))),
            "`name` must be a string, not a number"
        );
        assert_eq!(
            complaints(Uninstall::read(&json!([]))),
            "`arguments` must be an object, not a list"
        );
    }

    #[test]
    fn p30_unknown_arguments_are_refused_with_the_nearest_name() {
        assert_eq!(
            complaints(Restart::read(&json!({"nam": "git"}))),
            "`name` is missing; `nam` is not known; did you mean `name`?"
        );
        assert_eq!(
            complaints(Fetch::read(
                &json!({"url": "https://x", "headers": {"a": "b"}})
            )),
            "`headers` is not known; there are: url, method"
        );
    }

    #[test]
    fn a110_a_section_is_one_of_four() {
        let check = |arguments: Value, expect: Section| {
            assert_eq!(GetConfig::read(&arguments).unwrap().section, expect);
        };
        check(json!({}), Section::Config);
        check(json!({"section": "mcp"}), Section::Mcp);
        check(json!({"section": null}), Section::Config);
        assert_eq!(
            complaints(GetConfig::read(&json!({"section": "identity"}))),
            "`section` must be one of config, tools, limits, mcp, not `identity`"
        );
    }

    #[test]
    fn a234_an_update_has_a_path_and_a_value() {
        let check = |arguments: Value, expect: Action| {
            assert_eq!(UpdateConfig::read(&arguments).unwrap().action, expect);
        };
        check(
            json!({"path": "limits.a", "value": null}),
            Action::Set(Value::Null),
        );
        check(
            json!({"path": "mcp.servers", "value": {}, "action": "append"}),
            Action::Append(json!({})),
        );
        check(
            json!({"path": "limits.a", "action": "remove"}),
            Action::Remove,
        );
        assert_eq!(
            complaints(UpdateConfig::read(&json!({"path": "limits.a"}))),
            "`value` is missing"
        );
        assert_eq!(
            complaints(UpdateConfig::read(
                &json!({"path": "a", "value": 1, "action": "remove"})
            )),
            "`value` is not for action `remove`"
        );
    }

    #[test]
    fn a10_a_fetch_is_get_or_head() {
        assert_eq!(
            Fetch::read(&json!({"url": "https://x/", "method": "head"})).unwrap(),
            Fetch {
                url: "https://x/".into(),
                method: Method::Head
            }
        );
        assert_eq!(
            complaints(Fetch::read(&json!({"url": "https://x/", "method": "POST"}))),
            "`method` must be one of GET, HEAD, not `POST`"
        );
    }
}
