//! Tools of other servers that a tool may be taken for, or speaks of.

use std::collections::HashMap;

use aho_corasick::AhoCorasick;

use super::looks::glance;
use crate::catalog::names::fold;
use crate::model::{ServerName, ToolName};

/// A tool of the same agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Other {
    /// Whose.
    pub server: ServerName,
    /// As its server names it.
    pub tool: ToolName,
    /// As the agent calls it.
    pub exposed: String,
}

/// All tools of an agent, prepared for looking whether another one imitates them.
#[derive(Debug, Default)]
pub struct Others {
    tools: Vec<Other>,
    by_tool: HashMap<String, Vec<usize>>,
    by_glance: HashMap<String, Vec<usize>>,
    by_letters: HashMap<String, Vec<usize>>,
    by_exposed: HashMap<String, Vec<usize>>,
    /// Finds exposed names in texts, all of them, also within each other.
    mentions: Option<AhoCorasick>,
}

impl Others {
    /// Prepares tools. Those of the server that is looked at may be among them; they do not count.
    pub fn new(tools: Vec<Other>) -> Self {
        let by = |key: &dyn Fn(&Other) -> String| {
            let mut map: HashMap<String, Vec<usize>> = HashMap::new();
            for (index, tool) in tools.iter().enumerate() {
                map.entry(key(tool)).or_default().push(index);
            }
            map
        };
        let exposed: Vec<String> = tools.iter().map(|tool| fold(&tool.exposed)).collect();
        Self {
            by_tool: by(&|tool| fold(tool.tool.as_str())),
            by_glance: by(&|tool| glance(tool.tool.as_str())),
            by_letters: by(&|tool| letters(tool.tool.as_str())),
            by_exposed: by(&|tool| fold(&tool.exposed)),
            // Names that are too many for it are too many for an agent as well.
            mentions: AhoCorasick::new(&exposed).ok(),
            tools,
        }
    }

    fn of<'a>(
        &'a self,
        map: &'a HashMap<String, Vec<usize>>,
        key: &str,
        server: &'a ServerName,
    ) -> impl Iterator<Item = &'a Other> + use<'a> {
        let found = map.get(key).into_iter().flatten();
        found
            .map(|index| &self.tools[*index])
            .filter(move |other| other.server != *server)
    }
}

/// What a tool of a server may be taken for: the exposed name of a tool of another server, and why.
pub(super) fn imitated(server: &ServerName, tool: &ToolName, others: &Others) -> Option<String> {
    let folded = fold(tool.as_str());
    if let Some(other) = others.of(&others.by_exposed, &folded, server).next() {
        return Some(format!("its name is what `{}` is called by", other.exposed));
    }
    let like =
        |other: &Other| format!("`{tool}` looks like `{}` of `{}`", other.tool, other.server);
    let seen = glance(tool.as_str());
    let mut alike = others.of(&others.by_glance, &seen, server);
    if let Some(other) = alike.find(|other| fold(other.tool.as_str()) != folded) {
        return Some(like(other));
    }
    let mut turned = others.of(&others.by_letters, &letters(tool.as_str()), server);
    if let Some(other) = turned.find(|other| is_slip(&seen, &glance(other.tool.as_str()))) {
        return Some(like(other));
    }
    let mut same = others.of(&others.by_tool, &folded, server);
    let other = same.find(|other| is_alike(server.as_str(), other.server.as_str()))?;
    Some(format!(
        "server `{server}` looks like `{}`, which has `{}`, too",
        other.server, other.tool
    ))
}

/// The exposed name of another server's tool that a text speaks of.
pub(super) fn mentioned(server: &ServerName, text: &str, others: &Others) -> Option<String> {
    let text = fold(text);
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    others
        .mentions
        .as_ref()?
        .find_overlapping_iter(&text)
        .find_map(|found| {
            let other = &others.tools[found.pattern().as_usize()];
            let stands_alone = !text[..found.start()].ends_with(is_part)
                && !text[found.end()..].starts_with(is_part);
            (stands_alone && other.server != *server)
                .then(|| format!("speaks of `{}` of `{}`", other.exposed, other.server))
        })
}

/// The letters of a name in order, by which names are found that differ in where they stand.
fn letters(name: &str) -> String {
    let mut letters: Vec<char> = glance(name).chars().collect();
    letters.sort_unstable();
    letters.into_iter().collect()
}

/// Whether two names differ in two neighbours that changed places.
fn is_slip(one: &str, other: &str) -> bool {
    one.chars().count() >= 5
        && one.chars().count() == other.chars().count()
        && strsim::osa_distance(one, other) == 1
}

/// Whether a name of a server may be taken for another one: at most one letter differs. Numbers tell servers apart.
fn is_alike(one: &str, other: &str) -> bool {
    let without_digits = |name: &str| {
        name.chars()
            .filter(|c| !c.is_ascii_digit())
            .collect::<String>()
    };
    if fold(one) == fold(other) {
        return one != other;
    }
    if without_digits(one) == without_digits(other) {
        return false;
    }
    let (one, other) = (glance(one), glance(other));
    let long = one.chars().count().min(other.chars().count()) >= 5;
    one == other || (long && strsim::osa_distance(&one, &other) <= 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn others(tools: &[(&str, &str)]) -> Others {
        let other = |(server, tool): &(&str, &str)| Other {
            server: ServerName::new(server).unwrap(),
            tool: ToolName::new(tool).unwrap(),
            exposed: format!("mcp_{server}_{tool}"),
        };
        Others::new(tools.iter().map(other).collect())
    }

    fn looks_like(server: &str, tool: &str, known: &[(&str, &str)]) -> Option<String> {
        imitated(
            &ServerName::new(server).unwrap(),
            &ToolName::new(tool).unwrap(),
            &others(known),
        )
    }

    #[test]
    fn names_that_only_look_the_same_are_suspicious() {
        let known = [
            ("github", "search_code"),
            ("mail", "list_inbox"),
            ("a", "x"),
        ];
        let check = |server: &str, tool: &str, expect: &str| {
            assert_eq!(looks_like(server, tool, &known).as_deref(), Some(expect));
        };
        check(
            "evil",
            "sеarch_code",
            "`sеarch_code` looks like `search_code` of `github`",
        );
        check(
            "evil",
            "Search-C0de",
            "`Search-C0de` looks like `search_code` of `github`",
        );
        check(
            "evil",
            "seaarch_code",
            "`seaarch_code` looks like `search_code` of `github`",
        );
        check(
            "evil",
            "list_inobx",
            "`list_inobx` looks like `list_inbox` of `mail`",
        );
        check(
            "evil",
            "mcp_github_search_code",
            "its name is what `mcp_github_search_code` is called by",
        );
        check(
            "evil",
            "MCP-mail-list-inbox",
            "its name is what `mcp_mail_list_inbox` is called by",
        );
        check(
            "githud",
            "search_code",
            "server `githud` looks like `github`, which has `search_code`, too",
        );
        check(
            "GitHub",
            "search_code",
            "server `GitHub` looks like `github`, which has `search_code`, too",
        );
        check(
            "gıthub",
            "search_code",
            "server `gıthub` looks like `github`, which has `search_code`, too",
        );
        check("А", "x", "server `А` looks like `a`, which has `x`, too");
    }

    #[test]
    fn servers_may_have_tools_of_the_same_name() {
        let known = [
            ("github", "search_code"),
            ("mail", "list_inbox"),
            ("work1", "read_file"),
            ("ab", "get"),
        ];
        for (server, tool) in [
            ("gitlab", "search_code"),
            ("gitlab", "search-code"),
            ("gitlab", "Search_Code"),
            ("github", "sеarch_code"),
            ("github", "mcp_github_search_code"),
            ("work2", "read_file"),
            ("work", "read_file"),
            ("other", "read_files"),
            ("other", "write_file"),
            ("mails", "list_inbox"),
            ("ac", "get"),
            ("other", "gte"),
            ("githud", "other"),
            ("other", "mcp_mail"),
            ("other", "search_core"),
        ] {
            assert_eq!(looks_like(server, tool, &known), None, "{server} {tool}");
        }
        assert!(looks_like("mailss", "list_inbox", &[("mailers", "list_inbox")]).is_none());
        assert!(looks_like("maile", "list_inbox", &[("maila", "list_inbox")]).is_some());
        assert!(looks_like("other", "a_tol", &[("x", "a_tlo")]).is_some());
        assert!(looks_like("other", "atol", &[("x", "atlo")]).is_none());
    }

    #[test]
    fn a_text_that_speaks_of_another_servers_tool_is_suspicious() {
        let others = others(&[("a", "b"), ("a_b", "c"), ("me", "x"), ("git-hub", "read")]);
        let me = ServerName::new("me").unwrap();
        let check = |text: &str, expect: Option<&str>| {
            assert_eq!(mentioned(&me, text, &others).as_deref(), expect, "{text}");
        };
        check(
            "Instead of `mcp_a_b`, use this",
            Some("speaks of `mcp_a_b` of `a`"),
        );
        check("MCP_A_B_C!", Some("speaks of `mcp_a_b_c` of `a_b`"));
        check("mcp_a_b_c", Some("speaks of `mcp_a_b_c` of `a_b`"));
        check(
            "see mcp-git_hub-read",
            Some("speaks of `mcp_git-hub_read` of `git-hub`"),
        );
        check("mcp_me_x then mcp_a_b", Some("speaks of `mcp_a_b` of `a`"));
        for text in [
            "mcp_me_x",
            "xmcp_a_b",
            "_mcp_a_b",
            "mcp_a_bb",
            "mcp_a_b_",
            "mcp_a_b_cd",
            "read",
            "",
        ] {
            check(text, None);
        }
        assert_eq!(mentioned(&me, "mcp_a_b", &Others::default()), None);
    }
}
