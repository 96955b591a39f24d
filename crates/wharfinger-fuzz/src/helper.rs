//! The programs that a daemon under test starts. Under a fuzzer, the fuzzing program itself is all of them.

use crate::mirror;

/// Runs what the command line asks for, to its end. False when it asks for none of it.
pub fn runs(arguments: &[String]) -> bool {
    match arguments.get(1).map(String::as_str) {
        Some("mirror") => mirror::main(&arguments[2..]),
        Some("__guard") => {
            let owner = arguments.get(2).map_or("", String::as_str);
            wharfinger::launch::guard::run(owner, std::io::stdin());
        }
        _ => return false,
    }
    true
}
