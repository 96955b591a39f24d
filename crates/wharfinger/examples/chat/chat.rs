//! The conversation: what is typed, what servers say, and what becomes of it.

use std::collections::{BTreeSet, VecDeque};
use std::error::Error;

use serde_json::Value;
use serde_json::value::RawValue;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{broadcast, mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wharfinger::model::{Declared, SessionId};
use wharfinger::servers::Asked;
use wharfinger::wire::json::Raw;
use wharfinger::{Refusal, Session, SessionNote, SessionOptions, Wharf};

use crate::call::{self, Heard};
use crate::question::Question;

const HELP: &str = "\
NAME {json}        calls a tool
/tools             what can be called
/prompt            what the model is told about servers
/stop              stops the calls that run
/mcp               the servers and how they are
/mcp NAME          one of them in full
/mcp restart NAME  stops it; the next call starts a fresh one
/new               a new conversation, with fresh servers
/resume ID         an earlier one, likewise
/decline           does not answer what a server asks
/quit              stops everything";

/// The host's own tool. No server's tool takes its name, and the Playwright preset tells the model of it.
const SEND: &str = "send";

/// A person's conversation, and all that can happen in it.
pub(crate) struct Chat {
    wharf: Wharf,
    session: Session,
    conversations: usize,
    calls: usize,
    /// Names of the tools as they were last told; none before they were.
    told: Option<BTreeSet<String>>,
    /// What waits for the person's answer, each with the call that it is about; 0 for none.
    questions: VecDeque<(usize, Question)>,
    tasks: TaskTracker,
    running: BTreeSet<usize>,
    /// Told when what runs is to stop.
    stopping: CancellationToken,
    sender: mpsc::UnboundedSender<Happening>,
    happenings: mpsc::UnboundedReceiver<Happening>,
    asks: mpsc::Receiver<Asked>,
    notes: broadcast::Receiver<SessionNote>,
    generation: watch::Receiver<u64>,
    lines: mpsc::Receiver<String>,
    has_input: bool,
    interrupts: Signal,
    terminations: Signal,
}

enum Happening {
    Typed(String),
    EndOfInput,
    Interrupted,
    /// The tools of this conversation are known.
    Listed(SessionId),
    ListChanged,
    Words(String),
    Heard(usize, Heard),
    Ended(usize, Result<Raw, Refusal>),
    Asked(Asked),
    TakenBack,
}

impl Chat {
    pub(crate) fn begin(
        wharf: &Wharf,
        lines: mpsc::Receiver<String>,
    ) -> Result<Self, Box<dyn Error>> {
        let session = wharf.session(SessionOptions {
            declared: Declared::by_client(
                r#"{"elicitation": {"form": {}, "url": {}}, "roots": {}}"#,
            ),
            reserved: vec![SEND.to_owned()],
            ..SessionOptions::new(wharf.agent("default")?, SessionId::new("chat-1")?)
        });
        let (sender, happenings) = mpsc::unbounded_channel();
        let chat = Self {
            wharf: wharf.clone(),
            conversations: 1,
            calls: 0,
            told: None,
            questions: VecDeque::new(),
            tasks: TaskTracker::new(),
            running: BTreeSet::new(),
            stopping: CancellationToken::new(),
            sender,
            happenings,
            asks: session.asks(),
            notes: session.notes(),
            session,
            generation: wharf.generation(),
            lines,
            has_input: true,
            interrupts: signal(SignalKind::interrupt())?,
            terminations: signal(SignalKind::terminate())?,
        };
        chat.list();
        Ok(chat)
    }

    pub(crate) async fn run(mut self) {
        while self.has_input || !self.running.is_empty() {
            match self.next().await {
                Happening::Typed(line) if line.trim() == "/quit" => break,
                Happening::Interrupted => break,
                happening => self.handle(happening).await,
            }
        }
        self.stop();
        // Calls end with an error when the servers are stopped.
        self.session.end().await;
        self.tasks.close();
        self.tasks.wait().await;
    }

    async fn next(&mut self) -> Happening {
        let question = self.questions.front();
        let taken_back = question.map(|(_, question)| question.taken_back.clone());
        let taken_back = async move {
            match taken_back {
                Some(taken_back) => taken_back.cancelled_owned().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = self.interrupts.recv() => Happening::Interrupted,
            _ = self.terminations.recv() => Happening::Interrupted,
            Some(happening) = self.happenings.recv() => happening,
            () = taken_back => Happening::TakenBack,
            Some(asked) = self.asks.recv() => Happening::Asked(asked),
            Ok(SessionNote::Notification { server, method, params }) = self.notes.recv() => {
                let words = call::notification(&method, params.as_deref().map(RawValue::get));
                Happening::Words(format!("{server}: {words}"))
            }
            Ok(()) = self.generation.changed() => Happening::ListChanged,
            line = self.lines.recv(), if self.has_input => {
                line.map_or(Happening::EndOfInput, Happening::Typed)
            }
        }
    }

    async fn handle(&mut self, happening: Happening) {
        match happening {
            Happening::Typed(line) => self.typed(line.trim()).await,
            Happening::EndOfInput => {
                self.has_input = false;
                for (_, question) in self.questions.drain(..) {
                    question.decline();
                }
            }
            Happening::Listed(id) if id == *self.session.id() => self.introduce(),
            // Of the conversation before; and the first ends `run`.
            Happening::Interrupted | Happening::Listed(_) => {}
            Happening::ListChanged => self.compare(),
            Happening::Words(words) => println!("{words}"),
            Happening::Heard(call, Heard::Words(words)) => println!("[{call}] {words}"),
            Happening::Heard(call, Heard::Question(question)) => self.ask(call, question),
            Happening::Asked(asked) => {
                if let Some(question) = Question::asked(asked) {
                    self.ask(0, question);
                }
            }
            Happening::TakenBack => {
                self.questions.pop_front();
                println!("the server no longer asks");
                self.ask_next();
            }
            Happening::Ended(call, outcome) => {
                self.running.remove(&call);
                match outcome {
                    Ok(result) => println!("[{call}] {}", call::shown(&result)),
                    Err(refusal) => println!("[{call}] refused: {refusal}"),
                }
                let before = self.questions.len();
                self.questions.retain(|(about, _)| *about != call);
                if self.questions.len() < before {
                    self.ask_next();
                }
            }
        }
    }

    async fn typed(&mut self, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match (word, rest.trim()) {
            ("/decline", _) => match self.questions.pop_front() {
                Some((_, question)) => {
                    question.decline();
                    self.ask_next();
                }
                None => println!("nothing is asked"),
            },
            ("/help", _) => println!("{HELP}"),
            ("/tools", _) => self.show_tools(),
            ("/prompt", _) => println!("{}", self.session.instructions()),
            ("/stop", _) => {
                let stopped = self.stop();
                println!("calls stopped: {stopped}");
            }
            ("/mcp", rest) => self.mcp(rest),
            ("/new", _) => {
                self.conversations += 1;
                self.go_on_with(&format!("chat-{}", self.conversations))
                    .await;
            }
            ("/resume", id) => self.go_on_with(id).await,
            (word, _) if word.starts_with('/') && self.questions.is_empty() => {
                println!("there is no `{word}`; see /help");
            }
            _ => match self.questions.pop_front() {
                Some((call, question)) => {
                    let Some((question, complaint)) = question.typed(line) else {
                        return self.ask_next();
                    };
                    if let Some(complaint) = complaint {
                        println!("{complaint}");
                    }
                    println!("{}", question.prompt());
                    self.questions.push_front((call, question));
                }
                None if word.is_empty() => {}
                None => self.call(word, rest.trim()),
            },
        }
    }

    fn mcp(&self, rest: &str) {
        let agent = self.session.agent().clone();
        if rest.is_empty() {
            println!("{}", self.wharf.mcp_list(&agent));
        } else if let Some(name) = rest.strip_prefix("restart ") {
            let (wharf, name) = (self.wharf.clone(), name.trim().to_owned());
            let sender = self.sender.clone();
            self.tasks.spawn(async move {
                let words = wharf.mcp_restart(&name, &agent).await;
                let words = words.unwrap_or_else(|complaint| complaint);
                sender.send(Happening::Words(words)).ok();
            });
        } else {
            let words = self.wharf.mcp_show(rest, &agent);
            println!("{}", words.unwrap_or_else(|complaint| complaint));
        }
    }

    fn call(&mut self, name: &str, arguments: &str) {
        let arguments = if arguments.is_empty() {
            "{}"
        } else {
            arguments
        };
        let arguments: Value = match serde_json::from_str(arguments) {
            Ok(arguments) => arguments,
            Err(error) => return println!("the arguments of `{name}` are no JSON: {error}"),
        };
        if name == SEND {
            return self.send(&arguments);
        }
        self.calls += 1;
        let number = self.calls;
        self.running.insert(number);
        println!("[{number}] {name}");
        let (session, name, sender) = (self.session.clone(), name.to_owned(), self.sender.clone());
        let stopping = self.stopping.clone();
        self.tasks.spawn(async move {
            let tell = |heard| drop(sender.send(Happening::Heard(number, heard)));
            let calling = call::call(&session, &name, arguments, tell);
            let outcome = stopping.run_until_cancelled(calling).await;
            let stopped = || Err(Refusal::Unavailable("the call was stopped".to_owned()));
            let outcome = outcome.unwrap_or_else(stopped);
            sender.send(Happening::Ended(number, outcome)).ok();
        });
    }

    /// The built-in tool: a chat would deliver the file to its user.
    fn send(&self, arguments: &Value) {
        let path = arguments["path"].as_str().unwrap_or_default();
        let path = self.wharf.workspace(self.session.agent()).join(path);
        match std::fs::metadata(&path) {
            Ok(file) => println!("sent {} ({} bytes)", path.display(), file.len()),
            Err(error) => println!("can't send {}: {error}", path.display()),
        }
    }

    /// Stops what this conversation has running: at the servers, and what waits for a list or for the person.
    fn stop(&mut self) -> usize {
        self.session.stop_calls();
        std::mem::take(&mut self.stopping).cancel();
        self.questions.clear();
        self.running.len()
    }

    /// Another conversation, new or not. What was said in it is the host's to keep, by the id.
    async fn go_on_with(&mut self, id: &str) {
        let id = match SessionId::new(id) {
            Ok(id) => id,
            Err(error) => return println!("the id of a conversation {error}"),
        };
        self.stop();
        self.session = self.session.next(id).await;
        (self.asks, self.notes) = (self.session.asks(), self.session.notes());
        self.told = None;
        self.list();
    }

    /// Lists in the background, so that the person is heard meanwhile.
    fn list(&self) {
        let (session, sender) = (self.session.clone(), self.sender.clone());
        self.tasks.spawn(async move {
            session.tools().await;
            let listed = Happening::Listed(session.id().clone());
            sender.send(listed).ok();
        });
    }

    fn introduce(&mut self) {
        println!("conversation {}", self.session.id());
        self.show_tools();
        let instructions = self.session.instructions();
        if !instructions.is_empty() {
            println!("the model is told:\n{instructions}");
        }
        self.told = Some(self.names());
    }

    fn show_tools(&self) {
        let catalog = self.session.known_tools();
        println!("{SEND}  Delivers a file of the workspace (built in)");
        for exposed in &catalog.tools {
            let description = exposed.tool.description();
            let first = description.lines().next().unwrap_or_default();
            println!("{}  {first}", exposed.name);
        }
        for warning in &catalog.warnings {
            println!("warning: {warning}");
        }
        for (server, reason) in self.session.unavailable() {
            println!("{server} is not available: {reason}");
        }
    }

    fn names(&self) -> BTreeSet<String> {
        let catalog = self.session.known_tools();
        catalog.tools.iter().map(|tool| tool.name.clone()).collect()
    }

    /// A server has other tools now, or one was found out late.
    fn compare(&mut self) {
        let now = self.names();
        if let Some(before) = &self.told {
            for name in now.difference(before) {
                println!("new tool: {name}");
            }
            for name in before.difference(&now) {
                println!("tool gone: {name}");
            }
            self.told = Some(now);
        }
    }

    fn ask(&mut self, call: usize, question: Question) {
        if !self.has_input {
            return question.decline();
        }
        self.questions.push_back((call, question));
        if self.questions.len() == 1 {
            self.ask_next();
        }
    }

    fn ask_next(&self) {
        if let Some((_, question)) = self.questions.front() {
            println!(
                "{} (or /decline)\n{}",
                question.message(),
                question.prompt()
            );
        }
    }
}
