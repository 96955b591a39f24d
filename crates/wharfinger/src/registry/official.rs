//! What the official registry tells (its API of version 0.1), as entries like ours.
//!
//! A server there may have several packages and addresses; the first that can be run as it is described is taken, and
//! where there is none, the reason is told.

use serde::Deserialize;
use serde_json::Value;

use super::{Entry, Header, is_lookalike};

/// Where the registry's own word about a server stands.
const META: &str = "io.modelcontextprotocol.registry/official";

/// A page of servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Those that could be read.
    pub servers: Vec<Listed>,
    /// How many could not.
    pub dropped: usize,
}

/// A server of the official registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// As it is called there, `io.github.somebody/something`.
    pub name: String,
    /// One sentence.
    pub description: String,
    /// How it is run or reached, or why it can't be.
    pub entry: Result<Entry, String>,
}

#[derive(Deserialize)]
struct Page {
    servers: Vec<Value>,
}

#[derive(Deserialize)]
struct Item {
    server: Server,
    #[serde(default, rename = "_meta")]
    meta: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Server {
    name: String,
    title: Option<String>,
    #[serde(default)]
    description: String,
    #[serde(default)]
    packages: Vec<Value>,
    #[serde(default)]
    remotes: Vec<Value>,
    repository: Option<Repository>,
    website_url: Option<String>,
}

#[derive(Deserialize)]
struct Repository {
    url: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Package {
    registry_type: String,
    identifier: String,
    version: Option<String>,
    transport: Option<Transport>,
    #[serde(default)]
    runtime_arguments: Vec<Argument>,
    #[serde(default, rename = "packageArguments")]
    arguments: Vec<Argument>,
    #[serde(default)]
    environment_variables: Vec<Input>,
}

#[derive(Deserialize)]
struct Transport {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct Remote {
    #[serde(rename = "type")]
    kind: String,
    url: String,
    #[serde(default)]
    headers: Vec<Input>,
}

/// A value that somebody has to give.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Input {
    #[serde(default)]
    name: String,
    value: Option<String>,
    #[serde(default)]
    is_required: bool,
    #[serde(default)]
    is_secret: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Argument {
    #[serde(rename = "type")]
    kind: String,
    name: Option<String>,
    value: Option<String>,
    value_hint: Option<String>,
    default: Option<String>,
    #[serde(default)]
    is_required: bool,
    #[serde(default)]
    is_secret: bool,
    #[serde(default)]
    variables: Value,
}

/// Reads a page of servers. A server that can't be read is left out; so is one that was taken back there, and one whose
/// package only looks like another's (A13).
pub fn listed(text: &str) -> Result<Found, String> {
    let page: Page = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut found = Found::default();
    for row in page.servers {
        match read(row) {
            Ok(Some(server)) => found.servers.push(server),
            Ok(None) => {}
            Err(_) => found.dropped += 1,
        }
    }
    Ok(found)
}

/// Reads one server; `None` where it was taken back.
pub fn one(text: &str) -> Result<Option<Listed>, String> {
    let row: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    read(row)
}

fn read(row: Value) -> Result<Option<Listed>, String> {
    let Item { server, meta } = serde_json::from_value(row).map_err(|error| error.to_string())?;
    let meta = &meta[META];
    if meta["status"] == "deleted" {
        return Ok(None);
    }
    if server.name.is_empty() || server.name.contains(char::is_control) {
        return Err("has no name".into());
    }
    let deprecated = (meta["status"] == "deprecated").then(|| {
        let message = meta["statusMessage"].as_str();
        message
            .unwrap_or("whoever published it has taken it out of use")
            .to_owned()
    });
    let entry = runnable(&server).and_then(|entry| {
        let entry = Entry {
            deprecated,
            ..entry
        };
        match entry.wrong() {
            Some(why) => Err(why),
            None => Ok(entry),
        }
    });
    let imitates = |package: &Value| {
        serde_json::from_value::<Package>(package.clone())
            .ok()
            .and_then(|package| bare(&server, &package))
            .is_some_and(|entry| is_lookalike(&entry))
    };
    if entry.is_err() && server.packages.iter().any(imitates) {
        return Ok(None);
    }
    Ok(Some(Listed {
        name: server.name,
        description: server.description,
        entry,
    }))
}

/// The first of its packages and addresses that can be used.
fn runnable(server: &Server) -> Result<Entry, String> {
    let mut why = vec![];
    for package in &server.packages {
        let read = serde_json::from_value(package.clone()).map_err(|error| error.to_string());
        match read.and_then(|package| run(server, &package)) {
            Ok(entry) => return Ok(entry),
            Err(reason) => why.push(reason),
        }
    }
    for remote in &server.remotes {
        let read = serde_json::from_value(remote.clone()).map_err(|error| error.to_string());
        match read.and_then(|remote| reach(server, &remote)) {
            Ok(entry) => return Ok(entry),
            Err(reason) => why.push(reason),
        }
    }
    Err(if why.is_empty() {
        "it says neither what to run nor where it is".into()
    } else {
        why.join("; ")
    })
}

fn base(server: &Server) -> Entry {
    let repository = server
        .repository
        .as_ref()
        .and_then(|repository| repository.url.clone());
    Entry {
        name: server.name.clone(),
        display_name: server.title.clone().unwrap_or_else(|| server.name.clone()),
        description: server.description.clone(),
        repo: repository.or_else(|| server.website_url.clone()),
        ..Entry::default()
    }
}

/// A package without what it is given; `None` for kinds that can't be run here.
fn bare(server: &Server, package: &Package) -> Option<Entry> {
    let name = Some(package.identifier.clone());
    let entry = base(server);
    match package.registry_type.as_str() {
        "npm" => Some(Entry {
            npm_package: name,
            ..entry
        }),
        "pypi" => Some(Entry {
            pypi_package: name,
            ..entry
        }),
        _ => None,
    }
}

fn run(server: &Server, package: &Package) -> Result<Entry, String> {
    let Some(mut entry) = bare(server, package) else {
        return Err(match package.registry_type.as_str() {
            "oci" => "it is a container image, and containers come later".into(),
            other => format!("packages of `{other}` can't be run here"),
        });
    };
    if let Some(transport) = package
        .transport
        .as_ref()
        .filter(|transport| transport.kind != "stdio")
    {
        return Err(format!(
            "it is started as a web server ({}), which comes later",
            transport.kind
        ));
    }
    // `npx` asks unless it is told not to; everything else would change what runs.
    let is_usual = |argument: &Argument| {
        let word = argument.value.as_ref().or(argument.name.as_ref());
        matches!(word.map(String::as_str), Some("-y" | "--yes"))
    };
    if !package.runtime_arguments.iter().all(is_usual) {
        return Err("it needs options of the program that runs it, which can't be given".into());
    }
    entry.version.clone_from(&package.version);
    for argument in &package.arguments {
        entry.args.extend(words(argument)?);
    }
    for variable in &package.environment_variables {
        // A value that is always the same is no credential, and its server has it as well.
        if variable
            .value
            .as_ref()
            .is_some_and(|value| !value.contains('{'))
            && !variable.is_secret
        {
            return Err(format!(
                "it needs `{}` to be a certain value, which can't be described",
                variable.name
            ));
        }
        let keys = if variable.is_required {
            &mut entry.required_env_keys
        } else {
            &mut entry.optional_env_keys
        };
        keys.push(variable.name.clone());
    }
    Ok(entry)
}

/// What an argument becomes: words, with placeholders where somebody has to say something.
fn words(argument: &Argument) -> Result<Vec<String>, String> {
    let name = argument.name.clone().filter(|name| name.starts_with('-'));
    let shown = argument
        .name
        .clone()
        .or_else(|| argument.value_hint.clone())
        .unwrap_or_default();
    let secret =
        || format!("it takes a secret as an argument (`{shown}`), where everybody would see it");
    let variables = argument.variables.as_object();
    if argument.is_secret
        || variables
            .into_iter()
            .flatten()
            .any(|(_, variable)| variable["isSecret"] == true)
    {
        return Err(secret());
    }
    let value = match (&argument.value, &argument.default) {
        (Some(value), _) => Some(braces(value)),
        (None, _) if argument.is_required => Some(format!("{{{}}}", kebab(&shown))),
        (None, Some(_) | None) => None,
    };
    Ok(match (argument.kind.as_str(), value) {
        // A flag without a value, or one that nobody has to give.
        ("named", None) if argument.is_required => name.into_iter().collect(),
        ("named", Some(value)) => name.into_iter().chain([value]).collect(),
        ("positional", Some(value)) => vec![value],
        (_, None) => vec![],
        (other, Some(_)) => {
            return Err(format!("it has an argument of an unknown kind, `{other}`"));
        }
    })
}

/// `{Some_name}` as a placeholder of ours, `{some-name}`.
fn braces(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}') else {
            break;
        };
        out.push_str(before);
        out.extend(["{", &kebab(name), "}"]);
        rest = after;
    }
    out + rest
}

fn kebab(text: &str) -> String {
    let small = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    let name: String = text.chars().map(small).collect();
    match name.trim_matches('-') {
        "" => "value".into(),
        name => name.to_owned(),
    }
}

fn reach(server: &Server, remote: &Remote) -> Result<Entry, String> {
    if remote.kind != "streamable-http" {
        return Err(format!(
            "its address is of kind `{}`, which is not spoken",
            remote.kind
        ));
    }
    if remote.url.contains('{') {
        return Err("its address has parts to be filled in".into());
    }
    let mut entry = Entry {
        url: Some(remote.url.clone()),
        ..base(server)
    };
    for header in &remote.headers {
        let bearer = header.name.eq_ignore_ascii_case("authorization");
        let key = if bearer {
            "TOKEN".to_owned()
        } else {
            variable(&header.name)
        };
        match &header.value {
            Some(value) if bearer && !value.starts_with("Bearer ") => {
                return Err("it signs in in a way that can't be described".into());
            }
            _ if bearer => entry.bearer_token_env_var = Some(key.clone()),
            _ => entry.header_env.push(Header {
                header: header.name.clone(),
                env: key.clone(),
            }),
        }
        let keys = if header.is_required {
            &mut entry.required_env_keys
        } else {
            &mut entry.optional_env_keys
        };
        keys.push(key);
    }
    Ok(entry)
}

/// `X-Api-Key` as the name of a variable, `X_API_KEY`.
fn variable(header: &str) -> String {
    let name: String = header
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_uppercase()
            } else {
                '_'
            }
        })
        .collect();
    name
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::registry::{Answers, fill};

    fn check(server: &Value, expect: Result<Value, &str>) {
        let page = json!({"servers": [{"server": server}], "metadata": {"count": 1}}).to_string();
        let found = listed(&page).unwrap();
        let entry = found.servers.into_iter().next().map(|server| server.entry);
        let filled = entry.unwrap().map(|entry| {
            let answers: Answers = entry
                .placeholders()
                .into_iter()
                .map(|name| (name.clone(), format!("<{name}>")))
                .collect();
            fill(&entry, &answers).unwrap()
        });
        assert_eq!(filled, expect.map_err(str::to_owned), "{page}");
    }

    #[test]
    fn a14_packages_and_addresses_become_entries() {
        check(
            &json!({"name": "io.github.a/b", "description": "B", "version": "1.0.0", "packages": [
                {"registryType": "oci", "identifier": "a/b:1"},
                {"registryType": "npm", "identifier": "@a/b", "version": "1.2.3", "transport": {"type": "stdio"},
                 "runtimeArguments": [{"type": "named", "name": "-y"}],
                 "packageArguments": [
                    {"type": "positional", "value": "start"},
                    {"type": "positional", "valueHint": "target_dir", "isRequired": true},
                    {"type": "named", "name": "--mode", "value": "{run_mode}", "variables": {"run_mode": {}}},
                    {"type": "named", "name": "--debug"}],
                 "environmentVariables": [
                    {"name": "KEY", "isRequired": true, "isSecret": true}, {"name": "LEVEL", "default": "info"}]}]}),
            Ok(
                json!({"npmPackage": "@a/b", "version": "1.2.3", "args": ["start", "<target-dir>", "--mode", "<run-mode>"],
                "env": {"KEY": "${secret:KEY}", "LEVEL": "${secret:LEVEL?}"}, "location": "host"}),
            ),
        );
        check(
            &json!({"name": "a/b", "packages": [{"registryType": "pypi", "identifier": "b"}]}),
            Ok(json!({"pypiPackage": "b", "location": "host"})),
        );
        check(
            &json!({"name": "a/b", "remotes": [
                {"type": "sse", "url": "https://a.example/sse"},
                {"type": "streamable-http", "url": "https://a.example/mcp", "headers": [
                    {"name": "Authorization", "value": "Bearer {token}", "isRequired": true, "isSecret": true},
                    {"name": "X-Team"}]}]}),
            Ok(json!({"type": "http", "url": "https://a.example/mcp",
                "headers": {"Authorization": "Bearer ${secret:TOKEN}", "X-Team": "${secret:X_TEAM?}"}})),
        );
    }

    #[test]
    fn what_can_not_be_run_says_why() {
        let package = |more: Value| {
            let mut package = json!({"registryType": "npm", "identifier": "b"});
            for (key, value) in more.as_object().unwrap() {
                package[key] = value.clone();
            }
            json!({"name": "a/b", "packages": [package]})
        };
        check(
            &json!({"name": "a/b"}),
            Err("it says neither what to run nor where it is"),
        );
        check(
            &package(json!({"registryType": "oci"})),
            Err("it is a container image, and containers come later"),
        );
        check(
            &package(json!({"registryType": "nuget"})),
            Err("packages of `nuget` can't be run here"),
        );
        check(
            &package(json!({"transport": {"type": "sse"}})),
            Err("it is started as a web server (sse), which comes later"),
        );
        check(
            &package(
                json!({"runtimeArguments": [{"type": "named", "name": "--node-arg", "value": "x"}]}),
            ),
            Err("it needs options of the program that runs it, which can't be given"),
        );
        check(
            &package(
                json!({"packageArguments": [{"type": "named", "name": "--key", "isRequired": true, "isSecret": true}]}),
            ),
            Err("it takes a secret as an argument (`--key`), where everybody would see it"),
        );
        check(
            &package(json!({"identifier": "--evil"})),
            Err("`npmPackage` can't be \"--evil\""),
        );
    }

    #[test]
    fn what_is_wrong_in_a_page_spoils_nothing_else() {
        let page = json!({"servers": [
            7, {"server": {"name": 3}}, {"server": {"name": "bad\u{1b}name"}},
            {"server": {"name": "a/gone"}, "_meta": {META: {"status": "deleted"}}},
            {"server": {"name": "a/looks", "packages": [{"registryType": "pypi", "identifier": "telegram-mcp"}]}},
            {"server": {"name": "a/old", "packages": [{"registryType": "npm", "identifier": "old"}]},
             "_meta": {META: {"status": "deprecated", "statusMessage": "use a/new"}}},
        ]});
        let found = listed(&page.to_string()).unwrap();
        let names: Vec<&str> = found
            .servers
            .iter()
            .map(|server| server.name.as_str())
            .collect();
        assert_eq!((names, found.dropped), (vec!["a/old"], 3));
        let old = found.servers[0].entry.as_ref().unwrap();
        assert_eq!(old.deprecated.as_deref(), Some("use a/new"));
        for text in ["", "[]", "{}", r#"{"servers":{}}"#, r#"{"servers":null}"#] {
            assert!(listed(text).is_err(), "{text}");
        }
        assert!(one(r#"{"server":{"name":"a/b"}}"#).unwrap().is_some());
        assert!(one("[]").is_err());
    }
}
