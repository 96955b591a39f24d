//! Names of agents' tools (A144, A145): `mcp_<server>_<tool>` where that is legal and free, and the same ever after.

use std::collections::{HashMap, HashSet};

use sha2::{Digest, Sha256};

use super::names::fold;
use crate::model::{ServerName, ToolName};

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
    let hash = super::hash::hex(&hash.finalize()[..4]);
    let base = plain(server, tool);
    let base = base
        .chars()
        .map(|c| if is_legal_character(c) { c } else { '_' });
    let base: String = base.take(LIMIT - 1 - hash.len()).collect();
    format!("{base}_{hash}")
}
