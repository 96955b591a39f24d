//! Prompts, resources and templates of several servers as one list each, and the way back from what agents see.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use wharfinger_wire::json::{Object, raw};

use super::claims::{Claims, Kind, scheme};
use crate::model::ServerName;

/// One prompt, resource or template as its server described it; every member stays, known or not.
#[derive(Clone, Debug)]
pub struct Item {
    /// Its name, URI or URI template.
    pub key: String,
    /// The whole object.
    pub raw: Arc<RawValue>,
}

/// What a server offers of one kind.
#[derive(Clone, Debug, Default)]
pub struct Items {
    /// In listing order.
    pub items: Vec<Item>,
    /// How long the list may be kept, in milliseconds, where the server says so.
    pub ttl_ms: Option<u64>,
}

/// What a server offers beside its tools.
#[derive(Clone, Debug, Default)]
pub struct Offers {
    /// Its `capabilities` object.
    pub capabilities: Option<Arc<RawValue>>,
    /// Its prompts.
    pub prompts: Items,
    /// Its resources.
    pub resources: Items,
    /// Its resource templates.
    pub templates: Items,
}

impl Offers {
    /// Of one kind.
    pub fn of(&self, kind: Kind) -> &Items {
        match kind {
            Kind::Prompt => &self.prompts,
            Kind::Resource => &self.resources,
            Kind::Template => &self.templates,
        }
    }

    /// Whether its server says that it can do what the protocol calls by this name.
    pub fn can(&self, capability: &str) -> bool {
        let capabilities = self.capabilities.as_deref();
        let capabilities = capabilities.and_then(|raw| Object::from_raw(raw).ok());
        capabilities.is_some_and(|capabilities| capabilities.contains(capability))
    }
}

/// The member that names an item.
pub(super) fn key(kind: Kind) -> &'static str {
    match kind {
        Kind::Prompt => "name",
        Kind::Resource => "uri",
        Kind::Template => "uriTemplate",
    }
}

/// The member of an answer that holds a list.
fn member(kind: Kind) -> &'static str {
    match kind {
        Kind::Prompt => "prompts",
        Kind::Resource => "resources",
        Kind::Template => "resourceTemplates",
    }
}

/// Reads items; what has no name is left out.
pub fn items<'a>(kind: Kind, raws: impl IntoIterator<Item = &'a RawValue>) -> Vec<Item> {
    let item = |raw: &RawValue| {
        let key = Object::from_raw(raw).ok()?.text(key(kind))?.into_owned();
        Some(Item {
            key,
            raw: Arc::from(raw.to_owned()),
        })
    };
    raws.into_iter().filter_map(item).collect()
}

/// A list as it is sent.
#[derive(Clone, Debug)]
pub struct Page {
    /// The whole result.
    pub list: Arc<RawValue>,
    /// How long it may be kept, in milliseconds: as long as every server with such a list says; 0 where one does not.
    pub ttl_ms: u64,
}

/// Where a URI is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// There, by its server's own name for it.
    Known(ServerName, String),
    /// Nobody lists it: these may know it, in this order.
    Unlisted(Vec<ServerName>),
}

/// Everything beside tools that an agent may use.
#[derive(Clone, Debug)]
pub struct Directory {
    /// All prompts.
    pub prompts: Page,
    /// All resources.
    pub resources: Page,
    /// All templates.
    pub templates: Page,
    /// What all servers together say they can do.
    pub capabilities: Value,
    names: HashMap<String, (ServerName, String)>,
    uris: HashMap<String, (ServerName, String)>,
    /// As agents see them.
    patterns: Vec<(String, ServerName, String)>,
    /// Servers with resources.
    readers: Vec<ServerName>,
}

impl Directory {
    /// Joins offers in source order.
    pub fn join(offers: &[(ServerName, Arc<Offers>)], claims: &Claims) -> Self {
        let mut names = HashMap::new();
        let mut uris = HashMap::new();
        let mut patterns = vec![];
        for (server, offers) in offers {
            for kind in Kind::ALL {
                for item in &offers.of(kind).items {
                    let exposed = claims.exposed(server, kind, &item.key);
                    let whose = (server.clone(), item.key.clone());
                    match kind {
                        Kind::Prompt => drop(names.entry(exposed).or_insert(whose)),
                        Kind::Resource => drop(uris.entry(exposed).or_insert(whose)),
                        Kind::Template => patterns.push((exposed, whose.0, whose.1)),
                    }
                }
            }
        }
        let readers = offers
            .iter()
            .filter(|(_, offers)| offers.can("resources"))
            .map(|(server, _)| server.clone());
        Self {
            prompts: page(Kind::Prompt, offers, claims),
            resources: page(Kind::Resource, offers, claims),
            templates: page(Kind::Template, offers, claims),
            capabilities: capabilities(offers),
            names,
            uris,
            patterns,
            readers: readers.collect(),
        }
    }

    /// Of one kind.
    pub fn page(&self, kind: Kind) -> &Page {
        match kind {
            Kind::Prompt => &self.prompts,
            Kind::Resource => &self.resources,
            Kind::Template => &self.templates,
        }
    }

    /// Whose prompt it is, and its server's own name for it.
    pub fn prompt(&self, name: &str) -> Option<&(ServerName, String)> {
        self.names.get(name)
    }

    /// The nearest prompt to a name that is not known.
    pub fn nearest_prompt(&self, name: &str) -> Option<&str> {
        crate::model::nearest(name, self.names.keys().map(String::as_str))
    }

    /// Where a URI is read.
    pub fn resource(&self, uri: &str) -> Place {
        if let Some((server, own)) = self.uris.get(uri) {
            return Place::Known(server.clone(), own.clone());
        }
        if uri.starts_with("wharf.") {
            for server in &self.readers {
                if let Some(own) = uri.strip_prefix(&scheme(server)) {
                    return Place::Known(server.clone(), own.to_owned());
                }
            }
        }
        let fits = |(pattern, ..): &&(String, ServerName, String)| matches(pattern, uri);
        if let Some((_, server, _)) = self.patterns.iter().find(fits) {
            return Place::Known(server.clone(), uri.to_owned());
        }
        match self.readers.as_slice() {
            [only] => Place::Known(only.clone(), uri.to_owned()),
            several => Place::Unlisted(several.to_vec()),
        }
    }

    /// Whether a server has resources.
    pub fn reads(&self, server: &ServerName) -> bool {
        self.readers.contains(server)
    }

    /// Whose template it is, and its server's own text of it; for completions, which name one.
    pub fn template(&self, text: &str) -> Option<(&ServerName, &str)> {
        let found = self.patterns.iter().find(|(pattern, ..)| pattern == text);
        found.map(|(_, server, own)| (server, own.as_str()))
    }
}

fn page(kind: Kind, offers: &[(ServerName, Arc<Offers>)], claims: &Claims) -> Page {
    let mut text = format!("{{\"{}\":[", member(kind));
    let mut ttl = None;
    let mut first = true;
    for (server, offers) in offers {
        let Items { items, ttl_ms } = offers.of(kind);
        if !items.is_empty() || ttl_ms.is_some() {
            let these = ttl_ms.unwrap_or(0);
            ttl = Some(ttl.map_or(these, |known: u64| known.min(these)));
        }
        for item in items {
            if !std::mem::take(&mut first) {
                text.push(',');
            }
            if claims.is_marked(server, kind, &item.key) {
                let mut object = Object::from_raw(&item.raw).unwrap_or_default();
                object.set(key(kind), raw(&kind.marked(server, &item.key)));
                text.push_str(object.to_raw().get());
            } else {
                text.push_str(item.raw.get());
            }
        }
    }
    text.push_str("]}");
    let list = RawValue::from_string(text).expect("objects joined by commas are a list");
    Page {
        list: Arc::from(list),
        ttl_ms: ttl.unwrap_or(0),
    }
}

/// The capabilities of all servers in one object: what one of them can, can be had.
fn capabilities(offers: &[(ServerName, Arc<Offers>)]) -> Value {
    let mut all = Value::Object(Map::new());
    for (_, offers) in offers {
        let capabilities = offers.capabilities.as_deref();
        let own = capabilities.and_then(|raw| serde_json::from_str(raw.get()).ok());
        join(&mut all, own.unwrap_or_else(|| json!({})));
    }
    all
}

fn join(all: &mut Value, more: Value) {
    match (all, more) {
        (Value::Object(all), Value::Object(more)) => {
            for (key, value) in more {
                match all.get_mut(&key) {
                    Some(known) => join(known, value),
                    None => drop(all.insert(key, value)),
                }
            }
        }
        (all @ Value::Bool(false), Value::Bool(true)) => *all = Value::Bool(true),
        _ => {}
    }
}

/// Whether who wants to hear of `asked` hears of a change of `changed`: the resource itself, or a part of it.
pub fn covers(asked: &str, changed: &str) -> bool {
    changed.strip_prefix(asked).is_some_and(|rest| {
        rest.is_empty() || asked.ends_with('/') || rest.starts_with(['/', '?', '#'])
    })
}

/// Whether a URI can come of a URI template (RFC 6570): its literal parts are there, in their order.
fn matches(template: &str, uri: &str) -> bool {
    let mut parts = vec![];
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        let Some(close) = rest[open..].find('}') else {
            break;
        };
        parts.push(&rest[..open]);
        rest = &rest[open + close + 1..];
    }
    if parts.is_empty() {
        return template == uri;
    }
    let Some(mut uri) = uri.strip_prefix(parts[0]) else {
        return false;
    };
    for part in &parts[1..] {
        match uri.find(part) {
            Some(at) => uri = &uri[at + part.len()..],
            None => return false,
        }
    }
    uri.ends_with(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(text: &str) -> ServerName {
        ServerName::new(text).unwrap()
    }

    /// A server with these prompts, resources and templates.
    fn offers(name: &str, lists: [&[&str]; 3]) -> (ServerName, Arc<Offers>) {
        let list = |kind: Kind, names: &[&str]| {
            let raws: Vec<_> = names
                .iter()
                .map(|name| raw(&json!({ key(kind): name, "x": 1 })))
                .collect();
            Items {
                items: items(kind, raws.iter().map(|raw| &**raw)),
                ttl_ms: None,
            }
        };
        let [prompts, resources, templates] = lists;
        let capabilities = raw(&json!({ "resources": {}, "prompts": {} }));
        let offers = Offers {
            capabilities: Some(Arc::from(capabilities)),
            prompts: list(Kind::Prompt, prompts),
            resources: list(Kind::Resource, resources),
            templates: list(Kind::Template, templates),
        };
        (server(name), Arc::new(offers))
    }

    fn claimed(all: &[(ServerName, Arc<Offers>)]) -> Claims {
        let mut claims = Claims::default();
        for (server, offers) in all {
            for kind in Kind::ALL {
                let names = offers.of(kind).items.iter().map(|item| &*item.key);
                drop(claims.claim(server, kind, names));
            }
        }
        claims
    }

    #[test]
    fn one_server_is_seen_unchanged() {
        let all = [offers("a", [&["p"], &["x://1"], &["x://{n}"]])];
        let directory = Directory::join(&all, &claimed(&all));
        assert_eq!(
            directory.prompts.list.get(),
            r#"{"prompts":[{"name":"p","x":1}]}"#
        );
        assert_eq!(
            directory.templates.list.get(),
            r#"{"resourceTemplates":[{"uriTemplate":"x://{n}","x":1}]}"#
        );
        let known = |uri: &str| Place::Known(server("a"), uri.to_owned());
        assert_eq!(directory.resource("x://1"), known("x://1"));
        assert_eq!(
            directory.resource("other://"),
            known("other://"),
            "who else"
        );
    }

    #[test]
    fn what_clashes_is_told_apart_and_found_again() {
        let lists: [&[&str]; 3] = [&["p"], &["x://1"], &["x://n/{n}"]];
        let all = [
            offers("a", lists),
            offers("b", lists),
            offers("c", [&[], &[], &[]]),
        ];
        let directory = Directory::join(&all, &claimed(&all));
        assert_eq!(
            directory.resources.list.get(),
            r#"{"resources":[{"uri":"x://1","x":1},{"uri":"wharf.b+x://1","x":1}]}"#
        );
        let whose = |name: &str| directory.prompt(name).cloned();
        assert_eq!(whose("p"), Some((server("a"), "p".into())));
        assert_eq!(whose("b/p"), Some((server("b"), "p".into())));
        assert_eq!(whose("c/p"), None);
        assert_eq!(directory.nearest_prompt("b/q"), Some("b/p"));
        let known = |name: &str, uri: &str| Place::Known(server(name), uri.to_owned());
        assert_eq!(directory.resource("wharf.b+x://1"), known("b", "x://1"));
        assert_eq!(directory.resource("x://n/7"), known("a", "x://n/7"));
        assert_eq!(directory.resource("wharf.b+x://n/7"), known("b", "x://n/7"));
        assert_eq!(
            directory.template("wharf.b+x://n/{n}"),
            Some((&server("b"), "x://n/{n}"))
        );
        let all = Place::Unlisted(vec![server("a"), server("b"), server("c")]);
        assert_eq!(directory.resource("y://"), all);
    }

    #[test]
    fn templates_are_matched_by_their_literal_parts() {
        let check = |template: &str, uri: &str, expect: bool| {
            assert_eq!(matches(template, uri), expect, "{template} {uri}");
        };
        check("x://{a}/y/{b}", "x://1/y/2", true);
        check("x://{a}/y/{b}", "x://1/z/2", false);
        check("x://{a}.json", "x://1.json", true);
        check("x://{a}.json", "x://1.yaml", false);
        check("x://a{?q}", "x://a?q=1", true);
        check("x://a", "x://a", true);
        check("x://a", "x://b", false);
        check("{+path}", "anything", true);
        check("x://{broken", "x://{broken", true);
    }

    #[test]
    fn a_part_of_a_resource_is_told_by_its_path() {
        for (asked, changed, expect) in [
            ("x://1", "x://1", true),
            ("x://1", "x://1/2", true),
            ("x://1", "x://1#a", true),
            ("x://1", "x://10", false),
            ("x://1/", "x://1/2", true),
            ("x://1", "y://1", false),
        ] {
            assert_eq!(covers(asked, changed), expect, "{asked} {changed}");
        }
    }

    #[test]
    fn capabilities_are_joined() {
        let with = |text: &str| {
            let raw = RawValue::from_string(text.to_owned()).unwrap();
            let capabilities = Some(Arc::from(raw));
            Arc::new(Offers {
                capabilities,
                ..Offers::default()
            })
        };
        let all = [
            (
                server("a"),
                with(r#"{"resources":{"subscribe":false},"tools":{}}"#),
            ),
            (
                server("b"),
                with(r#"{"resources":{"subscribe":true},"completions":{}}"#),
            ),
            (server("c"), Arc::default()),
        ];
        assert_eq!(
            Directory::join(&all, &Claims::default()).capabilities,
            json!({ "resources": { "subscribe": true }, "tools": {}, "completions": {} })
        );
    }
}
