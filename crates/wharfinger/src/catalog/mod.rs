//! What servers offer, and under which names agents see it.
//!
//! Pure: takes lists and names, gives lists and warnings. For agents it also says what became of each tool since it was
//! reviewed, and what is suspicious about it.

mod agent_names;
mod available;
mod claims;
mod difference;
mod directory;
mod hash;
mod listing;
mod merge;
mod names;
mod portable;
mod reconcile;
mod review;
mod suspicion;
mod tree;

pub use agent_names::{GivenName, allocate_agent};
pub use available::available_tools;
pub use claims::{Claim, Claims, Kind};
pub use difference::difference;
pub use directory::{Directory, Item, Items, Offers, Page, Place, covers, items};
pub use hash::{definition_hash, hash_matches, is_same_definition, tool_hash};
pub use listing::{Listing, Tool, read};
pub use merge::{Catalog, Exposed, Offer, merge};
pub use names::{allocate, fold};
pub use portable::{needs_portable, portable};
pub use reconcile::{Accept, After, Before, Listed, Outcome, Rules, What, reconcile};
pub use review::{Decision, ReviewError, review};
pub use suspicion::{Other, Others, suspicions};
