//! A listing against what an agent declares and trusts (A148–A156, A163).

mod work;

#[cfg(test)]
mod tests;

use std::collections::HashSet;

use self::work::Work;
use super::listing::Tool;
use super::suspicion::Others;
use crate::model::{Class, Declaration, Difference, Pin, ServerName, Suspicion, ToolName};

/// What a server listed.
#[derive(Clone, Copy, Debug)]
pub struct Listed<'a> {
    /// Whose listing it is.
    pub server: &'a ServerName,
    /// In listing order.
    pub tools: &'a [Tool],
    /// The exposed name of each.
    pub names: &'a [String],
    /// Which clients it is for; see [`Pin::listed_for`].
    pub listed_for: &'a str,
    /// All pages came. Otherwise nothing is taken for removed (A152).
    pub complete: bool,
}

/// What was known before. Rows and pins of other tools may be among them; they stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Before {
    /// As the agent's configuration has them.
    pub declarations: Vec<Declaration>,
    /// Of this agent.
    pub pins: Vec<Pin>,
}

/// Which changes are taken over without a review.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accept {
    /// None.
    #[default]
    Nothing,
    /// Those that change nothing that matters.
    Cosmetic,
    /// Also those that only allow more.
    Wider,
}

impl Accept {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Nothing, Self::Cosmetic, Self::Wider];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Cosmetic => "cosmetic",
            Self::Wider => "wider",
        }
    }

    /// The one of that word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|accept| accept.as_str() == word)
    }

    /// Whether it covers changes of a class.
    pub fn covers(self, class: Class) -> bool {
        match self {
            Self::Nothing => false,
            Self::Cosmetic => class <= Class::Cosmetic,
            Self::Wider => class <= Class::Wider,
        }
    }
}

/// What the owner wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Calls of new tools wait for a person: `mcp.new_tools_restricted` (A150).
    pub new_tools_restricted: bool,
    /// See [`Accept`].
    pub accept: Accept,
    /// The time, in milliseconds since 1970.
    pub now_ms: i64,
}

/// What is so afterwards: those before in their order, then the new ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct After {
    /// To be written with [`declare`](crate::model::declare).
    pub declarations: Vec<Declaration>,
    /// To be kept.
    pub pins: Vec<Pin>,
    /// What happened, in listing order; what is gone comes last.
    pub outcomes: Vec<Outcome>,
}

/// What became of one tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// As the agent calls it.
    pub exposed: String,
    /// As its server names it.
    pub tool: ToolName,
    /// See [`What`].
    pub what: What,
    /// What is suspicious about its definition.
    pub suspicions: Vec<Suspicion>,
}

/// What can become of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// It is new, and on unless it is suspicious.
    Added,
    /// It is not what was reviewed: it is off. Without a difference where the earlier definition is not known.
    Changed(Option<Difference>),
    /// It is again what was reviewed, and stays off until somebody reviews it.
    Reverted,
    /// It changed in a way that the owner accepts beforehand.
    Accepted(Difference),
    /// It is not listed any more: it is off.
    Removed,
    /// It is listed again as it was reviewed; on if it was on, unless it is locked.
    Returned,
    /// Its declaration was made by hand; what is listed is now what was reviewed.
    Filled,
}

/// Compares a listing with what was known of its server's tools. The same listing once more changes nothing.
///
/// - A tool that is not known is on and visible, and restricted as the rules say. If its definition is suspicious, it is
///   off, hidden and restricted, and nothing of it counts as reviewed.
/// - A tool whose definition is not the reviewed one, or whose row has the hash of another one, is off, hidden and
///   restricted until it is reviewed. Every part of the definition counts, also those that the hash leaves out. Only what
///   the rules accept is taken over, never for a locked row and never while a review is due; flags stay as they are then.
/// - A definition that is again the reviewed one switches nothing on by itself. There is no difference to show.
/// - A tool that is gone is off and hidden. If it comes back as it was reviewed, it is on again if it was on before, and at
///   least as restricted. If its row is gone, it is always restricted.
/// - Where a row has no hash and nothing is pinned, its owner wrote it: the definition counts as reviewed.
/// - Of tools that are listed twice under one name the first counts.
pub fn reconcile(listed: &Listed<'_>, before: &Before, rules: &Rules, others: &Others) -> After {
    let mut work = Work::new(listed, before, rules, others);
    let mut seen = HashSet::new();
    for (tool, exposed) in listed.tools.iter().zip(listed.names) {
        if seen.insert(tool.name.as_str()) {
            work.tool(tool, exposed);
        }
    }
    if listed.complete {
        for index in 0..before.pins.len() {
            let pin = &before.pins[index];
            let is_of_listing = pin.server == *listed.server && pin.listed_for == listed.listed_for;
            if is_of_listing && !seen.contains(pin.tool.as_str()) {
                work.gone(index);
            }
        }
    }
    work.after
}
