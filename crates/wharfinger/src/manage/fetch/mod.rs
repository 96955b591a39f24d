//! Fetches public web addresses for agents.
