//! One message a line.
//!
//! The reader hands out lines from a buffer it reuses. A line beyond the limit is read to its end
//! and let go, but not without looking for the id in it, so that whoever waits for that answer can
//! be told.

use std::io;
use std::ops::Range;

use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::message::{Found, Scanner};

/// The longest line, unless told otherwise: 64 MiB.
pub const DEFAULT_LIMIT: usize = 64 * 1024 * 1024;

/// How much of an oversized line is kept to be shown.
const HEAD: usize = 4 * 1024;
/// What the buffer begins with.
const SMALL: usize = 8 * 1024;
/// What the buffer may keep between lines.
const KEPT: usize = 256 * 1024;
/// Room for a read once the other side has shown that it fills smaller ones; a pipe holds as much.
const CHUNK: usize = 64 * 1024;

/// What came instead of, or as, a line.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A line without its line end, which may be `\n` or `\r\n`.
    Text(&'a str),
    /// What stood after the last line end when the stream ended.
    Unfinished(&'a str),
    /// A line that is not UTF-8.
    NotUtf8(&'a [u8]),
    /// A line beyond the limit.
    Oversized(Oversized),
}

/// A line that was too long to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Oversized {
    /// Its length.
    pub bytes: usize,
    /// Its first few thousand bytes.
    pub head: Vec<u8>,
    /// What the whole line says about whose it is.
    pub found: Found,
}

/// Reads lines from a byte stream.
#[derive(Debug)]
pub struct LineReader<R> {
    reader: R,
    limit: usize,
    buffer: Vec<u8>,
    /// Where the next line begins.
    start: usize,
    /// Up to where there is no line end.
    searched: usize,
    /// Room to make before a read.
    chunk: usize,
    ended: bool,
}

/// Where in the buffer the next thing to hand out is.
enum Next {
    Line(Range<usize>),
    Rest(Range<usize>),
    Oversized(Oversized),
    End,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// A reader with the default limit.
    pub fn new(reader: R) -> Self {
        Self::with_limit(reader, DEFAULT_LIMIT)
    }

    /// A reader that lets go of lines longer than `limit` bytes.
    pub fn with_limit(reader: R, limit: usize) -> Self {
        Self {
            reader,
            limit,
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            chunk: SMALL,
            ended: false,
        }
    }

    /// The next line, or none at the end of the stream.
    ///
    /// A future dropped half-way loses nothing, unless it was in the middle of an oversized line:
    /// the rest of that line then comes as a line.
    pub async fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        let next = self.find().await?;
        let (range, finished) = match next {
            Next::Line(range) => (range, true),
            Next::Rest(range) => (range, false),
            Next::Oversized(oversized) => return Ok(Some(Line::Oversized(oversized))),
            Next::End => return Ok(None),
        };
        let bytes = &self.buffer[range];
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        Ok(Some(match std::str::from_utf8(bytes) {
            Ok(text) if finished => Line::Text(text),
            Ok(text) => Line::Unfinished(text),
            Err(_) => Line::NotUtf8(bytes),
        }))
    }

    async fn find(&mut self) -> io::Result<Next> {
        loop {
            if let Some(length) = memchr::memchr(b'\n', &self.buffer[self.searched..]) {
                let line = self.start..self.searched + length;
                self.start = line.end + 1;
                self.searched = self.start;
                if line.len() > self.limit {
                    return Ok(Next::Oversized(oversized(&self.buffer[line])));
                }
                return Ok(Next::Line(line));
            }
            self.searched = self.buffer.len();
            if self.buffer.len() - self.start > self.limit {
                return self.skip().await.map(Next::Oversized);
            }
            if self.ended || self.read().await? == 0 {
                self.ended = true;
                let rest = self.start..self.buffer.len();
                self.start = rest.end;
                return Ok(if rest.is_empty() {
                    Next::End
                } else {
                    Next::Rest(rest)
                });
            }
        }
    }

    /// Reads more, and forgets the lines handed out before.
    async fn read(&mut self) -> io::Result<usize> {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        if self.buffer.capacity() > KEPT && self.buffer.len() + CHUNK <= KEPT {
            self.buffer.shrink_to(KEPT);
        }
        if self.buffer.capacity() - self.buffer.len() < self.chunk / 2 {
            self.buffer.reserve(self.chunk);
        }
        let room = self.buffer.capacity() - self.buffer.len();
        let read = self.reader.read_buf(&mut self.buffer).await?;
        if read == room {
            self.chunk = CHUNK;
        }
        Ok(read)
    }

    /// Reads the oversized line at hand to its end without keeping it.
    async fn skip(&mut self) -> io::Result<Oversized> {
        let mut scanner = Scanner::new();
        let head = self.buffer[self.start..][..HEAD.min(self.buffer.len() - self.start)].to_vec();
        let mut bytes = 0;
        loop {
            let piece = &self.buffer[self.start..];
            let end =
                memchr::memchr(b'\n', &self.buffer[self.searched..]).map(|at| self.searched + at);
            let piece = &piece[..end.map_or(piece.len(), |end| end - self.start)];
            scanner.feed(piece);
            bytes += piece.len();
            if let Some(end) = end {
                self.start = end + 1;
                self.searched = self.start;
                break;
            }
            self.buffer.clear();
            (self.start, self.searched) = (0, 0);
            if self.read().await? == 0 {
                self.ended = true;
                break;
            }
        }
        Ok(Oversized {
            bytes,
            head,
            found: scanner.finish(),
        })
    }
}

fn oversized(line: &[u8]) -> Oversized {
    let mut scanner = Scanner::new();
    scanner.feed(line);
    let head = line[..HEAD.min(line.len())].to_vec();
    Oversized {
        bytes: line.len(),
        head,
        found: scanner.finish(),
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::ReadBuf;

    use super::*;
    use crate::message::Id;

    /// The lines of `input`, arriving in pieces of any size.
    async fn read(input: &[u8], limit: usize, piece: usize) -> Vec<String> {
        let mut reader = LineReader::with_limit(Pieces(input.to_owned(), piece), limit);
        let mut lines = Vec::new();
        while let Some(line) = reader.next_line().await.unwrap() {
            lines.push(match line {
                Line::Text(text) => text.to_owned(),
                Line::Unfinished(text) => format!("unfinished {text}"),
                Line::NotUtf8(bytes) => format!("odd {}", bytes.len()),
                Line::Oversized(Oversized { bytes, found, .. }) => {
                    format!("oversized {bytes} {:?}", found.id.map(|id| id.to_string()))
                }
            });
        }
        lines
    }

    /// Gives so many bytes a read at most.
    struct Pieces(Vec<u8>, usize);

    impl AsyncRead for Pieces {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            into: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let size = self.0.len().min(self.1).min(into.remaining());
            into.put_slice(&self.0[..size]);
            drop(self.0.drain(..size));
            Poll::Ready(Ok(()))
        }
    }

    async fn check(input: &[u8], limit: usize, expected: &[&str]) {
        for piece in [1, 2, 3, 7, 1 << 20] {
            assert_eq!(
                read(input, limit, piece).await,
                expected,
                "pieces of {piece}"
            );
        }
    }

    #[tokio::test]
    async fn lines_end_in_many_ways() {
        check(b"", 9, &[]).await;
        check(b"\n\n", 9, &["", ""]).await;
        check(b"a\nbc\r\nd", 9, &["a", "bc", "unfinished d"]).await;
        check("é\n".as_bytes(), 9, &["é"]).await;
        check(b"a\n\xe9\xff\nb\n", 9, &["a", "odd 2", "b"]).await;
        check(b"a\n\xe9", 9, &["a", "odd 1"]).await;
    }

    #[tokio::test]
    async fn oversized_lines_are_let_go_but_for_their_id() {
        let line = format!(r#"{{"result":"{}","id":12}}"#, "x".repeat(40_000));
        let told = format!("oversized {} Some(\"12\")", line.len());
        let input = format!("a\n{line}\nb\n{line}");
        check(input.as_bytes(), 30, &["a", &told, "b", &told]).await;
        check(
            b"1234\n123\n12345",
            3,
            &["oversized 4 None", "123", "oversized 5 None"],
        )
        .await;
    }

    #[tokio::test]
    async fn a_huge_line_does_not_stay_in_memory() {
        let line = "x".repeat(3 << 20);
        let mut reader = LineReader::new(Pieces(format!("{line}\nb\n").into_bytes(), 99_999));
        assert_eq!(reader.next_line().await.unwrap(), Some(Line::Text(&line)));
        assert_eq!(reader.next_line().await.unwrap(), Some(Line::Text("b")));
        assert_eq!(reader.next_line().await.unwrap(), None);
        assert!(
            reader.buffer.capacity() <= KEPT,
            "{}",
            reader.buffer.capacity()
        );
    }

    #[tokio::test]
    async fn the_head_of_an_oversized_line_is_kept() {
        let line = format!("{{\"id\":1,{}", "y".repeat(9000));
        let mut reader = LineReader::with_limit(Pieces(line.clone().into_bytes(), 100), 50);
        let Some(Line::Oversized(oversized)) = reader.next_line().await.unwrap() else {
            panic!("not oversized");
        };
        assert_eq!(oversized.bytes, 9008);
        assert!(line.as_bytes().starts_with(&oversized.head) && oversized.head.len() >= 51);
        assert_eq!(
            oversized.found,
            Found {
                id: Some(Id::number(1)),
                response: true
            }
        );
    }
}
