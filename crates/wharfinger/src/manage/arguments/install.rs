//! `mcp_install` (A78).

use serde_json::Value;

use super::Reader;
use super::files::{Encoding, decode};
use crate::manage::Error;
use crate::manage::package;
use crate::model::{Secret, is_blocked};

/// Longest content of a credential file, in bytes (A115).
const CREDENTIAL_FILE: usize = 256 * 1024;

/// Where a server comes from (A69).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A package of the npm registry.
    Npm,
    /// A package of the Python index.
    Pypi,
    /// A command.
    Custom,
    /// An endpoint on the web.
    Http,
}

impl Kind {
    /// Every kind and its name.
    pub const ALL: [(&'static str, Self); 4] = [
        ("npm", Self::Npm),
        ("pypi", Self::Pypi),
        ("custom", Self::Custom),
        ("http", Self::Http),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Npm => "npm",
            Self::Pypi => "pypi",
            Self::Custom => "custom",
            Self::Http => "http",
        }
    }
}

/// A header whose value stands in an environment variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderEnv {
    /// The header.
    pub header: String,
    /// The variable.
    pub env: String,
}

/// A file a server reads its credentials from, and may write them back to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialFile {
    /// Where the server looks for it: `~/…`, or an absolute path in a container.
    pub path: String,
    /// Without it the server is not started.
    pub required: bool,
    /// What the server writes there is kept.
    pub write_back: bool,
    /// What is in it, to be sealed.
    pub content: Option<Secret<Vec<u8>>>,
}

/// `mcp_install`: the arguments, each sound in itself; whether they fit together is decided by `plan`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Install {
    /// npm unless given.
    pub kind: Kind,
    /// Package, with or without a version; the command of a custom server.
    pub package: Option<String>,
    /// Endpoint of an http server.
    pub url: Option<String>,
    /// Derived from the package unless given (A79).
    pub name: Option<String>,
    /// What the server is given besides (A82); empty ones are left out (A22).
    pub args: Vec<String>,
    /// Asks for this machine instead of a container.
    pub host: bool,
    /// Variables the server needs, whose values are sealed already or come later.
    pub env_keys: Vec<String>,
    /// Variables and their values, which are sealed and never written into configuration (A83).
    pub env: Vec<(String, Secret)>,
    /// Headers of an http server that are no secrets.
    pub headers: Vec<(String, String)>,
    /// Headers whose values are.
    pub header_env: Vec<HeaderEnv>,
    /// The variable with the bearer token of an http server.
    pub bearer_token_env_var: Option<String>,
    /// Signs in before the first start; `None`: not said, so a registration's own choice holds (A76).
    pub auth: Option<bool>,
    /// What the server is given for signing in.
    pub auth_args: Vec<String>,
    /// The port signing in comes back to.
    pub auth_port: Option<u16>,
    /// See [`CredentialFile`].
    pub credential_files: Vec<CredentialFile>,
}

impl Install {
    /// Reads the arguments of a call.
    pub fn read(arguments: &Value) -> Result<Self, Error> {
        let mut reader = Reader::new(arguments)?;
        let package = reader.word("package");
        let kind = reader.choice("type", &Kind::ALL).unwrap_or(Kind::Npm);
        let url = reader.word("url");
        let name = reader.word("name");
        let mut args = reader.texts("args");
        args.retain(|arg| !arg.trim().is_empty());
        let host = reader.flag("host").unwrap_or(false);
        let env_keys = reader.texts("env_keys");
        let env = reader.pairs("env");
        let headers = reader.pairs("headers");
        let header_env = reader.rows("header_env", |row| HeaderEnv {
            header: row.required("header"),
            env: row.required("env"),
        });
        let bearer_token_env_var = reader.word("bearer_token_env_var");
        let auth = reader.flag("auth");
        let auth_args = reader.texts("auth_args");
        let auth_port = reader.number("auth_port", 1, 65535);
        let credential_files = reader.rows("credential_files", credential_file);
        let read = Self {
            kind,
            package,
            url,
            name,
            args,
            host,
            env_keys,
            env: vec![],
            headers,
            header_env,
            bearer_token_env_var,
            auth,
            auth_args,
            auth_port: auth_port.and_then(|port| u16::try_from(port).ok()),
            credential_files,
        };
        read.check(&mut reader, &env);
        let env = env
            .into_iter()
            .map(|(key, value)| (key, Secret::new(value)))
            .collect();
        reader.done(Self { env, ..read })
    }

    /// What the types do not say.
    fn check(&self, reader: &mut Reader, env: &[(String, String)]) {
        // The name of a custom server is made fit (A79); others must be.
        if let (Some(name), false) = (&self.name, self.kind == Kind::Custom)
            && let Err(text) = package::check_name(name)
        {
            reader.complain("name", text);
        }
        if let (Some(package), false) = (&self.package, self.kind == Kind::Http)
            && let Err(text) = package::check_package(self.kind, package)
        {
            reader.complain("package", text);
        }
        if let (Some(url), Kind::Http) = (&self.url, self.kind)
            && let Err(text) = package::check_url(url)
        {
            reader.complain("url", text);
        }
        let http_only = [
            ("url", self.url.is_some()),
            ("headers", !self.headers.is_empty()),
            ("header_env", !self.header_env.is_empty()),
            ("bearer_token_env_var", self.bearer_token_env_var.is_some()),
        ];
        let local_only = [
            ("package", self.package.is_some()),
            ("args", !self.args.is_empty()),
            ("host", self.host),
        ];
        let (other, text) = if self.kind == Kind::Http {
            (
                &local_only[..],
                "is not for type `http`, which is not run here",
            )
        } else {
            (&http_only[..], "is for type `http` only")
        };
        for (field, given) in other {
            if *given {
                reader.complain(field, text);
            }
        }
        let at = |list: &str, i: usize| format!("{list}[{i}]");
        for (i, key) in self.env_keys.iter().enumerate() {
            variable(reader, &at("env_keys", i), key);
        }
        for (key, _) in env {
            variable(reader, &format!("env.{key}"), key);
        }
        if let Some(key) = &self.bearer_token_env_var {
            variable(reader, "bearer_token_env_var", key);
        }
        for (i, row) in self.header_env.iter().enumerate() {
            header(reader, &format!("header_env[{i}].header"), &row.header);
            variable(reader, &format!("header_env[{i}].env"), &row.env);
        }
        for (name, value) in &self.headers {
            header(reader, &format!("headers.{name}"), name);
            if value.chars().any(|c| c.is_control() && c != '\t') {
                reader.complain(&format!("headers.{name}"), "holds a control character");
            }
        }
        for (i, file) in self.credential_files.iter().enumerate() {
            if self.credential_files[..i]
                .iter()
                .any(|f| f.path == file.path)
            {
                let field = format!("credential_files[{i}].path");
                reader.complain(&field, "is there twice");
            }
        }
    }
}

fn credential_file(row: &mut Reader) -> CredentialFile {
    let path = row.required("path");
    let required = row.flag("required").unwrap_or(false);
    let write_back = row.flag("write_back").unwrap_or(true);
    let encoding = row.choice("encoding", &Encoding::ALL);
    let encoding = encoding.unwrap_or(Encoding::Utf8);
    let content = row.text("content");
    let content = content.map(|text| decode(row, "content", text, encoding));
    if content.as_ref().is_some_and(|c| c.len() > CREDENTIAL_FILE) {
        row.complain("content", "is longer than 256 KiB");
    }
    let inside = path.strip_prefix("~/").or_else(|| path.strip_prefix('/'));
    match inside {
        _ if path.is_empty() => {}
        None => row.complain("path", "must begin with `~/`, or with `/` in a container"),
        Some(rest) if rest.is_empty() || rest.ends_with('/') => {
            row.complain("path", "must name a file");
        }
        Some(rest) if rest.split('/').any(|part| matches!(part, ".." | "." | "")) => {
            row.complain("path", "may not hold `..`, `.` or an empty part");
        }
        Some(_) if path.len() > 1024 => row.complain("path", "is longer than 1024 bytes"),
        Some(_) => {}
    }
    CredentialFile {
        path,
        required,
        write_back,
        content: content.map(Secret::new),
    }
}

/// Says what is wrong with the name of a variable.
fn variable(reader: &mut Reader, field: &str, name: &str) {
    let mut chars = name.chars();
    let good = chars
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !good {
        reader.complain(
            field,
            "is no name of a variable: letters, digits and `_` only",
        );
    } else if is_blocked(name) {
        reader.complain(
            field,
            "may not be given to a server: it makes programs run other code",
        );
    }
}

/// Says what is wrong with the name of a header.
fn header(reader: &mut Reader, field: &str, name: &str) {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(token) {
        reader.complain(field, "is no name of a header");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a78_every_argument_is_read() {
        let install = Install::read(&json!({
            "package": "@gongrzhe/server-gmail-autoauth-mcp",
            "type": "npm",
            "name": "gmail",
            "args": ["--verbose", "", " "],
            "host": true,
            "env_keys": ["OTHER"],
            "env": {"API_KEY": "v"},
            "auth": true,
            "auth_args": ["auth"],
            "auth_port": 3000,
            "credential_files": [
                {"path": "~/.gmail-mcp/keys.json", "required": true, "content": "e30=", "encoding": "base64"},
                {"path": "~/.gmail-mcp/credentials.json"},
            ],
        }))
        .unwrap();
        let file = |path: &str, required: bool, content: Option<&[u8]>| CredentialFile {
            path: path.into(),
            required,
            write_back: true,
            content: content.map(|c| Secret::new(c.to_vec())),
        };
        let expect = Install {
            kind: Kind::Npm,
            package: Some("@gongrzhe/server-gmail-autoauth-mcp".into()),
            url: None,
            name: Some("gmail".into()),
            args: vec!["--verbose".into()],
            host: true,
            env_keys: vec!["OTHER".into()],
            env: vec![("API_KEY".into(), Secret::new("v".into()))],
            headers: vec![],
            header_env: vec![],
            bearer_token_env_var: None,
            auth: Some(true),
            auth_args: vec!["auth".into()],
            auth_port: Some(3000),
            credential_files: vec![
                file("~/.gmail-mcp/keys.json", true, Some(b"{}")),
                file("~/.gmail-mcp/credentials.json", false, None),
            ],
        };
        assert_eq!(install, expect);
        let http = Install::read(&json!({
            "type": "http",
            "url": "https://mcp.example.com/mcp",
            "headers": {"X-Region": "eu"},
            "header_env": [{"header": "X-Api-Key", "env": "KEY"}],
            "bearer_token_env_var": "TOKEN",
        }))
        .unwrap();
        assert_eq!(http.kind, Kind::Http);
        assert_eq!(http.headers, [("X-Region".to_owned(), "eu".to_owned())]);
        assert_eq!(http.header_env[0].env, "KEY");
        assert_eq!(http.bearer_token_env_var.as_deref(), Some("TOKEN"));
        assert_eq!(
            (http.auth, http.auth_port),
            (None, None),
            "what is not said is not known"
        );
    }

    #[test]
    fn a78_all_complaints_come_at_once() {
        let error = Install::read(&json!({
            "package": 3,
            "type": "docker",
            "nme": "x",
            "args": "a b",
            "env": {"A": 1, "B-": "x", "NODE_OPTIONS": "--require x"},
            "auth_port": 70000,
            "header_env": [{"header": "X"}],
            "credential_files": [{"path": "~/../x"}, {"path": "rel"}],
        }))
        .unwrap_err();
        let expect = json!({
            "package": ["must be a string, not a number"],
            "type": ["must be one of npm, pypi, custom, http, not `docker`"],
            "nme": ["is not known; did you mean `name`?"],
            "args": ["must be a list, not a string"],
            "env.A": ["must be a string, not a number"],
            "env.B-": ["is no name of a variable: letters, digits and `_` only"],
            "env.NODE_OPTIONS": ["may not be given to a server: it makes programs run other code"],
            "auth_port": ["must be a whole number from 1 to 65535"],
            "header_env[0].env": ["is missing", "is no name of a variable: letters, digits and `_` only"],
            "header_env": ["is for type `http` only"],
            "credential_files[0].path": ["may not hold `..`, `.` or an empty part"],
            "credential_files[1].path": ["must begin with `~/`, or with `/` in a container"],
        });
        assert_eq!(Value::Object(error.fields()), expect);
    }

    #[test]
    fn a115_a_credential_file_is_at_most_256_kib() {
        let read = |length: usize| {
            Install::read(&json!({
                "package": "x",
                "credential_files": [{"path": "~/x", "content": "a".repeat(length)}],
            }))
        };
        assert!(read(256 * 1024).is_ok());
        assert_eq!(
            read(256 * 1024 + 1).unwrap_err().to_string(),
            "`credential_files[0].content` is longer than 256 KiB"
        );
    }

    #[test]
    fn values_do_not_show() {
        let install = Install::read(&json!({
            "package": "x",
            "env": {"K": "hunter2"},
            "credential_files": [{"path": "~/x", "content": "hunter2"}],
        }))
        .unwrap();
        assert!(!format!("{install:?}").contains("hunter2"));
    }
}
