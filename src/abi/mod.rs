//! The C ABI: pointers in, status out, nothing decided. The comments here are the header's.
//!
//! Every function borrows its arguments, hands them to [`Db`], and turns the answer into a status, in
//! `convert::call`. No panic leaves it.

#![allow(unsafe_code)]
#![allow(non_camel_case_types)]
// The header's comments say what C callers must keep to; a second section for Rust would leak into it.
#![allow(clippy::missing_safety_doc)]

mod convert;
mod types;

use std::ffi::c_char;
use std::panic::AssertUnwindSafe;

pub use types::*;

use crate::{Db, clock};
use convert::{
    Lent, call, clear, clear_all, condition_of, db_of, free, optional_text, options_of, required, text, texts,
};

/// An open file: opaque, made by fencepost_open, ended by fencepost_close.
pub struct fencepost_db {
    db: Db,
}

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

/// Adds a job: nobody's, claimable at once, with fence 0.
///
/// `id`: UTF-8, not NULL, at most FENCEPOST_MAX_TEXT bytes; the empty string is an id like any other.
///
/// Answers OK, EXISTS (the job is left as it is), INVALID_ARGUMENT, BUSY, CANNOT_OPEN, NOT_A_DATABASE,
/// SCHEMA, CORRUPT, IO, FULL, READ_ONLY, OUT_OF_MEMORY, UNSUPPORTED, INTERNAL.
///
/// Threads: any number on one handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fencepost_enqueue(
    db: *mut fencepost_db,
    id: *const c_char,
    error: *mut fencepost_error,
) -> fencepost_status {
    // SAFETY: the header asks for NULL or a live handle, and for a string that outlives the call.
    unsafe { call(error, || db_of(db)?.enqueue(text(id, "id")?), |()| ()) }
}

/// Adds a job as fencepost_enqueue does, not to be claimed before a time.
///
/// `not_before`: seconds by the callers' clock, finite: when the job can be claimed.
///
/// Answers and threads as fencepost_enqueue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fencepost_enqueue_at(
    db: *mut fencepost_db,
    id: *const c_char,
    not_before: f64,
    error: *mut fencepost_error,
) -> fencepost_status {
    // SAFETY: the header asks for NULL or a live handle, and for a string that outlives the call.
    unsafe { call(error, || db_of(db)?.enqueue_at(text(id, "id")?, not_before), |()| ()) }
}

/// Adds many jobs in one transaction: all that are missing, or none in case of an error.
///
/// `ids`: `count` strings as for fencepost_enqueue; one that stands there twice is added once. NULL only when
/// `count` is 0.
///
/// `added`: NULL, or room for `count` booleans, in the order of the ids: true for those that were added. All
/// false unless the answer is OK.
///
/// Answers OK when one was added, or `count` is 0; EXISTS when all existed; otherwise as fencepost_enqueue.
///
/// Threads: any number on one handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fencepost_enqueue_many(
    db: *mut fencepost_db,
    ids: *const *const c_char,
    count: usize,
    added: *mut bool,
    error: *mut fencepost_error,
) -> fencepost_status {
    // SAFETY: the header asks for NULL or a live handle, `count` strings that outlive the call, and `added` NULL or
    // with room for `count` booleans.
    unsafe {
        clear_all(added, count, false);
        call(
            error,
            || db_of(db)?.enqueue_many(&texts(ids, count, "ids")?),
            |were_added| {
                if !added.is_null() {
                    were_added.into_iter().enumerate().for_each(|(index, was)| *added.add(index) = was);
                }
            },
        )
    }
}

/// Reads a job as it is stored now, never from a cache.
///
/// `id`: UTF-8, not NULL.
///
/// `job`: not NULL. On OK a job that the caller frees with fencepost_job_free, otherwise NULL.
///
/// Answers OK, NOT_FOUND, INVALID_ARGUMENT, BUSY, CANNOT_OPEN, NOT_A_DATABASE, SCHEMA, CORRUPT, IO,
/// FULL, READ_ONLY, OUT_OF_MEMORY, UNSUPPORTED, INTERNAL.
///
/// Threads: any number on one handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fencepost_state(
    db: *mut fencepost_db,
    id: *const c_char,
    job: *mut *mut fencepost_job,
    error: *mut fencepost_error,
) -> fencepost_status {
    // SAFETY: the header asks for NULL or a live handle, a string that outlives the call, and `job` NULL or
    // writable.
    unsafe {
        clear(job, std::ptr::null_mut());
        call(
            error,
            || {
                required(job, "job")?;
                db_of(db)?.state(text(id, "id")?)
            },
            |read| *job = fencepost_job::lend(read),
        )
    }
}

/// Frees a job of fencepost_state and its strings.
///
/// `job`: NULL is fine and does nothing.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fencepost_job_free(job: *mut fencepost_job) {
    // SAFETY: the header asks for NULL or a job of fencepost_state that was not freed.
    unsafe { free(job) }
}

/// Takes the job for `owner` until `now + ttl`, when it is not complete and no lease on it is running
/// (`until <= now`), and gives the new fence: one more than any before it.
///
/// `id`, `owner`: UTF-8, not NULL, at most FENCEPOST_MAX_TEXT bytes each.
///
/// `now`: seconds by the caller's clock, finite. All callers of a file must use clocks that agree.
///
/// `ttl`: seconds, finite, above 0, and `now + ttl` must be finite and above `now`.
///
/// `fence`: not NULL. On OK the fence, above 0, otherwise 0.
///
/// Answers OK, NOT_FOUND, DONE, HELD, INVALID_ARGUMENT, BUSY, CANNOT_OPEN, NOT_A_DATABASE, SCHEMA, CORRUPT,
/// IO, FULL, READ_ONLY, OUT_OF_MEMORY, FENCE_EXHAUSTED, UNSUPPORTED, INTERNAL.
///
/// Threads: any number on one handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fencepost_claim(
    db: *mut fencepost_db,
    id: *const c_char,
    owner: *const c_char,
    now: f64,
    ttl: f64,
    fence: *mut i64,
    error: *mut fencepost_error,
) -> fencepost_status {
    // SAFETY: the header asks for NULL or a live handle, strings that outlive the call, and `fence` NULL or
    // writable.
    unsafe {
        clear(fence, 0);
        call(
            error,
            || {
                required(fence, "fence")?;
                db_of(db)?.claim(text(id, "id")?, text(owner, "owner")?, now, ttl)
            },
            |granted| *fence = granted,
        )
    }
}

/// Makes the lease run until `now + ttl`, when `owner` and `fence` hold the job and the lease is not over.
///
/// Arguments as for fencepost_claim; `fence` is the one that the claim gave.
///
/// Answers OK, NOT_FOUND, DONE, STALE, EXPIRED, INVALID_ARGUMENT, BUSY, CANNOT_OPEN, NOT_A_DATABASE,
/// SCHEMA, CORRUPT, IO, FULL, READ_ONLY, OUT_OF_MEMORY, UNSUPPORTED, INTERNAL.
///
/// Threads: any number on one handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fencepost_renew(
    db: *mut fencepost_db,
    id: *const c_char,
    owner: *const c_char,
    fence: i64,
    now: f64,
    ttl: f64,
    error: *mut fencepost_error,
) -> fencepost_status {
    // SAFETY: the header asks for NULL or a live handle, and strings that outlive the call.
    unsafe {
        call(error, || db_of(db)?.renew(text(id, "id")?, text(owner, "owner")?, fence, now, ttl), |()| ())
    }
}

/// Stores the result and completes the job, when `owner` and `fence` hold it and the lease is not over. Owner, until
/// and fence stay as they are.
///
/// One that is repeated is DONE like anybody else's. Whoever died, or lost its connection, between the commit and the
/// answer asks fencepost_state: the completion was its own when `done` is true and `owner` and `fence` are its own.
///
/// `result`: UTF-8, at most FENCEPOST_MAX_TEXT bytes, or NULL for none (which is not the empty string).
///
/// Other arguments as for fencepost_renew.
///
/// Answers OK, NOT_FOUND, DONE, STALE, EXPIRED, INVALID_ARGUMENT, BUSY, CANNOT_OPEN, NOT_A_DATABASE,
/// SCHEMA, CORRUPT, IO, FULL, READ_ONLY, OUT_OF_MEMORY, UNSUPPORTED, INTERNAL.
///
/// Threads: any number on one handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fencepost_complete(
    db: *mut fencepost_db,
    id: *const c_char,
    owner: *const c_char,
    fence: i64,
    now: f64,
    result: *const c_char,
    error: *mut fencepost_error,
) -> fencepost_status {
    // SAFETY: the header asks for NULL or a live handle, and strings that outlive the call.
    unsafe {
        call(
            error,
            || {
                let result = optional_text(result, "result")?;
                db_of(db)?.complete(text(id, "id")?, text(owner, "owner")?, fence, now, result)
            },
            |()| (),
        )
    }
}

/// Gives the job back, when `owner` and `fence` hold it, its lease over or not: anyone can claim it at once.
/// The fence stays, so the next claim's is higher.
///
/// Arguments as for fencepost_renew.
///
/// Answers OK, NOT_FOUND, DONE, STALE, INVALID_ARGUMENT, BUSY, CANNOT_OPEN, NOT_A_DATABASE, SCHEMA,
/// CORRUPT, IO, FULL, READ_ONLY, OUT_OF_MEMORY, UNSUPPORTED, INTERNAL.
///
/// Threads: any number on one handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fencepost_release(
    db: *mut fencepost_db,
    id: *const c_char,
    owner: *const c_char,
    fence: i64,
    error: *mut fencepost_error,
) -> fencepost_status {
    // SAFETY: the header asks for NULL or a live handle, and strings that outlive the call.
    unsafe { call(error, || db_of(db)?.release(text(id, "id")?, text(owner, "owner")?, fence), |()| ()) }
}

/// Gives the job back as fencepost_release does, not to be claimed before a time: to try again later.
///
/// `not_before`: seconds by the callers' clock, finite: when the job can be claimed again.
///
/// Other arguments, answers and threads as fencepost_release.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fencepost_release_at(
    db: *mut fencepost_db,
    id: *const c_char,
    owner: *const c_char,
    fence: i64,
    not_before: f64,
    error: *mut fencepost_error,
) -> fencepost_status {
    // SAFETY: the header asks for NULL or a live handle, and strings that outlive the call.
    unsafe {
        call(
            error,
            || db_of(db)?.release_at(text(id, "id")?, text(owner, "owner")?, fence, not_before),
            |()| (),
        )
    }
}

/// Takes the claimable job that comes next. Leases that ran out and delays that are over come first, those first
/// that are over the longest; then the jobs that wait, in the order in which they were added or released. So
/// neither a stream of new jobs nor one that always fails keeps the others waiting. (In a table WITHOUT ROWID of
/// another program's, those that wait come in the order of their ids.)
///
/// The cost does not grow with the table, nor with the leases that are running, once fencepost_init_db was
/// called on the file: it makes the index for it.
///
/// `owner`, `now`, `ttl`: as for fencepost_claim.
///
/// `grant`: not NULL. On OK the job's id and fence, which the caller frees with fencepost_grant_free, otherwise
/// NULL.
///
/// Answers OK, NOT_FOUND (nothing is claimable), INVALID_ARGUMENT, BUSY, CANNOT_OPEN, NOT_A_DATABASE, SCHEMA,
/// CORRUPT, IO, FULL, READ_ONLY, OUT_OF_MEMORY, UNSUPPORTED, INTERNAL.
///
/// Threads: any number on one handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fencepost_claim_next(
    db: *mut fencepost_db,
    owner: *const c_char,
    now: f64,
    ttl: f64,
    grant: *mut *mut fencepost_grant,
    error: *mut fencepost_error,
) -> fencepost_status {
    // SAFETY: the header asks for NULL or a live handle, a string that outlives the call, and `grant` NULL or
    // writable.
    unsafe {
        clear(grant, std::ptr::null_mut());
        call(
            error,
            || {
                required(grant, "grant")?;
                db_of(db)?.claim_next(text(owner, "owner")?, now, ttl)
            },
            |granted| *grant = fencepost_grant::lend(granted),
        )
    }
}

/// Frees a grant and its id.
///
/// `grant`: NULL is fine and does nothing.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fencepost_grant_free(grant: *mut fencepost_grant) {
    // SAFETY: the header asks for NULL or a grant of its own that was not freed.
    unsafe { free(grant) }
}

/// Takes up to `max` claimable jobs in one transaction: those that come next, as fencepost_claim_next has it.
///
/// `owner`, `now`, `ttl`: as for fencepost_claim, the same for all of them.
///
/// `max`: at least 1.
///
/// `grants`: not NULL. On OK at least one job and at most `max`, in their order, which the caller frees with
/// fencepost_grants_free, otherwise NULL.
///
/// Answers and threads as fencepost_claim_next.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fencepost_claim_batch(
    db: *mut fencepost_db,
    owner: *const c_char,
    now: f64,
    ttl: f64,
    max: usize,
    grants: *mut *mut fencepost_grants,
    error: *mut fencepost_error,
) -> fencepost_status {
    // SAFETY: the header asks for NULL or a live handle, a string that outlives the call, and `grants` NULL or
    // writable.
    unsafe {
        clear(grants, std::ptr::null_mut());
        call(
            error,
            || {
                required(grants, "grants")?;
                db_of(db)?.claim_batch(text(owner, "owner")?, now, ttl, max)
            },
            |granted| *grants = fencepost_grants::lend(granted),
        )
    }
}

/// Frees grants with all that is in them.
///
/// `grants`: NULL is fine and does nothing.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fencepost_grants_free(grants: *mut fencepost_grants) {
    // SAFETY: the header asks for NULL or grants of fencepost_claim_batch that were not freed.
    unsafe { free(grants) }
}

/// Completes a job and takes the one that comes next, in one transaction: one sync to the disk instead of two.
///
/// `next`: not NULL. On OK the next job as fencepost_claim_next gives it, or NULL when the job is complete and
/// nothing is claimable. Otherwise NULL: a completion that is refused claims nothing.
///
/// Other arguments as for fencepost_complete, and `ttl` for the lease on the next job.
///
/// Answers and threads as fencepost_complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fencepost_complete_and_claim_next(
    db: *mut fencepost_db,
    id: *const c_char,
    owner: *const c_char,
    fence: i64,
    now: f64,
    result: *const c_char,
    ttl: f64,
    next: *mut *mut fencepost_grant,
    error: *mut fencepost_error,
) -> fencepost_status {
    // SAFETY: the header asks for NULL or a live handle, strings that outlive the call, and `next` NULL or
    // writable.
    unsafe {
        clear(next, std::ptr::null_mut());
        call(
            error,
            || {
                required(next, "next")?;
                let result = optional_text(result, "result")?;
                let (id, owner) = (text(id, "id")?, text(owner, "owner")?);
                db_of(db)?.complete_and_claim_next(id, owner, fence, now, result, ttl)
            },
            |granted| {
                if let Some(granted) = granted {
                    *next = fencepost_grant::lend(granted);
                }
            },
        )
    }
}

/// Ends the lease or the delay that a job has, whoever holds it: anyone can claim it at once. For operators, and for
/// leases that were granted by a wrong clock (milliseconds for seconds).
///
/// `id`: UTF-8, not NULL.
///
/// `fence`: not NULL. On OK the job's fence, which was raised and is granted to nobody, otherwise 0. The one that held
/// the job is STALE. Whoever checks fences outside of the file can be told to refuse those below this one.
///
/// Answers OK, NOT_FOUND, DONE, INVALID_ARGUMENT, BUSY, CANNOT_OPEN, NOT_A_DATABASE, SCHEMA, CORRUPT, IO, FULL,
/// READ_ONLY, OUT_OF_MEMORY, FENCE_EXHAUSTED, UNSUPPORTED, INTERNAL.
///
/// Threads: any number on one handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fencepost_force_release(
    db: *mut fencepost_db,
    id: *const c_char,
    fence: *mut i64,
    error: *mut fencepost_error,
) -> fencepost_status {
    // SAFETY: the header asks for NULL or a live handle, a string that outlives the call, and `fence` NULL or
    // writable.
    unsafe {
        clear(fence, 0);
        call(
            error,
            || {
                required(fence, "fence")?;
                db_of(db)?.force_release(text(id, "id")?)
            },
            |raised| *fence = raised,
        )
    }
}

/// Puts a complete job back into the line, to be done again: nobody's, claimable at once, without its result. The
/// fence stays, so the next claim's is higher. For operators.
///
/// `id`: UTF-8, not NULL.
///
/// Answers OK, NOT_FOUND, EXISTS (the job is not complete and is left as it is), INVALID_ARGUMENT, BUSY, CANNOT_OPEN,
/// NOT_A_DATABASE, SCHEMA, CORRUPT, IO, FULL, READ_ONLY, OUT_OF_MEMORY, UNSUPPORTED, INTERNAL.
///
/// Threads: any number on one handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fencepost_requeue(
    db: *mut fencepost_db,
    id: *const c_char,
    error: *mut fencepost_error,
) -> fencepost_status {
    // SAFETY: the header asks for NULL or a live handle, and for a string that outlives the call.
    unsafe { call(error, || db_of(db)?.requeue(text(id, "id")?), |()| ()) }
}

/// Removes complete jobs, in one transaction. Their ids may be enqueued again: every fence from then on, of any job,
/// is above those that were removed.
///
/// `before`: seconds by the callers' clock: only jobs whose `until` is not after it. INFINITY: all. When a job was
/// completed is not stored, but it was before its `until`.
///
/// `max`: at least 1, how many at most. The file is locked for others meanwhile, so remove many in several calls.
///
/// `count`: NULL, or where to put how many were removed; 0 unless the answer is OK. A job whose fence is the largest
/// 64-bit number stays.
///
/// Answers OK, INVALID_ARGUMENT, BUSY, CANNOT_OPEN, NOT_A_DATABASE, SCHEMA, CORRUPT, IO, FULL, READ_ONLY,
/// OUT_OF_MEMORY, UNSUPPORTED, INTERNAL.
///
/// Threads: any number on one handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fencepost_purge(
    db: *mut fencepost_db,
    before: f64,
    max: usize,
    count: *mut u64,
    error: *mut fencepost_error,
) -> fencepost_status {
    // SAFETY: the header asks for NULL or a live handle, and `count` NULL or writable.
    unsafe {
        clear(count, 0);
        call(error, || db_of(db)?.purge(before, max).map(Ok), |purged| clear(count, purged))
    }
}

/// From now on every fence that is granted in this file is above `to`, and leases under fences up to `to` are ended:
/// their holders are STALE. To be called after a backup was restored, with the highest fence that was seen before;
/// otherwise the file grants fences again that were granted since the backup was made.
///
/// `to`: at least 0 and below INT64_MAX. Where the floor is higher already it stays.
///
/// Answers OK, INVALID_ARGUMENT, BUSY, CANNOT_OPEN, NOT_A_DATABASE, SCHEMA, CORRUPT, IO, FULL, READ_ONLY,
/// OUT_OF_MEMORY, UNSUPPORTED, INTERNAL.
///
/// Threads: any number on one handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fencepost_raise_floor(
    db: *mut fencepost_db,
    to: i64,
    error: *mut fencepost_error,
) -> fencepost_status {
    // SAFETY: the header asks for NULL or a live handle.
    unsafe { call(error, || db_of(db)?.raise_floor(to).map(Ok), |()| ()) }
}

/// Counts the jobs that are in a condition at a time, in one look at the file.
///
/// `condition`: FENCEPOST_CONDITION_CLAIMABLE, _HELD, _DELAYED, _DONE or _BROKEN. Each row is in exactly one of them.
///
/// `now`: seconds by the callers' clock, finite.
///
/// `count`: not NULL. On OK how many, otherwise 0.
///
/// Answers OK, INVALID_ARGUMENT, BUSY, CANNOT_OPEN, NOT_A_DATABASE, SCHEMA, CORRUPT, IO, FULL, READ_ONLY,
/// OUT_OF_MEMORY, UNSUPPORTED, INTERNAL. Each row is read whole; for what is done or broken, the whole table.
///
/// Threads: any number on one handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fencepost_count(
    db: *mut fencepost_db,
    condition: i32,
    now: f64,
    count: *mut u64,
    error: *mut fencepost_error,
) -> fencepost_status {
    // SAFETY: the header asks for NULL or a live handle, and `count` NULL or writable.
    unsafe {
        clear(count, 0);
        call(
            error,
            || {
                required(count, "count")?;
                db_of(db)?.count(condition_of(condition)?, now).map(Ok)
            },
            |counted| *count = counted,
        )
    }
}

/// Lists the jobs that are in a condition at a time, in the order of their ids' bytes, a page at a time.
///
/// `condition`, `now`: as for fencepost_count. Of a row that is BROKEN only `id` says something: it is not the row's id
/// but a condition in SQL that finds the row, such as `id = 'a'`, `id = X'41'` or `_rowid_ = 7`, to be looked at and
/// repaired with. owner and result are NULL, until and fence 0, and done is false.
///
/// `after`: NULL for the first page, then the last id of the page before. A job that is added, or comes into the
/// condition, behind it meanwhile is in a later page; no job comes twice.
///
/// `max`: at least 1. The page is read into memory, results included.
///
/// `jobs`: not NULL. On OK at most `max` jobs, fewer only on the last page, perhaps none, which the caller frees
/// with fencepost_jobs_free; otherwise NULL.
///
/// Answers OK, INVALID_ARGUMENT, BUSY, CANNOT_OPEN, NOT_A_DATABASE, SCHEMA, CORRUPT, IO, FULL, READ_ONLY,
/// OUT_OF_MEMORY, UNSUPPORTED, INTERNAL.
///
/// Threads: any number on one handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fencepost_list(
    db: *mut fencepost_db,
    condition: i32,
    now: f64,
    after: *const c_char,
    max: usize,
    jobs: *mut *mut fencepost_jobs,
    error: *mut fencepost_error,
) -> fencepost_status {
    // SAFETY: the header asks for NULL or a live handle, `after` NULL or a string that outlives the call, and `jobs`
    // NULL or writable.
    unsafe {
        clear(jobs, std::ptr::null_mut());
        call(
            error,
            || {
                required(jobs, "jobs")?;
                let after = optional_text(after, "after")?;
                db_of(db)?.list(condition_of(condition)?, now, after, max).map(Ok)
            },
            |found| *jobs = fencepost_jobs::lend(found),
        )
    }
}

/// Frees jobs of fencepost_list with all that is in them.
///
/// `jobs`: NULL is fine and does nothing.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fencepost_jobs_free(jobs: *mut fencepost_jobs) {
    // SAFETY: the header asks for NULL or jobs of fencepost_list that were not freed.
    unsafe { free(jobs) }
}

/// Claims one job for many owners at the same time, a thread each (up to 64 at once): on a free job exactly
/// one of them is granted a fence.
///
/// `owners`: `count` strings as for fencepost_claim; the same one may stand there twice. NULL only when
/// `count` is 0.
///
/// `fences`: room for `count` numbers, in the owners' order: the fence of the one that was granted, 0 for
/// the others. All 0 unless the answer is OK. NULL only when `count` is 0.
///
/// Answers OK when one was granted, or `count` is 0; otherwise what fencepost_claim would have answered.
///
/// Threads: any number on one handle. Its own have ended when it returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fencepost_claim_many(
    db: *mut fencepost_db,
    id: *const c_char,
    owners: *const *const c_char,
    count: usize,
    now: f64,
    ttl: f64,
    fences: *mut i64,
    error: *mut fencepost_error,
) -> fencepost_status {
    // SAFETY: the header asks for NULL or a live handle, `count` strings that outlive the call, and room for
    // `count` numbers.
    unsafe {
        clear_all(fences, count, 0);
        call(
            error,
            || {
                let owners = texts(owners, count, "owners")?;
                if count > 0 {
                    required(fences, "fences")?;
                }
                db_of(db)?.claim_many(text(id, "id")?, &owners, now, ttl)
            },
            |granted| {
                for (index, fence) in granted.into_iter().enumerate() {
                    *fences.add(index) = fence.unwrap_or(0);
                }
            },
        )
    }
}

/// Seconds since 1970-01-01 00:00 UTC by the system's clock, for callers with no clock of their own. It may
/// be set back while the program runs; that can end a lease early or late, and never lets a stale write in.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn fencepost_now() -> f64 {
    clock::now()
}

/// The library's version, "MAJOR.MINOR.PATCH": compare it with the FENCEPOST_VERSION_* macros that the
/// caller was compiled with. Static; never NULL; not to be freed.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn fencepost_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// The name of a status, such as "FENCEPOST_STALE"; "FENCEPOST_UNKNOWN_STATUS" for a number that this
/// version does not know. Static; never NULL; not to be freed.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn fencepost_status_name(status: i32) -> *const c_char {
    fencepost_status::name_of(status).as_ptr()
}
