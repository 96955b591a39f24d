//! What a call is bound to, so that a yes is for it and for no other.

use std::sync::Arc;

use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use wharfinger_wire::json::{Object, Raw, empty_object};

use crate::approvals::Binding;
use crate::decide::checked_arguments;
use crate::gated::is_restricted;
use crate::model::{canonical, hex};
use crate::session::Session;
use crate::target::Found;

impl Session {
    /// Looks again at what was allowed, at the last moment (A227).
    pub(crate) fn check(
        &self,
        bound: &Binding,
        arguments: &Arc<RawValue>,
        found: &Found<'_>,
    ) -> Result<Arc<RawValue>, String> {
        checked_arguments(arguments)?;
        let definition = self
            .definition(found)
            .ok_or("there is no such tool any more")?;
        let stripped = crate::policy::strip_internal(arguments, &definition)
            .map_err(|error| error.to_string())?;
        let now = self.binding(found, &stripped.arguments)?;
        bound.check(&now).map_err(|mismatch| mismatch.to_string())?;
        Ok(Arc::from(stripped.arguments))
    }

    /// What a call is bound to, as things are at this moment.
    pub(crate) fn binding(
        &self,
        found: &Found<'_>,
        arguments: &RawValue,
    ) -> Result<Binding, String> {
        let rights = self.state.own.rights();
        let exposed = found.exposed.as_ref();
        let gone = || format!("there is no tool `{exposed}` any more, or it is another one");
        if !self.is_as_seen(found) {
            return Err(gone());
        }
        let definition = self.definition(found).ok_or_else(gone)?;
        let policy = crate::policy::policy_digest(
            rights.declaration(exposed),
            is_restricted(&rights, &found.server()),
            &[&self.what_runs(found)],
        );
        Ok(Binding {
            agent: self.state.agent.clone(),
            session: self.state.id.clone(),
            serial: self.state.serial,
            server: found.server(),
            tool: found.tool.clone(),
            exposed: exposed.to_owned(),
            tool_hash: crate::catalog::definition_hash(&definition),
            policy,
            arguments: digest(arguments),
        })
    }
}

/// The digest of arguments that are equal if they mean the same: the order of members does not count.
pub(crate) fn digest(arguments: &RawValue) -> String {
    hash(&canonical(arguments))
}

pub(crate) fn hash(text: &str) -> String {
    hex(&Sha256::digest(text))
}

/// The arguments of a call; an empty object where there are none.
pub(crate) fn arguments(params: &RawValue) -> Raw {
    let object = Object::from_raw(params).unwrap_or_default();
    let arguments = object.get("arguments").filter(|raw| raw.get() != "null");
    arguments.map_or_else(empty_object, ToOwned::to_owned)
}

pub(crate) fn with_arguments(params: &RawValue, arguments: &RawValue) -> Raw {
    let mut object = Object::from_raw(params).unwrap_or_default();
    object.set("arguments", arguments.to_owned());
    object.to_raw()
}
