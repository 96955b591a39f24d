//! The agent's file: an `.adf`, which is one `SQLite` database that other programs read and write too.
