//! Forks: no SQLite state crosses one.
//!
//! SQLite's connections must not be used or closed in a child
//! (<https://www.sqlite.org/howtocorrupt.html>, section 2.6), and open-file-description locks are shared with
//! it (fcntl_locking(2)): a child that outlives a killed parent would keep the parent's lock. So before a
//! fork every transaction ends and every connection is closed; the child then closes the descriptors that
//! it inherited, before anything else; and both open anew on their next call.

use std::cell::RefCell;

use super::{commit_queue, connection, vfs};
use crate::os::atfork;
use crate::process::guard::Quiesced;
use crate::process::{identity, lanes};

/// Nobody is inside, and nobody queues.
struct Standstill {
    lanes: lanes::Closed,
    queues: commit_queue::Closed,
    quiesced: Quiesced,
}

thread_local! {
    /// From before the fork until after it, on the thread that forks.
    static STANDSTILL: RefCell<Option<Standstill>> = const { RefCell::new(None) };
}

struct Handlers;

/// Arranges, once a process, that forks are handled.
pub(crate) fn register_handlers() {
    atfork::register::<Handlers>();
}

impl atfork::Handlers for Handlers {
    fn prepare() {
        // `try_with`: a thread may fork while it ends, when its locals are gone.
        let _ = STANDSTILL.try_with(|held| {
            let quiesced = if identity::crossed() { None } else { Quiesced::wait() };
            *held.borrow_mut() = quiesced.map(|quiesced| {
                connection::close_all_connections();
                Standstill { lanes: lanes::close(), queues: commit_queue::close(), quiesced }
            });
        });
    }

    fn parent() {
        let _ = STANDSTILL.try_with(|held| {
            if let Some(standstill) = held.borrow_mut().take() {
                drop((standstill.lanes, standstill.queues));
                standstill.quiesced.resume();
            }
        });
    }

    fn child() {
        // First of all: until then a lock of the parent's would be ours as well.
        vfs::close_inherited_descriptors();
        // Without a standstill there may be connections left that belong to the parent, and `identity::check` says so.
        let _ = STANDSTILL.try_with(|held| {
            if let Some(mut standstill) = held.borrow_mut().take() {
                identity::take_over();
                standstill.lanes.begin_anew();
                standstill.queues.begin_anew();
                standstill.quiesced.begin_anew();
            }
        });
    }
}
