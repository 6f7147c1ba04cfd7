//! What operators do.

use std::ffi::c_char;

use super::convert::{call, clear, db_of, required, text};
use super::types::*;

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
