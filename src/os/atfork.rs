//! Functions that every fork(3) calls.

use std::sync::atomic::{AtomicBool, Ordering};

/// What is to be done before a fork, and after it in the parent and in the child.
pub(crate) trait Handlers {
    fn prepare();
    fn parent();
    fn child();
}

/// Arranges, once a process, that every fork(3) calls the handlers.
pub(crate) fn register<H: Handlers>() {
    static DONE: AtomicBool = AtomicBool::new(false);
    extern "C" fn prepare<H: Handlers>() {
        handle(H::prepare);
    }
    extern "C" fn parent<H: Handlers>() {
        handle(H::parent);
    }
    extern "C" fn child<H: Handlers>() {
        handle(H::child);
    }
    fn handle(handler: fn()) {
        // A panic must not unwind into the C library; the handlers have nothing to report it to.
        let _ = std::panic::catch_unwind(handler);
    }
    if !DONE.swap(true, Ordering::Relaxed) {
        // SAFETY: the functions never unwind and stay loaded (the library is linked nodelete).
        unsafe { libc::pthread_atfork(Some(prepare::<H>), Some(parent::<H>), Some(child::<H>)) };
    }
}
