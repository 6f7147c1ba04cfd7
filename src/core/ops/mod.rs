//! The operations as values: the arguments of each, their checks, and what it does to the table.

mod claim;
mod enqueue;
mod lease;
mod look;
mod operator;

pub(crate) use claim::{Claim, ClaimNext};
pub(crate) use enqueue::{Enqueue, EnqueueMany};
pub(crate) use lease::{Complete, CompleteAndClaimNext, Release, Renew};
pub(crate) use look::{Count, List, State};
pub(crate) use operator::{ForceRelease, Purge, RaiseFloor, Requeue};

use super::error::{Error, ErrorKind};

/// The longest id, owner or result, in bytes: 16 MiB.
pub const MAX_TEXT: usize = 16 << 20;

/// When a lease that begins at `now` is over.
pub(crate) fn lease_end(now: f64, ttl: f64) -> Result<f64, Error> {
    check_time("now", now)?;
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

fn check_time(name: &str, time: f64) -> Result<f64, Error> {
    if time.is_finite() {
        Ok(time)
    } else {
        Err(invalid(format!("{name} is {time}; it must be a finite number of seconds")))
    }
}

fn check_max(max: usize) -> Result<usize, Error> {
    if max > 0 { Ok(max) } else { Err(invalid("max is 0; it must be at least 1".to_owned())) }
}

pub(crate) fn check_text<'a>(name: &str, text: &'a str) -> Result<&'a str, Error> {
    let why = if text.len() > MAX_TEXT {
        format!("is longer than {MAX_TEXT} bytes; shorten it")
    } else if text.contains('\0') {
        "has an inner NUL, which C callers could not read".to_owned()
    } else {
        return Ok(text);
    };
    Err(invalid(format!("{name} {why}")))
}

/// A text of the caller's, checked, to keep.
fn text(name: &str, text: &str) -> Result<String, Error> {
    check_text(name, text).map(str::to_owned)
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}
