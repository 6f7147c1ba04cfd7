//! The engine on SQLite: one file that any number of processes and threads share.
//!
//! | module | what it holds |
//! |---|---|
//! | `engine` | a handle: what it writes through, and what it reads through |
//! | `path` | which file a path means, and whether it may be opened |
//! | `connection` | one connection, its reopening, and the retry while the file is locked |
//! | `commit_queue` | the callers of this process that want to write: who leads, who waits |
//! | `leader` | what a leader does: one BEGIN IMMEDIATE for all, and the sync |
//! | `sync` | the log put onto the disk |
//! | `checkpoint` | the log copied into the database, on a thread of its own |
//! | `shared_page` | a fair queue for the write lock between processes, and which commits are durable |
//! | `set_back` | whether the file was restored from a backup, by the lease that the page remembers |
//! | `reader` | a look: a read transaction on a connection of its own |
//! | `fork` | what happens to open files when the process forks |
//! | `vfs` | SQLite's locks and descriptors, and the only calls into SQLite that rusqlite does not make |
//! | `codes` | SQLite's result codes as errors |

mod checkpoint;
mod codes;
mod commit_queue;
mod connection;
mod engine;
pub(crate) mod fork;
mod leader;
mod path;
mod reader;
mod set_back;
mod shared_page;
mod sync;
mod vfs;

pub(crate) use engine::Sqlite;
