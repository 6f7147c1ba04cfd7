//! What an operation may do to a job: the rules once, as pure functions.
//!
//! The SQL in [`crate::sqlite`] carries the same rules in its WHERE clauses. It decides; these functions say
//! why it refused, and a property test holds the two together.

use crate::error::{Error, ErrorKind, Refusal};

/// One row of the table `jobs`.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The job's id.
    pub id: String,
    /// Who holds or last held the job; `None` when nobody has since it was made or released.
    pub owner: Option<String>,
    /// When the lease is over, in seconds of the callers' clock; at `now == until` it is over.
    pub until: f64,
    /// The newest fence that was granted; 0 when none was.
    pub fence: i64,
    /// The result, if the job has one.
    pub result: Option<String>,
    /// Whether the job is complete, which is final.
    pub done: bool,
}

/// A job that was granted to its claimer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The job's id.
    pub id: String,
    /// The fence that renew, complete and release ask for.
    pub fence: i64,
}

/// What can be said of a row at one moment; each row is in exactly one of these. Later versions may add some.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Anyone can claim it.
    Claimable,
    /// A lease on it is running.
    Held,
    /// Nobody holds it, and it is not to be claimed: not yet, or never again when its fence is the largest there is.
    Delayed,
    /// It is complete.
    Done,
    /// No job at all: another program has stored in its row what cannot be read as one.
    Broken,
}

/// Why a claim does not get the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoClaim {
    Refused(Refusal),
    FenceExhausted,
}

/// When a lease that begins at `now` is over.
pub(crate) fn lease_end(now: f64, ttl: f64) -> Result<f64, Error> {
    check_now(now)?;
    if !ttl.is_finite() || ttl <= 0.0 {
        return Err(invalid(format!("ttl is {ttl}; it must be a finite number of seconds above 0")));
    }
    let until = now + ttl;
    if !until.is_finite() || until <= now {
        return Err(invalid(format!(
            "now + ttl is {until}, which is not after now ({now}); the lease would be over at once"
        )));
    }
    Ok(until)
}

pub(crate) fn check_now(now: f64) -> Result<(), Error> {
    if now.is_finite() {
        Ok(())
    } else {
        Err(invalid(format!("now is {now}; it must be a finite number of seconds")))
    }
}

pub(crate) fn check_not_before(not_before: f64) -> Result<(), Error> {
    if not_before.is_finite() {
        Ok(())
    } else {
        Err(invalid(format!("not_before is {not_before}; it must be a finite number of seconds")))
    }
}

pub(crate) fn check_max(max: usize) -> Result<(), Error> {
    if max > 0 { Ok(()) } else { Err(invalid("max is 0; it must be at least 1".to_owned())) }
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

/// The job's condition. A row that is broken cannot be a [`Job`].
#[cfg(test)]
pub(crate) fn condition(job: &Job, now: f64) -> Condition {
    match job {
        Job { done: true, .. } => Condition::Done,
        Job { until, fence: i64::MAX, .. } if *until <= now => Condition::Delayed,
        Job { until, .. } if *until <= now => Condition::Claimable,
        Job { owner: Some(_), .. } => Condition::Held,
        Job { owner: None, .. } => Condition::Delayed,
    }
}

/// Where a claimable job stands in the line: the lowest is claimed next. Leases that ran out and delays that
/// are over come first, those before that are over the longest; then what was never delayed, in the order of
/// the rows. So no stream of new jobs keeps the others waiting. A job that is claimed gets an `until` ahead of
/// all of them, and one that is released gets a place behind the last row, so no job that always fails keeps the
/// others waiting either.
#[cfg(test)]
pub(crate) fn place(job: &Job, row: i64) -> (bool, f64, i64) {
    (job.until <= 0.0, job.until, row)
}

/// The fence that a claim is granted.
pub(crate) fn claim(job: Option<&Job>, now: f64) -> Result<i64, NoClaim> {
    let job = unfinished(job).map_err(NoClaim::Refused)?;
    if job.until > now {
        return Err(NoClaim::Refused(Refusal::Held));
    }
    job.fence.checked_add(1).ok_or(NoClaim::FenceExhausted)
}

/// Whether owner and fence hold the job and may renew or complete it.
pub(crate) fn hold(job: Option<&Job>, owner: &str, fence: i64, now: f64) -> Result<(), Refusal> {
    let job = own(job, owner, fence)?;
    if job.until > now { Ok(()) } else { Err(Refusal::Expired) }
}

/// Whether owner and fence are the job's current ones, its lease over or not, and may release it.
pub(crate) fn release(job: Option<&Job>, owner: &str, fence: i64) -> Result<(), Refusal> {
    own(job, owner, fence).map(|_| ())
}

fn own<'a>(job: Option<&'a Job>, owner: &str, fence: i64) -> Result<&'a Job, Refusal> {
    let job = unfinished(job)?;
    if job.owner.as_deref() == Some(owner) && job.fence == fence { Ok(job) } else { Err(Refusal::Stale) }
}

fn unfinished(job: Option<&Job>) -> Result<&Job, Refusal> {
    match job {
        None => Err(Refusal::NotFound),
        Some(job) if job.done => Err(Refusal::Done),
        Some(job) => Ok(job),
    }
}
