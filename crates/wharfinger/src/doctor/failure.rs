//! One row of the table, and whether a symptom looks like it.

use super::{Certainty, Symptom, What};
use crate::model::Exit;

/// A known failure.
#[derive(Debug)]
pub struct Failure {
    /// Stays what it is, whatever becomes of the row.
    pub code: &'static str,
    /// In a few words.
    pub title: &'static str,
    /// Why it happens, in one sentence; may hold `{…}`, see [`diagnose`](super::diagnose).
    pub cause: &'static str,
    /// What to do, in one sentence, likewise.
    pub fix: &'static str,
    /// The command that does it.
    pub command: Command,
    /// How sure the cause is.
    pub certainty: Certainty,
    /// Any of these; none for what is not seen at a server.
    pub looks: &'static [Look],
    /// How it looks where no server shows it, for the page.
    pub seen: &'static str,
    /// Whether `wharf doctor --fix` mends it.
    pub fixable: bool,
}

/// The command that mends something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// It takes more than a command.
    None,
    /// As it stands, with `{…}` filled in.
    Words(&'static str),
    /// The entry again, with these words after `uvx`.
    Uvx(&'static [&'static str]),
    /// The entry again, with one more variable.
    Env(&'static str, &'static str),
    /// The entry again, with these words at its end.
    Args(&'static [&'static str]),
    /// The key that the evidence names is given.
    Key,
    /// The first command in backticks in the evidence.
    Quoted,
}

/// One way in which a failure looks: all of it must be so.
#[derive(Debug)]
pub struct Look {
    /// What happened.
    pub is: Is,
    /// The program is one of these; any where there is none.
    pub programs: &'static [&'static str],
    /// One line of what was said has all of these, in small letters; none need be said where there is none.
    pub said: &'static [&'static str],
}

/// What happened, as a row asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Is {
    /// Whatever.
    Any,
    /// There is no such program.
    NotFound,
    /// It may not be run.
    NotExecutable,
    /// Its working directory can't be used.
    Directory,
    /// The system did not start it.
    NotStarted,
    /// It ended with this code.
    Code(i32),
    /// It was ended by this signal.
    Signal(i32),
    /// It was not ready in time.
    TimedOut,
    /// It did not speak the protocol.
    Protocol,
    /// What it runs could not be made ready.
    Prepare,
    /// Its tools could not be listed.
    List,
    /// It did not come up, and wrote to standard output what is no message.
    Noisy,
}

impl Look {
    /// A line that is said, whatever happened.
    pub const fn said(said: &'static [&'static str]) -> Self {
        Self {
            is: Is::Any,
            programs: &[],
            said,
        }
    }

    /// Something that happened, whatever was said.
    pub const fn is(is: Is) -> Self {
        Self {
            is,
            programs: &[],
            said: &[],
        }
    }

    /// One of these programs.
    #[must_use]
    pub const fn of(self, programs: &'static [&'static str]) -> Self {
        Self {
            is: self.is,
            programs,
            said: self.said,
        }
    }

    /// And a line that is said.
    #[must_use]
    pub const fn and(self, said: &'static [&'static str]) -> Self {
        Self {
            is: self.is,
            programs: self.programs,
            said,
        }
    }

    /// Whether it looks like this; gives the line that shows it, which is empty where no line does.
    pub(super) fn matches(&self, symptom: &Symptom) -> Option<String> {
        let program = symptom.command.rsplit('/').next().unwrap_or_default();
        if !self.programs.is_empty() && !self.programs.contains(&program) {
            return None;
        }
        if !self.is.is_so(symptom) {
            return None;
        }
        if self.said.is_empty() {
            let shown = match self.is {
                Is::Noisy => symptom.noise.first().map(String::as_str),
                _ => symptom
                    .what
                    .words()
                    .or_else(|| symptom.stderr.last().map(String::as_str)),
            };
            return Some(shown.unwrap_or_default().to_owned());
        }
        let words = symptom.what.words().into_iter().flat_map(str::lines);
        let said = symptom.stderr.iter().chain(&symptom.noise);
        let mut lines = said.map(String::as_str).chain(words);
        let found = lines.find(|line| {
            let line = line.to_lowercase();
            self.said.iter().all(|word| line.contains(word))
        });
        found.map(|line| line.trim().to_owned())
    }
}

impl Is {
    fn is_so(self, symptom: &Symptom) -> bool {
        let what = &symptom.what;
        match self {
            Self::Any => true,
            Self::NotFound => matches!(what, What::NotFound),
            Self::NotExecutable => matches!(what, What::NotExecutable(_)),
            Self::Directory => matches!(what, What::Directory(_)),
            Self::NotStarted => matches!(what, What::NotStarted(_)),
            Self::Code(code) => *what == What::Exited(Exit::Code(code)),
            Self::Signal(signal) => *what == What::Exited(Exit::Signal(signal)),
            Self::TimedOut => matches!(what, What::TimedOut),
            Self::Protocol => matches!(what, What::Protocol(_)),
            Self::Prepare => matches!(what, What::Prepare(_)),
            Self::List => matches!(what, What::List(_)),
            Self::Noisy => {
                let silent = matches!(what, What::TimedOut | What::Exited(_) | What::Protocol(_));
                silent && !symptom.noise.is_empty()
            }
        }
    }
}
