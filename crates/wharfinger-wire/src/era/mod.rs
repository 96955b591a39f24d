//! Protocol versions, and the two eras they belong to.
//!
//! Up to 2025-11-25 a client and a server shake hands once (`initialize`) and remember each other.
//! From 2026-07-28 on every request says who asks and what it can, under keys in `params._meta`, and
//! `server/discover` tells what a server is. [`discover`] and [`initialize`] begin a connection one
//! way or the other; [`with_request_meta`], [`to_handshake_result`] and their opposites carry
//! messages from one era into the other. Which era to try first is for others to decide.

mod begin;
mod meta;
mod results;

pub use begin::{
    ClientDescription, InitializeError, Probe, ServerDescription, discover, initialize,
    supported_versions,
};
pub use meta::{with_request_meta, without_request_meta};
pub use results::{mentions_stateless, to_handshake_result, to_stateless_result, with_server_info};

/// `_meta` key: the protocol version of a request.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// `_meta` key: the program that asks.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// `_meta` key: what the program that asks can do.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// `_meta` key: from which level on the request's log messages are wanted.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// `_meta` key of results: the program that answers.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// `_meta` key of notifications: the request that subscribed to them.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// A version of the protocol that this crate speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Version {
    /// 2024-11-05, the first.
    V2024_11_05,
    /// 2025-03-26, the only one with batches.
    V2025_03_26,
    /// 2025-06-18.
    V2025_06_18,
    /// 2025-11-25, the last with a handshake.
    V2025_11_25,
    /// 2026-07-28, the first without.
    V2026_07_28,
}

/// How client and server get to know each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    /// Once, by `initialize`.
    Handshake,
    /// With every request.
    Stateless,
}

impl Version {
    /// All of them, oldest first.
    pub const ALL: [Self; 5] = [
        Self::V2024_11_05,
        Self::V2025_03_26,
        Self::V2025_06_18,
        Self::V2025_11_25,
        Self::V2026_07_28,
    ];
    /// The newest that `initialize` can lead to.
    pub const LATEST_HANDSHAKE: Self = Self::V2025_11_25;
    /// The newest of all.
    pub const LATEST: Self = Self::V2026_07_28;

    /// As it stands in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// Reads a version; none if it is not one of ours.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|version| version.as_str() == text)
    }

    /// The era it belongs to.
    pub const fn era(self) -> Era {
        match self {
            Self::V2024_11_05 | Self::V2025_03_26 | Self::V2025_06_18 | Self::V2025_11_25 => {
                Era::Handshake
            }
            Self::V2026_07_28 => Era::Stateless,
        }
    }

    /// Whether requests describe their client.
    pub const fn is_modern(self) -> bool {
        matches!(self.era(), Era::Stateless)
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_they_are_written() {
        for version in Version::ALL {
            assert_eq!(Version::parse(version.as_str()), Some(version));
            assert_eq!(version.is_modern(), version > Version::LATEST_HANDSHAKE);
        }
        for text in ["", "2024-10-07", "2025-11-25 ", "2030-01-01", "DRAFT"] {
            assert_eq!(Version::parse(text), None);
        }
        assert!(Version::ALL.is_sorted());
    }
}
