//! The home folder: where things lie, who holds it, and the tokens in it.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use wharfinger::config::files::{self, Readers};
use wharfinger::model::AgentName;

/// Why a home can't be used.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// Another daemon holds it.
    #[error("a daemon runs for {} already", .home.display())]
    Held {
        /// The home.
        home: PathBuf,
    },
    /// The file system said no.
    #[error("can't use {}: {source}", .path.display())]
    Io {
        /// Which file or folder.
        path: PathBuf,
        /// Its word.
        source: io::Error,
    },
}

/// A home folder. Made when missing, and closed to everybody but its owner.
#[derive(Clone, Debug)]
pub struct Home(PathBuf);

impl Home {
    /// Makes the folder if need be, and closes it to others.
    pub fn open(path: &Path) -> Result<Self, HomeError> {
        let failed = |source| HomeError::Io {
            path: path.to_owned(),
            source,
        };
        private_folder(path).map_err(failed)?;
        let home = Self(fs::canonicalize(path).map_err(failed)?);
        private_folder(&home.0.join("tokens")).map_err(failed)?;
        Ok(home)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// What the host configures.
    pub fn config(&self) -> PathBuf {
        self.0.join("config.json")
    }

    /// What the owner adds.
    pub fn settings(&self) -> PathBuf {
        self.0.join("settings.json")
    }

    /// Where the CLI finds the daemon.
    pub fn socket(&self) -> PathBuf {
        self.0.join("wharf.sock")
    }

    /// The list of known servers that was fetched last.
    pub fn known_servers(&self) -> PathBuf {
        self.0.join(crate::registry::FILE)
    }

    /// For files that are needed for a moment; what is in it is of no use to the next daemon.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.0.join("scratch")
    }

    /// A short name of this home that is the same at every start. Another folder at the same path, in a container
    /// say, has another one.
    pub fn mark(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(self.0.as_os_str().as_encoded_bytes());
        #[cfg(unix)]
        if let Ok(folder) = fs::metadata(&self.0) {
            use std::os::unix::fs::MetadataExt;
            hash.update(folder.dev().to_le_bytes());
            hash.update(folder.ino().to_le_bytes());
        }
        let hash = hash.finalize();
        hash.iter()
            .take(6)
            .fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
    }

    /// Holds the home for one daemon, until the file is dropped. The file holds its process id.
    pub(crate) fn hold(&self) -> Result<File, HomeError> {
        let path = self.0.join("daemon.lock");
        let failed = |source| HomeError::Io {
            path: path.clone(),
            source,
        };
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path);
        let mut file = file.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                return Err(HomeError::Held {
                    home: self.0.clone(),
                });
            }
            Err(fs::TryLockError::Error(source)) => return Err(failed(source)),
        }
        file.set_len(0)
            .and_then(|()| writeln!(file, "{}", std::process::id()))
            .map_err(failed)?;
        Ok(file)
    }

    /// Certificate, proxy and registry variables of the last start from a shell (V18).
    pub(crate) fn remembered(&self) -> BTreeMap<String, String> {
        let text = fs::read_to_string(self.environment()).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    pub(crate) fn remember(&self, variables: &BTreeMap<String, String>) -> Result<(), HomeError> {
        let path = self.environment();
        let text = serde_json::to_string_pretty(variables).unwrap_or_default() + "\n";
        files::replace(&path, &text, Readers::Owner)
            .map_err(|source| HomeError::Io { path, source })
    }

    fn environment(&self) -> PathBuf {
        self.0.join("environment.json")
    }

    fn token_file(&self, agent: Option<&AgentName>) -> PathBuf {
        match agent {
            Some(agent) => self.0.join("tokens").join(format!("agent-{agent}")),
            None => self.0.join("tokens").join("owner"),
        }
    }
}

/// Makes a folder if need be, for its owner alone (0700).
fn private_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
        builder.mode(0o700).create(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))
    }
    #[cfg(not(unix))]
    builder.create(path)
}

/// Bearer tokens: one for each agent's endpoint, one for the admin API. Each lies in a file of its own (0600).
#[derive(Debug)]
pub(crate) struct Tokens {
    home: Home,
    known: Mutex<HashMap<Option<AgentName>, String>>,
}

impl Tokens {
    pub(crate) fn new(home: Home) -> Self {
        Self {
            home,
            known: Mutex::default(),
        }
    }

    /// The token of an agent, or the owner's. Made at the first use.
    pub(crate) fn token(&self, agent: Option<&AgentName>) -> Result<String, HomeError> {
        self.with_token(agent, str::to_owned)
    }

    /// Whether a token is the agent's, or the owner's; compared in constant time.
    pub(crate) fn is(&self, agent: Option<&AgentName>, given: &str) -> bool {
        let same = |token: &str| bool::from(token.as_bytes().ct_eq(given.as_bytes()));
        self.with_token(agent, same).unwrap_or(false)
    }

    fn with_token<T>(
        &self,
        agent: Option<&AgentName>,
        look: impl FnOnce(&str) -> T,
    ) -> Result<T, HomeError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let agent = agent.cloned();
        if let Some(token) = known.get(&agent) {
            return Ok(look(token));
        }
        let path = self.home.token_file(agent.as_ref());
        let kept = fs::read_to_string(&path)
            .unwrap_or_default()
            .trim()
            .to_owned();
        let token = if kept.len() >= 32 {
            kept
        } else {
            let made = random_hex();
            files::replace(&path, &format!("{made}\n"), Readers::Owner)
                .map_err(|source| HomeError::Io { path, source })?;
            made
        };
        let seen = look(&token);
        known.insert(agent, token);
        Ok(seen)
    }

    /// Forgets an agent's token; a new agent of that name gets another.
    pub(crate) fn forget(&self, agent: &AgentName) {
        self.known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&Some(agent.clone()));
        fs::remove_file(self.home.token_file(Some(agent))).ok();
    }
}

/// 256 random bits.
pub(crate) fn random_hex() -> String {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the system gives random numbers");
    bytes.iter().fold(String::with_capacity(64), |hex, byte| {
        hex + &format!("{byte:02x}")
    })
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_home_is_held_by_one_and_closed_to_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("h");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let home = Home::open(&path).unwrap();
        assert_eq!(
            fs::metadata(home.path()).unwrap().permissions().mode() & 0o777,
            0o700
        );
        let held = home.hold().unwrap();
        assert!(matches!(home.hold(), Err(HomeError::Held { .. })));
        drop(held);
        home.hold().unwrap();
    }

    #[test]
    fn tokens_are_made_once_and_kept_for_their_owner() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(dir.path()).unwrap();
        let agent = AgentName::new("a").unwrap();
        let tokens = Tokens::new(home.clone());
        let token = tokens.token(Some(&agent)).unwrap();
        assert_eq!(token.len(), 64);
        assert_ne!(token, tokens.token(None).unwrap());
        let again = Tokens::new(home.clone());
        assert!(again.is(Some(&agent), &token) && !again.is(None, &token) && !again.is(None, ""));
        let mode = fs::metadata(home.token_file(Some(&agent)))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        again.forget(&agent);
        assert!(!again.is(Some(&agent), &token));
    }
}
