//! Yeses that are good for more than one call.

use super::request::{Binding, Scope};

/// What was granted beyond a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    bound: Binding,
    scope: Scope,
}

impl Grant {
    /// Whether a call needs nobody, since this was granted. A tool or a policy that changed needs a person again.
    fn covers(&self, call: &Binding) -> bool {
        if self.bound.check(call).is_err() {
            return false;
        }
        match self.scope {
            Scope::Session => {
                self.bound.serial == call.serial && self.bound.exposed == call.exposed
            }
            Scope::Arguments => self.bound.is_same_call(call),
            // Its declaration says it.
            Scope::Once | Scope::Always => false,
        }
    }
}

/// Grants that are kept at once, over all agents; the oldest makes room.
const MOST: usize = 1024;

/// Everything that was granted in this run.
#[derive(Debug, Default)]
pub struct Grants(Vec<Grant>);

impl Grants {
    /// Keeps what a decision grants beyond its call.
    pub fn add(&mut self, bound: Binding, scope: Scope) {
        match scope {
            Scope::Session | Scope::Arguments => {}
            Scope::Once | Scope::Always => return,
        }
        let grant = Grant { bound, scope };
        if self.0.contains(&grant) {
            return;
        }
        if self.0.len() >= MOST {
            self.0.remove(0);
        }
        self.0.push(grant);
    }

    /// Whether a call was granted.
    pub fn cover(&self, call: &Binding) -> bool {
        self.0.iter().any(|grant| grant.covers(call))
    }

    /// A conversation is over.
    pub fn end_session(&mut self, serial: u64) {
        self.0
            .retain(|grant| grant.scope != Scope::Session || grant.bound.serial != serial);
    }

    /// An agent is gone, or everything it was granted is taken back.
    pub fn forget(&mut self, agent: &str) {
        self.0.retain(|grant| grant.bound.agent.as_str() != agent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approvals::tests::binding;

    #[test]
    fn a_grant_covers_what_it_was_given_for_and_nothing_else() {
        let check = |scope: Scope, change: fn(&mut Binding), expect: bool| {
            let mut grants = Grants::default();
            grants.add(binding(), scope);
            let mut call = binding();
            change(&mut call);
            assert_eq!(grants.cover(&call), expect, "{scope:?} {call:?}");
        };
        let other_arguments: fn(&mut Binding) = |call| call.arguments = "other".into();
        let other_session: fn(&mut Binding) = |call| call.serial += 1;
        let other_tool: fn(&mut Binding) = |call| call.tool = "other".into();
        let other_name: fn(&mut Binding) = |call| call.exposed = "other".into();
        let other_hash: fn(&mut Binding) = |call| call.tool_hash = "other".into();
        let other_policy: fn(&mut Binding) = |call| call.policy = "other".into();
        let nothing: fn(&mut Binding) = |_| ();
        check(Scope::Session, nothing, true);
        check(Scope::Session, other_arguments, true);
        check(Scope::Session, other_session, false);
        check(Scope::Session, other_tool, false);
        check(Scope::Session, other_name, false);
        check(Scope::Session, other_hash, false);
        check(Scope::Session, other_policy, false);
        check(Scope::Arguments, nothing, true);
        check(Scope::Arguments, other_arguments, false);
        check(Scope::Arguments, other_session, true);
        check(Scope::Arguments, other_hash, false);
        check(Scope::Arguments, other_policy, false);
        check(Scope::Once, nothing, false);
        check(Scope::Always, nothing, false);
    }

    #[test]
    fn grants_end_with_their_session_and_their_agent() {
        let mut grants = Grants::default();
        grants.add(binding(), Scope::Session);
        grants.add(binding(), Scope::Arguments);
        let mut other_arguments = binding();
        other_arguments.arguments = "other".into();
        grants.end_session(binding().serial + 1);
        assert!(grants.cover(&other_arguments));
        grants.end_session(binding().serial);
        assert!(!grants.cover(&other_arguments));
        assert!(grants.cover(&binding()), "those for arguments stay");
        grants.forget("b");
        assert!(grants.cover(&binding()));
        grants.forget("a");
        assert!(!grants.cover(&binding()));
    }

    #[test]
    fn the_oldest_grant_makes_room() {
        let mut grants = Grants::default();
        let nth = |n: usize| Binding {
            arguments: n.to_string(),
            ..binding()
        };
        grants.add(nth(0), Scope::Arguments);
        for n in 0..MOST {
            grants.add(nth(n), Scope::Arguments);
        }
        assert!(grants.cover(&nth(0)), "the same again takes no room");
        grants.add(nth(MOST), Scope::Arguments);
        assert!(!grants.cover(&nth(0)));
        assert!(grants.cover(&nth(1)) && grants.cover(&nth(MOST)));
    }
}
