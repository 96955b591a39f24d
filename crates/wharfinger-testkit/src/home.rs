//! A home of its own for each test.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fake_server;

/// A temporary Wharfinger home; it goes when the value does.
#[derive(Debug)]
pub struct Home(TempDir);

impl Home {
    /// An empty home.
    #[expect(clippy::new_without_default, reason = "it creates a folder")]
    pub fn new() -> Self {
        Self(
            tempfile::Builder::new()
                .prefix("wharfinger-test-")
                .tempdir()
                .expect("the temporary folder is writable"),
        )
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// A path in the folder, whether it exists or not.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a file of the folder, and the folders on the way.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let file = self.file(name);
        let folder = file.parent().expect("it is in the home");
        fs::create_dir_all(folder).expect("the home is writable");
        fs::write(&file, text).expect("the home is writable");
        file
    }

    /// The text of a file, empty if there is none.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    /// The lines of a file that a fake server appends to.
    pub fn lines(&self, name: &str) -> Vec<String> {
        self.read(name).lines().map(ToOwned::to_owned).collect()
    }

    /// Writes `settings.json`, what the owner adds.
    pub fn write_settings(&self, settings: &Value) -> PathBuf {
        self.write("settings.json", &format!("{settings:#}\n"))
    }

    /// Writes `config.json`, the host's section.
    pub fn write_config(&self, config: &Value) -> PathBuf {
        self.write("config.json", &format!("{config:#}\n"))
    }

    /// Adds a fake server to `settings.json` and keeps what is there.
    pub fn add_fake(&self, name: &str, modes: &[&str]) {
        self.add_server(name, &json!({"command": fake_server(), "args": modes}));
    }

    /// Adds an entry to the `mcpServers` of `settings.json` and keeps what is there.
    pub fn add_server(&self, name: &str, entry: &Value) {
        let mut settings =
            serde_json::from_str(&self.read("settings.json")).unwrap_or_else(|_| json!({}));
        settings["mcpServers"][name] = entry.clone();
        self.write_settings(&settings);
    }
}
