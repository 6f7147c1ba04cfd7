//! The numbers and layouts of the C ABI. They never change meaning.

#![allow(non_camel_case_types)]

use std::ffi::c_char;

use crate::Db;
use crate::core::error::{ErrorKind, Refusal};

/// What a call answers: 0 is OK; above 0 it was refused by the lease's rules and nothing was changed; below
/// 0 is an error. Later versions may add numbers: treat an unknown one by its sign.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum fencepost_status {
    /// Done as asked. At the default durability it outlives a power cut.
    FENCEPOST_OK = 0,
    /// Refused: there is a job of this id already; it was left as it is.
    FENCEPOST_EXISTS = 1,
    /// Refused: there is no job of this id, or none at all that can be claimed.
    FENCEPOST_NOT_FOUND = 2,
    /// Refused: another lease on the job has not run out yet, or it is not to be claimed yet.
    FENCEPOST_HELD = 3,
    /// Refused: the job is complete.
    FENCEPOST_DONE = 4,
    /// Refused: this owner and fence do not hold the job (any more). Stop working on it.
    FENCEPOST_STALE = 5,
    /// Refused: owner and fence are the current ones, and the lease is over (now >= until).
    FENCEPOST_EXPIRED = 6,
    /// Error: an argument is NULL, not UTF-8, too long or out of range; the message names it.
    FENCEPOST_INVALID_ARGUMENT = -1,
    /// Error: the file stayed locked for the whole busy timeout. Nothing was changed; try again.
    FENCEPOST_BUSY = -2,
    /// Error: the file cannot be opened.
    FENCEPOST_CANNOT_OPEN = -3,
    /// Error: the file is not an SQLite database, or is encrypted.
    FENCEPOST_NOT_A_DATABASE = -4,
    /// Error: there is no table "jobs" yet (see fencepost_init_db), or one of another shape.
    FENCEPOST_SCHEMA = -5,
    /// Error: the file is damaged, or holds a row that no correct program writes.
    FENCEPOST_CORRUPT = -6,
    /// Error: the system reported an I/O error, or the file was deleted or replaced while it was open. The
    /// operation happened whole or not at all; look with fencepost_state.
    FENCEPOST_IO = -7,
    /// Error: the disk is full.
    FENCEPOST_FULL = -8,
    /// Error: the file, or the handle, is for reading only.
    FENCEPOST_READ_ONLY = -9,
    /// Error: memory ran out.
    FENCEPOST_OUT_OF_MEMORY = -10,
    /// Error: the job's fence is the largest 64-bit number; it can never be granted again.
    FENCEPOST_FENCE_EXHAUSTED = -11,
    /// Error: the library does not do this, by design; the message says why.
    FENCEPOST_UNSUPPORTED = -12,
    /// Error: a fault of the library itself.
    FENCEPOST_INTERNAL = -13,
}

use fencepost_status::*;

/// Every status, for looking up a name.
const STATUSES: [(fencepost_status, &std::ffi::CStr); 20] = [
    (FENCEPOST_OK, c"FENCEPOST_OK"),
    (FENCEPOST_EXISTS, c"FENCEPOST_EXISTS"),
    (FENCEPOST_NOT_FOUND, c"FENCEPOST_NOT_FOUND"),
    (FENCEPOST_HELD, c"FENCEPOST_HELD"),
    (FENCEPOST_DONE, c"FENCEPOST_DONE"),
    (FENCEPOST_STALE, c"FENCEPOST_STALE"),
    (FENCEPOST_EXPIRED, c"FENCEPOST_EXPIRED"),
    (FENCEPOST_INVALID_ARGUMENT, c"FENCEPOST_INVALID_ARGUMENT"),
    (FENCEPOST_BUSY, c"FENCEPOST_BUSY"),
    (FENCEPOST_CANNOT_OPEN, c"FENCEPOST_CANNOT_OPEN"),
    (FENCEPOST_NOT_A_DATABASE, c"FENCEPOST_NOT_A_DATABASE"),
    (FENCEPOST_SCHEMA, c"FENCEPOST_SCHEMA"),
    (FENCEPOST_CORRUPT, c"FENCEPOST_CORRUPT"),
    (FENCEPOST_IO, c"FENCEPOST_IO"),
    (FENCEPOST_FULL, c"FENCEPOST_FULL"),
    (FENCEPOST_READ_ONLY, c"FENCEPOST_READ_ONLY"),
    (FENCEPOST_OUT_OF_MEMORY, c"FENCEPOST_OUT_OF_MEMORY"),
    (FENCEPOST_FENCE_EXHAUSTED, c"FENCEPOST_FENCE_EXHAUSTED"),
    (FENCEPOST_UNSUPPORTED, c"FENCEPOST_UNSUPPORTED"),
    (FENCEPOST_INTERNAL, c"FENCEPOST_INTERNAL"),
];

impl fencepost_status {
    pub(super) fn name_of(number: i32) -> &'static std::ffi::CStr {
        STATUSES
            .iter()
            .find(|(status, _)| *status as i32 == number)
            .map_or(c"FENCEPOST_UNKNOWN_STATUS", |(_, name)| *name)
    }
}

impl From<Refusal> for fencepost_status {
    fn from(refusal: Refusal) -> fencepost_status {
        match refusal {
            Refusal::Exists => FENCEPOST_EXISTS,
            Refusal::NotFound => FENCEPOST_NOT_FOUND,
            Refusal::Held => FENCEPOST_HELD,
            Refusal::Done => FENCEPOST_DONE,
            Refusal::Stale => FENCEPOST_STALE,
            Refusal::Expired => FENCEPOST_EXPIRED,
        }
    }
}

impl From<ErrorKind> for fencepost_status {
    fn from(kind: ErrorKind) -> fencepost_status {
        match kind {
            ErrorKind::InvalidArgument => FENCEPOST_INVALID_ARGUMENT,
            ErrorKind::Busy => FENCEPOST_BUSY,
            ErrorKind::CannotOpen => FENCEPOST_CANNOT_OPEN,
            ErrorKind::NotADatabase => FENCEPOST_NOT_A_DATABASE,
            ErrorKind::Schema => FENCEPOST_SCHEMA,
            ErrorKind::Corrupt => FENCEPOST_CORRUPT,
            ErrorKind::Io => FENCEPOST_IO,
            ErrorKind::Full => FENCEPOST_FULL,
            ErrorKind::ReadOnly => FENCEPOST_READ_ONLY,
            ErrorKind::OutOfMemory => FENCEPOST_OUT_OF_MEMORY,
            ErrorKind::FenceExhausted => FENCEPOST_FENCE_EXHAUSTED,
            ErrorKind::Unsupported => FENCEPOST_UNSUPPORTED,
            ErrorKind::Internal => FENCEPOST_INTERNAL,
        }
    }
}

/// Major version: 0 until the ABI is declared stable.
pub const FENCEPOST_VERSION_MAJOR: u32 = 0;
/// Minor version: while MAJOR is 0, another MINOR may be another ABI.
pub const FENCEPOST_VERSION_MINOR: u32 = 1;
/// Patch version.
pub const FENCEPOST_VERSION_PATCH: u32 = 0;

/// fencepost_options.durability: every OK answer is synced to the disk before it is given (the default).
pub const FENCEPOST_DURABILITY_FULL: i32 = 0;
/// fencepost_options.durability: a power cut (not a crash of the process) may undo the newest answers, and so
/// hand out a fence a second time. For leases whose fences are checked nowhere outside this file.
pub const FENCEPOST_DURABILITY_NORMAL: i32 = 1;

/// fencepost_options.flags: fail with CANNOT_OPEN when the file is missing, instead of making it.
pub const FENCEPOST_OPEN_EXISTING: u32 = 1;
/// fencepost_options.flags: for fencepost_state, fencepost_count and fencepost_list; everything that writes answers
/// READ_ONLY. The file must exist. It may be another user's, in a folder that cannot be written or on a filesystem
/// that is mounted to be read only, as long as PATH-wal and PATH-shm are there and can be read: fencepost leaves
/// them there. (<https://www.sqlite.org/wal.html#read_only_databases>)
pub const FENCEPOST_OPEN_READ_ONLY: u32 = 2;
/// fencepost_options.flags: leave the file's journal mode as it is instead of switching it to WAL.
pub const FENCEPOST_OPEN_KEEP_JOURNAL_MODE: u32 = 4;
/// fencepost_options.flags: open the file although its filesystem is a network's. Locks there are the
/// server's affair, and SQLite's WAL does not work between machines at all.
pub const FENCEPOST_OPEN_ALLOW_NETWORK_FILESYSTEM: u32 = 8;

/// condition: anyone can claim the job (not complete, and until <= now): what fencepost_claim_next would grant.
pub const FENCEPOST_CONDITION_CLAIMABLE: i32 = 1;
/// condition: a lease on the job is running (not complete, until > now, with an owner).
pub const FENCEPOST_CONDITION_HELD: i32 = 2;
/// condition: nobody holds the job, and it is not to be claimed: not yet (not complete, until > now, no owner), or never
/// again (not complete, until <= now, and its fence is INT64_MAX; see FENCEPOST_FENCE_EXHAUSTED).
pub const FENCEPOST_CONDITION_DELAYED: i32 = 3;
/// condition: the job is complete.
pub const FENCEPOST_CONDITION_DONE: i32 = 4;
/// condition: no job, but a row that no correct program writes: its id is no text, until no real number, fence no
/// integer from 0 on, done neither 0 nor 1, or owner or result neither text nor NULL; a text is UTF-8 without a NUL
/// in it. fencepost_claim_next passes such a row by, and fencepost_state answers CORRUPT and says what is wrong.
pub const FENCEPOST_CONDITION_BROKEN: i32 = 5;

/// An open file: opaque, made by fencepost_open, ended by fencepost_close.
pub struct fencepost_db {
    pub(super) db: Db,
}

/// How to open a file. Zero the whole struct, set `size` to `sizeof(fencepost_options)`, then set what
/// differs from the default. Zero means the default in every field, so fields can be added at the end
/// without breaking callers compiled before.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fencepost_options {
    /// sizeof(fencepost_options) where the caller was compiled, in bytes.
    pub size: usize,
    /// How long a call waits for the file's locks, in milliseconds. 0: 5000. Negative: no wait.
    pub busy_timeout_ms: i32,
    /// FENCEPOST_DURABILITY_FULL or FENCEPOST_DURABILITY_NORMAL.
    pub durability: i32,
    /// FENCEPOST_OPEN_* flags, or-ed.
    pub flags: u32,
}

/// More about what a call answered. A struct of the caller's, written by every call that takes it: after OK
/// the code is 0 and the message empty.
#[repr(C)]
pub struct fencepost_error {
    /// SQLite's extended result code (<https://www.sqlite.org/rescode.html>), 0 when SQLite had no part in it.
    pub sqlite_code: i32,
    /// Zero.
    pub reserved: [i32; 3],
    /// UTF-8, NUL-terminated, cut at a character: what happened, to what, and what to do.
    pub message: [c_char; 496],
}

/// One row of the table "jobs". Made by fencepost_state and fencepost_list, freed by fencepost_job_free or with
/// its list; the strings go with it. Never make or copy one by value: fields may be added at the end.
#[repr(C)]
pub struct fencepost_job {
    /// The job's id; never NULL.
    pub id: *const c_char,
    /// Who holds or last held the job; NULL when nobody has since it was made or released.
    pub owner: *const c_char,
    /// When the lease is over, in seconds of the callers' clock; at now == until it is over.
    pub until: f64,
    /// The newest fence that was granted; 0 when none was.
    pub fence: i64,
    /// The result; NULL when there is none.
    pub result: *const c_char,
    /// Whether the job is complete.
    pub done: bool,
}

/// Jobs of fencepost_list, freed by fencepost_jobs_free with all that is in them.
#[repr(C)]
pub struct fencepost_jobs {
    /// How many there are.
    pub count: usize,
    /// `count` pointers, none NULL; NULL itself when `count` is 0.
    pub jobs: *const *const fencepost_job,
}

/// A job that was granted to its claimer. Freed by fencepost_grant_free or with its list; the id goes with it.
/// Never make or copy one by value: fields may be added at the end.
#[repr(C)]
pub struct fencepost_grant {
    /// The job's id; never NULL.
    pub id: *const c_char,
    /// The fence, above 0, that renew, complete and release ask for.
    pub fence: i64,
}

/// Grants of fencepost_claim_batch, freed by fencepost_grants_free with all that is in them.
#[repr(C)]
pub struct fencepost_grants {
    /// How many there are.
    pub count: usize,
    /// `count` pointers, none NULL.
    pub grants: *const *const fencepost_grant,
}
