//! `expected/*.yml`: what does not pass, and why. The form is the suite's own, so that its
//! `--expected-failures` takes them too.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The entries of a file: `scenario:check`, or `scenario` for one that ends without checks.
pub(crate) fn read(name: &str) -> BTreeSet<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("expected")
        .join(format!("{name}.yml"));
    let text = fs::read_to_string(&file).unwrap();
    let entries = parse(&text);
    entries.unwrap_or_else(|line| panic!("{}: {line:?} is no entry", file.display()))
}

/// The list under `server:`, or the line that isn't part of one.
fn parse(text: &str) -> Result<BTreeSet<String>, &str> {
    let mut lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim())
        .filter(|line| !line.is_empty());
    match lines.next() {
        None | Some("server: []") => {}
        Some("server:") => {
            return lines
                .map(|line| line.strip_prefix("- ").map(str::to_owned).ok_or(line))
                .collect();
        }
        Some(line) => return Err(line),
    }
    lines.next().map_or_else(|| Ok(BTreeSet::new()), Err)
}

#[test]
fn entries_stand_in_a_list() {
    let entries = |names: &[&str]| Ok(names.iter().map(ToString::to_string).collect());
    assert_eq!(parse("# nothing\nserver: []\n"), entries(&[]));
    let text = "server:\n  # why\n  - ping\n  - tools-list:wire-schema-valid # why\n";
    assert_eq!(
        parse(text),
        entries(&["ping", "tools-list:wire-schema-valid"])
    );
    assert_eq!(parse("server:\n  ping\n"), Err("ping"));
    assert_eq!(parse("client:\n  - ping\n"), Err("client:"));
}
