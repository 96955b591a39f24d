//! `docs/errors.md`, from the table.

use std::fmt::Write as _;

use super::known::{GROUPS, TABLE};
use super::{Certainty, Command, Failure, Is, Look};

const HEAD: &str = "\
# Known failures

<!-- Made from the table in crates/wharfinger/src/doctor/known; refresh with
`UPDATE=1 cargo test -p wharfinger --test it errors_page`. -->

`wharf doctor` looks for these, and says what is wrong, why, and what mends it; `wharf doctor NAME` starts one server for
that. Messages of the daemon and of `wharf` name the code where they know it. A code stays what it is. `{server}`,
`{path}` and the like stand for the case at hand. Certain means that it looks like this for no other reason, likely
that it mostly has this one. `WF-000` is what is not in the table.
";

/// The whole page.
pub fn page() -> String {
    let mut rows: Vec<&Failure> = TABLE.iter().flat_map(|group| group.iter()).collect();
    rows.sort_by_key(|row| row.code);
    let mut text = HEAD.to_owned();
    for (start, title) in GROUPS {
        write!(text, "\n## {title}\n").expect(TAKES_ALL);
        for row in rows.iter().filter(|row| row.code.starts_with(start)) {
            section(&mut text, row);
        }
    }
    text
}

const TAKES_ALL: &str = "a string takes everything";

fn section(text: &mut String, row: &Failure) {
    let certainty = match row.certainty {
        Certainty::Certain => "certain",
        Certainty::Likely => "likely",
    };
    write!(text, "\n### {}: {}\n\n", row.code, row.title).expect(TAKES_ALL);
    let mut line = |label: &str, words: &str| {
        writeln!(text, "- **{label}**: {words}").expect(TAKES_ALL);
    };
    line("Looks like", &looks(row));
    line(&format!("Cause, {certainty}"), row.cause);
    line("Fix", row.fix);
    if let Some(command) = command(row.command) {
        line("Command", &format!("`{command}`"));
    }
    if row.fixable {
        line("By itself", "`wharf doctor --fix`");
    }
}

fn command(command: Command) -> Option<String> {
    match command {
        Command::None => None,
        Command::Words(words) => Some(words.to_owned()),
        Command::Uvx(more) => {
            let more: Vec<_> = more.iter().map(|word| shell_words::quote(word)).collect();
            Some(format!(
                "wharf add --replace {{server}} -- uvx {} …",
                more.join(" ")
            ))
        }
        Command::Env(name, value) => Some(format!(
            "wharf add --replace {{server}} --env {name}={value} -- …"
        )),
        Command::Args(more) => Some(format!(
            "wharf add --replace {{server}} -- … {}",
            more.join(" ")
        )),
        Command::Quoted | Command::Key => Some("wharf secret set {server} {key}".to_owned()),
    }
}

fn looks(row: &Failure) -> String {
    let all: Vec<String> = row.looks.iter().map(look).collect();
    if all.is_empty() {
        return row.seen.to_owned();
    }
    all.join("; ")
}

fn look(look: &Look) -> String {
    let said: Vec<String> = look
        .said
        .iter()
        .map(|word| format!("`{}`", word.trim()))
        .collect();
    let said = said.join(" … ");
    let what = match look.is {
        Is::Any => String::new(),
        Is::NotFound => "the program was not found".into(),
        Is::NotExecutable => "the program may not be run".into(),
        Is::Directory => "can't use the working directory".into(),
        Is::NotStarted => "the system did not start it".into(),
        Is::Code(code) => format!("it exited with code {code}"),
        Is::Signal(signal) => format!("it was ended by signal {signal}"),
        Is::TimedOut => "it was not ready in time".into(),
        Is::Protocol => "it could not be initialized".into(),
        Is::Prepare => "its package could not be installed".into(),
        Is::List => "its tools could not be listed".into(),
        Is::Noisy => "plain text on standard output, and no answer".into(),
    };
    let programs: Vec<String> = look
        .programs
        .iter()
        .map(|name| format!("`{name}`"))
        .collect();
    let programs = match programs.as_slice() {
        [] => String::new(),
        names => format!(" ({})", names.join(", ")),
    };
    let joined = match (what.is_empty(), said.is_empty()) {
        (true, _) => said,
        (false, true) => what,
        (false, false) => format!("{what}, {said}"),
    };
    joined + &programs
}
