//! Threads of the library's own: they take none of the host's signals.

use std::io;
use std::thread::Builder;

use nix::sys::signal::{SigSet, SigmaskHow};

/// Runs `spawn` with all signals blocked, so that the threads that it starts never run a handler of the host's: it
/// would find itself on a thread that the host does not know (pthread_sigmask(3)).
pub(crate) fn without_signals<T>(spawn: impl FnOnce() -> T) -> T {
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK);
    let spawned = spawn();
    if let Ok(before) = before {
        // It was in force a moment ago.
        let _ = before.thread_set_mask();
    }
    spawned
}

/// Starts a thread that nobody waits for.
pub(crate) fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    without_signals(|| Builder::new().name("fencepost".to_owned()).spawn(work)).map(drop)
}
