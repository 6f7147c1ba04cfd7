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

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use libc::flock;
use rusqlite::{Connection, ffi};

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

/// The descriptors of each regular file that SQLite has opened, oldest first.
struct Files(BTreeMap<Key, Vec<Descriptor>>);

static FILES: Mutex<Files> = Mutex::new(Files(BTreeMap::new()));

fn files() -> MutexGuard<'static, Files> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Files {
    /// Takes a parked descriptor out for use.
    fn reuse(&mut self, key: Key, access: c_int) -> Option<RawFd> {
        let all = self.0.get_mut(&key)?;
        // The host may have closed it, as one does with all descriptors that one does not know, and the number may
        // be another file's by now.
        all.retain(|d| !d.parked || is_still(d.fd, key));
        let parked = all.iter_mut().find(|d| d.parked && d.access == access)?;
        parked.parked = false;
        Some(parked.fd)
    }

    fn add(&mut self, key: Key, fd: RawFd, access: c_int) {
        // The kernel gives a number only when it is free.
        self.0.values_mut().for_each(|all| all.retain(|d| d.fd != fd));
        self.0.retain(|_, all| !all.is_empty());
        self.0.entry(key).or_default().push(Descriptor { fd, access, parked: false });
    }

    fn key_of(&self, fd: RawFd) -> Option<Key> {
        self.0.iter().find(|(_, all)| all.iter().any(|d| d.fd == fd && !d.parked)).map(|(key, _)| *key)
    }

    /// The descriptors through which locks on the inode are dropped; the last one is where they are taken.
    ///
    /// It is the oldest one that can take write locks. Before there was one, read locks were taken through
    /// the oldest of all, and that one keeps them until SQLite drops them.
    fn lockers(&self, key: Key) -> Vec<RawFd> {
        let all = &self.0[&key];
        let oldest = all.first().map(|d| d.fd);
        let writable = all.iter().find(|d| d.access == libc::O_RDWR).map(|d| d.fd);
        if oldest == writable {
            writable.into_iter().collect()
        } else {
            oldest.into_iter().chain(writable).collect()
        }
    }

    fn park(&mut self, key: Key, fd: RawFd) {
        if let Some(descriptor) = self.0.get_mut(&key).and_then(|all| all.iter_mut().find(|d| d.fd == fd)) {
            descriptor.parked = true;
        }
        if self.0[&key].iter().all(|d| d.parked) {
            // The last close drops the file's locks, as SQLite counts on.
            for locker in self.lockers(key) {
                lock(locker, libc::F_OFD_SETLK, &mut whole_file(libc::F_UNLCK));
            }
        }
        self.close_deleted();
    }

    /// Really closes the descriptors of files that no longer have a name, once SQLite uses none of them.
    fn close_deleted(&mut self) {
        self.0.retain(|key, all| {
            all.retain(|d| !d.parked || is_still(d.fd, *key));
            let keep = all.iter().any(|d| !d.parked || status(d.fd).is_some_and(|s| s.st_nlink > 0));
            if !keep {
                all.iter().for_each(|d| close(d.fd));
            }
            keep
        });
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
    // SAFETY: called only with descriptors that `open` below made and that are in nobody else's hands: SQLite
    // has given them up, and they are out of the table.
    unsafe { libc::close(fd) };
}

/// fstat(2), `None` when it fails or the file is not a regular one.
fn status(fd: RawFd) -> Option<libc::stat> {
    nix::sys::stat::fstat(
        // SAFETY: fstat(2) takes any number, and answers EBADF for one that is not open; the borrow ends with it.
        unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) },
    )
    .ok()
    .filter(is_regular)
}

/// Whether the descriptor is open and this file's.
fn is_still(fd: RawFd, key: Key) -> bool {
    status(fd).is_some_and(|status| Key(status.st_dev, status.st_ino) == key)
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

/// SQLite's "open".
unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: c_int) -> c_int {
    occupy_standard_descriptors();
    let access = flags & libc::O_ACCMODE;
    let mut files = files();
    if flags & (libc::O_EXCL | libc::O_TRUNC) == 0 {
        // SAFETY: SQLite passes a NUL-terminated path that outlives the call.
        if let Some(key) = unsafe { accessible_file(path, flags) }
            && let Some(fd) = files.reuse(key, access)
        {
            return fd;
        }
    }
    // SAFETY: as above; `mode` is an integer, as open(2) asks for with O_CREAT.
    let fd = unsafe { libc::open(path, flags | libc::O_CLOEXEC, mode) };
    let error = errno();
    if fd >= 0
        && let Some(status) = status(fd)
    {
        let key = Key(status.st_dev, status.st_ino);
        files.add(key, fd, access);
    }
    drop(files);
    set_errno(error);
    fd
}

/// The regular file at a path, when this process may still open it so: it may have given up rights since.
///
/// # Safety
///
/// `path` is NUL-terminated.
unsafe fn accessible_file(path: *const c_char, flags: c_int) -> Option<Key> {
    let follow = if flags & libc::O_NOFOLLOW == 0 { 0 } else { libc::AT_SYMLINK_NOFOLLOW };
    let rights = if flags & libc::O_ACCMODE == libc::O_RDONLY { libc::R_OK } else { libc::R_OK | libc::W_OK };
    // SAFETY: a zeroed `stat` is valid, the path is NUL-terminated, and the kernel writes at most one `stat`.
    let status = unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        if libc::fstatat(libc::AT_FDCWD, path, &raw mut status, follow) != 0
            || libc::faccessat(libc::AT_FDCWD, path, rights, libc::AT_EACCESS) != 0
        {
            return None;
        }
        status
    };
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
            files.0.values_mut().for_each(|all| all.retain(|d| d.fd != fd));
            files.0.retain(|_, all| !all.is_empty());
            // SAFETY: SQLite owns `fd` and gives it up here.
            unsafe { libc::close(fd) }
        }
    }
}

/// SQLite's lock requests.
unsafe extern "C" fn take_lock(fd: c_int, command: c_int, request: *mut flock) -> c_int {
    // SAFETY: SQLite passes a `flock` of its own that outlives the call.
    let given = unsafe { &mut *request };
    let files = files();
    let Some(key) = files.key_of(fd) else {
        // Opened before these functions were in place, or not a regular file.
        return lock(fd, command, given);
    };
    let lockers = files.lockers(key);
    let Some((taker, others)) = lockers.split_last() else { return lock(fd, command, given) };
    let command = match command {
        libc::F_GETLK => libc::F_OFD_GETLK,
        libc::F_SETLK => libc::F_OFD_SETLK,
        _ => libc::F_OFD_SETLKW,
    };
    given.l_pid = 0;
    if given.l_type == libc::F_UNLCK as i16 {
        for other in others {
            lock(*other, command, &mut given.clone());
        }
    }
    let answer = lock(*taker, command, given);
    let error = errno();
    drop(files);
    set_errno(error);
    answer
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
    // open(const char*, int, int), close(int), fcntl(int, int, ...).
    unsafe {
        ffi::sqlite3_initialize();
        let vfs = ffi::sqlite3_vfs_find(std::ptr::null());
        let Some(set) = vfs.as_ref().filter(|v| v.iVersion >= 3).and_then(|v| v.xSetSystemCall) else {
            return Err(Error::new(ErrorKind::Unsupported, "this SQLite cannot be given locks"));
        };
        let calls: [(&CStr, *const c_void); 3] = [
            (c"open", open as *const c_void),
            (c"close", park_or_close as *const c_void),
            (c"fcntl", sqlite_fcntl_with(take_lock) as *const c_void),
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
    // SAFETY: the name is NUL-terminated.
    let fd = unsafe { libc::memfd_create(c"fencepost".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        let why = std::io::Error::last_os_error();
        return Err(Error::new(
            ErrorKind::CannotOpen,
            format!("memfd_create: {why}; try again when that has passed"),
        ));
    }
    let answer = lock(fd, libc::F_OFD_GETLK, &mut whole_file(libc::F_RDLCK));
    close(fd);
    if answer == 0 {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        "this kernel has no open-file-description locks (Linux has had them since 3.15), without which fencepost is \
         not safe beside another copy of SQLite in the process",
    ))
}

/// Whether the file that the connection has open is no longer the one at its path.
pub(crate) fn has_moved(connection: &Connection) -> bool {
    let mut moved: c_int = 0;
    // SAFETY: the handle is live while `connection` is borrowed and not closed here; "main" is NUL-terminated;
    // SQLITE_FCNTL_HAS_MOVED writes one int (https://www.sqlite.org/c3ref/c_fcntl_begin_atomic_write.html).
    let answer = unsafe {
        ffi::sqlite3_file_control(
            connection.handle(),
            c"main".as_ptr(),
            ffi::SQLITE_FCNTL_HAS_MOVED,
            (&raw mut moved).cast::<c_void>(),
        )
    };
    answer == ffi::SQLITE_OK && moved != 0
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
    for (key, all) in std::mem::take(&mut files.0) {
        all.iter().filter(|d| is_still(d.fd, key)).for_each(|d| close(d.fd));
    }
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
