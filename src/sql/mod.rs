//! SQL on a connection that is lent: the table `jobs`, what each operation does to it, and nothing else.
//!
//! | module | what it holds |
//! |---|---|
//! | `schema` | the table `jobs`: made, and its shape checked |
//! | `sound` | which rows can be read as jobs |
//! | `statements` | the SQL of each operation on one job |
//! | `order` | which job comes next |
//! | `table` | what the operations see of all that |
//! | `listing` | jobs by condition, for people who look |

pub(crate) mod listing;
pub(crate) mod order;
pub(crate) mod schema;
pub(crate) mod sound;
pub(crate) mod statements;
mod table;
