//! Grandchildren of the tested program: they outlive their parent unless somebody sees to them.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;

use crate::modes::Modes;
use crate::startup::{TEN_MINUTES, survive_term};
use crate::{complain, leave};

/// Starts the grandchild the modes ask for: this program again, as `sleeper`.
pub(crate) fn start(modes: &Modes) {
    if !modes.any(&["fork-child", "setsid-child"]) {
        return;
    }
    let itself = std::env::current_exe().expect("a program knows where it is");
    let mut sleeper = Command::new(itself);
    sleeper.arg("sleeper").stdin(Stdio::null());
    if modes.on("setsid-child") {
        sleeper.arg("own-session");
    }
    if modes.on("stubborn-child") {
        sleeper.arg("stubborn");
    }
    if let Some(file) = modes.text("child-pid") {
        sleeper.arg(format!("pid={file}"));
    }
    // Never waited for: an orphan is the point.
    if let Err(error) = sleeper.spawn() {
        complain(&format!(
            "fake-server: cannot start the grandchild: {error}"
        ));
    }
}

/// `fake-server sleeper [own-session] [stubborn] [pid=FILE]`
pub(crate) fn sleep_for_ever(arguments: impl Iterator<Item = String>) -> ! {
    let mut pid_file = None;
    for argument in arguments {
        match argument.as_str() {
            "own-session" => {
                rustix::process::setsid().expect("a forked child leads no group");
            }
            "stubborn" => survive_term(),
            other => pid_file = other.strip_prefix("pid=").map(ToOwned::to_owned),
        }
    }
    if let Some(file) = pid_file {
        // Written last and moved into place: whoever sees it sees a whole number.
        let written = format!("{file}.tmp");
        let told = fs::write(&written, std::process::id().to_string())
            .and_then(|()| fs::rename(&written, &file));
        if let Err(error) = told {
            complain(&format!("fake-server: cannot write {file}: {error}"));
        }
    }
    thread::sleep(TEN_MINUTES);
    leave(0)
}
