//! What goes on beside the calls of a running server: its end, its lists, its pings, its idleness.

use std::future::pending;
use std::pin::Pin;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use wharfinger_wire::connection::Call;
use wharfinger_wire::json::{Object, raw};

use super::connect::{Live, Started};
use super::discovery::list;
use super::health::{Pong, can_ping, ping};
use super::ladder::Step;
use super::state::Ask;
use super::{Discovered, StartError};
use crate::model::{Exit, Health, Limits};

/// Something that is being waited for.
pub(super) type Future<T> = Pin<Box<dyn std::future::Future<Output = T> + Send>>;

/// A running process and what goes on beside its calls.
pub(super) struct Up {
    pub(super) started: Started,
    /// Keeps the subscription to changes of the tool list open, where the era has one.
    subscription: Option<Call>,
    listing: Option<Future<Result<Discovered, String>>>,
    /// Another change came while it was listed.
    again: bool,
    /// The pause before the next listing; longer while changes keep coming.
    pause: Duration,
    listed: Instant,
    since: Instant,
    /// When the next ping is due, where there are any.
    ping_at: Option<Instant>,
    pinging: Option<Future<Pong>>,
}

/// All that can happen.
pub(super) enum Next {
    Asked(Option<Ask>),
    Started(Result<Started, StartError>),
    Exited(Exit),
    /// It closed its output but lives.
    Closed,
    MaybeIdle,
    ListChanged,
    Listed(Result<Discovered, String>),
    PauseOver(Step),
    PingDue,
    Ponged(Pong),
    /// An emergency: nothing may run.
    Halted,
    Stopped,
}

/// A burst of changes is one change.
const SETTLE: Duration = Duration::from_millis(100);
/// The longest pause between two listings of a server that never stops changing.
const LONGEST: Duration = Duration::from_secs(30);

impl Up {
    pub(super) fn new(started: Started, health: Option<Health>) -> Self {
        let now = Instant::now();
        let health = health.filter(|_| can_ping(&started.live));
        Self {
            subscription: subscribe(&started.live),
            listing: None,
            again: false,
            pause: SETTLE,
            listed: now,
            since: now,
            ping_at: health.map(|health| now + health.every),
            pinging: None,
            started,
        }
    }

    /// When it came up.
    pub(super) fn since(&self) -> Instant {
        self.since
    }

    /// Looks what it lists, a moment from now; once more afterwards, if it is looking already.
    pub(super) fn list(&mut self, limits: Limits, limit: Duration) {
        if self.listing.is_some() {
            self.again = true;
            return;
        }
        let quiet = self.listed.elapsed() > 2 * LONGEST;
        let pause = if quiet { SETTLE } else { self.pause };
        self.pause = (pause * 2).min(LONGEST);
        let live = self.started.live.clone();
        self.listing = Some(Box::pin(async move {
            sleep(pause).await;
            timeout(limit, list(&live, &limits, limit))
                .await
                .unwrap_or_else(|_| Err("it did not answer in time".into()))
        }));
    }

    /// It was listed; whether it must be again.
    pub(super) fn listed(&mut self) -> bool {
        self.listing = None;
        self.listed = Instant::now();
        std::mem::take(&mut self.again)
    }

    pub(super) fn ping(&mut self, health: Health) {
        self.ping_at = Some(Instant::now() + health.every.max(health.limit));
        self.pinging = Some(Box::pin(ping(self.started.live.clone(), health)));
    }

    pub(super) fn ponged(&mut self) {
        self.pinging = None;
    }

    /// Takes back what is open beside calls: some servers wait for their open requests before they exit.
    pub(super) fn take_back(&mut self) {
        (self.listing, self.pinging) = (None, None);
        self.subscription = None;
    }

    /// What happens to it next.
    pub(super) async fn next(&mut self, idle: Option<Duration>) -> Next {
        let live = &self.started.live;
        let idle = async {
            match idle {
                Some(idle) => sleep_until(live.activity.idle_at(idle)).await,
                None => pending().await,
            }
        };
        let listed = async {
            match &mut self.listing {
                Some(listing) => listing.await,
                None => pending().await,
            }
        };
        let ping = async {
            match (&mut self.pinging, self.ping_at) {
                (Some(pinging), _) => Next::Ponged(pinging.await),
                (None, Some(at)) => {
                    sleep_until(at).await;
                    Next::PingDue
                }
                (None, None) => pending().await,
            }
        };
        tokio::select! {
            exit = self.started.process.wait() => Next::Exited(exit),
            () = live.connection.closed() => Next::Closed,
            listed = listed => Next::Listed(listed),
            () = self.started.changed.notified() => Next::ListChanged,
            () = idle => Next::MaybeIdle,
            ping = ping => ping,
        }
    }
}

/// Servers of the stateless era tell of changes only to those who listen.
fn subscribe(live: &Live) -> Option<Call> {
    if !live.description.version.is_modern() {
        return None;
    }
    let capabilities = Object::from_raw(&live.description.capabilities).ok()?;
    let mut wanted = Object::new();
    for (capability, filter) in [
        ("tools", "toolsListChanged"),
        ("prompts", "promptsListChanged"),
        ("resources", "resourcesListChanged"),
    ] {
        let tells = capabilities.object(capability).is_some_and(|capability| {
            let tells = capability.get("listChanged");
            tells.is_some_and(|tells| tells.get() == "true")
        });
        if tells {
            wanted.set(filter, raw(&true));
        }
    }
    if wanted.is_empty() {
        return None;
    }
    let wanted = raw(&json!({ "notifications": wanted.to_raw() }));
    let params = live.params(Some(&wanted), None);
    live.connection
        .call("subscriptions/listen", params.as_deref(), false)
        .ok()
}
