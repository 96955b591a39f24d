//! Custody of secrets: keeping those of the owner sealed, knowing which variables hold some, and keeping their values out
//! of everything that leaves.
//!
//! Credentials of one agent lie in its own file, which is another room's.

mod forms;
mod holding;
mod json;
mod known;
mod passphrase;
mod place;
mod redact;
mod sealed;
mod shapes;
mod store;
#[cfg(test)]
mod tests;

pub use known::{SecretNames, in_arguments, is_secret_name};
pub use place::{Answer, Keyring};
pub use redact::{REDACTED, Redactor, Stream};
pub use shapes::looks_secret;
pub use store::{KeyPlace, Options, Standing, Vault, VaultError, VaultState, wants_passphrase};
