//! All that knows SQLite.
//!
//! | module | what it holds |
//! |---|---|
//! | `file` | which file a path means, and whether it may be opened |
//! | `connection` | one connection, its turns, its reopening, and the retry while the file is locked |
//! | `group` | the callers of this process that want to write: who leads, who waits |
//! | `writer` | what a leader does: one BEGIN IMMEDIATE for all, and the sync |
//! | `checkpoint` | the log copied into the database, on a thread of its own |
//! | `gate` | what processes tell each other: whose turn it is, which writes are on the disk |
//! | `set_back` | whether the file was restored from a backup, by the grant that the page remembers |
//! | `reader` | a look: a read transaction on a connection of its own |
//! | `schema` | the table `jobs`: made, and its shape checked |
//! | `sound` | which rows can be read as jobs |
//! | `statements` | the SQL of each operation on one job |
//! | `next` | which job comes next |
//! | `listing` | jobs by condition, for people who look |
//! | `failure` | SQLite's result codes as errors |
//! | `neighbour` | the locks, and the only calls into SQLite that rusqlite does not make |

mod checkpoint;
mod connection;
mod failure;
mod file;
mod gate;
pub(crate) mod group;
pub(crate) mod listing;
pub(crate) mod neighbour;
pub(crate) mod next;
mod reader;
mod schema;
mod set_back;
mod sound;
pub(crate) mod statements;
mod writer;

pub(crate) use connection::close_all_connections;
pub(crate) use file::File;
pub(crate) use reader::Reader;
pub(crate) use writer::Writer;
