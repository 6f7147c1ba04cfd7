//! Claiming jobs.

use super::{check_max, lease_end, text};
use crate::core::engine::{Change, Table};
use crate::core::error::{Answer, Error};
use crate::core::job::Lease;

pub(crate) struct Claim {
    id: String,
    owner: String,
    now: f64,
    until: f64,
}

impl Claim {
    pub(crate) fn new(id: &str, owner: &str, now: f64, ttl: f64) -> Result<Claim, Error> {
        Ok(Claim { id: text("id", id)?, owner: text("owner", owner)?, now, until: lease_end(now, ttl)? })
    }
}

impl Change for Claim {
    type Value = i64;

    fn apply(&self, table: &dyn Table) -> Answer<i64> {
        table.claim(&self.id, &self.owner, self.now, self.until)
    }
}

pub(crate) struct ClaimNext {
    owner: String,
    now: f64,
    until: f64,
    max: usize,
}

impl ClaimNext {
    pub(crate) fn new(owner: &str, now: f64, ttl: f64, max: usize) -> Result<ClaimNext, Error> {
        Ok(ClaimNext { owner: text("owner", owner)?, now, until: lease_end(now, ttl)?, max: check_max(max)? })
    }
}

impl Change for ClaimNext {
    type Value = Vec<Lease>;

    fn apply(&self, table: &dyn Table) -> Answer<Vec<Lease>> {
        table.claim_next(&self.owner, self.now, self.until, self.max)
    }
}
