//! Checkpoints: what is in the write-ahead log is copied into the database, so that the log can begin anew in the
//! room that it has, on a thread of its own. In a caller's path it would keep that caller, and all behind it, waiting
//! for two syncs and a thousand writes (<https://www.sqlite.org/wal.html#performance_considerations>).

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::Connection;

use super::connection::{Level, Session};
use super::path::File;
use super::shared_page::LazyPage;
use super::sync::sync_failed;
use super::vfs;
use crate::core::error::Error;
use crate::process::guard::ForkGuard;
use crate::process::identity;

/// A checkpoint is due whenever the log has grown by so many pages, as SQLite has it by default.
const PAGES: i32 = 1000;

/// Where nobody pauses, there is always a page left that was written during the checkpoint, and the log never begins
/// anew. When it has so many pages, the rest is copied while nobody writes.
const MOST: i32 = 2 * PAGES;

/// How long to wait for SQLite's write lock to mend the log. ForkGuard, where a fork would wait as well.
const MEND_WAIT: Duration = Duration::from_secs(2);

/// The checkpoints of one file in this process.
pub(super) struct Checkpoints {
    file: Arc<File>,
    shared_page: Arc<LazyPage>,
    /// How many pages the log has.
    pages: Arc<AtomicI32>,
    /// How many it had when the last checkpoint began.
    last: AtomicI32,
    /// Locked by the thread that is at work, inside; whether there are to be no more.
    over: Mutex<bool>,
}

fn lock(mutex: &Mutex<bool>) -> MutexGuard<'_, bool> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Checkpoints {
    pub(super) fn new(file: &Arc<File>, shared_page: &Arc<LazyPage>) -> Checkpoints {
        Checkpoints {
            file: Arc::clone(file),
            shared_page: Arc::clone(shared_page),
            pages: Arc::new(AtomicI32::new(0)),
            last: AtomicI32::new(0),
            over: Mutex::new(false),
        }
    }

    /// Has SQLite count the log's pages instead of making the checkpoints itself, in the path of a commit.
    pub(super) fn count(&self, sql: &mut Connection) -> Result<(), Error> {
        let count = Arc::clone(&self.pages);
        Ok(sql.wal_hook(Some(move |_: &mut _, pages| {
            count.store(pages, Ordering::Relaxed);
            Ok(())
        }))?)
    }

    /// After a commit: whether a checkpoint is due. Says so once.
    pub(super) fn are_due(&self) -> bool {
        let pages = self.pages.load(Ordering::Relaxed);
        let last = self.last.load(Ordering::Relaxed);
        // A log that has begun anew is shorter than it was.
        let grown = if pages < last { pages } else { pages - last };
        grown >= PAGES
            && self.last.compare_exchange(last, pages, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Copies what can be copied while others write. What readers still need, or another process is at, stays for the
    /// next time.
    pub(super) fn copy(&self) -> Result<(), Error> {
        self.checkpoint("PASSIVE")
    }

    /// Whether the log is so long that the rest is to be copied too.
    pub(super) fn are_behind(&self) -> bool {
        self.pages.load(Ordering::Relaxed) >= MOST
    }

    /// Copies the rest, with SQLite's write lock. Nothing is written meanwhile, so the next write begins the log anew,
    /// unless somebody reads what is in it.
    pub(super) fn finish(&self) -> Result<(), Error> {
        self.checkpoint("FULL")
    }

    /// After a sync of the log has failed: writes what is in it once more, so that it can be synced. Not a checkpoint: a
    /// power cut in the middle of one needs a sound log.
    pub(super) fn mend(&self, _inside: &ForkGuard) -> Result<(), Error> {
        let over = lock(&self.over);
        let session = Session::open(&self.file, true, false)?;
        session.sql.busy_timeout(MEND_WAIT)?;
        // Nobody else writes to the log meanwhile.
        let mended = session.execute("BEGIN IMMEDIATE").and_then(|()| {
            if vfs::has_moved(&session.sql) {
                return Err(sync_failed(&"the file is no longer there"));
            }
            self.file.write_log_again().map_err(|error| sync_failed(&error))
        });
        session.roll_back();
        session.close_as_it_is();
        drop(over);
        mended
    }

    fn checkpoint(&self, mode: &str) -> Result<(), Error> {
        identity::check()?;
        let _inside = ForkGuard::enter();
        // Until the connection is closed: `end` waits for that.
        let over = lock(&self.over);
        let damaged = self.shared_page.find(None)?.is_some_and(|page| page.is_damaged());
        if *over || damaged {
            return Ok(());
        }
        let session = Session::open(&self.file, true, false)?;
        session.settle(Level::Extra)?;
        let done = if vfs::has_moved(&session.sql) {
            Ok(())
        } else {
            session
                .sql
                .query_row(&format!("PRAGMA main.wal_checkpoint({mode})"), [], |_| Ok(()))
                .map_err(Error::from)
        };
        session.close_as_it_is();
        drop(over);
        if let Err(error) = &done {
            self.shared_page.note_failure(error);
        }
        done
    }

    /// Waits for the checkpoint that is being made, and lets no more begin.
    pub(super) fn end(&self) {
        let _inside = ForkGuard::enter();
        *lock(&self.over) = true;
    }
}
