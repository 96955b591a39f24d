//! A daemon over a temporary home, and the ways to it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wharfinger::launch::OWNER;
use wharfinger_daemon::client::{Client, ClientError};
use wharfinger_daemon::{Options, Ready, ServeError, serve};
use wharfinger_testkit::{Home, binary, fake_server, poll_until, processes};

use crate::http::{Ask, Response, within};

pub(crate) struct Dock {
    pub(crate) home: Home,
    /// The daemon's home, normally the same.
    root: PathBuf,
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
    /// Whose endpoint clients use.
    pub(crate) agent: String,
    pub(crate) stop: CancellationToken,
    serving: JoinHandle<Result<(), ServeError>>,
}

/// An entry that runs the fake server with these modes, and `more` members.
pub(crate) fn fake(modes: &[&str], more: Value) -> Value {
    let mut entry = json!({ "command": fake_server(), "args": modes });
    if let (Value::Object(entry), Value::Object(more)) = (&mut entry, more) {
        entry.extend(more);
    }
    entry
}

/// One plain fake server, named `a`.
pub(crate) fn plain() -> Value {
    json!({ "a": fake(&[], json!({})) })
}

/// A host's environment with what a process needs.
pub(crate) fn host() -> BTreeMap<String, String> {
    #[expect(clippy::disallowed_methods, reason = "tests run real programs")]
    let path = std::env::var("PATH").unwrap();
    BTreeMap::from([
        ("PATH".to_owned(), path),
        ("HOME".to_owned(), "/nowhere".to_owned()),
    ])
}

pub(crate) fn options(home: PathBuf) -> Options {
    Options {
        home,
        listen: Some(([127, 0, 0, 1], 0).into()),
        environment: host(),
        run: vec![],
        program: binary("wharf", "wharf"),
        version: "0".into(),
        remember_environment: false,
        passphrase: None,
        stop: CancellationToken::new(),
    }
}

/// Starts a daemon that is expected not to come up.
pub(crate) async fn refusal(options: Options) -> ServeError {
    within("a refusal", serve(options, |_| panic!("it started")))
        .await
        .unwrap_err()
}

impl Dock {
    pub(crate) async fn new(servers: Value) -> Self {
        Self::with(servers, json!({})).await
    }

    /// With a `daemon` section.
    pub(crate) async fn with(servers: Value, daemon: Value) -> Self {
        let home = Home::new();
        home.write_settings(&json!({ "mcpServers": servers }));
        home.write_config(&json!({ "daemon": daemon }));
        Self::at(home).await
    }

    pub(crate) async fn at(home: Home) -> Self {
        let options = options(home.path().to_owned());
        Self::start(home, options).await
    }

    pub(crate) async fn start(home: Home, options: Options) -> Self {
        until_free(&options.home).await;
        let (tell, told) = oneshot::channel::<Ready>();
        let (root, stop) = (options.home.clone(), options.stop.clone());
        let serving = TaskTracker::new().spawn(serve(options, |ready| {
            tell.send(ready).unwrap();
        }));
        let Ok(ready) = within("the daemon to start", told).await else {
            panic!("it did not start: {:?}", serving.await);
        };
        let address = ready.url.strip_prefix("http://").unwrap().parse().unwrap();
        let mut dock = Self {
            home,
            root,
            address,
            token: String::new(),
            agent: "default".into(),
            stop,
            serving,
        };
        dock.token = dock.token_of("default").await;
        dock
    }

    /// Over the Unix socket.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.root.join("wharf.sock"))
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        within(path, self.client().get(path)).await.unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Value {
        let client = self.client();
        within(path, client.post(path, Some(body))).await.unwrap()
    }

    pub(crate) async fn patch(&self, path: &str, body: &Value) -> Value {
        let client = self.client();
        within(path, client.patch(path, body)).await.unwrap()
    }

    /// An agent `bot` of the agent profile that has the server `a`.
    pub(crate) async fn make_bot(&self) {
        let bot = json!({ "name": "bot", "profile": "agent" });
        self.post("/api/agents", &bot).await;
        let server = json!({ "name": "a" });
        self.post("/api/agents/bot/servers", &server).await;
    }

    /// The status of what refuses this, and the problem.
    pub(crate) async fn refusal(&self, path: &str, body: &Value) -> (u16, Value) {
        let client = self.client();
        refused(within(path, client.post(path, Some(body))).await)
    }

    pub(crate) async fn token_of(&self, agent: &str) -> String {
        let endpoint = self.get(&format!("/api/agents/{agent}/endpoint")).await;
        endpoint["token"].as_str().unwrap().to_owned()
    }

    /// The owner's token is made when the first one knocks.
    pub(crate) async fn owner(&self) -> String {
        let knock = Ask::new(self.address, "GET", "/api/status").bearer("x");
        assert_eq!(knock.send().await.status, 401);
        self.home.read("tokens/owner").trim().to_owned()
    }

    /// From here on clients are those of another agent.
    pub(crate) async fn serves(&mut self, agent: &str) {
        self.token = self.token_of(agent).await;
        agent.clone_into(&mut self.agent);
    }

    fn endpoint(&self) -> String {
        format!("/agents/{}/mcp", self.agent)
    }

    /// A message to the endpoint of the agent, with the headers that clients send.
    pub(crate) fn mcp(&self, message: &Value) -> Ask {
        self.raw(message.to_string())
    }

    pub(crate) fn raw(&self, body: impl Into<Vec<u8>>) -> Ask {
        Ask::new(self.address, "POST", &self.endpoint())
            .bearer(&self.token)
            .header("Content-Type", "application/json")
            .header("Accept", "application/json, text/event-stream")
            .body(body)
    }

    /// A request of the stateless era, as it should be.
    pub(crate) fn stateless(&self, id: impl Into<Value>, method: &str, params: Value) -> Ask {
        let named = ["name", "uri", "taskId"]
            .iter()
            .find_map(|key| params[key].as_str());
        let name = named.map(str::to_owned);
        let ask = self
            .mcp(&enveloped(id, method, params))
            .header("MCP-Protocol-Version", MODERN)
            .header("Mcp-Method", method);
        match name {
            Some(name) => ask.header("Mcp-Name", &name),
            None => ask,
        }
    }

    /// A request of the stateless era by a client that can do this.
    pub(crate) fn stateless_as(
        &self,
        capabilities: Value,
        id: impl Into<Value>,
        method: &str,
        mut params: Value,
    ) -> Ask {
        params["_meta"][CAPABILITIES_KEY] = capabilities;
        self.stateless(id, method, params)
    }

    /// A session of the handshake era.
    pub(crate) async fn handshake(&self, version: &str) -> Caller<'_> {
        self.handshake_as(version, json!({})).await
    }

    /// A session of the handshake era, of a client that can do this.
    pub(crate) async fn handshake_as(&self, version: &str, capabilities: Value) -> Caller<'_> {
        let mut message = initialize(1, version);
        message["params"]["capabilities"] = capabilities;
        let response = self.mcp(&message).send().await;
        assert_eq!(response.status, 200);
        let session = response.header("mcp-session-id").unwrap().to_owned();
        let caller = Caller {
            dock: self,
            session,
            version: version.to_owned(),
        };
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(caller.message(&initialized).send().await.status, 202);
        caller
    }

    /// Everything that carries this home's mark.
    pub(crate) fn processes(&self) -> Vec<u32> {
        marked(&self.root)
    }

    pub(crate) async fn until_no_process(&self) {
        poll_until("all processes to end", tokio::time::sleep, || {
            self.processes().is_empty()
        })
        .await;
    }

    pub(crate) async fn until_sessions(&self, count: usize) {
        let status = async || self.get("/api/status").await["sessions"].clone();
        let looking = async {
            while status().await != count {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        within(&format!("{count} sessions"), looking).await;
    }

    pub(crate) async fn until_lines(&self, file: &str, count: usize) {
        let what = format!("{count} lines in {file}");
        poll_until(&what, tokio::time::sleep, || {
            self.home.lines(file).len() >= count
        })
        .await;
    }

    /// Stops it, and shows that nothing is left; gives the home for another round.
    pub(crate) async fn close(self) -> Home {
        self.stop.cancel();
        self.closed().await
    }

    /// Waits until it has stopped.
    pub(crate) async fn closed(self) -> Home {
        within("the daemon to stop", self.serving)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(marked(&self.root), Vec::<u32>::new(), "processes are left");
        assert!(!self.root.join("wharf.sock").exists());
        self.home
    }
}

/// Waits until nobody holds a home any more. Tests start programs all the time, and between fork and exec each of
/// those holds whatever is locked in this process.
async fn until_free(home: &Path) {
    let Ok(lock) = std::fs::File::open(home.join("daemon.lock")) else {
        return;
    };
    poll_until("the home to be free", tokio::time::sleep, || {
        lock.try_lock().is_ok()
    })
    .await;
    lock.unlock().unwrap();
}

/// The start of the mark of everything a daemon of this home starts.
pub(crate) fn mark(home: &Path) -> String {
    wharfinger_daemon::Home::open(home).unwrap().mark()
}

fn marked(home: &Path) -> Vec<u32> {
    let mark = mark(home);
    let marks = processes::environment_marks(OWNER).into_iter();
    marks
        .filter(|(_, owner)| owner.starts_with(&format!("{mark}-")))
        .map(|(pid, _)| pid)
        .collect()
}

/// `mode=<path in the home>`.
pub(crate) fn mode(home: &Home, mode: &str, file: &str) -> String {
    format!("{mode}={}", home.file(file).display())
}

pub(crate) const MODERN: &str = "2026-07-28";
pub(crate) const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
pub(crate) const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
pub(crate) const SERVER_KEY: &str = "io.modelcontextprotocol/serverInfo";
pub(crate) const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";
pub(crate) const LOG_KEY: &str = "io.modelcontextprotocol/logLevel";

pub(crate) fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params })
}

/// The same with the description that the stateless era wants; what `params._meta` has stays.
pub(crate) fn enveloped(id: impl Into<Value>, method: &str, mut params: Value) -> Value {
    let mut meta = json!({
        VERSION_KEY: MODERN,
        CAPABILITIES_KEY: {},
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
    });
    if let (Value::Object(meta), Value::Object(given)) = (&mut meta, params["_meta"].take()) {
        meta.extend(given);
    }
    params["_meta"] = meta;
    request(id, method, params)
}

pub(crate) fn initialize(id: impl Into<Value>, version: &str) -> Value {
    let params = json!({
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" },
    });
    request(id, "initialize", params)
}

/// A client with a session of the handshake era over HTTP.
pub(crate) struct Caller<'a> {
    pub(crate) dock: &'a Dock,
    pub(crate) session: String,
    version: String,
}

impl Caller<'_> {
    /// A message of this session.
    pub(crate) fn message(&self, message: &Value) -> Ask {
        self.dressed(self.dock.mcp(message))
    }

    /// With the headers of this session.
    pub(crate) fn dressed(&self, ask: Ask) -> Ask {
        ask.header("Mcp-Session-Id", &self.session)
            .header("MCP-Protocol-Version", &self.version)
    }

    pub(crate) fn ask(&self, id: impl Into<Value>, method: &str, params: Value) -> Ask {
        self.message(&request(id, method, params))
    }

    /// The result of a request that goes well.
    pub(crate) async fn result(&self, id: impl Into<Value>, method: &str, params: Value) -> Value {
        let id = id.into();
        let reply = self.ask(id.clone(), method, params).send().await;
        let message = reply.messages().await.pop().unwrap();
        assert_eq!(message["id"], id, "{message}");
        assert!(message.get("result").is_some(), "{message}");
        message["result"].clone()
    }

    /// The answer to something it was asked.
    pub(crate) async fn answer(&self, asked: &Value, result: &Value) {
        let message = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result });
        assert_eq!(self.message(&message).send().await.status, 202);
    }

    /// The text of a call's result.
    pub(crate) async fn call(&self, name: &str, arguments: Value) -> String {
        let params = json!({ "name": name, "arguments": arguments });
        let result = self.result("call", "tools/call", params).await;
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn names(&self) -> Vec<String> {
        names(&self.result("list", "tools/list", json!({})).await)
    }

    /// Its stream for what belongs to no request.
    pub(crate) async fn stream(&self) -> Response {
        let ask = Ask::new(self.dock.address, "GET", &self.dock.endpoint())
            .bearer(&self.dock.token)
            .header("Accept", "text/event-stream");
        let response = self.dressed(ask).send().await;
        assert_eq!(response.status, 200);
        response
    }

    pub(crate) fn delete(&self) -> Ask {
        let ask = Ask::new(self.dock.address, "DELETE", &self.dock.endpoint());
        self.dressed(ask.bearer(&self.dock.token))
    }
}

/// The names in the result of a `tools/list`.
pub(crate) fn names(result: &Value) -> Vec<String> {
    let tools = result["tools"].as_array().unwrap().iter();
    tools
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}

/// The status of a refusal.
pub(crate) fn refused<T: std::fmt::Debug>(answer: Result<T, ClientError>) -> (u16, Value) {
    match answer.unwrap_err() {
        ClientError::Refused {
            status, problem, ..
        } => (status, problem),
        other => panic!("{other}"),
    }
}
