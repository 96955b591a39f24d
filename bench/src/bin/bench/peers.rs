//! Other gateways, described by a file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::Deserialize;

/// A gateway in front of one server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PeerEntry {
    pub(crate) name: String,
    /// `{port}` is a free one, `{config}` a file with `mcpServers`, `{server}` the server's command as one word,
    /// `{server...}` as many; `{peers}` is the folder of the file this is in.
    pub(crate) command: Vec<String>,
    /// Where it then is, as `mcp-load` takes targets.
    pub(crate) target: String,
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Peers {
    pub(crate) folder: PathBuf,
    pub(crate) entries: Vec<PeerEntry>,
}

pub(crate) fn read(file: &Path) -> Result<Peers> {
    let what = || format!("can't use {}", file.display());
    let file = file.canonicalize().with_context(what)?;
    let text = std::fs::read_to_string(&file).with_context(what)?;
    Ok(Peers {
        entries: serde_json::from_str(&text).with_context(what)?,
        folder: file.parent().map(Path::to_owned).unwrap_or_default(),
    })
}

impl PeerEntry {
    /// Its command line, for a server.
    pub(crate) fn words(&self, fill: &[(&str, &str)], server: &[String]) -> Vec<String> {
        let mut words = Vec::new();
        for word in &self.command {
            if word == "{server...}" {
                words.extend_from_slice(server);
            } else {
                words.push(filled(word, fill));
            }
        }
        words
    }
}

pub(crate) fn filled(text: &str, fill: &[(&str, &str)]) -> String {
    fill.iter().fold(text.to_owned(), |text, (name, value)| {
        text.replace(&format!("{{{name}}}"), value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_filled_in() {
        let entry: PeerEntry = serde_json::from_str(
            r#"{"name":"x","command":["{peers}/x","--port={port}","--","{server...}","{server}"],"target":"t"}"#,
        )
        .unwrap();
        let server = ["a".to_owned(), "b".to_owned()];
        let fill = [("peers", "/p"), ("port", "1"), ("server", "a b")];
        let words = entry.words(&fill, &server);
        assert_eq!(words, ["/p/x", "--port=1", "--", "a", "b", "a b"]);
    }
}
