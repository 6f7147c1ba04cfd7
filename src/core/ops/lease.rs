//! What the one that holds a lease does with it.

use super::{check_time, lease_end, text};
use crate::core::engine::{Change, Table};
use crate::core::error::{Answer, Error};
use crate::core::job::Lease;

pub(crate) struct Renew {
    id: String,
    owner: String,
    fence: i64,
    now: f64,
    until: f64,
}

impl Renew {
    pub(crate) fn new(id: &str, owner: &str, fence: i64, now: f64, ttl: f64) -> Result<Renew, Error> {
        Ok(Renew {
            id: text("id", id)?,
            owner: text("owner", owner)?,
            fence,
            now,
            until: lease_end(now, ttl)?,
        })
    }
}

impl Change for Renew {
    type Value = ();

    fn apply(&self, table: &dyn Table) -> Answer<()> {
        table.renew(&self.id, &self.owner, self.fence, self.now, self.until)
    }
}

pub(crate) struct Complete {
    id: String,
    owner: String,
    fence: i64,
    now: f64,
    result: Option<String>,
}

impl Complete {
    pub(crate) fn new(
        id: &str,
        owner: &str,
        fence: i64,
        now: f64,
        result: Option<&str>,
    ) -> Result<Complete, Error> {
        Ok(Complete {
            id: text("id", id)?,
            owner: text("owner", owner)?,
            fence,
            result: result.map(|result| text("result", result)).transpose()?,
            now: check_time("now", now)?,
        })
    }
}

impl Change for Complete {
    type Value = ();

    fn apply(&self, table: &dyn Table) -> Answer<()> {
        table.complete(&self.id, &self.owner, self.fence, self.now, self.result.as_deref())
    }
}

pub(crate) struct CompleteAndClaimNext {
    complete: Complete,
    until: f64,
}

impl CompleteAndClaimNext {
    pub(crate) fn new(complete: Complete, ttl: f64) -> Result<CompleteAndClaimNext, Error> {
        let until = lease_end(complete.now, ttl)?;
        Ok(CompleteAndClaimNext { complete, until })
    }
}

impl Change for CompleteAndClaimNext {
    type Value = Option<Lease>;

    fn apply(&self, table: &dyn Table) -> Answer<Option<Lease>> {
        if let Err(refused) = self.complete.apply(table)? {
            return Ok(Err(refused));
        }
        let next = table.claim_next(&self.complete.owner, self.complete.now, self.until, 1)?;
        Ok(Ok(next.ok().map(|mut leases| leases.remove(0))))
    }
}

pub(crate) struct Release {
    id: String,
    owner: String,
    fence: i64,
    not_before: f64,
}

impl Release {
    pub(crate) fn new(id: &str, owner: &str, fence: i64, not_before: f64) -> Result<Release, Error> {
        Ok(Release {
            id: text("id", id)?,
            owner: text("owner", owner)?,
            fence,
            not_before: check_time("not_before", not_before)?,
        })
    }
}

impl Change for Release {
    type Value = ();

    fn apply(&self, table: &dyn Table) -> Answer<()> {
        table.release(&self.id, &self.owner, self.fence, self.not_before)
    }
}
