//! Where things lie in the home folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use wharfinger_daemon::client::Client;

use crate::failure::Failure;

/// The home folder, absolute.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    home: PathBuf,
    /// It was named on the command line, so commands we suggest have to name it too.
    named: bool,
}

impl Paths {
    /// `--home`, else `WHARFINGER_HOME`, else `.wharfinger` in the user's home.
    pub(crate) fn find(
        option: Option<&Path>,
        environment: &BTreeMap<String, String>,
        user: Option<PathBuf>,
    ) -> Result<Self, Failure> {
        let variable = environment
            .get("WHARFINGER_HOME")
            .filter(|value| !value.is_empty());
        let home = option
            .map(Path::to_owned)
            .or_else(|| variable.map(PathBuf::from))
            .or_else(|| user.map(|user| user.join(".wharfinger")));
        let home = home.ok_or_else(|| {
            Failure::usage("there is no home folder")
                .hint("name one with `--home DIR` or `WHARFINGER_HOME`")
        })?;
        let home = std::path::absolute(&home).map_err(|error| {
            Failure::usage(format!("`{}` is no folder", home.display())).because(&error)
        })?;
        Ok(Self {
            home,
            named: option.is_some(),
        })
    }

    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// How a command for this home begins.
    pub(crate) fn wharf(&self) -> String {
        if self.named {
            format!("wharf --home {}", quoted(&self.home.to_string_lossy()))
        } else {
            "wharf".into()
        }
    }

    /// What the host configures.
    pub(crate) fn config(&self) -> PathBuf {
        self.home.join("config.json")
    }

    /// What the owner adds.
    pub(crate) fn settings(&self) -> PathBuf {
        self.home.join("settings.json")
    }

    /// The secrets of the owner, sealed.
    pub(crate) fn vault(&self) -> PathBuf {
        self.home.join("vault.json")
    }

    /// What a daemon in the background logs.
    pub(crate) fn log(&self) -> PathBuf {
        self.home.join("daemon.log")
    }

    /// Talks to the daemon of this home.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.home.join("wharf.sock"))
    }
}

/// A word as a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_wins() {
        let check = |option: Option<&str>, variable: Option<&str>, expect: &str| {
            let environment = variable.map(|v| ("WHARFINGER_HOME".to_owned(), v.to_owned()));
            let environment = environment.into_iter().collect();
            let paths = Paths::find(option.map(Path::new), &environment, Some("/home/me".into()));
            assert_eq!(
                paths.unwrap().home(),
                Path::new(expect),
                "{option:?} {variable:?}"
            );
        };
        check(Some("/a"), Some("/b"), "/a");
        check(None, Some("/b"), "/b");
        check(None, Some(""), "/home/me/.wharfinger");
        check(None, None, "/home/me/.wharfinger");
        assert!(Paths::find(None, &BTreeMap::new(), None).is_err());
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        let check = |word: &str, expect: &str| assert_eq!(quoted(word), expect);
        check("/a/b-c", "/a/b-c");
        check("a b", "'a b'");
        check("it's", r"'it'\''s'");
        check("", "''");
    }
}
