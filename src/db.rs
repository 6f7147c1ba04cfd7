//! [`Db`]: one method per operation.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::thread;

use crate::core::engine::{Change, Engine};
use crate::core::error::{Answer, Error, ErrorKind, Refused};
use crate::core::job::{Condition, Job, Lease};
use crate::core::ops::{
    Claim, ClaimNext, Complete, CompleteAndClaimNext, Count, Enqueue, EnqueueMany, ForceRelease, List, Purge,
    RaiseFloor, Release, Renew, Requeue, State,
};
use crate::core::options::Options;
use crate::process::threads;
use crate::sqlite::Sqlite;

/// How many threads `claim_many` starts at most.
const MAX_THREADS: usize = 64;

/// An open file. Any number of threads may use it at once, and after a fork it works on in both processes.
///
/// Times are seconds by any clock that does not go back and that all callers of a file share. It should count from 0
/// upwards: a job that nobody holds and nobody has delayed can be claimed from 0 on, and no sooner.
///
/// A program that also uses this build of SQLite itself (through rusqlite) should open its first `Db`
/// before its first other connection, so that all of them take their locks in one way.
pub struct Db {
    engine: Sqlite,
}

impl Db {
    /// Opens the database file at `path`, making an empty one when it is missing.
    ///
    /// # Errors
    ///
    /// Every kind but FenceExhausted; the message says what to do.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Db, Error> {
        Ok(Db { engine: Sqlite::open(path.as_ref(), options)? })
    }

    fn write<C: Change>(&self, change: C) -> Answer<C::Value> {
        self.engine.write(change, self.engine.deadline()?)
    }

    /// Makes the table `jobs` where it is missing.
    ///
    /// # Errors
    ///
    /// Schema when there is a table `jobs` of another shape; ReadOnly; and what the file's state brings.
    pub fn init_db(&self) -> Result<(), Error> {
        self.engine.init()
    }

    /// Adds a job: nobody's, claimable at once, with fence 0. Refused: Exists.
    ///
    /// # Errors
    ///
    /// InvalidArgument, ReadOnly, Schema, Busy, and what the file's state brings; so in all that follow.
    pub fn enqueue(&self, id: &str) -> Answer<()> {
        self.enqueue_at(id, 0.0)
    }

    /// Adds a job that is not claimable before `not_before`, in seconds of the callers' clock. Refused: Exists.
    ///
    /// # Errors
    ///
    /// As [`Db::enqueue`].
    pub fn enqueue_at(&self, id: &str, not_before: f64) -> Answer<()> {
        self.write(Enqueue::new(id, not_before)?)
    }

    /// Adds many jobs at once: all of them that are missing, or none in case of an error. Says of each, in the
    /// order given, whether it was added. Refused when there are ids and all of them exist: Exists.
    ///
    /// # Errors
    ///
    /// As [`Db::enqueue`].
    pub fn enqueue_many(&self, ids: &[&str]) -> Answer<Vec<bool>> {
        self.write(EnqueueMany::new(ids)?)
    }

    /// Reads a job as it is stored now. Refused: NotFound.
    ///
    /// # Errors
    ///
    /// As [`Db::enqueue`].
    pub fn state(&self, id: &str) -> Answer<Job> {
        self.engine.read(&State::new(id)?)
    }

    /// Takes the job until `now + ttl` (seconds), when it is not complete and no lease on it is running, and
    /// gives the new fence. Refused: NotFound, Done, Held.
    ///
    /// # Errors
    ///
    /// As [`Db::enqueue`], and FenceExhausted.
    pub fn claim(&self, id: &str, owner: &str, now: f64, ttl: f64) -> Answer<i64> {
        self.write(Claim::new(id, owner, now, ttl)?)
    }

    /// Makes the lease run until `now + ttl`, when owner and fence hold the job and it is not over. Refused:
    /// NotFound, Done, Stale, Expired.
    ///
    /// # Errors
    ///
    /// As [`Db::enqueue`].
    pub fn renew(&self, id: &str, owner: &str, fence: i64, now: f64, ttl: f64) -> Answer<()> {
        self.write(Renew::new(id, owner, fence, now, ttl)?)
    }

    /// Stores the result and completes the job, when owner and fence hold it and the lease is not over. Refused:
    /// NotFound, Done, Stale, Expired.
    ///
    /// One that is repeated is Done like anybody else's. Whoever died between the commit and the answer asks
    /// [`Db::state`]: the completion was its own when the job is done, and owner and fence are its own.
    ///
    /// # Errors
    ///
    /// As [`Db::enqueue`].
    pub fn complete(&self, id: &str, owner: &str, fence: i64, now: f64, result: Option<&str>) -> Answer<()> {
        self.write(Complete::new(id, owner, fence, now, result)?)
    }

    /// Gives the job back, when owner and fence hold it, its lease over or not. The fence stays. Refused:
    /// NotFound, Done, Stale.
    ///
    /// # Errors
    ///
    /// As [`Db::enqueue`].
    pub fn release(&self, id: &str, owner: &str, fence: i64) -> Answer<()> {
        self.release_at(id, owner, fence, 0.0)
    }

    /// Gives the job back as [`Db::release`] does, not to be claimed before `not_before`, in seconds of the
    /// callers' clock: to try again later. Refused: NotFound, Done, Stale.
    ///
    /// # Errors
    ///
    /// As [`Db::enqueue`].
    pub fn release_at(&self, id: &str, owner: &str, fence: i64, not_before: f64) -> Answer<()> {
        self.write(Release::new(id, owner, fence, not_before)?)
    }

    /// Takes the claimable job that comes next. Leases that ran out and delays that are over come first, those
    /// first that are over the longest; then the jobs that wait, in the order in which they were added or
    /// released. So neither a stream of new jobs nor one that always fails keeps the others waiting. (In a table
    /// WITHOUT ROWID of another program's, those that wait come in the order of their ids.) Refused: NotFound,
    /// when nothing is claimable.
    ///
    /// # Errors
    ///
    /// As [`Db::enqueue`].
    pub fn claim_next(&self, owner: &str, now: f64, ttl: f64) -> Answer<Lease> {
        Ok(self.claim_batch(owner, now, ttl, 1)?.map(|mut leases| leases.remove(0)))
    }

    /// Takes up to `max` claimable jobs at once, those that come next (see [`Db::claim_next`]). Refused:
    /// NotFound, when nothing is claimable.
    ///
    /// # Errors
    ///
    /// As [`Db::enqueue`].
    pub fn claim_batch(&self, owner: &str, now: f64, ttl: f64, max: usize) -> Answer<Vec<Lease>> {
        self.write(ClaimNext::new(owner, now, ttl, max)?)
    }

    /// Completes a job and takes the one that comes next, in one transaction. `None` when it is completed and
    /// nothing is claimable. A refused completion claims nothing. Refused: NotFound, Done, Stale, Expired.
    ///
    /// # Errors
    ///
    /// As [`Db::enqueue`].
    pub fn complete_and_claim_next(
        &self,
        id: &str,
        owner: &str,
        fence: i64,
        now: f64,
        result: Option<&str>,
        ttl: f64,
    ) -> Answer<Option<Lease>> {
        let complete = Complete::new(id, owner, fence, now, result)?;
        self.write(CompleteAndClaimNext::new(complete, ttl)?)
    }

    /// Ends the lease or delay that a job has, whoever holds it, and raises its fence, so that its holder is Stale. The
    /// new fence is granted to nobody: tell it to whatever checks fences outside of the file, and the holder is
    /// refused there too. For operators, and for leases that were granted by a wrong clock. Refused: NotFound, Done.
    ///
    /// # Errors
    ///
    /// As [`Db::claim`].
    pub fn force_release(&self, id: &str) -> Answer<i64> {
        self.write(ForceRelease::new(id)?)
    }

    /// Puts a complete job back into the line, to be done again: as [`Db::release`] does, and its result is gone. The
    /// fence stays, so the next one is higher. For operators. Refused: NotFound; Exists, when it is not complete.
    ///
    /// # Errors
    ///
    /// As [`Db::enqueue`].
    pub fn requeue(&self, id: &str) -> Answer<()> {
        self.write(Requeue::new(id)?)
    }

    /// Removes up to `max` complete jobs whose `until` is not after `before`; all are up to [`f64::INFINITY`]. Answers
    /// how many. (When a job was completed is not stored, but it was before its `until`.) Their ids may be enqueued
    /// again: every fence from then on is above those that were removed. One whose fence is the largest 64-bit number
    /// stays.
    ///
    /// # Errors
    ///
    /// As [`Db::enqueue`].
    pub fn purge(&self, before: f64, max: usize) -> Result<u64, Error> {
        self.write(Purge::new(before, max)?)?.map_err(Refused::unexpected)
    }

    /// From now on every fence that is granted in this file is above `to`, and leases under fences up to `to` are
    /// ended: their holders are Stale. After a backup was restored, with the highest fence that was seen before.
    ///
    /// # Errors
    ///
    /// As [`Db::enqueue`]; `to` must be at least 0 and below [`i64::MAX`].
    pub fn raise_floor(&self, to: i64) -> Result<(), Error> {
        self.write(RaiseFloor::new(to)?)?.map_err(Refused::unexpected)
    }

    /// How many jobs are in this condition at `now`.
    ///
    /// # Errors
    ///
    /// As [`Db::enqueue`].
    pub fn count(&self, condition: Condition, now: f64) -> Result<u64, Error> {
        self.engine.read(&Count::new(condition, now)?)?.map_err(Refused::unexpected)
    }

    /// Up to `max` jobs that are in this condition at `now`, in the order of their ids' bytes, from the first one
    /// after the id `after` on. Give the last id of one page to get the next.
    ///
    /// Of a row that is [`Condition::Broken`] only `id` says something: it is not the row's id but a condition in SQL
    /// that finds the row, such as `id = 'a'`, `id = X'41'` or `_rowid_ = 7`, to be looked at and repaired with.
    ///
    /// # Errors
    ///
    /// As [`Db::enqueue`].
    pub fn list(
        &self,
        condition: Condition,
        now: f64,
        after: Option<&str>,
        max: usize,
    ) -> Result<Vec<Job>, Error> {
        self.engine.read(&List::new(condition, now, after, max)?)?.map_err(Refused::unexpected)
    }

    /// Claims one job for many owners at the same time, a thread each (up to 64 at once). The answers are in
    /// the owners' order; on a free job exactly one of them is a fence. When none is granted, it is refused
    /// as [`Db::claim`] would be.
    ///
    /// # Errors
    ///
    /// As [`Db::claim`], when none is granted.
    pub fn claim_many(&self, id: &str, owners: &[&str], now: f64, ttl: f64) -> Answer<Vec<Option<i64>>> {
        let claims = owners.iter().map(|owner| Claim::new(id, owner, now, ttl));
        let claims = claims.collect::<Result<Vec<_>, _>>()?;
        if claims.is_empty() {
            // The other arguments are checked all the same.
            Claim::new(id, "", now, ttl)?;
            self.engine.deadline()?;
            return Ok(Ok(Vec::new()));
        }
        let deadline = self.engine.deadline()?;
        let answers = all_at_once(claims, |claim| self.engine.write(claim, deadline));

        let granted: Vec<_> = answers
            .iter()
            .map(|answer| answer.as_ref().ok().and_then(|a| a.as_ref().ok().copied()))
            .collect();
        if granted.iter().any(Option::is_some) {
            return Ok(Ok(granted));
        }
        // Nobody was granted. A refusal was read from the row and goes before BUSY, which these threads may have
        // been to each other; any other error goes before both.
        let (mut refused, mut busy) = (None, None);
        for answer in answers {
            match answer {
                Ok(answer) => refused = refused.or(answer.err()),
                Err(error) if error.kind() == ErrorKind::Busy => busy = busy.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        match (refused, busy) {
            (None, Some(busy)) => Err(busy),
            (refused, _) => Ok(refused.map_or(Ok(Vec::new()), Err)),
        }
    }
}

/// Calls `claim` for every owner, each in a thread of its own as far as [`MAX_THREADS`] allows; the threads
/// then take the rest in turn. Owners for whom the system gives no thread are served by this one.
fn all_at_once(claims: Vec<Claim>, claim: impl Fn(Claim) -> Answer<i64> + Sync) -> Vec<Answer<i64>> {
    let own = claims.len().min(MAX_THREADS);
    let claims: Vec<_> = claims.into_iter().map(|claim| Mutex::new(Some(claim))).collect();
    let rest = AtomicUsize::new(own);
    let take = |first: usize| {
        let mut answers = Vec::new();
        let mut index = first;
        while let Some(next) = claims.get(index) {
            if let Some(next) = next.lock().unwrap_or_else(PoisonError::into_inner).take() {
                answers.push((index, claim(next)));
            }
            index = rest.fetch_add(1, Ordering::Relaxed);
        }
        answers
    };
    let gate = RwLock::new(());
    let mut answers = thread::scope(|scope| {
        let closed = gate.write();
        let start = |index| {
            let (gate, take) = (&gate, &take);
            thread::Builder::new()
                .spawn_scoped(scope, move || {
                    drop(gate.read());
                    take(index)
                })
                .ok()
        };
        let started: Vec<_> = threads::without_signals(|| (0..own).map_while(start).collect());
        drop(closed);
        let mut answers: Vec<_> = (started.len()..own).flat_map(take).collect();
        for thread in started {
            answers.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        answers
    });
    answers.sort_unstable_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}
