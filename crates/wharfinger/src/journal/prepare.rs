//! From what was handed over to what is written: digest, preview, nothing secret, nothing long.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use wharfinger_wire::json::{Object, raw};

use super::chain::Fields;
use super::record::{Arguments, Record};
use crate::model::{canonical, hex};

/// Takes the secrets out of a text.
pub type Redact = Arc<dyn for<'a> Fn(&'a str) -> Cow<'a, str> + Send + Sync>;

/// Characters of the arguments, and of a name, that are kept.
const PREVIEW: usize = 200;

/// Characters of an error or a reason, and bytes of details, that are kept.
const TEXT: usize = 1000;

/// A row but for its place in the chain.
#[derive(Debug)]
pub(super) struct Prepared {
    at: i64,
    kind: &'static str,
    who: String,
    agent: Option<crate::model::AgentName>,
    session: Option<String>,
    server: Option<crate::model::ServerName>,
    tool: Option<String>,
    outcome: &'static str,
    millis: Option<i64>,
    approval: Option<String>,
    args_digest: Option<String>,
    preview: Option<String>,
    subject: Option<String>,
    text: Option<String>,
}

impl Prepared {
    pub(super) fn new(record: Record, redact: &Redact) -> Self {
        let arguments = arguments(record.arguments);
        let clean = |text: String, limit: usize| cut(&redact(&text), limit);
        Self {
            at: whole(record.at),
            kind: record.kind.as_str(),
            who: record.who.wire(),
            agent: record.agent,
            session: record
                .session
                .map(|session| clean(session.to_string(), PREVIEW)),
            server: record.server,
            tool: record.tool.map(|tool| clean(tool, PREVIEW)),
            outcome: record.outcome.as_str(),
            millis: record.millis.map(whole),
            approval: record.approval,
            args_digest: arguments.as_ref().map(|text| hex(&Sha256::digest(text))),
            // First without secrets, then short: of one cut in two, a half would be left.
            preview: arguments.map(|text| clean(text, PREVIEW)),
            subject: record.subject.map(|subject| details(&subject, redact)),
            text: record.text.map(|text| clean(text, TEXT)),
        }
    }

    /// As the row of that number.
    pub(super) fn fields(&self, seq: i64) -> Fields<'_> {
        Fields {
            seq,
            at: self.at,
            kind: self.kind,
            who: &self.who,
            agent: self.agent.as_ref().map(crate::model::AgentName::as_str),
            session: self.session.as_deref(),
            server: self.server.as_ref().map(crate::model::ServerName::as_str),
            tool: self.tool.as_deref(),
            outcome: self.outcome,
            millis: self.millis,
            approval: self.approval.as_deref(),
            args_digest: self.args_digest.as_deref(),
            preview: self.preview.as_deref(),
            subject: self.subject.as_deref(),
            text: self.text.as_deref(),
        }
    }
}

/// The canonical text of what something was done with.
fn arguments(arguments: Arguments) -> Option<String> {
    match arguments {
        Arguments::None => None,
        Arguments::Value(value) => Some(canonical(&value)),
        Arguments::OfCall(params) => {
            let params = Object::from_raw(&params).ok()?;
            params.get("arguments").map(canonical)
        }
        Arguments::Params(params) => match Object::from_raw(&params) {
            Ok(mut object) => {
                drop(object.remove("_meta"));
                Some(canonical(&object.to_raw()))
            }
            Err(_) => Some(canonical(&params)),
        },
    }
}

/// Details stay JSON, whatever is taken out of them.
fn details(subject: &RawValue, redact: &Redact) -> String {
    let text = subject.get();
    let clean = redact(text);
    let whole = clean.len() <= TEXT;
    match clean {
        Cow::Borrowed(same) if whole => same.to_owned(),
        Cow::Owned(clean) if whole && serde_json::from_str::<&RawValue>(&clean).is_ok() => clean,
        clean => raw(&cut(&clean, TEXT)).get().to_owned(),
    }
}

/// The beginning of a text, at most so many characters.
fn cut(text: &str, limit: usize) -> String {
    if text.len() <= limit || text.chars().nth(limit).is_none() {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(limit - 1).collect();
    short.push('…');
    short
}

fn whole(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{Kind, Who};

    fn prepared(record: Record) -> Prepared {
        let redact: Redact = Arc::new(|text: &str| {
            if text.contains("sk-secret") {
                Cow::Owned(text.replace("sk-secret", "[REDACTED]"))
            } else {
                Cow::Borrowed(text)
            }
        });
        Prepared::new(record, &redact)
    }

    fn with(arguments: Arguments) -> Prepared {
        prepared(Record {
            arguments,
            ..Record::new(Kind::Call, Who::System)
        })
    }

    fn value(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn the_digest_is_over_the_canonical_arguments_alone() {
        let one =
            value(r#"{"name":"x","arguments":{"b":1.0,"a":"\u0041"},"_meta":{"progressToken":1}}"#);
        let other = value(r#"{"arguments": { "a": "A", "b": 1.0 }, "name": "y"}"#);
        let one = with(Arguments::OfCall(one));
        assert_eq!(one.preview.as_deref(), Some(r#"{"a":"A","b":1.0}"#));
        // printf '{"a":"A","b":1.0}' | sha256sum
        let digest = "e2f84763901a0d39d414d23948d3d6421e633f6dff6a1c0d30af0bf9c7acf9d7";
        assert_eq!(one.args_digest.as_deref(), Some(digest));
        assert_eq!(one.args_digest, with(Arguments::OfCall(other)).args_digest);
        assert_eq!(
            with(Arguments::OfCall(value(r#"{"name":"x"}"#))).args_digest,
            None
        );
        let params = value(r#"{"uri":"x://1","_meta":{"a":1}}"#);
        assert_eq!(
            with(Arguments::Params(params)).preview.as_deref(),
            Some(r#"{"uri":"x://1"}"#)
        );
        assert_eq!(with(Arguments::None).preview, None);
    }

    #[test]
    fn a_secret_is_in_no_column_however_it_is_spelt_and_wherever_it_is_cut() {
        let secret = "sk-secret";
        for before in 150..215 {
            let arguments = format!("[\"{}{secret}\"]", "é".repeat(before));
            let preview = with(Arguments::Value(value(&arguments))).preview.unwrap();
            assert!(preview.chars().count() <= PREVIEW);
            assert!(!preview.contains("sk-"), "{preview}");
        }
        let spelt = with(Arguments::Value(value(r#"{"k":"\u0073k-\u0073ecret"}"#)));
        assert_eq!(spelt.preview.as_deref(), Some(r#"{"k":"[REDACTED]"}"#));
        let all = prepared(Record {
            tool: Some(format!("t {secret}")),
            subject: Some(value(r#"{"command":"x --key sk-secret"}"#)),
            text: Some(format!("refused: {secret}")),
            ..Record::new(Kind::Call, Who::System)
        });
        assert!(!format!("{all:?}").contains(secret));
        assert_eq!(
            all.subject.as_deref(),
            Some(r#"{"command":"x --key [REDACTED]"}"#)
        );
    }

    #[test]
    fn nothing_is_longer_than_it_may_be() {
        let all = prepared(Record {
            tool: Some("t".repeat(5000)),
            subject: Some(value(&format!("[{}1]", "1,".repeat(5000)))),
            text: Some("€".repeat(5000)),
            ..Record::new(Kind::Call, Who::System)
        });
        let count = |text: Option<String>| text.unwrap().chars().count();
        assert_eq!((count(all.tool), count(all.text)), (PREVIEW, TEXT));
        let subject = all.subject.unwrap();
        assert!(
            serde_json::from_str::<String>(&subject)
                .unwrap()
                .ends_with('…')
        );
    }
}
