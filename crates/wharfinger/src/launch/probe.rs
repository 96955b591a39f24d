//! Asking a program for its version.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::time::timeout;

use super::spawn::find_on;

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probed {
    /// Where it is.
    pub path: Option<PathBuf>,
    /// The first line that it wrote.
    pub version: Option<String>,
    /// Why there is none.
    pub error: Option<String>,
}

/// More than any version.
const BYTES: u64 = 4096;

/// Runs `PROGRAM --version` in an environment, for so long at most. Nothing of it is left afterwards.
pub async fn probe(
    program: &str,
    environment: &BTreeMap<String, String>,
    limit: Duration,
) -> Probed {
    let Some(path) = find_on(program, environment) else {
        return Probed::default();
    };
    #[expect(clippy::disallowed_methods, reason = "this room starts processes")]
    let mut command = Command::new(&path);
    command
        .arg("--version")
        .env_clear()
        .envs(environment)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    #[cfg(unix)]
    command.process_group(0);
    let answer = match command.spawn() {
        Err(error) => Err(error.to_string()),
        Ok(mut child) => {
            let group = child.id();
            let (out, err) = (child.stdout.take(), child.stderr.take());
            let asked = async {
                let (out, err, exit) = tokio::join!(read(out), read(err), child.wait());
                (out, err, exit)
            };
            let answer = timeout(limit, asked).await;
            // Also what it has started, which may still run.
            let group = group
                .and_then(|pid| i32::try_from(pid).ok())
                .and_then(Pid::from_raw);
            if let Some(group) = group {
                kill_process_group(group, Signal::KILL).ok();
            }
            match answer {
                Err(_) => Err(format!("no answer within {} s", limit.as_secs_f64())),
                Ok((_, _, Err(error))) => Err(error.to_string()),
                Ok((out, err, Ok(status))) => {
                    let said = [&out, &err].into_iter().find_map(|text| first_line(text));
                    match said {
                        Some(line) if status.success() => Ok(line),
                        Some(line) => Err(line),
                        None => Err(format!("it said nothing ({status})")),
                    }
                }
            }
        }
    };
    let (version, error) = match answer {
        Ok(line) => (Some(line), None),
        Err(error) => (None, Some(error)),
    };
    Probed {
        path: Some(path),
        version,
        error,
    }
}

async fn read(pipe: Option<impl AsyncRead + Unpin>) -> String {
    let mut bytes = vec![];
    if let Some(pipe) = pipe {
        // What was read until it broke is what there is.
        pipe.take(BYTES).read_to_end(&mut bytes).await.ok();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn first_line(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().take(100).collect())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn environment(path: &str) -> BTreeMap<String, String> {
        BTreeMap::from([("PATH".to_owned(), path.to_owned())])
    }

    fn script(text: &str) -> (tempfile::TempDir, BTreeMap<String, String>) {
        use std::io::Write as _;
        use std::os::unix::fs::OpenOptionsExt as _;
        let dir = tempfile::tempdir().expect("the temporary folder is writable");
        let mut file = std::fs::File::options()
            .create_new(true)
            .write(true)
            .mode(0o755)
            .open(dir.path().join("tool"))
            .expect("it is new");
        write!(file, "#!/bin/sh\n{text}\n").expect("it is writable");
        let path = format!("{}:/usr/bin:/bin", dir.path().display());
        (dir, environment(&path))
    }

    #[tokio::test]
    async fn a_version_is_the_first_line_that_is_said() {
        let limit = Duration::from_secs(30);
        let check = async |text: &str, version: Option<&str>, error: Option<&str>| {
            let (dir, environment) = script(text);
            let probed = probe("tool", &environment, limit).await;
            assert_eq!(probed.path, Some(dir.path().join("tool")));
            assert_eq!(probed.version.as_deref(), version, "{text}");
            assert_eq!(probed.error.as_deref(), error, "{text}");
        };
        check("echo; echo v22.1.0; echo more", Some("v22.1.0"), None).await;
        check("echo 1.2 >&2", Some("1.2"), None).await;
        check("echo broken >&2; exit 3", None, Some("broken")).await;
        check("exit 0", None, Some("it said nothing (exit status: 0)")).await;
        let nowhere = probe("tool", &environment("/nowhere"), limit).await;
        assert_eq!(nowhere, Probed::default());
    }

    #[tokio::test]
    async fn one_that_hangs_is_ended_with_what_it_started() {
        let (dir, environment) = script("echo $$ > \"$0.pid\"; sleep 1000 & sleep 1000");
        let probed = probe("tool", &environment, Duration::from_millis(300)).await;
        assert_eq!(probed.error.as_deref(), Some("no answer within 0.3 s"));
        let pid = std::fs::read_to_string(dir.path().join("tool.pid")).unwrap();
        let group = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        let gone = || rustix::process::test_kill_process_group(group).is_err();
        let patience = std::time::Instant::now() + Duration::from_secs(10);
        while !gone() {
            assert!(std::time::Instant::now() < patience, "it still runs");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
