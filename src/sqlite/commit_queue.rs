//! The callers that want to write one file: one of them leads, runs what all have asked for in one transaction, and
//! gives each its own answer. One sync to the disk then serves all of them.
//!
//! A caller that finds nobody leading leads at once, and no other thread has a part in its call.
//!
//! All queues are under one mutex, held for a few instructions at a time, so that a fork can hold that one mutex
//! (see [`super::fork`]) and the child can forget the callers that it does not have.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::connection::Session;
use super::path::Identity;
use crate::core::error::{Answer, Error, ErrorKind};

/// What a caller wants done.
pub(super) trait Work: Send {
    /// Does it in the transaction that is running, and keeps the answer. May be called again after that transaction
    /// was undone.
    fn run(&mut self, session: &Session) -> Ran;

    /// Makes this the answer.
    fn fail(&mut self, error: &Error);
}

/// How a change went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ran {
    Done,
    Refused,
    Failed(ErrorKind),
}

/// A change and its answer.
pub(super) struct Request<T, F> {
    change: F,
    answer: Option<Answer<T>>,
}

impl<T, F> Request<T, F> {
    pub(super) fn new(change: F) -> Request<T, F> {
        Request { change, answer: None }
    }

    pub(super) fn into_answer(self) -> Answer<T> {
        self.answer.unwrap_or_else(|| Err(left_out()))
    }

    pub(super) fn take_answer(&mut self) -> Answer<T> {
        self.answer.take().unwrap_or_else(|| Err(left_out()))
    }
}

impl<T: Send, F: FnMut(&Session) -> Answer<T> + Send> Work for Request<T, F> {
    fn run(&mut self, session: &Session) -> Ran {
        match self.answer.insert((self.change)(session)) {
            Ok(Ok(_)) => Ran::Done,
            Ok(Err(_)) => Ran::Refused,
            Err(error) => Ran::Failed(error.kind()),
        }
    }

    fn fail(&mut self, error: &Error) {
        self.answer = Some(Err(error.clone()));
    }
}

fn left_out() -> Error {
    Error::new(ErrorKind::Internal, "the call ended without an answer; please report it")
}

/// What becomes of a caller that waits.
const WAITS: u8 = 0;
/// It is to lead now.
const LEADS: u8 = 1;
/// A leader has taken its change.
const TAKEN: u8 = 2;
/// It has its answer.
const OVER: u8 = 3;

/// A caller that waits, and what it wants.
pub(super) struct Ticket<C: ?Sized> {
    told: Condvar,
    /// Changed only under the mutex of the queues.
    fate: AtomicU8,
    /// Whether it is to have a transaction of its own, because one that it was in had to be undone.
    alone: AtomicBool,
    /// Whether its answer is to outlive a power cut.
    pub(super) durable: bool,
    change: Mutex<C>,
}

impl<C> Ticket<C> {
    pub(super) fn new(change: C, durable: bool) -> Arc<Ticket<C>> {
        Arc::new(Ticket {
            told: Condvar::new(),
            fate: AtomicU8::new(WAITS),
            alone: AtomicBool::new(false),
            durable,
            change: Mutex::new(change),
        })
    }
}

impl Ticket<dyn Work> {
    /// One that no leader takes: its caller wants to lead, and nothing else.
    pub(super) fn nothing() -> Waiting {
        let ticket = Ticket::new(Request::new(|_: &Session| Ok(Ok(()))), false);
        ticket.alone.store(true, Ordering::Relaxed);
        ticket
    }
}

impl<C: ?Sized> Ticket<C> {
    pub(super) fn change(&self) -> MutexGuard<'_, C> {
        self.change.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_alone(&self) -> bool {
        self.alone.load(Ordering::Relaxed)
    }
}

impl<T, F> Ticket<Request<T, F>> {
    pub(super) fn take_answer(&self) -> Answer<T> {
        self.change().take_answer()
    }
}

pub(super) type Waiting = Arc<Ticket<dyn Work>>;

/// The files that have a leader, and who waits behind it.
type Queues = BTreeMap<Identity, VecDeque<Waiting>>;

static QUEUES: Mutex<Queues> = Mutex::new(BTreeMap::new());

fn queues() -> MutexGuard<'static, Queues> {
    QUEUES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps everyone from queueing, for a fork.
pub(crate) struct Closed(MutexGuard<'static, Queues>);

pub(crate) fn close() -> Closed {
    Closed(queues())
}

impl Closed {
    /// Forgets the parent's other threads, in the child, where they are not.
    pub(crate) fn begin_anew(&mut self) {
        for ticket in std::mem::take(&mut *self.0).into_values().flatten() {
            // Its other owner is on the stack of a thread that is not here, and will never let it go.
            std::mem::forget(ticket);
        }
    }
}

/// How many callers wait behind the leader; `None` when there is none.
#[cfg(test)]
pub(super) fn waiting(file: Identity) -> Option<usize> {
    queues().get(&file).map(VecDeque::len)
}

/// How the waiting ended.
pub(super) enum Waited {
    /// This caller leads now.
    ToLead(Lead),
    /// A leader has answered.
    Answered,
    /// The deadline has passed, and nothing was done.
    TooLate,
}

/// Waits behind the leader, if there is one.
pub(super) fn wait(file: Identity, ticket: &Waiting, deadline: Instant) -> Waited {
    let mut queues = queues();
    match queues.get_mut(&file) {
        None => {
            queues.insert(file, VecDeque::new());
            return Waited::ToLead(Lead { file });
        }
        Some(queue) => queue.push_back(Arc::clone(ticket)),
    }
    loop {
        match ticket.fate.load(Ordering::Relaxed) {
            LEADS => return Waited::ToLead(Lead { file }),
            OVER => return Waited::Answered,
            // It cannot be taken back.
            TAKEN => queues = ticket.told.wait(queues).unwrap_or_else(PoisonError::into_inner),
            _ => {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    if let Some(queue) = queues.get_mut(&file) {
                        queue.retain(|other| !Arc::ptr_eq(other, ticket));
                    }
                    return Waited::TooLate;
                }
                queues = ticket.told.wait_timeout(queues, left).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

/// The right to write the file for all in this process, until dropped.
pub(super) struct Lead {
    file: Identity,
}

impl Lead {
    /// Leads, unless somebody does.
    pub(super) fn take(file: Identity) -> Option<Lead> {
        let mut queues = queues();
        if queues.contains_key(&file) {
            return None;
        }
        queues.insert(file, VecDeque::new());
        Some(Lead { file })
    }

    /// Takes those that wait, up to the first that is to have a transaction of its own.
    pub(super) fn gather(&self, members: &mut Members) {
        let mut queues = queues();
        let Some(queue) = queues.get_mut(&self.file) else { return };
        let until = queue.iter().position(|ticket| ticket.is_alone()).unwrap_or(queue.len());
        for ticket in queue.drain(..until) {
            ticket.fate.store(TAKEN, Ordering::Relaxed);
            members.0.push(ticket);
        }
    }

    /// Gives back those whose transaction was undone: each is to have one of its own, in the order in which they came.
    pub(super) fn give_back(&self, members: &mut Members) {
        let mut queues = queues();
        let queue = queues.entry(self.file).or_default();
        while let Some(ticket) = members.0.pop() {
            ticket.alone.store(true, Ordering::Relaxed);
            ticket.fate.store(WAITS, Ordering::Relaxed);
            // Its deadline may have passed meanwhile.
            ticket.told.notify_one();
            queue.push_front(ticket);
        }
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        let mut queues = queues();
        let Some(queue) = queues.get_mut(&self.file) else { return };
        match queue.pop_front() {
            Some(next) => {
                next.fate.store(LEADS, Ordering::Relaxed);
                next.told.notify_one();
            }
            None => {
                queues.remove(&self.file);
            }
        }
    }
}

/// Those whose changes a leader runs beside its own. Whatever happens to it, each gets an answer.
#[derive(Default)]
pub(super) struct Members(Vec<Waiting>);

impl Members {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.0.iter()
    }

    /// Makes this the answer of all of them.
    pub(super) fn fail(&self, error: &Error) {
        self.0.iter().for_each(|ticket| ticket.change().fail(error));
    }

    /// Lets them go with the answers that they have.
    pub(super) fn answer(&mut self) {
        if self.0.is_empty() {
            return;
        }
        let queues = queues();
        self.0.iter().for_each(|ticket| ticket.fate.store(OVER, Ordering::Relaxed));
        drop(queues);
        // With the mutex held, those that are woken would only wait for it.
        self.0.drain(..).for_each(|ticket| ticket.told.notify_one());
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        // Left over only when the leader has panicked.
        if !self.0.is_empty() {
            self.fail(&Error::new(
                ErrorKind::Internal,
                "a fault of fencepost in another thread's call, please report it",
            ));
            self.answer();
        }
    }
}
