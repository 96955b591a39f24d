//! The machine and the daemon. No server shows these; [`examine`](crate::doctor::examine) finds them.

use crate::doctor::Certainty::{Certain, Likely};
use crate::doctor::{Command, Failure};

/// A row that facts of the machine lead to.
const fn row(code: &'static str, title: &'static str, seen: &'static str) -> Failure {
    Failure {
        code,
        title,
        cause: "",
        fix: "",
        command: Command::None,
        certainty: Certain,
        looks: &[],
        seen,
        fixable: false,
    }
}

pub(super) const ROWS: &[Failure] = &[
    Failure {
        cause: "the home folder {path} can't be used: {why}",
        fix: "make it a folder that you own and can write to, or name another one with `--home DIR` or `WHARFINGER_HOME`",
        command: Command::Words("ls -ld {path}"),
        ..row(
            "WF-001",
            "The home folder can't be used",
            "the home is no folder, or can't be written to",
        )
    },
    Failure {
        cause: "{path} has mode {mode}, so other users of this machine can look into it",
        fix: "close it to others; a daemon does so when it starts",
        command: Command::Words("chmod 700 {path}"),
        fixable: true,
        ..row(
            "WF-002",
            "The home folder is open to others",
            "the mode of the home is not 700",
        )
    },
    Failure {
        cause: "{path} has mode {mode}, and who can read it can act as you",
        fix: "close it to others; if somebody may have read a token, delete its file, and the daemon makes another at its next start",
        command: Command::Words("chmod 600 {path}"),
        fixable: true,
        ..row(
            "WF-003",
            "A private file is open to others",
            "a token, key or database in the home has a mode other than 600",
        )
    },
    Failure {
        cause: "{path} is left of a daemon that was killed; nobody answers there",
        fix: "nothing needs to be done: the next daemon replaces it; `--fix` removes it",
        command: Command::Words("rm {path}"),
        fixable: true,
        ..row(
            "WF-004",
            "The socket of a dead daemon",
            "the socket file is there, and no daemon holds the home",
        )
    },
    Failure {
        cause: "another program uses {port}, where the daemon is to listen",
        fix: "stop that program, or let the daemon listen elsewhere, for good with `daemon.listen` in config.json",
        command: Command::Words("wharf up --listen 127.0.0.1:0"),
        ..row(
            "WF-005",
            "The port is taken",
            "`can't listen on 127.0.0.1:…: Address already in use`",
        )
    },
    Failure {
        cause: "a daemon holds {path} and does not answer",
        fix: "look at what it says in daemon.log, end it, and start another",
        command: Command::Words("kill {pid}"),
        certainty: Likely,
        ..row(
            "WF-006",
            "A daemon that does not answer",
            "the home is held, and nobody answers at its socket",
        )
    },
    Failure {
        cause: "{free} are left on the disk of {path}; servers, their installs and the journal need more",
        fix: "make room there",
        command: Command::Words("df -h {path}"),
        ..row(
            "WF-007",
            "The disk is full",
            "less than 100 MB are free where the home is",
        )
    },
    Failure {
        cause: "the clock of this machine is wrong: {why}",
        fix: "set the clock; certificates and tokens do not hold until then",
        command: Command::Words("timedatectl set-ntp true"),
        certainty: Likely,
        ..row(
            "WF-008",
            "The clock is wrong",
            "files of the home are from the future",
        )
    },
    Failure {
        cause: "in the configuration, {why}",
        fix: "{hint}",
        command: Command::Words("wharf config check"),
        ..row(
            "WF-009",
            "The configuration has an error",
            "an error of `wharf config check`; no daemon starts until it is mended",
        )
    },
    Failure {
        cause: "in the configuration, {why}",
        fix: "{hint}",
        command: Command::Words("wharf config check"),
        ..row(
            "WF-010",
            "The configuration has a warning",
            "a warning of `wharf config check`",
        )
    },
    Failure {
        cause: "{path} is longer than a socket's path may be on this system, so no daemon can listen there",
        fix: "use a home with a shorter path, with `--home DIR` or `WHARFINGER_HOME`",
        ..row(
            "WF-011",
            "The path of the home is too long",
            "the path of the socket has more than 107 bytes",
        )
    },
    Failure {
        cause: "an emergency stop is in force: {why}",
        fix: "end it when it is over",
        command: Command::Words("wharf release"),
        ..row(
            "WF-012",
            "Everything was stopped",
            "`every MCP server was stopped`",
        )
    },
    Failure {
        cause: "{path} can't be used: {why}",
        fix: "move it away and start again, with an empty journal; agents and servers are kept elsewhere",
        command: Command::Words("mv {path} {path}.broken"),
        ..row(
            "WF-013",
            "The database can't be used",
            "`wharfinger.db` is no database",
        )
    },
    Failure {
        cause: "{path} belongs to another user, since a daemon once ran as that one",
        fix: "give it back to yourself",
        command: Command::Words("sudo chown -R \"$(id -u)\" {path}"),
        ..row(
            "WF-014",
            "The home belongs to another user",
            "the owner of the home is not who runs `wharf`",
        )
    },
    Failure {
        cause: "the daemon does not answer as it should: {why}",
        fix: "it is probably of another version; stop it and start this one",
        command: Command::Words("wharf stop"),
        certainty: Likely,
        ..row(
            "WF-015",
            "The daemon is of another version",
            "the daemon answers, but knows no `/api/doctor`",
        )
    },
];
