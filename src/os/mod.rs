//! What the operating system is asked beside Rust's standard library and nix: all of it that is unsafe, behind safe
//! functions.

#![allow(unsafe_code)]

use std::ffi::c_int;

pub(crate) mod atfork;
pub(crate) mod errors;
pub(crate) mod futex;
pub(crate) mod limits;
pub(crate) mod page;
pub(crate) mod stat;

pub(crate) fn errno() -> c_int {
    // SAFETY: __errno_location(3) gives a valid pointer to this thread's errno.
    unsafe { *libc::__errno_location() }
}

pub(crate) fn set_errno(value: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = value }
}
