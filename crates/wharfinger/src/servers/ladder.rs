//! Which attempt to start a server comes next, and when there is none (A182, A183).
//!
//! One counter for everything that goes wrong in a row, so that no attempt begins attempts of its own.

use std::time::Duration;

use crate::model::{EffectivePolicy, Restart};

/// How often a server was tried, and why.
#[derive(Clone, Debug)]
pub(super) struct Ladder {
    restart: Restart,
    /// Limit of an attempt.
    limit: Duration,
    why: Why,
    /// Attempts that were given out since then.
    used: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// Somebody wants it.
    Asked,
    /// It ended unasked.
    Lost,
}

/// An attempt to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) wait: Duration,
    pub(super) limit: Duration,
    /// Whoever waits goes on waiting.
    pub(super) inline: bool,
    /// From 1, and of how many.
    pub(super) number: usize,
    pub(super) of: usize,
}

impl Ladder {
    pub(super) fn new(policy: &EffectivePolicy) -> Self {
        Self {
            restart: policy.restart,
            limit: policy.startup_timeout,
            why: Why::Asked,
            used: 0,
        }
    }

    /// Limit of the first attempt, and of each after an unasked end.
    pub(super) fn limit(&self) -> Duration {
        self.limit
    }

    /// Somebody wants it: everything is forgotten.
    pub(super) fn asked(&mut self) {
        (self.why, self.used) = (Why::Asked, 0);
    }

    /// It ended unasked, after it was up for so long. A server that does not even live as long as the longest wait has
    /// not come back: it counts on, or one that dies as soon as it is up would be started for ever.
    pub(super) fn lost(&mut self, up: Duration) {
        let settled = match self.restart {
            Restart::Backoff { waits, .. } => waits.into_iter().max().unwrap_or_default(),
            Restart::OnNextCall => Duration::ZERO,
        };
        if self.why == Why::Asked || up >= settled {
            (self.why, self.used) = (Why::Lost, 0);
        }
    }

    /// The next attempt; `None` when it is given up.
    pub(super) fn next(&mut self) -> Option<Step> {
        let Restart::Backoff { waits, again } = self.restart else {
            return None;
        };
        let number = self.used + 1;
        let step = match self.why {
            Why::Asked => again.get(self.used).map(|next| Step {
                wait: next.wait,
                limit: next.limit.max(self.limit),
                inline: next.inline,
                number: number + 1,
                of: again.len() + 1,
            }),
            Why::Lost => waits.get(self.used).map(|wait| Step {
                wait: *wait,
                limit: self.limit,
                inline: false,
                number,
                of: waits.len(),
            }),
        };
        self.used += usize::from(step.is_some());
        step
    }

    /// Attempts that were made since it was asked for or lost.
    pub(super) fn tries(&self) -> usize {
        match self.why {
            Why::Asked => self.used + 1,
            Why::Lost => self.used,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{File, Inputs, load};
    use crate::model::Profile;

    fn ladder(profile: Profile, more: &str) -> Ladder {
        let text = format!(r#"{{"mcpServers": {{"s": {{"command": "x"{more}}}}}}}"#);
        let loaded = load(&Inputs {
            settings: Some(File {
                name: "settings.json".into(),
                text,
            }),
            ..Inputs::default()
        });
        let entry = loaded.config.server("s").unwrap();
        Ladder::new(&crate::policy::effective(entry, profile))
    }

    /// Wait and limit in seconds, whether it is waited for, and which it is.
    fn all(ladder: &mut Ladder) -> Vec<(u64, u64, bool, String)> {
        let step = |step: Step| {
            let which = format!("{} of {}", step.number, step.of);
            (
                step.wait.as_secs(),
                step.limit.as_secs(),
                step.inline,
                which,
            )
        };
        std::iter::from_fn(|| ladder.next().map(step)).collect()
    }

    #[test]
    fn a182_one_more_attempt_is_waited_for_and_two_come_behind() {
        let mut agent = ladder(Profile::Agent, "");
        assert_eq!(agent.limit().as_secs(), 20);
        let expect = [
            (2, 20, true, "2 of 4".to_owned()),
            (2, 60, false, "3 of 4".to_owned()),
            (4, 120, false, "4 of 4".to_owned()),
        ];
        assert_eq!(all(&mut agent), expect);
        assert_eq!((agent.next(), agent.tries()), (None, 4));
        agent.asked();
        assert_eq!(all(&mut agent), expect, "somebody asks anew");
    }

    #[test]
    fn a182_what_the_owner_has_set_is_the_least_of_all_limits() {
        let mut agent = ladder(Profile::Agent, r#", "startupTimeoutSeconds": 90"#);
        let limits: Vec<u64> = all(&mut agent).iter().map(|step| step.1).collect();
        assert_eq!((agent.limit().as_secs(), limits), (90, vec![90, 90, 120]));
    }

    #[test]
    fn a183_three_attempts_after_an_unasked_end_then_none() {
        let mut agent = ladder(Profile::Agent, "");
        agent.asked();
        agent.lost(Duration::ZERO);
        let expect = [
            (2, 20, false, "1 of 3".to_owned()),
            (4, 20, false, "2 of 3".to_owned()),
            (8, 20, false, "3 of 3".to_owned()),
        ];
        assert_eq!(all(&mut agent), expect);
        assert_eq!((agent.next(), agent.tries()), (None, 3));
        agent.lost(Duration::from_secs(8));
        assert_eq!(all(&mut agent), expect, "it was back");
    }

    #[test]
    fn a183_a_server_that_dies_as_soon_as_it_is_up_is_given_up() {
        let mut agent = ladder(Profile::Agent, "");
        agent.lost(Duration::from_secs(60));
        let mut waits = vec![];
        while let Some(step) = agent.next() {
            waits.push(step.wait.as_secs());
            agent.lost(Duration::from_secs(7));
        }
        assert_eq!(waits, [2, 4, 8]);
    }

    #[test]
    fn v61_the_chat_profile_tries_once() {
        let mut chat = ladder(Profile::Chat, "");
        assert_eq!((chat.limit().as_secs(), chat.next()), (60, None));
        chat.lost(Duration::ZERO);
        assert_eq!(chat.next(), None);
    }
}
