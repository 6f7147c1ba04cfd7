//! Ownership leases with rising fencing tokens in one SQLite file.
//!
//! A worker claims a job for some seconds and gets a **fence**, a number that rises with every grant. Renew,
//! complete and release name it, and each checks owner and fence in the transaction that would store its
//! change: a worker that stalled past its lease is told [`Refusal::Stale`], and the result of the one that
//! took over stands.
//!
//! ```
//! # fn main() -> Result<(), fencepost::Error> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("jobs.db");
//! use fencepost::{Db, Options, Refusal};
//!
//! let db = Db::open(&path, &Options::default())?;
//! db.init_db()?;
//! db.enqueue("report-7")?.unwrap();
//!
//! let stalled = db.claim("report-7", "A", 100.0, 10.0)?.unwrap();
//! let fence = db.claim("report-7", "B", 110.0, 10.0)?.unwrap(); // at now == until the lease is over
//! db.complete("report-7", "B", fence, 111.0, Some("B's result"))?.unwrap();
//!
//! let late = db.complete("report-7", "A", stalled, 112.0, Some("A's result"))?;
//! assert_eq!(late.unwrap_err().reason(), Refusal::Done);
//! # Ok(())
//! # }
//! ```
//!
//! # The map of the crate
//!
//! | module | what it holds |
//! |---|---|
//! | `abi` | the C ABI: pointers in, status out |
//! | `db` | [`Db`]: one method per operation |
//! | `sqlite` | the engine: a file, its connections, locks, commits and syncs |
//! | `process` | forks and threads of this process |
//! | `sql` | the SQL of each operation, on a connection that is lent |
//! | `os` | what the operating system is asked; all that is unsafe there |
//! | `core` | jobs, the rules of their leases, refusals and errors: pure |
//!
//! A module uses those below it and none above it.

#[cfg(not(target_os = "linux"))]
compile_error!("fencepost needs Linux: it gives SQLite open-file-description locks (fcntl_locking(2))");

#[cfg(not(target_pointer_width = "64"))]
compile_error!("fencepost needs a 64-bit system: its lock requests have that system's layout");

pub mod abi;
mod core;
mod db;
mod os;
mod process;
mod sql;
mod sqlite;

pub use core::clock::now;
pub use core::error::{Answer, Error, ErrorKind, Refusal, Refused};
pub use core::job::{Condition, Job, Lease};
pub use core::ops::MAX_TEXT;
pub use core::options::{Durability, Options};
pub use db::Db;
