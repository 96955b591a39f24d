//! Target `wire`: bytes from anybody, through everything that reads or writes messages.
//!
//! The input is a message, or several lines of them. What else a reader may be told (limits, how the bytes arrive in
//! pieces) is drawn from the bytes too, so that an input stays readable.

mod conversions;
mod lines;
mod messages;
mod objects;

/// Runs one input.
///
/// # Panics
/// If one of the rules is broken.
pub fn run(input: &[u8]) {
    messages::check(input);
    lines::check(input);
    conversions::check_sse(input);
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    objects::check(text);
    if let Ok(value) = serde_json::from_str::<&serde_json::value::RawValue>(text) {
        conversions::check(value);
    }
}

/// A number from the input, the same for the same input.
fn drawn(input: &[u8]) -> u64 {
    // FNV-1a.
    input.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The members in a form that can be compared: decoded names, raw values.
fn members(object: &wharfinger_wire::json::Object<'_>) -> Vec<(String, String)> {
    let member = |(name, value): (&str, &serde_json::value::RawValue)| {
        (name.to_owned(), value.get().to_owned())
    };
    object.iter().map(member).collect()
}
