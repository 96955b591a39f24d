//! What servers of the stateless era want back from a client: sealed, so that it is of use only to whom it was given,
//! for what it was given.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};

/// What all sealed states begin with.
const PREFIX: &str = "wharf-seal.";
/// How long a client may take to come back.
const LIFE: Duration = Duration::from_secs(24 * 3600);
const NONCE: usize = 24;

/// The key of one run of the daemon.
pub(super) struct Seal(XChaCha20Poly1305);

impl Default for Seal {
    fn default() -> Self {
        let mut key = [0; 32];
        getrandom::fill(&mut key).expect("the system has random numbers");
        Self(XChaCha20Poly1305::new(&key.into()))
    }
}

impl Seal {
    /// Seals a state for what `bound` describes.
    pub(super) fn seal(&self, bound: &str, state: &str) -> String {
        self.seal_at(bound, state, now())
    }

    fn seal_at(&self, bound: &str, state: &str, at: u64) -> String {
        let mut nonce = [0; NONCE];
        getrandom::fill(&mut nonce).expect("the system has random numbers");
        let mut plain = at.to_be_bytes().to_vec();
        plain.extend_from_slice(state.as_bytes());
        let payload = Payload {
            msg: &plain,
            aad: bound.as_bytes(),
        };
        let sealed = self.0.encrypt(&XNonce::from(nonce), payload);
        let mut bytes = nonce.to_vec();
        bytes.extend(sealed.expect("memory takes everything"));
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }

    /// The state, if it was sealed here, for the same thing, and not too long ago.
    pub(super) fn open(&self, bound: &str, sealed: &str) -> Option<String> {
        let bytes = URL_SAFE_NO_PAD.decode(sealed.strip_prefix(PREFIX)?).ok()?;
        let (nonce, rest) = bytes.split_first_chunk::<NONCE>()?;
        let payload = Payload {
            msg: rest,
            aad: bound.as_bytes(),
        };
        let plain = self.0.decrypt(&XNonce::from(*nonce), payload).ok()?;
        let (at, state) = plain.split_first_chunk::<8>()?;
        let age = now().saturating_sub(u64::from_be_bytes(*at));
        (age <= LIFE.as_secs()).then(|| String::from_utf8(state.to_vec()).ok())?
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_opened_by_whom_it_was_sealed_for() {
        let seal = Seal::default();
        let sealed = seal.seal("a\ntools/call\nx", "state é");
        assert_ne!(
            sealed,
            seal.seal("a\ntools/call\nx", "state é"),
            "never twice the same"
        );
        assert_eq!(
            seal.open("a\ntools/call\nx", &sealed).as_deref(),
            Some("state é")
        );
        assert_eq!(
            seal.open("b\ntools/call\nx", &sealed),
            None,
            "somebody else"
        );
        assert_eq!(
            Seal::default().open("a\ntools/call\nx", &sealed),
            None,
            "another run"
        );
        for changed in [
            &sealed[..sealed.len() - 1],
            "wharf-seal.",
            "",
            "state é",
            &format!("{sealed}A"),
        ] {
            assert_eq!(seal.open("a\ntools/call\nx", changed), None, "{changed}");
        }
        let old = seal.seal_at("a", "s", now() - LIFE.as_secs() - 5);
        assert_eq!(seal.open("a", &old), None, "too late");
    }
}
