//! A job, and what can be said of it.

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
    /// Whether the job is complete.
    pub done: bool,
}

/// A lease that was granted: the job, and the fence under which its claimer holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
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
