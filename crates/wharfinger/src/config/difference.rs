//! What two configurations differ in.

use super::Config;
use crate::model::ServerName;

/// Servers by what became of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// New ones, in source order.
    pub added: Vec<ServerName>,
    /// Those whose entry changed.
    pub changed: Vec<ServerName>,
    /// Those that are gone.
    pub removed: Vec<ServerName>,
    /// The order of those in both is not the same.
    pub reordered: bool,
}

impl Difference {
    /// Nothing differs.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What leads from one configuration to the other. Where an entry stands in its file does not count.
pub fn difference(from: &Config, to: &Config) -> Difference {
    let mut difference = Difference::default();
    for entry in &to.servers {
        match from.server(entry.name.as_str()) {
            None => difference.added.push(entry.name.clone()),
            Some(old) => {
                let mut old = old.clone();
                old.place = entry.place.clone();
                if old != *entry {
                    difference.changed.push(entry.name.clone());
                }
            }
        }
    }
    let gone = from
        .servers
        .iter()
        .filter(|entry| to.server(entry.name.as_str()).is_none());
    difference.removed = gone.map(|entry| entry.name.clone()).collect();
    let common = |config: &Config, other: &Config| -> Vec<ServerName> {
        let both = config
            .servers
            .iter()
            .filter(|e| other.server(e.name.as_str()).is_some());
        both.map(|entry| entry.name.clone()).collect()
    };
    difference.reordered = common(from, to) != common(to, from);
    difference
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{File, Inputs, load};

    fn config(settings: &str) -> Config {
        let text = format!("{{\"mcpServers\":{{{settings}}}}}");
        let settings = Some(File {
            name: "s".into(),
            text,
        });
        load(&Inputs {
            settings,
            ..Inputs::default()
        })
        .config
    }

    #[test]
    fn servers_are_told_apart_by_name() {
        let from = config(r#""a":{"command":"x"},"b":{"command":"x"},"c":{"command":"x"}"#);
        let to = config(
            "\n\"c\":{\"command\":\"x\"},\"a\":{\"command\":\"y\"},\"d\":{\"command\":\"x\"}",
        );
        let name = |text| ServerName::new(text).unwrap();
        assert!(!difference(&from, &to).is_empty());
        assert_eq!(
            difference(&from, &to),
            Difference {
                added: vec![name("d")],
                changed: vec![name("a")],
                removed: vec![name("b")],
                reordered: true,
            }
        );
        assert!(difference(&from, &config("\n\n\"a\":{\"command\":\"x\"},\"b\":{\"command\":\"x\"},\"c\":{\"command\":\"x\"}")).is_empty());
    }
}
