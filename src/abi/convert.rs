//! Between C's values and Rust's: borrowed in, written out, and the one place where an answer becomes a
//! status.

use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use super::types::*;
use crate::{Answer, Condition, Db, Durability, Error, ErrorKind, Job, Lease, MAX_TEXT, Options};

/// The largest options struct that is believed, as openat2(2) has it with the size of a page.
const MAX_OPTIONS_SIZE: usize = 4096;

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

/// Runs `body`, gives its value to `store`, and makes a status of the answer. A panic becomes INTERNAL.
///
/// # Safety
///
/// `error` is NULL or writable.
pub(super) unsafe fn call<T>(
    error: *mut fencepost_error,
    body: impl FnOnce() -> Answer<T>,
    store: impl FnOnce(T),
) -> fencepost_status {
    silence_panics();
    let answer = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let what = panic
            .downcast_ref::<&str>()
            .map(|what| (*what).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_default();
        Err(Error::new(ErrorKind::Internal, format!("a fault of fencepost, please report it: {what}")))
    });
    let (status, code, message) = match answer {
        Ok(Ok(value)) => {
            store(value);
            (fencepost_status::FENCEPOST_OK, 0, String::new())
        }
        Ok(Err(refused)) => (refused.reason().into(), 0, refused.message().to_owned()),
        Err(failure) => (failure.kind().into(), failure.sqlite_code(), failure.message().to_owned()),
    };
    if !error.is_null() {
        // SAFETY: not NULL, so writable by this function's contract.
        unsafe { error.write(detail(code, &message)) };
    }
    status
}

/// The library's own copy of Rust's runtime would print a panic to the host's stderr.
fn silence_panics() {
    // Not a `Once`: a fork in the middle of it would leave the child waiting for ever.
    static DONE: AtomicBool = AtomicBool::new(false);
    if !DONE.swap(true, Ordering::Relaxed) {
        std::panic::set_hook(Box::new(|_| ()));
    }
}

fn detail(sqlite_code: i32, message: &str) -> fencepost_error {
    let mut detail = fencepost_error { sqlite_code, reserved: [0; 3], message: [0; 496] };
    let room = detail.message.len() - 1;
    let cut = message.floor_char_boundary(room);
    for (to, from) in detail.message.iter_mut().zip(message[..cut].bytes()) {
        *to = from as c_char;
    }
    detail
}

/// Sets an out-parameter to its empty value.
///
/// # Safety
///
/// `out` is NULL or writable.
pub(super) unsafe fn clear<T>(out: *mut T, empty: T) {
    if !out.is_null() {
        // SAFETY: not NULL, so writable by this function's contract.
        unsafe { out.write(empty) };
    }
}

/// Refuses a NULL out-parameter.
pub(super) fn required<T>(out: *mut T, name: &str) -> Result<(), Error> {
    if out.is_null() {
        Err(invalid(format!("{name} is NULL; it must say where to put the answer")))
    } else {
        Ok(())
    }
}

/// Borrows the handle.
///
/// # Safety
///
/// `db` is NULL or a live handle that outlives `'a`.
pub(super) unsafe fn db_of<'a>(db: *mut fencepost_db) -> Result<&'a Db, Error> {
    // SAFETY: NULL or live by this function's contract; only shared references are ever made of it.
    match unsafe { db.as_ref() } {
        Some(handle) => Ok(&handle.db),
        None => Err(invalid("db is NULL; open it with fencepost_open".to_owned())),
    }
}

/// Borrows a string.
///
/// # Safety
///
/// `pointer` is NULL or a NUL-terminated string that outlives `'a`.
pub(super) unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str, Error> {
    // SAFETY: as this function's own contract.
    unsafe { optional_text(pointer, name) }?.ok_or_else(|| invalid(format!("{name} is NULL; give a string")))
}

/// Borrows a string that may be NULL.
///
/// # Safety
///
/// `pointer` is NULL or a NUL-terminated string that outlives `'a`.
pub(super) unsafe fn optional_text<'a>(pointer: *const c_char, name: &str) -> Result<Option<&'a str>, Error> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: a NUL-terminated string; strnlen(3) reads no further than its NUL or MAX_TEXT + 1 bytes, and
    // the slice is what it has read.
    let bytes =
        unsafe { std::slice::from_raw_parts(pointer.cast::<u8>(), libc::strnlen(pointer, MAX_TEXT + 1)) };
    if bytes.len() > MAX_TEXT {
        return Err(invalid(format!("{name} is longer than {MAX_TEXT} bytes; shorten it")));
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(Some(text)),
        Err(bad) => Err(invalid(format!(
            "{name} is not UTF-8: byte {} is wrong; encode it as UTF-8",
            bad.valid_up_to()
        ))),
    }
}

/// Whether an array can have so many. None has more than isize::MAX bytes: such a count is a negative number of
/// the caller's.
pub(super) fn is_possible<T>(count: usize) -> bool {
    count <= isize::MAX as usize / size_of::<T>()
}

/// Sets an array of the caller's to its empty value.
///
/// # Safety
///
/// `out` is NULL, or `count` is impossible, or there is room for `count` values.
pub(super) unsafe fn clear_all<T: Copy>(out: *mut T, count: usize, empty: T) {
    if !out.is_null() && is_possible::<*const c_char>(count) {
        // SAFETY: room for `count` values by this function's contract.
        (0..count).for_each(|index| unsafe { out.add(index).write(empty) });
    }
}

/// Borrows an array of strings.
///
/// # Safety
///
/// `pointer` is NULL or `count` pointers, each NULL or a NUL-terminated string that outlives `'a`.
pub(super) unsafe fn texts<'a>(
    pointer: *const *const c_char,
    count: usize,
    name: &str,
) -> Result<Vec<&'a str>, Error> {
    if count > 0 && pointer.is_null() {
        return Err(invalid(format!("{name} is NULL although count is {count}")));
    }
    if !is_possible::<*const c_char>(count) {
        return Err(invalid(format!("count is {count}; no array is so long")));
    }
    // SAFETY: `count` readable pointers to strings by this function's contract.
    (0..count).map(|index| unsafe { text(*pointer.add(index), &format!("{name}[{index}]")) }).collect()
}

/// Reads the caller's options, which may be shorter or longer than ours.
///
/// # Safety
///
/// `pointer` is NULL or points to a readable size, and to as many readable bytes as it says.
pub(super) unsafe fn options_of(pointer: *const fencepost_options) -> Result<Options, Error> {
    const KNOWN: usize = size_of::<fencepost_options>();
    if pointer.is_null() {
        return Ok(Options::default());
    }
    // SAFETY: the size is readable by this function's contract; nothing is asked of its alignment.
    let size = unsafe { pointer.cast::<usize>().read_unaligned() };
    if !(size_of::<usize>()..=MAX_OPTIONS_SIZE).contains(&size) {
        return Err(invalid(format!("options.size is {size}; set it to sizeof(fencepost_options), {KNOWN}")));
    }
    // SAFETY: `size` readable bytes by this function's contract.
    let given = unsafe { std::slice::from_raw_parts(pointer.cast::<u8>(), size) };
    if given.iter().skip(KNOWN).any(|byte| *byte != 0) {
        return Err(invalid(format!(
            "options has non-zero fields beyond the {KNOWN} bytes that fencepost {} knows; load a newer one",
            env!("CARGO_PKG_VERSION")
        )));
    }
    let mut options = fencepost_options { size: 0, busy_timeout_ms: 0, durability: 0, flags: 0 };
    // SAFETY: at most KNOWN bytes, from readable memory to a struct of KNOWN bytes in which every bit pattern
    // is valid.
    unsafe {
        std::ptr::copy_nonoverlapping(
            given.as_ptr(),
            std::ptr::from_mut(&mut options).cast::<u8>(),
            size.min(KNOWN),
        );
    }
    checked(&options)
}

fn checked(options: &fencepost_options) -> Result<Options, Error> {
    let durability = match options.durability {
        FENCEPOST_DURABILITY_FULL => Durability::Full,
        FENCEPOST_DURABILITY_NORMAL => Durability::Normal,
        other => {
            return Err(invalid(format!("options.durability is {other}; it must be 0 (FULL) or 1 (NORMAL)")));
        }
    };
    let known = FENCEPOST_OPEN_EXISTING
        | FENCEPOST_OPEN_READ_ONLY
        | FENCEPOST_OPEN_KEEP_JOURNAL_MODE
        | FENCEPOST_OPEN_ALLOW_NETWORK_FILESYSTEM;
    if options.flags & !known != 0 {
        return Err(invalid(format!("options.flags has unknown bits: {:#x}", options.flags & !known)));
    }
    let has = |flag| options.flags & flag != 0;
    Ok(Options {
        busy_timeout: match options.busy_timeout_ms {
            0 => Options::default().busy_timeout,
            given => std::time::Duration::from_millis(u64::try_from(given).unwrap_or(0)),
        },
        durability,
        open_existing: has(FENCEPOST_OPEN_EXISTING),
        read_only: has(FENCEPOST_OPEN_READ_ONLY),
        keep_journal_mode: has(FENCEPOST_OPEN_KEEP_JOURNAL_MODE),
        allow_network_filesystem: has(FENCEPOST_OPEN_ALLOW_NETWORK_FILESYSTEM),
    })
}

/// Which condition a number means.
pub(super) fn condition_of(number: i32) -> Result<Condition, Error> {
    match number {
        FENCEPOST_CONDITION_CLAIMABLE => Ok(Condition::Claimable),
        FENCEPOST_CONDITION_HELD => Ok(Condition::Held),
        FENCEPOST_CONDITION_DELAYED => Ok(Condition::Delayed),
        FENCEPOST_CONDITION_DONE => Ok(Condition::Done),
        FENCEPOST_CONDITION_BROKEN => Ok(Condition::Broken),
        other => {
            Err(invalid(format!("condition is {other}; it must be one of FENCEPOST_CONDITION_*, 1 to 5")))
        }
    }
}

/// A value of the library's own for C to hold: made of a Rust value, and freed with all that it points to.
pub(super) trait Lent<From>: Sized {
    fn lend(from: From) -> *mut Self;

    /// # Safety
    ///
    /// `lent` came from `lend` and is given back here for the first time.
    unsafe fn give_back(lent: *mut Self);
}

fn lend_text(text: String) -> *const c_char {
    // What is stored is refused when it has an inner NUL, so nothing is lost here.
    CString::new(text).unwrap_or_default().into_raw().cast_const()
}

/// # Safety
///
/// `text` is NULL or came from `lend_text`, and is given back here for the first time.
unsafe fn give_text_back(text: *const c_char) {
    if !text.is_null() {
        // SAFETY: so it came from CString::into_raw.
        drop(unsafe { CString::from_raw(text.cast_mut()) });
    }
}

impl Lent<Job> for fencepost_job {
    fn lend(job: Job) -> *mut Self {
        Box::into_raw(Box::new(fencepost_job {
            id: lend_text(job.id),
            owner: job.owner.map_or(std::ptr::null(), lend_text),
            until: job.until,
            fence: job.fence,
            result: job.result.map_or(std::ptr::null(), lend_text),
            done: job.done,
        }))
    }

    unsafe fn give_back(lent: *mut Self) {
        // SAFETY: a box of `lend`'s, whose strings are `lend_text`'s.
        unsafe {
            let job = Box::from_raw(lent);
            [job.id, job.owner, job.result].into_iter().for_each(|text| give_text_back(text));
        }
    }
}

impl Lent<Lease> for fencepost_grant {
    fn lend(grant: Lease) -> *mut Self {
        Box::into_raw(Box::new(fencepost_grant { id: lend_text(grant.id), fence: grant.fence }))
    }

    unsafe fn give_back(lent: *mut Self) {
        // SAFETY: a box of `lend`'s, whose string is `lend_text`'s.
        unsafe { give_text_back(Box::from_raw(lent).id) }
    }
}

/// `from` as an array of pointers; NULL when it is empty.
fn lend_all<From, L: Lent<From>>(from: Vec<From>) -> (usize, *const *const L) {
    let lent: Box<[*const L]> = from.into_iter().map(|from| L::lend(from).cast_const()).collect();
    if lent.is_empty() { (0, std::ptr::null()) } else { (lent.len(), Box::into_raw(lent).cast::<*const L>()) }
}

/// # Safety
///
/// `count` and `lent` came from `lend_all` and are given back here for the first time.
unsafe fn give_all_back<From, L: Lent<From>>(count: usize, lent: *const *const L) {
    if lent.is_null() {
        return;
    }
    // SAFETY: a boxed slice of `count` pointers, each of `lend`'s.
    unsafe {
        let all = Box::from_raw(std::ptr::slice_from_raw_parts_mut(lent.cast_mut(), count));
        all.iter().for_each(|one| L::give_back(one.cast_mut()));
    }
}

impl Lent<Vec<Job>> for fencepost_jobs {
    fn lend(found: Vec<Job>) -> *mut Self {
        let (count, jobs) = lend_all(found);
        Box::into_raw(Box::new(fencepost_jobs { count, jobs }))
    }

    unsafe fn give_back(lent: *mut Self) {
        // SAFETY: a box of `lend`'s, whose array is `lend_all`'s.
        unsafe {
            let jobs = Box::from_raw(lent);
            give_all_back(jobs.count, jobs.jobs);
        }
    }
}

impl Lent<Vec<Lease>> for fencepost_grants {
    fn lend(granted: Vec<Lease>) -> *mut Self {
        let (count, grants) = lend_all(granted);
        Box::into_raw(Box::new(fencepost_grants { count, grants }))
    }

    unsafe fn give_back(lent: *mut Self) {
        // SAFETY: a box of `lend`'s, whose array is `lend_all`'s.
        unsafe {
            let grants = Box::from_raw(lent);
            give_all_back(grants.count, grants.grants);
        }
    }
}

/// Frees what `lend` gave; NULL is fine.
///
/// # Safety
///
/// `lent` is NULL, or came from `lend` and is given back here for the first time.
pub(super) unsafe fn free<From, L: Lent<From>>(lent: *mut L) {
    if !lent.is_null() {
        // SAFETY: not NULL, so from `lend` by this function's contract.
        unsafe { L::give_back(lent) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn called(body: impl FnOnce() -> Answer<()>) -> (fencepost_status, i32, String) {
        let mut error = detail(99, "left from an earlier call");
        // SAFETY: `error` is writable.
        let status = unsafe { call(&raw mut error, body, |()| ()) };
        // SAFETY: `call` has written a NUL-terminated message.
        let message = unsafe { CStr::from_ptr(error.message.as_ptr()) };
        (status, error.sqlite_code, message.to_str().unwrap().to_owned())
    }

    #[test]
    fn a_panic_becomes_internal_and_says_what() {
        for times in [1, 2] {
            let (status, _, message) =
                called(|| if times == 1 { panic!("it broke") } else { panic!("it broke {times} times") });
            assert_eq!(status, fencepost_status::FENCEPOST_INTERNAL);
            assert!(message.contains("it broke"), "{message}");
        }
    }

    #[test]
    fn the_error_is_written_by_every_call() {
        assert_eq!(called(|| Ok(Ok(()))), (fencepost_status::FENCEPOST_OK, 0, String::new()));
        let (status, code, message) =
            called(|| Ok(Err(crate::Refused::new(crate::Refusal::Held, "it is held"))));
        assert_eq!((status, code), (fencepost_status::FENCEPOST_HELD, 0));
        assert!(!message.is_empty());
        let failed = Error::new(ErrorKind::Busy, "locked").with_sqlite_code(5);
        assert_eq!(called(|| Err(failed)), (fencepost_status::FENCEPOST_BUSY, 5, "locked".to_owned()));
    }

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        let (_, _, message) = called(|| Err(invalid("x".to_owned() + &"가".repeat(400))));
        assert_eq!(message, "x".to_owned() + &"가".repeat(164));
    }

    #[test]
    fn the_version_macros_are_the_crates_version() {
        let macros = [FENCEPOST_VERSION_MAJOR, FENCEPOST_VERSION_MINOR, FENCEPOST_VERSION_PATCH];
        assert_eq!(macros.map(|part| part.to_string()).join("."), env!("CARGO_PKG_VERSION"));
    }
}
