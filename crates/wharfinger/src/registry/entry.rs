//! One known server: its fields, what each may hold, and what people are told of it (A2, A4, A7, A12).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::find::is_lookalike;

/// Servers that can't do their work in a container, also where an older document does not say so (A7): they need a
/// program, a listener, a login or files of this machine, or sign in with files that lie there.
const ON_HOST: [&str; 20] = [
    "pandoc",
    "docker",
    "kubernetes",
    "blender",
    "chrome-devtools",
    "netlify",
    "workspace",
    "filesystem",
    "sqlite",
    "duckdb",
    "git",
    "markitdown",
    "excel",
    "semgrep",
    "google-sheets",
    "gmail",
    "google-drive",
    "google-calendar",
    "google-docs",
    "teams",
];

/// What it is for.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Category {
    Tools,
    Data,
    Dev,
    Communication,
    Web,
    Search,
    Productivity,
    Infra,
    Ai,
}

/// What runs it.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Runtime {
    /// Node.
    Node,
    /// Python.
    Python,
}

/// Where it has to run.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunLocation {
    /// On this machine.
    Host,
}

/// Where it would best run.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Location {
    /// On this machine.
    Host,
    /// In a container.
    Container,
    /// Elsewhere; it is reached by its address.
    Remote,
}

/// A header whose value is in a variable.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Its name.
    pub header: String,
    /// The variable.
    pub env: String,
}

/// A file that it looks for.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CredentialFile {
    /// Where.
    pub path: String,
    /// Whether it does nothing without.
    #[serde(default)]
    pub required: bool,
    /// Whether it writes there.
    #[serde(default = "yes")]
    pub write_back: bool,
}

fn yes() -> bool {
    true
}

/// A known server. Fields that we do not know are dropped.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Unique in its list; what a server made from it is called unless somebody says otherwise.
    pub name: String,
    /// For people.
    #[serde(default)]
    pub display_name: String,
    /// Package of npm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub npm_package: Option<String>,
    /// Package of `PyPI`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pypi_package: Option<String>,
    /// Address of a remote server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Version of the package; the latest unless it is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<Runtime>,
    /// Its arguments; `{words-like-these}` have to be filled in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Requirements of a Python package that it does not state itself, as `mcp<2`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<String>,
    /// Variables it is given as they are; `${workspace}` is the folder of the agent that uses it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Headers whose values are in variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub header_env: Vec<Header>,
    /// The variable with the token for `Authorization: Bearer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bearer_token_env_var: Option<String>,
    /// One sentence.
    #[serde(default)]
    pub description: String,
    /// What it is for.
    #[serde(
        default,
        deserialize_with = "category",
        skip_serializing_if = "Option::is_none"
    )]
    pub category: Option<Category>,
    /// Variables it does nothing without.
    #[serde(default)]
    pub required_env_keys: Vec<String>,
    /// Variables it can use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub optional_env_keys: Vec<String>,
    /// Where its source is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    /// Made by whoever runs the service, or by the protocol's own project.
    #[serde(default)]
    pub verified: bool,
    /// Name of a picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon_key: Option<String>,
    /// Signs in with a browser before it is used.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub auth: bool,
    /// What it is given for signing in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub auth_args: Vec<String>,
    /// Files it looks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credential_files: Vec<CredentialFile>,
    /// What has to be there or be done before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prerequisite: Option<String>,
    /// Why it should not be installed any more, and what to use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<String>,
    /// What to weigh before it is installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advisory: Option<String>,
    /// Where it has to run; a container is best where nothing is said.
    #[serde(
        default,
        deserialize_with = "run_location",
        skip_serializing_if = "Option::is_none"
    )]
    pub run_location: Option<RunLocation>,
}

/// A category that we do not know is none; the entry is of use all the same.
fn category<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Category>, D::Error> {
    let value = Option::<serde_json::Value>::deserialize(from)?;
    Ok(value.and_then(|value| Category::deserialize(value).ok()))
}

fn run_location<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<Option<RunLocation>, D::Error> {
    let value = Option::<serde_json::Value>::deserialize(from)?;
    Ok(value.and_then(|value| RunLocation::deserialize(value).ok()))
}

/// A known server, with what follows from its fields.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Known {
    /// Its fields.
    #[serde(flatten)]
    pub entry: Entry,
    /// See [`Entry::badges`].
    pub badges: Vec<&'static str>,
    /// See [`Entry::needs`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs: Option<String>,
    /// See [`Entry::placeholders`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub placeholders: Vec<String>,
    /// See [`Entry::location`].
    pub location: Location,
}

impl From<Entry> for Known {
    fn from(entry: Entry) -> Self {
        Self {
            badges: entry.badges(),
            needs: entry.needs(),
            placeholders: entry.placeholders(),
            location: entry.location(),
            entry,
        }
    }
}

impl Entry {
    /// Where it would best run (A7).
    pub fn location(&self) -> Location {
        if self.url.is_some() && self.npm_package.is_none() && self.pypi_package.is_none() {
            Location::Remote
        } else if self.run_location == Some(RunLocation::Host)
            || ON_HOST.contains(&self.name.as_str())
        {
            Location::Host
        } else {
            Location::Container
        }
    }

    /// What its card is marked with (A12).
    pub fn badges(&self) -> Vec<&'static str> {
        let is_python = self.pypi_package.is_some() || self.runtime == Some(Runtime::Python);
        let marks = [
            ("Official", self.verified),
            ("Python", is_python),
            ("OAuth", self.auth),
        ];
        let marks = marks.into_iter().filter(|(_, is)| *is);
        marks.map(|(mark, _)| mark).collect()
    }

    /// What somebody has to have for it (A12): its prerequisite, or the names of the credentials it needs.
    pub fn needs(&self) -> Option<String> {
        let keys = self.required_env_keys.join(", ");
        self.prerequisite
            .clone()
            .or_else(|| Some(format!("needs {keys}")).filter(|_| !keys.is_empty()))
    }

    /// What has to be filled in, in order, once each (A4).
    pub fn placeholders(&self) -> Vec<String> {
        let mut found: Vec<String> = vec![];
        for name in self.args.iter().flat_map(|arg| placeholders(arg)) {
            if !found.iter().any(|known| known == name) {
                found.push(name.to_owned());
            }
        }
        found
    }

    /// What runs, as people know it.
    pub fn source(&self) -> String {
        let version = self.version.as_ref();
        let at = |mark: &str| version.map(|v| format!("{mark}{v}")).unwrap_or_default();
        match (&self.npm_package, &self.pypi_package, &self.url) {
            (Some(package), ..) => format!("npm {package}{}", at("@")),
            (None, Some(package), _) => format!("PyPI {package}{}", at("==")),
            (None, None, Some(url)) => url.clone(),
            (None, None, None) => String::new(),
        }
    }

    /// Why it is of no use, if it is not.
    pub(super) fn wrong(&self) -> Option<String> {
        let keys = self.required_env_keys.iter().chain(&self.optional_env_keys);
        let headers = self.header_env.iter().map(|header| &header.env);
        let keys = keys.chain(headers).chain(&self.bearer_token_env_var);
        if !is_name(&self.name) {
            return Some(format!("`name` can't be {:?}", self.name));
        }
        match (&self.npm_package, &self.pypi_package, &self.url) {
            (None, None, None) => return Some("has neither a package nor a url".into()),
            (npm, pypi, url) => {
                if let Some(package) = npm.iter().find(|package| !is_npm(package)) {
                    return Some(format!("`npmPackage` can't be {package:?}"));
                }
                if let Some(package) = pypi.iter().find(|package| !is_word(package)) {
                    return Some(format!("`pypiPackage` can't be {package:?}"));
                }
                if let Some(url) = url.iter().find(|url| !is_url(url)) {
                    return Some(format!("`url` can't be {url:?}"));
                }
            }
        }
        if let Some(version) = self.version.iter().find(|version| !is_word(version)) {
            return Some(format!("`version` can't be {version:?}"));
        }
        if is_lookalike(self) {
            return Some("names a package that looks like another project's and is not".into());
        }
        for key in keys {
            if !is_variable(key) {
                return Some(format!("{key:?} is no name of a variable"));
            }
        }
        if let Some(key) = self.env.iter().find_map(|(key, value)| odd(key, value)) {
            return Some(format!("`env` can't set {key:?} to that"));
        }
        let texts = self.args.iter().chain(&self.with).chain(&self.auth_args);
        if texts
            .into_iter()
            .any(|text| text.contains(char::is_control))
        {
            return Some("an argument holds a control character".into());
        }
        if self.with.iter().any(|text| text.starts_with('-')) {
            return Some("`with` holds an option".into());
        }
        let placeholders = self.placeholders();
        let secret = placeholders.iter().find(|name| sounds_secret(name))?;
        Some(format!(
            "`{{{secret}}}` would put a secret among the arguments"
        ))
    }
}

/// The variable, where a list must not set it, or not to that: whoever wrote the list gets no variable of this machine
/// and no secret into a server of theirs, and changes nothing about where it finds its programs.
fn odd<'a>(key: &'a str, value: &str) -> Option<&'a str> {
    let is_fine = is_variable(key)
        && !crate::model::is_delicate(key)
        && !value.replace("${workspace}", "").contains("${")
        && !value.contains(char::is_control);
    (!is_fine).then_some(key)
}

/// Names between braces, of small letters, digits and `-` (A4).
pub(super) fn placeholders(arg: &str) -> Vec<&str> {
    let mut found = vec![];
    let mut rest = arg;
    while let Some(at) = rest.find('{') {
        rest = &rest[at + 1..];
        let end = rest
            .find(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'))
            .unwrap_or(rest.len());
        if end > 0 && rest[end..].starts_with('}') {
            found.push(&rest[..end]);
            rest = &rest[end + 1..];
        }
    }
    found
}

/// Whether a name says that its value is for nobody's eyes.
pub(super) fn sounds_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace(['-', '_'], "");
    let words = ["token", "secret", "password", "passphrase", "credential"];
    words.iter().any(|word| name.contains(word))
        || ["apikey", "accesskey", "privatekey"]
            .iter()
            .any(|word| name.ends_with(word))
}

/// A name in a document; that of a server made from it is checked where one is made.
fn is_name(name: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
    name.len() <= 200
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(fine)
}

fn is_npm(package: &str) -> bool {
    match package.strip_prefix('@') {
        Some(scoped) => scoped
            .split_once('/')
            .is_some_and(|(scope, name)| is_word(scope) && is_word(name)),
        None => is_word(package),
    }
}

/// A name of a package, or a version: no path, address or option.
fn is_word(text: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+');
    text.len() <= 214
        && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && text.chars().all(fine)
}

fn is_url(text: &str) -> bool {
    url::Url::parse(text).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
    })
}

/// A name that a process can have among its variables.
fn is_variable(name: &str) -> bool {
    !crate::model::is_blocked(name)
        && name.len() <= 128
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn entry(fields: Value) -> Entry {
        serde_json::from_value(fields).unwrap()
    }

    #[test]
    fn a2_every_field_is_read_and_unknown_ones_are_dropped() {
        let all = json!({
            "name": "all", "displayName": "All", "npmPackage": "@a/b", "pypiPackage": "a-b", "url": "https://a.example/mcp",
            "version": "1.2.3", "runtime": "python", "args": ["stdio", "{allowed-dir}"], "with": ["mcp<2"],
            "headerEnv": [{"header": "X-Team", "env": "TEAM"}], "bearerTokenEnvVar": "TOKEN",
            "description": "Does it all", "category": "communication", "requiredEnvKeys": ["KEY"],
            "optionalEnvKeys": ["OTHER"], "repo": "https://a.example/repo", "verified": true, "iconKey": "all",
            "auth": true, "authArgs": ["auth"],
            "credentialFiles": [{"path": "~/.a/key.json", "required": true, "writeBack": false}],
            "prerequisite": "Needs an account", "deprecated": "use `more`", "advisory": "sees everything",
            "runLocation": "host",
        });
        let mut with_more = all.clone();
        with_more["future"] = json!({"deep": 1});
        let read = entry(with_more);
        assert_eq!(read.wrong(), None);
        assert_eq!(serde_json::to_value(&read).unwrap(), all);
        // What need not be there.
        let least = entry(json!({"name": "a", "pypiPackage": "a"}));
        assert_eq!(
            (least.wrong(), least.verified, least.category),
            (None, false, None)
        );
        let file: CredentialFile = serde_json::from_value(json!({"path": "~/x"})).unwrap();
        assert_eq!((file.required, file.write_back), (false, true));
        // Words of another time.
        let odd = entry(
            json!({"name": "a", "pypiPackage": "a", "category": "space", "runLocation": "moon"}),
        );
        assert_eq!((odd.category, odd.run_location), (None, None));
    }

    #[test]
    fn a2_what_an_entry_may_not_hold() {
        let check = |fields: Value, expect: &str| {
            let mut all = json!({"name": "a", "npmPackage": "a"});
            for (key, value) in fields.as_object().unwrap() {
                all[key] = value.clone();
            }
            let why = entry(all).wrong().unwrap_or_default();
            assert!(why.contains(expect), "{fields}: {why}");
        };
        check(json!({"name": ""}), "`name`");
        check(json!({"name": "-x"}), "`name`");
        check(json!({"npmPackage": null}), "neither a package nor a url");
        for package in [
            "--evil",
            "file:../x",
            "https://a.example/x.tgz",
            "@a",
            "a b",
            "",
            "../x",
        ] {
            check(json!({ "npmPackage": package }), "`npmPackage`");
            check(json!({ "pypiPackage": package }), "`pypiPackage`");
        }
        for url in ["ftp://a.example", "a.example", "https://u:p@a.example/"] {
            check(json!({ "url": url }), "`url`");
        }
        check(json!({"version": "1 --x"}), "`version`");
        check(json!({"requiredEnvKeys": ["A=B"]}), "no name of a variable");
        check(
            json!({"optionalEnvKeys": ["LD_PRELOAD"]}),
            "no name of a variable",
        );
        check(json!({"args": ["a\nb"]}), "control character");
        check(json!({"with": ["--index-url=x"]}), "an option");
        check(
            json!({"args": ["--key={api-key}"]}),
            "a secret among the arguments",
        );
        check(
            json!({"args": ["{access-token}"]}),
            "a secret among the arguments",
        );
    }

    #[test]
    fn a4_placeholders_are_small_letters_digits_and_dashes_in_braces() {
        let check = |arg: &str, expect: &[&str]| assert_eq!(placeholders(arg), expect, "{arg}");
        check("{allowed-dir}", &["allowed-dir"]);
        check("--db={db-path}/{x1}", &["db-path", "x1"]);
        check("{}", &[]);
        check("{A}", &[]);
        check("{a b} {{c}}", &["c"]);
        check("${workspace} {", &["workspace"]);
    }

    #[test]
    fn a7_some_run_on_this_machine_whatever_a_document_says() {
        let check = |fields: Value, expect: Location| {
            assert_eq!(entry(fields.clone()).location(), expect, "{fields}");
        };
        for name in ON_HOST {
            check(json!({"name": name, "npmPackage": "x"}), Location::Host);
        }
        check(
            json!({"name": "x", "npmPackage": "x", "runLocation": "host"}),
            Location::Host,
        );
        check(json!({"name": "x", "npmPackage": "x"}), Location::Container);
        check(
            json!({"name": "x", "url": "https://a.example"}),
            Location::Remote,
        );
    }

    #[test]
    fn a12_cards_have_badges_and_say_what_is_needed() {
        let check = |fields: Value, badges: &[&str], needs: Option<&str>| {
            let entry = entry(fields);
            assert_eq!(
                (entry.badges(), entry.needs().as_deref()),
                (badges.to_vec(), needs)
            );
        };
        check(json!({"name": "a", "npmPackage": "a"}), &[], None);
        check(
            json!({"name": "a", "pypiPackage": "a", "verified": true, "requiredEnvKeys": ["KEY", "TOKEN"]}),
            &["Official", "Python"],
            Some("needs KEY, TOKEN"),
        );
        check(
            json!({"name": "a", "npmPackage": "a", "auth": true, "requiredEnvKeys": ["KEY"],
                "prerequisite": "needs a Google OAuth client JSON"}),
            &["OAuth"],
            Some("needs a Google OAuth client JSON"),
        );
    }
}
