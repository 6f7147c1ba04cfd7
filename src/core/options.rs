//! How to open a file.

use std::time::Duration;

/// What an answer of success promises about a power cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// It was synced to the disk before it was given.
    #[default]
    Full,
    /// A power cut (not a crash of the process) may undo the newest answers, and so hand out a fence twice.
    Normal,
}

/// How to open a file.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How long a call waits for the file's locks; zero: not at all. 5 seconds by default.
    pub busy_timeout: Duration,
    /// What success promises.
    pub durability: Durability,
    /// Fail when the file is missing, instead of making it.
    pub open_existing: bool,
    /// Only read; the file must exist.
    pub read_only: bool,
    /// Leave the file's journal mode as it is instead of switching it to WAL.
    pub keep_journal_mode: bool,
    /// Open the file although its filesystem is a network's.
    pub allow_network_filesystem: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            busy_timeout: Duration::from_secs(5),
            durability: Durability::Full,
            open_existing: false,
            read_only: false,
            keep_journal_mode: false,
            allow_network_filesystem: false,
        }
    }
}
