//! The command line: every command, option and word of help. `docs/cli.md`, the man page and the completions are made
//! from this.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

const EXIT_CODES: &str = "\
Exit codes:
  0    it worked
  1    the operation failed, or the tool returned an error
  2    wrong usage, or invalid configuration
  3    no daemon runs
  4    unknown server, agent or tool
  130  interrupted

Environment:
  WHARFINGER_HOME  the home folder, unless `--home` names one
  NO_COLOR         when set, nothing is coloured
  RUST_LOG         what the daemon logs, unless `--log` says so";

/// Run MCP servers once, for all your agents.
#[derive(Debug, Parser)]
#[command(
    name = "wharf",
    version,
    long_about = "Run MCP servers once, for all your agents.\n\n\
        You register a server with `wharf add`; a daemon, `wharf up`, starts it when a tool of it is first called, \
        stops it when it is idle, and gives each agent one MCP endpoint with all of them. The answer of a command \
        goes to standard output, everything else it has to say to standard error.",
    after_help = "Begin with `wharf up`, or `wharf up --try` to see it at work.",
    after_long_help = EXIT_CODES,
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    /// Home folder: configuration, database, socket [default: ~/.wharfinger]
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        help_heading = "Global options"
    )]
    pub(crate) home: Option<PathBuf>,
    /// Answer in JSON, with the same facts as the admin API
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Up(Up),
    /// Tell whether the daemon runs, where it listens, and what is wrong
    Status,
    Stop(Stop),
    Add(Add),
    /// List the servers and what they are doing
    List(AsAgent),
    Show(Show),
    /// Remove a server from `settings.json` and stop its processes
    Remove(Named),
    /// Switch a server on
    Enable(Named),
    /// Switch a server off: it keeps its entry and its name, but is not started and offers no tools
    Disable(Named),
    Restart(Restart),
    Logs(Logs),
    Journal(Journal),
    Tools(Tools),
    Call(Call),
    Mcp(Mcp),
    /// Serve MCP on standard input and output, as an agent: the command for MCP clients
    ///
    /// Connects to the daemon, and starts one in the background when none runs; its log is then `daemon.log` in the
    /// home folder. Ends with its input. `wharf agent endpoint` prints what to write in a client's configuration.
    Stdio(AsAgent),
    #[command(subcommand)]
    Agent(Agent),
    #[command(subcommand)]
    Config(Config),
    Completions(Completions),
    Man(Man),
    #[command(name = "__guard", hide = true)]
    Guard(Guard),
    #[command(name = "__docs", hide = true)]
    Docs,
}

/// Run the daemon
///
/// It runs until Ctrl-C or SIGTERM, then stops every server it has started; a second Ctrl-C ends it at once. It logs
/// to standard error. It refuses to start while the configuration has errors, and names all of them.
///
/// Certificate, proxy and registry variables of the shell it is started from are remembered for later starts by
/// `wharf stdio`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wharf up                          in the foreground
  wharf up --background             in the background, with its log in daemon.log of the home folder
  wharf up --try                    with a server to play with, for this run alone
  wharf up --listen 127.0.0.1:0     on any free port")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag that is typed"
)]
pub(crate) struct Up {
    /// Serve HTTP here, whatever `daemon.listen` says; port 0 takes any free one
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<SocketAddr>,
    /// Add the reference server `everything` for this run, list its tools and show a call (needs `npx`)
    #[arg(long = "try", conflicts_with = "background")]
    pub(crate) trial: bool,
    /// Return as soon as it listens, and leave it running
    #[arg(long)]
    pub(crate) background: bool,
    /// What to log: error, warn, info, debug, trace or off, or by module: `info,wharfinger=debug` [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log: Option<String>,
    /// What `--background` starts.
    #[arg(long, hide = true, conflicts_with_all = ["background", "trial"])]
    pub(crate) background_child: bool,
    /// The environment is that of some MCP client, and not worth remembering.
    #[arg(long, hide = true)]
    pub(crate) for_client: bool,
}

/// Stop the daemon, or the processes of one server
///
/// Without a name: asks the daemon to stop all servers and end, and waits until it has. With one: stops that server's
/// processes; the next call starts a fresh one.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wharf stop            the daemon, with everything it runs
  wharf stop github     the processes of one server")]
pub(crate) struct Stop {
    /// Server whose processes to stop
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
}

/// Register a server
///
/// It is written to `settings.json` in the home folder, started once to learn its tools, and offered to every agent.
/// Takes a command, or the JSON block that a server's README has for other clients: in any of their shapes, with all
/// its members, whether those mean anything here or not.
///
/// As people try it, `--json` directly before a block is taken to announce the block, and not as the global option; put
/// the global one before `add` to have both.
#[derive(Args, Debug)]
#[command(
    override_usage = "wharf add [OPTIONS] <NAME> -- <COMMAND>...\n       wharf add [OPTIONS] <NAME> <ENTRY>\n       wharf add [OPTIONS] <BLOCK>\n       wharf add [OPTIONS] -",
    after_help = "\
Examples:
  wharf add time -- uvx mcp-server-time
  wharf add github --env GITHUB_TOKEN='${env:GITHUB_TOKEN}' -- npx -y @modelcontextprotocol/server-github
  wharf add time '{\"command\": \"uvx\", \"args\": [\"mcp-server-time\"]}'
  wharf add '{\"mcpServers\": {\"time\": {\"command\": \"uvx\", \"args\": [\"mcp-server-time\"]}}}'
  wharf add --json '{\"mcpServers\": {…}}'
  wharf add - < mcp.json"
)]
pub(crate) struct Add {
    /// Its name, or a whole block of JSON, or `-` to read a block from standard input
    #[arg(value_name = "NAME|BLOCK|-")]
    pub(crate) name: String,
    /// The entry of NAME as JSON, in place of a command
    #[arg(value_name = "ENTRY")]
    pub(crate) entry: Vec<String>,
    /// Program and arguments
    #[arg(value_name = "COMMAND", last = true)]
    pub(crate) command: Vec<String>,
    /// Variable for it; `${env:NAME}` takes one of the daemon's. May be repeated
    #[arg(long, short, value_name = "KEY=VALUE", value_parser = variable)]
    pub(crate) env: Vec<(String, String)>,
    /// Put this before the name of each of its tools
    #[arg(long, value_name = "TEXT")]
    pub(crate) prefix: Option<String>,
    /// Working directory, relative to the agent's workspace [default: the workspace]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<String>,
    /// Let its calls overlap, instead of one after the other
    #[arg(long)]
    pub(crate) parallel: bool,
    /// Folders it is told of when its client declares roots: the agent's workspace, or the client's own [default:
    /// workspace; none for a filesystem server that is given directories]
    #[arg(long, value_name = "WHICH", value_parser = ["none", "workspace", "client"])]
    pub(crate) roots: Option<String>,
    /// Replace a server of that name
    #[arg(long)]
    pub(crate) replace: bool,
    /// Register it switched off
    #[arg(long)]
    pub(crate) disabled: bool,
}

// No doc comment on what is shared by commands: it would become the help of each.
#[derive(Args, Debug)]
pub(crate) struct AsAgent {
    /// As this agent
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) agent: String,
}

/// Show one server in full: state, command, tools, last words
#[derive(Args, Debug)]
pub(crate) struct Show {
    /// The server
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) agent: AsAgent,
}

#[derive(Args, Debug)]
pub(crate) struct Named {
    /// The server
    pub(crate) name: String,
}

/// Stop a server's processes, so that the next call starts a fresh one
///
/// A failed start is forgotten too.
#[derive(Args, Debug)]
pub(crate) struct Restart {
    /// The server
    pub(crate) name: String,
    /// Only this agent's process [default: every agent's]
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
}

/// Print what servers wrote to standard error
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wharf logs github          the last 100 lines of one server
  wharf logs github -f       and those to come
  wharf logs -f              everything that happens: lines, states, calls, changes")]
pub(crate) struct Logs {
    /// The server [default: all of them]
    pub(crate) name: Option<String>,
    /// Go on with the lines to come, until Ctrl-C
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// How many lines of each server to begin with
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 100)]
    pub(crate) lines: usize,
}

/// Print what agents, owners and servers did: calls, changes, starts and ends
///
/// A line for each: when (UTC), who, what, and what came of it, after how long, by which approval; then the beginning of
/// the arguments, or a reason. Secrets are taken out, and results are not recorded. With `--json`, each is an object on
/// a line of its own.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  wharf journal                                       the latest 100 rows
  wharf journal -f --agent bot                        what one agent does, as it does it
  wharf journal --server github --kind call           the calls of one server
  wharf journal --since 2h                            all of the last two hours
  wharf journal --limit 0 --json > journal.jsonl      all there is
  wharf journal verify                                whether a row was altered, or is missing"
)]
pub(crate) struct Journal {
    #[command(subcommand)]
    pub(crate) command: Option<JournalCommand>,
    /// Go on with the rows to come, until Ctrl-C
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// How many rows, the latest; 0 for all [default: 100, or all with `--since`]
    #[arg(long, short = 'n', value_name = "COUNT")]
    pub(crate) limit: Option<usize>,
    /// Only what this agent did, or what is about it
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Only what is about this server
    #[arg(long, value_name = "NAME")]
    pub(crate) server: Option<String>,
    /// Only this kind, or group of kinds: call, request, approval, tools, config, lifecycle, security, bypass, gap
    #[arg(long, value_name = "KIND")]
    pub(crate) kind: Option<String>,
    /// Only from then on: `90s`, `15m`, `2h` or `7d` ago, or a date and time in UTC like `2026-01-31T12:00`
    #[arg(long, value_name = "TIME", value_parser = crate::commands::moment)]
    pub(crate) since: Option<u64>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum JournalCommand {
    /// Check that no row was altered, removed, put in or moved; exits with 1 where one was
    Verify,
}

/// List the tools an agent sees
///
/// Servers that were never listed are started for it, which can take some seconds. Those that could not be listed are
/// named on standard error.
#[derive(Args, Debug)]
pub(crate) struct Tools {
    #[command(flatten)]
    pub(crate) agent: AsAgent,
    /// Print whole descriptions and the schemas of the arguments
    #[arg(long)]
    pub(crate) schema: bool,
}

/// Call a tool
///
/// The tool is SERVER/TOOL, or the name under which agents see it, as `wharf tools` lists both. The text of the result
/// goes to standard output, other content as one line each; `--json` prints the whole result. Progress and log
/// messages go to standard error.
///
/// Arguments are KEY=VALUE. Where the tool's schema wants a text, or says nothing, a value is sent as it stands; where it
/// wants something else, the value is read as JSON.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wharf call everything/echo message='hello there'
  wharf call everything/get-sum a=1 b=2
  wharf call files/read_text_file path=notes.txt --json
  wharf call github/search_issues --args '{\"q\": \"is:open\", \"per_page\": 5}'")]
pub(crate) struct Call {
    /// SERVER/TOOL, or the name agents see
    #[arg(value_name = "TOOL")]
    pub(crate) tool: String,
    /// Arguments
    #[arg(value_name = "KEY=VALUE", value_parser = argument, conflicts_with = "args")]
    pub(crate) values: Vec<(String, String)>,
    /// All arguments, as a JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) args: Option<String>,
    #[command(flatten)]
    pub(crate) agent: AsAgent,
}

/// Print what `/mcp` tells in a chat
///
/// The same text as a chat program shows for `/mcp`, `/mcp NAME` and `/mcp restart NAME`. No model is asked.
#[derive(Args, Debug)]
#[command(
    override_usage = "wharf mcp [OPTIONS]\n       wharf mcp [OPTIONS] <NAME>\n       wharf mcp [OPTIONS] restart <NAME>",
    after_help = "\
Examples:
  wharf mcp                     a line for each server
  wharf mcp github              one server in full
  wharf mcp restart github      stop this agent's process; the next call starts a fresh one"
)]
pub(crate) struct Mcp {
    /// A server, or `restart` and a server
    #[arg(value_name = "NAME", num_args = 0..=2)]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) agent: AsAgent,
}

/// Manage the agents that use the tools
#[derive(Debug, Subcommand)]
pub(crate) enum Agent {
    /// Create an agent
    New(OneAgent),
    /// List the agents
    List,
    /// Show an agent
    Show(AgentName),
    /// Remove an agent, its sessions and its token
    Remove(OneAgent),
    /// Show how an MCP client connects as an agent
    ///
    /// By HTTP with a token, or by starting `wharf stdio`. The token lets its holder use the agent's tools: keep it secret.
    Endpoint(AgentName),
}

#[derive(Args, Debug)]
pub(crate) struct OneAgent {
    /// The agent
    pub(crate) name: String,
}

#[derive(Args, Debug)]
pub(crate) struct AgentName {
    /// The agent
    #[arg(default_value = "default")]
    pub(crate) name: String,
}

/// Check and show the configuration; needs no daemon
///
/// These commands read the files of the home folder and the variables of this shell, which may not be those that a
/// running daemon was started with.
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Report everything that is wrong with the configuration
    ///
    /// Each complaint has file and line, the key, what is wrong, and a way out where one is known. Exits with 1 when
    /// there are errors, since `wharf up` would not start then, and with 0 when there are none, or warnings alone.
    Check,
    /// Show every value in force, and where it came from
    ///
    /// Values of variables are not shown, since they are often secrets.
    Show(ConfigShow),
    /// Print where the files are
    Path,
}

#[derive(Args, Debug)]
pub(crate) struct ConfigShow {
    /// Leave out what nobody has set
    #[arg(long)]
    pub(crate) changed: bool,
}

/// Print a completion script for a shell
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wharf completions bash > ~/.local/share/bash-completion/completions/wharf
  wharf completions zsh > ~/.zfunc/_wharf
  wharf completions fish > ~/.config/fish/completions/wharf.fish")]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: Shell,
}

/// Print a man page
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wharf man > ~/.local/share/man/man1/wharf.1
  wharf man agent endpoint | man -l -")]
pub(crate) struct Man {
    /// The command it is about [default: all of them, in brief]
    pub(crate) command: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Guard {
    pub(crate) owner: String,
}

/// The name and the command of an `add` whose command does not stand after `--`, so that its options were taken for
/// ours.
pub(crate) fn command_without_dashes(words: &[OsString]) -> Option<(String, Vec<String>)> {
    let words: Vec<String> = words
        .iter()
        .filter_map(|word| word.clone().into_string().ok())
        .collect();
    let add = words.iter().position(|word| word == "add")?;
    let (name, command) = words.get(add + 1..)?.split_first()?;
    let starts = command
        .first()
        .is_some_and(|word| !word.starts_with(['-', '{']));
    (starts && !name.starts_with('-') && !command.iter().any(|word| word == "--"))
        .then(|| (name.clone(), command.to_vec()))
}

/// What people type, made what is meant: `add --json BLOCK` announces a block and doesn't ask for JSON output.
pub(crate) fn understand(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.collect();
    let end = words
        .iter()
        .position(|word| word == "--")
        .unwrap_or(words.len());
    let Some(add) = words[..end].iter().position(|word| word == "add") else {
        return words;
    };
    for at in add + 1..end {
        if words[at] == "--json"
            && words
                .get(at + 1)
                .is_some_and(|word| is_block(&word.to_string_lossy()))
        {
            words.remove(at);
            break;
        }
        let joined = words[at]
            .to_str()
            .and_then(|word| word.strip_prefix("--json="));
        if let Some(block) = joined.filter(|text| is_block(text)) {
            words[at] = block.into();
            break;
        }
    }
    words
}

/// Whether a word is the beginning of a block of servers, with its outer braces or without.
pub(crate) fn is_block(text: &str) -> bool {
    let text = text.trim_start();
    ["{", "\"", "//", "/*"]
        .iter()
        .any(|start| text.starts_with(start))
}

fn variable(text: &str) -> Result<(String, String), String> {
    pair(text)
        .ok_or_else(|| "expected KEY=VALUE, for example `API_URL=http://localhost`".to_owned())
}

fn argument(text: &str) -> Result<(String, String), String> {
    pair(text).ok_or_else(|| "expected KEY=VALUE, for example `message=hello`".to_owned())
}

fn pair(text: &str) -> Option<(String, String)> {
    let (key, value) = text.split_once('=')?;
    (!key.is_empty()).then(|| (key.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn json_before_a_block_announces_it() {
        let check = |line: &[&str], expect: &[&str]| {
            let words = line.iter().map(OsString::from);
            assert_eq!(understand(words), expect, "{line:?}");
        };
        check(&["wharf", "add", "--json", "{}"], &["wharf", "add", "{}"]);
        check(
            &["wharf", "add", "--json=\"a\": {}"],
            &["wharf", "add", "\"a\": {}"],
        );
        check(
            &["wharf", "--json", "add", "{}"],
            &["wharf", "--json", "add", "{}"],
        );
        check(
            &["wharf", "--json", "add", "--json", "{}"],
            &["wharf", "--json", "add", "{}"],
        );
        check(
            &["wharf", "add", "a", "--", "x", "--json", "{}"],
            &["wharf", "add", "a", "--", "x", "--json", "{}"],
        );
        check(
            &["wharf", "call", "--json", "{"],
            &["wharf", "call", "--json", "{"],
        );
    }
}
