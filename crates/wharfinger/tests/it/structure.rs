//! The arrows between rooms, as the picture in ARCHITECTURE.md has them.

use std::path::Path;

/// Rooms, and which other rooms each may use besides `model`.
const ROOMS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("agentfile", &[]),
    ("approvals", &[]),
    ("clients", &[]),
    ("config", &[]),
    ("catalog", &[]),
    ("policy", &[]),
    ("doctor", &[]),
    ("manage", &[]),
    ("registry", &[]),
    ("vault", &[]),
    ("journal", &[]),
    ("launch", &["vault"]),
    ("servers", &["launch", "vault"]),
];

fn sources(dir: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") && !path.ends_with("tests.rs") {
            found.push(path);
        }
    }
}

/// What follows `crate::` anywhere in the code of a file, its tests left out.
fn used(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let paths = code.split("crate::").skip(1);
    paths
        .map(|rest| {
            rest.chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect()
        })
        .collect()
}

#[test]
fn rooms_use_only_what_the_picture_shows() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = vec![];
    for (room, allowed) in ROOMS {
        let mut files = vec![];
        sources(&src.join(room), &mut files);
        assert!(!files.is_empty(), "{room} is gone; change the picture");
        for file in files {
            for name in used(&std::fs::read_to_string(&file).unwrap()) {
                let fine = name == *room
                    || (name == "model" && *room != "model")
                    || allowed.contains(&name.as_str());
                if !fine {
                    wrong.push(format!(
                        "{}: crate::{name}",
                        file.strip_prefix(&src).unwrap().display()
                    ));
                }
            }
        }
    }
    assert_eq!(
        wrong,
        Vec::<String>::new(),
        "arrows that are not in the picture"
    );
}

#[test]
fn every_folder_is_a_room_of_the_picture() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders: Vec<String> = std::fs::read_dir(src)
        .unwrap()
        .map(Result::unwrap)
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    folders.sort();
    let mut rooms: Vec<&str> = ROOMS.iter().map(|(room, _)| *room).collect();
    rooms.sort_unstable();
    assert_eq!(folders, rooms);
}
