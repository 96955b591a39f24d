//! A server played by the test: it sees every line the connection writes and says whatever it
//! likes, well-formed or not.

use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::io::{AsyncWriteExt as _, DuplexStream};
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;
use wharfinger_wire::connection::{
    Call, Connection, Event, Limits, Peer, Reply, SkipReason, Skipped,
};
use wharfinger_wire::json::{self, Object, Raw};
use wharfinger_wire::lines::{Line, LineReader};
use wharfinger_wire::message::{ErrorObject, Id, METHOD_NOT_FOUND};

pub(crate) struct Server {
    input: LineReader<DuplexStream>,
    output: DuplexStream,
}

pub(crate) struct Pair {
    pub(crate) connection: Connection,
    pub(crate) server: Server,
    /// What the peer heard, in words.
    pub(crate) heard: mpsc::UnboundedReceiver<String>,
    /// Requests that were left open.
    pub(crate) open: mpsc::UnboundedReceiver<Reply>,
    pub(crate) tasks: TaskTracker,
}

pub(crate) fn pair() -> Pair {
    pair_with(Limits::default(), 1 << 16)
}

/// A connection whose pipes hold `pipe` bytes.
pub(crate) fn pair_with(limits: Limits, pipe: usize) -> Pair {
    let (input_far, input) = tokio::io::duplex(pipe);
    let (output, output_far) = tokio::io::duplex(pipe);
    let (tell, heard) = mpsc::unbounded_channel();
    let (leave, open) = mpsc::unbounded_channel();
    let tasks = TaskTracker::new();
    let peer = Arc::new(Ears { tell, leave });
    let connection = Connection::start(output_far, input_far, peer, limits, &tasks);
    tasks.close();
    Pair {
        connection,
        server: Server {
            input: LineReader::new(input),
            output,
        },
        heard,
        open,
        tasks,
    }
}

impl Server {
    /// The next line the connection wrote, or `end`.
    pub(crate) async fn line(&mut self) -> String {
        match self.input.next_line().await.unwrap() {
            Some(Line::Text(text)) => text.to_owned(),
            None => "end".to_owned(),
            odd => panic!("the connection wrote {odd:?}"),
        }
    }

    /// Reads a request and gives its id.
    pub(crate) async fn request(&mut self) -> u64 {
        let line = self.line().await;
        let object = Object::parse(&line).unwrap();
        Id::parse(object.get("id").expect("a request"))
            .unwrap()
            .as_number()
            .unwrap()
    }

    pub(crate) async fn say(&mut self, line: impl AsRef<[u8]>) {
        self.output.write_all(line.as_ref()).await.unwrap();
        self.output.write_all(b"\n").await.unwrap();
    }

    /// Says something without a line end, and goes.
    pub(crate) async fn say_last(mut self, text: &str) {
        self.output.write_all(text.as_bytes()).await.unwrap();
    }

    pub(crate) fn split(self) -> (LineReader<DuplexStream>, DuplexStream) {
        (self.input, self.output)
    }
}

/// Answers `known` at once, `later` not at all, and everything else with an error.
struct Ears {
    tell: mpsc::UnboundedSender<String>,
    leave: mpsc::UnboundedSender<Reply>,
}

impl Ears {
    fn tell(&self, text: String) {
        // A test that is over does not listen.
        self.tell.send(text).ok();
    }
}

impl Peer for Ears {
    fn notification(&self, method: &str, params: Option<&RawValue>) {
        self.tell(format!("{method} {}", params.map_or("-", RawValue::get)));
    }

    fn request(&self, reply: Reply, method: &str, params: Option<&RawValue>) {
        let params = params.map_or("-", RawValue::get);
        self.tell(format!("{} {method} {params}", reply.id()));
        let answered = match method {
            "known" => reply.give(Ok(json::raw("yes"))),
            "later" => {
                self.leave.send(reply).ok();
                Ok(())
            }
            "dropped" => {
                drop(reply);
                Ok(())
            }
            _ => reply.give(Err(ErrorObject::new(METHOD_NOT_FOUND, "no"))),
        };
        // A test may have closed the connection meanwhile.
        answered.ok();
    }

    fn skipped(&self, skipped: &Skipped) {
        let reason = match &skipped.reason {
            SkipReason::Malformed(_) => "malformed",
            SkipReason::Oversized => "oversized",
            SkipReason::UnknownReply => "unknown reply",
            SkipReason::RepeatedReply => "repeated reply",
        };
        self.tell(format!(
            "skipped {reason} {}: {}",
            skipped.bytes, skipped.head
        ));
    }

    fn closed(&self) {
        self.tell("closed".to_owned());
    }
}

pub(crate) fn raw(text: &str) -> Raw {
    json::raw_from(text.to_owned()).unwrap()
}

/// How a call ends, in words.
pub(crate) async fn end(mut call: Call) -> String {
    loop {
        if let Event::Reply(reply) = call.next().await {
            return told(reply);
        }
    }
}

pub(crate) fn told<E: std::fmt::Display>(reply: Result<Raw, E>) -> String {
    reply.map_or_else(
        |error| format!("error: {error}"),
        |result| result.get().to_owned(),
    )
}
