//! What operators do.

use super::{check_max, invalid, text};
use crate::core::engine::{Change, Table};
use crate::core::error::{Answer, Error};

pub(crate) struct ForceRelease {
    id: String,
}

impl ForceRelease {
    pub(crate) fn new(id: &str) -> Result<ForceRelease, Error> {
        Ok(ForceRelease { id: text("id", id)? })
    }
}

impl Change for ForceRelease {
    type Value = i64;

    fn apply(&self, table: &dyn Table) -> Answer<i64> {
        table.force_release(&self.id)
    }
}

pub(crate) struct Requeue {
    id: String,
}

impl Requeue {
    pub(crate) fn new(id: &str) -> Result<Requeue, Error> {
        Ok(Requeue { id: text("id", id)? })
    }
}

impl Change for Requeue {
    type Value = ();

    fn apply(&self, table: &dyn Table) -> Answer<()> {
        table.requeue(&self.id)
    }
}

pub(crate) struct Purge {
    before: f64,
    max: usize,
}

impl Purge {
    pub(crate) fn new(before: f64, max: usize) -> Result<Purge, Error> {
        if before.is_nan() || before == f64::NEG_INFINITY {
            return Err(invalid(format!(
                "before is {before}; it must be a number of seconds, or infinity for all"
            )));
        }
        Ok(Purge { before, max: check_max(max)? })
    }
}

impl Change for Purge {
    type Value = u64;

    const NEEDS_FLOOR: bool = true;

    fn apply(&self, table: &dyn Table) -> Answer<u64> {
        table.purge(self.before, self.max).map(Ok)
    }
}

pub(crate) struct RaiseFloor {
    to: i64,
}

impl RaiseFloor {
    pub(crate) fn new(to: i64) -> Result<RaiseFloor, Error> {
        if (0..i64::MAX).contains(&to) {
            return Ok(RaiseFloor { to });
        }
        Err(invalid(format!(
            "to is {to}; it must be at least 0, and leave a fence above it (at most {})",
            i64::MAX - 1
        )))
    }
}

impl Change for RaiseFloor {
    type Value = ();

    const NEEDS_FLOOR: bool = true;

    fn apply(&self, table: &dyn Table) -> Answer<()> {
        table.raise_floor(self.to).map(Ok)
    }
}
