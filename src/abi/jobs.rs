//! What workers do.

use std::ffi::c_char;

use super::convert::{Lent, call, clear, clear_all, db_of, free, optional_text, required, text, texts};
use super::types::*;

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
