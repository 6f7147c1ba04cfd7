//! The C ABI: pointers in, status out, nothing decided. The comments here are the header's.
//!
//! Every function borrows its arguments, hands them to [`crate::Db`], and turns the answer into a status, in
//! `convert::call`. No panic leaves it.

#![allow(unsafe_code)]
#![allow(non_camel_case_types)]
// The header's comments say what C callers must keep to; a second section for Rust would leak into it.
#![allow(clippy::missing_safety_doc)]

mod convert;
mod handle;
mod jobs;
mod load;
mod operator;
mod query;
mod status;
mod types;

pub use handle::*;
pub use jobs::*;
pub use operator::*;
pub use query::*;
pub use status::*;
pub use types::*;
