//! A value that must not be seen.

use std::fmt;

/// Hides its value from `Debug`, `Display` and serialization. Only `launch` and `vault` open it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T = String>(T);

impl<T> Secret<T> {
    /// Takes custody of a value.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    pub(crate) fn open(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[SECRET]")
    }
}

impl<T> fmt::Display for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[SECRET]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_shows_nothing() {
        let secret = Secret::new("hunter2-hunter2".to_owned());
        assert_eq!(format!("{secret} {secret:?}"), "[SECRET] [SECRET]");
        assert_eq!(secret.open(), "hunter2-hunter2");
    }
}
