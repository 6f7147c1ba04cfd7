//! The locks that let another copy of SQLite live in the same process: see
//! `docs/decisions/second-sqlite-copy.md`.
//!
//! POSIX locks belong to the process: two copies of SQLite in one do not exclude each other, and closing any
//! descriptor of a file drops the process's locks on it, the other copy's too
//! (<https://www.sqlite.org/howtocorrupt.html>, section 2.2). So our copy, which is private, is given its own
//! `open`, `close` and `fcntl` through `sqlite3_vfs.xSetSystemCall`:
//!
//! - its locks are open-file-description locks (fcntl_locking(2)), which the other copy's conflict with. All
//!   locks on one inode are taken through one descriptor, because SQLite keeps lock state per inode for the
//!   whole process and may take a lock through one descriptor and drop it through another;
//! - a regular file's descriptor that SQLite closes is parked and handed out again, and really closed only
//!   when the file is gone.
//!
//! Nothing else in the library opens and closes the files of a database.

#![allow(unsafe_code)]

mod calls;
mod control;
mod descriptors;

use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::sync::{Mutex, PoisonError};

use libc::flock;
use rusqlite::ffi;

pub(crate) use calls::why_not_opened;
pub(crate) use control::{data_version, has_moved, keep_side_files};
pub(crate) use descriptors::close_inherited_descriptors;

use calls::{open, park_or_close, read_at, take_lock};
use descriptors::{close, lock, whole_file};

use crate::core::error::{Error, ErrorKind};
use crate::os::errors;
use crate::process::guard::ForkGuard;

unsafe extern "C" {
    /// Of fcntl.c: a variadic `fcntl` that hands lock requests to the function given.
    fn sqlite_fcntl_with(
        take_lock: unsafe extern "C" fn(c_int, c_int, *mut flock) -> c_int,
    ) -> unsafe extern "C" fn(c_int, c_int, ...) -> c_int;
}

/// Puts the functions in place, once a process, before SQLite opens its first file.
pub(crate) fn install() -> Result<(), Error> {
    static DONE: Mutex<bool> = Mutex::new(false);
    // A fork in the middle would leave the child with a half-done lock, for ever.
    let _inside = ForkGuard::enter();
    let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
    if *done {
        return Ok(());
    }
    look_for_ofd_locks()?;
    // SAFETY: sqlite3_initialize and sqlite3_vfs_find have no preconditions. The default VFS is static data of
    // SQLite's and has xSetSystemCall (version 3 of the structure; checked). SQLite calls each function by the C
    // type that it has here, except that it casts between function pointer types in between:
    // open(const char*, int, int), close(int), fcntl(int, int, ...), pread(int, void*, size_t, off_t).
    unsafe {
        ffi::sqlite3_initialize();
        let vfs = ffi::sqlite3_vfs_find(std::ptr::null());
        let Some(set) = vfs.as_ref().filter(|v| v.iVersion >= 3).and_then(|v| v.xSetSystemCall) else {
            return Err(Error::new(ErrorKind::Unsupported, "this SQLite cannot be given locks"));
        };
        let calls: [(&CStr, *const c_void); 4] = [
            (c"open", open as *const c_void),
            (c"close", park_or_close as *const c_void),
            (c"fcntl", sqlite_fcntl_with(take_lock) as *const c_void),
            (c"pread", read_at as *const c_void),
        ];
        for (name, call) in calls {
            let call = std::mem::transmute::<*const c_void, ffi::sqlite3_syscall_ptr>(call);
            if set(vfs, name.as_ptr(), call) != ffi::SQLITE_OK {
                return Err(Error::new(ErrorKind::Unsupported, "this SQLite cannot be given locks"));
            }
        }
    }
    *done = true;
    Ok(())
}

fn look_for_ofd_locks() -> Result<(), Error> {
    // Any file will do of which nobody needs the locks that closing it drops. A sandbox may refuse the first call.
    // SAFETY: the names are NUL-terminated.
    let fd = unsafe {
        match libc::memfd_create(c"fencepost".as_ptr(), libc::MFD_CLOEXEC) {
            -1 => libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC),
            fd => fd,
        }
    };
    if fd < 0 {
        return Err(errors::refused("memfd_create, and /dev/null instead", &io::Error::last_os_error()));
    }
    let answer = lock(fd, libc::F_OFD_GETLK, &mut whole_file(libc::F_RDLCK));
    let error = io::Error::last_os_error();
    close(fd);
    if answer == 0 {
        return Ok(());
    }
    if error.raw_os_error() != Some(libc::EINVAL) {
        return Err(errors::refused("fcntl(F_OFD_GETLK)", &error));
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        "this kernel has no open-file-description locks (Linux has had them since 3.15), without which fencepost is \
         not safe beside another copy of SQLite in the process",
    ))
}
