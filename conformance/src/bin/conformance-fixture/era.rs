//! The two ways an MCP connection can be.

use rmcp::model::ProtocolVersion;

/// Which of them the fixture has; it refuses the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    /// `initialize` first, requests in both directions; up to 2025-11-25.
    Handshake,
    /// Each request says who asks and what it can, and none goes to the client; 2026-07-28.
    Stateless,
}

impl Era {
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "handshake" => Some(Self::Handshake),
            "stateless" => Some(Self::Stateless),
            _ => None,
        }
    }

    pub(crate) fn versions(self) -> &'static [ProtocolVersion] {
        match self {
            Self::Handshake => {
                ProtocolVersion::known_up_to(&ProtocolVersion::LATEST_WITH_INITIALIZE)
            }
            Self::Stateless => &[ProtocolVersion::V_2026_07_28],
        }
    }
}
