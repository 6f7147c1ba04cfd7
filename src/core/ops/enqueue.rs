//! Adding jobs.

use super::{check_time, text};
use crate::core::engine::{Change, Table};
use crate::core::error::{Answer, Error, Refusal, Refused};

pub(crate) struct Enqueue {
    id: String,
    not_before: f64,
}

impl Enqueue {
    pub(crate) fn new(id: &str, not_before: f64) -> Result<Enqueue, Error> {
        Ok(Enqueue { id: text("id", id)?, not_before: check_time("not_before", not_before)? })
    }
}

impl Change for Enqueue {
    type Value = ();

    fn apply(&self, table: &dyn Table) -> Answer<()> {
        table.enqueue(&self.id, self.not_before)
    }
}

pub(crate) struct EnqueueMany {
    ids: Vec<String>,
}

impl EnqueueMany {
    pub(crate) fn new(ids: &[&str]) -> Result<EnqueueMany, Error> {
        Ok(EnqueueMany { ids: ids.iter().map(|id| text("ids", id)).collect::<Result<_, _>>()? })
    }
}

impl Change for EnqueueMany {
    type Value = Vec<bool>;

    fn apply(&self, table: &dyn Table) -> Answer<Vec<bool>> {
        let mut added = Vec::with_capacity(self.ids.len());
        for id in &self.ids {
            added.push(table.enqueue(id, 0.0)?.is_ok());
        }
        if added.is_empty() || added.contains(&true) {
            return Ok(Ok(added));
        }
        Ok(Err(Refused::new(Refusal::Exists, "all of these jobs exist already; they were left as they are")))
    }
}
