//! Exposed names (V44): prefix and name, legal characters, a limit, unique, and the same again next time.

use std::collections::HashSet;

use crate::model::{EffectivePolicy, KnownName, ToolName};

/// Names of one server's tools, in listing order. Names given before stay; the others follow in listing order, so a
/// server that lists in another order, or one tool less, changes nobody's name.
pub fn allocate(
    tools: &[ToolName],
    policy: &EffectivePolicy,
    known: &[KnownName],
) -> Vec<KnownName> {
    let mut seen = std::collections::HashMap::new();
    let wanted: Vec<(usize, String)> = tools
        .iter()
        .map(|tool| {
            let nth = seen.entry(tool).and_modify(|nth| *nth += 1).or_insert(0);
            (*nth, base(tool, policy))
        })
        .collect();
    let before = |tool: &ToolName, nth: usize, base: &str| {
        let known = known
            .iter()
            .find(|k| k.tool == tool.as_str() && k.nth == nth)?;
        comes_from(&known.exposed, base, policy.name_limit).then(|| known.exposed.clone())
    };
    let mut names: Vec<Option<String>> = tools
        .iter()
        .zip(&wanted)
        .map(|(tool, (nth, base))| before(tool, *nth, base))
        .collect();
    let mut taken: HashSet<String> = names.iter().flatten().map(|name| fold(name)).collect();
    for (name, (_, base)) in names.iter_mut().zip(&wanted) {
        if name.is_none() {
            let free = (1..).map(|n| with_suffix(base, n, policy.name_limit));
            let free = free
                .into_iter()
                .find(|candidate| taken.insert(fold(candidate)));
            *name = free;
        }
    }
    let named = tools.iter().zip(wanted).zip(names);
    named
        .map(|((tool, (nth, base)), name)| KnownName {
            tool: tool.as_str().to_owned(),
            nth,
            exposed: name.unwrap_or(base),
        })
        .collect()
}

/// Names that clients may take for one another have the same fold: some turn `-` into `_`, some ignore case.
pub fn fold(name: &str) -> String {
    name.chars()
        .map(|c| {
            if c == '-' {
                '_'
            } else {
                c.to_ascii_lowercase()
            }
        })
        .collect()
}

fn base(tool: &ToolName, policy: &EffectivePolicy) -> String {
    let legal = |c: char| {
        if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') {
            c
        } else {
            '_'
        }
    };
    let name = policy.prefix.chars().chain(tool.as_str().chars());
    name.map(legal).take(policy.name_limit).collect()
}

/// The first has no suffix; the others `_2`, `_3`, cut so that the suffix fits.
fn with_suffix(base: &str, n: usize, limit: usize) -> String {
    if n == 1 {
        return base.to_owned();
    }
    let suffix = format!("_{n}");
    let room = limit.saturating_sub(suffix.len()).min(base.len());
    format!("{}{suffix}", &base[..room])
}

fn comes_from(exposed: &str, base: &str, limit: usize) -> bool {
    let number = exposed
        .rsplit_once('_')
        .and_then(|(_, number)| number.parse().ok());
    exposed == base || number.is_some_and(|n| n > 1 && exposed == with_suffix(base, n, limit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Place, Profile, Source};

    fn policy(prefix: &str) -> EffectivePolicy {
        let inputs = crate::config::Inputs {
            settings: Some(crate::config::File {
                name: "s".into(),
                text: r#"{"mcpServers":{"a":{"command":"x"}}}"#.into(),
            }),
            ..Default::default()
        };
        let mut entry = crate::config::load(&inputs).config.servers.remove(0);
        assert_eq!(
            (entry.source, &entry.place),
            (
                Source::Settings,
                &Place::File {
                    file: "s".into(),
                    line: 1
                }
            )
        );
        entry.tool_prefix = prefix.into();
        crate::policy::effective(&entry, Profile::Chat)
    }

    fn names(tools: &[&str], prefix: &str, known: &[KnownName]) -> Vec<KnownName> {
        let tools: Vec<_> = tools
            .iter()
            .map(|tool| ToolName::new(tool).unwrap())
            .collect();
        allocate(&tools, &policy(prefix), known)
    }

    fn exposed(tools: &[&str], prefix: &str, known: &[KnownName]) -> Vec<String> {
        names(tools, prefix, known)
            .into_iter()
            .map(|known| known.exposed)
            .collect()
    }

    #[test]
    fn v44_names_are_legal_short_and_unique() {
        let check = |tools: &[&str], prefix: &str, expect: &[&str]| {
            assert_eq!(exposed(tools, prefix, &[]), expect, "{tools:?}");
        };
        check(&["echo"], "", &["echo"]);
        check(&["echo"], "gh_", &["gh_echo"]);
        check(
            &["dot.name", "slash/name", "with space", "Ünïcode"],
            "",
            &["dot_name", "slash_name", "with_space", "_n_code"],
        );
        check(&["a.b", "a_b", "a b"], "", &["a_b", "a_b_2", "a_b_3"]);
        check(
            &["dash-name", "dash_name", "Dash_Name"],
            "",
            &["dash-name", "dash_name_2", "Dash_Name_3"],
        );
        check(&["work", "work"], "", &["work", "work_2"]);
        check(&["a_2", "a", "a"], "", &["a_2", "a", "a_3"]);
        let long = "n".repeat(70);
        check(
            &[&long, &long],
            "",
            &[&"n".repeat(48), &format!("{}_2", "n".repeat(46))],
        );
        check(&[&long], "p-", &[&format!("p-{}", "n".repeat(46))]);
    }

    #[test]
    fn v44_names_given_before_stay_whatever_the_order() {
        let known = names(&["a.b", "a_b", "work", "work"], "", &[]);
        assert_eq!(
            exposed(&["work", "a_b", "work", "a.b"], "", &known),
            ["work", "a_b_2", "work_2", "a_b"]
        );
        assert_eq!(
            exposed(&["a_b"], "", &known),
            ["a_b_2"],
            "not the name of a tool that is away"
        );
        assert_eq!(
            exposed(&["a b", "a_b", "a.b"], "", &known),
            ["a_b_3", "a_b_2", "a_b"]
        );
    }

    #[test]
    fn a_new_prefix_gives_new_names() {
        let known = names(&["a.b", "a_b"], "", &[]);
        assert_eq!(exposed(&["a_b", "a.b"], "x_", &known), ["x_a_b", "x_a_b_2"]);
    }

    #[test]
    fn a_stored_name_that_is_no_longer_what_the_tool_gives_is_dropped() {
        let known = KnownName {
            tool: "a".into(),
            nth: 0,
            exposed: "b".into(),
        };
        assert_eq!(exposed(&["a"], "", std::slice::from_ref(&known)), ["a"]);
        let known = KnownName {
            exposed: "a_1".into(),
            ..known
        };
        assert_eq!(exposed(&["a"], "", std::slice::from_ref(&known)), ["a"]);
        let known = KnownName {
            exposed: "a_7".into(),
            ..known
        };
        assert_eq!(exposed(&["a"], "", &[known]), ["a_7"]);
    }

    #[test]
    fn v46_names_fit_behind_a_clients_prefix() {
        let long = "create_merge_request_note_emoji_reaction".repeat(3);
        for name in exposed(&[&long, &long, "ü"], "a_prefix_of_a_server_", &[]) {
            assert!(format!("mcp__volcanic__{name}").len() <= 64, "{name}");
        }
    }

    #[test]
    fn folded_names_are_those_that_clients_confuse() {
        assert_eq!(fold("List-Calendars"), fold("list_calendars"));
        assert_ne!(fold("listcalendars"), fold("list_calendars"));
    }
}
