//! Target `endpoint`: what a hostile client of one agent does to a running daemon, while another agent minds its own
//! business.
//!
//! The input is a [`script`]. Whatever it does: the daemon never panics, each request with an id is answered exactly
//! once or refused by an HTTP status, nothing of the other agent is seen, and everybody else is served as before.

mod ledger;
mod neighbour;
mod play;
mod script;

use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::dock::{Dock, THREAD};
use neighbour::Neighbour;
use play::Play;
use script::Script;

/// Only the neighbour knows it.
const MARK: &str = "only-the-neighbour-7f3a9";

/// Largest request that is taken, in bytes.
const BODY: usize = 200_000;

/// A daemon under attack.
pub struct Endpoint {
    dock: Dock,
    token: String,
    neighbour: Neighbour,
}

/// Panics of the daemon's threads.
static PANICS: AtomicUsize = AtomicUsize::new(0);

fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if std::thread::current().name() == Some(THREAD) {
                PANICS.fetch_add(1, Ordering::Relaxed);
            }
            before(panic);
        }));
    });
}

impl Endpoint {
    /// Starts the daemon. `helper` and `fake` are as for [`Dock::start`].
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(helper: &Path, fake: Option<PathBuf>) -> Self {
        count_panics();
        let daemon = json!({
            "maxBodyBytes": BODY,
            "maxSessions": 8,
            "inputWaitSeconds": 30,
        });
        let dock = Dock::start(helper, fake, &daemon);
        let token = dock.agent("default");
        let neighbour = Neighbour::move_in(&dock);
        Self {
            dock,
            token,
            neighbour,
        }
    }

    /// Plays one script.
    ///
    /// # Panics
    /// If one of the rules is broken.
    pub fn run(&self, input: &[u8]) {
        let script = Script::read(input);
        self.dock.runtime.block_on(async {
            let parked = self.neighbour.asks(&self.dock, "old_ask").await;
            let mut play = Play::begin(self, &parked).await;
            for step in &script.steps {
                play.step(step).await;
            }
            play.end().await;
            self.neighbour.is_served(&self.dock, &parked).await;
            let newcomer = Play::begin(self, "").await;
            newcomer.visit().await;
        });
        assert_eq!(PANICS.load(Ordering::Relaxed), 0, "the daemon panicked");
    }

    /// Stops the daemon.
    ///
    /// # Panics
    /// If it does not stop.
    pub fn close(self) {
        self.dock.close();
    }
}
