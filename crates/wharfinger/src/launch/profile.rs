//! The lock of a browser's profile (V38).
//!
//! A browser that was killed leaves it. Whoever has its process id afterwards, after a restart of the machine say, then
//! passes for that browser, and in a new container the lock names another host: "Browser is already in use".

use std::path::{Path, PathBuf};

use super::Plan;

const OPTION: &str = "--user-data-dir";

/// Removes the lock that a browser left behind, if what starts is a browser with a profile. The lock of one that runs
/// stays.
pub(crate) fn unlock(plan: &Plan) {
    let Some(profile) = profile(plan) else { return };
    let Ok(holder) = std::fs::read_link(profile.join("SingletonLock")) else {
        return;
    };
    if is_held(&holder.to_string_lossy(), &profile) {
        return;
    }
    for name in ["SingletonLock", "SingletonCookie", "SingletonSocket"] {
        std::fs::remove_file(profile.join(name)).ok();
    }
}

/// The last one counts, as it does for the server.
fn profile(plan: &Plan) -> Option<PathBuf> {
    let args = plan.args.iter().enumerate();
    let mut named = args.filter_map(|(at, arg)| {
        let rest = arg.strip_prefix(OPTION)?;
        if rest.is_empty() {
            plan.args.get(at + 1).map(String::as_str)
        } else {
            rest.strip_prefix('=')
        }
    });
    named.next_back().map(|folder| plan.cwd.join(folder))
}

/// The holder is `<host>-<pid>`. What counts is whether that process is a browser with this profile, here and now.
#[cfg(target_os = "linux")]
fn is_held(holder: &str, profile: &Path) -> bool {
    let Some(pid) = holder
        .rsplit('-')
        .next()
        .and_then(|pid| pid.parse::<u32>().ok())
    else {
        return false;
    };
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).contains(&*profile.to_string_lossy())
}

/// Elsewhere there is no telling.
#[cfg(not(target_os = "linux"))]
fn is_held(_: &str, _: &Path) -> bool {
    true
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::model::Secret;

    fn plan(cwd: &Path, args: &[&str]) -> Plan {
        Plan {
            program: "npx".into(),
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            cwd: cwd.to_owned(),
            env: Secret::new(std::collections::BTreeMap::new()),
            refused: vec![],
            missing: vec![],
            secrets: vec![],
        }
    }

    #[test]
    fn the_last_profile_named_counts() {
        let check = |args: &[&str], expect: Option<&str>| {
            assert_eq!(
                profile(&plan(Path::new("/w"), args)),
                expect.map(PathBuf::from)
            );
        };
        check(&["--headless"], None);
        check(&[OPTION], None);
        check(&[OPTION, "/w/p", "--headless"], Some("/w/p"));
        check(&[OPTION, "/w/p", "--user-data-dir=q"], Some("/w/q"));
        check(&["--user-data-dirs", "x"], None);
    }

    #[test]
    fn v38_a_lock_that_nobody_holds_is_removed() {
        let home = tempfile::tempdir().unwrap();
        let lock = |holder: &str| {
            let lock = home.path().join("SingletonLock");
            std::fs::remove_file(&lock).ok();
            symlink(holder, &lock).unwrap();
            unlock(&plan(
                Path::new("/"),
                &[OPTION, &home.path().to_string_lossy()],
            ));
            std::fs::symlink_metadata(lock).is_ok()
        };
        let own = std::process::id();
        assert!(!lock(&format!("another-host-{own}")), "no browser");
        assert!(!lock("host-4294967295"), "nobody");
        assert!(!lock("no holder"));
    }

    #[test]
    fn the_lock_of_a_browser_that_runs_stays() {
        let home = tempfile::tempdir().unwrap();
        let profile = home.path().to_string_lossy();
        #[expect(clippy::disallowed_methods, reason = "it stands for a browser")]
        let mut browser = std::process::Command::new("sh")
            .args(["-c", "echo; read line", &format!("{OPTION}={profile}")])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // Its command line is there once it runs.
        browser.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
        let lock = home.path().join("SingletonLock");
        symlink(format!("host-{}", browser.id()), &lock).unwrap();
        unlock(&plan(Path::new("/"), &[OPTION, &profile]));
        assert!(std::fs::symlink_metadata(lock).is_ok());
        drop(browser.stdin.take());
        browser.wait().unwrap();
    }
}
