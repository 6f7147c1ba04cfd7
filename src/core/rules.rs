//! What an operation may do to a job: the rules once, as pure functions.
//!
//! The SQL in [`crate::sqlite`] carries the same rules in its WHERE clauses. It decides; these functions say
//! why it refused, and a property test holds the two together.

use super::error::{Refusal, Refused};
#[cfg(test)]
use super::job::Condition;
use super::job::Job;

/// Why a job gets no new fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoFence {
    Refused(Refusal),
    Exhausted,
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

/// The fence that a claim is granted: above the job's last one, and above the file's floor.
pub(crate) fn claim(job: Option<&Job>, floor: i64, now: f64) -> Result<i64, NoFence> {
    match job {
        Some(Job { done: false, until, .. }) if *until > now => Err(NoFence::Refused(Refusal::Held)),
        _ => force_release(job, floor),
    }
}

/// The fence under which a job is nobody's after a forced release.
pub(crate) fn force_release(job: Option<&Job>, floor: i64) -> Result<i64, NoFence> {
    let job = unfinished(job).map_err(NoFence::Refused)?;
    job.fence.max(floor).checked_add(1).ok_or(NoFence::Exhausted)
}

/// Whether the job is complete and may go back into the line.
pub(crate) fn requeue(job: Option<&Job>) -> Result<(), Refusal> {
    match unfinished(job) {
        Err(Refusal::Done) => Ok(()),
        Err(refusal) => Err(refusal),
        Ok(_) => Err(Refusal::Exists),
    }
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

/// The refusal with what it is about: the job of this id, as far as it is known.
pub(crate) fn refused(reason: Refusal, id: &str, job: Option<&Job>) -> Refused {
    let id = shown(id);
    let by = |job: &Job| job.owner.as_deref().map_or("nobody".to_owned(), shown);
    let message = match (reason, job) {
        (Refusal::Exists, None) => format!("there is a job {id} already; it was left as it is"),
        (Refusal::Exists, Some(_)) => format!("job {id} is not complete; it was left as it is"),
        (Refusal::NotFound, _) => format!("there is no job {id}"),
        (Refusal::Held, Some(job @ Job { owner: Some(_), .. })) => {
            format!("job {id} is held by {} until {}; claim it again then", by(job), time(job.until))
        }
        (Refusal::Held, Some(job)) => format!("job {id} is not to be claimed before {}", time(job.until)),
        (Refusal::Done, Some(job)) => {
            format!("job {id} is complete, by {} under fence {}", by(job), job.fence)
        }
        (Refusal::Stale, Some(job)) => format!(
            "job {id} is held by {} under fence {}, not by this owner and fence; stop working on it",
            by(job),
            job.fence
        ),
        (Refusal::Expired, Some(job)) => format!(
            "the lease of {} on job {id} under fence {} was over at {}; claim it again before going on",
            by(job),
            job.fence,
            time(job.until)
        ),
        (reason, None) => format!("job {id}: {reason:?}"),
    };
    Refused::new(reason, message)
}

/// An id or owner for a message: quoted, and not too long.
pub(crate) fn shown(text: &str) -> String {
    let cut = text.floor_char_boundary(80);
    format!("{:?}{}", &text[..cut], if cut < text.len() { "..." } else { "" })
}

/// A time for a message, in few digits.
pub(crate) fn time(seconds: f64) -> String {
    if seconds.abs() < 1e15 { format!("{seconds}") } else { format!("{seconds:e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(owner: Option<&str>, done: bool) -> Job {
        Job { id: "a".into(), owner: owner.map(str::to_owned), until: 110.5, fence: 2, result: None, done }
    }

    #[test]
    fn a_refusal_names_the_job_and_what_stands_in_the_way() {
        let (held, free, done) = (job(Some("w"), false), job(None, false), job(Some("w"), true));
        for (reason, job, message) in [
            (Refusal::Exists, None, "there is a job \"a\" already; it was left as it is"),
            (Refusal::Exists, Some(&held), "job \"a\" is not complete; it was left as it is"),
            (Refusal::NotFound, None, "there is no job \"a\""),
            (Refusal::Held, Some(&held), "job \"a\" is held by \"w\" until 110.5; claim it again then"),
            (Refusal::Held, Some(&free), "job \"a\" is not to be claimed before 110.5"),
            (Refusal::Done, Some(&done), "job \"a\" is complete, by \"w\" under fence 2"),
            (
                Refusal::Stale,
                Some(&held),
                "job \"a\" is held by \"w\" under fence 2, not by this owner and fence; stop working on it",
            ),
            (
                Refusal::Stale,
                Some(&free),
                "job \"a\" is held by nobody under fence 2, not by this owner and fence; stop working on it",
            ),
            (
                Refusal::Expired,
                Some(&held),
                "the lease of \"w\" on job \"a\" under fence 2 was over at 110.5; claim it again before going on",
            ),
        ] {
            assert_eq!(refused(reason, "a", job).message(), message);
        }
    }

    #[test]
    fn a_message_stays_short_whatever_is_in_it() {
        let long = "가".repeat(400);
        let job = Job { owner: Some(long.clone()), until: 1e300, ..job(None, false) };
        let message = refused(Refusal::Held, &long, Some(&job)).message().to_owned();
        assert!(message.len() < 496 && message.ends_with("until 1e300; claim it again then"), "{message}");
    }
}
