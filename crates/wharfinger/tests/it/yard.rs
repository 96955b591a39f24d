//! A wharf over a temporary home, and ways to use it.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use wharfinger::config::{File, Inputs, load};
use wharfinger::launch::Owner;
use wharfinger::model::{AgentName, Declared, SessionId};
use wharfinger::{CallNote, Options, Refusal, Session, SessionOptions, ToolCall, Wharf};
use wharfinger_testkit::{Home, fake_server, poll_until, processes};

/// An entry that runs the fake server with these modes, and `more` members.
pub(crate) fn fake(modes: &[&str], more: Value) -> Value {
    let mut entry = json!({ "command": fake_server(), "args": modes });
    if let (Value::Object(entry), Value::Object(more)) = (&mut entry, more) {
        entry.extend(more);
    }
    entry
}

pub(crate) struct Yard {
    pub(crate) home: Home,
    pub(crate) wharf: Wharf,
    owner: Owner,
}

/// A host's environment with what a process needs.
pub(crate) fn host() -> BTreeMap<String, String> {
    let path = std::env::var("PATH").unwrap();
    BTreeMap::from([
        ("PATH".to_owned(), path),
        ("HOME".to_owned(), "/nowhere".to_owned()),
    ])
}

pub(crate) fn inputs(
    servers: &Value,
    config: &Value,
    environment: BTreeMap<String, String>,
) -> Inputs {
    Inputs {
        host: Some(File {
            name: "config.json".into(),
            text: config.to_string(),
        }),
        settings: Some(File {
            name: "settings.json".into(),
            text: json!({ "mcpServers": servers }).to_string(),
        }),
        environment,
        run: vec![],
    }
}

impl Yard {
    pub(crate) async fn new(servers: Value) -> Self {
        Self::at(Home::new(), servers, json!({}), host()).await
    }

    pub(crate) async fn with_config(servers: Value, config: Value) -> Self {
        Self::at(Home::new(), servers, config, host()).await
    }

    pub(crate) async fn with_host(servers: Value, host: BTreeMap<String, String>) -> Self {
        Self::at(Home::new(), servers, json!({}), host).await
    }

    pub(crate) async fn at(
        home: Home,
        servers: Value,
        config: Value,
        environment: BTreeMap<String, String>,
    ) -> Self {
        Self::asking(home, servers, config, environment, None).await
    }

    pub(crate) async fn asking(
        home: Home,
        servers: Value,
        config: Value,
        environment: BTreeMap<String, String>,
        approver: Option<wharfinger::Approver>,
    ) -> Self {
        let loaded = load(&inputs(&servers, &config, environment.clone()));
        assert!(!loaded.has_errors(), "{:?}", loaded.problems);
        // A mark of its own for each, since all tests are in one process.
        let mark = home
            .path()
            .file_name()
            .unwrap()
            .to_string_lossy()
            .replace(['-', '.'], "");
        let owner = Owner::new(&mark);
        let wharf = Wharf::open(Options {
            loaded,
            database: home.file("wharfinger.db"),
            agents: home.file("agents"),
            identity: home.path().to_owned(),
            workspaces: home.file("workspaces"),
            scratch: home.file("scratch"),
            packages: wharfinger::launch::packages::Places::in_folder(home.path()),
            environment,
            approver,
            web: wharfinger::manage::fetch::Options::default(),
            owner: owner.clone(),
            version: "0".into(),
        });
        Self {
            wharf: wharf.await.unwrap(),
            home,
            owner,
        }
    }

    /// Ends everything, and shows that nothing is left; gives the home for another round.
    pub(crate) async fn close(self) -> Home {
        self.wharf.shut_down().await;
        assert_eq!(self.processes(), Vec::<u32>::new(), "processes are left");
        self.home
    }

    /// Everything that carries this wharf's mark.
    pub(crate) fn processes(&self) -> Vec<u32> {
        processes::with_environment_mark(wharfinger::launch::OWNER, self.owner.as_str())
    }

    /// Its process has all that is left of it ended when it gets here.
    pub(crate) async fn until_no_process(&self) {
        poll_until("all processes to end", tokio::time::sleep, || {
            self.processes().is_empty()
        })
        .await;
    }

    pub(crate) fn session(&self, id: &str) -> Session {
        self.session_as("default", id, Declared::default())
    }

    pub(crate) fn session_as(&self, agent: &str, id: &str, declared: Declared) -> Session {
        self.wharf.session(SessionOptions {
            agent: AgentName::new(agent).unwrap(),
            id: SessionId::new(id).unwrap(),
            declared,
            reserved: vec![],
            lasting: false,
        })
    }

    /// `mode=<path in the home>`.
    pub(crate) fn mode(home: &Home, mode: &str, file: &str) -> String {
        format!("{mode}={}", home.file(file).display())
    }
}

/// The names a session sees.
pub(crate) async fn names(session: &Session) -> Vec<String> {
    session
        .tools()
        .await
        .tools
        .iter()
        .map(|tool| tool.name.clone())
        .collect()
}

/// Calls a tool, all notes dropped.
pub(crate) async fn call(
    session: &Session,
    name: &str,
    arguments: Value,
) -> Result<Value, Refusal> {
    call_with(session, name, arguments, |_| ()).await
}

pub(crate) async fn call_with(
    session: &Session,
    name: &str,
    arguments: Value,
    notes: impl FnMut(CallNote) + Send,
) -> Result<Value, Refusal> {
    let params = json!({ "name": name, "arguments": arguments }).to_string();
    let params = RawValue::from_string(params).unwrap();
    let call = ToolCall::new(name, &params);
    let result = session.call(call, notes).await?;
    Ok(serde_json::from_str(result.get()).unwrap())
}

/// The text of a result.
pub(crate) fn text(result: &Value) -> &str {
    result["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("no text in {result}"))
}

/// Lists first, as clients do, then calls; the text, or the refusal's.
pub(crate) async fn say(session: &Session, name: &str, arguments: Value) -> String {
    session.tools().await;
    match call(session, name, arguments).await {
        Ok(result) => text(&result).to_owned(),
        Err(refusal) => format!("refused: {refusal}"),
    }
}

/// Process ids in a file that `count-starts` writes.
pub(crate) fn starts(home: &Home, file: &str) -> usize {
    home.lines(file).len()
}

/// Short waits for servers that do not end by themselves.
pub(crate) fn quick() -> Value {
    json!({ "daemon": { "exitWaitSeconds": 0.3, "termWaitSeconds": 0.3 } })
}
