//! What servers offer, and under which names agents see it.
//!
//! Pure: takes lists and names, gives lists and warnings. Tool hashes and reviews join it with the agent profile.

mod claims;
mod directory;
mod listing;
mod merge;
mod names;
mod portable;

pub use claims::{Claim, Claims, Kind};
pub use directory::{Directory, Item, Items, Offers, Page, Place, covers, items};
pub use listing::{Listing, Tool, read};
pub use merge::{Catalog, Exposed, Offer, merge};
pub use names::{allocate, fold};
pub use portable::{needs_portable, portable};
