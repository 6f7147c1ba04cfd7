//! Opening, closing and making the table.

use std::ffi::c_char;
use std::panic::AssertUnwindSafe;

use super::convert::{call, clear, db_of, options_of, required, text};
use super::types::*;
use crate::Db;

/// Opens the database file at `path`, making an empty one when it is missing (see FENCEPOST_OPEN_EXISTING),
/// and gives a handle on it.
///
/// `path`: UTF-8, not NULL, at most 4095 bytes (PATH_MAX, path_resolution(7)). From / on and without symbolic
/// links it may have 504 (512, less "-journal": sqlite3.c, MAX_PATHNAME), and the file's name 245 (NAME_MAX,
/// less "-fencepost"); a longer one is INVALID_ARGUMENT. Symbolic links are followed. The empty path, ":memory:" and "file:" URIs are
/// UNSUPPORTED, and so are network filesystems and files with several hard links (SQLite would give each
/// name a write-ahead log of its own).
///
/// `options`: NULL for the defaults.
///
/// `db`: not NULL. On OK a handle that the caller ends with fencepost_close, otherwise NULL.
///
/// `error`: NULL, or where to put the details.
///
/// A file with a table "jobs" is switched to WAL unless FENCEPOST_OPEN_KEEP_JOURNAL_MODE says otherwise. A
/// file without one is not changed before fencepost_init_db.
///
/// Answers OK, INVALID_ARGUMENT, BUSY, CANNOT_OPEN (with FENCEPOST_OPEN_READ_ONLY also where another program
/// has removed PATH-wal and PATH-shm, and this user may not make them), NOT_A_DATABASE, SCHEMA (a table "jobs"
/// of another shape), CORRUPT, IO, FULL, READ_ONLY (the file or its folder cannot be written; with
/// FENCEPOST_OPEN_READ_ONLY: a transaction that was cut short is to be undone first), OUT_OF_MEMORY,
/// UNSUPPORTED, INTERNAL.
///
/// Threads: any, at any time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fencepost_open(
    path: *const c_char,
    options: *const fencepost_options,
    db: *mut *mut fencepost_db,
    error: *mut fencepost_error,
) -> fencepost_status {
    // SAFETY: the header asks that `db` is NULL or writable, and `path` and `options` as `text` and
    // `options_of` need them; they outlive the call.
    unsafe {
        clear(db, std::ptr::null_mut());
        call(
            error,
            || {
                required(db, "db")?;
                Ok(Ok(Db::open(text(path, "path")?, &options_of(options)?)?))
            },
            |opened| *db = Box::into_raw(Box::new(fencepost_db { db: opened })),
        )
    }
}

/// Ends a handle: closes the file and frees the memory. Leases stay as they are.
///
/// `db`: NULL is fine and does nothing. No call may be running on it, and none may follow.
///
/// Threads: any. In a forked child it frees the child's copy and leaves the parent's alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fencepost_close(db: *mut fencepost_db) {
    if db.is_null() {
        return;
    }
    // SAFETY: the header asks for a handle of fencepost_open that no call uses, so it is a box of ours, and
    // this is its only owner.
    let _ = std::panic::catch_unwind(AssertUnwindSafe(|| drop(unsafe { Box::from_raw(db) })));
}

/// Makes the table "jobs" where it is missing, and checks its shape where it is not. Any number of times,
/// from any number of programs at once. Where nothing is missing it only reads, whoever writes meanwhile.
///
/// A file of another application gets the table added, and is switched to WAL unless
/// FENCEPOST_OPEN_KEEP_JOURNAL_MODE was given; nothing else in it is touched.
///
/// Answers OK, INVALID_ARGUMENT, BUSY, CANNOT_OPEN, NOT_A_DATABASE, SCHEMA, CORRUPT, IO, FULL, READ_ONLY,
/// OUT_OF_MEMORY, UNSUPPORTED, INTERNAL.
///
/// Threads: any number on one handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fencepost_init_db(
    db: *mut fencepost_db,
    error: *mut fencepost_error,
) -> fencepost_status {
    // SAFETY: the header asks for NULL or a live handle.
    unsafe { call(error, || db_of(db)?.init_db().map(Ok), |()| ()) }
}
