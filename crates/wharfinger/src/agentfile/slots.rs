//! An envelope's key, wrapped: a slot for each who may have it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hkdf::Hkdf;
use serde_json::{Value, json};
use sha2::Sha256;
use x25519_dalek::x25519;
use zeroize::Zeroizing;

use super::envelope::{Envelope, Key, decrypt, encrypt, public};
use super::random;

/// Slots that are looked at.
const SLOTS: usize = 64;
/// Password slots that are tried: each costs about half a second.
const PASSWORD_SLOTS: usize = 4;

/// Whose a key slot is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    Runtime,
    Owner,
}

impl Holder {
    fn as_str(self) -> &'static str {
        match self {
            Self::Runtime => "runtime",
            Self::Owner => "owner",
        }
    }
}

/// Wraps an envelope's key for somebody; their public key is enough.
pub(super) fn key_slot(
    dek: &Key,
    envelope: Envelope,
    holder: Holder,
    did: &str,
    recipient: &[u8; 32],
) -> Value {
    let ephemeral: Key = Zeroizing::new(random::bytes());
    let ephemeral_public = public(&ephemeral);
    let wrap = wrap_key(&ephemeral, recipient, &ephemeral_public, envelope)
        .expect("our own public keys are of full order");
    let (nonce, wrapped) = encrypt(&wrap, dek.as_slice());
    json!({
        "type": holder.as_str(),
        "recipient_did": did,
        "ephemeral_pub": BASE64.encode(ephemeral_public),
        "iv": BASE64.encode(nonce),
        "wrapped_dek": BASE64.encode(wrapped),
    })
}

fn wrap_key(
    private: &Key,
    public: &[u8; 32],
    ephemeral_public: &[u8; 32],
    envelope: Envelope,
) -> Option<Key> {
    let shared = Zeroizing::new(x25519(**private, *public));
    // A point of small order makes a secret that everybody knows.
    if shared.iter().all(|byte| *byte == 0) {
        return None;
    }
    let info = format!("adf-envelope-v1:{envelope}");
    let mut key = Key::default();
    Hkdf::<Sha256>::new(Some(ephemeral_public), shared.as_slice())
        .expand(info.as_bytes(), key.as_mut_slice())
        .expect("32 bytes are within what HKDF gives");
    Some(key)
}

/// How much work a password is. What a file says is bounded: it chooses the memory that is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scrypt {
    pub log_n: u8,
    pub r: u32,
    pub p: u32,
}

impl Scrypt {
    /// What is written.
    pub(super) const USUAL: Self = Self {
        log_n: 17,
        r: 8,
        p: 1,
    };

    fn read(slot: &Value) -> Result<Self, String> {
        let number = |name: &str| slot["kdf_params"][name].as_u64().unwrap_or(0);
        let (n, r, p) = (number("N"), number("r"), number("p"));
        let fits = n.is_power_of_two()
            && (2..=1 << 20).contains(&n)
            && (1..=32).contains(&r)
            && (1..=16).contains(&p)
            && 128 * n * r <= 512 << 20;
        if !fits || slot["kdf"] != "scrypt" {
            return Err(format!(
                "its password slot asks for more than is given: {} {}",
                slot["kdf"], slot["kdf_params"]
            ));
        }
        Ok(Self {
            log_n: u8::try_from(n.ilog2()).unwrap_or(u8::MAX),
            r: u32::try_from(r).unwrap_or(u32::MAX),
            p: u32::try_from(p).unwrap_or(u32::MAX),
        })
    }

    fn derive(self, password: &str, salt: &[u8]) -> Key {
        let mut key = Key::default();
        scrypt::Params::new(self.log_n, self.r, self.p)
            .and_then(|params| {
                scrypt::scrypt(password.as_bytes(), salt, &params, key.as_mut_slice())
                    .map_err(|_| scrypt::errors::InvalidParams)
            })
            .expect("the parameters were checked");
        key
    }
}

/// Wraps an envelope's key for whoever knows a password.
pub(super) fn password_slot(dek: &Key, password: &str, work: Scrypt) -> Value {
    let salt: [u8; 32] = random::bytes();
    let (nonce, wrapped) = encrypt(&work.derive(password, &salt), dek.as_slice());
    json!({
        "type": "password",
        "kdf": "scrypt",
        "kdf_params": {"N": 1u64 << work.log_n, "r": work.r, "p": work.p},
        "salt": BASE64.encode(salt),
        "iv": BASE64.encode(nonce),
        "wrapped_dek": BASE64.encode(wrapped),
    })
}

/// The row with the slots of an envelope. Members and slots we do not know stay.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Descriptor(Value);

impl Descriptor {
    pub(super) fn new(slots: &[Value]) -> Self {
        Self(json!({"v": 1, "slots": slots}))
    }

    /// Nothing if it is of another version, or no descriptor.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(bytes).ok()?;
        let is_known = value["v"] == 1 && value["slots"].is_array();
        is_known.then_some(Self(value))
    }

    pub(super) fn text(&self) -> String {
        self.0.to_string()
    }

    pub(super) fn push(&mut self, slot: Value) {
        if let Some(slots) = self.0["slots"].as_array_mut() {
            slots.push(slot);
        }
    }

    pub(super) fn remove_passwords(&mut self) {
        if let Some(slots) = self.0["slots"].as_array_mut() {
            slots.retain(|slot| slot["type"] != "password");
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.0["slots"]
            .as_array()
            .is_some_and(|slots| slots.len() >= SLOTS)
    }

    pub(super) fn has(&self, kind: &str) -> bool {
        self.slots(kind).next().is_some()
    }

    fn slots(&self, kind: &str) -> impl Iterator<Item = &Value> {
        let slots = self.0["slots"].as_array().map_or(&[][..], Vec::as_slice);
        slots
            .iter()
            .take(SLOTS)
            .filter(move |slot| slot["type"] == kind)
    }

    /// The envelope's key, if one of a holder's slots opens. Whose a slot says it is decides nothing.
    pub(super) fn open(&self, envelope: Envelope, holder: Holder, private: &Key) -> Option<Key> {
        self.slots(holder.as_str()).find_map(|slot| {
            let ephemeral: [u8; 32] = binary(slot, "ephemeral_pub")?.try_into().ok()?;
            let wrap = wrap_key(private, &ephemeral, &ephemeral, envelope)?;
            unwrap(slot, &wrap)
        })
    }

    /// The envelope's key, if a password slot opens. Slots that ask for too much are an error.
    pub(super) fn open_with(&self, password: &str) -> Result<Option<Key>, String> {
        for slot in self.slots("password").take(PASSWORD_SLOTS) {
            let work = Scrypt::read(slot)?;
            let Some(salt) = binary(slot, "salt") else {
                continue;
            };
            if let Some(key) = unwrap(slot, &work.derive(password, &salt)) {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }
}

fn binary(slot: &Value, name: &str) -> Option<Vec<u8>> {
    BASE64.decode(slot[name].as_str()?).ok()
}

fn unwrap(slot: &Value, wrap: &Key) -> Option<Key> {
    let key = decrypt(wrap, &binary(slot, "iv")?, &binary(slot, "wrapped_dek")?)?;
    <[u8; 32]>::try_from(key.as_slice())
        .ok()
        .map(Zeroizing::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Scrypt = Scrypt {
        log_n: 4,
        r: 8,
        p: 1,
    };

    fn key(byte: u8) -> Key {
        Zeroizing::new([byte; 32])
    }

    #[test]
    fn a216_a_slot_opens_for_its_holder_and_its_envelope_only() {
        let (dek, ours, theirs) = (key(7), key(8), key(9));
        let slot = key_slot(
            &dek,
            Envelope::Credentials,
            Holder::Owner,
            "did:key:zOurs",
            &public(&ours),
        );
        let found = Descriptor::new(&[json!({"type": "hardware"}), slot]);
        let read = Descriptor::read(found.text().as_bytes()).unwrap();
        let open = |envelope, holder, key| read.open(envelope, holder, key);
        assert_eq!(open(Envelope::Credentials, Holder::Owner, &ours), Some(dek));
        assert_eq!(open(Envelope::Identity, Holder::Owner, &ours), None);
        assert_eq!(open(Envelope::Credentials, Holder::Runtime, &ours), None);
        assert_eq!(open(Envelope::Credentials, Holder::Owner, &theirs), None);
    }

    #[test]
    fn a_slot_with_a_point_of_small_order_opens_nothing() {
        let slot = json!({"type": "owner", "ephemeral_pub": BASE64.encode([0u8; 32]), "iv": BASE64.encode([0u8; 12]),
            "wrapped_dek": BASE64.encode([0u8; 48])});
        let found = Descriptor::new(&[slot]);
        assert_eq!(found.open(Envelope::Identity, Holder::Owner, &key(1)), None);
    }

    #[test]
    fn a217_a_password_opens_its_slot() {
        let mut found = Descriptor::new(&[password_slot(&key(3), "open sesame", QUICK)]);
        assert_eq!(found.open_with("open sesame"), Ok(Some(key(3))));
        assert_eq!(found.open_with("wrong"), Ok(None));
        found.remove_passwords();
        assert_eq!(found.open_with("open sesame"), Ok(None));
    }

    #[test]
    fn a217_what_a_slot_may_ask_for_is_bounded() {
        let slot = |n: u64, r: u64, p: u64| json!({"type": "password", "kdf": "scrypt", "kdf_params": {"N": n, "r": r, "p": p}});
        assert_eq!(Scrypt::read(&slot(131_072, 8, 1)), Ok(Scrypt::USUAL));
        for (n, r, p) in [
            (1 << 21, 1, 1),
            (1 << 20, 8, 1),
            (1000, 8, 1),
            (0, 8, 1),
            (1024, 33, 1),
            (1024, 0, 1),
            (1024, 8, 17),
            (u64::MAX, u64::MAX, 1),
        ] {
            let found = Descriptor::new(&[slot(n, r, p)]);
            let refused = found.open_with("x").unwrap_err();
            assert!(refused.contains("asks for more than is given"), "{refused}");
        }
        let other = json!({"type": "password", "kdf": "argon2"});
        assert!(Descriptor::new(&[other]).open_with("x").is_err());
    }

    #[test]
    fn a214_a_descriptor_of_another_version_is_none() {
        for text in ["", "[]", r#"{"v": 2, "slots": []}"#, r#"{"v": 1}"#] {
            assert_eq!(Descriptor::read(text.as_bytes()), None, "{text}");
        }
    }
}
