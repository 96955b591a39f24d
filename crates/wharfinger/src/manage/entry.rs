//! Entries of `mcp.servers` in an agent's configuration: built, found, changed, taken away.

use serde_json::{Map, Value, json};

use super::package::package_name;
use super::{Error, Install, Kind, Location};
use crate::model::nearest;

/// What an installed server is: the parts of its entry that others ask for.
#[derive(Clone, Copy, Debug)]
pub struct Server<'a>(pub &'a Value);

impl<'a> Server<'a> {
    /// A text member.
    pub fn text(self, key: &str) -> Option<&'a str> {
        self.0.get(key)?.as_str()
    }

    /// Its name; empty where the file has none.
    pub fn name(self) -> &'a str {
        self.text("name").unwrap_or_default()
    }

    /// Whether it is reached by http.
    pub fn is_http(self) -> bool {
        self.text("transport") == Some("http")
    }

    /// Whether it asks for this machine (A28).
    pub fn wants_host(self) -> bool {
        self.text("run_location") == Some("host") || self.0["host_requested"] == true
    }

    /// Whether a variable is its agent's to set, as the entry declares it.
    pub fn leaves(self, key: &str) -> bool {
        let rows = self.0["env_schema"].as_array().into_iter().flatten();
        rows.into_iter()
            .any(|row| row["key"] == key && row["scope"] == "agent")
    }

    /// Under which name its sealed files are kept (A114): its package, else its own name.
    pub fn namespace(self) -> &'a str {
        self.text("npm_package")
            .or_else(|| self.text("pypi_package"))
            .unwrap_or_else(|| self.name())
    }
}

/// The entries of a configuration, in order.
pub(super) fn servers(config: &Value) -> impl Iterator<Item = Server<'_>> {
    let list = config["mcp"]["servers"].as_array();
    list.into_iter().flatten().map(Server)
}

/// The entry of this name; an unknown name is an error that says what there is (A90, A92).
pub fn find<'a>(config: &'a Value, name: &str) -> Result<Server<'a>, Error> {
    servers(config)
        .find(|server| server.name() == name)
        .ok_or_else(|| {
            let installed: Vec<&str> = servers(config).map(Server::name).collect();
            Error::UnknownServer {
                name: name.into(),
                nearest: nearest(name, installed.iter().copied()).map(str::to_owned),
                installed: installed.into_iter().map(str::to_owned).collect(),
            }
        })
}

/// What an entry runs, for [`super::host_gate`] and the record of an approval: `npm:<package>`, `uvx:<package>`,
/// `http:<url>`, else the command itself. An entry that says one package and runs another is what it runs.
pub fn identity(entry: &Value) -> String {
    let server = Server(entry);
    if server.is_http() {
        return format!("http:{}", server.text("url").unwrap_or_default());
    }
    let args: Vec<&str> = entry["args"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let command = server.text("command").unwrap_or_default();
    for (prefix, runner, kind) in [("npm:", "npx", Kind::Npm), ("uvx:", "uvx", Kind::Pypi)] {
        let Some(spec) = server
            .text("source")
            .and_then(|source| source.strip_prefix(prefix))
        else {
            continue;
        };
        let package = package_name(kind, spec);
        let runs = args.iter().find(|arg| !matches!(**arg, "-y" | "--yes"));
        let declared = server.text(match kind {
            Kind::Pypi => "pypi_package",
            Kind::Npm | Kind::Custom | Kind::Http => "npm_package",
        });
        if (command == runner || command.is_empty())
            && runs.is_none_or(|runs| command.is_empty() || package_name(kind, runs) == package)
            && declared.is_none_or(|declared| package_name(kind, declared) == package)
        {
            return format!("{prefix}{spec}");
        }
    }
    format!("custom:{}", json!([command, args]))
}

/// The entry of a new server (A25, A82). `package` is the package, command or url.
pub(super) fn build(install: &Install, name: &str, package: &str, location: Location) -> Value {
    let mut entry = Map::new();
    let mut put = |key: &str, value: Value| {
        entry.insert(key.into(), value);
    };
    put("name", name.into());
    let given = install.args.iter().map(String::as_str);
    match install.kind {
        Kind::Npm => {
            put("transport", "stdio".into());
            // What starts it until its package is kept here: the guide's own form.
            put("command", "npx".into());
            put("args", ["-y", package].into_iter().chain(given).collect());
            put("npm_package", package_name(Kind::Npm, package).into());
            put("source", format!("npm:{package}").into());
        }
        Kind::Pypi => {
            put("transport", "stdio".into());
            put("command", "uvx".into());
            put("args", [package].into_iter().chain(given).collect());
            put("pypi_package", package_name(Kind::Pypi, package).into());
            put("source", format!("uvx:{package}").into());
        }
        Kind::Custom => {
            put("transport", "stdio".into());
            put("command", package.into());
            put("args", given.collect());
            put("source", "custom".into());
        }
        Kind::Http => {
            put("transport", "http".into());
            put("url", package.into());
            put("source", format!("http:{package}").into());
            if !install.headers.is_empty() {
                put(
                    "headers",
                    Value::Object(
                        install
                            .headers
                            .iter()
                            .map(|(k, v)| (k.clone(), v.as_str().into()))
                            .collect(),
                    ),
                );
            }
            if !install.header_env.is_empty() {
                let rows = install.header_env.iter();
                put(
                    "header_env",
                    rows.map(|row| json!({"header": row.header, "env": row.env}))
                        .collect(),
                );
            }
            if let Some(variable) = &install.bearer_token_env_var {
                put("bearer_token_env_var", variable.as_str().into());
            }
        }
    }
    if location == Location::Host {
        put("run_location", "host".into());
    }
    if install.auth == Some(true) && install.kind != Kind::Http {
        put("auth", true.into());
        if !install.auth_args.is_empty() {
            put("auth_args", install.auth_args.clone().into());
        }
        if let Some(port) = install.auth_port {
            put("auth_port", port.into());
        }
    }
    let mut entry = Value::Object(entry);
    merge_env_keys(&mut entry, &env_keys(install));
    merge_files(&mut entry, install);
    entry
}

/// Every variable a server is to be given from sealed credentials, once each.
pub(super) fn env_keys(install: &Install) -> Vec<String> {
    let mut keys: Vec<String> = vec![];
    let named = install.env_keys.iter();
    let given = install.env.iter().map(|(key, _)| key);
    let headers = install.header_env.iter().map(|row| &row.env);
    for key in named
        .chain(given)
        .chain(headers)
        .chain(&install.bearer_token_env_var)
    {
        if !keys.contains(key) {
            keys.push(key.clone());
        }
    }
    keys
}

/// Adds names of variables to an entry, of scope agent (A83, A101); rows that are there stay as they are (A104).
pub(super) fn merge_env_keys(entry: &mut Value, keys: &[String]) {
    for key in keys {
        let listed = entry["env_keys"].as_array().into_iter().flatten();
        if !listed.into_iter().any(|k| k == key) {
            list_of(entry, "env_keys").push(key.as_str().into());
        }
        let rows = entry["env_schema"].as_array().into_iter().flatten();
        if !rows.into_iter().any(|row| row["key"] == *key) {
            let row = json!({"key": key, "scope": "agent", "required": true});
            list_of(entry, "env_schema").push(row);
        }
    }
}

/// Lays the declared credential files of a request over those of an entry, by path (A87). Content is not among it (A113).
pub(super) fn merge_files(entry: &mut Value, install: &Install) {
    for file in &install.credential_files {
        let row =
            json!({"path": file.path, "required": file.required, "write_back": file.write_back});
        let rows = list_of(entry, "credential_files");
        match rows.iter_mut().find(|old| old["path"] == row["path"]) {
            Some(Value::Object(old)) => {
                for key in ["required", "write_back"] {
                    old.insert(key.into(), row[key].clone());
                }
            }
            Some(old) => *old = row,
            None => rows.push(row),
        }
    }
}

/// The list that is a member of an object; made if it is not there.
fn list_of<'a>(object: &'a mut Value, key: &str) -> &'a mut Vec<Value> {
    let list = &mut object[key];
    if !list.is_array() {
        *list = json!([]);
    }
    list.as_array_mut().expect("it was made a list")
}

/// Puts an entry into what the configuration is now (A98, P6): under a name that is taken it replaces nothing.
pub fn put(config: &mut Value, entry: Value) -> Result<(), Error> {
    let name = Server(&entry).name();
    if find(config, name).is_ok() {
        return Err(Error::refused(format!(
            "a server `{name}` was added meanwhile; look at it with `sys_get_config`"
        )));
    }
    if !config.is_object() {
        return Err(Error::refused("the agent's configuration is no object"));
    }
    if !config["mcp"].is_object() {
        config["mcp"] = json!({});
    }
    list_of(&mut config["mcp"], "servers").push(entry);
    Ok(())
}

/// What an uninstall took away.
#[derive(Clone, Debug, PartialEq)]
pub struct Removed {
    /// The entry.
    pub entry: Value,
    /// Names of the declarations that went with it.
    pub declarations: Vec<String>,
}

/// Takes away a server and the declarations of its tools (A92). `tools` are the names agents know them by, from the map
/// of names: a name is never taken apart to learn whose it is.
pub fn remove(config: &mut Value, name: &str, tools: &[String]) -> Result<Removed, Error> {
    let entry = find(config, name)?.0.clone();
    if let Some(Value::Array(list)) = config.pointer_mut("/mcp/servers") {
        list.retain(|entry| entry["name"] != *name);
    }
    let mut declarations = vec![];
    if let Some(Value::Array(rows)) = config.get_mut("tools") {
        rows.retain(|row| {
            let name = row["name"].as_str().unwrap_or_default();
            let gone = tools.iter().any(|tool| tool == name);
            if gone {
                declarations.push(name.to_owned());
            }
            !gone
        });
    }
    Ok(Removed {
        entry,
        declarations,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(arguments: &Value, location: Location) -> Value {
        let install = Install::read(arguments).unwrap();
        let package = install.package.as_ref().or(install.url.as_ref()).unwrap();
        build(&install, "x", package, location)
    }

    #[test]
    fn a25_a82_an_entry_of_each_type() {
        let check = |arguments: Value, location: Location, expect: Value| {
            assert_eq!(built(&arguments, location), expect);
        };
        check(
            json!({"package": "@a/b@1", "args": ["--x"]}),
            Location::SharedContainer,
            json!({
                "name": "x", "transport": "stdio", "command": "npx", "args": ["-y", "@a/b@1", "--x"],
                "npm_package": "@a/b", "source": "npm:@a/b@1",
            }),
        );
        check(
            json!({"type": "pypi", "package": "a[e]==1", "args": ["--x"], "host": true}),
            Location::Host,
            json!({
                "name": "x", "transport": "stdio", "command": "uvx", "args": ["a[e]==1", "--x"],
                "pypi_package": "a", "source": "uvx:a[e]==1", "run_location": "host",
            }),
        );
        check(
            json!({
                "type": "custom", "package": "node", "args": ["s.js"], "name": "x",
                "auth": true, "auth_args": ["auth"], "auth_port": 3000,
                "credential_files": [{"path": "~/k", "required": true, "content": "c"}],
            }),
            Location::IsolatedContainer,
            json!({
                "name": "x", "transport": "stdio", "command": "node", "args": ["s.js"], "source": "custom",
                "auth": true, "auth_args": ["auth"], "auth_port": 3000,
                "credential_files": [{"path": "~/k", "required": true, "write_back": true}],
            }),
        );
        check(
            json!({
                "type": "http", "url": "https://x/mcp", "headers": {"X-Region": "eu"}, "auth": true,
                "header_env": [{"header": "X-Key", "env": "K"}], "bearer_token_env_var": "T",
            }),
            Location::RemoteHttp,
            json!({
                "name": "x", "transport": "http", "url": "https://x/mcp", "source": "http:https://x/mcp",
                "headers": {"X-Region": "eu"}, "header_env": [{"header": "X-Key", "env": "K"}],
                "bearer_token_env_var": "T", "env_keys": ["K", "T"],
                "env_schema": [
                    {"key": "K", "scope": "agent", "required": true},
                    {"key": "T", "scope": "agent", "required": true},
                ],
            }),
        );
    }

    #[test]
    fn a83_values_are_not_in_the_entry() {
        let entry = built(
            &json!({"package": "p", "env": {"API": "hunter2"}, "env_keys": ["OTHER", "API"]}),
            Location::SharedContainer,
        );
        assert_eq!(entry["env_keys"], json!(["OTHER", "API"]));
        assert_eq!(
            entry["env_schema"][1],
            json!({"key": "API", "scope": "agent", "required": true})
        );
        assert!(!entry.to_string().contains("hunter2"));
    }

    #[test]
    fn a104_env_schema_rows_that_are_there_stay() {
        let mut entry = json!({"env_schema": [{"key": "A", "scope": "app", "description": "d"}]});
        merge_env_keys(&mut entry, &["A".into(), "B".into()]);
        merge_env_keys(&mut entry, &["A".into(), "B".into()]);
        assert_eq!(
            entry,
            json!({
                "env_schema": [
                    {"key": "A", "scope": "app", "description": "d"},
                    {"key": "B", "scope": "agent", "required": true},
                ],
                "env_keys": ["A", "B"],
            })
        );
    }

    #[test]
    fn a87_credential_files_merge_by_path() {
        let mut entry = json!({"credential_files": [
            {"path": "~/a", "required": true, "write_back": true, "note": "kept"},
            {"path": "~/b", "required": true, "write_back": false},
        ]});
        let install = Install::read(&json!({
            "package": "p",
            "credential_files": [{"path": "~/a"}, {"path": "~/c", "required": true}],
        }));
        merge_files(&mut entry, &install.unwrap());
        assert_eq!(
            entry,
            json!({"credential_files": [
                {"path": "~/a", "required": false, "write_back": true, "note": "kept"},
                {"path": "~/b", "required": true, "write_back": false},
                {"path": "~/c", "required": true, "write_back": true},
            ]})
        );
    }

    #[test]
    fn a30_the_identity_is_what_runs() {
        let check = |entry: Value, expect: &str| assert_eq!(identity(&entry), expect, "{entry}");
        let npm = built(&json!({"package": "@a/b@1"}), Location::Host);
        check(npm.clone(), "npm:@a/b@1");
        let pypi = built(&json!({"type": "pypi", "package": "a[x]"}), Location::Host);
        check(pypi, "uvx:a[x]");
        check(
            json!({"transport": "http", "url": "https://x/"}),
            "http:https://x/",
        );
        check(
            json!({"source": "npm:@a/b", "npm_package": "@a/b"}),
            "npm:@a/b",
        );
        // A name of a package is no disguise.
        let mut other = npm.clone();
        other["command"] = "sh".into();
        check(other, r#"custom:["sh",["-y","@a/b@1"]]"#);
        let mut other = npm.clone();
        other["args"] = json!(["-y", "evil"]);
        check(other, r#"custom:["npx",["-y","evil"]]"#);
        let mut other = npm;
        other["npm_package"] = "evil".into();
        check(other, r#"custom:["npx",["-y","@a/b@1"]]"#);
        check(
            json!({"source": "custom", "command": "a", "args": []}),
            r#"custom:["a",[]]"#,
        );
    }

    #[test]
    fn a92_an_uninstall_takes_the_tools_of_that_server_alone() {
        let mut config = json!({
            "tools": [{"name": "mcp_git_log"}, {"name": "mcp_git_hub_x"}, {"name": "fs_read"}],
            "mcp": {"servers": [{"name": "git"}, {"name": "git_hub"}], "new_tools_restricted": false},
        });
        let removed = remove(&mut config, "git", &["mcp_git_log".into()]).unwrap();
        assert_eq!(removed.declarations, ["mcp_git_log"]);
        assert_eq!(
            config,
            json!({
                "tools": [{"name": "mcp_git_hub_x"}, {"name": "fs_read"}],
                "mcp": {"servers": [{"name": "git_hub"}], "new_tools_restricted": false},
            })
        );
        let mut bare = json!({"mcp": {"servers": [{"name": "a"}]}});
        remove(&mut bare, "a", &[]).unwrap();
        assert_eq!(bare, json!({"mcp": {"servers": []}}));
        assert_eq!(
            remove(&mut config, "git_hud", &[]).unwrap_err().to_string(),
            "no server `git_hud` is installed; did you mean `git_hub`?"
        );
        assert_eq!(
            find(&config, "zzz").unwrap_err().to_string(),
            "no server `zzz` is installed; there are: `git_hub`"
        );
        assert_eq!(
            find(&json!({}), "x").unwrap_err().to_string(),
            "no server `x` is installed; none is, `mcp_install` adds one"
        );
    }

    #[test]
    fn a98_an_entry_is_put_into_what_is_there_now() {
        let mut config = json!({"name": "kept"});
        put(&mut config, json!({"name": "a"})).unwrap();
        put(&mut config, json!({"name": "b"})).unwrap();
        assert!(put(&mut config, json!({"name": "a", "command": "other"})).is_err());
        assert_eq!(
            config,
            json!({"name": "kept", "mcp": {"servers": [{"name": "a"}, {"name": "b"}]}})
        );
    }
}
