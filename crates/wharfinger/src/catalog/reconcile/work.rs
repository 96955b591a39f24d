//! What becomes of each tool of a listing.

use std::collections::HashMap;

use serde_json::value::RawValue;
use wharfinger_wire::json::{Object, empty_object, raw};

use super::{After, Before, Listed, Outcome, Rules, What};
use crate::catalog::difference::difference;
use crate::catalog::hash::{hash_matches, is_same_definition, tool_hash};
use crate::catalog::listing::Tool;
use crate::catalog::suspicion::{Others, suspicions};
use crate::model::{Declaration, Difference, Pin, ToolName, ToolStatus};

pub(super) struct Work<'a> {
    listed: &'a Listed<'a>,
    rules: &'a Rules,
    others: &'a Others,
    rows: HashMap<String, usize>,
    pinned: HashMap<ToolName, usize>,
    pub(super) after: After,
}

impl<'a> Work<'a> {
    pub(super) fn new(
        listed: &'a Listed<'a>,
        before: &Before,
        rules: &'a Rules,
        others: &'a Others,
    ) -> Self {
        let rows = before.declarations.iter().enumerate();
        let pins = before.pins.iter().enumerate();
        Self {
            listed,
            rules,
            others,
            rows: rows.map(|(index, row)| (row.name.clone(), index)).collect(),
            pinned: pins
                .filter(|(_, pin)| pin.server == *listed.server)
                .map(|(index, pin)| (pin.tool.clone(), index))
                .collect(),
            after: After {
                declarations: before.declarations.clone(),
                pins: before.pins.clone(),
                outcomes: vec![],
            },
        }
    }

    pub(super) fn tool(&mut self, tool: &Tool, exposed: &str) {
        let row = self.rows.get(exposed).copied();
        let pin = self.pinned.get(&tool.name).copied();
        let what = match (row, pin) {
            (None, None) => Some(self.added(tool, exposed)),
            (None, Some(pin)) => Some(self.without_row(tool, exposed, pin)),
            (Some(row), None) => self.without_pin(tool, row),
            (Some(row), Some(pin)) => self.known(tool, row, pin),
        };
        if let Some(what) = what {
            let suspicions = suspicions(self.listed.server, &tool.raw, self.others);
            self.after.outcomes.push(Outcome {
                exposed: exposed.to_owned(),
                tool: tool.name.clone(),
                what,
                suspicions,
            });
        }
    }

    fn added(&mut self, tool: &Tool, exposed: &str) -> What {
        let trusted = suspicions(self.listed.server, &tool.raw, self.others).is_empty();
        self.after.declarations.push(Declaration {
            name: exposed.to_owned(),
            enabled: trusted,
            visible: trusted,
            restricted: self.rules.new_tools_restricted || !trusted,
            locked: false,
            mcp_tool_hash: Some(tool_hash(tool)),
            mcp_tool_status: Some(ToolStatus::New),
        });
        self.pin(tool, exposed, trusted);
        What::Added
    }

    /// The row was taken away, which is no review: what it had forbidden may not become free by that.
    fn without_row(&mut self, tool: &Tool, exposed: &str, pin: usize) -> What {
        self.after.declarations.push(Declaration {
            name: exposed.to_owned(),
            restricted: true,
            mcp_tool_hash: Some(tool_hash(tool)),
            ..Declaration::default()
        });
        let row = self.after.declarations.len() - 1;
        exposed.clone_into(&mut self.after.pins[pin].exposed);
        self.after.pins[pin].on_before = Some(true);
        self.returned(tool, row, pin)
    }

    fn without_pin(&mut self, tool: &Tool, row: usize) -> Option<What> {
        let before = self.after.declarations[row].clone();
        let stored = before.mcp_tool_hash.as_deref();
        let is_same = stored.is_none_or(|stored| hash_matches(stored, tool));
        let status = before.mcp_tool_status;
        let pin = self.pin(
            tool,
            &before.name,
            is_same && status != Some(ToolStatus::Changed),
        );
        if !is_same {
            let old = stored.and_then(definition_of_hash);
            let change = old.as_deref().and_then(|old| {
                difference(self.listed.server, old, &hashed_part(tool), self.others)
            });
            self.after.pins[pin].reviewed = old.map(|old| old.get().to_owned());
            return Some(self.changed(tool, row, pin, change));
        }
        self.after.declarations[row].mcp_tool_hash = Some(tool_hash(tool));
        match status {
            Some(ToolStatus::Removed) => Some(self.returned(tool, row, pin)),
            Some(ToolStatus::New | ToolStatus::Changed) | None => {
                if stored.is_none() {
                    return Some(What::Filled);
                }
                // How it was stored stays.
                self.after.declarations[row].mcp_tool_hash = before.mcp_tool_hash;
                None
            }
        }
    }

    fn known(&mut self, tool: &Tool, row: usize, pin: usize) -> Option<What> {
        let declaration = &mut self.after.declarations[row];
        let pinned = &mut self.after.pins[pin];
        pinned.exposed.clone_from(&declaration.name);
        // Where it was taken away, what is pinned knows better.
        let stored = declaration
            .mcp_tool_hash
            .get_or_insert_with(|| tool_hash(tool));
        let is_hashed = hash_matches(stored, tool);
        if declaration.mcp_tool_status == Some(ToolStatus::Removed) {
            if is_hashed {
                return Some(self.returned(tool, row, pin));
            }
            let change = self.difference(tool, pin);
            return Some(self.changed(tool, row, pin, change));
        }
        if is_hashed && is_same(pinned.current.as_deref(), tool) {
            return None;
        }
        let change = self.difference(tool, pin);
        let (declaration, pinned) = (&self.after.declarations[row], &self.after.pins[pin]);
        if is_same(pinned.reviewed.as_deref(), tool) {
            self.changed(tool, row, pin, None);
            return Some(What::Reverted);
        }
        match change {
            Some(change)
                if self.rules.accept.covers(change.class)
                    && !declaration.locked
                    && !declaration.is_pending()
                    && pinned.is_reviewed() =>
            {
                self.after.declarations[row].mcp_tool_hash = Some(tool_hash(tool));
                let pinned = &mut self.after.pins[pin];
                pinned.current = Some(tool.raw.get().to_owned());
                pinned.reviewed.clone_from(&pinned.current);
                pinned.change = None;
                pinned.changed_at = Some(self.rules.now_ms);
                Some(What::Accepted(change))
            }
            change => Some(self.changed(tool, row, pin, change)),
        }
    }

    /// A tool that is listed again, whose row has its hash.
    fn returned(&mut self, tool: &Tool, row: usize, pin: usize) -> What {
        self.listed
            .listed_for
            .clone_into(&mut self.after.pins[pin].listed_for);
        let on_before = self.after.pins[pin].on_before.take();
        if !is_same(self.after.pins[pin].reviewed.as_deref(), tool) {
            let change = self.difference(tool, pin);
            return self.changed(tool, row, pin, change);
        }
        let pinned = &mut self.after.pins[pin];
        pinned.current.clone_from(&pinned.reviewed);
        pinned.change = None;
        let declaration = &mut self.after.declarations[row];
        let is_on = on_before == Some(true) && !declaration.locked;
        declaration.enabled = is_on;
        declaration.visible = is_on;
        declaration.restricted |= self.rules.new_tools_restricted;
        declaration.mcp_tool_status = Some(ToolStatus::New);
        What::Returned
    }

    /// Off until it is reviewed. What was reviewed stays.
    fn changed(&mut self, tool: &Tool, row: usize, pin: usize, change: Option<Difference>) -> What {
        let declaration = &mut self.after.declarations[row];
        declaration.enabled = false;
        declaration.visible = false;
        declaration.restricted = true;
        declaration.mcp_tool_status = Some(ToolStatus::Changed);
        declaration.mcp_tool_hash = Some(tool_hash(tool));
        let pinned = &mut self.after.pins[pin];
        self.listed.listed_for.clone_into(&mut pinned.listed_for);
        pinned.on_before = None;
        pinned.current = match &pinned.reviewed {
            // In the same words, so that it is seen to be the same.
            Some(reviewed) if is_same(Some(reviewed), tool) => pinned.reviewed.clone(),
            Some(_) | None => Some(tool.raw.get().to_owned()),
        };
        pinned.change.clone_from(&change);
        pinned.changed_at = Some(self.rules.now_ms);
        What::Changed(change)
    }

    pub(super) fn gone(&mut self, pin: usize) {
        let pinned = &mut self.after.pins[pin];
        let Some(row) = self.rows.get(&pinned.exposed) else {
            return;
        };
        let declaration = &mut self.after.declarations[*row];
        if declaration.mcp_tool_status == Some(ToolStatus::Removed) {
            return;
        }
        pinned.on_before = Some(declaration.enabled && declaration.visible);
        declaration.enabled = false;
        declaration.visible = false;
        declaration.mcp_tool_status = Some(ToolStatus::Removed);
        self.after.outcomes.push(Outcome {
            exposed: pinned.exposed.clone(),
            tool: pinned.tool.clone(),
            what: What::Removed,
            suspicions: vec![],
        });
    }

    /// How a tool differs from what was reviewed, or else from what was listed before.
    fn difference(&self, tool: &Tool, pin: usize) -> Option<Difference> {
        let pin = &self.after.pins[pin];
        let old = pin.reviewed.as_deref().or(pin.current.as_deref())?;
        let old: &RawValue = serde_json::from_str(old).ok()?;
        difference(self.listed.server, old, &tool.raw, self.others)
    }

    fn pin(&mut self, tool: &Tool, exposed: &str, reviewed: bool) -> usize {
        let definition = tool.raw.get().to_owned();
        self.after.pins.push(Pin {
            server: self.listed.server.clone(),
            tool: tool.name.clone(),
            exposed: exposed.to_owned(),
            listed_for: self.listed.listed_for.to_owned(),
            reviewed: reviewed.then(|| definition.clone()),
            current: Some(definition),
            change: None,
            changed_at: None,
            on_before: None,
        });
        self.after.pins.len() - 1
    }
}

fn is_same(definition: Option<&str>, tool: &Tool) -> bool {
    let definition = definition.and_then(|text| serde_json::from_str::<&RawValue>(text).ok());
    definition.is_some_and(|definition| is_same_definition(definition, &tool.raw))
}

/// The definition of which a stored text is the hash, as far as the hash has it.
fn definition_of_hash(stored: &str) -> Option<Box<RawValue>> {
    let stored = Object::parse(stored).ok()?;
    Some(definition(
        stored.get("name")?,
        stored.get("description"),
        stored.get("input_schema"),
    ))
}

/// As much of a tool as the hash has.
fn hashed_part(tool: &Tool) -> Box<RawValue> {
    let object = Object::from_raw(&tool.raw).unwrap_or_default();
    let name = raw(tool.name.as_str());
    definition(&name, object.get("description"), object.get("inputSchema"))
}

fn definition(
    name: &RawValue,
    description: Option<&RawValue>,
    schema: Option<&RawValue>,
) -> Box<RawValue> {
    let known = |value: Option<&RawValue>| {
        let value = value.filter(|value| value.get() != "null");
        value.map(ToOwned::to_owned)
    };
    let mut definition = Object::new();
    definition.set("name", name.to_owned());
    definition.set("description", known(description).unwrap_or_else(|| raw("")));
    definition.set("inputSchema", known(schema).unwrap_or_else(empty_object));
    definition.to_raw()
}
