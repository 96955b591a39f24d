//! The tools of several servers as one list (V47–V49).

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use wharfinger_wire::json::{self, Object};

use super::claims::{Claims, Kind};
use super::listing::Tool;
use super::names::fold;
use super::portable::portable;
use crate::model::{OnClash, ServerName};

/// One server's tools and the names they have.
#[derive(Clone, Debug)]
pub struct Offer<'a> {
    /// Whose they are.
    pub server: &'a ServerName,
    /// What becomes of a name that is taken.
    pub on_clash: OnClash,
    /// In listing order.
    pub tools: &'a [Tool],
    /// Of each tool.
    pub names: &'a [String],
}

/// A tool as an agent sees it.
#[derive(Clone, Debug)]
pub struct Exposed {
    /// What the agent calls it.
    pub name: String,
    /// Who serves it.
    pub server: ServerName,
    /// What its server calls it.
    pub tool: Tool,
}

/// Everything an agent may call: the map from exposed names, and the list as it is sent.
#[derive(Clone, Debug)]
pub struct Catalog {
    /// In server order, then listing order (V49).
    pub tools: Vec<Exposed>,
    by_name: HashMap<String, usize>,
    /// `{"tools":[…]}`.
    pub list: Arc<RawValue>,
    /// The same for clients that drop a whole list for a schema they do not know; `None` where nothing differs.
    pub portable: Option<Arc<RawValue>>,
    /// Names that were not given, and why.
    pub warnings: Vec<String>,
}

impl Catalog {
    /// The tool of that exposed name. Names are looked up, never taken apart.
    pub fn find(&self, name: &str) -> Option<&Exposed> {
        self.by_name.get(name).map(|index| &self.tools[*index])
    }

    /// The exposed name nearest to one that is not known.
    pub fn nearest(&self, name: &str) -> Option<&str> {
        crate::model::nearest(name, self.tools.iter().map(|tool| tool.name.as_str()))
    }
}

/// Joins offers in source order. `reserved` are the names of the host's own tools (V47); `claims` say which URIs agents
/// see otherwise than their servers have them.
pub fn merge(offers: &[Offer<'_>], reserved: &[String], claims: &Claims) -> Catalog {
    let own: HashMap<String, &String> = reserved.iter().map(|name| (fold(name), name)).collect();
    let mut taken: HashMap<String, &ServerName> = HashMap::new();
    let (mut tools, mut warnings) = (vec![], vec![]);
    for offer in offers {
        for (tool, name) in offer.tools.iter().zip(offer.names) {
            let folded = fold(name);
            let server = offer.server;
            if let Some(built_in) = own.get(&folded) {
                warnings.push(format!(
                    "`{name}` of `{server}` is not offered, since `{built_in}` is a built-in tool; give `{server}` a toolPrefix"
                ));
            } else if let Some(warning) = clash(offer, name, taken.get(&folded).copied()) {
                warnings.push(warning);
            } else {
                taken.insert(folded, server);
                tools.push(Exposed {
                    name: name.clone(),
                    server: server.clone(),
                    tool: with_page(tool, server, claims).unwrap_or_else(|| tool.clone()),
                });
            }
        }
    }
    let by_name = tools
        .iter()
        .enumerate()
        .map(|(i, tool)| (tool.name.clone(), i))
        .collect();
    let (list, portable) = lists(&tools);
    Catalog {
        tools,
        by_name,
        list,
        portable,
        warnings,
    }
}

/// Why a name cannot be given that another tool may have.
fn clash(offer: &Offer<'_>, name: &str, first: Option<&ServerName>) -> Option<String> {
    let (first, server) = (first?, offer.server);
    match offer.on_clash {
        OnClash::SkipAndWarn => (first != server).then(|| {
            format!(
                "`{name}` is offered by `{first}` and by `{server}`; the first wins, so give one of them a toolPrefix to keep both"
            )
        }),
        // Every tool was given a name of its own, so it is the same tool.
        OnClash::Suffix => Some(format!(
            "`{name}` is listed by `{server}` more than once; the first counts"
        )),
    }
}

/// The tool, where the page that shows its results (`_meta.ui.resourceUri`) has another URI for agents.
fn with_page(tool: &Tool, server: &ServerName, claims: &Claims) -> Option<Tool> {
    if !claims.marks(server) {
        return None;
    }
    let marked = |uri: &str| {
        let marked = claims.is_marked(server, Kind::Resource, uri);
        marked.then(|| json::raw(&Kind::Resource.marked(server, uri)))
    };
    let mut object = Object::from_raw(&tool.raw).ok()?;
    let mut meta = object.object("_meta")?;
    let mut ui = meta.object("ui")?;
    let uri = marked(&ui.text("resourceUri")?)?;
    ui.set("resourceUri", uri);
    let ui = ui.to_raw();
    meta.set("ui", ui);
    let meta = meta.to_raw();
    object.set("_meta", meta);
    Some(Tool {
        name: tool.name.clone(),
        raw: Arc::from(object.to_raw()),
    })
}

fn lists(tools: &[Exposed]) -> (Arc<RawValue>, Option<Arc<RawValue>>) {
    let mut plain = String::from("{\"tools\":[");
    let mut careful = plain.clone();
    let mut differs = false;
    for (index, tool) in tools.iter().enumerate() {
        let named = renamed(tool);
        let named = named.as_deref().unwrap_or(&tool.tool.raw);
        let rewritten = portable(named);
        differs |= rewritten.is_some();
        for (list, raw) in [
            (&mut plain, named),
            (&mut careful, rewritten.as_deref().unwrap_or(named)),
        ] {
            if index > 0 {
                list.push(',');
            }
            list.push_str(raw.get());
        }
    }
    let close = |mut list: String| {
        list.push_str("]}");
        let raw = RawValue::from_string(list).expect("objects joined by commas are a list");
        Arc::<RawValue>::from(raw)
    };
    (close(plain), differs.then(|| close(careful)))
}

/// The tool's object with its exposed name, where that is another one.
fn renamed(tool: &Exposed) -> Option<Box<RawValue>> {
    if tool.name == tool.tool.name.as_str() {
        return None;
    }
    let mut object = Object::from_raw(&tool.tool.raw).ok()?;
    object.set("name", json::raw(&tool.name));
    Some(object.to_raw())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::read;
    use crate::config::{File, Inputs, load};
    use crate::model::Profile;

    /// Servers as (name, tools with the names they have); gives the exposed names by server, and the warnings.
    fn catalog(servers: &[(&str, &[&str])], reserved: &[&str]) -> Catalog {
        let text = r#"{"mcpServers":{"a":{"command":"x"}}}"#.into();
        let inputs = Inputs {
            settings: Some(File {
                name: "s".into(),
                text,
            }),
            ..Inputs::default()
        };
        let policy = crate::policy::effective(&load(&inputs).config.servers[0], Profile::Chat);
        let owned: Vec<_> = servers
            .iter()
            .map(|(server, tools)| {
                let raws: Vec<_> = tools
                    .iter()
                    .map(|t| {
                        json::raw(
                            &serde_json::json!({"name": t, "inputSchema": {"type": "object"}}),
                        )
                    })
                    .collect();
                let listing = read(raws.iter().map(|raw| &**raw));
                let names: Vec<String> = tools.iter().map(|t| (*t).to_owned()).collect();
                (ServerName::new(server).unwrap(), listing.tools, names)
            })
            .collect();
        let offers: Vec<_> = owned
            .iter()
            .map(|(server, tools, names)| Offer {
                server,
                on_clash: policy.on_clash,
                tools,
                names,
            })
            .collect();
        let reserved: Vec<String> = reserved.iter().map(|r| (*r).to_owned()).collect();
        merge(&offers, &reserved, &Claims::default())
    }

    fn check(servers: &[(&str, &[&str])], reserved: &[&str], expect: &[&str], warnings: &[&str]) {
        let catalog = catalog(servers, reserved);
        let names: Vec<String> = catalog
            .tools
            .iter()
            .map(|tool| format!("{}/{}", tool.server, tool.name))
            .collect();
        assert_eq!(names, expect);
        assert_eq!(catalog.warnings, warnings);
    }

    #[test]
    fn v49_tools_come_in_server_order_then_listing_order() {
        check(
            &[("b", &["z", "a"]), ("a", &["m"])],
            &[],
            &["b/z", "b/a", "a/m"],
            &[],
        );
    }

    #[test]
    fn v48_the_first_server_wins_a_name_and_the_warning_names_both() {
        let warning = |name: &str| {
            format!(
                "`{name}` is offered by `one` and by `two`; the first wins, so give one of them a toolPrefix to keep both"
            )
        };
        check(
            &[("one", &["read_file"]), ("two", &["read_file", "other"])],
            &[],
            &["one/read_file", "two/other"],
            &[&warning("read_file")],
        );
        check(
            &[("one", &["list-calendars"]), ("two", &["List_Calendars"])],
            &[],
            &["one/list-calendars"],
            &[&warning("List_Calendars")],
        );
    }

    #[test]
    fn v47_a_built_in_tool_keeps_its_name() {
        check(
            &[("files", &["read", "bash", "other"])],
            &["read", "Bash"],
            &["files/other"],
            &[
                "`read` of `files` is not offered, since `read` is a built-in tool; give `files` a toolPrefix",
                "`bash` of `files` is not offered, since `Bash` is a built-in tool; give `files` a toolPrefix",
            ],
        );
    }

    #[test]
    fn the_list_has_exposed_names_and_everything_else_as_it_was() {
        let mut catalog = catalog(&[("a", &["x"])], &[]);
        assert_eq!(
            catalog.list.get(),
            r#"{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}"#
        );
        catalog.tools[0].name = "p_x".into();
        let (list, portable) = lists(&catalog.tools);
        assert_eq!(
            list.get(),
            r#"{"tools":[{"name":"p_x","inputSchema":{"type":"object"}}]}"#
        );
        assert!(portable.is_none());
        assert!(catalog.find("x").is_some() && catalog.find("y").is_none());
        assert_eq!(
            merge(&[], &[], &Claims::default()).list.get(),
            r#"{"tools":[]}"#
        );
    }

    #[test]
    fn a145_an_agents_tool_that_is_listed_twice_is_offered_once() {
        let text = r#"{"mcpServers":{"a":{"command":"x"}}}"#.into();
        let inputs = Inputs {
            settings: Some(File {
                name: "s".into(),
                text,
            }),
            ..Inputs::default()
        };
        let policy = crate::policy::effective(&load(&inputs).config.servers[0], Profile::Agent);
        let raws = ["x", "x", "y"].map(|name| json::raw(&serde_json::json!({"name": name})));
        let tools = read(raws.iter().map(|raw| &**raw)).tools;
        let names = ["mcp_a_x", "mcp_a_x", "mcp_a_y"].map(str::to_owned);
        let server = ServerName::new("a").unwrap();
        let offer = Offer {
            server: &server,
            on_clash: policy.on_clash,
            tools: &tools,
            names: &names,
        };
        let catalog = merge(&[offer], &["MCP-a-y".to_owned()], &Claims::default());
        assert_eq!(catalog.tools.len(), 1);
        assert_eq!(catalog.warnings.len(), 2);
        assert_eq!(
            catalog.warnings[0],
            "`mcp_a_x` is listed by `a` more than once; the first counts"
        );
    }

    #[test]
    fn the_page_of_a_tool_has_the_uri_that_agents_see() {
        let tool = |text: &str| Tool {
            name: crate::model::ToolName::new("t").unwrap(),
            raw: Arc::from(RawValue::from_string(text.to_owned()).unwrap()),
        };
        let [a, b] = ["a", "b"].map(|name| ServerName::new(name).unwrap());
        let mut claims = Claims::default();
        for server in [&a, &b] {
            drop(claims.claim(server, Kind::Resource, ["ui://x"]));
        }
        let text = r#"{"name":"t","_meta":{"ui":{"resourceUri":"ui://x","v":1}}}"#;
        assert!(with_page(&tool(text), &a, &claims).is_none());
        let seen = with_page(&tool(text), &b, &claims).unwrap();
        assert_eq!(seen.raw.get(), text.replace("ui://x", "wharf.b+ui://x"));
        assert!(with_page(&tool(r#"{"name":"t"}"#), &b, &claims).is_none());
    }

    #[test]
    fn one_list_is_for_clients_that_know_less() {
        let mut catalog = catalog(&[("a", &["x", "y"])], &[]);
        let boolean = r#"{"name":"x","inputSchema":{"type":"object","properties":{"v":true}}}"#;
        let raw = RawValue::from_string(boolean.into()).unwrap();
        catalog.tools[0].tool.raw = Arc::from(raw);
        let (list, portable) = lists(&catalog.tools);
        assert!(list.get().contains(r#""v":true"#));
        let rest = r#"{"name":"y","inputSchema":{"type":"object"}}]}"#;
        let first = boolean.replace("true", "{}");
        assert_eq!(
            portable.unwrap().get(),
            format!("{{\"tools\":[{first},{rest}")
        );
        assert!(list.get().ends_with(rest));
    }

    #[test]
    fn the_nearest_name_is_known() {
        let catalog = catalog(&[("a", &["read_file", "write_file"])], &[]);
        assert_eq!(catalog.nearest("raed_file"), Some("read_file"));
        assert_eq!(catalog.nearest("other"), None);
    }
}
