//! Scripts: a line for each step, a letter for what to do, and what to send.
//!
//! ```text
//! h {…}           POST in a session of 2025-11-25
//! o {…}           POST in a session of 2025-03-26, which has batches
//! s {…}           POST of 2026-07-28, with the headers that its body asks for
//! p {…}           POST without a session
//! l {…}           a line on a connection as `wharf stdio` has it; `k` is another such connection
//! + Name: value   one more header for the next POST
//! - Name          without that header
//! m METHOD        with that method
//! a NAME          at that agent's endpoint
//! g               opens the stream of the session of `h`
//! d               ends the session of `h`
//! w               waits for a question of a server, a moment long
//! ```
//!
//! In what is sent, these stand for what only the run knows: `$SESSION`, `$STATE` and `$QUESTION` (the last state and
//! question that a server gave this client), `$TASK` (its last task), the same of the neighbour as `$HIS_SESSION`,
//! `$HIS_STATE`, `$HIS_PARKED` and `$HIS_TASK`; `$DEEP` is a value nested deeply, `$LONG` more text than is taken.
//! Lines that begin otherwise are comments.

/// By which door something is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Door {
    Session,
    Batches,
    Stateless,
    Plain,
}

#[derive(Debug, Clone)]
pub(super) enum Step {
    Post(Door, Vec<u8>, Dress),
    Line(usize, Vec<u8>),
    Stream,
    End,
    Wait,
}

/// How a request differs from what a client would send.
#[derive(Debug, Clone, Default)]
pub(super) struct Dress {
    pub(super) more: Vec<(Vec<u8>, Vec<u8>)>,
    pub(super) without: Vec<String>,
    pub(super) method: Option<String>,
    pub(super) agent: Option<String>,
}

impl Dress {
    pub(super) fn is_plain(&self) -> bool {
        self.more.is_empty()
            && self.without.is_empty()
            && self.method.is_none()
            && self.agent.is_none()
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Script {
    pub(super) steps: Vec<Step>,
}

/// Longer scripts only take longer.
const MOST: usize = 40;

impl Script {
    pub(super) fn read(input: &[u8]) -> Self {
        let mut steps = vec![];
        let mut dress = Dress::default();
        for line in input.split(|byte| *byte == b'\n') {
            let (letter, rest) = line.split_first().unwrap_or((&b'#', &[]));
            let rest = rest.strip_prefix(b" ").unwrap_or(rest);
            let text = || String::from_utf8_lossy(rest).trim().to_owned();
            let post =
                |door, dress: &mut Dress| Step::Post(door, rest.to_vec(), std::mem::take(dress));
            match letter {
                b'h' => steps.push(post(Door::Session, &mut dress)),
                b'o' => steps.push(post(Door::Batches, &mut dress)),
                b's' => steps.push(post(Door::Stateless, &mut dress)),
                b'p' => steps.push(post(Door::Plain, &mut dress)),
                b'l' => steps.push(Step::Line(0, rest.to_vec())),
                b'k' => steps.push(Step::Line(1, rest.to_vec())),
                b'+' => dress.more.extend(header(rest)),
                b'-' => dress.without.push(text()),
                b'm' => dress.method = Some(text()),
                b'a' => dress.agent = Some(text()),
                b'g' => steps.push(Step::Stream),
                b'd' => steps.push(Step::End),
                b'w' => steps.push(Step::Wait),
                _ => {}
            }
            if steps.len() >= MOST {
                break;
            }
        }
        Self { steps }
    }
}

/// Headers that say where a message ends are the HTTP library's affair.
const FRAMING: [&str; 5] = [
    "content-length",
    "transfer-encoding",
    "expect",
    "upgrade",
    "connection",
];

fn header(line: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    let known = String::from_utf8_lossy(name).to_ascii_lowercase();
    let framing = FRAMING.iter().any(|framing| known.contains(framing));
    (!framing).then(|| (name.to_vec(), value.trim_ascii().to_vec()))
}
