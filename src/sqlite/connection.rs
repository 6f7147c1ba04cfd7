//! One connection to a file: its turns, its reopening after a fork or a fault, and the retry while another
//! program has the file locked.

use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::file::{File, Identity};
use super::schema::{self, Found, Jobs};
use super::{neighbour, statements};
use crate::db::Durability;
use crate::error::{Answer, Error, ErrorKind};
use crate::fork;
use crate::turn::{self, Inside, Lane, Turn};

/// How long to sleep between tries while the file is locked: first, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(10));

/// A timeout that the clock cannot add is cut here.
const LONGEST: Duration = Duration::from_secs(1 << 31);

/// An open connection and what it knows of the file's schema.
pub(super) struct Session {
    pub(super) sql: Connection,
    /// The schema version at which the table `jobs` was last found to be ours, and whether it has row numbers.
    checked: Cell<Option<(i64, bool)>>,
    /// The -wal and the -shm file, as they were after the last transaction.
    side_files: Cell<[Option<Identity>; 2]>,
}

impl Session {
    /// Opens the file. With `create` it is made when it is missing.
    pub(super) fn open(file: &File, writable: bool, create: bool) -> Result<Session, Error> {
        let mut flags = OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        flags |= if writable { OpenFlags::SQLITE_OPEN_READ_WRITE } else { OpenFlags::SQLITE_OPEN_READ_ONLY };
        if create {
            flags |= OpenFlags::SQLITE_OPEN_CREATE;
        }
        let sql = Connection::open_with_flags(&file.path, flags)?;
        sql.set_prepared_statement_cache_capacity(statements::COUNT);
        // Waiting is done by `Link::run`, outside, so that a fork need not wait for it.
        sql.busy_timeout(Duration::ZERO)?;
        // EXTRA is FULL in WAL mode; in the rollback modes it also syncs the folder after the journal is
        // deleted, without which a power cut can bring the journal back and undo the newest transaction
        // (https://www.sqlite.org/pragma.html#pragma_synchronous).
        let synchronous = match file.options.durability {
            Durability::Full => "EXTRA",
            Durability::Normal => "NORMAL",
        };
        sql.pragma_update(None, "synchronous", synchronous)?;
        sql.pragma_update(None, "trusted_schema", false)?;
        sql.pragma_update(None, "temp_store", "MEMORY")?;
        if writable && sql.is_readonly("main")? {
            return Err(Error::new(
                ErrorKind::ReadOnly,
                "this user may not write the file; give it the right, or open it READ_ONLY",
            ));
        }
        Ok(Session { sql, checked: Cell::new(None), side_files: Cell::new([None; 2]) })
    }

    /// In a transaction: the table `jobs`, which is ours as of this transaction.
    pub(super) fn jobs(&self) -> Result<Jobs<'_>, Error> {
        let version = schema::version(&self.sql)?;
        let rowid = match self.checked.get() {
            Some((checked, rowid)) if checked == version => rowid,
            _ => match schema::look(&self.sql)? {
                Found::Missing => return Err(schema::missing()),
                Found::Ours { rowid } => rowid,
            },
        };
        self.checked.set(Some((version, rowid)));
        Ok(Jobs { sql: &self.sql, rowid })
    }

    /// After a transaction: whether the side files are still those of before. While a connection is open no program
    /// that uses SQLite removes them; who does it by hand splits those who have the file open from those who come.
    fn has_its_side_files(&self, file: &File) -> bool {
        let now = file.side_files();
        let before = self.side_files.replace(now);
        before.iter().zip(&now).all(|(before, now)| before.is_none() || before == now)
    }

    pub(super) fn execute(&self, sql: &str) -> Result<(), Error> {
        self.sql.prepare_cached(sql)?.execute([])?;
        Ok(())
    }

    /// Ends the transaction, if there is one, without storing it. When even that fails, SQLite has either
    /// ended it already, or the connection is given up (see `Link::attempt`).
    pub(super) fn roll_back(&self) {
        if !self.sql.is_autocommit() {
            let _ = self.execute("ROLLBACK");
        }
    }

    /// Closes without a checkpoint, and so without unlinking the -wal: after a fault the file is better left
    /// to the next one that opens it, and before a fork others may be at work on it.
    fn close_as_it_is(self) {
        let _ = self.sql.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    }
}

type Slot = Mutex<Option<Session>>;

/// The slots of all live links. Used only inside, so it is free whenever the process forks.
static SLOTS: Mutex<Vec<Weak<Slot>>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Before a fork, with everyone outside: closes every connection. Each link opens anew on its next call.
pub(crate) fn close_all_connections() {
    for slot in lock(&SLOTS).iter().filter_map(Weak::upgrade) {
        if let Some(session) = lock(&slot).take() {
            session.close_as_it_is();
        }
    }
}

/// A way to the file: one connection, used by one caller at a time.
pub(super) struct Link {
    file: Arc<File>,
    identity: Identity,
    lane: Lane,
    connect: Connect,
    slot: Arc<Slot>,
}

/// Opens and prepares a connection; with `true` it may make the file.
pub(super) type Connect = fn(&File, bool) -> Result<Session, Error>;

impl Link {
    /// Opens the file for the first time, and so decides which file it is from now on.
    pub(super) fn open(
        file: &Arc<File>,
        lane: impl Fn(Identity) -> Lane,
        connect: Connect,
    ) -> Result<Link, Error> {
        let create = !file.options.open_existing && !file.options.read_only;
        retry(file, deadline(file), || {
            let inside = Inside::enter();
            let session = connect(file, create)?;
            // Taken between the opening and the look whether it is still the one that was opened.
            let identity = file.identity();
            match identity {
                Some(identity) if !neighbour::has_moved(&session.sql) => {
                    Ok(Link::new(&inside, file, identity, lane(identity), connect, Some(session)))
                }
                _ => Err(moved()),
            }
        })
    }

    /// Another way to the file of this identity, opened on its first use.
    pub(super) fn later(file: &Arc<File>, identity: Identity, lane: Lane, connect: Connect) -> Link {
        Link::new(&Inside::enter(), file, identity, lane, connect, None)
    }

    /// Inside, because no fork may come between a session's opening and its place in a slot.
    fn new(
        _inside: &Inside,
        file: &Arc<File>,
        identity: Identity,
        lane: Lane,
        connect: Connect,
        session: Option<Session>,
    ) -> Link {
        let slot = Arc::new(Mutex::new(session));
        let mut slots = lock(&SLOTS);
        slots.retain(|other| other.strong_count() > 0);
        slots.push(Arc::downgrade(&slot));
        Link { file: Arc::clone(file), identity, lane, connect, slot }
    }

    pub(super) fn identity(&self) -> Identity {
        self.identity
    }

    /// Until when a call that begins now may wait.
    pub(super) fn deadline(&self) -> Instant {
        deadline(&self.file)
    }

    /// Waits for this link's turn, then runs `work` with the connection, again while it answers BUSY and the
    /// deadline is not over. `work` leaves no transaction open and may be run any number of times.
    pub(super) fn run<T>(
        &self,
        deadline: Instant,
        mut work: impl FnMut(&Session, Instant) -> Answer<T>,
    ) -> Answer<T> {
        fork::check()?;
        let _turn = Turn::take(self.lane, deadline).ok_or_else(|| {
            self.file.error(ErrorKind::Busy, "other threads of this process kept it in use; try again")
        })?;
        retry(&self.file, deadline, || self.attempt(&mut work, deadline))
    }

    fn attempt<T>(
        &self,
        work: &mut impl FnMut(&Session, Instant) -> Answer<T>,
        deadline: Instant,
    ) -> Answer<T> {
        let _inside = Inside::enter();
        let mut slot = lock(&self.slot);
        // A panic in an earlier call may have left its transaction.
        if let Some(broken) = slot.take_if(|session| !session.sql.is_autocommit()) {
            broken.close_as_it_is();
        }
        // Before: SQLite would make side files beside whatever is at the path now. After the transaction: an
        // answer stands only if the file was still in its place then.
        let answer = self.in_place().and_then(|()| match &*slot {
            Some(session) => work(session, deadline),
            None => self.reopen().and_then(|session| work(slot.insert(session), deadline)),
        });
        let answer = self.in_place().and(answer);
        let answer = match &*slot {
            Some(session) if !session.has_its_side_files(&self.file) => Err(side_files_lost()),
            _ => answer,
        };
        if let Err(error) = &answer
            && is_fault(error.kind())
            && let Some(session) = slot.take()
        {
            session.close_as_it_is();
        }
        answer
    }

    /// That the path still leads to the file that was opened.
    fn in_place(&self) -> Result<(), Error> {
        if self.file.identity() == Some(self.identity) { Ok(()) } else { Err(moved()) }
    }

    fn reopen(&self) -> Result<Session, Error> {
        let session = (self.connect)(&self.file, false)?;
        if neighbour::has_moved(&session.sql) { Err(moved()) } else { Ok(session) }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if fork::crossed() {
            // The connection is the parent's: neither used nor closed here.
            std::mem::forget(Arc::clone(&self.slot));
            return;
        }
        let _inside = Inside::enter();
        drop(lock(&self.slot).take());
    }
}

/// After these the connection may be in a state of its own; a new one is not.
fn is_fault(kind: ErrorKind) -> bool {
    match kind {
        ErrorKind::CannotOpen
        | ErrorKind::NotADatabase
        | ErrorKind::Corrupt
        | ErrorKind::Io
        | ErrorKind::Full
        | ErrorKind::OutOfMemory
        | ErrorKind::Internal => true,
        ErrorKind::InvalidArgument
        | ErrorKind::Busy
        | ErrorKind::Schema
        | ErrorKind::ReadOnly
        | ErrorKind::FenceExhausted
        | ErrorKind::Unsupported => false,
    }
}

fn moved() -> Error {
    Error::new(
        ErrorKind::Io,
        "the file was deleted, moved or replaced while it was open; close this handle and open it again",
    )
}

fn side_files_lost() -> Error {
    Error::new(
        ErrorKind::Io,
        "its -wal or -shm file was deleted or replaced while it was open, and with it perhaps what was stored last; \
         look with state, and never remove these files while a program has the database open",
    )
}

/// Until when a call that begins now may wait.
fn deadline(file: &File) -> Instant {
    let now = Instant::now();
    now.checked_add(file.options.busy_timeout).unwrap_or(now + LONGEST)
}

/// Tries until the answer is another than BUSY or the deadline is over. Sleeps outside.
fn retry<T>(
    file: &File,
    deadline: Instant,
    mut attempt: impl FnMut() -> Result<T, Error>,
) -> Result<T, Error> {
    let mut pause = PAUSE.0;
    loop {
        let answer = attempt();
        let left = deadline.saturating_duration_since(Instant::now());
        match answer {
            Err(error) if error.kind() == ErrorKind::Busy && !left.is_zero() => {
                turn::sleep(pause.min(left));
                pause = (pause * 2).min(PAUSE.1);
            }
            Err(error) => return Err(explained(file, error)),
            Ok(value) => return Ok(value),
        }
    }
}

/// Adds to an error which file it is about.
fn explained(file: &File, error: Error) -> Error {
    let for_lack_of_rights =
        error.kind() == ErrorKind::CannotOpen && !file.options.read_only && !file.folder_is_writable();
    let (kind, more) = if for_lack_of_rights {
        (ErrorKind::ReadOnly, " (this user may not make files in the folder, as SQLite must)")
    } else {
        (error.kind(), "")
    };
    file.error(kind, format!("{}{more}", error.message())).with_sqlite_code(error.sqlite_code())
}
