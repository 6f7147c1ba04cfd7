//! This process: its forks, its threads, and which of them may do what.
//!
//! | module | what it holds |
//! |---|---|
//! | `guard` | who may be inside SQLite: nobody during a fork |
//! | `identity` | whose state this is, in a child that no handler saw being made |
//! | `lanes` | what one caller at a time may use |
//! | `threads` | threads that take none of the host's signals |

pub(crate) mod guard;
pub(crate) mod identity;
pub(crate) mod lanes;
pub(crate) mod threads;
