//! The configuration files of MCP clients: where they lie, what they hold, and our one entry in them.
//!
//! Takes text, gives text, entries and problems; only `files` touches the disk. What is read becomes entries of ours,
//! with the client's own ways of naming variables translated; nothing is run. What is edited is edited as text: beyond
//! our entry every byte stays, which is checked by reading both texts before anything is given back. Secrets are the
//! story `import`'s.

mod edit;
pub mod files;
mod json;
mod places;
mod read;
mod references;
mod shape;
mod table;
#[cfg(test)]
mod tests;
mod toml;
mod yaml;

pub use edit::{Change, Edited, connect, disconnect, is_only_us, is_ours};
pub use places::Folders;
pub(crate) use read::secret_of;
pub use read::{Found, Reading, guess, read};
pub use shape::Endpoint;
pub use table::{CLIENTS, Client, client};

/// What our entry is called in every client.
pub const NAME: &str = "wharf";

/// A file that is larger is left alone.
pub const LARGEST: usize = 16 * 1024 * 1024;

/// What a file is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON; comments and trailing commas are read and kept.
    Json,
    /// TOML.
    Toml,
    /// YAML.
    Yaml,
}

/// Why a file is left as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Nobody writes such a file by hand.
    #[error("it is larger than {} MiB", LARGEST / 1024 / 1024)]
    TooLarge,
    /// Text of another encoding would be broken.
    #[error("it is not UTF-8")]
    NotUtf8,
    /// It must be mended by hand first.
    #[error("line {line}: {message}")]
    Syntax {
        /// Counted from 1.
        line: usize,
        /// What was expected.
        message: String,
    },
    /// The file, or what holds its servers, is something else than an object.
    #[error("{0} is not an object")]
    NotAnObject(String),
    /// Which one its client reads is anybody's guess.
    #[error("`{0}` is there twice")]
    Twice(String),
    /// A server of that name that is not ours.
    #[error("another server is called `{0}` there")]
    Taken(String),
    /// It is written in a way that can't be edited without touching the rest.
    #[error("{0}")]
    Unsafe(&'static str),
}

impl Refused {
    /// The way out.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::TooLarge | Self::Unsafe(_) => {
                "add the entry by hand: `wharf agent endpoint` prints it"
            }
            Self::NotUtf8 => "save it as UTF-8",
            Self::Syntax { .. } | Self::NotAnObject(_) | Self::Twice(_) => {
                "mend the file by hand, then try again"
            }
            Self::Taken(_) => "rename that one, or remove it, then try again",
        }
    }
}

/// The bytes of a file as text, if it is any.
pub fn text(bytes: &[u8]) -> Result<&str, Refused> {
    if bytes.len() > LARGEST {
        return Err(Refused::TooLarge);
    }
    std::str::from_utf8(bytes).map_err(|_| Refused::NotUtf8)
}

/// Text without a byte order mark, and how long the mark is.
fn unmarked(text: &str) -> (&str, usize) {
    match text.strip_prefix('\u{feff}') {
        Some(rest) => (rest, text.len() - rest.len()),
        None => (text, 0),
    }
}

/// A line's number, counted from 1.
fn line_at(text: &str, offset: usize) -> usize {
    text.get(..offset).unwrap_or(text).matches('\n').count() + 1
}

/// The line break that a text uses.
fn line_break(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}
