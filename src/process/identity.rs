//! Whose state this is: that of this process, or, in a child that was made behind the fork handlers' back, of another.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::core::error::{Error, ErrorKind};

/// The process whose SQLite state this is; 0 before there is any.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// To be called before any file is opened.
pub(crate) fn begin() -> Result<(), Error> {
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

/// In a forked child: the state is its own from now on.
pub(crate) fn take_over() {
    if OWNER.load(Ordering::Relaxed) != 0 {
        OWNER.store(std::process::id(), Ordering::Relaxed);
    }
}
