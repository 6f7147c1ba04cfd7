//! The system calls that SQLite is given in the place of its own.

use std::cell::RefCell;
use std::ffi::{CStr, CString, OsString, c_char, c_int, c_void};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use libc::flock;

use super::descriptors::{Files, Key, close, files, is_regular, lock, look_at};
use crate::os::stat::{access, stat};
use crate::os::{errno, set_errno};

thread_local! {
    /// Why the last `open` of this thread has failed, and of what; `None` when it has not.
    static NOT_OPENED: RefCell<Option<(c_int, CString)>> = const { RefCell::new(None) };
}

/// Why SQLite could not open a file just now, and which: it has one answer for all errors (SQLITE_CANTOPEN).
pub(crate) fn why_not_opened() -> Option<(io::Error, PathBuf)> {
    let (error, path) = NOT_OPENED.try_with(RefCell::take).ok()??;
    Some((io::Error::from_raw_os_error(error), PathBuf::from(OsString::from_vec(path.into_bytes()))))
}

/// Notes how an `open` has ended; its error is 0 when it has not failed.
pub(super) fn note_opened(path: &CStr, error: c_int) {
    let _ = NOT_OPENED.try_with(|noted| {
        let mut noted = noted.borrow_mut();
        // Where it may not make a file, SQLite asks again for the file as it is.
        let again = error == libc::ENOENT && noted.as_ref().is_some_and(|(_, before)| **before == *path);
        if !again {
            *noted = (error != 0).then(|| (error, path.to_owned()));
        }
    });
}

/// SQLite's "open".
pub(super) unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: c_int) -> c_int {
    // SAFETY: the arguments are those of SQLite's call.
    let fd = unsafe { open_or_reuse(path, flags, mode) };
    let error = errno();
    // SAFETY: SQLite passes a NUL-terminated path that outlives the call.
    note_opened(unsafe { CStr::from_ptr(path) }, if fd < 0 { error } else { 0 });
    set_errno(if fd < 0 { not_for_lack_of_rights(error) } else { error });
    fd
}

/// # Safety
///
/// `path` is NUL-terminated.
pub(super) unsafe fn open_or_reuse(path: *const c_char, flags: c_int, mode: c_int) -> c_int {
    occupy_standard_descriptors();
    let access = flags & libc::O_ACCMODE;
    let mut files = files();
    files.park_unknown();
    if flags & (libc::O_EXCL | libc::O_TRUNC) == 0 {
        // SAFETY: by this function's contract.
        if let Some(key) = unsafe { accessible_file(path, flags) }
            && let Some(fd) = files.reuse(key, access)
        {
            return fd;
        }
    }
    // SAFETY: as above; `mode` is an integer, as open(2) asks for with O_CREAT.
    let fd = unsafe { libc::open(path, flags | libc::O_CLOEXEC, mode) };
    let error = errno();
    if fd < 0 {
        drop(files);
        set_errno(error);
        return fd;
    }
    match look_at(fd) {
        Ok(status) if is_regular(&status) => {
            let key = Key(status.st_dev, status.st_ino);
            if access == libc::O_RDONLY && !files.opened.contains_key(&key) {
                // SAFETY: as above.
                unsafe { open_locker(&mut files, path, flags) };
            }
            files.add(key, fd, access);
            files.close_deleted();
        }
        Ok(_) => {}
        // Its locks would be taken as the other copy takes them.
        Err(_) => {
            files.keep_unknown(fd, access);
            drop(files);
            // Not one after which SQLite tries again, whatever it was.
            set_errno(libc::EIO);
            return -1;
        }
    }
    drop(files);
    set_errno(error);
    fd
}

/// Whatever the error, SQLite opens the file to read only then, and stays so; for the -wal nobody hears of it before the
/// next write. It does not after EISDIR.
pub(super) fn not_for_lack_of_rights(error: c_int) -> c_int {
    match error {
        libc::EACCES | libc::EPERM | libc::EROFS | libc::ENOENT | libc::EINTR => error,
        _ => libc::EISDIR,
    }
}

/// A file is first opened to read only: all its locks are to be taken through one descriptor that can take any, should
/// SQLite open it to write later. Where this user may not write it, there will be no write locks.
///
/// # Safety
///
/// `path` is NUL-terminated.
pub(super) unsafe fn open_locker(files: &mut Files, path: *const c_char, flags: c_int) {
    let flags = flags & !libc::O_ACCMODE | libc::O_RDWR | libc::O_CLOEXEC;
    // SAFETY: the path is NUL-terminated, and the flags make no file.
    let fd = unsafe { libc::open(path, flags & !libc::O_CREAT) };
    if fd < 0 {
        return;
    }
    // Should another file have taken its place just now, then this is that file's.
    match look_at(fd) {
        Ok(status) if is_regular(&status) => {
            let key = Key(status.st_dev, status.st_ino);
            files.add(key, fd, libc::O_RDWR);
            files.park(key, fd);
        }
        Ok(_) => close(fd),
        Err(_) => files.keep_unknown(fd, libc::O_RDWR),
    }
}

/// The regular file at a path, when this process may still open it so: it may have given up rights since.
///
/// # Safety
///
/// `path` is NUL-terminated.
pub(super) unsafe fn accessible_file(path: *const c_char, flags: c_int) -> Option<Key> {
    let follow = if flags & libc::O_NOFOLLOW == 0 { 0 } else { libc::AT_SYMLINK_NOFOLLOW };
    let rights = if flags & libc::O_ACCMODE == libc::O_RDONLY { libc::R_OK } else { libc::R_OK | libc::W_OK };
    // SAFETY: by this function's contract.
    let path = unsafe { CStr::from_ptr(path) };
    let status = stat(path, follow)?;
    access(path, rights).ok()?;
    is_regular(&status).then_some(Key(status.st_dev, status.st_ino))
}

/// Keeps a database from getting the number of standard input, output or error, when the host has closed
/// them: what it then prints would go into the file. SQLite does the same, but by closing the file again,
/// which would drop the neighbour's locks.
pub(super) fn occupy_standard_descriptors() {
    for fd in 0..=2 {
        // SAFETY: F_GETFD takes no argument and touches no memory; the path is NUL-terminated.
        unsafe {
            if libc::fcntl(fd, libc::F_GETFD) == -1 && errno() == libc::EBADF {
                libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY);
            }
        }
    }
}

/// SQLite's "close".
pub(super) unsafe extern "C" fn park_or_close(fd: c_int) -> c_int {
    let mut files = files();
    match files.key_of(fd) {
        // Not standard input, output or error, which a host thread may have closed meanwhile.
        Some(key) if fd > 2 => {
            files.park(key, fd);
            0
        }
        _ => {
            files.remove(fd);
            // SAFETY: SQLite owns `fd` and gives it up here.
            unsafe { libc::close(fd) }
        }
    }
}

/// SQLite's lock requests.
pub(super) unsafe extern "C" fn take_lock(fd: c_int, command: c_int, request: *mut flock) -> c_int {
    // SAFETY: SQLite passes a `flock` of its own that outlives the call.
    let given = unsafe { &mut *request };
    let mut files = files();
    let Some(key) = files.key_of(fd) else {
        // Opened before these functions were in place, or not a regular file.
        return lock(fd, command, given);
    };
    let Some(opened) = files.opened.get_mut(&key) else { return lock(fd, command, given) };
    let Some(taker) = opened.lockers.last().copied() else { return lock(fd, command, given) };
    let command = match command {
        libc::F_GETLK => libc::F_OFD_GETLK,
        libc::F_SETLK => libc::F_OFD_SETLK,
        _ => libc::F_OFD_SETLKW,
    };
    given.l_pid = 0;
    if given.l_type == libc::F_UNLCK as i16 {
        for place in 0..opened.lockers.len() {
            opened.unlock(opened.lockers[place], given);
        }
        return 0;
    }
    let answer = if opened.pay() { lock(taker, command, given) } else { -1 };
    let error = errno();
    drop(files);
    set_errno(error);
    answer
}

/// SQLite's "pread".
///
/// Where the device cannot read, the system says EIO, and SQLite answers that its file is malformed
/// (SQLITE_IOERR_CORRUPTFS becomes SQLITE_CORRUPT). With another error it answers that it could not read, which is true.
pub(super) unsafe extern "C" fn read_at(
    fd: c_int,
    bytes: *mut c_void,
    size: usize,
    offset: libc::off_t,
) -> isize {
    // SAFETY: SQLite passes a buffer of `size` bytes of its own.
    let read = unsafe { libc::pread(fd, bytes, size, offset) };
    if read < 0 && errno() == libc::EIO {
        set_errno(libc::ENODATA);
    }
    read
}
