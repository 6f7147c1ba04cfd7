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
//!
//! The page that processes share for what SQLite's locks cannot say (see [`super::gate`]) is here too, because
//! it needs the same kind of calls.

#![allow(unsafe_code)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsString, c_char, c_int, c_void};
use std::io;
use std::ops::Deref;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use libc::flock;
use nix::errno::Errno;
use rusqlite::{Connection, ffi};

use super::failure;
use crate::error::{Error, ErrorKind};
use crate::fork;
use crate::turn::Inside;

/// Device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key(u64, u64);

struct Descriptor {
    fd: RawFd,
    /// O_RDONLY or O_RDWR.
    access: c_int,
    parked: bool,
}

/// A regular file that SQLite has opened.
#[derive(Default)]
struct Opened {
    descriptors: Vec<Descriptor>,
    /// The descriptors through which locks on the inode are dropped; the last one is where they are taken.
    ///
    /// One that can take write locks, if this process can open such a one. Should it come later than the others, read
    /// locks were taken through the first of all, and that one keeps them until SQLite drops them.
    lockers: Vec<RawFd>,
    /// Unlocks that the system has refused, with the descriptor of each. SQLite would take the lock for held until its
    /// last connection is closed; so it is told that it is gone, and the next request for a lock is preceded by these.
    owed: Vec<(RawFd, flock)>,
}

impl Opened {
    fn unlock(&mut self, fd: RawFd, request: &flock) {
        if !self.pay() || lock(fd, libc::F_OFD_SETLK, &mut request.clone()) != 0 {
            self.owed.push((fd, *request));
        }
    }

    /// Drops what should have been dropped before; whether nothing is left.
    fn pay(&mut self) -> bool {
        while let Some((fd, request)) = self.owed.first() {
            // One that is closed has no locks.
            if lock(*fd, libc::F_OFD_SETLK, &mut request.clone()) != 0 && errno() != libc::EBADF {
                return false;
            }
            self.owed.remove(0);
        }
        true
    }
}

struct Files {
    opened: BTreeMap<Key, Opened>,
    /// Which file the descriptor of this number is of, when SQLite uses it.
    used: Vec<Option<Key>>,
    /// Descriptors of unknown files, with O_RDONLY or O_RDWR.
    unknown: Vec<(RawFd, c_int)>,
}

static FILES: Mutex<Files> =
    Mutex::new(Files { opened: BTreeMap::new(), used: Vec::new(), unknown: Vec::new() });

fn files() -> MutexGuard<'static, Files> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Files {
    /// Takes a parked descriptor out for use.
    fn reuse(&mut self, key: Key, access: c_int) -> Option<RawFd> {
        self.forget_those_closed_by_others(key);
        let all = &mut self.opened.get_mut(&key)?.descriptors;
        let parked = all.iter_mut().find(|d| d.parked && d.access == access)?;
        parked.parked = false;
        let fd = parked.fd;
        self.note_used(fd, Some(key));
        Some(fd)
    }

    /// The host may have closed parked descriptors, as one does with all that one does not know, and the numbers may
    /// be other files' by now.
    fn forget_those_closed_by_others(&mut self, key: Key) {
        let Some(opened) = self.opened.get_mut(&key) else { return };
        let lost: Vec<_> =
            opened.descriptors.iter().filter(|d| d.parked && is_lost(d.fd, key)).map(|d| d.fd).collect();
        lost.into_iter().for_each(|fd| self.remove(fd));
    }

    /// Keeps a descriptor of which the system does not say what file it is of. To close it could drop a neighbour's
    /// locks.
    fn keep_unknown(&mut self, fd: RawFd, access: c_int) {
        self.unknown.push((fd, access));
    }

    /// Asks again, and parks those that are known now.
    fn park_unknown(&mut self) {
        for (fd, access) in std::mem::take(&mut self.unknown) {
            match look_at(fd) {
                Ok(status) if is_regular(&status) => {
                    let key = Key(status.st_dev, status.st_ino);
                    self.add(key, fd, access);
                    self.park(key, fd);
                }
                // Closed by the host.
                Err(Errno::EBADF) => {}
                Err(_) => self.keep_unknown(fd, access),
                Ok(_) => close(fd),
            }
        }
    }

    fn add(&mut self, key: Key, fd: RawFd, access: c_int) {
        // The kernel gives a number only when it is free.
        self.remove(fd);
        let opened = self.opened.entry(key).or_default();
        opened.descriptors.push(Descriptor { fd, access, parked: false });
        let can_write =
            |fd: &RawFd| opened.descriptors.iter().any(|d| d.fd == *fd && d.access == libc::O_RDWR);
        if !opened.lockers.last().is_some_and(can_write)
            && (access == libc::O_RDWR || opened.lockers.is_empty())
        {
            opened.lockers.push(fd);
        }
        self.note_used(fd, Some(key));
    }

    /// Forgets a descriptor.
    fn remove(&mut self, fd: RawFd) {
        self.opened.retain(|_, opened| {
            opened.descriptors.retain(|d| d.fd != fd);
            opened.lockers.retain(|locker| *locker != fd);
            opened.owed.retain(|(locker, _)| *locker != fd);
            if opened.lockers.is_empty() {
                // Its locks went with it: another one takes them from now on.
                let next = opened.descriptors.iter().find(|d| d.access == libc::O_RDWR);
                opened.lockers.extend(next.or(opened.descriptors.first()).map(|d| d.fd));
            }
            !opened.descriptors.is_empty()
        });
        self.note_used(fd, None);
    }

    fn note_used(&mut self, fd: RawFd, key: Option<Key>) {
        let Ok(index) = usize::try_from(fd) else { return };
        if self.used.len() <= index {
            self.used.resize(index + 1, None);
        }
        self.used[index] = key;
    }

    /// Which file SQLite uses the descriptor for.
    fn key_of(&self, fd: RawFd) -> Option<Key> {
        *usize::try_from(fd).ok().and_then(|index| self.used.get(index))?
    }

    fn park(&mut self, key: Key, fd: RawFd) {
        self.note_used(fd, None);
        let Some(opened) = self.opened.get_mut(&key) else { return };
        opened.descriptors.iter_mut().filter(|d| d.fd == fd).for_each(|d| d.parked = true);
        if opened.descriptors.iter().all(|d| d.parked) {
            // The last close drops the file's locks, as SQLite counts on.
            for locker in opened.lockers.clone() {
                opened.unlock(locker, &whole_file(libc::F_UNLCK));
            }
        }
        self.close_deleted();
    }

    /// Really closes the descriptors of files that no longer have a name, once SQLite uses none of them.
    fn close_deleted(&mut self) {
        let parked: Vec<Key> = self
            .opened
            .iter()
            .filter(|(_, opened)| opened.descriptors.iter().all(|d| d.parked))
            .map(|(key, _)| *key)
            .collect();
        for key in parked {
            self.forget_those_closed_by_others(key);
            let deleted = self.opened.get(&key).is_some_and(|opened| {
                opened.descriptors.iter().all(|d| look_at(d.fd).is_ok_and(|found| found.st_nlink == 0))
            });
            if deleted && let Some(opened) = self.opened.remove(&key) {
                opened.descriptors.iter().for_each(|d| close(d.fd));
            }
        }
    }
}

fn whole_file(kind: c_int) -> flock {
    // l_pid must be 0 in a request for an open-file-description lock.
    flock { l_type: kind as i16, l_whence: libc::SEEK_SET as i16, l_start: 0, l_len: 0, l_pid: 0 }
}

/// fcntl(2) with a lock request.
fn lock(fd: RawFd, command: c_int, request: &mut flock) -> c_int {
    // SAFETY: for the commands F_GETLK, F_SETLK, F_OFD_GETLK and F_OFD_SETLK the kernel reads and writes one
    // `flock`, which is exclusively borrowed; on 64-bit Linux libc::flock is the kernel's own layout.
    unsafe { libc::fcntl(fd, command, std::ptr::from_mut(request)) }
}

fn close(fd: RawFd) {
    // SAFETY: called only with descriptors that this file has made and that are in nobody else's hands: SQLite
    // does not have them, or has given them up, and they are out of the table.
    unsafe { libc::close(fd) };
}

/// fstat(2).
fn look_at(fd: RawFd) -> Result<libc::stat, Errno> {
    nix::sys::stat::fstat(
        // SAFETY: fstat(2) takes any number, and answers EBADF for one that is not open; the borrow ends with it.
        unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) },
    )
}

/// Device and inode of what is at a path; `None` when nothing is, or this user may not look.
///
/// Asks for nothing else: whoever asks for a file's times makes the kernel note the next write to it at a time of
/// its own, and each sync write the inode as well (measured on Linux 6.18, ext4: 60 instead of 85 microseconds).
pub(crate) fn identity(path: &CStr) -> Option<(u64, u64)> {
    look(path, libc::STATX_INO).map(|found| found.file)
}

/// What changes whenever a name in a folder is made, removed or given to another file: which folder it is, and the
/// time of its last change, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    file: (u64, u64),
    pub(crate) changed: i128,
}

pub(crate) fn stamp(folder: &CStr) -> Option<Stamp> {
    look(folder, libc::STATX_INO | libc::STATX_CTIME)
}

/// statx(2); where a sandbox refuses that call, fstatat(2), which asks for all there is.
fn look(path: &CStr, what: libc::c_uint) -> Option<Stamp> {
    let nanoseconds = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
    // SAFETY: a zeroed `statx` is valid, the path is NUL-terminated, and the kernel writes at most one `statx`.
    let (answer, found) = unsafe {
        let mut found: libc::statx = std::mem::zeroed();
        (libc::statx(libc::AT_FDCWD, path.as_ptr(), 0, what, &raw mut found), found)
    };
    if answer == 0 {
        return Some(Stamp {
            file: (libc::makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino),
            changed: nanoseconds(found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec.into()),
        });
    }
    if errno() == libc::ENOENT {
        return None;
    }
    let found = stat(path, 0)?;
    Some(Stamp {
        file: (found.st_dev, found.st_ino),
        changed: nanoseconds(found.st_ctime, found.st_ctime_nsec),
    })
}

/// fstatat(2).
fn stat(path: &CStr, flags: c_int) -> Option<libc::stat> {
    // SAFETY: a zeroed `stat` is valid, the path is NUL-terminated, and the kernel writes at most one `stat`.
    unsafe {
        let mut found: libc::stat = std::mem::zeroed();
        let answer = libc::fstatat(libc::AT_FDCWD, path.as_ptr(), &raw mut found, flags);
        (answer == 0).then_some(found)
    }
}

/// Whether this process's effective user has these rights (faccessat(2)).
pub(crate) fn access(path: &CStr, rights: c_int) -> Result<(), Errno> {
    // SAFETY: the path is NUL-terminated, and the kernel only reads it; the others have no preconditions.
    unsafe {
        match Errno::result(libc::faccessat(libc::AT_FDCWD, path.as_ptr(), rights, libc::AT_EACCESS)) {
            // A sandbox may refuse faccessat2(2), which the C library asks, and not access(2), which goes by the real
            // user.
            Err(Errno::ENOSYS | Errno::EPERM)
                if libc::getuid() == libc::geteuid() && libc::getgid() == libc::getegid() =>
            {
                Errno::result(libc::access(path.as_ptr(), rights)).map(drop)
            }
            other => other.map(drop),
        }
    }
}

fn is_of(status: &libc::stat, key: Key) -> bool {
    is_regular(status) && Key(status.st_dev, status.st_ino) == key
}

/// Whether the descriptor is open and this file's.
fn is_still(fd: RawFd, key: Key) -> bool {
    look_at(fd).is_ok_and(|status| is_of(&status, key))
}

/// Whether the descriptor is closed or another file's. Not when the system does not say: then it is still ours, with
/// the locks that were taken through it.
fn is_lost(fd: RawFd, key: Key) -> bool {
    match look_at(fd) {
        Ok(status) => !is_of(&status, key),
        Err(error) => error == Errno::EBADF,
    }
}

fn is_regular(status: &libc::stat) -> bool {
    status.st_mode & libc::S_IFMT == libc::S_IFREG
}

fn errno() -> c_int {
    // SAFETY: __errno_location(3) gives a valid pointer to this thread's errno.
    unsafe { *libc::__errno_location() }
}

fn set_errno(value: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = value }
}

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
fn note_opened(path: &CStr, error: c_int) {
    let _ = NOT_OPENED.try_with(|noted| {
        let mut noted = noted.borrow_mut();
        // Where it may not make a file, SQLite asks again for the file as it is.
        let again = error == libc::ENOENT && noted.as_ref().is_some_and(|(_, before)| **before == *path);
        if !again {
            *noted = (error != 0).then(|| (error, path.to_owned()));
        }
    });
}

/// The number of this process's user, whose rights count for files.
pub(crate) fn user() -> libc::uid_t {
    // SAFETY: geteuid(2) has no preconditions.
    unsafe { libc::geteuid() }
}

/// How many descriptors this process may have.
pub(crate) fn descriptor_limit() -> libc::rlim_t {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes at most one `rlimit`, which is exclusively borrowed.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    limit.rlim_cur
}

/// SQLite's "open".
unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: c_int) -> c_int {
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
unsafe fn open_or_reuse(path: *const c_char, flags: c_int, mode: c_int) -> c_int {
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
fn not_for_lack_of_rights(error: c_int) -> c_int {
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
unsafe fn open_locker(files: &mut Files, path: *const c_char, flags: c_int) {
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
unsafe fn accessible_file(path: *const c_char, flags: c_int) -> Option<Key> {
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
fn occupy_standard_descriptors() {
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
unsafe extern "C" fn park_or_close(fd: c_int) -> c_int {
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
unsafe extern "C" fn take_lock(fd: c_int, command: c_int, request: *mut flock) -> c_int {
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
unsafe extern "C" fn read_at(fd: c_int, bytes: *mut c_void, size: usize, offset: libc::off_t) -> isize {
    // SAFETY: SQLite passes a buffer of `size` bytes of its own.
    let read = unsafe { libc::pread(fd, bytes, size, offset) };
    if read < 0 && errno() == libc::EIO {
        set_errno(libc::ENODATA);
    }
    read
}

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
    let _inside = Inside::enter();
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
        return Err(failure::refused("memfd_create, and /dev/null instead", &io::Error::last_os_error()));
    }
    let answer = lock(fd, libc::F_OFD_GETLK, &mut whole_file(libc::F_RDLCK));
    let error = io::Error::last_os_error();
    close(fd);
    if answer == 0 {
        return Ok(());
    }
    if error.raw_os_error() != Some(libc::EINVAL) {
        return Err(failure::refused("fcntl(F_OFD_GETLK)", &error));
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        "this kernel has no open-file-description locks (Linux has had them since 3.15), without which fencepost is \
         not safe beside another copy of SQLite in the process",
    ))
}

/// What the processes that use a database tell each other: the bytes of a file that all of them map. What each word
/// means stands in [`super::gate`]. Words that are not named are 0, for later versions.
#[repr(C, align(64))]
#[cfg_attr(test, derive(Default))]
pub(crate) struct Board {
    pub(crate) magic: AtomicU64,
    pub(crate) features: AtomicU64,
    pub(crate) needs_version: AtomicU32,
    pub(crate) optional_features: AtomicU32,
    _spare: [AtomicU32; 10],
    pub(crate) writes: AtomicU64,
    pub(crate) turn: AtomicU32,
    pub(crate) waiting: AtomicU32,
    pub(crate) state: AtomicU32,
    pub(crate) damaged: AtomicU32,
    pub(crate) last_granted: AtomicU32,
    _spare_too: [AtomicU32; 9],
    pub(crate) grants: [NotedGrant; 2],
}

/// A grant, for [`Board`].
#[repr(C, align(64))]
pub(crate) struct NotedGrant {
    pub(crate) write: AtomicU32,
    pub(crate) length: AtomicU32,
    pub(crate) fence: AtomicI64,
    pub(crate) highest_fence: AtomicI64,
    pub(crate) checksum: AtomicU64,
    pub(crate) id: [AtomicU64; 116],
}

#[cfg(test)]
impl Default for NotedGrant {
    fn default() -> NotedGrant {
        NotedGrant {
            write: AtomicU32::new(0),
            length: AtomicU32::new(0),
            fence: AtomicI64::new(0),
            highest_fence: AtomicI64::new(0),
            checksum: AtomicU64::new(0),
            id: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

/// A mapping of a [`Board`].
pub(crate) struct SharedBoard(NonNull<Board>);

/// How much of the file is mapped, and so how long it must be.
pub(crate) const BOARD_SIZE: usize = 4096;
const _: () = assert!(size_of::<Board>() <= BOARD_SIZE);

// SAFETY: a mapping belongs to no thread, and a Board holds atomics alone.
unsafe impl Send for SharedBoard {}
// SAFETY: as above.
unsafe impl Sync for SharedBoard {}

impl SharedBoard {
    /// Maps the file, which must have BOARD_SIZE bytes; without `writable` nothing may be stored there.
    pub(crate) fn map(file: &std::fs::File, writable: bool) -> std::io::Result<SharedBoard> {
        use std::os::fd::AsRawFd;
        let rights = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: a new mapping at an address of the kernel's choice, of a descriptor that is open; whatever the
        // arguments are, mmap(2) touches no memory of ours.
        let address = unsafe {
            libc::mmap(std::ptr::null_mut(), BOARD_SIZE, rights, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        match NonNull::new(address.cast::<Board>()) {
            Some(board) if address != libc::MAP_FAILED => Ok(SharedBoard(board)),
            _ => Err(std::io::Error::last_os_error()),
        }
    }
}

impl Deref for SharedBoard {
    type Target = Board;

    fn deref(&self) -> &Board {
        // SAFETY: the mapping is page-aligned, at least as large as a Board, and lives as long as `self`; other
        // processes change it through atomics alone, and any bytes are a Board. (Who cuts the file short kills the
        // processes that use it, as with SQLite's own -shm.)
        unsafe { self.0.as_ref() }
    }
}

impl Drop for SharedBoard {
    fn drop(&mut self) {
        // SAFETY: the mapping of `map`, which nothing borrows any more.
        unsafe { libc::munmap(self.0.as_ptr().cast::<c_void>(), BOARD_SIZE) };
    }
}

/// Sleeps until the word is woken, no longer than `time`, and not at all when it is not `seen` any more
/// (futex(2)). A signal may end it early. Whether it was woken.
pub(crate) fn futex_wait(word: &AtomicU32, seen: u32, time: Duration) -> bool {
    let limit = libc::timespec {
        tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: time.subsec_nanos().into(),
    };
    // SAFETY: the word and the time outlive the call, and the kernel only reads them. Without FUTEX_PRIVATE_FLAG
    // the word is found by its file, so other processes can wake it.
    if unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, seen, &raw const limit) == 0 }
    {
        return true;
    }
    if !matches!(errno(), libc::EAGAIN | libc::EINTR | libc::ETIMEDOUT) {
        // A sandbox refuses the call. To come back at once would keep the processor busy for the whole wait.
        std::thread::sleep(time);
    }
    false
}

/// Wakes the one that has slept longest on the word, in whatever process; whether there was one.
pub(crate) fn futex_wake_one(word: &AtomicU32) -> bool {
    // SAFETY: FUTEX_WAKE takes the word's address alone and touches no memory.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) > 0 }
}

/// Whether the file that the connection has open is no longer the one at its path.
pub(crate) fn has_moved(connection: &Connection) -> bool {
    ask(connection, ffi::SQLITE_FCNTL_HAS_MOVED).is_some_and(|moved| moved != 0)
}

/// Has the last connection to be closed leave the -wal and the -shm, whose names a reader may not be allowed to make
/// (<https://www.sqlite.org/wal.html#read_only_databases>).
pub(crate) fn keep_side_files(connection: &Connection) {
    let mut keep: c_int = 1;
    // SAFETY: as in `ask`; SQLITE_FCNTL_PERSIST_WAL reads and writes one int.
    unsafe {
        ffi::sqlite3_file_control(
            connection.handle(),
            c"main".as_ptr(),
            ffi::SQLITE_FCNTL_PERSIST_WAL,
            (&raw mut keep).cast::<c_void>(),
        )
    };
}

/// A number that is another one once another connection has changed the file; that of the transaction that is
/// running.
pub(crate) fn data_version(connection: &Connection) -> Option<c_int> {
    ask(connection, ffi::SQLITE_FCNTL_DATA_VERSION)
}

/// A question to SQLite's file whose answer is a number
/// (<https://www.sqlite.org/c3ref/c_fcntl_begin_atomic_write.html>).
fn ask(connection: &Connection, question: c_int) -> Option<c_int> {
    let mut number: c_int = 0;
    // SAFETY: the handle is live while `connection` is borrowed and not closed here; "main" is NUL-terminated;
    // SQLITE_FCNTL_HAS_MOVED writes one int, and SQLITE_FCNTL_DATA_VERSION one unsigned of the same size.
    let answer = unsafe {
        ffi::sqlite3_file_control(
            connection.handle(),
            c"main".as_ptr(),
            question,
            (&raw mut number).cast::<c_void>(),
        )
    };
    (answer == ffi::SQLITE_OK).then_some(number)
}

/// In a forked child: really closes every descriptor from the parent, whose locks it would keep otherwise.
/// A new process has no POSIX locks that this could drop (fork(2)).
pub(crate) fn close_inherited_descriptors() {
    let mut files = match FILES.try_lock() {
        Ok(files) => files,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        // Forked by a signal handler in the middle of the above: see `fork::check`.
        Err(TryLockError::WouldBlock) => return,
    };
    for (key, opened) in std::mem::take(&mut files.opened) {
        opened.descriptors.iter().filter(|d| is_still(d.fd, key)).for_each(|d| close(d.fd));
    }
    std::mem::take(&mut files.unknown).into_iter().for_each(|(fd, _)| close(fd));
    files.used.clear();
}

/// When the library is loaded, so that a fork in the middle of the first open finds the handlers in place.
#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = {
    extern "C" fn on_load() {
        register_fork_handlers();
    }
    on_load
};

/// Arranges, once a process, that every fork(3) calls the functions of [`fork`].
pub(crate) fn register_fork_handlers() {
    static DONE: AtomicBool = AtomicBool::new(false);
    extern "C" fn prepare() {
        handle(fork::prepare);
    }
    extern "C" fn parent() {
        handle(fork::parent);
    }
    extern "C" fn child() {
        handle(fork::child);
    }
    fn handle(handler: fn()) {
        // A panic must not unwind into the C library; the handlers have nothing to report it to.
        let _ = std::panic::catch_unwind(handler);
    }
    if !DONE.swap(true, Ordering::Relaxed) {
        // SAFETY: the functions never unwind and stay loaded (the library is linked nodelete).
        unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From now on the system refuses this thread a call, when its second argument is `second` (seccomp(2)).
    fn refuse(call: libc::c_long, second: u32, error: c_int) {
        const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
        const IS: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        const ANSWER: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
        let step = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
        // Of `seccomp_data`: the call's number at 0, its second argument at 24.
        let mut steps = [
            step(LOAD, 0, 0, 0),
            step(IS, call as u32, 0, 3),
            step(LOAD, 24, 0, 0),
            step(IS, second, 0, 1),
            step(ANSWER, libc::SECCOMP_RET_ERRNO | error as u32, 0, 0),
            step(ANSWER, libc::SECCOMP_RET_ALLOW, 0, 0),
        ];
        let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
        // SAFETY: the program and its steps outlive the calls, and the kernel only reads them.
        unsafe {
            assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
            assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
        }
    }

    #[test]
    fn where_futexes_are_refused_a_wait_takes_its_time() {
        for error in [libc::EPERM, libc::ENOSYS] {
            let waiter = std::thread::spawn(move || {
                let (word, time) = (AtomicU32::new(1), Duration::from_millis(20));
                refuse(libc::SYS_futex, libc::FUTEX_WAIT as u32, error);
                let begin = std::time::Instant::now();
                assert!(!futex_wait(&word, 1, time));
                assert!(begin.elapsed() >= time);
            });
            waiter.join().unwrap();
        }
    }
}
