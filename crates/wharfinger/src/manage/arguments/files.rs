//! `fs_read` and `fs_write`.

use serde_json::Value;

use super::Reader;
use crate::manage::Error;

/// How bytes are written in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// As they are: text.
    Utf8,
    /// Any bytes.
    Base64,
}

impl Encoding {
    /// Every encoding and its name.
    pub const ALL: [(&'static str, Self); 3] = [
        ("utf8", Self::Utf8),
        ("base64", Self::Base64),
        ("utf-8", Self::Utf8),
    ];
}

/// How a file of an agent is guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Neither written nor deleted.
    ReadOnly,
    /// Written, not deleted.
    NoDelete,
    /// Not guarded.
    None,
}

impl Protection {
    /// Every protection and its name in the file format.
    pub const ALL: [(&'static str, Self); 3] = [
        ("read_only", Self::ReadOnly),
        ("no_delete", Self::NoDelete),
        ("none", Self::None),
    ];

    /// Its name in the file format.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "read_only",
            Self::NoDelete => "no_delete",
            Self::None => "none",
        }
    }
}

/// `fs_read`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FsRead {
    /// The file.
    pub path: String,
    /// Text as text and the rest as base64, unless given.
    pub encoding: Option<Encoding>,
    /// The first line wanted, counted from 1.
    pub start_line: Option<u64>,
    /// The last line wanted.
    pub end_line: Option<u64>,
}

impl FsRead {
    /// Reads the arguments of a call.
    pub fn read(arguments: &Value) -> Result<Self, Error> {
        let mut reader = Reader::new(arguments)?;
        let path = path(&mut reader);
        let encoding = reader.choice("encoding", &Encoding::ALL);
        let start_line = reader.number("start_line", 1, u64::MAX);
        let end_line = reader.number("end_line", 1, u64::MAX);
        if let (Some(start), Some(end)) = (start_line, end_line)
            && end < start
        {
            reader.complain("end_line", "is before `start_line`");
        }
        if encoding == Some(Encoding::Base64) && (start_line.is_some() || end_line.is_some()) {
            reader.complain("encoding", "base64 has no lines; leave them out");
        }
        reader.done(Self {
            path,
            encoding,
            start_line,
            end_line,
        })
    }
}

/// What `fs_write` does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// The file is these bytes afterwards.
    Write(Vec<u8>),
    /// The file ends with these bytes afterwards.
    Append(Vec<u8>),
    /// A piece of text that occurs once is replaced.
    Edit {
        /// What is there.
        old: String,
        /// What shall be there.
        new: String,
    },
}

/// `fs_write`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FsWrite {
    /// The file.
    pub path: String,
    /// What to do with it.
    pub mode: WriteMode,
    /// Kept with a file that is made, guessed from its name unless given.
    pub mime_type: Option<String>,
    /// How a file that is made is guarded.
    pub protection: Option<Protection>,
}

impl FsWrite {
    /// Reads the arguments of a call.
    pub fn read(arguments: &Value) -> Result<Self, Error> {
        #[derive(Clone, Copy, PartialEq)]
        enum Verb {
            Write,
            Edit,
            Append,
        }
        let verbs = [
            ("write", Verb::Write),
            ("edit", Verb::Edit),
            ("append", Verb::Append),
        ];
        let mut reader = Reader::new(arguments)?;
        let path = path(&mut reader);
        let verb = reader.choice("mode", &verbs).unwrap_or(Verb::Write);
        let encoding = reader.choice("encoding", &Encoding::ALL);
        let content = reader.text("content");
        let old = reader.text("old_text");
        let new = reader.text("new_text");
        let mime_type = reader.word("mime_type");
        let protection = reader.choice("protection", &Protection::ALL);
        let mode = if verb == Verb::Edit {
            for (field, given) in [
                ("content", content.is_some()),
                ("encoding", encoding == Some(Encoding::Base64)),
                ("mime_type", mime_type.is_some()),
                ("protection", protection.is_some()),
            ] {
                if given {
                    reader.complain(field, "is not for mode `edit`, which takes text");
                }
            }
            match (&old, &new) {
                (Some(old), _) if old.is_empty() => reader.complain("old_text", "is empty"),
                (None, _) => reader.complain("old_text", "is missing: mode `edit` needs it"),
                (Some(_), None) => {
                    reader.complain("new_text", "is missing; `\"\"` deletes the text");
                }
                (Some(_), Some(_)) => {}
            }
            WriteMode::Edit {
                old: old.unwrap_or_default(),
                new: new.unwrap_or_default(),
            }
        } else {
            for (field, given) in [("old_text", old.is_some()), ("new_text", new.is_some())] {
                if given {
                    reader.complain(field, "is for mode `edit` only");
                }
            }
            if content.is_none() {
                reader.complain("content", "is missing");
            }
            let content = content.unwrap_or_default();
            let encoding = encoding.unwrap_or(Encoding::Utf8);
            let bytes = decode(&mut reader, "content", content, encoding);
            match verb {
                Verb::Append => WriteMode::Append(bytes),
                Verb::Write | Verb::Edit => WriteMode::Write(bytes),
            }
        };
        reader.done(Self {
            path,
            mode,
            mime_type,
            protection,
        })
    }
}

/// A path, kept as it was given if it is a good one.
fn path(reader: &mut Reader) -> String {
    let path = reader.required("path");
    if !path.is_empty()
        && let Err(text) = crate::manage::files::check_path(&path)
    {
        reader.complain("path", text);
    }
    path
}

/// Bytes from their form in JSON. Base64 may be broken into lines.
pub(super) fn decode(
    reader: &mut Reader,
    field: &'static str,
    content: String,
    encoding: Encoding,
) -> Vec<u8> {
    use base64::Engine as _;
    match encoding {
        Encoding::Utf8 => content.into_bytes(),
        Encoding::Base64 => {
            let compact: String = content.split_ascii_whitespace().collect();
            base64::engine::general_purpose::STANDARD
                .decode(compact)
                .unwrap_or_else(|error| {
                    reader.complain(field, format!("is not base64: {error}"));
                    vec![]
                })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fs_write_reads_each_mode() {
        let check = |arguments: Value, expect: WriteMode| {
            assert_eq!(FsWrite::read(&arguments).unwrap().mode, expect);
        };
        check(
            json!({"path": "a.md", "content": "x"}),
            WriteMode::Write(b"x".to_vec()),
        );
        check(
            json!({"mode": "append", "path": "a.md", "content": ""}),
            WriteMode::Append(vec![]),
        );
        check(
            json!({"path": "a.bin", "content": "AP8=\n", "encoding": "base64"}),
            WriteMode::Write(vec![0, 255]),
        );
        check(
            json!({"mode": "edit", "path": "a", "old_text": "a", "new_text": ""}),
            WriteMode::Edit {
                old: "a".into(),
                new: String::new(),
            },
        );
    }

    #[test]
    fn fs_write_refuses_what_a_mode_does_not_take() {
        let check = |arguments: Value, expect: &str| {
            assert_eq!(FsWrite::read(&arguments).unwrap_err().to_string(), expect);
        };
        check(json!({"path": "a"}), "`content` is missing");
        check(
            json!({"path": "a", "mode": "edit", "content": "x"}),
            "`content` is not for mode `edit`, which takes text; `old_text` is missing: mode `edit` needs it",
        );
        check(
            json!({"path": "a", "mode": "edit", "old_text": "", "new_text": "b"}),
            "`old_text` is empty",
        );
        check(
            json!({"path": "a", "mode": "edit", "old_text": "a"}),
            "`new_text` is missing; `\"\"` deletes the text",
        );
        check(
            json!({"path": "../a", "content": "x", "old_text": "b"}),
            "`path` may not hold `..`; `old_text` is for mode `edit` only",
        );
        check(
            json!({"path": "a", "content": "*", "encoding": "base64"}),
            "`content` is not base64: Invalid symbol 42, offset 0.",
        );
        check(
            json!({"path": "a", "content": "x", "protection": "readonly"}),
            "`protection` must be one of read_only, no_delete, none, not `readonly`",
        );
    }

    #[test]
    fn fs_read_takes_lines() {
        let read = FsRead::read(&json!({"path": "a", "start_line": 2, "end_line": 3})).unwrap();
        assert_eq!((read.start_line, read.end_line), (Some(2), Some(3)));
        let check = |arguments: Value, expect: &str| {
            assert_eq!(FsRead::read(&arguments).unwrap_err().to_string(), expect);
        };
        check(
            json!({"path": "a", "start_line": 3, "end_line": 2}),
            "`end_line` is before `start_line`",
        );
        check(
            json!({"path": "a", "start_line": 0}),
            "`start_line` must be a whole number from 1 to 18446744073709551615",
        );
        check(
            json!({"path": "a", "start_line": 1, "encoding": "base64"}),
            "`encoding` base64 has no lines; leave them out",
        );
    }
}
