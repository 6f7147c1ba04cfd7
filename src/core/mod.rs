//! What fencepost is about, whatever stores it: jobs, the rules of their leases, refusals and errors. Pure.

pub(crate) mod clock;
pub(crate) mod engine;
pub(crate) mod error;
pub(crate) mod job;
pub(crate) mod ops;
pub(crate) mod options;
pub(crate) mod rules;
