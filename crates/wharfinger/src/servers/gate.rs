//! The gate that every process passes: shut by an emergency stop, until somebody opens it (A190).

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::launch::{Grace, Process};
use crate::model::Exit;

/// That everything was stopped: since when, and why.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Halted {
    /// Milliseconds since 1970, UTC.
    pub since: u64,
    /// In the words of who did it.
    pub reason: String,
}

/// What a server gets to leave by itself in an emergency: 4 s from the end of its input to SIGTERM, 1 s to SIGKILL.
const BUDGET: Grace = Grace {
    exit: Duration::from_secs(4),
    term: Duration::from_secs(1),
};

/// One for all servers of an owner. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<watch::Sender<State>>);

#[derive(Clone, Debug, Default)]
struct State {
    halted: Option<Halted>,
    /// Processes that have passed and are not gone.
    inside: usize,
}

/// A process's way in, until dropped; kept for as long as anything of the process may be left.
#[derive(Debug)]
pub struct Pass(Gate);

impl Gate {
    /// Lets one process pass, if the gate is open. Whatever starts one for an agent asks here first.
    pub fn enter(&self) -> Result<Pass, Halted> {
        let mut refused = None;
        self.0.send_if_modified(|state| {
            refused.clone_from(&state.halted);
            state.inside += usize::from(refused.is_none());
            // Nobody waits for one more.
            false
        });
        refused.map_or_else(|| Ok(Pass(self.clone())), Err)
    }

    /// Shuts it: nothing passes any more, and every server stops at once. Shut already, it stays as it is. Gives how it
    /// stands then.
    pub fn shut(&self, halted: Halted) -> Halted {
        let mut now = halted;
        self.0.send_modify(|state| {
            now = state.halted.get_or_insert(now.clone()).clone();
        });
        now
    }

    /// Opens it; false when it was.
    pub fn open(&self) -> bool {
        self.0
            .send_if_modified(|state| state.halted.take().is_some())
    }

    /// Whether it is shut, and since when.
    pub fn halted(&self) -> Option<Halted> {
        self.0.borrow().halted.clone()
    }

    /// Waits until it is shut.
    pub(crate) async fn until_shut(&self) {
        let mut state = self.0.subscribe();
        state.wait_for(|state| state.halted.is_some()).await.ok();
    }

    /// Waits until nothing is left of what has passed.
    pub async fn until_empty(&self) {
        let mut state = self.0.subscribe();
        state.wait_for(|state| state.inside == 0).await.ok();
    }

    /// Ends a process: as politely as asked for, or within the budget of an emergency as soon as there is one.
    pub(super) async fn end(&self, process: &mut Process, grace: Grace) -> Exit {
        let is_open = self.halted().is_none();
        let ended = tokio::select! {
            exit = process.stop(self.grace(grace)) => Some(exit),
            () = self.until_shut(), if is_open => None,
        };
        match ended {
            Some(exit) => exit,
            None => process.stop(hurried(grace)).await,
        }
    }

    /// Asks a process to end and waits for that, not beyond the beginning of an emergency; [`end`](Self::end) comes next.
    pub(super) async fn ask_to_end(&self, process: &mut Process, patience: Duration) {
        let is_open = self.halted().is_none();
        tokio::select! {
            () = process.ask_to_end(patience) => {}
            () = self.until_shut(), if is_open => {}
        }
    }

    /// As long as a process may take to leave.
    pub(super) fn grace(&self, grace: Grace) -> Grace {
        if self.0.borrow().halted.is_some() {
            hurried(grace)
        } else {
            grace
        }
    }
}

/// Nothing gets more than the budget; what the owner has set to less stays less.
fn hurried(grace: Grace) -> Grace {
    Grace {
        exit: grace.exit.min(BUDGET.exit),
        term: grace.term.min(BUDGET.term),
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.0.0.send_if_modified(|state| {
            state.inside -= 1;
            state.inside == 0
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn halted(reason: &str) -> Halted {
        Halted {
            since: 1,
            reason: reason.into(),
        }
    }

    #[tokio::test]
    async fn a190_a_shut_gate_lets_nothing_pass_until_it_is_opened() {
        let gate = Gate::default();
        let pass = gate.enter().unwrap();
        assert_eq!(gate.shut(halted("fire")), halted("fire"));
        gate.until_shut().await;
        assert_eq!(gate.enter().unwrap_err(), halted("fire"));
        assert_eq!(
            gate.shut(halted("again")),
            halted("fire"),
            "the first counts"
        );
        drop(pass);
        gate.until_empty().await;
        assert!(gate.open() && !gate.open());
        assert_eq!(gate.halted(), None);
        gate.enter().unwrap();
    }

    #[test]
    fn a190_the_budget_is_four_seconds_and_one_at_most() {
        let seconds = |exit, term| Grace {
            exit: Duration::from_secs(exit),
            term: Duration::from_secs(term),
        };
        let check = |grace: Grace, expect: (u64, u64)| {
            let now = hurried(grace);
            assert_eq!((now.exit.as_secs(), now.term.as_secs()), expect);
        };
        check(seconds(5, 2), (4, 1));
        check(seconds(600, 600), (4, 1));
        check(seconds(0, 2), (0, 1));
    }
}
