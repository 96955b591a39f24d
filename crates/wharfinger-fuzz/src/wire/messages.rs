//! Envelopes: what can be read can be written, and says the same again; the scanner sees what the parser sees.

use serde_json::value::RawValue;
use wharfinger_wire::message::{
    self, ErrorObject, INVALID_REQUEST, Id, Malformed, Message, PARSE_ERROR, Scanner,
};

use super::drawn;

pub(super) fn check(input: &[u8]) {
    let parsed = message::parse(input);
    check_scan(input, parsed.as_ref());
    match &parsed {
        Ok(message) => check_message(message),
        Err(malformed) => check_malformed(input, malformed),
    }
    check_batch(input, parsed);
}

/// Everything about a message that somebody acts on, as text.
fn shown(message: &Message<'_>) -> String {
    let raw = |raw: Option<&RawValue>| raw.map_or("-", RawValue::get).to_owned();
    match message {
        Message::Request { id, method, params } => {
            format!("request {id} {method:?} {}", raw(*params))
        }
        Message::Notification { method, params } => {
            format!("notification {method:?} {}", raw(*params))
        }
        Message::Response { id, outcome } => {
            let id = id.as_ref().map(ToString::to_string);
            let (kind, payload) = match outcome {
                Ok(result) => ("result", result),
                Err(error) => ("error", error),
            };
            format!("{kind} {id:?} {}", payload.get())
        }
    }
}

fn check_message(message: &Message<'_>) {
    let written = match message {
        Message::Request { id, method, params } => {
            check_id(id);
            message::request(id, method, *params)
        }
        Message::Notification { method, params } => message::notification(method, *params),
        Message::Response { id, outcome } => match (id, outcome) {
            (Some(id), Ok(result)) => {
                check_id(id);
                message::result(id, result)
            }
            (id, Err(error)) => {
                check_error(error);
                message::error(id.as_ref(), &ErrorObject::from_raw(error))
            }
            // Nobody writes a result for nobody.
            (None, Ok(_)) => return,
        },
    };
    let again = message::parse(&written).unwrap_or_else(|odd| {
        panic!("{odd}: {}", String::from_utf8_lossy(&written));
    });
    assert_eq!(shown(&again), shown(message), "written and read again");
}

fn check_id(id: &Id) {
    assert_eq!(Id::parse(&id.to_raw()).as_ref(), Some(id));
    let mut written = vec![];
    id.write(&mut written);
    assert_eq!(written, id.to_string().as_bytes());
    if let Some(number) = id.as_number() {
        assert_eq!(Id::number(number).as_number(), Some(number));
    }
}

fn check_error(raw: &RawValue) {
    let error = ErrorObject::from_raw(raw);
    assert_eq!(error.to_raw().get(), raw.get());
    let own = ErrorObject { raw: None, ..error };
    let again = ErrorObject::from_raw(&own.to_raw());
    assert_eq!(
        (again.code, &again.message),
        (own.code, &own.message),
        "{}",
        raw.get()
    );
    let text = |data: &Option<Box<RawValue>>| data.as_ref().map(|raw| raw.get().to_owned());
    assert_eq!(text(&again.data), text(&own.data));
}

fn check_malformed(input: &[u8], malformed: &Malformed) {
    assert!(!malformed.reason.is_empty());
    assert!([PARSE_ERROR, INVALID_REQUEST].contains(&malformed.code));
    let json = std::str::from_utf8(input)
        .is_ok_and(|text| serde_json::from_str::<&RawValue>(text).is_ok());
    // Half of a surrogate pair is a legal escape that no string can hold; in a name it can't be read.
    if malformed.code == PARSE_ERROR && !spells_oddly(input) {
        assert!(!json, "it is JSON: {}", String::from_utf8_lossy(input));
    }
}

/// Escapes let a name be spelt otherwise, which the scanner does not look at.
fn spells_oddly(input: &[u8]) -> bool {
    input.contains(&b'\\')
}

fn check_scan(input: &[u8], parsed: Result<&Message<'_>, &Malformed>) {
    let whole = message::scan(input);
    let mut scanner = Scanner::new();
    let size = usize::try_from(drawn(input) % 7).unwrap_or(0) + 1;
    input.chunks(size).for_each(|piece| scanner.feed(piece));
    assert_eq!(scanner.finish(), whole, "in pieces of {size}");
    let Ok(message) = parsed else {
        return;
    };
    if spells_oddly(input) {
        return;
    }
    let (id, response) = match message {
        Message::Request { id, .. } => (Some(id), false),
        Message::Notification { .. } => (None, false),
        Message::Response { id, .. } => (id.as_ref(), true),
    };
    assert_eq!(whole.response, response);
    match id {
        // Ids of more than a kilobyte are not kept while scanning.
        Some(id) if id.to_string().len() > 1024 => assert!(whole.id.is_none()),
        id => assert_eq!(whole.id.as_ref(), id),
    }
}

fn check_batch(input: &[u8], alone: Result<Message<'_>, Malformed>) {
    let is_batch = std::str::from_utf8(input).is_ok_and(|text| text.trim_start().starts_with('['));
    let batch = message::parse_batch(input);
    if !is_batch {
        match (batch, alone) {
            (Ok(batch), Ok(message)) => {
                let [Ok(one)] = &batch[..] else {
                    panic!("one message is a batch of {batch:?}");
                };
                assert_eq!(shown(one), shown(&message));
            }
            (Err(of_batch), Err(odd)) => assert_eq!(of_batch, odd),
            (batch, alone) => panic!("{batch:?}, but alone {alone:?}"),
        }
        return;
    }
    assert!(alone.is_err(), "an array is no message");
    match batch {
        Ok(messages) => {
            let items: Vec<&RawValue> =
                serde_json::from_slice(input).expect("its messages were found");
            assert_eq!(messages.len(), items.len());
            for (message, item) in messages.into_iter().zip(items) {
                match (message, message::parse(item.get().as_bytes())) {
                    (Ok(message), Ok(alone)) => assert_eq!(shown(&message), shown(&alone)),
                    (Err(odd), Err(alone)) => assert_eq!(odd, alone),
                    (message, alone) => panic!("{message:?}, but alone {alone:?}"),
                }
            }
        }
        Err(odd) => assert!([PARSE_ERROR, INVALID_REQUEST].contains(&odd.code)),
    }
}
