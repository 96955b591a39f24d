//! `wharf completions`, `man`, and the hidden `__docs`: all made from the definition of the command line.

use clap::{Arg, Command, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::Failure;
use crate::ui::Ui;

pub(crate) fn completions(ui: &Ui, shell: Shell) -> Result<(), Failure> {
    let mut script = vec![];
    clap_complete::generate(shell, &mut Cli::command(), "wharf", &mut script);
    Ok(ui.answer(&String::from_utf8_lossy(&script))?)
}

/// The page of the whole program, or of one command.
pub(crate) fn man(ui: &Ui, words: &[String]) -> Result<(), Failure> {
    let mut command = built();
    let mut name = String::from("wharf");
    for word in words {
        let found = command
            .find_subcommand(word)
            .filter(|found| !found.is_hide_set());
        command = found.cloned().ok_or_else(|| {
            Failure::usage(format!("`{name}` has no command `{word}`"))
                .hint("`wharf --help` lists them")
        })?;
        name = format!("{name}-{word}");
    }
    let mut page = vec![];
    clap_mangen::Man::new(command.display_name(name)).render(&mut page)?;
    Ok(ui.answer(&String::from_utf8_lossy(&page))?)
}

/// `docs/cli.md`.
pub(crate) fn markdown(ui: &Ui) -> Result<(), Failure> {
    let mut page = String::from(
        "# The command line\n\n<!-- Made from the program; refresh with `cargo run -p wharf -- __docs > docs/cli.md`. -->\n\n",
    );
    section(&built(), 2, &mut page);
    Ok(ui.answer(page.trim_end())?)
}

fn built() -> Command {
    let mut command = Cli::command();
    command.build();
    command
}

fn section(command: &Command, depth: usize, page: &mut String) {
    let name = command.get_bin_name().unwrap_or("wharf");
    page.push_str(&format!("{} {name}\n\n", "#".repeat(depth)));
    if let Some(about) = command.get_long_about().or_else(|| command.get_about()) {
        page.push_str(&format!("{}\n\n", sentence(&about.to_string())));
    }
    let usage = command.clone().render_usage().to_string();
    let usage = usage
        .trim_start_matches("Usage:")
        .trim()
        .replace("\n       ", "\n");
    page.push_str(&format!("```text\n{usage}\n```\n\n"));
    let shown = |arg: &&Arg| {
        let general = depth > 2 && arg.is_global_set();
        !arg.is_hide_set() && !general && !matches!(arg.get_id().as_str(), "help" | "version")
    };
    let args: Vec<&Arg> = command.get_arguments().filter(shown).collect();
    if !args.is_empty() {
        page.push_str("| | |\n|---|---|\n");
        for arg in args {
            page.push_str(&row(arg));
        }
        page.push('\n');
    }
    let after = command
        .get_after_long_help()
        .or_else(|| command.get_after_help());
    if let Some(after) = after {
        for part in after.to_string().split("\n\n") {
            let (title, lines) = part.split_once(":\n").unwrap_or(("", part));
            if title.is_empty() {
                page.push_str(&format!("{part}\n\n"));
            } else {
                page.push_str(&format!(
                    "{title}:\n\n```text\n{}\n```\n\n",
                    outdented(lines)
                ));
            }
        }
    }
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        section(sub, depth + usize::from(depth == 2), page);
    }
}

/// An option or argument: how it is written, what it does.
fn row(arg: &Arg) -> String {
    let value = arg
        .get_value_names()
        .filter(|_| arg.get_action().takes_values());
    let value = value.map(|names| names.join(" ")).unwrap_or_default();
    let name = match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long} {value}"),
        (Some(short), None) => format!("-{short} {value}"),
        (None, Some(long)) => format!("--{long} {value}"),
        (None, None) if arg.is_required_set() => value,
        (None, None) => format!("[{value}]"),
    };
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let defaults: Vec<String> = arg
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy().into_owned())
        .collect();
    let default = match (defaults.is_empty(), arg.get_action().takes_values()) {
        (false, true) => format!(" [default: {}]", defaults.join(" ")),
        _ => String::new(),
    };
    format!(
        "| `{}` | {}{default} |\n",
        name.trim().replace('|', "\\|"),
        help.replace('|', "\\|")
    )
}

/// Clap takes the full stop from a single line.
fn sentence(text: &str) -> String {
    if text.ends_with('.') {
        text.to_owned()
    } else {
        format!("{text}.")
    }
}

fn outdented(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .map(|line| line.strip_prefix("  ").unwrap_or(line))
        .collect();
    lines.join("\n")
}
