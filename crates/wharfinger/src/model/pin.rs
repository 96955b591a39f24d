//! The definition of a tool that an agent trusts, and how a later one differs from it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{ServerName, ToolName};

/// What an agent knows of a tool's definition. One for each tool of each of its servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// Whose tool it is.
    pub server: ServerName,
    /// As its server names it.
    pub tool: ToolName,
    /// As the agent calls it; its declaration has this name.
    pub exposed: String,
    /// Which listing it was first seen in: what the clients declare that it was made for. Another listing that lacks it
    /// says nothing about it.
    pub listed_for: String,
    /// The whole definition that was reviewed, or trusted when it was first seen. `None` where none ever was.
    pub reviewed: Option<String>,
    /// The whole definition that was last listed.
    pub current: Option<String>,
    /// What became other since the review; `None` where nothing did, or it was dismissed.
    pub change: Option<Difference>,
    /// When it last became other, in milliseconds since 1970.
    pub changed_at: Option<i64>,
    /// Whether it was on and visible when its server ceased to list it: only then may it be on when it is listed again.
    /// `None` while it is listed.
    pub on_before: Option<bool>,
}

impl Pin {
    /// Whether what is listed is what was reviewed. Where it is not, nobody but the owner may call it.
    pub fn is_reviewed(&self) -> bool {
        self.reviewed.is_some() && self.reviewed == self.current
    }
}

/// How much a change of a definition matters, from least to most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Class {
    /// White space, order, a date or a number in a description.
    Cosmetic,
    /// Everything that was allowed still is: a new optional argument, another value of an enumeration, a looser limit.
    Wider,
    /// Calls that were right may be wrong now; or it cannot be told.
    Narrower,
    /// What people and models read of it is another text, or what it says about its effects.
    Meaning,
    /// It looks like an attempt to deceive; see [`Suspicion`].
    Suspicious,
}

impl Class {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cosmetic => "cosmetic",
            Self::Wider => "wider",
            Self::Narrower => "narrower",
            Self::Meaning => "meaning",
            Self::Suspicious => "suspicious",
        }
    }
}

/// How two definitions of a tool differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Difference {
    /// That of its worst line.
    pub class: Class,
    /// In the order of the definition. Never very many: the last one says how many were left out.
    pub lines: Vec<DiffLine>,
}

/// One place at which two definitions differ. Its texts are safe to show: what cannot be seen is written out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DiffLine {
    /// Where, as in `inputSchema.properties.path`.
    pub path: String,
    /// What happened there, as in `added, optional`.
    pub what: String,
    /// How much it matters.
    pub class: Class,
    /// JSON that was there, where it helps; cut where it is long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// JSON that is there now, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
}

impl fmt::Display for DiffLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.what)?;
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => write!(f, ": {old} → {new}"),
            (Some(one), None) | (None, Some(one)) => write!(f, ": {one}"),
            (None, None) => Ok(()),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, line) in self.lines.iter().enumerate() {
            let gap = if index == 0 { "" } else { "\n" };
            write!(f, "{gap}{line}")?;
        }
        Ok(())
    }
}

/// What is suspected of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum SuspicionKind {
    /// It holds characters that nobody sees, or that change the order of what is read.
    Hidden,
    /// It tells the model what to do beyond this tool.
    Orders,
    /// It may be taken for a tool of another server, or speaks of one.
    Imitates,
    /// It is too large or nested too deeply to be looked through.
    Unreadable,
}

/// A reason to distrust a definition.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Suspicion {
    /// What kind.
    pub kind: SuspicionKind,
    /// Where, as in [`DiffLine::path`].
    pub path: String,
    /// What was found there, safe to show.
    pub found: String,
}

impl Suspicion {
    /// What is wrong, in words that follow its path.
    pub fn what(&self) -> &'static str {
        match self.kind {
            SuspicionKind::Hidden => "holds what cannot be seen",
            SuspicionKind::Orders => "gives the model orders",
            SuspicionKind::Imitates => "may be taken for another server's tool",
            SuspicionKind::Unreadable => "cannot be looked through",
        }
    }
}

impl fmt::Display for Suspicion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.path, self.what(), self.found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pin(reviewed: Option<&str>, current: Option<&str>) -> Pin {
        Pin {
            server: ServerName::new("s").unwrap(),
            tool: ToolName::new("t").unwrap(),
            exposed: "mcp_s_t".into(),
            listed_for: String::new(),
            reviewed: reviewed.map(str::to_owned),
            current: current.map(str::to_owned),
            change: None,
            changed_at: None,
            on_before: None,
        }
    }

    #[test]
    fn only_what_is_listed_as_it_was_reviewed_is_reviewed() {
        assert!(pin(Some("a"), Some("a")).is_reviewed());
        for (reviewed, current) in [
            (Some("a"), Some("b")),
            (None, None),
            (None, Some("a")),
            (Some("a"), None),
        ] {
            assert!(
                !pin(reviewed, current).is_reviewed(),
                "{reviewed:?} {current:?}"
            );
        }
    }

    #[test]
    fn a_difference_is_kept_as_json_and_read_back() {
        let line = |old: Option<&str>, new: Option<&str>| DiffLine {
            path: "a".into(),
            what: "changed".into(),
            class: Class::Meaning,
            old: old.map(str::to_owned),
            new: new.map(str::to_owned),
        };
        let difference = Difference {
            class: Class::Suspicious,
            lines: vec![
                line(None, None),
                line(Some("1"), Some("2")),
                line(Some("1"), None),
                line(None, Some("2")),
            ],
        };
        assert_eq!(
            difference.to_string(),
            "a: changed\na: changed: 1 → 2\na: changed: 1\na: changed: 2"
        );
        let text = serde_json::to_string(&difference).unwrap();
        assert!(text.starts_with(
            r#"{"class":"suspicious","lines":[{"path":"a","what":"changed","class":"meaning"},{"#
        ));
        assert_eq!(
            serde_json::from_str::<Difference>(&text).unwrap(),
            difference
        );
    }

    #[test]
    fn a_class_has_the_word_that_it_is_kept_as() {
        for (class, word) in [
            (Class::Cosmetic, "cosmetic"),
            (Class::Wider, "wider"),
            (Class::Narrower, "narrower"),
            (Class::Meaning, "meaning"),
            (Class::Suspicious, "suspicious"),
        ] {
            assert_eq!(class.as_str(), word);
            assert_eq!(serde_json::to_value(class).unwrap(), word);
        }
    }

    #[test]
    fn suspicions_are_told_in_words() {
        let told = |kind| {
            Suspicion {
                kind,
                path: "p".into(),
                found: "f".into(),
            }
            .to_string()
        };
        assert_eq!(
            told(SuspicionKind::Hidden),
            "p holds what cannot be seen: f"
        );
        assert_eq!(told(SuspicionKind::Orders), "p gives the model orders: f");
        assert_eq!(
            told(SuspicionKind::Imitates),
            "p may be taken for another server's tool: f"
        );
        assert_eq!(
            told(SuspicionKind::Unreadable),
            "p cannot be looked through: f"
        );
    }
}
