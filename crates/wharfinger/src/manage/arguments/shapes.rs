//! What the owner's calls of management take (A199): the shapes alone. Which files are agents is others' to know (A201).

use serde_json::Value;

use super::Reader;
use super::install::HeaderEnv;
use crate::manage::Error;
use crate::model::Secret;

/// Tries a server without keeping it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// What to call it.
    pub name: String,
    /// How it is reached.
    pub target: ProbeTarget,
    /// Variables and their values.
    pub env: Vec<(String, Secret)>,
}

/// How a server to be tried is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeTarget {
    /// A process.
    Stdio {
        /// What to run.
        command: String,
        /// Its arguments.
        args: Vec<String>,
    },
    /// An endpoint.
    Http {
        /// Its address.
        url: String,
        /// Headers sent with every request.
        headers: Vec<(String, Secret)>,
        /// Headers whose values are in variables.
        header_env: Vec<HeaderEnv>,
        /// The variable with the bearer token.
        bearer_token_env_var: Option<String>,
    },
}

impl Probe {
    /// Reads a request.
    pub fn read(request: &Value) -> Result<Self, Error> {
        let mut reader = Reader::new(request)?;
        let transports = [("stdio", false), ("http", true)];
        let transport = reader.choice("transport", &transports);
        let name = reader.required("name");
        let command = reader.word("command");
        let args = reader.texts("args");
        let url = reader.word("url");
        let env = secrets(reader.pairs("env"));
        let headers = secrets(reader.pairs("headers"));
        let header_env = reader.rows("headerEnv", |row| HeaderEnv {
            header: row.required("header"),
            env: row.required("env"),
        });
        let bearer_token_env_var = reader.word("bearerTokenEnvVar");
        let target = if transport.unwrap_or(url.is_some() && command.is_none()) {
            if url.is_none() {
                reader.complain("url", "is missing: transport `http` needs it");
            }
            if command.is_some() || !args.is_empty() {
                reader.complain("command", "is for transport `stdio` only");
            }
            ProbeTarget::Http {
                url: url.unwrap_or_default(),
                headers,
                header_env,
                bearer_token_env_var,
            }
        } else {
            if command.is_none() {
                reader.complain("command", "is missing: transport `stdio` needs it");
            }
            if url.is_some() {
                reader.complain("url", "is for transport `http` only");
            }
            ProbeTarget::Stdio {
                command: command.unwrap_or_default(),
                args,
            }
        };
        reader.done(Self { name, target, env })
    }
}

fn secrets(pairs: Vec<(String, String)>) -> Vec<(String, Secret)> {
    pairs
        .into_iter()
        .map(|(key, value)| (key, Secret::new(value)))
        .collect()
}

/// Installs or uninstalls a package that is kept here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageNamed {
    /// The package.
    pub package: String,
    /// The server.
    pub name: String,
}

impl PackageNamed {
    /// Reads a request.
    pub fn read(request: &Value) -> Result<Self, Error> {
        let mut reader = Reader::new(request)?;
        let package = reader.required("package");
        let name = reader.required("name");
        reader.done(Self { package, name })
    }
}

/// Sets a credential of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialSet {
    /// The agent's file.
    pub file: String,
    /// Whose credential.
    pub package: String,
    /// The variable.
    pub key: String,
    /// Its value.
    pub value: Secret,
}

impl CredentialSet {
    /// Reads a request.
    pub fn read(request: &Value) -> Result<Self, Error> {
        let mut reader = Reader::new(request)?;
        let file = reader.required("file");
        let package = reader.required("package");
        let key = reader.required("key");
        let value = reader.text("value");
        if value.as_ref().is_none_or(String::is_empty) {
            reader.complain("value", "is missing");
        }
        reader.done(Self {
            file,
            package,
            key,
            value: Secret::new(value.unwrap_or_default()),
        })
    }
}

/// Asks which credentials an agent has for a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialGet {
    /// The agent's file.
    pub file: String,
    /// Whose credentials.
    pub package: String,
}

impl CredentialGet {
    /// Reads a request.
    pub fn read(request: &Value) -> Result<Self, Error> {
        let mut reader = Reader::new(request)?;
        let file = reader.required("file");
        let package = reader.required("package");
        reader.done(Self { file, package })
    }
}

/// Attaches a server to an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Attach {
    /// The agent's file.
    pub file: String,
    /// The entry to be.
    pub server: Value,
}

impl Attach {
    /// Reads a request.
    pub fn read(request: &Value) -> Result<Self, Error> {
        let mut reader = Reader::new(request)?;
        let file = reader.required("file");
        let server = reader.value("serverConfig").unwrap_or_default();
        match &server {
            Value::Null => reader.complain("serverConfig", "is missing"),
            Value::Object(entry) => {
                let name = entry.get("name").and_then(Value::as_str);
                if name.is_none_or(str::is_empty) {
                    reader.complain("serverConfig.name", "is missing");
                }
            }
            other => {
                let text = format!("must be an object, not {}", super::kind(other));
                reader.complain("serverConfig", text);
            }
        }
        reader.done(Self { file, server })
    }
}

/// Detaches a server from an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detach {
    /// The agent's file.
    pub file: String,
    /// The server.
    pub name: String,
    /// Whose credentials go with it.
    pub namespace: Option<String>,
}

impl Detach {
    /// Reads a request.
    pub fn read(request: &Value) -> Result<Self, Error> {
        let mut reader = Reader::new(request)?;
        let file = reader.required("file");
        let name = reader.required("name");
        let namespace = reader.word("namespace");
        reader.done(Self {
            file,
            name,
            namespace,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fields<T: std::fmt::Debug>(read: Result<T, Error>) -> Value {
        Value::Object(read.unwrap_err().fields())
    }

    #[test]
    fn a199_a_probe_names_a_command_or_a_url() {
        let stdio = Probe::read(&json!({"name": "x", "command": "c", "args": ["a"]})).unwrap();
        assert_eq!(
            stdio.target,
            ProbeTarget::Stdio {
                command: "c".into(),
                args: vec!["a".into()]
            }
        );
        let http = Probe::read(&json!({
            "name": "x", "url": "https://x", "headers": {"A": "b"},
            "headerEnv": [{"header": "B", "env": "C"}], "bearerTokenEnvVar": "T", "env": {"T": "v"},
        }));
        let http = http.unwrap();
        assert!(matches!(http.target, ProbeTarget::Http { ref url, .. } if url == "https://x"));
        assert!(!format!("{http:?}").contains("\"v\""));
        let check = |request: Value, expect: Value| {
            assert_eq!(fields(Probe::read(&request)), expect);
        };
        check(
            json!({}),
            json!({
                "name": ["is missing"],
                "command": ["is missing: transport `stdio` needs it"],
            }),
        );
        check(
            json!({"name": "x", "transport": "http", "command": "c"}),
            json!({
                "url": ["is missing: transport `http` needs it"],
                "command": ["is for transport `stdio` only"],
            }),
        );
        check(
            json!({"name": "x", "transport": "stdio", "url": "u"}),
            json!({
                "command": ["is missing: transport `stdio` needs it"],
                "url": ["is for transport `http` only"],
            }),
        );
    }

    #[test]
    fn a199_the_other_calls_say_what_is_missing() {
        assert_eq!(
            fields(PackageNamed::read(&json!({"name": 1}))),
            json!({"package": ["is missing"], "name": ["must be a string, not a number"]})
        );
        assert_eq!(
            fields(CredentialSet::read(&json!({"file": "a.adf"}))),
            json!({"package": ["is missing"], "key": ["is missing"], "value": ["is missing"]})
        );
        assert_eq!(
            fields(CredentialGet::read(
                &json!({"file": "a.adf", "pakage": "x"})
            )),
            json!({
                "package": ["is missing"],
                "pakage": ["is not known; did you mean `package`?"],
            })
        );
        assert_eq!(
            fields(Attach::read(&json!({"file": "a.adf", "serverConfig": {}}))),
            json!({"serverConfig.name": ["is missing"]})
        );
        assert_eq!(
            fields(Attach::read(&json!({"file": "a.adf", "serverConfig": []}))),
            json!({"serverConfig": ["must be an object, not a list"]})
        );
        assert_eq!(
            fields(Detach::read(&json!({}))),
            json!({"file": ["is missing"], "name": ["is missing"]})
        );
        let set = json!({"file": "a.adf", "package": "p", "key": "K", "value": "hunter2"});
        assert!(!format!("{:?}", CredentialSet::read(&set).unwrap()).contains("hunter2"));
    }
}
