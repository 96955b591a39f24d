//! What is made from the definition of the command line.

use std::io::Read as _;

use insta::assert_snapshot;

use crate::support::Wharf;

#[test]
fn the_reference_page_is_up_to_date() {
    let output = Wharf::new().command(&["__docs"]).output().unwrap();
    let made = String::from_utf8(output.stdout).unwrap();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        made == kept,
        "docs/cli.md is stale: `cargo run -p wharf -- __docs > docs/cli.md` refreshes it"
    );
}

#[test]
fn help_is_documentation() {
    let wharf = Wharf::new();
    assert_snapshot!(wharf.run(&["-h"]), @"
    $ wharf -h
    Run MCP servers once, for all your agents

    Usage: wharf [OPTIONS] <COMMAND>

    Commands:
      up           Run the daemon
      status       Tell whether the daemon runs, where it listens, and what is wrong
      doctor       Find out what is wrong, why, and what mends it
      stop         Stop the daemon, the processes of one server, or everything at once
      release      End an emergency stop: servers may start again, each when it is next wanted
      add          Register a server
      search       Look for servers: in the list of known ones, and in the official registry
      registry     Show the list of known servers; needs no daemon
      list         List the servers and what they are doing
      show         Show one server in full: state, command, tools, last words
      install      Install the package of a server, or of all of them
      outdated     List installed packages that there is a newer version of
      upgrade      Go to another version of a server's package, or back
      remove       Remove a server from `settings.json` and stop its processes
      enable       Switch a server on
      disable      Switch a server off: it keeps its entry and its name, but is not started and offers
                   no tools
      restart      Stop a server's processes, so that the next call starts a fresh one
      test         Test the connection to a server: start it once, as for its first listing, and say how
                   that went
      logs         Print what servers wrote to standard error
      journal      Print what agents, owners and servers did: calls, changes, starts and ends
      tools        List the tools an agent sees, or manage those of an agent you do not fully trust
      call         Call a tool
      approvals    List the calls that wait for your approval
      approve      Approve a call that waits
      deny         Deny a call that waits
      mcp          Print what `/mcp` tells in a chat
      stdio        Serve MCP on standard input and output, as an agent: the command for MCP clients
      clients      List the MCP clients of this machine, and whether they are connected
      import       Take over the servers that an MCP client has
      connect      Write our entry into an MCP client's configuration
      disconnect   Take our entry out of an MCP client's configuration
      agent        Manage the agents that use the tools
      secret       Keep the keys of servers sealed, and out of settings.json
      config       Check and show the configuration; needs no daemon
      completions  Print a completion script for a shell
      man          Print a man page

    Options:
      -h, --help     Print help (see more with '--help')
      -V, --version  Print version

    Global options:
          --home <DIR>  Home folder: configuration, database, socket [default: ~/.wharfinger]
          --json        Answer in JSON, with the same facts as the admin API

    Begin with `wharf up`, or `wharf up --try` to see it at work.
    ");
    assert_snapshot!(wharf.run(&["call", "--help"]), @r#"
    $ wharf call --help
    Call a tool

    The tool is SERVER/TOOL, or the name under which agents see it, as `wharf tools` lists both. The
    text of the result goes to standard output, other content as one line each; `--json` prints the
    whole result. Progress and log messages go to standard error.

    Arguments are KEY=VALUE. Where the tool's schema wants a text, or says nothing, a value is sent as
    it stands; where it wants something else, the value is read as JSON.

    A restricted tool of an agent waits here as it does everywhere: until `wharf approve` or `wharf
    deny`.

    Usage: wharf call [OPTIONS] <TOOL> [KEY=VALUE]...

    Arguments:
      <TOOL>
              SERVER/TOOL, or the name agents see

      [KEY=VALUE]...
              Arguments

    Options:
          --args <JSON>
              All arguments, as a JSON object

          --agent <NAME>
              As this agent
              
              [default: default]

          --as-owner
              Past everything that the agent is held to: no approval is asked, and the journal says so

      -h, --help
              Print help (see a summary with '-h')

    Global options:
          --home <DIR>
              Home folder: configuration, database, socket [default: ~/.wharfinger]

          --json
              Answer in JSON, with the same facts as the admin API

    Examples:
      wharf call everything/echo message='hello there'
      wharf call everything/get-sum a=1 b=2
      wharf call files/read_text_file path=notes.txt --json
      wharf call github/search_issues --args '{"q": "is:open", "per_page": 5}'
    "#);
}

#[test]
fn man_pages_and_completions_are_made() {
    let wharf = Wharf::new();
    let page = wharf.run(&["man"]);
    assert!(
        page.contains(".TH wharf 1") && page.contains("wharf\\-agent(1)"),
        "{page}"
    );
    let page = wharf.run(&["man", "agent", "endpoint"]);
    assert!(page.contains(".TH wharf-agent-endpoint 1"), "{page}");
    assert_snapshot!(wharf.run(&["man", "agents"]), @"
    $ wharf man agents
    ! error: `wharf` has no command `agents`
    ! hint: `wharf --help` lists them
    [exit 2]
    ");
    for shell in ["bash", "zsh", "fish"] {
        let script = wharf.run(&["completions", shell]);
        assert!(script.contains("endpoint"), "{shell}: {script}");
    }
}

#[test]
fn a_reader_that_has_enough_is_no_failure() {
    let wharf = Wharf::new();
    let mut child = wharf.command(&["__docs"]).spawn().unwrap();
    drop(child.stdout.take());
    let mut stderr = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut stderr)
        .unwrap();
    assert_eq!(
        (child.wait().unwrap().code(), stderr.as_str()),
        (Some(0), "")
    );
}
