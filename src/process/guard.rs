//! Who may be inside SQLite: nobody while the process forks.
//!
//! Whoever waits for its turn, or sleeps until another process gives up the file's lock, is outside, so that a fork
//! waits for transactions only.
//!
//! The state is under one mutex, held for a few instructions at a time, so that a fork can hold it and know the state in
//! the child.

use std::cell::Cell;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

struct State {
    inside: usize,
    forks: usize,
}

static STATE: Mutex<State> = Mutex::new(State { inside: 0, forks: 0 });
/// Told when the last caller comes out while a fork waits.
static ALL_OUT: Condvar = Condvar::new();
/// Told when a fork is over.
static FORK_OVER: Condvar = Condvar::new();

thread_local! {
    static HERE: Cell<bool> = const { Cell::new(false) };
}

fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The right to call SQLite, until dropped. A fork waits for it to end.
pub(crate) struct ForkGuard {
    _not_send: std::marker::PhantomData<*const ()>,
}

impl ForkGuard {
    /// Waits while a fork is under way. A thread is never inside twice.
    pub(crate) fn enter() -> ForkGuard {
        let mut state = lock();
        while state.forks > 0 {
            state = FORK_OVER.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.inside += 1;
        HERE.set(true);
        ForkGuard { _not_send: std::marker::PhantomData }
    }
}

impl Drop for ForkGuard {
    fn drop(&mut self) {
        HERE.set(false);
        let mut state = lock();
        state.inside -= 1;
        if state.inside == 0 && state.forks > 0 {
            ALL_OUT.notify_all();
        }
    }
}

/// Whether a fork waits for callers to come out.
pub(crate) fn fork_waits() -> bool {
    lock().forks > 0
}

/// Everyone is out and stays out, until [`Quiesced::resume`] or [`Quiesced::begin_anew`].
pub(crate) struct Quiesced(MutexGuard<'static, State>);

impl Quiesced {
    /// Waits until everyone is out, one transaction at most. `None` on a thread that is inside itself.
    pub(crate) fn wait() -> Option<Quiesced> {
        if HERE.get() {
            return None;
        }
        let mut state = lock();
        state.forks += 1;
        while state.inside > 0 {
            state = ALL_OUT.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Some(Quiesced(state))
    }

    /// Lets everyone go on, in the parent.
    pub(crate) fn resume(mut self) {
        self.0.forks -= 1;
        FORK_OVER.notify_all();
    }

    /// Forgets the parent's other threads, in the child, where they are not.
    pub(crate) fn begin_anew(mut self) {
        self.0.forks = 0;
    }
}

/// Sleeps for a time, however many signals come.
///
/// Not `thread::sleep`: after each signal it asks for the rest anew, and the kernel adds the timer's slack (50
/// microseconds) to that rest each time. Ruby sends one signal after the other to a thread that is wanted back
/// (for a trap handler, Timeout, Thread#kill), and would keep it asleep for ever. A condition variable waits
/// for a fixed point in time.
pub(crate) fn sleep(time: Duration) {
    let (mutex, nobody) = (Mutex::new(()), Condvar::new());
    drop(nobody.wait_timeout(mutex.lock().unwrap_or_else(PoisonError::into_inner), time));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_is_inside_cannot_quiesce() {
        let guard = ForkGuard::enter();
        assert!(Quiesced::wait().is_none());
        drop(guard);
        Quiesced::wait().unwrap().resume();
    }
}
