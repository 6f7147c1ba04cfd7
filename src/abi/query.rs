//! Looking at jobs.

use std::ffi::c_char;

use super::convert::{Lent, call, clear, condition_of, db_of, free, optional_text, required, text};
use super::types::*;

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
