//! Committed inputs, and variations of them: what a fuzzer would do, without one.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::sample::Index;

/// One committed input.
#[derive(Debug, Clone)]
pub struct Input {
    /// Its file.
    pub file: PathBuf,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// The inputs of a target, crashes of the past included, in the order of their names.
///
/// # Panics
/// If there are none.
pub fn inputs(target: &str) -> Vec<Input> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| {
        panic!("{}: {error}", folder.display());
    });
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    files.sort();
    let read = |file: PathBuf| {
        let bytes = fs::read(&file).ok()?;
        Some(Input { file, bytes })
    };
    let inputs: Vec<Input> = files.into_iter().filter_map(read).collect();
    assert!(!inputs.is_empty(), "{} is empty", folder.display());
    inputs
}

/// An input, shown as text.
#[derive(Clone)]
pub struct Bytes(pub Vec<u8>);

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "b\"{}\"", self.0.escape_ascii())
    }
}

/// One change of an input.
#[derive(Debug, Clone)]
enum Edit {
    Flip(Index, u8),
    Remove(Index, usize),
    /// A piece of it once more, elsewhere.
    Repeat(Index, usize, Index),
    /// A piece of another input.
    Splice(Index, Vec<u8>),
    Insert(Index, Vec<u8>),
    Cut(Index),
}

/// Inputs like those of the corpus: one of them with some changes. `words` are put in, besides what often matters.
///
/// # Panics
/// If the corpus is empty.
pub fn variations(corpus: &[Input], words: &[&str]) -> impl Strategy<Value = Bytes> + use<> {
    let inputs: Vec<Vec<u8>> = corpus.iter().map(|input| input.bytes.clone()).collect();
    let mut all: Vec<Vec<u8>> = TOKENS.iter().map(|token| token.to_vec()).collect();
    all.extend(words.iter().map(|word| word.as_bytes().to_vec()));
    all.push("[".repeat(3000).into_bytes());
    all.push("{\"a\":".repeat(2000).into_bytes());
    let piece = (
        proptest::sample::select(inputs.clone()),
        any::<Index>(),
        1_usize..80,
    );
    let piece = piece.prop_map(|(input, from, length)| slice(&input, from, length).to_vec());
    let edit = prop_oneof![
        3 => (any::<Index>(), any::<u8>()).prop_map(|(at, with)| Edit::Flip(at, with)),
        3 => (any::<Index>(), 1_usize..60).prop_map(|(at, length)| Edit::Remove(at, length)),
        2 => (any::<Index>(), 1_usize..80, any::<Index>())
            .prop_map(|(from, length, at)| Edit::Repeat(from, length, at)),
        3 => (any::<Index>(), piece).prop_map(|(at, bytes)| Edit::Splice(at, bytes)),
        6 => (any::<Index>(), proptest::sample::select(all))
            .prop_map(|(at, bytes)| Edit::Insert(at, bytes)),
        1 => any::<Index>().prop_map(Edit::Cut),
    ];
    let edits = proptest::collection::vec(edit, 0..6);
    (proptest::sample::select(inputs), edits).prop_map(|(mut input, edits)| {
        for edit in edits {
            apply(&mut input, edit);
        }
        Bytes(input)
    })
}

/// What parsers of JSON, of lines and of this protocol look at.
const TOKENS: &[&[u8]] = &[
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"\n",
    b"\r",
    b"\r\n",
    b" ",
    b"\0",
    b"\xff",
    b"\xc3",
    "\u{feff}".as_bytes(),
    "\u{2028}".as_bytes(),
    b"null",
    b"true",
    b"-0",
    b"1e400",
    b"1180591620717411303424",
    b"\\ud800",
    b"\\u0022",
    b"\"id\":1,",
    b"\"id\":null,",
    b"\"id\":\"a\",",
    b"\"method\":\"ping\",",
    b"\"result\":{},",
    b"\"error\":{\"code\":-1},",
    b"\"params\":{},",
    b"\"_meta\":{},",
    b"\"_meta\":null,",
    b"\"resultType\":\"complete\",",
    b"\"structuredContent\":[],",
    b"\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",",
    b"\"io.modelcontextprotocol/clientCapabilities\":{},",
    b"\"io.modelcontextprotocol/serverInfo\":{},",
];

fn slice(bytes: &[u8], from: Index, length: usize) -> &[u8] {
    let from = from.index(bytes.len() + 1);
    &bytes[from..bytes.len().min(from + length)]
}

fn insert(input: &mut Vec<u8>, at: Index, bytes: &[u8]) {
    let at = at.index(input.len() + 1);
    input.splice(at..at, bytes.iter().copied());
}

fn apply(input: &mut Vec<u8>, edit: Edit) {
    match edit {
        Edit::Flip(at, with) => {
            let length = input.len();
            if length > 0 {
                input[at.index(length)] ^= with;
            }
        }
        Edit::Remove(at, length) => {
            let from = at.index(input.len() + 1);
            let to = input.len().min(from + length);
            input.drain(from..to);
        }
        Edit::Repeat(from, length, at) => {
            let piece = slice(input, from, length).to_vec();
            insert(input, at, &piece);
        }
        Edit::Splice(at, bytes) | Edit::Insert(at, bytes) => insert(input, at, &bytes),
        Edit::Cut(at) => input.truncate(at.index(input.len() + 1)),
    }
}
