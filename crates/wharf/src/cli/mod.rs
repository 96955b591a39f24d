//! The command line: every command, option and word of help. `docs/cli.md`, the man page and the completions are made
//! from this.

mod clients;
pub(crate) mod doctor;
mod packages;
mod registry;
pub(crate) mod secret;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use wharfinger::model::expand::is_key;

pub(crate) use self::clients::{Clients, Connect, Disconnect, Import, Which};
pub(crate) use self::packages::{Install, OfPackage, Outdated, Remove, Upgrade};
pub(crate) use registry::{Known, Registry, Search, Test};

const EXIT_CODES: &str = "\
Exit codes:
  0    it worked
  1    the operation failed, or the tool returned an error
  2    wrong usage, or invalid configuration
  3    no daemon runs
  4    unknown server, agent or tool
  130  interrupted

Environment:
  WHARFINGER_HOME             the home folder, unless `--home` names one
  WHARFINGER_PASSPHRASE_FILE  the file with the passphrase of the vault, for `wharf up`
  NO_COLOR                    when set, nothing is coloured
  RUST_LOG                    what the daemon logs, unless `--log` says so";

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
    Doctor(doctor::Doctor),
    Stop(Stop),
    /// End an emergency stop: servers may start again, each when it is next wanted
    Release,
    Add(Box<Add>),
    Search(Search),
    #[command(subcommand)]
    Registry(Registry),
    /// List the servers and what they are doing
    List(AsAgent),
    Show(Show),
    Install(Install),
    Outdated(Outdated),
    Upgrade(Upgrade),
    Remove(Remove),
    /// Switch a server on
    Enable(Named),
    /// Switch a server off: it keeps its entry and its name, but is not started and offers no tools
    Disable(Named),
    Restart(Restart),
    Test(Test),
    Logs(Logs),
    Journal(Journal),
    Tools(Tools),
    Call(Call),
    Approvals(Approvals),
    Approve(Approve),
    Deny(Deny),
    Mcp(Mcp),
    /// Serve MCP on standard input and output, as an agent: the command for MCP clients
    ///
    /// Connects to the daemon, and starts one in the background when none runs; its log is then `daemon.log` in the
    /// home folder. Ends with its input. `wharf agent endpoint` prints what to write in a client's configuration.
    Stdio(AsAgent),
    Clients(Clients),
    Import(Import),
    Connect(Connect),
    Disconnect(Disconnect),
    #[command(subcommand)]
    Agent(Agent),
    #[command(subcommand)]
    Secret(secret::Secret),
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
    /// Open the vault with the passphrase in this file, and put a new vault under it [default:
    /// `WHARFINGER_PASSPHRASE_FILE`; else, where one is needed, it is asked for]
    #[arg(long, value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,
    /// What `--background` starts.
    #[arg(long, hide = true, conflicts_with_all = ["background", "trial"])]
    pub(crate) background_child: bool,
    /// The environment is that of some MCP client, and not worth remembering.
    #[arg(long, hide = true)]
    pub(crate) for_client: bool,
}

/// Stop the daemon, the processes of one server, or everything at once
///
/// Without a name: asks the daemon to stop all servers and end, and waits until it has. With one: stops that server's
/// processes; the next call starts a fresh one.
///
/// With `--all`, an emergency stop: every call and every server of every agent ends at once, calls that wait for an
/// approval are refused, and nothing starts any more, also after a restart of the daemon, until `wharf release`. The
/// daemon itself runs on.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wharf stop                                  the daemon, with everything it runs
  wharf stop github                           the processes of one server
  wharf stop --all --reason 'bot ran wild'    an emergency stop")]
pub(crate) struct Stop {
    /// Server whose processes to stop
    #[arg(value_name = "NAME", conflicts_with = "all")]
    pub(crate) name: Option<String>,
    /// Emergency stop: end every call and every server, and start none until `wharf release`
    #[arg(long)]
    pub(crate) all: bool,
    /// Why, for whoever finds everything stopped
    #[arg(long, value_name = "TEXT", requires = "all")]
    pub(crate) reason: Option<String>,
}

/// Register a server
///
/// It is written to `settings.json` in the home folder, started once to learn its tools, and offered to every agent.
/// Takes the name of a known server (`wharf search`), a command, or the JSON block that a server's README has for other clients: in any of their shapes, with all
/// its members, whether those mean anything here or not.
///
/// As people try it, `--json` directly before a block is taken to announce the block, and not as the global option; put
/// the global one before `add` to have both.
#[derive(Args, Debug)]
#[command(
    override_usage = "wharf add [OPTIONS] <NAME>\n       wharf add [OPTIONS] <NAME> -- <COMMAND>...\n       wharf add [OPTIONS] <NAME> --npm|--pypi <PACKAGE> [-- <ARGS>...]\n       wharf add [OPTIONS] <NAME> <ENTRY>\n       wharf add [OPTIONS] <BLOCK>\n       wharf add [OPTIONS] -",
    after_help = "\
Examples:
  wharf add time
  wharf add filesystem --arg allowed-dir=~/notes
  wharf add github --secret-file GITHUB_PERSONAL_ACCESS_TOKEN=token.txt
  wharf add time -- uvx mcp-server-time
  wharf add memory --npm @modelcontextprotocol/server-memory
  wharf add github --env GITHUB_TOKEN -- npx -y @modelcontextprotocol/server-github
  wharf add time '{\"command\": \"uvx\", \"args\": [\"mcp-server-time\"]}'
  wharf add '{\"mcpServers\": {\"time\": {\"command\": \"uvx\", \"args\": [\"mcp-server-time\"]}}}'
  wharf add --json '{\"mcpServers\": {…}}'
  wharf add - < mcp.json"
)]
pub(crate) struct Add {
    /// The name of a known server, or a name for what follows, or a whole block of JSON, or `-` to read a block from
    /// standard input
    #[arg(value_name = "NAME|BLOCK|-")]
    pub(crate) name: String,
    /// The entry of NAME as JSON, in place of a command
    #[arg(value_name = "ENTRY")]
    pub(crate) entry: Vec<String>,
    /// Program and arguments
    #[arg(value_name = "COMMAND", last = true)]
    pub(crate) command: Vec<String>,
    /// Variable for it; `${env:NAME}` takes one of the daemon's. KEY alone is a secret that it needs: asked for on a
    /// terminal, and kept sealed (`wharf secret`); of a known server, it is taken from this shell. May be repeated
    #[arg(long, short, value_name = "KEY[=VALUE]", value_parser = variable)]
    pub(crate) env: Vec<(String, Option<String>)>,
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
    #[command(flatten)]
    pub(crate) package: OfPackage,
    #[command(flatten)]
    pub(crate) known: Known,
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

/// List the tools an agent sees, or manage those of an agent you do not fully trust
///
/// Without a subcommand: the tools as the agent's model sees them. Servers that were never listed are started for it,
/// which can take some seconds. Those that could not be listed are named on standard error.
///
/// The subcommands are for agents of the agent profile, whose tools have switches. TOOL is the name that the agent sees,
/// or SERVER/TOOL; SERVER/ is all tools of a server. `--agent` may be left out where there is one such agent.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  wharf tools --agent bot                       what its model sees
  wharf tools list --agent bot                  all it has, with the switches of each
  wharf tools unrestrict mcp_time_convert_time  its calls need nobody from now on
  wharf tools disable github/                   none of that server may be called
  wharf tools diff                              what changed since it was reviewed
  wharf tools review mcp_time_convert_time --accept"
)]
pub(crate) struct Tools {
    #[command(subcommand)]
    pub(crate) command: Option<ToolsCommand>,
    #[command(flatten)]
    pub(crate) agent: AsAgent,
    /// Print whole descriptions and the schemas of the arguments
    #[arg(long)]
    pub(crate) schema: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ToolsCommand {
    /// List the tools of an agent with their switches
    ///
    /// `on` may be called, `hidden` is on but not told to the model, `asks` waits for a person at each call, `locked`
    /// stays as it is. REVIEW says what waits for `wharf tools diff`, or that a tool is new.
    List(OfAgent),
    /// Show one tool with its whole definition; its server need not run
    Show(OneTool),
    /// Let tools be called, and show them to the model
    Enable(SomeTools),
    /// Let tools not be called any more
    Disable(SomeTools),
    /// Tell the model of tools
    Unhide(SomeTools),
    /// Tell the model nothing of tools; code may still call them
    Hide(SomeTools),
    /// Make each call of tools wait for a person
    Restrict(SomeTools),
    /// Let tools be called without asking anybody
    Unrestrict(SomeTools),
    /// Keep a tool's row as it is, against everything but `unlock`
    Lock(OneTool),
    /// Allow changes of a tool's row again
    Unlock(OneTool),
    /// Show how tools differ from what was reviewed, and what is suspicious about them
    ///
    /// A tool whose definition changed is off until you accept it.
    Diff(DiffTool),
    Review(ReviewTool),
}

#[derive(Args, Debug)]
pub(crate) struct OfAgent {
    /// Whose [default: the one agent of the agent profile]
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct OneTool {
    /// The name that the agent sees, or SERVER/TOOL
    #[arg(value_name = "TOOL")]
    pub(crate) tool: String,
    #[command(flatten)]
    pub(crate) of: OfAgent,
}

#[derive(Args, Debug)]
pub(crate) struct SomeTools {
    /// The name that the agent sees, or SERVER/TOOL, or SERVER/ for all of a server that are not locked
    #[arg(value_name = "TOOL|SERVER/", required_unless_present = "server")]
    pub(crate) tool: Option<String>,
    /// All tools of this server that are not locked
    #[arg(long, value_name = "NAME", conflicts_with = "tool")]
    pub(crate) server: Option<String>,
    #[command(flatten)]
    pub(crate) of: OfAgent,
}

#[derive(Args, Debug)]
pub(crate) struct DiffTool {
    /// The name that the agent sees, or SERVER/TOOL [default: all that wait for a review]
    #[arg(value_name = "TOOL")]
    pub(crate) tool: Option<String>,
    #[command(flatten)]
    pub(crate) of: OfAgent,
}

/// Decide about a tool that changed since it was reviewed
///
/// An accepted tool is on as it is now; whether its calls wait for a person stays as it is. A rejected one stays off.
#[derive(Args, Debug)]
#[command(
    group = clap::ArgGroup::new("decision").required(true),
    after_help = "\
Examples:
  wharf tools diff mcp_time_convert_time
  wharf tools review mcp_time_convert_time --accept --seen 3f2a91c05b7e
  wharf tools review mcp_time_convert_time --reject"
)]
pub(crate) struct ReviewTool {
    /// The name that the agent sees, or SERVER/TOOL
    #[arg(value_name = "TOOL")]
    pub(crate) tool: String,
    /// Trust it as it is now
    #[arg(long, group = "decision")]
    pub(crate) accept: bool,
    /// Leave it off
    #[arg(long, group = "decision")]
    pub(crate) reject: bool,
    /// Only if it still is what `wharf tools diff` showed, which prints this
    #[arg(long, value_name = "HASH", requires = "accept")]
    pub(crate) seen: Option<String>,
    #[command(flatten)]
    pub(crate) of: OfAgent,
}

/// Call a tool
///
/// The tool is SERVER/TOOL, or the name under which agents see it, as `wharf tools` lists both. The text of the result
/// goes to standard output, other content as one line each; `--json` prints the whole result. Progress and log
/// messages go to standard error.
///
/// Arguments are KEY=VALUE. Where the tool's schema wants a text, or says nothing, a value is sent as it stands; where it
/// wants something else, the value is read as JSON.
///
/// A restricted tool of an agent waits here as it does everywhere: until `wharf approve` or `wharf deny`.
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
    /// Past everything that the agent is held to: no approval is asked, and the journal says so
    #[arg(long)]
    pub(crate) as_owner: bool,
}

/// List the calls that wait for your approval
///
/// A restricted tool is called when you say so: `wharf approve ID`. Who called may wait, or be told to come back for the
/// result; either way nothing runs before.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wharf approvals                what waits
  wharf approvals --watch        and what comes and goes, until Ctrl-C
  wharf approvals --json         for programs: a list; with --watch, an object on each line")]
pub(crate) struct Approvals {
    /// Go on with those to come, and with what becomes of each, until Ctrl-C
    #[arg(long)]
    pub(crate) watch: bool,
    /// Also those that were approved and run, or whose result was not collected yet
    #[arg(long, conflicts_with = "watch")]
    pub(crate) all: bool,
}

/// Approve a call that waits
///
/// It is made at once where somebody waits for it or was told that it will be. Everything it hangs on is looked at again
/// then: a tool that changed meanwhile is not called.
#[derive(Args, Debug)]
#[command(
    group = clap::ArgGroup::new("scope"),
    after_help = "\
Examples:
  wharf approve task_k3v9x2m7q1zd
  wharf approve task_k3v                                 the beginning is enough where it is one call's alone
  wharf approve task_k3v9x2m7q1zd --args '{\"path\": \"/tmp/a\"}'
  wharf approve task_k3v9x2m7q1zd --always"
)]
pub(crate) struct Approve {
    /// As `wharf approvals` lists it, or its first 8 characters or more
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Make it with these arguments instead
    #[arg(long, value_name = "JSON")]
    pub(crate) args: Option<String>,
    /// Also every further call of this tool in the same session
    #[arg(long, group = "scope")]
    pub(crate) session: bool,
    /// Also every further call of this tool with exactly these arguments, until the daemon ends
    #[arg(long, group = "scope")]
    pub(crate) arguments: bool,
    /// From now on the tool needs no approval, as with `wharf tools unrestrict`
    #[arg(long, group = "scope")]
    pub(crate) always: bool,
}

/// Deny a call that waits
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wharf deny task_k3v9x2m7q1zd
  wharf deny task_k3v9x2m7q1zd --reason 'not on a Friday'")]
pub(crate) struct Deny {
    /// As `wharf approvals` lists it, or its first 8 characters or more
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// What the model is told
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
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
    New(NewAgent),
    /// List the agents
    List,
    /// Show an agent: its servers, its settings, what waits
    Show(AgentName),
    /// Give an agent a server that is registered
    ///
    /// Its tools arrive restricted, unless `--new-tools-restricted off` was set: each call waits for `wharf approve`.
    /// An agent that runs has them at once.
    Attach(AgentServer),
    /// Take a server from an agent, with everything that was set of its tools
    Detach(AgentServer),
    Set(AgentSet),
    /// Write a copy of an agent's file, which holds everything that is its own
    Export(AgentExport),
    Import(AgentImport),
    /// Let what servers in an agent's file from elsewhere would run be run
    Confirm(OneAgent),
    /// Remove an agent, its file, its sessions and its token
    ///
    /// What is in its file goes with it; `wharf agent export` keeps a copy. Its workspace stays.
    Remove(OneAgent),
    /// Show how an MCP client connects as an agent
    ///
    /// By HTTP with a token, or by starting `wharf stdio`. The token lets its holder use the agent's tools: keep it secret.
    Endpoint(AgentName),
}

/// Create an agent
///
/// With the profile `chat` it has every server, and its calls need nobody. With the profile `agent` it has what you
/// attach, and new tools wait for your approval at each call.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wharf agent new alice
  wharf agent new bot --profile agent")]
pub(crate) struct NewAgent {
    /// Letters, digits, `.`, `_` and `-`
    pub(crate) name: String,
    /// How far it is trusted
    #[arg(long, value_name = "PROFILE", value_parser = ["chat", "agent"], default_value = "chat")]
    pub(crate) profile: String,
}

#[derive(Args, Debug)]
pub(crate) struct AgentServer {
    /// The agent
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The server
    #[arg(value_name = "SERVER")]
    pub(crate) server: String,
}

/// Change settings of an agent, or of one server of it
#[derive(Args, Debug)]
#[command(
    group = clap::ArgGroup::new("setting").multiple(true).required(true),
    after_help = "\
Examples:
  wharf agent set bot --new-tools-restricted off       tools of servers attached from now on need nobody
  wharf agent set bot --accept-changes cosmetic        a changed spelling needs no review
  wharf agent set bot --server time --accept-changes wider --restricted off"
)]
pub(crate) struct AgentSet {
    /// The agent
    pub(crate) name: String,
    /// Whether calls of new tools wait for a person
    #[arg(long, value_name = "ON|OFF", value_parser = on_off, group = "setting", conflicts_with = "server")]
    pub(crate) new_tools_restricted: Option<bool>,
    /// Which changes of tools are taken without a review: `cosmetic` ones change nothing that matters, `wider` ones
    /// only allow more
    #[arg(long, value_name = "CHANGES", value_parser = ["nothing", "cosmetic", "wider"], group = "setting")]
    pub(crate) accept_changes: Option<String>,
    /// Whether whoever sits at the agent's client may approve its calls
    #[arg(long, value_name = "ON|OFF", value_parser = on_off, group = "setting", conflicts_with = "server")]
    pub(crate) ask_client: Option<bool>,
    /// Whether its servers run also while no session of it is open
    #[arg(long, value_name = "ON|OFF", value_parser = on_off, group = "setting", conflicts_with = "server")]
    pub(crate) always_active: Option<bool>,
    /// Whether servers that the agent installs may run on this machine
    #[arg(long, value_name = "ON|OFF", value_parser = on_off, group = "setting", conflicts_with = "server")]
    pub(crate) host_access: Option<bool>,
    /// Set it of this server alone
    #[arg(long, value_name = "SERVER")]
    pub(crate) server: Option<String>,
    /// Whether tools of the server that the agent's file does not name wait for a person
    #[arg(long, value_name = "ON|OFF", value_parser = on_off, group = "setting", requires = "server")]
    pub(crate) restricted: Option<bool>,
}

#[derive(Args, Debug)]
pub(crate) struct AgentExport {
    /// The agent
    pub(crate) name: String,
    /// Where to; it ends in `.adf`, and nothing may be there yet
    pub(crate) file: PathBuf,
}

/// Take a copy of a file in as an agent
///
/// A file from elsewhere may bring servers of its own. What they would run is shown, and you are asked; where there is
/// no terminal to ask at, `--yes` is the answer.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wharf agent import bot.adf
  wharf agent import bot.adf --name bot2 --yes")]
pub(crate) struct AgentImport {
    /// It ends in `.adf`
    pub(crate) file: PathBuf,
    /// Under this name [default: the one in the file]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// What its servers would run may be run
    #[arg(long)]
    pub(crate) yes: bool,
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

fn variable(text: &str) -> Result<(String, Option<String>), String> {
    if let Some((name, value)) = pair(text) {
        return Ok((name, Some(value)));
    }
    if text.contains('=') || !is_key(text) {
        return Err(
            "expected KEY=VALUE, or KEY alone for a secret, for example `API_URL=http://localhost`"
                .to_owned(),
        );
    }
    Ok((text.to_owned(), None))
}

fn argument(text: &str) -> Result<(String, String), String> {
    pair(text).ok_or_else(|| "expected KEY=VALUE, for example `message=hello`".to_owned())
}

fn on_off(text: &str) -> Result<bool, String> {
    match text {
        "on" | "true" | "yes" => Ok(true),
        "off" | "false" | "no" => Ok(false),
        _ => Err("expected `on` or `off`".to_owned()),
    }
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
