//! Looking at jobs.

use super::{check_max, check_text, check_time};
use crate::core::engine::{Look, Table};
use crate::core::error::{Answer, Error};
use crate::core::job::{Condition, Job};

pub(crate) struct State<'a> {
    id: &'a str,
}

impl<'a> State<'a> {
    pub(crate) fn new(id: &'a str) -> Result<State<'a>, Error> {
        Ok(State { id: check_text("id", id)? })
    }
}

impl Look for State<'_> {
    type Value = Job;

    fn look(&self, table: &dyn Table) -> Answer<Job> {
        table.state(self.id)
    }
}

pub(crate) struct Count {
    condition: Condition,
    now: f64,
}

impl Count {
    pub(crate) fn new(condition: Condition, now: f64) -> Result<Count, Error> {
        Ok(Count { condition, now: check_time("now", now)? })
    }
}

impl Look for Count {
    type Value = u64;

    fn look(&self, table: &dyn Table) -> Answer<u64> {
        table.count(self.condition, self.now).map(Ok)
    }
}

pub(crate) struct List<'a> {
    condition: Condition,
    now: f64,
    after: Option<&'a str>,
    max: usize,
}

impl<'a> List<'a> {
    pub(crate) fn new(
        condition: Condition,
        now: f64,
        after: Option<&'a str>,
        max: usize,
    ) -> Result<List<'a>, Error> {
        Ok(List {
            condition,
            now: check_time("now", now)?,
            after: after.map(|after| check_text("after", after)).transpose()?,
            max: check_max(max)?,
        })
    }
}

impl Look for List<'_> {
    type Value = Vec<Job>;

    fn look(&self, table: &dyn Table) -> Answer<Vec<Job>> {
        table.list(self.condition, self.now, self.after, self.max).map(Ok)
    }
}
