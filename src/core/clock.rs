//! The system clock, for callers with none of their own.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970-01-01 00:00 UTC by the system's clock.
///
/// Safety never rests on it: a clock that jumps can end a lease early or late, and can never let a stale
/// write in.
#[must_use]
pub fn now() -> f64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_secs_f64(),
        Err(before) => -before.duration().as_secs_f64(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn now_is_a_present_day_number_of_seconds() {
        assert!(super::now() > 1.7e9);
    }
}
