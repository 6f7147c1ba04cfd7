//! The page of memory that the processes that use a database share: its layout, and its mapping.

use std::ffi::c_void;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};

/// What the processes that use a database tell each other: the bytes of a file that all of them map. What each word
/// means stands in [`crate::sqlite::shared_page`]. Words that are not named are 0, for later versions.
#[repr(C, align(64))]
#[cfg_attr(test, derive(Default))]
pub(crate) struct Page {
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
    pub(crate) grants: [NotedLease; 2],
}

/// A grant, for [`Page`].
#[repr(C, align(64))]
pub(crate) struct NotedLease {
    pub(crate) write: AtomicU32,
    pub(crate) length: AtomicU32,
    pub(crate) fence: AtomicI64,
    pub(crate) highest_fence: AtomicI64,
    pub(crate) checksum: AtomicU64,
    pub(crate) id: [AtomicU64; 116],
}

#[cfg(test)]
impl Default for NotedLease {
    fn default() -> NotedLease {
        NotedLease {
            write: AtomicU32::new(0),
            length: AtomicU32::new(0),
            fence: AtomicI64::new(0),
            highest_fence: AtomicI64::new(0),
            checksum: AtomicU64::new(0),
            id: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

/// A mapping of a [`Page`].
pub(crate) struct Mapping(NonNull<Page>);

/// How much of the file is mapped, and so how long it must be.
pub(crate) const PAGE_SIZE: usize = 4096;
const _: () = assert!(size_of::<Page>() <= PAGE_SIZE);

// SAFETY: a mapping belongs to no thread, and a Page holds atomics alone.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the file, which must have PAGE_SIZE bytes; without `writable` nothing may be stored there.
    pub(crate) fn map(file: &std::fs::File, writable: bool) -> std::io::Result<Mapping> {
        use std::os::fd::AsRawFd;
        let rights = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: a new mapping at an address of the kernel's choice, of a descriptor that is open; whatever the
        // arguments are, mmap(2) touches no memory of ours.
        let address = unsafe {
            libc::mmap(std::ptr::null_mut(), PAGE_SIZE, rights, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        match NonNull::new(address.cast::<Page>()) {
            Some(board) if address != libc::MAP_FAILED => Ok(Mapping(board)),
            _ => Err(std::io::Error::last_os_error()),
        }
    }
}

impl Deref for Mapping {
    type Target = Page;

    fn deref(&self) -> &Page {
        // SAFETY: the mapping is page-aligned, at least as large as a Page, and lives as long as `self`; other
        // processes change it through atomics alone, and any bytes are a Page. (Who cuts the file short kills the
        // processes that use it, as with SQLite's own -shm.)
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping of `map`, which nothing borrows any more.
        unsafe { libc::munmap(self.0.as_ptr().cast::<c_void>(), PAGE_SIZE) };
    }
}
