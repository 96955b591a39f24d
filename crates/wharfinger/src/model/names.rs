//! Names as types of their own, checked when built.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// Why a name was refused; the text completes "the name …".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing is left of it.
    #[error("is empty")]
    Empty,
    /// Longer than its limit, in bytes.
    #[error("is longer than {0} bytes")]
    TooLong(usize),
    /// Starts with a character that is kept for other uses.
    #[error("may not start with `{0}`")]
    Start(char),
    /// Holds a character that it may not hold.
    #[error("may not contain {0:?}")]
    Character(char),
    /// Begins or ends with white space.
    #[error("begins or ends with white space")]
    Space,
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks and keeps a name.
            pub fn new(text: &str) -> Result<Self, NameError> {
                let check: fn(&str) -> Result<(), NameError> = $check;
                check(text)?;
                Ok(Self(text.into()))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }
    };
}

name! {
    /// A registered server. READMEs use blanks, dots and slashes in them, so all that is refused is
    /// what no one could type or what the agent profile keeps for itself (a leading `_`). At most 128 bytes.
    ServerName, |text| {
        bounded(text, 128)?;
        if text.starts_with('_') {
            return Err(NameError::Start('_'));
        }
        if text.trim() != text {
            return Err(NameError::Space);
        }
        text.chars().find(|c| c.is_control()).map_or(Ok(()), |c| Err(NameError::Character(c)))
    }
}

impl ServerName {
    /// Where the tools come from with which an agent manages itself. No entry can have this name.
    pub fn own() -> Self {
        Self("_wharfinger".into())
    }
}

name! {
    /// An agent: a file name and a part of a URL, so `[A-Za-z0-9][A-Za-z0-9._-]*`, at most 64 bytes.
    AgentName, |text| {
        bounded(text, 64)?;
        if let Some(first) = text.chars().next().filter(|c| !c.is_ascii_alphanumeric()) {
            return Err(NameError::Start(first));
        }
        text.chars()
            .find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')))
            .map_or(Ok(()), |c| Err(NameError::Character(c)))
    }
}

name! {
    /// A tool as its server names it; any text that is not empty. At most 1024 bytes.
    ToolName, |text| bounded(text, 1024)
}

name! {
    /// A session of an agent. Visible ASCII, at most 128 bytes: it travels in an HTTP header.
    SessionId, |text| {
        bounded(text, 128)?;
        text.chars().find(|c| !c.is_ascii_graphic()).map_or(Ok(()), |c| Err(NameError::Character(c)))
    }
}

fn bounded(text: &str, limit: usize) -> Result<(), NameError> {
    if text.is_empty() {
        Err(NameError::Empty)
    } else if text.len() > limit {
        Err(NameError::TooLong(limit))
    } else {
        Ok(())
    }
}

/// The name nearest to a misspelt one, if one is near enough to be meant.
pub fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = wanted.to_lowercase();
    known
        .into_iter()
        .map(|name| {
            (
                strsim::damerau_levenshtein(&folded, &name.to_lowercase()),
                name,
            )
        })
        .filter(|(distance, name)| *distance <= 1 + name.len().min(wanted.len()) / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_when_built() {
        fn check<T>(built: Result<T, NameError>, expect: Result<(), NameError>) {
            assert_eq!(built.err(), expect.err());
        }
        check(ServerName::new("github"), Ok(()));
        check(ServerName::new("Framelink MCP for Figma"), Ok(()));
        check(
            ServerName::new("github.com/modelcontextprotocol/servers"),
            Ok(()),
        );
        check(ServerName::new(""), Err(NameError::Empty));
        check(ServerName::new("_hidden"), Err(NameError::Start('_')));
        check(ServerName::new(" a"), Err(NameError::Space));
        check(ServerName::new("a\nb"), Err(NameError::Character('\n')));
        check(ServerName::new(&"a".repeat(128)), Ok(()));
        check(
            ServerName::new(&"a".repeat(129)),
            Err(NameError::TooLong(128)),
        );
        check(AgentName::new("default"), Ok(()));
        check(AgentName::new("../x"), Err(NameError::Start('.')));
        check(AgentName::new("a/b"), Err(NameError::Character('/')));
        check(ToolName::new("with space/ü"), Ok(()));
        check(SessionId::new("a b"), Err(NameError::Character(' ')));
    }

    #[test]
    fn the_nearest_name_is_offered_only_when_it_is_near() {
        let known = ["command", "args", "callTimeoutSeconds"];
        assert_eq!(nearest("comand", known), Some("command"));
        assert_eq!(
            nearest("calltimeoutseconds", known),
            Some("callTimeoutSeconds")
        );
        assert_eq!(nearest("arg", known), Some("args"));
        assert_eq!(nearest("autoApprove", known), None);
        assert_eq!(nearest("xy", known), None);
    }
}
