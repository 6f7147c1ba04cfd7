//! The descriptors of the files that SQLite has opened: which are in use, which are parked, and through which one the
//! locks of a file are taken.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::os::fd::RawFd;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use libc::flock;
use nix::errno::Errno;

use crate::os::errno;

/// Device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(pub(super) u64, pub(super) u64);

pub(super) struct Descriptor {
    fd: RawFd,
    /// O_RDONLY or O_RDWR.
    access: c_int,
    parked: bool,
}

/// A regular file that SQLite has opened.
#[derive(Default)]
pub(super) struct Opened {
    pub(super) descriptors: Vec<Descriptor>,
    /// The descriptors through which locks on the inode are dropped; the last one is where they are taken.
    ///
    /// One that can take write locks, if this process can open such a one. Should it come later than the others, read
    /// locks were taken through the first of all, and that one keeps them until SQLite drops them.
    pub(super) lockers: Vec<RawFd>,
    /// Unlocks that the system has refused, with the descriptor of each. SQLite would take the lock for held until its
    /// last connection is closed; so it is told that it is gone, and the next request for a lock is preceded by these.
    owed: Vec<(RawFd, flock)>,
}

impl Opened {
    pub(super) fn unlock(&mut self, fd: RawFd, request: &flock) {
        if !self.pay() || lock(fd, libc::F_OFD_SETLK, &mut request.clone()) != 0 {
            self.owed.push((fd, *request));
        }
    }

    /// Drops what should have been dropped before; whether nothing is left.
    pub(super) fn pay(&mut self) -> bool {
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

pub(super) struct Files {
    pub(super) opened: BTreeMap<Key, Opened>,
    /// Which file the descriptor of this number is of, when SQLite uses it.
    used: Vec<Option<Key>>,
    /// Descriptors of unknown files, with O_RDONLY or O_RDWR.
    unknown: Vec<(RawFd, c_int)>,
}

static FILES: Mutex<Files> =
    Mutex::new(Files { opened: BTreeMap::new(), used: Vec::new(), unknown: Vec::new() });

pub(super) fn files() -> MutexGuard<'static, Files> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Files {
    /// Takes a parked descriptor out for use.
    pub(super) fn reuse(&mut self, key: Key, access: c_int) -> Option<RawFd> {
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
    pub(super) fn forget_those_closed_by_others(&mut self, key: Key) {
        let Some(opened) = self.opened.get_mut(&key) else { return };
        let lost: Vec<_> =
            opened.descriptors.iter().filter(|d| d.parked && is_lost(d.fd, key)).map(|d| d.fd).collect();
        lost.into_iter().for_each(|fd| self.remove(fd));
    }

    /// Keeps a descriptor of which the system does not say what file it is of. To close it could drop a neighbour's
    /// locks.
    pub(super) fn keep_unknown(&mut self, fd: RawFd, access: c_int) {
        self.unknown.push((fd, access));
    }

    /// Asks again, and parks those that are known now.
    pub(super) fn park_unknown(&mut self) {
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

    pub(super) fn add(&mut self, key: Key, fd: RawFd, access: c_int) {
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
    pub(super) fn remove(&mut self, fd: RawFd) {
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

    pub(super) fn note_used(&mut self, fd: RawFd, key: Option<Key>) {
        let Ok(index) = usize::try_from(fd) else { return };
        if self.used.len() <= index {
            self.used.resize(index + 1, None);
        }
        self.used[index] = key;
    }

    /// Which file SQLite uses the descriptor for.
    pub(super) fn key_of(&self, fd: RawFd) -> Option<Key> {
        *usize::try_from(fd).ok().and_then(|index| self.used.get(index))?
    }

    pub(super) fn park(&mut self, key: Key, fd: RawFd) {
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
    pub(super) fn close_deleted(&mut self) {
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

pub(super) fn whole_file(kind: c_int) -> flock {
    // l_pid must be 0 in a request for an open-file-description lock.
    flock { l_type: kind as i16, l_whence: libc::SEEK_SET as i16, l_start: 0, l_len: 0, l_pid: 0 }
}

/// fcntl(2) with a lock request.
pub(super) fn lock(fd: RawFd, command: c_int, request: &mut flock) -> c_int {
    // SAFETY: for the commands F_GETLK, F_SETLK, F_OFD_GETLK and F_OFD_SETLK the kernel reads and writes one
    // `flock`, which is exclusively borrowed; on 64-bit Linux libc::flock is the kernel's own layout.
    unsafe { libc::fcntl(fd, command, std::ptr::from_mut(request)) }
}

pub(super) fn close(fd: RawFd) {
    // SAFETY: called only with descriptors that this file has made and that are in nobody else's hands: SQLite
    // does not have them, or has given them up, and they are out of the table.
    unsafe { libc::close(fd) };
}

/// fstat(2).
pub(super) fn look_at(fd: RawFd) -> Result<libc::stat, Errno> {
    nix::sys::stat::fstat(
        // SAFETY: fstat(2) takes any number, and answers EBADF for one that is not open; the borrow ends with it.
        unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) },
    )
}

pub(super) fn is_of(status: &libc::stat, key: Key) -> bool {
    is_regular(status) && Key(status.st_dev, status.st_ino) == key
}

/// Whether the descriptor is open and this file's.
pub(super) fn is_still(fd: RawFd, key: Key) -> bool {
    look_at(fd).is_ok_and(|status| is_of(&status, key))
}

/// Whether the descriptor is closed or another file's. Not when the system does not say: then it is still ours, with
/// the locks that were taken through it.
pub(super) fn is_lost(fd: RawFd, key: Key) -> bool {
    match look_at(fd) {
        Ok(status) => !is_of(&status, key),
        Err(error) => error == Errno::EBADF,
    }
}

pub(super) fn is_regular(status: &libc::stat) -> bool {
    status.st_mode & libc::S_IFMT == libc::S_IFREG
}

/// In a forked child: really closes every descriptor from the parent, whose locks it would keep otherwise.
/// A new process has no POSIX locks that this could drop (fork(2)).
pub(crate) fn close_inherited_descriptors() {
    let mut files = match FILES.try_lock() {
        Ok(files) => files,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        // Forked by a signal handler in the middle of the above: see `identity::check`.
        Err(TryLockError::WouldBlock) => return,
    };
    for (key, opened) in std::mem::take(&mut files.opened) {
        opened.descriptors.iter().filter(|d| is_still(d.fd, key)).for_each(|d| close(d.fd));
    }
    std::mem::take(&mut files.unknown).into_iter().for_each(|(fd, _)| close(fd));
    files.used.clear();
}
