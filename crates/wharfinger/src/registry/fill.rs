//! From a known server to a server's entry, as `settings.json` has it (A14, A25).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::entry::{placeholders, sounds_secret};
use super::{Entry, Location};

/// What somebody has filled in, by placeholder.
pub type Answers = BTreeMap<String, String>;

/// Why there is no entry yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FillError {
    /// These have to be filled in.
    #[error("{} must be filled in", .0.join(", "))]
    Missing(Vec<String>),
    /// There is no such placeholder.
    #[error("there is no `{name}` to fill in{}", choice(.known))]
    Unknown {
        /// What was given.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// Arguments are seen by everybody on the machine.
    #[error("`{0}` may not hold a secret, since arguments are seen by everybody on the machine")]
    Secret(String),
}

fn choice(names: &[String]) -> String {
    if names.is_empty() {
        String::new()
    } else {
        format!("; there are {}", names.join(", "))
    }
}

/// The server's entry. Credentials stand in it as references, `${secret:KEY}`, and never as values; those that are not
/// needed as `${secret:KEY?}`, which is left out as long as nobody has set it.
pub fn fill(entry: &Entry, answers: &Answers) -> Result<Value, FillError> {
    let wanted = entry.placeholders();
    if let Some(name) = answers.keys().find(|name| !wanted.contains(name)) {
        let (name, known) = (name.clone(), wanted);
        return Err(FillError::Unknown { name, known });
    }
    let given = |name: &String| {
        answers
            .get(name)
            .is_some_and(|value| !value.trim().is_empty())
    };
    let missing: Vec<String> = wanted.iter().filter(|name| !given(name)).cloned().collect();
    if !missing.is_empty() {
        return Err(FillError::Missing(missing));
    }
    let secret = answers
        .iter()
        .find(|(name, value)| sounds_secret(name) || value.contains("${"));
    if let Some((name, _)) = secret {
        return Err(FillError::Secret(name.clone()));
    }
    let args: Vec<String> = entry.args.iter().map(|arg| filled(arg, answers)).collect();
    let server = match entry.location() {
        Location::Remote => remote(entry),
        Location::Host | Location::Container => {
            let mut server = package(entry, args);
            let env = variables(entry);
            if !env.is_empty() {
                server.insert("env".into(), Value::Object(env));
            }
            // Containers come later, so all of them run here, and say so.
            server.insert("location".into(), "host".into());
            server
        }
    };
    Ok(Value::Object(server))
}

/// The package, and what it is given; it is installed before it first runs.
fn package(entry: &Entry, args: Vec<String>) -> Map<String, Value> {
    let mut server = Map::new();
    if let Some(package) = &entry.npm_package {
        server.insert("npmPackage".into(), package.clone().into());
    } else {
        server.insert("pypiPackage".into(), entry.pypi_package.clone().into());
    }
    if let Some(version) = &entry.version {
        server.insert("version".into(), version.clone().into());
    }
    if !entry.with.is_empty() {
        server.insert("with".into(), entry.with.clone().into());
    }
    if !args.is_empty() {
        server.insert("args".into(), args.into());
    }
    server
}

fn remote(entry: &Entry) -> Map<String, Value> {
    let mut headers = Map::new();
    let is_optional = |key: &String| entry.optional_env_keys.contains(key);
    if let Some(key) = &entry.bearer_token_env_var {
        let value = format!("Bearer {}", reference(key, is_optional(key)));
        headers.insert("Authorization".into(), value.into());
    }
    for header in &entry.header_env {
        let value = reference(&header.env, is_optional(&header.env));
        headers.insert(header.header.clone(), value.into());
    }
    let mut server = Map::new();
    server.insert("type".into(), "http".into());
    server.insert("url".into(), entry.url.clone().into());
    if !headers.is_empty() {
        server.insert("headers".into(), Value::Object(headers));
    }
    server
}

fn variables(entry: &Entry) -> Map<String, Value> {
    let required = entry.required_env_keys.iter().map(|key| (key, false));
    let optional = entry.optional_env_keys.iter().map(|key| (key, true));
    let plain = entry.env.iter();
    let plain = plain.map(|(key, value)| (key.clone(), value.clone().into()));
    let references = required
        .chain(optional)
        .map(|(key, optional)| (key.clone(), reference(key, optional).into()));
    plain.chain(references).collect()
}

fn reference(key: &str, optional: bool) -> String {
    let mark = if optional { "?" } else { "" };
    format!("${{secret:{key}{mark}}}")
}

/// In one pass: what was filled in is not read again.
fn filled(arg: &str, answers: &Answers) -> String {
    let mut text = String::new();
    let mut rest = arg;
    for name in placeholders(arg) {
        let mark = format!("{{{name}}}");
        if let (Some((before, after)), Some(value)) = (rest.split_once(&mark), answers.get(name)) {
            text.push_str(before);
            text.push_str(value);
            rest = after;
        }
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(fields: Value) -> Entry {
        serde_json::from_value(fields).unwrap()
    }

    fn answers(pairs: &[(&str, &str)]) -> Answers {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn a14_a25_an_entry_of_each_kind() {
        let check = |fields: Value, expect: Value| {
            assert_eq!(fill(&entry(fields), &Answers::new()), Ok(expect));
        };
        check(
            json!({"name": "a", "npmPackage": "@x/a", "requiredEnvKeys": ["KEY"], "optionalEnvKeys": ["MORE"]}),
            json!({"npmPackage": "@x/a",
                "env": {"KEY": "${secret:KEY}", "MORE": "${secret:MORE?}"}, "location": "host"}),
        );
        check(
            json!({"name": "a", "pypiPackage": "a", "version": "1.2", "with": ["mcp<2"], "args": ["stdio"],
                "env": {"FILE": "${workspace}/a"}}),
            json!({"pypiPackage": "a", "version": "1.2", "with": ["mcp<2"], "args": ["stdio"],
                "env": {"FILE": "${workspace}/a"}, "location": "host"}),
        );
        check(
            json!({"name": "a", "url": "https://a.example/mcp", "bearerTokenEnvVar": "TOKEN",
                "headerEnv": [{"header": "X-Team", "env": "TEAM"}], "requiredEnvKeys": ["TOKEN"],
                "optionalEnvKeys": ["TEAM"]}),
            json!({"type": "http", "url": "https://a.example/mcp",
                "headers": {"Authorization": "Bearer ${secret:TOKEN}", "X-Team": "${secret:TEAM?}"}}),
        );
    }

    #[test]
    fn a4_placeholders_are_filled_in_before_there_is_an_entry() {
        let files = entry(
            json!({"name": "f", "npmPackage": "f", "args": ["--root={allowed-dir},{mode}", "{allowed-dir}", "{mode}"]}),
        );
        assert_eq!(
            fill(&files, &answers(&[("mode", " ")])),
            Err(FillError::Missing(vec![
                "allowed-dir".into(),
                "mode".into()
            ]))
        );
        let filled = fill(
            &files,
            &answers(&[("allowed-dir", "~/notes {mode}"), ("mode", "ro")]),
        )
        .unwrap();
        // What was filled in is not read again.
        assert_eq!(filled["args"][0], "--root=~/notes {mode},ro");
        assert_eq!(filled["args"][2], "ro");
        let unknown = fill(&files, &answers(&[("dir", "x")])).unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "there is no `dir` to fill in; there are allowed-dir, mode"
        );
    }

    #[test]
    fn a4_no_secret_becomes_an_argument() {
        let files = entry(json!({"name": "f", "npmPackage": "f", "args": ["{allowed-dir}"]}));
        for value in ["${secret:KEY}", "x${env:HOME}"] {
            let refused = fill(&files, &answers(&[("allowed-dir", value)]));
            assert_eq!(refused, Err(FillError::Secret("allowed-dir".into())));
        }
        let told = entry(json!({"name": "f", "npmPackage": "f", "args": ["{db-password}"]}));
        let refused = fill(&told, &answers(&[("db-password", "x")]));
        assert_eq!(refused, Err(FillError::Secret("db-password".into())));
    }
}
