//! Who asked, and who was answered.

use std::collections::{BTreeMap, BTreeSet};

use wharfinger_wire::json::Object;
use wharfinger_wire::message::{self, Id, Malformed, Message};

/// The requests of one conversation and their answers, by the text of their ids.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    asked: BTreeMap<String, usize>,
    answered: BTreeMap<String, usize>,
    /// Taken back, or without an end of their own: an answer may come or not.
    open: BTreeSet<String>,
    /// Where everything that was sent gets a response, also what looked like one.
    over_http: bool,
}

impl Ledger {
    pub(super) fn over_http() -> Self {
        Self {
            over_http: true,
            ..Self::default()
        }
    }

    /// One message or a batch, as bytes.
    pub(super) fn sends(&mut self, text: &[u8], limit: usize) {
        if text.len() > limit {
            let found = message::scan(text);
            let id = found.id.filter(|_| !found.response);
            return id.iter().for_each(|id| self.asks(id));
        }
        match message::parse_batch(text) {
            Ok(messages) => {
                for message in messages {
                    match message {
                        Ok(message) => self.sends_message(&message),
                        Err(odd) => self.sends_odd(&odd),
                    }
                }
            }
            Err(odd) => self.sends_odd(&odd),
        }
    }

    fn sends_message(&mut self, message: &Message<'_>) {
        match message {
            Message::Request { id, method, .. } => {
                self.asks(id);
                if method == "subscriptions/listen" {
                    self.open.insert(id.to_string());
                }
            }
            Message::Notification { .. } => self.open.extend(taken_back(message)),
            Message::Response { .. } => {}
        }
    }

    fn sends_odd(&mut self, odd: &Malformed) {
        let Some(id) = &odd.id else { return };
        if !odd.response {
            self.asks(id);
        } else if self.over_http {
            self.asks(id);
            self.open.insert(id.to_string());
        }
    }

    fn asks(&mut self, id: &Id) {
        *self.asked.entry(id.to_string()).or_default() += 1;
    }

    /// Requests of these ids need no answer.
    pub(super) fn forgives(&mut self, ids: &BTreeSet<String>) {
        self.open.extend(ids.iter().cloned());
    }

    /// No request needs an answer: its session was ended.
    pub(super) fn forgives_all(&mut self) {
        self.open.extend(self.asked.keys().cloned());
    }

    /// Whether somebody still has to be answered.
    pub(super) fn is_open(&self) -> bool {
        let waits = |(id, asked): (&String, &usize)| {
            !self.open.contains(id) && self.answered.get(id).is_none_or(|count| count < asked)
        };
        self.asked.iter().any(waits)
    }

    /// An answer came.
    pub(super) fn hears(&mut self, id: &Id) {
        *self.answered.entry(id.to_string()).or_default() += 1;
    }

    /// Each request has its answer, and nobody else has one.
    pub(super) fn check(&self, what: &str) {
        let ids: BTreeSet<&String> = self.asked.keys().chain(self.answered.keys()).collect();
        for id in ids {
            let count = |of: &BTreeMap<String, usize>| of.get(id).copied().unwrap_or(0);
            let (asked, answered) = (count(&self.asked), count(&self.answered));
            let right = if self.open.contains(id) {
                answered <= asked
            } else {
                answered == asked
            };
            assert!(right, "{what}: {asked} of {id} asked, {answered} answered");
        }
    }
}

/// The id of a request that a message takes back.
pub(super) fn taken_back(message: &Message<'_>) -> Option<String> {
    let Message::Notification { method, params } = message else {
        return None;
    };
    let params = params.filter(|_| method == "notifications/cancelled")?;
    let params = Object::from_raw(params).ok()?;
    let id = params.get("requestId").and_then(Id::parse)?;
    Some(id.to_string())
}
