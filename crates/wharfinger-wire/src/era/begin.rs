//! The first words on a connection.

use std::time::Duration;

use serde_json::value::RawValue;

use super::{SERVER_INFO, Version, with_request_meta};
use crate::connection::{CallError, Connection};
use crate::json::{self, Object, Raw};
use crate::message::ErrorObject;

/// What a client says about itself.
#[derive(Debug, Clone)]
pub struct ClientDescription {
    /// Its name, version and the like: an `Implementation` object.
    pub info: Raw,
    /// What it can do: a `ClientCapabilities` object.
    pub capabilities: Raw,
}

/// What a server said about itself.
#[derive(Debug, Clone)]
pub struct ServerDescription {
    /// The version both sides speak from now on.
    pub version: Version,
    /// What it can do: an object, empty if it did not tell.
    pub capabilities: Raw,
    /// Its name, version and the like: an object, empty if it did not tell.
    pub info: Raw,
    /// How it wants to be used.
    pub instructions: Option<String>,
    /// All that it said.
    pub raw: Raw,
}

/// Why `server/discover` led nowhere.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Probe {
    /// The server said no, whichever code it chose: the same process can be initialized. One that
    /// refused the version may have told others, see [`supported_versions`].
    #[error("the server refused to be discovered: {0}")]
    Refused(ErrorObject),
    /// No answer in time. The request may still take effect: initialize a fresh process.
    #[error("the server did not answer in time")]
    Silent,
    /// The connection ended, as it does with servers that do not stand the question: initialize a
    /// fresh process.
    #[error("the server closed the connection")]
    Closed,
    /// The server answered, but with versions only that this crate does not speak without a
    /// handshake: initialize, and a fresh process rather than this one.
    #[error("the server speaks other versions only: {}", .0.join(", "))]
    OtherVersions(Vec<String>),
    /// The answer is none: initialize a fresh process.
    #[error("the answer could not be used: {reason}")]
    Odd {
        /// What is wrong with it.
        reason: String,
    },
    /// Nothing was sent.
    #[error(transparent)]
    NotSent(CallError),
}

/// Why `initialize` failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum InitializeError {
    /// The request failed. A server that refuses the version may have been locked to the stateless
    /// era by an earlier probe, see [`supported_versions`].
    #[error(transparent)]
    Call(#[from] CallError),
    /// The server wants a version that this crate does not speak with a handshake.
    #[error("the server wants protocol version {0:?}")]
    Version(String),
    /// The answer is none.
    #[error("the answer is not an object with a protocol version")]
    Odd,
}

/// Asks a server of the stateless era what it is.
///
/// After a description came back the process must not be initialized: some servers refuse that.
/// Nothing is sent when the time is over.
pub async fn discover(
    connection: &Connection,
    client: &ClientDescription,
    limit: Duration,
) -> Result<ServerDescription, Probe> {
    let params = with_request_meta(None, Version::LATEST, client, None);
    let call = connection
        .call("server/discover", Some(&params), false)
        .map_err(|error| match error {
            CallError::Closed => Probe::Closed,
            error => Probe::NotSent(error),
        })?;
    let reply = tokio::time::timeout(limit, call.reply())
        .await
        .map_err(|_| Probe::Silent)?;
    let raw = reply.map_err(|error| match error {
        CallError::Server(error) => Probe::Refused(error),
        CallError::Closed => Probe::Closed,
        CallError::Malformed { .. } | CallError::TooLarge { .. } => Probe::Odd {
            reason: error.to_string(),
        },
        CallError::Busy { .. } | CallError::QueueFull { .. } => Probe::NotSent(error),
    })?;
    let odd = |reason: &str| Probe::Odd {
        reason: reason.to_owned(),
    };
    let object = Object::from_raw(&raw).map_err(|_| odd("not an object"))?;
    if object
        .text("resultType")
        .is_some_and(|kind| kind != "complete")
    {
        return Err(odd("not a complete result"));
    }
    let versions = object.get("supportedVersions").and_then(strings);
    let versions = versions.ok_or_else(|| odd("no list of versions"))?;
    let version = Version::ALL.into_iter().rev().find(|version| {
        version.is_modern() && versions.iter().any(|name| name == version.as_str())
    });
    let Some(version) = version else {
        return Err(Probe::OtherVersions(versions));
    };
    let meta = object.object("_meta").unwrap_or_default();
    let info = meta.get(SERVER_INFO).or_else(|| object.get("serverInfo"));
    Ok(describe(version, &object, info, &raw))
}

/// Shakes hands: offers the latest version that can be had this way, takes any older one, and tells
/// the server that it is in service. How long that may take is up to the caller.
pub async fn initialize(
    connection: &Connection,
    client: &ClientDescription,
) -> Result<ServerDescription, InitializeError> {
    let mut params = Object::new();
    params.set(
        "protocolVersion",
        json::raw(Version::LATEST_HANDSHAKE.as_str()),
    );
    params.set_borrowed("capabilities", &client.capabilities);
    params.set_borrowed("clientInfo", &client.info);
    let raw = connection
        .call("initialize", Some(&params.to_raw()), false)?
        .reply()
        .await?;
    let object = Object::from_raw(&raw).map_err(|_| InitializeError::Odd)?;
    let named = object.text("protocolVersion").ok_or(InitializeError::Odd)?;
    let version = Version::parse(&named)
        .filter(|version| !version.is_modern())
        .ok_or_else(|| InitializeError::Version(named.to_string()))?;
    connection.notify("notifications/initialized", None)?;
    Ok(describe(version, &object, object.get("serverInfo"), &raw))
}

/// The versions named by an error of code
/// [`UNSUPPORTED_VERSION`](crate::message::UNSUPPORTED_VERSION).
pub fn supported_versions(error: &ErrorObject) -> Vec<String> {
    let data = error
        .data
        .as_deref()
        .and_then(|raw| Object::from_raw(raw).ok());
    let supported = data.as_ref().and_then(|data| data.get("supported"));
    supported.and_then(strings).unwrap_or_default()
}

fn describe(
    version: Version,
    object: &Object<'_>,
    info: Option<&RawValue>,
    raw: &RawValue,
) -> ServerDescription {
    let object_or_empty = |value: Option<&RawValue>| {
        let value = value.filter(|value| Object::from_raw(value).is_ok());
        value.map_or_else(json::empty_object, ToOwned::to_owned)
    };
    ServerDescription {
        version,
        capabilities: object_or_empty(object.get("capabilities")),
        info: object_or_empty(info),
        instructions: object
            .text("instructions")
            .map(std::borrow::Cow::into_owned),
        raw: raw.to_owned(),
    }
}

/// The strings of an array; what else is in it is passed over.
fn strings(raw: &RawValue) -> Option<Vec<String>> {
    let items = json::array(raw).ok()?;
    Some(
        items
            .into_iter()
            .filter_map(json::string)
            .map(std::borrow::Cow::into_owned)
            .collect(),
    )
}
