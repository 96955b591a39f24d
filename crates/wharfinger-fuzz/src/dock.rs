//! A daemon in this process, over a temporary home, with servers of both eras behind it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wharfinger_daemon::client::Client;
use wharfinger_daemon::{Options, Ready, ServeError, serve};
use wharfinger_testkit::{Home, PATIENCE};

/// What the threads of the daemon are called.
pub const THREAD: &str = "daemon";

/// A secret that the servers are given, so that all their words are looked through for it.
const SECRET: &str = "kingfisher-7731-swordfish";

/// The daemon, the runtime it has to itself, and the ways to it.
pub struct Dock {
    /// Where its clients run too.
    pub runtime: Runtime,
    /// Where it listens.
    pub address: SocketAddr,
    home: Home,
    stop: CancellationToken,
    serving: JoinHandle<Result<(), ServeError>>,
}

/// A byte stream to the daemon.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Waits for something that has to happen.
///
/// # Panics
/// If it does not.
pub async fn within<T>(what: &str, waited: impl Future<Output = T>) -> T {
    let outcome = tokio::time::timeout(PATIENCE, waited).await;
    outcome.unwrap_or_else(|_| panic!("waited {PATIENCE:?} in vain for {what}"))
}

impl Dock {
    /// Starts it, with two servers: `old` of the handshake era and `new` of the stateless era, whose tools begin with
    /// `old_` and `new_`. `helper` is the program of [`crate::helper`]; `fake`, if it is there, becomes a third server.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(helper: &Path, fake: Option<PathBuf>, daemon: &Value) -> Self {
        let home = Home::new();
        let mirror = |era: &str, prefix: &str| {
            json!({
                "command": helper,
                "args": ["mirror", era, prefix],
                "env": { "API_TOKEN": SECRET },
            })
        };
        let mut servers = json!({
            "old": mirror("handshake", "old_"),
            "new": mirror("stateless", "new_"),
        });
        if let Some(fake) = fake {
            servers["fake"] = json!({ "command": fake, "args": ["progress=2", "log=error"] });
        }
        home.write_settings(&json!({ "mcpServers": servers }));
        home.write_config(&json!({ "daemon": daemon }));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name(THREAD)
            .enable_all()
            .build()
            .expect("the system has threads");
        let stop = CancellationToken::new();
        let options = options(&home, helper, stop.clone());
        let (tell, told) = oneshot::channel::<Ready>();
        let serving = serve(options, |ready| {
            tell.send(ready).ok();
        });
        let serving = TaskTracker::new().spawn_on(serving, runtime.handle());
        let ready = runtime.block_on(within("the daemon to start", told));
        let ready = ready.expect("the daemon starts");
        let address = ready.url.strip_prefix("http://").unwrap_or_default();
        Self {
            address: address.parse().expect("its URL has an address"),
            runtime,
            home,
            stop,
            serving,
        }
    }

    fn client(&self) -> Client {
        Client::new(self.home.file("wharf.sock"))
    }

    /// Makes an agent, and gives its token.
    ///
    /// # Panics
    /// If the daemon refuses.
    pub fn agent(&self, name: &str) -> String {
        self.runtime.block_on(async {
            if name != "default" {
                let body = json!({ "name": name });
                let client = self.client();
                let made = within("an agent", client.post("/api/agents", Some(&body))).await;
                made.expect("an agent can be made");
            }
            let path = format!("/api/agents/{name}/endpoint");
            let client = self.client();
            let endpoint = within("a token", client.get(&path)).await;
            let endpoint = endpoint.expect("an agent has an endpoint");
            endpoint["token"].as_str().unwrap_or_default().to_owned()
        })
    }

    /// A connection as `wharf stdio` has it.
    ///
    /// # Panics
    /// If there is none.
    pub async fn attach(&self, agent: &str) -> Box<dyn Stream> {
        let attached = within("a connection", async { self.client().attach(agent).await }).await;
        Box::new(attached.expect("the daemon takes connections"))
    }

    /// Stops it, and its servers with it.
    ///
    /// # Panics
    /// If it does not stop, or not well.
    pub fn close(self) {
        self.stop.cancel();
        let stopped = self
            .runtime
            .block_on(within("the daemon to stop", self.serving));
        let stopped = stopped.expect("the daemon does not panic");
        assert!(stopped.is_ok(), "{stopped:?}");
        self.runtime.shutdown_timeout(Duration::from_secs(5));
    }
}

fn options(home: &Home, helper: &Path, stop: CancellationToken) -> Options {
    Options {
        home: home.path().to_owned(),
        listen: Some(([127, 0, 0, 1], 0).into()),
        environment: BTreeMap::from([
            ("PATH".to_owned(), "/usr/bin:/bin".to_owned()),
            ("HOME".to_owned(), "/nowhere".to_owned()),
        ]),
        run: vec![],
        program: helper.to_owned(),
        version: "0".into(),
        remember_environment: false,
        passphrase: None,
        stop,
    }
}
