//! Lanes: what one caller of this process at a time may use, first come first served.
//!
//! All of them are under one mutex, held for a few instructions at a time, so that a fork can hold it and the child can
//! forget the callers that it does not have.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What one caller at a time may use: a reading connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Lane(u64);

#[derive(Default)]
struct Queue {
    taken: bool,
    waiting: VecDeque<Arc<Condvar>>,
}

#[derive(Default)]
struct Lanes {
    queues: BTreeMap<Lane, Queue>,
    given: u64,
}

static LANES: Mutex<Lanes> = Mutex::new(Lanes { queues: BTreeMap::new(), given: 0 });

fn lock() -> MutexGuard<'static, Lanes> {
    LANES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A lane that nobody else has.
pub(crate) fn new_lane() -> Lane {
    let mut lanes = lock();
    lanes.given += 1;
    Lane(lanes.given)
}

/// The right to use the lane, until dropped.
pub(crate) struct Place {
    lane: Lane,
}

impl Place {
    /// Waits for the lane, in the order of the calls; `None` when the deadline passes first.
    pub(crate) fn take(lane: Lane, deadline: Instant) -> Option<Place> {
        let mut lanes = lock();
        let queue = lanes.queues.entry(lane).or_default();
        if !queue.taken {
            queue.taken = true;
            return Some(Place { lane });
        }
        let called = Arc::new(Condvar::new());
        queue.waiting.push_back(Arc::clone(&called));
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            lanes = called.wait_timeout(lanes, left).unwrap_or_else(PoisonError::into_inner).0;
            // The one before us takes us out of the queue to say that the lane is ours.
            let Some(queue) = lanes.queues.get_mut(&lane) else { return Some(Place { lane }) };
            let Some(place) = queue.waiting.iter().position(|other| Arc::ptr_eq(other, &called)) else {
                return Some(Place { lane });
            };
            if Instant::now() >= deadline {
                queue.waiting.remove(place);
                return None;
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut lanes = lock();
        let Some(queue) = lanes.queues.get_mut(&self.lane) else { return };
        match queue.waiting.pop_front() {
            Some(next) => next.notify_one(),
            None => {
                lanes.queues.remove(&self.lane);
            }
        }
    }
}

/// Keeps everyone from queueing, for a fork.
pub(crate) struct Closed(MutexGuard<'static, Lanes>);

pub(crate) fn close() -> Closed {
    Closed(lock())
}

impl Closed {
    /// Forgets the parent's other threads, in the child, where they are not.
    pub(crate) fn begin_anew(&mut self) {
        self.0.queues.clear();
    }
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
        let place = Place::take(lane, soon()).unwrap();
        assert!(Place::take(lane, Instant::now()).is_none());
        drop(place);
        assert!(Place::take(lane, Instant::now()).is_some());
    }

    #[test]
    fn places_come_in_the_order_of_the_calls() {
        let lane = new_lane();
        let first = Place::take(lane, soon()).unwrap();
        let (send, receive) = mpsc::channel();
        std::thread::scope(|scope| {
            for number in 0..5 {
                let send = send.clone();
                scope.spawn(move || {
                    let _place = Place::take(lane, soon()).unwrap();
                    send.send(number).unwrap();
                });
                while lock().queues[&lane].waiting.len() <= number {
                    std::thread::yield_now();
                }
            }
            drop(first);
        });
        assert_eq!(receive.try_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert!(!lock().queues.contains_key(&lane));
    }
}
