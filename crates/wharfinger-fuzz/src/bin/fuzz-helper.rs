//! The programs that a daemon under test starts, see [`wharfinger_fuzz::helper`].

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if wharfinger_fuzz::helper::runs(&arguments) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
