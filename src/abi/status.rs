//! The clock, the version and the names of statuses.

use std::ffi::c_char;

use super::types::*;
use crate::core::clock;

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
