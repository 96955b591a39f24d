//! Keys, nonces and ids, all from the system's source.

/// Letters of ids: 32, so that five bits choose one.
const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

pub(super) fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system has a source of random bytes");
    bytes
}

/// An id of twelve letters.
pub(super) fn id() -> String {
    let letter = |byte: u8| char::from(LETTERS[usize::from(byte % 32)]);
    bytes::<12>().map(letter).iter().collect()
}
