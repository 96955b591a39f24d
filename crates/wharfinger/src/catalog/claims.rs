//! Who has which prompt name or URI, where several servers offer the same one.
//!
//! The first server that offers it keeps it as it is; every other one's is marked with its server. Neither ever changes
//! while both are configured, whichever of them is listed first after a restart.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use crate::model::ServerName;

/// What is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A prompt, by its name.
    Prompt,
    /// A resource, by its URI.
    Resource,
    /// A resource template, by its URI template.
    Template,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Prompt, Self::Resource, Self::Template];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Resource => "resource",
            Self::Template => "template",
        }
    }

    /// The name or URI with its server in it, so that it is nobody else's.
    pub fn marked(self, server: &ServerName, name: &str) -> String {
        match self {
            Self::Prompt => format!("{server}/{name}"),
            Self::Resource | Self::Template => format!("{}{name}", scheme(server)),
        }
    }
}

/// What marked URIs of a server begin with. Servers' names may hold what schemes may not, so it is escaped, and no two
/// servers have the same.
pub(super) fn scheme(server: &ServerName) -> String {
    let mut text = String::from("wharf.");
    for byte in server.as_str().bytes() {
        if byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' {
            text.push(byte.into());
        } else {
            write!(text, ".{byte:02x}").expect("a string takes everything");
        }
    }
    text.push('+');
    text
}

/// One server's hold on a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// What is named.
    pub kind: Kind,
    /// The name or URI, as its server has it.
    pub name: String,
    /// Whose.
    pub server: ServerName,
    /// Whether agents see it as it is.
    pub plain: bool,
}

/// Names that are remembered.
const MOST: usize = 100_000;

/// All names and URIs, and who has them.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    plain: HashMap<(Kind, String), ServerName>,
    marked: HashSet<(Kind, String, ServerName)>,
}

impl Claims {
    /// What was kept of an earlier run.
    pub fn recall(claims: impl IntoIterator<Item = Claim>) -> Self {
        let mut all = Self::default();
        for claim in claims {
            if claim.plain {
                all.plain.insert((claim.kind, claim.name), claim.server);
            } else {
                all.marked.insert((claim.kind, claim.name, claim.server));
            }
        }
        all
    }

    /// A server offers these; gives what is to be kept of it, which is nothing where no two servers clash.
    pub fn claim<'a>(
        &mut self,
        server: &ServerName,
        kind: Kind,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Vec<Claim> {
        let mut new = vec![];
        self.make_room();
        for name in names {
            let key = (kind, name.to_owned());
            match self.plain.get(&key) {
                None if self.is_marked(server, kind, name) => {}
                None => drop(self.plain.insert(key, server.clone())),
                Some(owner) if owner == server => {}
                // A server that never stops making up names that others have.
                Some(_) if self.marked.len() >= MOST => {}
                Some(owner) => {
                    let marked = (kind, name.to_owned(), server.clone());
                    let mut kept = |server: &ServerName, plain| {
                        new.push(Claim {
                            kind,
                            name: name.to_owned(),
                            server: server.clone(),
                            plain,
                        });
                    };
                    if !self.marked.contains(&marked) {
                        kept(owner, true);
                        kept(server, false);
                        self.marked.insert(marked);
                    }
                }
            }
        }
        new
    }

    /// Whether agents see a server's name or URI marked.
    pub fn is_marked(&self, server: &ServerName, kind: Kind, name: &str) -> bool {
        // Most installations have no clash at all.
        !self.marked.is_empty()
            && self
                .marked
                .contains(&(kind, name.to_owned(), server.clone()))
    }

    /// Whether anything of a server is marked.
    pub fn marks(&self, server: &ServerName) -> bool {
        self.marked.iter().any(|(_, _, marked)| marked == server)
    }

    /// As agents see it.
    pub fn exposed(&self, server: &ServerName, kind: Kind, name: &str) -> String {
        if self.is_marked(server, kind, name) {
            kind.marked(server, name)
        } else {
            name.to_owned()
        }
    }

    /// Servers may list other names each time, so names without a rival are let go when there are too many: whoever
    /// lists them next has them.
    fn make_room(&mut self) {
        if self.plain.len() < MOST {
            return;
        }
        let contested: HashSet<(Kind, String)> = self
            .marked
            .iter()
            .map(|(kind, name, _)| (*kind, name.clone()))
            .collect();
        self.plain.retain(|key, _| contested.contains(key));
    }

    /// A server is no longer configured: what it had is free.
    pub fn forget(&mut self, server: &ServerName) {
        self.plain.retain(|_, owner| owner != server);
        self.marked.retain(|(_, _, marked)| marked != server);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> ServerName {
        ServerName::new(text).unwrap()
    }

    #[test]
    fn the_first_keeps_a_name_and_the_others_are_marked_for_good() {
        let mut claims = Claims::default();
        let (a, b) = (name("a"), name("b"));
        assert!(claims.claim(&a, Kind::Prompt, ["x", "y"]).is_empty());
        assert!(
            claims.claim(&b, Kind::Resource, ["x"]).is_empty(),
            "another kind"
        );
        let kept = claims.claim(&b, Kind::Prompt, ["x", "z"]);
        let claim = |server: &ServerName, plain| Claim {
            kind: Kind::Prompt,
            name: "x".into(),
            server: server.clone(),
            plain,
        };
        assert_eq!(kept, [claim(&a, true), claim(&b, false)]);
        assert!(claims.claim(&b, Kind::Prompt, ["x"]).is_empty(), "known");
        // After a restart, whoever comes first.
        let mut claims = Claims::recall(kept);
        assert!(claims.claim(&b, Kind::Prompt, ["x"]).is_empty());
        assert!(claims.claim(&a, Kind::Prompt, ["x"]).is_empty());
        let seen = |claims: &Claims, server| claims.exposed(server, Kind::Prompt, "x");
        assert_eq!(
            (seen(&claims, &a), seen(&claims, &b)),
            ("x".into(), "b/x".into())
        );
        assert!(claims.marks(&b) && !claims.marks(&a));
        // What was marked stays so even when its rival is gone, and the plain name is free.
        claims.forget(&a);
        assert!(claims.claim(&b, Kind::Prompt, ["x"]).is_empty());
        assert_eq!(seen(&claims, &b), "b/x");
        let c = name("c");
        assert!(claims.claim(&c, Kind::Prompt, ["x"]).is_empty());
        assert_eq!(seen(&claims, &c), "x");
    }

    #[test]
    fn names_without_end_do_not_fill_the_memory() {
        let mut claims = Claims::default();
        let (a, b) = (name("a"), name("b"));
        drop(claims.claim(&a, Kind::Prompt, ["x"]));
        drop(claims.claim(&b, Kind::Prompt, ["x"]));
        for round in 0..3 {
            let names: Vec<String> = (0..MOST).map(|n| format!("{round}-{n}")).collect();
            drop(claims.claim(&a, Kind::Resource, names.iter().map(String::as_str)));
        }
        assert!(claims.plain.len() <= 2 * MOST, "{}", claims.plain.len());
        assert_eq!(
            claims.exposed(&b, Kind::Prompt, "x"),
            "b/x",
            "what clashed stays"
        );
        assert!(claims.claim(&a, Kind::Prompt, ["x"]).is_empty());
    }

    #[test]
    fn marked_uris_are_uris_and_nobody_elses() {
        let check = |server: &str, expect: &str| {
            assert_eq!(Kind::Resource.marked(&name(server), "demo://x/{y}"), expect);
        };
        check("one-2", "wharf.one-2+demo://x/{y}");
        check("One", "wharf..4fne+demo://x/{y}");
        check("a b", "wharf.a.20b+demo://x/{y}");
        check("a.20b", "wharf.a.2e20b+demo://x/{y}");
    }
}
