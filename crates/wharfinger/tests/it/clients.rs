//! Files as clients have them: our entry goes in and comes out, and nothing else moves.

use std::fs;
use std::path::{Path, PathBuf};

use wharfinger::clients::{
    CLIENTS, Client, Edited, Endpoint, Folders, connect, disconnect, guess, read,
};

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients")
}

fn files_in(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_in(&path, found);
        } else {
            found.push(path);
        }
    }
}

fn endpoints() -> [Endpoint; 2] {
    let args = [
        "--home",
        "/home/me/.wharfinger",
        "stdio",
        "--agent",
        "default",
    ];
    [
        Endpoint::Stdio {
            command: "/usr/bin/wharf".into(),
            args: args.map(str::to_owned).to_vec(),
        },
        Endpoint::Http {
            url: "http://127.0.0.1:4000/agents/default/mcp".into(),
            token: "t0ken".into(),
        },
    ]
}

#[track_caller]
fn round_trip(client: &Client, file: &Path) {
    let before = fs::read_to_string(file).unwrap();
    let servers = read(client, &before, "/home/me").unwrap().servers;
    assert!(!servers.is_empty(), "{}", file.display());
    for endpoint in endpoints() {
        let Edited { changes, text } = connect(client, &before, &endpoint).unwrap();
        // All that was there is there, in its order, and what is new is ours.
        let mut rest = text.as_str();
        let mut done = 0;
        for change in &changes {
            let kept = &before[done..change.range.start];
            rest = rest
                .strip_prefix(kept)
                .and_then(|rest| rest.strip_prefix(change.text.as_str()))
                .unwrap();
            assert!(change.range.is_empty(), "nothing is taken away");
            done = change.range.end;
        }
        assert_eq!(rest, &before[done..]);
        let after = read(client, &text, "/home/me").unwrap().servers;
        let others: Vec<_> = after
            .iter()
            .filter(|server| !server.is_ours)
            .cloned()
            .collect();
        assert_eq!((others, after.len()), (servers.clone(), servers.len() + 1));
        assert_eq!(
            disconnect(client, &text).unwrap().text,
            before,
            "{}",
            file.display()
        );
        // With the line ends of Windows, too.
        let windows = before.replace('\n', "\r\n");
        let there = connect(client, &windows, &endpoint).unwrap().text;
        assert!(!there.replace("\r\n", "").contains('\n'), "{there:?}");
        assert_eq!(disconnect(client, &there).unwrap().text, windows);
    }
}

#[test]
fn every_sample_is_the_same_after_connect_and_disconnect() {
    let (home, project) = (samples().join("home"), samples().join("project"));
    let folders = Folders {
        programs: home.join(".config"),
        ..Folders::of(&home)
    };
    let mut left = vec![];
    files_in(&samples(), &mut left);
    for client in CLIENTS {
        let of_project = client.project_file(&project);
        for file in std::iter::once(client.file(&folders)).chain(of_project) {
            if file.exists() {
                round_trip(client, &file);
                left.retain(|path| *path != file);
            }
        }
        let is_sample = client.file(&folders).exists();
        assert_eq!(client.is_found(&folders), is_sample, "{}", client.id);
    }
    assert_eq!(left, Vec::<PathBuf>::new(), "samples that no client reads");
}

#[test]
fn a_sample_is_known_as_its_clients() {
    let mut files = vec![];
    files_in(&samples(), &mut files);
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let client = guess(&file, &text).unwrap_or_else(|| panic!("{}", file.display()));
        let names: Vec<_> = read(client, &text, "")
            .unwrap()
            .servers
            .into_iter()
            .map(|s| s.name)
            .collect();
        assert!(
            names.contains(&"local1".to_owned()),
            "{}: {names:?}",
            file.display()
        );
    }
}
