//! Forks: no SQLite state crosses one.
//!
//! SQLite's connections must not be used or closed in a child
//! (<https://www.sqlite.org/howtocorrupt.html>, section 2.6), and open-file-description locks are shared with
//! it (fcntl_locking(2)): a child that outlives a killed parent would keep the parent's lock. So before a
//! fork every transaction ends and every connection is closed; the child then closes the descriptors that
//! it inherited, before anything else; and both open anew on their next call.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Error, ErrorKind};
use crate::sqlite::{close_all_connections, neighbour};
use crate::turn::Standstill;

/// The process whose SQLite state this is; 0 before there is any.
static OWNER: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// From before the fork until after it, on the thread that forks.
    static STANDSTILL: RefCell<Option<Standstill>> = const { RefCell::new(None) };
}

/// To be called before any file is opened.
pub(crate) fn begin() -> Result<(), Error> {
    // Long done, unless a linker has dropped what runs at load.
    neighbour::register_fork_handlers();
    let _ = OWNER.compare_exchange(0, std::process::id(), Ordering::Relaxed, Ordering::Relaxed);
    check()
}

/// Refuses to go on in a child that was made behind the handlers' back: it has SQLite state that is not its
/// own, which can be neither used nor closed.
pub(crate) fn check() -> Result<(), Error> {
    if crossed() {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "this process was forked by a bare clone(2) or from a signal handler, with fencepost's files open; \
             use fork(3), or exec first",
        ));
    }
    Ok(())
}

/// Whether this process has the SQLite state of another.
pub(crate) fn crossed() -> bool {
    let owner = OWNER.load(Ordering::Relaxed);
    owner != 0 && owner != std::process::id()
}

pub(crate) fn prepare() {
    // `try_with`: a thread may fork while it ends, when its locals are gone.
    let _ = STANDSTILL.try_with(|held| {
        let standstill = if crossed() { None } else { Standstill::wait() };
        if standstill.is_some() {
            close_all_connections();
        }
        *held.borrow_mut() = standstill;
    });
}

pub(crate) fn parent() {
    let _ = STANDSTILL.try_with(|held| held.borrow_mut().take().map(Standstill::resume));
}

pub(crate) fn child() {
    // First of all: until then a lock of the parent's would be ours as well.
    neighbour::close_inherited_descriptors();
    // Without a standstill there may be connections left that belong to the parent, and `check` says so.
    let _ = STANDSTILL.try_with(|held| {
        if let Some(standstill) = held.borrow_mut().take() {
            if OWNER.load(Ordering::Relaxed) != 0 {
                OWNER.store(std::process::id(), Ordering::Relaxed);
            }
            standstill.begin_anew();
        }
    });
}
