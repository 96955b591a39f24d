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
    let mut blocks = vec![
        "# The command line".to_owned(),
        "<!-- Made from the program; refresh with `cargo run -p wharf -- __docs > docs/cli.md`. -->"
            .to_owned(),
    ];
    section(&built(), "##", &mut blocks);
    Ok(ui.answer(&blocks.join("\n\n"))?)
}

fn built() -> Command {
    let mut command = Cli::command();
    command.build();
    command
}

/// A command, then those below it, all of them on the third level.
fn section(command: &Command, level: &str, blocks: &mut Vec<String>) {
    blocks.push(format!(
        "{level} {}",
        command.get_bin_name().unwrap_or("wharf")
    ));
    let about = command.get_long_about().or_else(|| command.get_about());
    blocks.extend(about.map(|about| sentence(&about.to_string())));
    let usage = command.clone().render_usage().to_string();
    blocks.push(literal(
        &usage
            .trim_start_matches("Usage:")
            .trim()
            .replace("\n       ", "\n"),
    ));
    let shown = |arg: &&Arg| {
        let said_above = level != "##" && arg.is_global_set();
        !arg.is_hide_set() && !said_above && !matches!(arg.get_id().as_str(), "help" | "version")
    };
    let rows: Vec<String> = command.get_arguments().filter(shown).map(row).collect();
    if !rows.is_empty() {
        blocks.push(format!("| | |\n|---|---|\n{}", rows.join("\n")));
    }
    let after = command
        .get_after_long_help()
        .or_else(|| command.get_after_help());
    for part in after
        .map(ToString::to_string)
        .unwrap_or_default()
        .split_terminator("\n\n")
    {
        match part.split_once(":\n") {
            Some((title, lines)) => {
                blocks.push(format!("{title}:"));
                blocks.push(literal(&outdented(lines)));
            }
            None => blocks.push(part.to_owned()),
        }
    }
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        section(sub, "###", blocks);
    }
}

/// An option or argument: how it is written, what it does.
fn row(arg: &Arg) -> String {
    let takes_value = arg.get_action().takes_values();
    let value = arg.get_value_names().filter(|_| takes_value);
    let value = value.map(|names| names.join(" ")).unwrap_or_default();
    let name = match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long} {value}"),
        (Some(short), None) => format!("-{short} {value}"),
        (None, Some(long)) => format!("--{long} {value}"),
        (None, None) if arg.is_required_set() => value,
        (None, None) => format!("[{value}]"),
    };
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let default = arg.get_default_values().first().filter(|_| takes_value);
    let default = default.map(|value| format!(" [default: {}]", value.to_string_lossy()));
    let default = default.unwrap_or_default();
    format!(
        "| `{}` | {}{default} |",
        name.trim().replace('|', "\\|"),
        help.replace('|', "\\|")
    )
}

fn literal(text: &str) -> String {
    format!("```text\n{text}\n```")
}

/// Clap takes the full stop from the first line.
fn sentence(text: &str) -> String {
    let (first, rest) = text.split_at(text.find('\n').unwrap_or(text.len()));
    let stop = if first.ends_with('.') { "" } else { "." };
    format!("{first}{stop}{rest}")
}

fn outdented(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .map(|line| line.strip_prefix("  ").unwrap_or(line))
        .collect();
    lines.join("\n")
}
