//! The standard error of a server: always read, its last lines kept.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use super::{Audience, Note};

/// The last lines of something, at most so many. Clones share them.
#[derive(Clone, Debug)]
pub struct Lines {
    kept: Arc<Mutex<VecDeque<String>>>,
    limit: usize,
}

impl Lines {
    /// Keeps this many.
    pub fn new(limit: usize) -> Self {
        Self {
            kept: Arc::default(),
            limit,
        }
    }

    /// Adds one, and lets the oldest go when there are too many.
    pub fn push(&self, line: String) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= self.limit {
            kept.pop_front();
        }
        kept.push_back(line);
    }

    /// The last `count`, oldest first.
    pub fn tail(&self, count: usize) -> Vec<String> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter()
            .skip(kept.len().saturating_sub(count))
            .cloned()
            .collect()
    }
}

/// Reads to the end. A line without end is cut at `longest` bytes, its rest dropped, so nothing grows.
pub(super) async fn drain(
    stderr: impl AsyncRead + Unpin,
    longest: usize,
    kept: [Lines; 2],
    audience: Arc<dyn Audience>,
) {
    let mut reader = BufReader::new(stderr);
    let (mut line, mut cut) = (vec![], false);
    while let Ok(piece) = reader.fill_buf().await {
        if piece.is_empty() {
            break;
        }
        let end = piece.iter().position(|byte| *byte == b'\n');
        let part = &piece[..end.unwrap_or(piece.len())];
        let room = longest - line.len().min(longest);
        cut |= part.len() > room;
        line.extend(&part[..part.len().min(room)]);
        let used = end.map_or(piece.len(), |end| end + 1);
        reader.consume(used);
        if end.is_some() {
            give(&mut line, std::mem::take(&mut cut), &kept, &*audience);
        }
    }
    if !line.is_empty() {
        give(&mut line, cut, &kept, &*audience);
    }
}

fn give(line: &mut Vec<u8>, cut: bool, kept: &[Lines; 2], audience: &dyn Audience) {
    let text = String::from_utf8_lossy(line);
    let text = if cut {
        whole_words(&text)
    } else {
        text.trim_end()
    }
    .to_owned();
    line.clear();
    if !text.is_empty() {
        for lines in kept {
            lines.push(text.clone());
        }
        audience.note(Note::Stderr(text));
    }
}

/// A cut text without the word that was cut: half of a secret would not be known as one.
pub(super) fn whole_words(text: &str) -> &str {
    text.rfind(char::is_whitespace)
        .map_or("", |at| &text[..at])
        .trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nobody;
    impl Audience for Nobody {
        fn note(&self, _: Note) {}
        fn asked(&self, _: super::super::Asked) {}
    }

    #[tokio::test]
    async fn lines_are_kept_cut_and_bounded() {
        let lines = Lines::new(3);
        let text = b"one\n\ntwo\r\nthreetoolong\nfour\xff\nrest";
        let other = Lines::new(3);
        drain(&text[..], 8, [lines.clone(), other], Arc::new(Nobody)).await;
        assert_eq!(lines.tail(10), ["two", "four\u{fffd}", "rest"]);
        assert_eq!(lines.tail(1), ["rest"]);
    }
}
