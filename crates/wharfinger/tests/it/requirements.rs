//! `docs/requirements.md` says which test settles which row; this reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Rows of the chat profile.
const ROWS: usize = 77;

/// Rows of the agent profile that are built, from and to.
const BUILT: [(usize, usize); 7] = [
    (1, 27),
    (60, 68),
    (73, 98),
    (99, 112),
    (140, 166),
    (180, 234),
    (236, 236),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Names of the functions in a file that stand under a test attribute.
fn tests_in(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[test") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some(rest) = line.trim_start_matches("async ").strip_prefix("fn ")
            && std::mem::take(&mut is_test)
        {
            found.insert(rest.split('(').next().unwrap_or_default().to_owned());
        }
    }
    found
}

#[test]
fn every_row_has_a_test_that_exists_or_is_marked_later() {
    let table = std::fs::read_to_string(root().join("docs/requirements.md")).unwrap();
    let mut rows: BTreeMap<&str, &str> = BTreeMap::new();
    for line in table
        .lines()
        .filter(|line| line.starts_with("| V") || line.starts_with("| A"))
    {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 3, "{line}");
        assert_eq!(
            rows.insert(cells[0], cells[2]),
            None,
            "{} is there twice",
            cells[0]
        );
    }
    let mut wrong = vec![];
    let built = BUILT.iter().flat_map(|(from, to)| *from..=*to);
    let wanted = (1..=ROWS)
        .map(|n| format!("V{n}"))
        .chain(built.map(|n| format!("A{n}")));
    for row in wanted {
        if !rows.contains_key(row.as_str()) {
            wrong.push(format!("{row} is not in the table"));
        }
    }
    let mut named = 0;
    for (row, tests) in rows {
        if tests.starts_with("later") {
            continue;
        }
        if tests.is_empty() {
            wrong.push(format!("{row} has no test"));
        }
        for test in tests.split("<br>") {
            let mut parts = test.split('`').filter(|part| !part.trim().is_empty());
            let (Some(file), Some(name)) = (parts.next(), parts.next()) else {
                wrong.push(format!("{row}: `file` `test` expected, not {test}"));
                continue;
            };
            named += 1;
            let text = std::fs::read_to_string(root().join(file)).unwrap_or_default();
            if !tests_in(&text).contains(name) {
                wrong.push(format!("{row}: there is no test `{name}` in {file}"));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(named > 80, "only {named} tests were read from the table");
}
