//! What an engine must offer: the place where jobs are stored, and its transactions.

use std::time::Instant;

use super::error::{Answer, Error};
use super::job::{Condition, Job, Lease};

/// What can be done to the jobs in the transaction that is running. The rules of [`super::rules`] hold for each; a refusal
/// changes nothing. The arguments were checked.
pub(crate) trait Table {
    /// Adds a job that is not to be claimed before a time; 0 for one that can be claimed at once.
    fn enqueue(&self, id: &str, not_before: f64) -> Answer<()>;
    fn state(&self, id: &str) -> Answer<Job>;
    fn claim(&self, id: &str, owner: &str, now: f64, until: f64) -> Answer<i64>;
    /// Claims up to `max` jobs, those that come next.
    fn claim_next(&self, owner: &str, now: f64, until: f64, max: usize) -> Answer<Vec<Lease>>;
    fn renew(&self, id: &str, owner: &str, fence: i64, now: f64, until: f64) -> Answer<()>;
    fn complete(&self, id: &str, owner: &str, fence: i64, now: f64, result: Option<&str>) -> Answer<()>;
    /// Gives the job back, not to be claimed before a time; 0 for at once.
    fn release(&self, id: &str, owner: &str, fence: i64, not_before: f64) -> Answer<()>;
    /// Ends the lease or delay of a job, whoever has it, under a fence that is nobody's.
    fn force_release(&self, id: &str) -> Answer<i64>;
    /// Puts a complete job back into the line. Its fence stays.
    fn requeue(&self, id: &str) -> Answer<()>;
    /// Removes up to `max` complete jobs whose `until` is not after `before`, and raises the floor to their fences.
    fn purge(&self, before: f64, max: usize) -> Result<u64, Error>;
    /// Sees to it that every later fence is above `to`, and ends the leases under fences up to it.
    fn raise_floor(&self, to: i64) -> Result<(), Error>;
    fn count(&self, condition: Condition, now: f64) -> Result<u64, Error>;
    /// Up to `max` jobs, in the order of their ids, from the first one after `after` on.
    fn list(
        &self,
        condition: Condition,
        now: f64,
        after: Option<&str>,
        max: usize,
    ) -> Result<Vec<Job>, Error>;
}

/// An operation that changes jobs: its arguments, checked, and what it does.
pub(crate) trait Change: Send + 'static {
    type Value: Send + 'static;

    /// Whether it needs the floor, which a table that another program has made may lack.
    const NEEDS_FLOOR: bool = false;

    /// Does it. May be called again from the start when its transaction had to be undone for another's sake.
    fn apply(&self, table: &dyn Table) -> Answer<Self::Value>;
}

/// An operation that only looks at jobs.
pub(crate) trait Look {
    type Value;

    fn look(&self, table: &dyn Table) -> Answer<Self::Value>;
}

pub(crate) trait Engine {
    /// Makes the table where it is missing.
    fn init(&self) -> Result<(), Error>;

    /// Until when a call that begins now may wait: one that makes several changes has one deadline for them.
    fn deadline(&self) -> Result<Instant, Error>;

    /// Makes a change in a transaction, and stores it when the answer is a value; not before that outlives what the
    /// durability promises.
    fn write<C: Change>(&self, change: C, deadline: Instant) -> Answer<C::Value>;

    /// Looks, in a read transaction.
    fn read<L: Look>(&self, look: &L) -> Answer<L::Value>;
}
