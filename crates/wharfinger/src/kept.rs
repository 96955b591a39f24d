//! What is kept of what servers offer: to the database and back, redacted and with the names that agents see.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;
use serde_json::value::RawValue;
use wharfinger_wire::era::Version;
use wharfinger_wire::json::{Object, array, raw};

use crate::catalog::{self, Claim, Items, Kind, Offers};
use crate::discover::Known;
use crate::journal::{ClaimRow, DiscoveryRow, StoreError};
use crate::model::{Profile, ServerEntry, ServerName};
use crate::policy;
use crate::servers::Discovered;
use crate::wharf::Wharf;

/// What was kept of a server by this key, if anything was that can still be read.
pub(crate) async fn stored(
    wharf: &Wharf,
    entry: &ServerEntry,
    key: &str,
) -> Result<Option<Known>, StoreError> {
    let Some(row) = wharf.0.store.discovery(key.to_owned()).await? else {
        return Ok(None);
    };
    let parts = (
        Version::parse(&row.version),
        RawValue::from_string(row.description),
        RawValue::from_string(row.tools),
        RawValue::from_string(row.offers),
    );
    // What became a secret since it was kept is one now. What can't be read is found out again.
    let (Some(version), Ok(description), Ok(tools), Ok(offers)) = parts else {
        return Ok(None);
    };
    let said = Said {
        version,
        description: clean(wharf, description),
        tools: clean(wharf, tools),
        offers: clean(wharf, offers),
    };
    named(wharf, entry, said).await.map(Some)
}

/// A row of the database as a claim; one of a kind that this program does not know is none.
pub(crate) fn claim(row: ClaimRow) -> Option<Claim> {
    let kind = Kind::ALL
        .into_iter()
        .find(|kind| kind.as_str() == row.kind)?;
    Some(Claim {
        kind,
        name: row.name,
        server: ServerName::new(&row.server).ok()?,
        plain: row.plain,
    })
}

/// What a server said, redacted.
struct Said {
    version: Version,
    description: Box<RawValue>,
    /// A list.
    tools: Box<RawValue>,
    /// An object with the other lists.
    offers: Box<RawValue>,
}

/// Lists go to every client and into the database, so secrets leave them at the entrance.
pub(crate) fn clean(wharf: &Wharf, value: Box<RawValue>) -> Box<RawValue> {
    wharf.redactor().json(&value).unwrap_or(value)
}

/// Items as one list.
pub(crate) fn joined<'a>(items: impl IntoIterator<Item = &'a RawValue>) -> Box<RawValue> {
    let texts: Vec<&str> = items.into_iter().map(RawValue::get).collect();
    RawValue::from_string(format!("[{}]", texts.join(","))).expect("items are JSON")
}

/// The lists beside tools as one object.
fn other_lists(discovered: &Discovered) -> Box<RawValue> {
    let mut object = Object::new();
    for (kind, list) in [
        (Kind::Prompt, &discovered.prompts),
        (Kind::Resource, &discovered.resources),
        (Kind::Template, &discovered.templates),
    ] {
        let mut one = Object::new();
        one.set("items", joined(list.items.iter().map(|item| &**item)));
        if let Some(ttl) = list.ttl_ms {
            one.set("ttlMs", raw(&ttl));
        }
        object.set(kind.as_str(), one.to_raw());
    }
    object.to_raw()
}

fn read_offers(said: &Said) -> Offers {
    let lists = Object::from_raw(&said.offers).unwrap_or_default();
    let read = |kind: Kind| {
        let one = lists.object(kind.as_str()).unwrap_or_default();
        let raws = one.get("items").and_then(|items| array(items).ok());
        Items {
            items: catalog::items(kind, raws.unwrap_or_default()),
            ttl_ms: one.get("ttlMs").and_then(|ttl| ttl.get().parse().ok()),
        }
    };
    let description = Object::from_raw(&said.description).unwrap_or_default();
    let capabilities = description.get("capabilities");
    Offers {
        capabilities: capabilities.map(|raw| Arc::from(raw.to_owned())),
        prompts: read(Kind::Prompt),
        resources: read(Kind::Resource),
        templates: read(Kind::Template),
    }
}

/// Reads tools and gives them their names.
async fn named(wharf: &Wharf, entry: &ServerEntry, said: Said) -> Result<Known, StoreError> {
    let offers = read_offers(&said);
    let listing = catalog::read(array(&said.tools).unwrap_or_default());
    let policy = policy::effective(entry, Profile::Chat);
    let before = wharf.0.store.names(entry.name.to_string()).await?;
    let tool_names: Vec<_> = listing.tools.iter().map(|tool| tool.name.clone()).collect();
    let names = catalog::allocate(&tool_names, &policy, &before);
    let new: Vec<_> = names
        .iter()
        .filter(|name| !before.contains(name))
        .cloned()
        .collect();
    if !new.is_empty() {
        wharf
            .0
            .store
            .keep_names(entry.name.to_string(), new)
            .await?;
    }
    let names = names.into_iter().map(|name| name.exposed).collect();
    let tools = said.tools.get().to_owned();
    Ok(Known {
        listing,
        names,
        version: said.version,
        description: said.description,
        tools,
        offers: Arc::new(offers),
    })
}

/// Keeps what a server was found to offer.
pub(crate) async fn keep_discovered(
    wharf: &Wharf,
    entry: &ServerEntry,
    key: &str,
    discovered: &Discovered,
) -> Result<Known, StoreError> {
    let description = raw(&json!({
        "capabilities": discovered.description.capabilities,
        "info": discovered.description.info,
        "instructions": discovered.description.instructions,
    }));
    let said = Said {
        version: discovered.description.version,
        description: clean(wharf, description),
        tools: clean(wharf, joined(discovered.tools.iter().map(|tool| &**tool))),
        offers: clean(wharf, other_lists(discovered)),
    };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let row = DiscoveryRow {
        key: key.to_owned(),
        server: entry.name.to_string(),
        version: said.version.as_str().to_owned(),
        description: said.description.get().to_owned(),
        tools: said.tools.get().to_owned(),
        offers: said.offers.get().to_owned(),
        at: i64::try_from(now.as_millis()).unwrap_or(i64::MAX),
    };
    for warning in &discovered.warnings {
        tracing::warn!(server = %entry.name, "{}", wharf.redactor().text(warning));
    }
    // A full disk is no reason to do without its tools.
    if let Err(error) = wharf.0.store.keep_discovery(row).await {
        tracing::warn!(server = %entry.name, "its tools could not be kept: {error}");
    }
    named(wharf, entry, said).await
}
