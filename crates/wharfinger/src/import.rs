//! What is taken over from other clients: under which name, with which secrets moved out of it, and what not.
//!
//! `clients` has read the files, `config` says what an entry may be, `vault` knows secrets when it sees them. Nothing is
//! written or run here: a plan is a value, and whoever shows it carries it out.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::clients::{Client, Found, Reading, secret_of};
use crate::config::{Config, PastedError, pasted};
use crate::model::expand;
use crate::model::{Secret, ServerEntry, ServerName, Transport};
use crate::vault::{SecretNames, in_arguments, is_secret_name, looks_secret};

/// A client's file that was read.
#[derive(Debug)]
pub struct Offer {
    /// Whose.
    pub client: &'static Client,
    /// Where it lies.
    pub file: String,
    /// What is in it.
    pub reading: Reading,
}

/// What is wanted of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wish<'a> {
    /// Only servers of these names; all where it is empty.
    pub only: &'a [String],
    /// A server whose name is taken by another one is left where it is, instead of getting a new name.
    pub skip_conflicts: bool,
}

/// What becomes of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// It is taken over.
    Take,
    /// It is taken over under another name, since this one is another server's.
    Rename(String),
    /// The server of that name is the same one.
    Same(String),
    /// It stays where it is, since its name is another server's.
    Conflict,
    /// It is our own entry.
    Ours,
    /// It can't be taken over, and why.
    Unusable(String),
}

/// A secret on its way into the vault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The key that the entry refers to.
    pub key: String,
    /// Its value.
    pub value: Secret,
}

impl Moved {
    /// The value, for whoever puts it into the vault.
    pub fn value(&self) -> &str {
        self.value.open()
    }
}

/// A server and what becomes of it.
#[derive(Clone, Debug)]
pub struct Item {
    /// Whose.
    pub client: &'static Client,
    /// The file.
    pub file: String,
    /// The project that it belongs to, if to one alone.
    pub project: Option<String>,
    /// As the client calls it.
    pub found_as: String,
    /// What it will be called.
    pub name: String,
    /// See [`Action`].
    pub action: Action,
    /// The entry as it will be written, without secrets in variables and headers.
    pub entry: Map<String, Value>,
    /// Values that move into the vault.
    pub secrets: Vec<Moved>,
    /// Keys whose values only the owner can give.
    pub asked: Vec<String>,
    /// Variables of the daemon's environment that it reads.
    pub variables: Vec<String>,
    /// What is lost or different, as sentences.
    pub remarks: Vec<String>,
}

impl Item {
    /// Whether it is to be written.
    pub fn is_taken(&self) -> bool {
        match self.action {
            Action::Take | Action::Rename(_) => true,
            Action::Same(_) | Action::Conflict | Action::Ours | Action::Unusable(_) => false,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Take => f.write_str("take over"),
            Self::Rename(name) => write!(f, "take over as {name}, the name is taken"),
            Self::Same(name) => write!(f, "skip, the same as {name}"),
            Self::Conflict => f.write_str("skip, the name is taken"),
            Self::Ours => f.write_str("skip, it is Wharfinger itself"),
            Self::Unusable(why) => write!(f, "skip, {why}"),
        }
    }
}

/// What makes two servers the same one.
#[derive(Clone, Debug, PartialEq)]
struct Identity {
    name: String,
    reached: Reached,
    /// Variables in any order; what a secret is can't be compared.
    env: Vec<(String, Option<String>)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Reached {
    Command(Vec<String>, Option<String>),
    Address(String),
    Nothing,
}

/// What becomes of each server that clients have, beside those that are here.
pub fn plan(offers: &[Offer], here: &Config, names: &SecretNames, wish: Wish<'_>) -> Vec<Item> {
    let mut known: Vec<Identity> = here.servers.iter().map(Identity::of).collect();
    // An entry that can't be used has its name all the same.
    known.extend(here.broken.iter().map(|(name, ..)| Identity {
        name: name.to_string(),
        reached: Reached::Nothing,
        env: vec![],
    }));
    let mut items = vec![];
    for offer in offers {
        for found in &offer.reading.servers {
            let is_wanted = wish.only.is_empty() || wish.only.contains(&found.name);
            if is_wanted {
                items.push(item(offer, found, &mut known, names, wish));
            }
        }
    }
    items
}

fn item(
    offer: &Offer,
    found: &Found,
    known: &mut Vec<Identity>,
    names: &SecretNames,
    wish: Wish<'_>,
) -> Item {
    let name = usable_name(&found.name);
    let mut item = Item {
        client: offer.client,
        file: offer.file.clone(),
        project: found.project.clone(),
        found_as: found.name.clone(),
        name: name.clone(),
        action: Action::Take,
        entry: Map::new(),
        secrets: vec![],
        asked: found.asked.clone(),
        variables: found.variables.clone(),
        remarks: found.remarks.clone(),
    };
    if found.is_ours {
        item.action = Action::Ours;
        return item;
    }
    match &found.entry {
        Ok(entry) => item.entry.clone_from(entry),
        Err(why) => {
            item.action = Action::Unusable(why.clone());
            return item;
        }
    }
    move_secrets(&mut item, names);
    note_variables(&mut item);
    let read = match check(&name, &item.entry) {
        Ok(read) => read,
        Err(why) => {
            item.action = Action::Unusable(why);
            return item;
        }
    };
    let mut own = Identity::of(&read);
    if let Some(same) = known.iter().find(|known| known.is_same(&own)) {
        item.action = Action::Same(same.name.clone());
        return item;
    }
    if known.iter().any(|known| known.name == name) {
        if wish.skip_conflicts {
            item.action = Action::Conflict;
            return item;
        }
        let is_free = |name: &String| known.iter().all(|known| known.name != *name);
        // One of so many names is free.
        let numbers = 2..known.len() + 3;
        let free = numbers
            .map(|n| format!("{name}-{n}"))
            .find(is_free)
            .unwrap_or_default();
        item.name.clone_from(&free);
        own.name.clone_from(&free);
        item.action = Action::Rename(free);
    }
    known.push(own);
    item
}

/// A client's name for a server, without what no server's name may have.
fn usable_name(name: &str) -> String {
    if ServerName::new(name).is_ok() {
        return name.to_owned();
    }
    let kept: String = name.chars().filter(|c| !c.is_control()).take(32).collect();
    let kept = kept.trim_start_matches(['_', ' ']).trim();
    if kept.is_empty() {
        "server".to_owned()
    } else {
        kept.to_owned()
    }
}

/// The entry as `settings.json` would read it, or why it would not.
fn check(name: &str, entry: &Map<String, Value>) -> Result<ServerEntry, String> {
    let block = json!({"mcpServers": {name: entry}}).to_string();
    match pasted(&block) {
        Ok(mut taken) if taken.len() == 1 => Ok(taken.remove(0).entry),
        Ok(_) => Err("it is no server".into()),
        Err(PastedError::Invalid(problems)) => Err(problems
            .first()
            .map(|p| p.message.clone())
            .unwrap_or_default()),
        Err(error) => Err(error.to_string()),
    }
}

/// Secrets go out of variables and headers; those in odd places are told of.
fn move_secrets(item: &mut Item, names: &SecretNames) {
    let Item {
        entry,
        secrets,
        remarks,
        ..
    } = item;
    let mut take = |key: &str, value: &mut Value| {
        if let Value::String(text) = value {
            let moved = Moved {
                key: key.to_owned(),
                value: Secret::new(std::mem::take(text)),
            };
            *text = format!("${{secret:{key}}}");
            secrets.push(moved);
        }
    };
    // What refers to something is no value of its own.
    let is_literal = |value: &Value| {
        value
            .as_str()
            .is_some_and(|text| !text.trim().is_empty() && !text.contains("${"))
    };
    let looks = |value: &Value| value.as_str().is_some_and(looks_secret);
    for (key, value) in members(entry, "env") {
        if is_literal(value) && (names.matches(key) || looks(value)) && is_key(key) {
            take(key, value);
        }
    }
    for (header, value) in members(entry, "headers") {
        let name = header.replace('-', "_");
        let is_known = ["authorization", "proxy_authorization", "cookie"]
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known));
        if is_literal(value) && (is_known || is_secret_name(&name) || looks(value)) {
            take(&secret_of(header), value);
        }
    }
    let args: Vec<&str> = entry
        .get("args")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let is_in_args =
        !in_arguments(args.iter().copied()).is_empty() || args.iter().any(|a| looks_secret(a));
    if is_in_args {
        remarks.push("a secret in its arguments stays readable in `settings.json`; a variable would be sealed".into());
    }
    if entry
        .get("url")
        .and_then(Value::as_str)
        .is_some_and(has_secret)
    {
        remarks.push(
            "a secret in its address stays readable in `settings.json`; a header would be sealed"
                .into(),
        );
    }
}

/// Every variable of the daemon that the entry reads, also where its client would have read none.
fn note_variables(item: &mut Item) {
    let Item {
        entry, variables, ..
    } = item;
    let held = ["env", "headers"]
        .iter()
        .filter_map(|key| entry.get(*key)?.as_object());
    let values = held.flat_map(Map::values).filter_map(Value::as_str);
    for name in values.flat_map(expand::variables) {
        if !variables.contains(&name) {
            variables.push(name);
        }
    }
}

fn members<'a>(
    entry: &'a mut Map<String, Value>,
    key: &str,
) -> impl Iterator<Item = (&'a String, &'a mut Value)> {
    let members = entry.get_mut(key).and_then(Value::as_object_mut);
    members.into_iter().flat_map(Map::iter_mut)
}

/// Whether a reference to it can be written.
fn is_key(key: &str) -> bool {
    !key.is_empty()
        && key
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
}

/// Whether an address has a login or a token in it.
fn has_secret(address: &str) -> bool {
    let Ok(url) = url::Url::parse(address) else {
        return looks_secret(address);
    };
    url.password().is_some()
        || url.query_pairs().any(|(key, value)| {
            let name = key.replace('-', "_");
            is_secret_name(&name) || name.eq_ignore_ascii_case("key") || looks_secret(&value)
        })
        || url.path_segments().into_iter().flatten().any(looks_secret)
}

impl Identity {
    fn of(entry: &ServerEntry) -> Self {
        let reached = match &entry.transport {
            Transport::Stdio { command, args, cwd } => {
                let words = std::iter::once(command).chain(args).cloned().collect();
                Reached::Command(words, cwd.clone())
            }
            Transport::Http { url } => Reached::Address(url.clone()),
        };
        let mut env = entry.env.clone();
        env.sort();
        Self {
            name: entry.name.to_string(),
            reached,
            env,
        }
    }

    /// Under one name, or a name that a conflict made of it, what is run decides; under two, all that is told to it,
    /// and a secret could be another one.
    fn is_same(&self, new: &Self) -> bool {
        if self.reached != new.reached {
            return false;
        }
        let number = self
            .name
            .strip_prefix(&new.name)
            .map(|rest| rest.strip_prefix('-'));
        let is_numbered = number.flatten().is_some_and(|n| n.parse::<u32>().is_ok());
        let keys = |of: &Self| {
            of.env
                .iter()
                .map(|(key, _)| key.clone())
                .collect::<Vec<_>>()
        };
        let is_sealed =
            |value: &Option<String>| value.as_ref().is_some_and(|v| v.contains("${secret:"));
        if self.name == new.name || is_numbered {
            return keys(self) == keys(new);
        }
        self.env == new.env && !self.env.iter().any(|(_, value)| is_sealed(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::{client, read};
    use crate::config::{File, Inputs, load};

    fn offer(id: &str, text: &str) -> Offer {
        let client = client(id).unwrap();
        Offer {
            client,
            file: format!("/{id}"),
            reading: read(client, text, "/home/me").unwrap(),
        }
    }

    fn here(text: &str) -> Config {
        let settings = Some(File {
            name: "s".into(),
            text: text.into(),
        });
        load(&Inputs {
            settings,
            ..Inputs::default()
        })
        .config
    }

    #[track_caller]
    fn check(
        offers: &[Offer],
        settings: &str,
        wish: Wish<'_>,
        expect: &[(&str, &str)],
    ) -> Vec<Item> {
        let items = plan(offers, &here(settings), &SecretNames::default(), wish);
        let got: Vec<(String, String)> = items
            .iter()
            .map(|item| (item.name.clone(), item.action.to_string()))
            .collect();
        let got: Vec<(&str, &str)> = got.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(got, expect);
        items
    }

    #[test]
    fn what_is_here_already_is_not_taken_twice() {
        let settings = r#"{"mcpServers": {
            "time": {"command": "uvx", "args": ["mcp-server-time"]},
            "github": {"command": "npx", "args": ["gh"], "env": {"GITHUB_TOKEN": "${secret:GITHUB_TOKEN}"}}}}"#;
        let text = r#"{"mcpServers": {
            "time": {"command": "uvx", "args": ["mcp-server-time"]},
            "clock": {"command": "uvx", "args": ["mcp-server-time"]},
            "github": {"command": "npx", "args": ["gh"], "env": {"GITHUB_TOKEN": "ghp_0123456789abcdef"}},
            "github2": {"command": "npx", "args": ["gh"], "env": {"GITHUB_TOKEN": "ghp_fedcba9876543210"}},
            "wharf": {"command": "/usr/bin/wharf", "args": ["stdio"]},
            "odd": {"args": []}}}"#;
        let offers = [offer("cursor", text)];
        check(
            &offers,
            settings,
            Wish::default(),
            &[
                ("time", "skip, the same as time"),
                ("clock", "skip, the same as time"),
                ("github", "skip, the same as github"),
                ("github2", "take over"),
                ("wharf", "skip, it is Wharfinger itself"),
                ("odd", "skip, it has neither a command nor an address"),
            ],
        );
        let only = ["clock".to_owned(), "nothing".to_owned()];
        let wish = Wish {
            only: &only,
            ..Wish::default()
        };
        check(&offers, "{}", wish, &[("clock", "take over")]);
    }

    #[test]
    fn another_server_of_that_name_gets_a_number_and_the_next_import_knows_it() {
        let settings = r#"{"mcpServers": {"time": {"command": "a"}, "time-3": {"command": "c"}}}"#;
        let offers = [
            offer("cursor", r#"{"mcpServers": {"time": {"command": "b"}}}"#),
            offer("vscode", r#"{"servers": {"time": {"command": "b"}}}"#),
            offer(
                "claude-code",
                r#"{"projects": {"/p": {"mcpServers": {"time": {"command": "c"}}}}}"#,
            ),
            offer("kiro", r#"{"mcpServers": {"time": {"command": "d"}}}"#),
        ];
        check(
            &offers,
            settings,
            Wish::default(),
            &[
                ("time-2", "take over as time-2, the name is taken"),
                ("time", "skip, the same as time-2"),
                ("time", "skip, the same as time-3"),
                ("time-4", "take over as time-4, the name is taken"),
            ],
        );
        let wish = Wish {
            skip_conflicts: true,
            ..Wish::default()
        };
        check(
            &offers[..1],
            settings,
            wish,
            &[("time", "skip, the name is taken")],
        );
    }

    #[test]
    fn secrets_leave_variables_and_headers_and_odd_ones_are_told_of() {
        let text = r#"{"mcpServers": {
            "a": {"command": "x", "args": ["--api-key", "hunter2-hunter2"], "env": {
                "API_TOKEN": "t", "PLAIN": "v", "ODD": "ghp_0123456789abcdef", "EMPTY_TOKEN": "",
                "REF_TOKEN": "${env:T}", "DB": "postgres://u:p4ss@h/d"}},
            "b": {"url": "https://h/mcp?api_key=hunter3", "headers": {"Authorization": "Bearer t",
                "X-Api-Key": "k", "Accept": "text/plain"}, "disabled": true}}}"#;
        let items = check(
            &[offer("cursor", text)],
            "{}",
            Wish::default(),
            &[("a", "take over"), ("b", "take over")],
        );
        assert_eq!(
            items[0].entry["env"],
            json!({"API_TOKEN": "${secret:API_TOKEN}", "PLAIN": "v", "ODD": "${secret:ODD}",
                "EMPTY_TOKEN": "", "REF_TOKEN": "${env:T}", "DB": "${secret:DB}"})
        );
        let moved = |item: &Item| -> Vec<(String, String)> {
            item.secrets
                .iter()
                .map(|m| (m.key.clone(), m.value().to_owned()))
                .collect()
        };
        assert_eq!(
            moved(&items[0]),
            [
                ("API_TOKEN".to_owned(), "t".to_owned()),
                ("ODD".into(), "ghp_0123456789abcdef".into()),
                ("DB".into(), "postgres://u:p4ss@h/d".into()),
            ]
        );
        assert_eq!(
            json!(items[1].entry),
            json!({"type": "http", "url": "https://h/mcp?api_key=hunter3", "enabled": false, "headers": {
                "Authorization": "${secret:AUTHORIZATION}", "X-Api-Key": "${secret:X_API_KEY}", "Accept": "text/plain"}})
        );
        assert_eq!(moved(&items[1]).len(), 2);
        for item in &items {
            assert_eq!(item.remarks.len(), 1, "{:?}", item.remarks);
            let told = format!("{item:?}");
            for secret in ["\"t\"", "ghp_", "p4ss"] {
                assert!(!told.contains(secret), "{told}");
            }
        }
    }

    #[test]
    fn variables_that_a_client_would_not_have_read_are_told_of() {
        let text = r#"{"mcpServers": {"a": {"command": "x", "env": {"A": "${env:AWS_SECRET_ACCESS_KEY}"}}}}"#;
        let offers = [offer("claude-desktop", text)];
        let items = check(&offers, "{}", Wish::default(), &[("a", "take over")]);
        assert_eq!(items[0].variables, ["AWS_SECRET_ACCESS_KEY"]);
        assert_eq!(items[0].remarks.len(), 1);
    }

    #[test]
    fn a_name_that_can_not_be_one_here_is_changed() {
        let long = "x".repeat(200);
        let text = json!({"mcpServers": {"__a ": {"command": "x"}, "": {"command": "y"}, (&long): {"command": "z"}}});
        let offers = [offer("cursor", &text.to_string())];
        check(
            &offers,
            "{}",
            Wish::default(),
            &[
                ("a", "take over"),
                ("server", "take over"),
                (&long[..32], "take over"),
            ],
        );
    }
}
