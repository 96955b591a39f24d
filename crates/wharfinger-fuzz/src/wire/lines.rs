//! Lines: however the bytes arrive, the same lines come out, and those beyond the limit are let go whole.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, ReadBuf};
use wharfinger_wire::lines::{Line, LineReader};
use wharfinger_wire::message::{Found, scan};

use super::drawn;

pub(super) fn check(input: &[u8]) {
    let number = drawn(input);
    let pick = |from: &[usize], shift: u32| {
        let byte = usize::try_from((number >> shift) & 0xff).unwrap_or(0);
        from[byte % from.len()]
    };
    let pieces = [
        pick(&[1, 2, 3, 5, 16, 100, 4096, 100_000], 8),
        pick(&[1, 2, 7, 64, 8192], 16),
    ];
    let limit = pick(
        &[
            0,
            1,
            2,
            10,
            80,
            300,
            input.len(),
            input.len().saturating_sub(1),
            100_000,
        ],
        24,
    );
    let pauses = number & 1 == 0;
    let drip = || Drip::new(input, pieces, pauses);
    let expected = cut(input, limit);
    assert_eq!(
        read(LineReader::with_limit(drip(), limit), false),
        expected,
        "limit {limit}, pieces of {pieces:?}, pauses {pauses}"
    );
    // What is given up half-way loses nothing where no line is beyond the limit.
    let expected = cut(input, usize::MAX);
    assert_eq!(
        read(LineReader::new(drip()), true),
        expected,
        "pieces of {pieces:?}, given up at each pause"
    );
}

/// A line, owned.
#[derive(Debug, PartialEq)]
enum Seen {
    Text(String),
    Unfinished(String),
    NotUtf8(Vec<u8>),
    /// How long, and whose.
    Oversized(usize, Found),
}

/// What the reader is expected to see, told from all of the input at once.
fn cut(input: &[u8], limit: usize) -> Vec<Seen> {
    let mut lines: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
    let rest = lines.pop().unwrap_or_default();
    let finished = lines.into_iter().map(|line| (line, true));
    let rest = (!rest.is_empty()).then_some((rest, false));
    let see = |(line, finished): (&[u8], bool)| {
        if line.len() > limit {
            return Seen::Oversized(line.len(), scan(line));
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match std::str::from_utf8(line) {
            Ok(text) if finished => Seen::Text(text.to_owned()),
            Ok(text) => Seen::Unfinished(text.to_owned()),
            Err(_) => Seen::NotUtf8(line.to_vec()),
        }
    };
    finished.chain(rest).map(see).collect()
}

/// Reads to the end; `fickle` drops the future at each pause and asks anew.
fn read(mut reader: LineReader<Drip<'_>>, fickle: bool) -> Vec<Seen> {
    let mut context = Context::from_waker(Waker::noop());
    let mut seen = vec![];
    loop {
        let next = loop {
            let mut next = pin!(reader.next_line());
            match next.as_mut().poll(&mut context) {
                Poll::Ready(line) => break own(line),
                Poll::Pending if fickle => {}
                Poll::Pending => {
                    break loop {
                        if let Poll::Ready(line) = next.as_mut().poll(&mut context) {
                            break own(line);
                        }
                    };
                }
            }
        };
        match next {
            Some(line) => seen.push(line),
            None => return seen,
        }
    }
}

fn own(line: io::Result<Option<Line<'_>>>) -> Option<Seen> {
    Some(match line.expect("memory can be read")? {
        Line::Text(text) => Seen::Text(text.to_owned()),
        Line::Unfinished(text) => Seen::Unfinished(text.to_owned()),
        Line::NotUtf8(bytes) => Seen::NotUtf8(bytes.to_vec()),
        Line::Oversized(line) => {
            assert!(line.head.len() <= line.bytes.min(4096), "too much is kept");
            Seen::Oversized(line.bytes, line.found)
        }
    })
}

/// Gives the input in pieces of two sizes by turns, and a pause before each if wanted.
struct Drip<'a> {
    rest: &'a [u8],
    pieces: [usize; 2],
    turn: usize,
    pauses: bool,
    paused: bool,
}

impl<'a> Drip<'a> {
    fn new(rest: &'a [u8], pieces: [usize; 2], pauses: bool) -> Self {
        Self {
            rest,
            pieces,
            turn: 0,
            pauses,
            paused: false,
        }
    }
}

impl AsyncRead for Drip<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.paused = self.pauses && !self.paused;
        if self.paused {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let size = self.pieces[self.turn % 2];
        self.turn += 1;
        let (piece, rest) = self
            .rest
            .split_at(size.min(self.rest.len()).min(into.remaining()));
        into.put_slice(piece);
        self.rest = rest;
        Poll::Ready(Ok(()))
    }
}
