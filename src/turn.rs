//! Who may be inside SQLite: nobody while the process forks, and in each reading lane one caller at a time, first
//! come first served. (Who writes waits in the queues of [`crate::sqlite::group`].)
//!
//! A caller first takes its [`Turn`], then is let [`Inside`] for one try at a transaction. The two
//! are apart so that a fork waits for transactions only: whoever waits for a turn, or sleeps until another
//! process gives up the file's lock, is outside.
//!
//! All of it is under one mutex, held for a few instructions at a time, so that a fork can hold that one
//! mutex and know the state of everything in the child.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::sqlite::group;

/// What one caller at a time may use: a reading connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Lane(u64);

#[derive(Default)]
struct Queue {
    taken: bool,
    waiting: VecDeque<Arc<Condvar>>,
}

struct State {
    lanes: BTreeMap<Lane, Queue>,
    inside: usize,
    forks: usize,
    given: u64,
}

static STATE: Mutex<State> = Mutex::new(State { lanes: BTreeMap::new(), inside: 0, forks: 0, given: 0 });
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

/// A lane that nobody else has.
pub(crate) fn new_lane() -> Lane {
    let mut state = lock();
    state.given += 1;
    Lane(state.given)
}

/// The right to the lane, until dropped.
pub(crate) struct Turn {
    lane: Lane,
}

impl Turn {
    /// Waits for the lane, in the order of the calls; `None` when the deadline passes first.
    pub(crate) fn take(lane: Lane, deadline: Instant) -> Option<Turn> {
        let mut state = lock();
        let queue = state.lanes.entry(lane).or_default();
        if !queue.taken {
            queue.taken = true;
            return Some(Turn { lane });
        }
        let called = Arc::new(Condvar::new());
        queue.waiting.push_back(Arc::clone(&called));
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            state = called.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            // The one before us takes us out of the queue to say that the lane is ours.
            let Some(queue) = state.lanes.get_mut(&lane) else { return Some(Turn { lane }) };
            let Some(place) = queue.waiting.iter().position(|other| Arc::ptr_eq(other, &called)) else {
                return Some(Turn { lane });
            };
            if Instant::now() >= deadline {
                queue.waiting.remove(place);
                return None;
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = lock();
        let Some(queue) = state.lanes.get_mut(&self.lane) else { return };
        match queue.waiting.pop_front() {
            Some(next) => next.notify_one(),
            None => {
                state.lanes.remove(&self.lane);
            }
        }
    }
}

/// The right to call SQLite, until dropped. A fork waits for it to end.
pub(crate) struct Inside {
    _not_send: std::marker::PhantomData<*const ()>,
}

impl Inside {
    /// Waits while a fork is under way. A thread is never inside twice.
    pub(crate) fn enter() -> Inside {
        let mut state = lock();
        while state.forks > 0 {
            state = FORK_OVER.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.inside += 1;
        HERE.set(true);
        Inside { _not_send: std::marker::PhantomData }
    }
}

impl Drop for Inside {
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

/// Everyone is out and stays out, until [`Standstill::resume`] or [`Standstill::begin_anew`].
pub(crate) struct Standstill(MutexGuard<'static, State>, group::Closed);

impl Standstill {
    /// Waits until everyone is out, one transaction at most. `None` on a thread that is inside itself.
    pub(crate) fn wait() -> Option<Standstill> {
        if HERE.get() {
            return None;
        }
        let mut state = lock();
        state.forks += 1;
        while state.inside > 0 {
            state = ALL_OUT.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Some(Standstill(state, group::close()))
    }

    /// Lets everyone go on, in the parent.
    pub(crate) fn resume(mut self) {
        self.0.forks -= 1;
        FORK_OVER.notify_all();
    }

    /// Forgets the parent's other threads, in the child, where they are not.
    pub(crate) fn begin_anew(mut self) {
        self.0.forks = 0;
        self.0.lanes.clear();
        self.1.begin_anew();
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
    use std::sync::mpsc;
    use std::time::Duration;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn a_lane_is_one_callers_and_a_deadline_in_the_past_does_not_wait() {
        let lane = new_lane();
        let turn = Turn::take(lane, soon()).unwrap();
        assert!(Turn::take(lane, Instant::now()).is_none());
        drop(turn);
        assert!(Turn::take(lane, Instant::now()).is_some());
    }

    #[test]
    fn turns_come_in_the_order_of_the_calls() {
        let lane = new_lane();
        let first = Turn::take(lane, soon()).unwrap();
        let (send, receive) = mpsc::channel();
        std::thread::scope(|scope| {
            for number in 0..5 {
                let send = send.clone();
                scope.spawn(move || {
                    let _turn = Turn::take(lane, soon()).unwrap();
                    send.send(number).unwrap();
                });
                while lock().lanes[&lane].waiting.len() <= number {
                    std::thread::yield_now();
                }
            }
            drop(first);
        });
        assert_eq!(receive.try_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert!(!lock().lanes.contains_key(&lane));
    }

    #[test]
    fn a_thread_that_is_inside_gets_no_standstill() {
        let inside = Inside::enter();
        assert!(Standstill::wait().is_none());
        drop(inside);
        Standstill::wait().unwrap().resume();
    }
}
