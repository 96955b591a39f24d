//! Everything that is printed: the answer on standard output, talk on standard error.

use std::collections::BTreeMap;
use std::future::Future;
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::termios::OptionalActions;
use serde::Serialize;
use serde_json::Value;
use wharfinger::model::{Problem, Severity};

use crate::failure::{Failure, Told};

/// An operation that takes longer than this is talked about.
const QUIET: Duration = Duration::from_secs(1);
/// What is left of a column that has no room.
const SHORTEST: usize = 8;
/// Cells longer than this push the next one on, in their row alone.
const WIDEST: usize = 44;
const FRAME: Duration = Duration::from_millis(100);
const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// Prints.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four facts that have nothing to do with each other"
)]
pub(crate) struct Ui {
    /// The answer is JSON.
    pub(crate) json: bool,
    answers_to_terminal: bool,
    talks_to_terminal: bool,
    colour: bool,
    width: usize,
}

impl Ui {
    pub(crate) fn new(environment: &BTreeMap<String, String>, json: bool) -> Self {
        let set = |name: &str| environment.get(name).is_some_and(|value| !value.is_empty());
        let talks_to_terminal = io::stderr().is_terminal();
        let dumb = environment.get("TERM").is_some_and(|term| term == "dumb");
        Self {
            json,
            answers_to_terminal: io::stdout().is_terminal(),
            talks_to_terminal: talks_to_terminal && !dumb,
            colour: talks_to_terminal && !dumb && !set("NO_COLOR"),
            width: rustix::termios::tcgetwinsize(io::stdout()).map_or(0, |size| size.ws_col.into()),
        }
    }

    /// Text of the answer; a line break is added where there is none.
    pub(crate) fn answer(&self, text: &str) -> io::Result<()> {
        let text = if self.answers_to_terminal {
            harmless(text)
        } else {
            text.to_owned()
        };
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        if !text.ends_with('\n') {
            out.write_all(b"\n")?;
        }
        out.flush()
    }

    /// The answer for programs.
    pub(crate) fn answer_json(&self, value: &impl Serialize) -> io::Result<()> {
        self.answer(&serde_json::to_string_pretty(value)?)
    }

    /// One of many answers for programs, on a line of its own.
    pub(crate) fn answer_json_line(&self, value: &impl Serialize) -> io::Result<()> {
        self.answer(&serde_json::to_string(value)?)
    }

    /// Columns under headers. In a terminal the last one is cut to fit.
    pub(crate) fn table(&self, headers: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
        self.answer(&table(headers, rows, self.limit()))
    }

    /// The first line of a text for a column; cut in a terminal only.
    pub(crate) fn brief(&self, text: &str, limit: usize) -> String {
        first_line(
            text,
            if self.answers_to_terminal {
                limit
            } else {
                usize::MAX
            },
        )
    }

    /// The first line of a text that follows so many characters; cut in a terminal only.
    pub(crate) fn rest_of_line(&self, text: &str, used: usize) -> String {
        first_line(text, self.limit().saturating_sub(used).max(SHORTEST))
    }

    /// How long a line of the answer may be.
    fn limit(&self) -> usize {
        if self.answers_to_terminal && self.width > 0 {
            self.width
        } else {
            usize::MAX
        }
    }

    /// A line of talk.
    pub(crate) fn say(&self, text: &str) {
        self.talk(&format!(
            "{}\n",
            if self.talks_to_terminal {
                harmless(text)
            } else {
                text.to_owned()
            }
        ));
    }

    /// A line of talk after a word like `warning`.
    pub(crate) fn warn(&self, text: &str) {
        self.say(&format!(
            "{} {}",
            self.label("warning:", "33"),
            indented(text)
        ));
    }

    pub(crate) fn hint(&self, text: &str) {
        self.say(&format!("{} {}", self.label("hint:", "36"), indented(text)));
    }

    /// A complaint about configuration.
    pub(crate) fn problem(&self, problem: &Problem) {
        let label = match problem.severity {
            Severity::Warning => self.label("warning:", "33"),
            Severity::Error => self.label("error:", "31"),
        };
        let Problem {
            place,
            key,
            message,
            ..
        } = problem;
        self.say(&format!("{label} {place}: {key}: {}", indented(message)));
        if let Some(hint) = &problem.hint {
            self.say(&format!(
                "  {} {}",
                self.label("hint:", "36"),
                indented(hint)
            ));
        }
    }

    /// What went wrong, and the exit code for it.
    pub(crate) fn fail(&self, failure: Failure) -> ExitCode {
        match failure {
            Failure::Enough => ExitCode::SUCCESS,
            Failure::Known(exit) => ExitCode::from(exit as u8),
            Failure::Told(told) => {
                if self.json {
                    self.talk(&format!("{}\n", told.json()));
                } else {
                    self.tell(&told);
                }
                ExitCode::from(told.exit as u8)
            }
        }
    }

    fn tell(&self, told: &Told) {
        self.say(&format!(
            "{} {}",
            self.label("error:", "31"),
            indented(&told.message)
        ));
        for cause in &told.causes {
            self.say(&format!(
                "{} {}",
                self.label("caused by:", "31"),
                indented(cause)
            ));
        }
        if let Some(hint) = &told.hint {
            self.hint(hint);
        }
    }

    /// Waits for an operation; when that takes a while, says what is waited for.
    pub(crate) async fn wait<T>(&self, what: &str, operation: impl Future<Output = T>) -> T {
        let mut operation = std::pin::pin!(operation);
        if let Ok(done) = tokio::time::timeout(QUIET, &mut operation).await {
            return done;
        }
        if !self.talks_to_terminal {
            self.say(&format!("{what}…"));
            return operation.await;
        }
        let started = Instant::now();
        for frame in FRAMES.iter().cycle() {
            let seconds = (started.elapsed() + QUIET).as_secs();
            self.talk(&format!("\r\x1b[K{frame} {what}… {seconds} s"));
            if let Ok(done) = tokio::time::timeout(FRAME, &mut operation).await {
                self.clear();
                return done;
            }
        }
        unreachable!("a cycle has no end")
    }

    /// Whether somebody is there who can be asked.
    pub(crate) fn can_ask(&self) -> bool {
        self.talks_to_terminal && io::stdin().is_terminal()
    }

    /// Asks whoever is there; anything but a yes is a no.
    pub(crate) fn ask(&self, question: &str) -> io::Result<bool> {
        self.talk(&format!("{question} [y/N] "));
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line)?;
        let answer = line.trim().to_ascii_lowercase();
        Ok(matches!(answer.as_str(), "y" | "yes"))
    }

    /// Asks for a line.
    pub(crate) fn ask_line(&self, question: &str) -> io::Result<String> {
        self.talk(&format!("{question} "));
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }

    /// Asks for a line that is not shown while it is typed.
    pub(crate) fn ask_secret(&self, question: &str) -> io::Result<String> {
        let shown = rustix::termios::tcgetattr(io::stdin())?;
        let mut hidden = shown.clone();
        hidden.local_modes.remove(rustix::termios::LocalModes::ECHO);
        rustix::termios::tcsetattr(io::stdin(), OptionalActions::Flush, &hidden)?;
        let answer = self.ask_line(question);
        rustix::termios::tcsetattr(io::stdin(), OptionalActions::Flush, &shown)?;
        // The line break that ended it was not shown either.
        self.talk("\n");
        answer
    }

    /// A passing remark: replaced by the next one in a terminal, a line elsewhere.
    pub(crate) fn progress(&self, text: &str) {
        if self.talks_to_terminal {
            self.talk(&format!("\r\x1b[K{}", harmless(&first_line(text, 70))));
        } else {
            self.say(text);
        }
    }

    /// Takes the last passing remark away.
    pub(crate) fn clear(&self) {
        if self.talks_to_terminal {
            self.talk("\r\x1b[K");
        }
    }

    fn label(&self, word: &str, code: &str) -> String {
        if self.colour {
            format!("\x1b[1;{code}m{word}\x1b[0m")
        } else {
            word.to_owned()
        }
    }

    #[expect(clippy::unused_self, reason = "all printing goes through the value")]
    fn talk(&self, text: &str) {
        // Nobody listens: nothing can be said about that either.
        io::stderr().lock().write_all(text.as_bytes()).ok();
    }
}

/// All of standard input.
pub(crate) fn read_input() -> io::Result<String> {
    let mut text = String::new();
    io::stdin().lock().read_to_string(&mut text)?;
    Ok(text)
}

/// Ends the program at once, with nothing cleaned up.
#[expect(clippy::exit, reason = "the second Ctrl-C")]
pub(crate) fn exit_interrupted() -> ! {
    std::process::exit(crate::failure::Exit::Interrupted.into())
}

impl From<crate::failure::Exit> for i32 {
    fn from(exit: crate::failure::Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// A number and its noun.
pub(crate) fn count(number: usize, noun: &str) -> String {
    if number == 1 {
        format!("1 {noun}")
    } else {
        format!("{number} {noun}s")
    }
}

/// A size as people say it.
pub(crate) fn size(bytes: usize) -> String {
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let bytes_shown = bytes as f64;
    match bytes {
        0..1000 => format!("{bytes} B"),
        1000..1_000_000 => format!("{:.1} kB", bytes_shown / 1e3),
        _ => format!("{:.1} MB", bytes_shown / 1e6),
    }
}

/// The first line, cut to so many characters.
fn first_line(text: &str, limit: usize) -> String {
    let line = text.trim().lines().next().unwrap_or_default().trim_end();
    if line.chars().count() <= limit {
        return line.to_owned();
    }
    let kept: String = line.chars().take(limit.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// A value of a JSON document as text; strings without quotes.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Lines after the first one, set apart from the next message.
fn indented(text: &str) -> String {
    text.trim_end().replace('\n', "\n  ")
}

/// Control characters could rewrite the terminal, so they are shown instead; our own colours stay.
fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_control() && !matches!(c, '\n' | '\t')) {
        let (before, after) = rest.split_at(at);
        shown.push_str(before);
        let ours = OURS.iter().find(|code| after.starts_with(**code));
        let length = if let Some(code) = ours {
            shown.push_str(code);
            code.len()
        } else {
            let control = after.chars().next().unwrap_or_default();
            shown.push(picture(control));
            control.len_utf8()
        };
        rest = &after[length..];
    }
    shown.push_str(rest);
    shown
}

const OURS: [&str; 4] = ["\x1b[1;31m", "\x1b[1;33m", "\x1b[1;36m", "\x1b[0m"];

/// Unicode's picture of a control character.
fn picture(control: char) -> char {
    match u32::from(control) {
        code @ 0..0x20 => char::from_u32(0x2400 + code).unwrap_or('\u{fffd}'),
        0x7f => '␡',
        _ => '\u{fffd}',
    }
}

fn table(headers: &[&str], rows: &[Vec<String>], limit: usize) -> String {
    let cell = |text: &str| text.replace(['\n', '\r', '\t'], " ");
    let width = |column: usize| {
        let cells = rows
            .iter()
            .filter_map(|row| row.get(column))
            .map(|text| text.chars().count());
        let header = headers[column].chars().count();
        cells
            .filter(|width| *width <= WIDEST)
            .chain([header])
            .max()
            .unwrap_or(0)
    };
    let mut widths: Vec<usize> = (0..headers.len()).map(width).collect();
    shrink(&mut widths, limit);
    let line = |mut cells: Vec<String>| {
        let last = cells.pop().unwrap_or_default();
        let padded = cells.iter().zip(&widths).map(|(text, width)| {
            let text = cell(text);
            let text = if limit == usize::MAX {
                text
            } else {
                first_line(&text, *width)
            };
            format!("{text:width$}  ")
        });
        let before = padded.collect::<Vec<_>>().concat();
        let left = limit.saturating_sub(before.chars().count()).max(SHORTEST);
        format!("{before}{}", first_line(&cell(&last), left))
            .trim_end()
            .to_owned()
    };
    let header = headers.iter().map(|header| (*header).to_owned()).collect();
    let lines: Vec<String> = std::iter::once(header)
        .chain(rows.iter().cloned())
        .map(line)
        .collect();
    lines.join("\n")
}

/// Takes from the widest columns what is too much for a line, down to where nothing could be read. The last one is cut
/// row by row.
fn shrink(widths: &mut [usize], limit: usize) {
    let Some((_, widths)) = widths.split_last_mut() else {
        return;
    };
    let total = |widths: &[usize]| widths.iter().sum::<usize>() + 2 * widths.len() + SHORTEST;
    while total(widths) > limit {
        match widths.iter_mut().max() {
            Some(widest) if *widest > SHORTEST => *widest -= 1,
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_fits_its_terminal() {
        let rows = [vec![
            "a-rather-long-name".repeat(2),
            "b".repeat(30),
            "some text".into(),
        ]];
        for limit in [60, 80, 100] {
            let table = table(&["NAME", "OTHER", "TEXT"], &rows, limit);
            assert!(
                table.lines().all(|line| line.chars().count() <= limit),
                "{limit}: {table}"
            );
        }
    }

    #[test]
    fn columns_are_as_wide_as_they_need() {
        let rows = [
            vec!["a".to_owned(), "long text here, rather".to_owned()],
            vec!["bcde".into(), "x\ny".into()],
        ];
        assert_eq!(
            table(&["N", "WHAT"], &rows, usize::MAX),
            "N     WHAT\na     long text here, rather\nbcde  x y"
        );
        assert_eq!(
            table(&["N", "WHAT"], &rows, 24),
            "N     WHAT\na     long text here, r…\nbcde  x y"
        );
    }

    #[test]
    fn a_long_cell_pushes_its_own_row_alone() {
        let long = "x".repeat(WIDEST + 1);
        let rows = [
            vec![long.clone(), "1".to_owned()],
            vec!["y".into(), "2".into()],
        ];
        assert_eq!(
            table(&["A", "B"], &rows, usize::MAX),
            format!("A  B\n{long}  1\ny  2")
        );
    }

    #[test]
    fn a_server_can_not_write_to_the_terminal() {
        assert_eq!(
            harmless("a\x1b]0;title\x07b\r\x1b[1;31mred\x1b[0m\n"),
            "a␛]0;title␇b␍\x1b[1;31mred\x1b[0m\n"
        );
        assert_eq!(harmless("\u{9b}31m"), "\u{fffd}31m");
    }

    #[test]
    fn sizes_and_counts_are_for_people() {
        assert_eq!(
            [size(999), size(13_700), size(2_500_000)],
            ["999 B", "13.7 kB", "2.5 MB"]
        );
        assert_eq!([count(0, "tool"), count(1, "tool")], ["0 tools", "1 tool"]);
        assert_eq!(first_line("  one two\nthree", 5), "one…");
    }
}
