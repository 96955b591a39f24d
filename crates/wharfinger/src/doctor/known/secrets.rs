//! Keys and the vault.

use crate::doctor::Certainty::Certain;
use crate::doctor::{Command, Failure, Look};

pub(super) const ROWS: &[Failure] = &[
    Failure {
        code: "WF-501",
        title: "The vault is locked",
        cause: "secrets are sealed with a passphrase that was not given since the daemon started",
        fix: "unlock it",
        command: Command::Words("wharf secret unlock"),
        certainty: Certain,
        looks: &[Look::said(&["the vault is locked"])],
        seen: "",
        fixable: false,
    },
    Failure {
        code: "WF-504",
        title: "The vault has another key",
        cause: "the vault was sealed with another key than the one that is here, as after a copy of the home or a new keyring",
        fix: "bring the old key back, or set the secrets anew",
        command: Command::Words("wharf secret list"),
        certainty: Certain,
        looks: &[Look::said(&["the vault", "another key"])],
        seen: "",
        fixable: false,
    },
    Failure {
        code: "WF-502",
        title: "A key is not set",
        cause: "the entry of {server} refers to {key}, which is not set",
        fix: "set it; the next start has it",
        command: Command::Quoted,
        certainty: Certain,
        looks: &[Look::said(&["wharf secret set"])],
        seen: "",
        fixable: false,
    },
];
