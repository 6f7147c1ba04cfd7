//! The table as the operations see it.

use super::schema::Jobs;
use super::{listing, order, statements};
use crate::core::engine::Table;
use crate::core::error::{Answer, Error};
use crate::core::job::{Condition, Job, Lease};

impl Table for Jobs<'_> {
    fn enqueue(&self, id: &str, not_before: f64) -> Answer<()> {
        statements::enqueue(self, id, not_before)
    }

    fn state(&self, id: &str) -> Answer<Job> {
        statements::state(self, id)
    }

    fn claim(&self, id: &str, owner: &str, now: f64, until: f64) -> Answer<i64> {
        statements::claim(self, id, owner, now, until)
    }

    fn claim_next(&self, owner: &str, now: f64, until: f64, max: usize) -> Answer<Vec<Lease>> {
        order::claim(self, owner, now, until, max)
    }

    fn renew(&self, id: &str, owner: &str, fence: i64, now: f64, until: f64) -> Answer<()> {
        statements::renew(self, id, owner, fence, now, until)
    }

    fn complete(&self, id: &str, owner: &str, fence: i64, now: f64, result: Option<&str>) -> Answer<()> {
        statements::complete(self, id, owner, fence, now, result)
    }

    fn release(&self, id: &str, owner: &str, fence: i64, not_before: f64) -> Answer<()> {
        statements::release(self, id, owner, fence, not_before)
    }

    fn force_release(&self, id: &str) -> Answer<i64> {
        statements::force_release(self, id)
    }

    fn requeue(&self, id: &str) -> Answer<()> {
        statements::requeue(self, id)
    }

    fn purge(&self, before: f64, max: usize) -> Result<u64, Error> {
        statements::purge(self, before, max)
    }

    fn raise_floor(&self, to: i64) -> Result<(), Error> {
        statements::raise_floor(self, to)
    }

    fn count(&self, condition: Condition, now: f64) -> Result<u64, Error> {
        listing::count(self, condition, now)
    }

    fn list(
        &self,
        condition: Condition,
        now: f64,
        after: Option<&str>,
        max: usize,
    ) -> Result<Vec<Job>, Error> {
        listing::list(self, condition, now, after, max)
    }
}
