//! What happens before the first message and after the last.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use crate::modes::Modes;
use crate::{children, complain, leave};

/// A stay for ever, as far as a test is concerned; still, nothing of ours outlives the day.
pub(crate) const TEN_MINUTES: Duration = Duration::from_mins(10);

pub(crate) fn run(modes: &Modes) {
    if let Some(file) = modes.file("count-starts") {
        append_line(file, &std::process::id().to_string());
    }
    if modes.on("ignore-term") {
        survive_term();
    }
    for line in modes.all("stderr") {
        complain(line);
    }
    if let Some(code) = modes.code("die-before-init") {
        complain("fatal: missing BAD_API_KEY");
        leave(code);
    }
    if let Some(bytes) = modes.count("stderr-flood") {
        thread::spawn(move || flood_stderr(bytes));
    }
    children::start(modes);
}

pub(crate) fn end_of_input(modes: &Modes) {
    if modes.on("ignore-eof") {
        thread::sleep(TEN_MINUTES);
    }
    if let Some(delay) = modes.milliseconds("eof-delay-ms") {
        thread::sleep(delay);
    }
    leave(modes.code("exit-on-eof-code").unwrap_or(0));
}

/// A handler that does nothing: the signal arrives and changes nothing.
pub(crate) fn survive_term() {
    signal_hook::flag::register(
        signal_hook::consts::SIGTERM,
        Arc::new(AtomicBool::new(false)),
    )
    .expect("SIGTERM can be handled");
}

/// One write, so that lines of several processes don't mix.
pub(crate) fn append_line(file: &Path, line: &str) {
    let written = OpenOptions::new()
        .create(true)
        .append(true)
        .open(file)
        .and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    if let Err(error) = written {
        complain(&format!(
            "fake-server: cannot write {}: {error}",
            file.display()
        ));
    }
}

fn flood_stderr(bytes: usize) {
    let line = format!("{}\n", "x".repeat(199)).repeat(20);
    let mut stderr = std::io::stderr().lock();
    let mut left = bytes;
    while left > 0 {
        let now = left.min(line.len());
        if stderr.write_all(&line.as_bytes()[..now]).is_err() {
            return;
        }
        left -= now;
    }
}
