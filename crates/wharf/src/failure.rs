//! Why a command failed: in words, with the way out and the exit code.

use std::error::Error;
use std::io;

use serde_json::{Value, json};
use wharfinger_daemon::client::ClientError;

/// A failed command.
#[derive(Debug)]
pub(crate) enum Failure {
    /// To be told.
    Told(Box<Told>),
    /// Told already; only the exit code is left.
    Known(Exit),
    /// Whoever reads the answer has enough of it, which is no failure.
    Enough,
}

/// What is said about a failure.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) exit: Exit,
    /// After `error:`.
    pub(crate) message: String,
    /// After `caused by:`, outermost first.
    pub(crate) causes: Vec<String>,
    /// After `hint:`.
    pub(crate) hint: Option<String>,
    /// What the daemon said, whole.
    pub(crate) problem: Option<Value>,
}

/// What a shell is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    Failed = 1,
    Usage = 2,
    NoDaemon = 3,
    Unknown = 4,
    Interrupted = 130,
}

impl Failure {
    /// It didn't work.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::told(Exit::Failed, message)
    }

    /// Wrong usage, or invalid configuration.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::told(Exit::Usage, message)
    }

    pub(crate) fn told(exit: Exit, message: impl Into<String>) -> Self {
        let message = message.into();
        Self::Told(Box::new(Told {
            exit,
            message,
            causes: vec![],
            hint: None,
            problem: None,
        }))
    }

    /// The way out.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        if let Self::Told(told) = &mut self {
            told.hint = Some(hint.into());
        }
        self
    }

    /// A fact for programs.
    pub(crate) fn with(mut self, key: &str, value: Value) -> Self {
        if let Self::Told(told) = &mut self {
            told.problem
                .get_or_insert_with(|| json!({"title": told.message}))[key] = value;
        }
        self
    }

    /// More that is to be told, a line each.
    pub(crate) fn causes(mut self, causes: &[String]) -> Self {
        if let Self::Told(told) = &mut self {
            told.causes.extend_from_slice(causes);
        }
        self
    }

    /// The cause, and its causes.
    pub(crate) fn because(mut self, cause: &dyn Error) -> Self {
        if let Self::Told(told) = &mut self {
            let mut next = Some(cause);
            while let Some(cause) = next {
                told.causes.push(cause.to_string());
                next = cause.source();
            }
        }
        self
    }
}

impl Told {
    /// The same facts for programs: the daemon's problem document where there is one.
    pub(crate) fn json(&self) -> Value {
        let mut problem = self
            .problem
            .clone()
            .filter(Value::is_object)
            .unwrap_or_else(
                || json!({"title": self.message, "hint": self.hint, "causes": self.causes}),
            );
        problem["exitCode"] = json!(self.exit as u8);
        problem
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::NotRunning { .. } => {
                Self::told(Exit::NoDaemon, error.to_string()).hint("start one with `wharf up`")
            }
            ClientError::Broken(_) => Self::failed(error.to_string())
                .hint("`wharf status` tells whether the daemon still runs"),
            ClientError::Refused {
                status,
                title,
                hint,
                problem,
            } => {
                let exit = match status {
                    400 | 422 => Exit::Usage,
                    404 => Exit::Unknown,
                    _ => Exit::Failed,
                };
                Self::Told(Box::new(Told {
                    exit,
                    message: title,
                    causes: fields(&problem),
                    hint,
                    problem: Some(problem),
                }))
            }
        }
    }
}

/// Complaints about single members, `{"command": ["is required"]}`, as lines.
fn fields(problem: &Value) -> Vec<String> {
    let fields = problem["fields"].as_object().into_iter().flatten();
    let lines = fields.flat_map(|(key, messages)| {
        let messages = messages
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        messages.map(move |message| format!("{key}: {message}"))
    });
    lines.collect()
}

impl From<io::Error> for Failure {
    /// Of writing the answer; other errors are told with what was being tried.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Enough,
            _ => Self::failed("can't write the answer").because(&error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(failure: Failure) -> Told {
        match failure {
            Failure::Told(told) => *told,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_daemons_refusals_have_exit_codes() {
        let check = |status: u16, expect: Exit| {
            let problem = json!({"title": "no", "fields": {"env": ["must be an object"]}});
            let title = "no".to_owned();
            let told = told(
                ClientError::Refused {
                    status,
                    title,
                    hint: None,
                    problem,
                }
                .into(),
            );
            assert_eq!(
                (told.exit, told.causes),
                (expect, vec!["env: must be an object".to_owned()])
            );
        };
        check(400, Exit::Usage);
        check(404, Exit::Unknown);
        check(409, Exit::Failed);
        check(422, Exit::Usage);
        check(500, Exit::Failed);
    }

    #[test]
    fn a_reader_that_has_enough_is_no_failure() {
        assert!(matches!(
            Failure::from(io::Error::from(io::ErrorKind::BrokenPipe)),
            Failure::Enough
        ));
        let full = told(io::Error::from(io::ErrorKind::StorageFull).into());
        assert_eq!(full.exit, Exit::Failed);
    }
}
