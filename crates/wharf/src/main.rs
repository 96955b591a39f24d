//! wharf.
fn main() {}
