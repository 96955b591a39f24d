//! The modes given on the command line. The table is the reference: a name that isn't in it is
//! refused, so that a typing error in a test can't pass for good behaviour.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

/// Every mode: its name, with `=` where it takes a value, and what it does.
#[rustfmt::skip]
pub(crate) const TABLE: &[(&str, &str)] = &[
    // Starting and stopping
    ("banner", "plain text on stdout before anything else"),
    ("die-before-init=CODE", "complains about a missing key on stderr and exits at once"),
    ("count-starts=FILE", "appends a line with its pid at each start"),
    ("record=FILE", "appends each received line"),
    ("stderr=TEXT", "a line on stderr at start; may be repeated"),
    ("stderr-flood=BYTES", "that much stderr, written while it serves"),
    ("ignore-term", "survives SIGTERM"),
    ("ignore-eof", "stays for ten minutes after its input closed"),
    ("eof-delay-ms=MS", "leaves that long after its input closed"),
    ("exit-on-eof-code=N", "the exit code of an orderly end"),
    ("fork-child", "starts a grandchild that keeps stdout open"),
    ("setsid-child", "starts a grandchild in a session of its own"),
    ("stubborn-child", "that grandchild survives SIGTERM"),
    ("child-pid=FILE", "that grandchild writes its pid there, once it is as described"),
    // The handshake
    ("slow-init=SECONDS", "answers `initialize` that late"),
    ("never-init", "never answers `initialize`"),
    ("init-error", "answers `initialize` with an error"),
    ("init-bad-version", "answers `initialize` with protocol version 1999-01-01"),
    ("protocol=V", "answers `initialize` with protocol version V"),
    ("name=NAME", "the name in serverInfo"),
    ("version=V", "the version in serverInfo"),
    ("instructions=TEXT", "instructions for the model"),
    ("no-tools-capability", "does not say that it has tools"),
    ("modern", "answers `server/discover` and then serves 2026-07-28 only: `initialize` gets -32022"),
    ("modern-only", "the same, and `initialize` is refused from the start"),
    ("modern-unlocked", "the same, and `initialize` still works after `server/discover`"),
    ("discover-silent", "never answers `server/discover`, nor anything after it"),
    ("discover-dies", "exits with 3 on `server/discover`"),
    ("discover-error=CODE", "answers `server/discover` with that error"),
    ("notify-after-init=N", "N times tools/list_changed right after `initialized`"),
    ("notify-flood=N", "N log notifications right after its answer to `initialize`"),
    ("ping-me=SECONDS", "pings the client that often"),
    ("no-pong", "never answers a ping"),
    ("roots", "asks for roots after `initialized`; the tool `roots` tells the answer"),
    // The list of tools
    ("tool=NAME", "exactly these tools; may be repeated"),
    ("tools=N", "N tools: tool_0, tool_1, …"),
    ("pages=N", "tools/list comes in N pages"),
    ("page-loop", "tools/list ends with the same cursor for ever"),
    ("no-reply-to-list", "never answers tools/list"),
    ("weird-tools", "fifteen tools with legal but awkward names and schemas"),
    ("odd-tool", "a few tools that aren't legal, among good ones"),
    ("dup-tools", "every tool twice"),
    ("huge-line-tools=N", "N more tools of a kilobyte each"),
    ("deep=N", "a schema that is N levels deep"),
    ("schema-by-start=FILE", "other tools at each start, counted in FILE"),
    ("list-changed=SECONDS", "one more tool that often, with tools/list_changed"),
    ("list-changed-on-call", "one more tool with each call, with tools/list_changed"),
    // Beside tools
    ("prompt=NAME", "a prompt; may be repeated"),
    ("resource=URI", "a resource; may be repeated"),
    ("template=TEXT", "a resource template; may be repeated"),
    ("ttl=MS", "how long its lists and resources may be kept (2026-07-28)"),
    ("complete", "completes arguments of prompts and templates"),
    ("touch", "each call tells that every resource somebody listens for has changed"),
    ("tasks", "calls become tasks where the client wants that"),
    // Calls
    ("link=URI", "each result ends with a link to that resource"),
    ("say=TEXT", "the text of each result"),
    ("hang-call", "never answers a call"),
    ("slow-call=SECONDS", "answers that late, unless the call is cancelled"),
    ("wait-for=FILE", "answers as soon as FILE exists, unless the call is cancelled"),
    ("cancel-file=FILE", "appends the id of each cancelled request"),
    ("progress=N", "N progress notifications before each answer, if the call has a token"),
    ("progress-pause-ms=MS", "and so long a pause after each"),
    ("log=LEVEL", "a log notification of that level during each call"),
    ("ask=METHOD", "each call first asks the client: roots/list, sampling/createMessage or elicitation/create; may be repeated (2026-07-28 asks all at once)"),
    ("crash-after=N", "exits with 42 on the Nth call, without an answer"),
    ("crash-mid-line", "exits with 41 in the middle of its answer"),
    ("truncated-reply", "exits with 3 after half of its answer"),
    ("invalid-json-reply", "the answer isn't JSON"),
    ("garbage", "plain text on stdout before each answer"),
    ("utf8-bad", "a line that isn't UTF-8 before each answer"),
    ("crlf", "lines end with CR LF"),
    ("wrong-id", "calls are answered under another id (`wrong-id=all`: lists and pings too)"),
    ("dup-reply", "each answer comes twice"),
    ("batch-reply", "the answer is in a JSON array"),
    ("null-result", "the result is null"),
    ("error-as-result", "an error told as an ordinary result"),
    ("tool-error", "a result with isError"),
    ("error-no-message", "an error object without a message"),
    ("huge=BYTES", "a result text of that size"),
    ("nan", "structured content with NaN, which isn't JSON"),
    ("big-int", "structured content with an integer of 71 bits"),
];

/// The modes of this run.
#[derive(Debug, Default)]
pub(crate) struct Modes(HashMap<String, Vec<String>>);

impl Modes {
    /// Reads the command line; the error is the first unknown mode.
    pub(crate) fn read(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut modes = Self::default();
        for argument in arguments {
            let (name, value) = argument.split_once('=').unwrap_or((&argument, ""));
            if !TABLE
                .iter()
                .any(|(known, _)| known.split('=').next() == Some(name))
            {
                return Err(argument);
            }
            modes
                .0
                .entry(name.to_owned())
                .or_default()
                .push(value.to_owned());
        }
        Ok(modes)
    }

    pub(crate) fn on(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(crate) fn any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.on(name))
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.all(name).last().map(String::as_str)
    }

    pub(crate) fn all(&self, name: &str) -> &[String] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn file(&self, name: &str) -> Option<&Path> {
        self.text(name).map(Path::new)
    }

    /// A count, for example of bytes. A value that isn't one counts as none.
    pub(crate) fn count(&self, name: &str) -> Option<usize> {
        self.text(name)?.parse().ok()
    }

    pub(crate) fn code(&self, name: &str) -> Option<i32> {
        self.text(name)?.parse().ok()
    }

    pub(crate) fn seconds(&self, name: &str) -> Option<Duration> {
        self.text(name)?
            .parse()
            .ok()
            .and_then(|value| Duration::try_from_secs_f64(value).ok())
    }

    pub(crate) fn milliseconds(&self, name: &str) -> Option<Duration> {
        self.text(name)?.parse().ok().map(Duration::from_millis)
    }
}
