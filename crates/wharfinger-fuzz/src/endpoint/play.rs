//! One run of a script, and the good manners at its end: what servers ask is answered, so that everything can end.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, WriteHalf, split};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::timeout;
use wharfinger_wire::json::{Object, string};
use wharfinger_wire::message::{self, Message};

use super::ledger::{Ledger, taken_back};
use super::script::{Door, Dress, Step};
use super::{BODY, Endpoint, MARK};
use crate::dock::{Stream, within};
use crate::http::{Ask, Head, Reply, send};

/// How long a step waits for a question that may not come.
const MOMENT: Duration = Duration::from_millis(100);

/// Where something was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Post(usize),
    Lines(usize),
    Stream,
}

enum Event {
    Said(Place, String),
    Over(Place, io::Result<Reply>),
}

/// A request that was sent.
struct Posted {
    door: Door,
    body: Vec<u8>,
    dress: Dress,
    listens: bool,
    reply: Option<io::Result<Reply>>,
}

pub(super) struct Play<'a> {
    endpoint: &'a Endpoint,
    parked: String,
    sessions: BTreeMap<Door, String>,
    posted: Vec<Posted>,
    lines: [Option<WriteHalf<Box<dyn Stream>>>; 2],
    ledgers: [Ledger; 2],
    /// Questions that were not answered yet, and where they were asked.
    questions: Vec<(Place, String)>,
    /// Ids of requests that were taken back, wherever.
    taken_back: BTreeSet<String>,
    ended: bool,
    state: String,
    question: String,
    task: String,
    tasks: JoinSet<()>,
    tell: UnboundedSender<Event>,
    told: UnboundedReceiver<Event>,
}

impl<'a> Play<'a> {
    /// Begins with two sessions of its own.
    pub(super) async fn begin(endpoint: &'a Endpoint, parked: &str) -> Self {
        let (tell, told) = unbounded_channel();
        let mut play = Self {
            endpoint,
            parked: parked.to_owned(),
            sessions: BTreeMap::new(),
            posted: vec![],
            lines: [None, None],
            ledgers: [Ledger::default(), Ledger::default()],
            questions: vec![],
            taken_back: BTreeSet::new(),
            ended: false,
            state: "none".into(),
            question: "\"none\"".into(),
            task: "none".into(),
            tasks: JoinSet::new(),
            tell,
            told,
        };
        for (door, version) in [(Door::Session, "2025-11-25"), (Door::Batches, "2025-03-26")] {
            let params = json!({
                "protocolVersion": version,
                "capabilities": { "elicitation": {} },
                "clientInfo": { "name": "fuzz", "version": "1" },
            });
            let hello =
                json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
            let reply = play.asks(Door::Plain, &hello).await;
            let session = reply.head.header("mcp-session-id").map(str::to_owned);
            let session = session.unwrap_or_else(|| panic!("no session: {reply:?}"));
            play.sessions.insert(door, session);
        }
        play
    }

    /// A request as it should be, and its reply.
    async fn asks(&self, door: Door, message: &Value) -> Reply {
        let ask = self.request(door, message.to_string().as_bytes(), &Dress::default());
        let reply = send(self.endpoint.dock.address, &ask, |_, _| {});
        let reply = within("an ordinary answer", reply).await;
        reply.expect("the daemon answers")
    }

    pub(super) async fn step(&mut self, step: &Step) {
        match step {
            Step::Post(door, text, dress) => {
                let body = self.filled(text);
                self.post(*door, body, dress.clone()).await;
            }
            Step::Line(which, text) => {
                let line = self.filled(text);
                self.line(*which, &line).await;
            }
            Step::Stream => self.stream(),
            Step::End => {
                let dress = Dress {
                    method: Some("DELETE".into()),
                    ..Dress::default()
                };
                self.post(Door::Session, vec![], dress).await;
            }
            Step::Wait => {
                let before = self.questions.len();
                let waiting = async {
                    while self.questions.len() == before {
                        let event = self.told.recv().await;
                        self.note(event.expect("we hold a sender"));
                    }
                };
                timeout(MOMENT, waiting).await.ok();
            }
        }
    }

    /// With what only this run knows.
    fn filled(&self, text: &[u8]) -> Vec<u8> {
        if !text.contains(&b'$') {
            return text.to_vec();
        }
        let neighbour = &self.endpoint.neighbour;
        let own = self.sessions.get(&Door::Session).map_or("", String::as_str);
        let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
        let long = "long ".repeat(BODY / 4);
        let mut text = text.to_vec();
        for (name, value) in [
            ("$SESSION", own),
            ("$STATE", &self.state),
            ("$QUESTION", &self.question),
            ("$TASK", &self.task),
            ("$HIS_SESSION", &neighbour.session),
            ("$HIS_STATE", &neighbour.state),
            ("$HIS_PARKED", &self.parked),
            ("$HIS_TASK", &neighbour.task),
            ("$DEEP", &deep),
            ("$LONG", &long),
        ] {
            // Once is enough, and keeps what is sent small.
            let found = text.windows(name.len()).position(|w| w == name.as_bytes());
            if let Some(at) = found {
                text.splice(at..at + name.len(), value.bytes());
            }
        }
        text
    }

    fn request(&self, door: Door, body: &[u8], dress: &Dress) -> Ask {
        let agent = dress.agent.as_deref().unwrap_or("default");
        let mut ask = Ask::post(agent, &self.endpoint.token, body);
        match door {
            Door::Session | Door::Batches => {
                let session = self.sessions.get(&door).map_or("", String::as_str);
                ask = ask.header("Mcp-Session-Id", session);
            }
            Door::Stateless => {
                ask = ask.header("MCP-Protocol-Version", "2026-07-28");
                for (name, value) in wanted(body) {
                    ask = ask.header(name, &value);
                }
            }
            Door::Plain => {}
        }
        if let Some(method) = &dress.method {
            ask = ask.method(method);
        }
        ask.headers.retain(|(name, _)| {
            let name = String::from_utf8_lossy(name);
            !dress
                .without
                .iter()
                .any(|other| other.eq_ignore_ascii_case(&name))
        });
        for (name, value) in &dress.more {
            ask.headers.push((name.clone(), self.filled(value)));
        }
        ask
    }

    async fn post(&mut self, door: Door, body: Vec<u8>, dress: Dress) {
        let ask = self.request(door, &body, &dress);
        let parsed = message::parse(&body).ok();
        self.taken_back.extend(parsed.as_ref().and_then(taken_back));
        if let Ok(batch) = message::parse_batch(&body) {
            let messages = batch.iter().filter_map(|message| message.as_ref().ok());
            self.taken_back.extend(messages.filter_map(taken_back));
        }
        let listens = matches!(&parsed, Some(Message::Request { method, .. }) if method == "subscriptions/listen");
        // These open a stream, which has no end, or end the session with all its requests.
        let listens = listens || ask.method == "GET";
        self.ended |= ask.method == "DELETE";
        let place = Place::Post(self.posted.len());
        self.posted.push(Posted {
            door,
            body,
            dress,
            listens,
            reply: None,
        });
        self.spawn(place, ask);
        // Until it is answered, or something was said.
        let waiting = async {
            loop {
                let event = self.told.recv().await.expect("we hold a sender");
                let of = match &event {
                    Event::Said(of, _) | Event::Over(of, _) => *of,
                };
                self.note(event);
                if of == place {
                    return;
                }
            }
        };
        if timeout(MOMENT * 10, waiting).await.is_err() && !listens {
            self.until("an answer", |play| play.is_over_or_asked(place))
                .await;
        }
    }

    fn is_over_or_asked(&self, place: Place) -> bool {
        let Place::Post(index) = place else {
            return true;
        };
        self.posted[index].reply.is_some() || self.questions.iter().any(|(at, _)| *at == place)
    }

    fn spawn(&mut self, place: Place, ask: Ask) {
        let (tell, address) = (self.tell.clone(), self.endpoint.dock.address);
        self.tasks.spawn(async move {
            let reply = send(address, &ask, |_: &Head, text: &str| {
                tell.send(Event::Said(place, text.to_owned())).ok();
            });
            let reply = reply.await;
            tell.send(Event::Over(place, reply)).ok();
        });
    }

    fn stream(&mut self) {
        let dress = Dress {
            method: Some("GET".into()),
            ..Dress::default()
        };
        let ask = self.request(Door::Session, b"", &dress);
        self.spawn(Place::Stream, ask);
    }

    async fn line(&mut self, which: usize, line: &[u8]) {
        if self.lines[which].is_none() {
            let (reader, writer) = split(self.endpoint.dock.attach("default").await);
            self.lines[which] = Some(writer);
            let tell = self.tell.clone();
            self.tasks.spawn(async move {
                let place = Place::Lines(which);
                let mut reader = BufReader::new(reader);
                let mut line = vec![];
                loop {
                    line.clear();
                    match reader.read_until(b'\n', &mut line).await {
                        Ok(read) if read > 0 => {
                            let text = String::from_utf8_lossy(&line).into_owned();
                            tell.send(Event::Said(place, text)).ok();
                        }
                        _ => break,
                    }
                }
                let over = Err(io::ErrorKind::UnexpectedEof.into());
                tell.send(Event::Over(place, over)).ok();
            });
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let is_text = std::str::from_utf8(line).is_ok();
        let is_blank = line.iter().all(u8::is_ascii_whitespace);
        // What is too long is not looked at closely.
        if line.len() > BODY || (is_text && !is_blank) {
            self.ledgers[which].sends(line, BODY);
        }
        if let Some(writer) = &mut self.lines[which] {
            let writing = async {
                writer.write_all(line).await?;
                writer.write_all(b"\n").await
            };
            within("the daemon to read", writing).await.ok();
        }
    }

    /// Takes note of something that happened.
    fn note(&mut self, event: Event) {
        match event {
            Event::Said(place, text) => self.hear(place, &text),
            Event::Over(Place::Post(index), reply) => self.posted[index].reply = Some(reply),
            Event::Over(Place::Lines(which), _) => self.lines[which] = None,
            Event::Over(Place::Stream, _) => {}
        }
    }

    fn hear(&mut self, place: Place, text: &str) {
        assert!(!text.contains(MARK), "the neighbour's: {text}");
        let message = message::parse(text.trim_end().as_bytes());
        let message = message.unwrap_or_else(|odd| panic!("{odd}: {text}"));
        match message {
            Message::Request { id, .. } => {
                self.question = id.to_string();
                self.questions.push((place, id.to_string()));
            }
            Message::Response { id, outcome } => {
                if let (Place::Lines(which), Some(id)) = (place, &id) {
                    self.ledgers[which].hears(id);
                }
                let result = outcome.ok().and_then(|raw| Object::from_raw(raw).ok());
                let result = result.unwrap_or_default();
                if let Some(state) = result.text("requestState") {
                    self.state = state.into_owned();
                }
                let task = result.object("task");
                let task = task.as_ref().unwrap_or(&result);
                if let Some(id) = task.get("taskId").and_then(string) {
                    self.task = id.into_owned();
                }
            }
            Message::Notification { .. } => {}
        }
    }

    /// Waits until something is so; what servers ask meanwhile is answered.
    async fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let waiting = async {
            while !is_so(self) {
                let event = self.told.recv().await;
                self.note(event.expect("we hold a sender"));
            }
        };
        within(what, waiting).await;
    }

    /// Says no to everything that servers asked.
    async fn answer_questions(&mut self) {
        for (place, id) in std::mem::take(&mut self.questions) {
            let answer = format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":-1,\"message\":\"no\"}}}}"
            );
            let door = match place {
                Place::Lines(which) => {
                    if let Some(writer) = &mut self.lines[which] {
                        let line = answer + "\n";
                        writer.write_all(line.as_bytes()).await.ok();
                    }
                    continue;
                }
                Place::Stream => Door::Session,
                Place::Post(index) => self.posted[index].door,
            };
            let ask = self.request(door, answer.as_bytes(), &Dress::default());
            let answering = send(self.endpoint.dock.address, &ask, |_, _| {});
            within("an answer to be taken", answering).await.ok();
        }
    }

    /// Brings everything to its end, then looks who was answered.
    pub(super) async fn end(mut self) {
        let is_over = |play: &Self| {
            let posts = play.posted.iter();
            posts
                .filter(|posted| !posted.listens)
                .all(|posted| posted.reply.is_some())
        };
        while !is_over(&self) {
            self.answer_questions().await;
            self.until("all answers", |play| {
                is_over(play) || !play.questions.is_empty()
            })
            .await;
        }
        // The end of their input ends them when all is answered.
        for which in 0..2 {
            if let Some(writer) = &mut self.lines[which] {
                writer.write_all(b"\n").await.ok();
            }
        }
        self.end_lines().await;
        for (index, posted) in self.posted.iter().enumerate() {
            self.check(index, posted);
        }
        for (which, ledger) in self.ledgers.iter().enumerate() {
            ledger.check(&format!("lines {which}"));
        }
        self.goodbye().await;
    }

    async fn end_lines(&mut self) {
        let asked = |play: &Self| {
            let open = |which: usize| play.ledgers[which].is_open();
            (play.lines[0].is_some() && open(0)) || (play.lines[1].is_some() && open(1))
        };
        while asked(self) {
            self.answer_questions().await;
            self.until("all answers to lines", |play| {
                !asked(play) || !play.questions.is_empty()
            })
            .await;
        }
        for writer in self.lines.iter_mut().flatten() {
            writer.shutdown().await.ok();
        }
        self.until("the ends of lines", |play| {
            play.lines.iter().all(Option::is_none)
        })
        .await;
    }

    fn check(&self, index: usize, posted: &Posted) {
        let what = || {
            let body = &posted.body[..posted.body.len().min(2000)];
            format!("{index} {:?} {}", posted.door, body.escape_ascii())
        };
        let reply = match &posted.reply {
            Some(Ok(reply)) => reply,
            // Odd headers may be answered by hanging up.
            Some(Err(_)) if !posted.dress.is_plain() => return,
            Some(Err(error)) => panic!("{}: {error}", what()),
            None => return,
        };
        let status = reply.head.status;
        let fine = (200..500).contains(&status) || status == 503;
        assert!(fine, "{}: status {status}", what());
        if posted
            .dress
            .agent
            .as_deref()
            .is_some_and(|agent| agent != "default")
        {
            assert!(status >= 400, "{}: another agent's endpoint", what());
        }
        if status >= 400 || !posted.dress.is_plain() || posted.listens {
            return;
        }
        let mut ledger = Ledger::over_http();
        ledger.sends(&posted.body, usize::MAX);
        ledger.forgives(&self.taken_back);
        if self.ended {
            ledger.forgives_all();
        }
        for message in &reply.messages {
            if let Ok(Message::Response { id: Some(id), .. }) = message::parse(message.as_bytes()) {
                ledger.hears(&id);
            }
        }
        ledger.check(&what());
    }

    /// Asks what everybody may ask, and leaves.
    pub(super) async fn visit(self) {
        let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
        let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
            "name": "new_show", "arguments": { "a": 1 },
        } });
        let reply = self.asks(Door::Session, &ping).await;
        assert_eq!(reply.messages, [r#"{"jsonrpc":"2.0","id":1,"result":{}}"#]);
        let reply = self.asks(Door::Session, &call).await;
        let last = reply.messages.last().map_or("", String::as_str);
        assert!(last.contains(r#""arguments":{"a":1}"#), "{reply:?}");
        self.goodbye().await;
    }

    async fn goodbye(self) {
        for door in [Door::Session, Door::Batches] {
            let dress = Dress {
                method: Some("DELETE".into()),
                ..Dress::default()
            };
            let ask = self.request(door, b"", &dress);
            let leaving = send(self.endpoint.dock.address, &ask, |_, _| {});
            within("a goodbye", leaving).await.ok();
        }
    }
}

/// The headers that repeat what is in the body of a stateless request.
fn wanted(body: &[u8]) -> Vec<(&'static str, String)> {
    let Ok(Message::Request { method, params, .. }) = message::parse(body) else {
        return vec![];
    };
    let params = params.and_then(|params| Object::from_raw(params).ok());
    let params = params.unwrap_or_default();
    let named = ["name", "uri", "taskId"]
        .into_iter()
        .find_map(|name| params.text(name));
    let plain = |text: &str| text.bytes().all(|byte| (b' '..0x7f).contains(&byte));
    [("Mcp-Method", Some(method)), ("Mcp-Name", named)]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?.into_owned())))
        .filter(|(_, value)| plain(value))
        .collect()
}
