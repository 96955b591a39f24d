//! Files of an agent, as `fs_read` and `fs_write` see them: bytes in, bytes out. Where they are kept is others' work.

use base64::Engine as _;
use serde_json::{Map, Value};

use super::{Encoding, Error, FsRead, FsWrite, Protection, WriteMode};

/// Longest path, in bytes.
const LONGEST_PATH: usize = 1024;

/// Longest file that may be written where `limits.max_file_write_bytes` does not say: 5 MB.
pub const MAX_WRITE: u64 = 5_000_000;

/// Paths are relative, with `/` between their parts, and stay inside. The text completes "the path …".
pub fn check_path(path: &str) -> Result<(), String> {
    if path.is_empty() {
        return Err("is empty".into());
    }
    if path.len() > LONGEST_PATH {
        return Err(format!("is longer than {LONGEST_PATH} bytes"));
    }
    if path.starts_with('/') || path.starts_with('~') {
        return Err("must be relative to the agent's files".into());
    }
    if path.contains('\\') {
        return Err("may not hold `\\`; parts are separated by `/`".into());
    }
    if let Some(control) = path.chars().find(|c| c.is_control()) {
        return Err(format!("may not hold {control:?}"));
    }
    // A drive, or a scheme.
    if path
        .split('/')
        .next()
        .is_some_and(|first| first.ends_with(':'))
    {
        return Err("must be relative to the agent's files".into());
    }
    for part in path.split('/') {
        match part {
            "" => return Err("has an empty part, or ends with `/`".into()),
            "." | ".." => return Err(format!("may not hold `{part}`")),
            _ => {}
        }
    }
    Ok(())
}

/// A file as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// What is in it.
    pub content: Vec<u8>,
    /// Its MIME type, if it is known.
    pub mime_type: Option<String>,
    /// How it is guarded.
    pub protection: Protection,
    /// When it was made, as the file format tells times.
    pub created_at: String,
    /// When it was last written.
    pub updated_at: String,
}

/// A file as it shall be kept. Whoever keeps it takes away the mark of the owner's authorization (A210), and keeps the
/// time it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// What is in it.
    pub content: Vec<u8>,
    /// Its MIME type.
    pub mime_type: String,
    /// How it is guarded.
    pub protection: Protection,
}

/// The limit of a configuration.
pub fn limit(config: &Value) -> u64 {
    let limit = &config["limits"]["max_file_write_bytes"];
    limit.as_u64().unwrap_or(MAX_WRITE)
}

/// What a write makes of what is there. `limit` is in bytes and over the whole file.
pub fn write(request: &FsWrite, there: Option<&File>, limit: u64) -> Result<Written, Error> {
    let path = &request.path;
    if there.is_some_and(|file| file.protection == Protection::ReadOnly) {
        return Err(Error::refused(format!(
            "`{path}` is read-only; the owner can change that"
        )));
    }
    let content = match &request.mode {
        WriteMode::Write(content) => content.clone(),
        WriteMode::Append(more) => {
            let mut content = there.map(|file| file.content.clone()).unwrap_or_default();
            content.extend(more);
            content
        }
        WriteMode::Edit { old, new } => {
            let file = there.ok_or_else(|| missing(path))?;
            let text = std::str::from_utf8(&file.content).map_err(|_| {
                Error::refused(format!(
                    "`{path}` is no text, and mode `edit` takes text; use mode `write`"
                ))
            })?;
            edit(path, text, old, new)?.into_bytes()
        }
    };
    let length = content.len() as u64;
    if length > limit {
        return Err(Error::refused(format!(
            "`{path}` would be {length} bytes long, more than `limits.max_file_write_bytes` allows: {limit}"
        )));
    }
    let kept = there.and_then(|file| file.mime_type.clone());
    let mime_type = request
        .mime_type
        .clone()
        .or(kept)
        .unwrap_or_else(|| guess(path, &content).to_owned());
    // A guard that is there is the owner's, and stays (P17).
    let protection = match there {
        Some(file) => file.protection,
        None => request.protection.unwrap_or(Protection::None),
    };
    Ok(Written {
        content,
        mime_type,
        protection,
    })
}

/// Replaces a piece of text that occurs exactly once.
fn edit(path: &str, text: &str, old: &str, new: &str) -> Result<String, Error> {
    let Some(at) = text.find(old) else {
        return Err(Error::refused(format!(
            "`old_text` does not occur in `{path}`; read the file and give it to the letter"
        )));
    };
    // Two that overlap are two, and which was meant cannot be told.
    let step = old.chars().next().map_or(1, char::len_utf8);
    if text[at + step..].contains(old) {
        return Err(Error::refused(format!(
            "`old_text` occurs more than once in `{path}`; give more of the text around it"
        )));
    }
    Ok([&text[..at], new, &text[at + old.len()..]].concat())
}

/// What `fs_read` answers: the file and what is known about it.
pub fn read(request: &FsRead, there: Option<&File>) -> Result<Value, Error> {
    let path = &request.path;
    let file = there.ok_or_else(|| missing(path))?;
    let text = std::str::from_utf8(&file.content)
        .ok()
        .filter(|text| !text.contains('\0'));
    let lines = request.start_line.is_some() || request.end_line.is_some();
    let (content, encoding) = match (text, request.encoding) {
        (Some(text), None | Some(Encoding::Utf8)) if lines => (cut(request, text)?, "utf8"),
        (Some(text), None | Some(Encoding::Utf8)) => (text.to_owned(), "utf8"),
        (None, Some(Encoding::Utf8)) => {
            return Err(Error::refused(format!(
                "`{path}` is no text; read it with encoding `base64`"
            )));
        }
        (None, _) if lines => {
            return Err(Error::refused(format!(
                "`{path}` is no text and has no lines; leave out `start_line` and `end_line`"
            )));
        }
        (_, Some(Encoding::Base64)) | (None, None) => (
            base64::engine::general_purpose::STANDARD.encode(&file.content),
            "base64",
        ),
    };
    let mime_type = file
        .mime_type
        .as_deref()
        .unwrap_or_else(|| guess(path, &file.content));
    let mut members = Map::new();
    for (key, value) in [
        ("path", Value::from(path.as_str())),
        ("content", content.into()),
        ("encoding", encoding.into()),
        ("mime_type", mime_type.into()),
        ("size", file.content.len().into()),
        ("protection", file.protection.name().into()),
        ("created_at", file.created_at.as_str().into()),
        ("updated_at", file.updated_at.as_str().into()),
    ] {
        members.insert(key.into(), value);
    }
    Ok(Value::Object(members))
}

fn missing(path: &str) -> Error {
    Error::refused(format!("there is no file `{path}`"))
}

/// The lines asked for, with their ends.
fn cut(request: &FsRead, text: &str) -> Result<String, Error> {
    let start = request.start_line.unwrap_or(1);
    let index = |line: u64| usize::try_from(line).unwrap_or(usize::MAX);
    let count = text.split_inclusive('\n').count();
    if index(start) > count.max(1) {
        return Err(Error::refused(format!(
            "`{}` has {count} lines; `start_line` {start} is behind them",
            request.path
        )));
    }
    let wanted = request.end_line.map_or(usize::MAX, |end| {
        index(end).saturating_sub(index(start) - 1)
    });
    let lines = text.split_inclusive('\n').skip(index(start) - 1);
    Ok(lines.take(wanted).collect())
}

/// A MIME type by the name, else by whether it is text.
pub fn guess(path: &str, content: &[u8]) -> &'static str {
    const BY_NAME: [(&str, &str); 27] = [
        ("md", "text/markdown"),
        ("txt", "text/plain"),
        ("csv", "text/csv"),
        ("html", "text/html"),
        ("css", "text/css"),
        ("js", "text/javascript"),
        ("ts", "text/typescript"),
        ("json", "application/json"),
        ("xml", "application/xml"),
        ("yaml", "application/yaml"),
        ("yml", "application/yaml"),
        ("toml", "application/toml"),
        ("svg", "image/svg+xml"),
        ("png", "image/png"),
        ("jpg", "image/jpeg"),
        ("jpeg", "image/jpeg"),
        ("gif", "image/gif"),
        ("webp", "image/webp"),
        ("wav", "audio/wav"),
        ("mp3", "audio/mpeg"),
        ("ogg", "audio/ogg"),
        ("flac", "audio/flac"),
        ("m4a", "audio/mp4"),
        ("mp4", "video/mp4"),
        ("webm", "video/webm"),
        ("pdf", "application/pdf"),
        ("zip", "application/zip"),
    ];
    let ending = path
        .rsplit('/')
        .next()
        .and_then(|name| name.rsplit_once('.'));
    let by_name = ending.and_then(|(_, ending)| {
        BY_NAME
            .iter()
            .find(|(known, _)| ending.eq_ignore_ascii_case(known))
    });
    match by_name {
        Some((_, mime_type)) => mime_type,
        None if std::str::from_utf8(content).is_ok_and(|text| !text.contains('\0')) => "text/plain",
        None => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn file(content: &[u8]) -> File {
        File {
            content: content.to_vec(),
            mime_type: None,
            protection: Protection::None,
            created_at: "2026-01-01T00:00:00.000Z".into(),
            updated_at: "2026-01-02T00:00:00.000Z".into(),
        }
    }

    fn request(arguments: &Value) -> FsWrite {
        FsWrite::read(arguments).unwrap()
    }

    fn wrote(arguments: &Value, there: Option<&File>) -> Result<String, String> {
        write(&request(arguments), there, 20)
            .map(|written| String::from_utf8_lossy(&written.content).into_owned())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn paths_stay_inside() {
        for good in [
            "a",
            "mind/log.md",
            "mcp/git/x_1.png",
            "a b/ü",
            "..a/b..",
            "...",
            &"a".repeat(1024),
        ] {
            assert_eq!(check_path(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "/a",
            "~/a",
            "../a",
            "a/../b",
            "a/..",
            "./a",
            "a//b",
            "a/",
            "a\\b",
            "a\0b",
            "a\nb",
            "C:/a",
            "file:/a",
            &"a".repeat(1025),
        ] {
            assert!(check_path(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn each_mode_makes_of_a_file_what_it_says() {
        let there = file(b"one two");
        let check = |arguments: Value, there: Option<&File>, expect: Result<&str, &str>| {
            let expect = expect.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(wrote(&arguments, there), expect);
        };
        check(json!({"path": "a", "content": "x"}), None, Ok("x"));
        check(json!({"path": "a", "content": "x"}), Some(&there), Ok("x"));
        check(
            json!({"path": "a", "content": "x", "mode": "append"}),
            None,
            Ok("x"),
        );
        check(
            json!({"path": "a", "content": "!", "mode": "append"}),
            Some(&there),
            Ok("one two!"),
        );
        let edit = |old: &str, new: &str| json!({"path": "a", "mode": "edit", "old_text": old, "new_text": new});
        check(edit("two", "2"), Some(&there), Ok("one 2"));
        check(edit("two", ""), Some(&there), Ok("one "));
        check(edit("two", "2"), None, Err("there is no file `a`"));
        check(
            edit("three", "3"),
            Some(&there),
            Err("`old_text` does not occur in `a`; read the file and give it to the letter"),
        );
        let twice = "`old_text` occurs more than once in `a`; give more of the text around it";
        check(edit("o", "0"), Some(&there), Err(twice));
        check(edit("aa", "b"), Some(&file(b"aaa")), Err(twice));
        check(edit("üü", "b"), Some(&file("üüü".as_bytes())), Err(twice));
        check(
            edit("a", "b"),
            Some(&file(&[0xff, b'a'])),
            Err("`a` is no text, and mode `edit` takes text; use mode `write`"),
        );
        let long = "`a` would be 21 bytes long, more than `limits.max_file_write_bytes` allows: 20";
        check(
            json!({"path": "a", "content": "x".repeat(20)}),
            None,
            Ok(&"x".repeat(20)),
        );
        check(
            json!({"path": "a", "content": "x".repeat(21)}),
            None,
            Err(long),
        );
        check(
            json!({"path": "a", "content": "x".repeat(14), "mode": "append"}),
            Some(&there),
            Err(long),
        );
        let guarded = File {
            protection: Protection::ReadOnly,
            ..there
        };
        check(
            json!({"path": "a", "content": "x"}),
            Some(&guarded),
            Err("`a` is read-only; the owner can change that"),
        );
    }

    #[test]
    fn p17_a_guard_is_not_taken_off_by_writing() {
        let kept = File {
            protection: Protection::NoDelete,
            mime_type: Some("text/x".into()),
            ..file(b"")
        };
        let asked = request(&json!({"path": "a.bin", "content": "x", "protection": "none"}));
        let written = write(&asked, Some(&kept), 20).unwrap();
        assert_eq!(written.protection, Protection::NoDelete);
        assert_eq!(written.mime_type, "text/x");
        let asked = request(&json!({"path": "a.png", "content": "x", "protection": "no_delete"}));
        let written = write(&asked, None, 20).unwrap();
        assert_eq!(written.protection, Protection::NoDelete);
        assert_eq!(written.mime_type, "image/png");
    }

    #[test]
    fn a179_bytes_come_back_as_they_went() {
        let bytes: Vec<u8> = (0..=255).collect();
        let content = base64::engine::general_purpose::STANDARD.encode(&bytes);
        let asked = request(&json!({"path": "x.jpg", "content": content, "encoding": "base64"}));
        let written = write(&asked, None, 1000).unwrap();
        assert_eq!(written.content, bytes);
        let kept = file(&written.content);
        let value = read(
            &FsRead::read(&json!({"path": "x.jpg"})).unwrap(),
            Some(&kept),
        )
        .unwrap();
        assert_eq!(
            value,
            json!({
                "path": "x.jpg", "content": content, "encoding": "base64", "mime_type": "image/jpeg",
                "size": 256, "protection": "none",
                "created_at": "2026-01-01T00:00:00.000Z", "updated_at": "2026-01-02T00:00:00.000Z",
            })
        );
    }

    #[test]
    fn a_read_gives_lines() {
        let kept = file(b"one\ntwo\nthree");
        let check = |arguments: Value, expect: Result<&str, &str>| {
            let asked = FsRead::read(&arguments).unwrap();
            let got = read(&asked, Some(&kept))
                .map(|value| value["content"].as_str().unwrap().to_owned())
                .map_err(|error| error.to_string());
            let expect = expect.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(got, expect);
        };
        check(json!({"path": "a"}), Ok("one\ntwo\nthree"));
        check(json!({"path": "a", "start_line": 2}), Ok("two\nthree"));
        check(
            json!({"path": "a", "start_line": 2, "end_line": 2}),
            Ok("two\n"),
        );
        check(json!({"path": "a", "end_line": 9}), Ok("one\ntwo\nthree"));
        check(
            json!({"path": "a", "start_line": 4}),
            Err("`a` has 3 lines; `start_line` 4 is behind them"),
        );
        check(
            json!({"path": "a", "encoding": "base64"}),
            Ok("b25lCnR3bwp0aHJlZQ=="),
        );
        let asked = FsRead::read(&json!({"path": "b"})).unwrap();
        assert_eq!(
            read(&asked, None).unwrap_err().to_string(),
            "there is no file `b`"
        );
        let asked = FsRead::read(&json!({"path": "b", "encoding": "utf8"})).unwrap();
        assert_eq!(
            read(&asked, Some(&file(&[255]))).unwrap_err().to_string(),
            "`b` is no text; read it with encoding `base64`"
        );
    }

    #[test]
    fn the_limit_is_the_configurations() {
        assert_eq!(limit(&json!({})), MAX_WRITE);
        assert_eq!(limit(&json!({"limits": {"max_file_write_bytes": 7}})), 7);
    }
}
