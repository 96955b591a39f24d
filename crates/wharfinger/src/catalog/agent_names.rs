//! Names of agents' tools (A144, A145): `mcp_<server>_<tool>` where that is legal and free, and the same ever after.

use std::collections::{HashMap, HashSet};

use sha2::{Digest, Sha256};

use super::names::fold;
use crate::model::{ServerName, ToolName, hex};

/// Most characters of a name that every provider of models accepts.
const LIMIT: usize = 64;

/// A name given before to a tool of one of an agent's servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenName {
    /// Whose tool.
    pub server: ServerName,
    /// As its server names it.
    pub tool: ToolName,
    /// As the agent calls it.
    pub exposed: String,
}

/// A name for each tool of a server. Tools that are listed twice under one name have one.
///
/// `known` are the names of all servers of the agent, also of tools that are away: they stay with who has them. `taken`
/// are names that may not be given anew, as those of the agent's own tools. The order of the tools does not matter. A
/// name that is not exactly `mcp_<server>_<tool>` ends with a hash of both, so it does not depend on the other tools
/// either. What servers name is looked up by these names in a map; nothing is ever read from a name.
pub fn allocate_agent(
    server: &ServerName,
    tools: &[ToolName],
    known: &[GivenName],
    taken: &[String],
) -> Vec<String> {
    let mut given: HashMap<&str, &str> = HashMap::new();
    // Names that clients take for one another count as the same.
    let mut used: HashSet<String> = taken.iter().map(|name| fold(name)).collect();
    for name in known.iter().filter(|name| is_legal(&name.exposed)) {
        used.insert(fold(&name.exposed));
        if name.server == *server {
            given.entry(name.tool.as_str()).or_insert(&name.exposed);
        }
    }
    let mut new: Vec<&str> = tools.iter().map(ToolName::as_str).collect();
    new.retain(|tool| !given.contains_key(tool));
    new.sort_unstable();
    new.dedup();
    let mut names: HashMap<&str, String> = HashMap::new();
    // Those that can be exact come first, so that no other takes their name.
    let (exact, rest): (Vec<&str>, Vec<&str>) = new
        .into_iter()
        .partition(|tool| is_legal(&plain(server, tool)));
    for tool in exact.into_iter().chain(rest) {
        let exact = Some(plain(server, tool)).filter(|name| is_legal(name));
        let name = exact
            .into_iter()
            .chain((0..=u32::MAX).map(|nth| hashed(server, tool, nth)))
            .find(|name| used.insert(fold(name)))
            .expect("nobody has four thousand million names");
        names.insert(tool, name);
    }
    let name = |tool: &ToolName| {
        let name = given.get(tool.as_str()).copied();
        name.or_else(|| names.get(tool.as_str()).map(String::as_str))
            .expect("every tool was given a name")
            .to_owned()
    };
    tools.iter().map(name).collect()
}

fn plain(server: &ServerName, tool: &str) -> String {
    format!("mcp_{server}_{tool}")
}

fn is_legal(name: &str) -> bool {
    !name.is_empty() && name.len() <= LIMIT && name.chars().all(is_legal_character)
}

fn is_legal_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// Legal whatever the names hold. `nth` is for the case that somebody named a tool so that its name is this one.
fn hashed(server: &ServerName, tool: &str, nth: u32) -> String {
    let mut hash = Sha256::new();
    hash.update(server.as_str());
    hash.update([0]);
    hash.update(tool);
    if nth > 0 {
        hash.update(nth.to_be_bytes());
    }
    let hash = hex(&hash.finalize()[..4]);
    let base = plain(server, tool);
    let base = base
        .chars()
        .map(|c| if is_legal_character(c) { c } else { '_' });
    let base: String = base.take(LIMIT - 1 - hash.len()).collect();
    format!("{base}_{hash}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> ServerName {
        ServerName::new(text).unwrap()
    }

    fn given(server: &str, tool: &str, exposed: &str) -> GivenName {
        GivenName {
            server: name(server),
            tool: ToolName::new(tool).unwrap(),
            exposed: exposed.into(),
        }
    }

    fn names(server: &str, tools: &[&str], known: &[GivenName], taken: &[&str]) -> Vec<String> {
        let tools: Vec<_> = tools
            .iter()
            .map(|tool| ToolName::new(tool).unwrap())
            .collect();
        let taken: Vec<_> = taken.iter().map(|name| (*name).to_owned()).collect();
        allocate_agent(&name(server), &tools, known, &taken)
    }

    /// A hash of server and tool, as other tools would compute it.
    fn suffix(server: &str, tool: &str) -> String {
        hex(&Sha256::digest(format!("{server}\0{tool}"))[..4])
    }

    #[test]
    fn a144_a_legal_name_is_exact() {
        for (server, tool) in [
            ("filesystem", "read_file"),
            ("my-server", "Get-It"),
            ("s_1", "_"),
            ("git_hub", "x"),
        ] {
            assert_eq!(
                names(server, &[tool], &[], &[]),
                [format!("mcp_{server}_{tool}")]
            );
        }
    }

    #[test]
    fn a145_p60_every_name_is_one_that_providers_accept() {
        let just = "t".repeat(64 - "mcp_s_".len());
        assert_eq!(names("s", &[&just], &[], &[]), [format!("mcp_s_{just}")]);
        let long = format!("{just}t");
        let cut = format!("mcp_s_{}_{}", "t".repeat(49), suffix("s", &long));
        assert_eq!(cut.len(), 64);
        assert_eq!(names("s", &[&long], &[], &[]), [cut]);
        let check = |server: &str, tool: &str, expect: &str| {
            let expect = format!("{expect}_{}", suffix(server, tool));
            assert_eq!(names(server, &[tool], &[], &[]), [expect]);
        };
        check("s", "a.b", "mcp_s_a_b");
        check("my server", "a", "mcp_my_server_a");
        check("s", "Ünï", "mcp_s__n_");
        check("ü", "日本", "mcp_____");
        let long = "ü".repeat(60);
        for name in names(&long, &[&long, "a/b", "c"], &[], &[]) {
            assert!(is_legal(&name) && name.len() <= 64, "{name}");
        }
        assert!(!is_legal("") && !is_legal("a.b"));
    }

    #[test]
    fn a145_p39_p40_names_are_unique_over_all_servers_of_an_agent() {
        let known = [given("git", "hub_x", "mcp_git_hub_x")];
        let other = format!("mcp_git_hub_x_{}", suffix("git_hub", "x"));
        assert_eq!(
            names("git_hub", &["x"], &known, &[]),
            std::slice::from_ref(&other)
        );
        assert_eq!(names("git", &["hub_x"], &known, &[]), ["mcp_git_hub_x"]);
        assert_eq!(
            names("git_hub", &["x"], &[], &["mcp_git_hub_x"]),
            std::slice::from_ref(&other)
        );
        // Names that clients take for one another are one.
        assert_eq!(
            names("git_hub", &["x"], &[], &["MCP-git-hub-X"]),
            std::slice::from_ref(&other)
        );
        // Even where somebody has the very name with the hash.
        let twice = names("git_hub", &["x"], &known, &[&other]);
        assert!(
            is_legal(&twice[0]) && twice[0] != other && twice[0] != "mcp_git_hub_x",
            "{twice:?}"
        );
        assert_eq!(twice[0].len(), other.len());
        assert_eq!(names("git_hub", &["x"], &known, &[&other]), twice);
    }

    #[test]
    fn a145_exact_names_go_to_those_that_can_have_them() {
        let other = format!("mcp_s_a_b_{}", suffix("s", "a.b"));
        let rest = other.strip_prefix("mcp_s_").unwrap();
        assert_eq!(
            names("s", &["a.b", "a_b"], &[], &[]),
            [other.clone(), "mcp_s_a_b".into()]
        );
        let odd = names("s", &["a.b", rest], &[], &[]);
        assert_eq!(odd[1], other);
        assert_ne!(odd[0], other);
        assert_eq!(
            names("s", &["get_x", "get-x"], &[], &[]),
            [
                format!("mcp_s_get_x_{}", suffix("s", "get_x")),
                "mcp_s_get-x".into()
            ]
        );
        assert_eq!(names("s", &["a", "a"], &[], &[]), ["mcp_s_a", "mcp_s_a"]);
    }

    #[test]
    fn a145_names_given_before_stay() {
        let known = [
            given("s", "a", "mcp_t_b"),
            given("s", "away", "mcp_s_b"),
            given("s", "c", "not legal"),
            given("s", "a", "mcp_s_second"),
            given("x", "d", "mcp_s_d"),
        ];
        assert_eq!(
            names("s", &["a", "b", "c", "d"], &known, &["mcp_t_b"]),
            [
                "mcp_t_b".to_owned(),
                format!("mcp_s_b_{}", suffix("s", "b")),
                "mcp_s_c".into(),
                format!("mcp_s_d_{}", suffix("s", "d")),
            ]
        );
    }

    #[test]
    fn a145_the_order_of_a_listing_does_not_matter() {
        let mut tools = vec!["a.b", "a_b", "a-b", "a b", "A_B", "x", "é", "è"];
        let of = |tools: &[&str]| -> std::collections::BTreeMap<String, String> {
            let names = names("s", tools, &[], &["mcp_s_x"]);
            tools
                .iter()
                .map(|tool| (*tool).to_owned())
                .zip(names)
                .collect()
        };
        let first = of(&tools);
        let different: HashSet<_> = first.values().map(|name| fold(name)).collect();
        assert_eq!(different.len(), tools.len());
        for _ in 0..tools.len() {
            tools.rotate_left(1);
            assert_eq!(of(&tools), first);
            tools.swap(1, 4);
            assert_eq!(of(&tools), first);
        }
    }
}
