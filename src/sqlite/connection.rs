//! One connection to a file: its setting, its reopening after a fork or a fault, and whether the file is still in
//! its place.

use std::cell::{Cell, RefCell};
use std::fs;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, ffi};

use super::path::{File, Identity};
use super::set_back;
use super::shared_page::LazyPage;
use super::sync::sync_failed;
use super::vfs;
use crate::core::error::{Error, ErrorKind};
use crate::core::job::Lease;
use crate::os::errors;
use crate::os::stat::Stamp;
use crate::process::guard::{self, ForkGuard};
use crate::process::identity;
use crate::sql::schema::{self, Found, Jobs};
use crate::sql::{sound, statements};

/// How long ago the last change to a folder must be, in nanoseconds, for the next one to be sure to get another time:
/// before Linux 6.13 files' times go in steps of up to 10 ms.
const STILL: i128 = 100_000_000;

/// A timeout that the clock cannot add is cut here.
const LONGEST: Duration = Duration::from_secs(1 << 31);

/// What was known of the table `jobs` when it was looked at.
#[derive(Clone, Copy)]
struct Checked {
    /// Of the file's content, as long as only this connection changes it.
    data: Option<i32>,
    /// Of the schema.
    version: i64,
    /// Whether the table has row numbers.
    rowid: bool,
    /// Whether there is a floor.
    floor: bool,
    /// Whether the file is known not to have been set back before (see [`super::set_back`]).
    sound: bool,
}

/// How a connection syncs (<https://www.sqlite.org/pragma.html#pragma_synchronous>).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// In WAL mode a commit is not synced: who needs that syncs the log itself. Checkpoints are.
    Normal,
    /// In the rollback modes a commit is synced before it can be seen, and the folder too after the journal is
    /// deleted, without which a power cut can bring the journal back and undo the newest transaction.
    Extra,
}

/// An open connection and what it knows of the file.
pub(super) struct Session {
    pub(super) sql: Connection,
    level: Cell<Level>,
    /// Whether the file is in WAL mode. That cannot change while this connection is open: it holds SQLite's shared
    /// lock on the file then.
    wal: Cell<bool>,
    /// The table `jobs`, when it was last found to be ours.
    checked: Cell<Option<Checked>>,
    /// The side files, as they were after the last transaction.
    side_files: Cell<[Option<Identity>; 3]>,
    /// The folder when the file and its side files were last found in their places, once it has kept still.
    folder: Cell<Option<Stamp>>,
    /// When that was.
    seen: Cell<Option<Instant>>,
    /// The write-ahead log, to sync it. SQLite takes no locks on that file, so it may be opened and closed.
    log: RefCell<Option<Arc<fs::File>>>,
    /// Whether what this connection has found is known to be on the disk. It may have found the work of a program that
    /// was killed before its sync, and that nobody has counted.
    found_synced: Cell<bool>,
    /// The last fence of the transaction that is running.
    granted: RefCell<Option<Lease>>,
    /// Set when a fault may have left the connection in a state of its own.
    broken: Cell<bool>,
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
        // Waiting is done outside, so that a fork need not wait for it.
        sql.busy_timeout(Duration::ZERO)?;
        // One plan a statement, whatever is bound. Otherwise SQLite plans the search for the next job anew each time,
        // because of the partial index (https://www.sqlite.org/queryplanner-ng.html#qpstab).
        sql.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        sql.pragma_update(None, "trusted_schema", false)?;
        sound::install(&sql)?;
        sql.pragma_update(None, "temp_store", "MEMORY")?;
        vfs::keep_side_files(&sql);
        // With whatever limit, the log that is left is cut to nothing; with this one, it is cut at no other time.
        sql.pragma_update(None, "journal_size_limit", i64::MAX)?;
        if writable && sql.is_readonly("main")? {
            return Err(Error::new(
                ErrorKind::ReadOnly,
                "this user may not write the file; give it the right, or open it READ_ONLY",
            )
            .with_sqlite_code(ffi::SQLITE_READONLY));
        }
        let session = Session {
            sql,
            level: Cell::new(Level::Normal),
            wal: Cell::new(false),
            checked: Cell::new(None),
            side_files: Cell::new([None; 3]),
            folder: Cell::new(None),
            seen: Cell::new(None),
            log: RefCell::new(None),
            found_synced: Cell::new(false),
            granted: RefCell::new(None),
            broken: Cell::new(false),
        };
        session.set_level(Level::Extra)?;
        Ok(session)
    }

    fn set_level(&self, level: Level) -> Result<(), Error> {
        let name = match level {
            Level::Normal => "NORMAL",
            Level::Extra => "EXTRA",
        };
        self.sql.pragma_update(None, "synchronous", name)?;
        self.level.set(level);
        Ok(())
    }

    /// Before a transaction that writes: sets how it is synced, `level` in the rollback modes and NORMAL in WAL mode.
    /// Answers whether the file is in WAL mode. (Should another program switch it to WAL just now, then the commit is
    /// synced before it can be seen.)
    pub(super) fn settle(&self, level: Level) -> Result<bool, Error> {
        if !self.wal.get() {
            let mode: String =
                self.sql.prepare_cached("PRAGMA main.journal_mode")?.query_row([], |row| row.get(0))?;
            self.wal.set(mode == "wal");
            let level = if self.wal.get() { Level::Normal } else { level };
            if self.level.get() != level {
                self.set_level(level)?;
            }
        }
        Ok(self.wal.get())
    }

    /// The write-ahead log, to sync it; `None` when there is none.
    pub(super) fn log(&self, file: &File) -> Result<Option<Arc<fs::File>>, Error> {
        let mut log = self.log.borrow_mut();
        if log.is_none() {
            *log = file.open_log()?.map(Arc::new);
        }
        Ok(log.clone())
    }

    /// Our own side file, as it was after the last transaction.
    pub(super) fn page(&self) -> Option<Identity> {
        self.side_files.get()[2]
    }

    /// Whether a commit in a rollback mode is not synced, because no handle asks for that.
    pub(super) fn is_weak(&self) -> bool {
        self.level.get() == Level::Normal
    }

    /// Before the first answer that is to outlive a power cut: syncs what was there when the file was opened. When that
    /// fails no later sync says anything of it, so from then on it counts as a write whose sync has failed.
    pub(super) fn sync_what_was_found(&self, file: &File, shared_page: &LazyPage) -> Result<(), Error> {
        if self.found_synced.get() {
            return Ok(());
        }
        if let Err(error) = file.sync_side_files() {
            if errors::is_want_of_descriptors(&error) {
                return Err(errors::refused("its side files", &error));
            }
            if file.options.read_only {
                return Err(sync_failed(&error));
            }
            let page = shared_page.make(self.page())?;
            // In this order: who sees the write is not to trust a sync.
            page.note_damage();
            page.announce();
        }
        self.found_synced.set(true);
        Ok(())
    }

    /// Has the connection closed after this use.
    pub(super) fn give_up(&self) {
        self.broken.set(true);
    }

    /// In a transaction: the table `jobs`, which is ours as of this transaction.
    pub(super) fn jobs(&self) -> Result<Jobs<'_>, Error> {
        // Nobody else has changed anything since: no need to ask for the schema's version.
        let data = vfs::data_version(&self.sql);
        let checked = match self.checked.get() {
            Some(checked) if data.is_some() && checked.data == data => checked,
            checked => {
                let version = schema::version(&self.sql)?;
                match checked {
                    Some(checked) if checked.version == version => Checked { data, ..checked },
                    _ => match schema::look(&self.sql)? {
                        Found::Missing => return Err(schema::missing()),
                        Found::Ours { rowid, floor } => Checked { data, version, rowid, floor, sound: false },
                    },
                }
            }
        };
        self.checked.set(Some(checked));
        Ok(Jobs::new(&self.sql, checked.rowid, checked.floor))
    }

    /// Whether the file may have been set back since it was last looked at: this connection is new, or the schema's
    /// version is another one, as it is after a backup was restored into the file
    /// (<https://www.sqlite.org/c3ref/backup_finish.html>).
    pub(super) fn may_be_set_back(&self) -> bool {
        self.checked.get().is_some_and(|checked| !checked.sound)
    }

    pub(super) fn is_not_set_back(&self) {
        self.checked.set(self.checked.get().map(|checked| Checked { sound: true, ..checked }));
    }

    /// Keeps the grant that was made last in this transaction; answers the one kept before.
    pub(super) fn keep_granted(&self, lease: Option<Lease>) -> Option<Lease> {
        self.granted.replace(lease)
    }

    /// This connection itself has changed the schema.
    pub(super) fn forget_schema(&self) {
        self.checked.set(None);
    }

    /// After a transaction: whether the side files are still those of before. While a connection is open no program
    /// removes them; who does it by hand splits those who have the file open from those who come.
    fn has_its_side_files(&self, file: &File) -> bool {
        let now = file.side_files();
        let before = self.side_files.replace(now);
        before.iter().zip(&now).all(|(before, now)| before.is_none() || before == now)
    }

    /// Whether no name in the folder was changed since all files were in their places. Not in the rollback modes:
    /// SQLite makes and removes a file for each transaction there.
    fn folder_has_kept_still(&self, stamp: Option<Stamp>) -> bool {
        self.wal.get() && stamp.is_some() && self.folder.get() == stamp
    }

    /// All files were in their places after `stamp` was taken. The next change to the folder is sure to get another
    /// time only when its last one is older than the clock's steps.
    fn note_folder(&self, stamp: Option<Stamp>) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i128);
        self.folder.set(stamp.filter(|stamp| (STILL..1 << 62).contains(&(now - stamp.changed))));
        self.seen.set(Some(Instant::now()));
    }

    /// In WAL mode, when SQLite has all its files open, a look at them a moment ago is as good as one now: before a
    /// transaction it only saves one that would be refused after it.
    fn was_just_in_place(&self) -> bool {
        self.wal.get() && self.seen.get().is_some_and(|seen| seen.elapsed() < Duration::from_millis(1))
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
    pub(super) fn close_as_it_is(self) {
        let _ = self.sql.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    }
}

type Slot = Mutex<Option<Session>>;

/// The slots of all live links, and their files. Used only inside, so it is free whenever the process forks.
static SLOTS: Mutex<Vec<(Identity, Weak<Slot>)>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Before a fork, with everyone outside: closes every connection. Each link opens anew on its next call.
pub(crate) fn close_all_connections() {
    for slot in lock(&SLOTS).iter().filter_map(|(_, slot)| slot.upgrade()) {
        if let Some(session) = lock(&slot).take() {
            session.close_as_it_is();
        }
    }
}

/// Closes the connections to a file that nobody uses just now. SQLite has one -shm for all of a process, and when it
/// could open that to read only, then it stays so until the last of them is closed.
fn close_idle_connections(file: Identity) {
    let slots = lock(&SLOTS);
    for slot in slots.iter().filter(|(other, _)| *other == file).filter_map(|(_, slot)| slot.upgrade()) {
        if let Some(session) = slot.try_lock().ok().and_then(|mut slot| slot.take()) {
            session.close_as_it_is();
        }
    }
}

/// A way to the file: one connection, used by one caller at a time.
pub(super) struct Link {
    pub(super) file: Arc<File>,
    identity: Identity,
    connect: Connect,
    slot: Arc<Slot>,
}

/// Opens and prepares a connection; with `true` it may make the file.
pub(super) type Connect = Arc<dyn Fn(&File, bool) -> Result<Session, Error> + Send + Sync>;

impl Link {
    /// Opens the file for the first time, and so decides which file it is from now on.
    pub(super) fn open(file: &Arc<File>, connect: &Connect) -> Result<Link, Error> {
        let create = !file.options.open_existing && !file.options.read_only;
        retry(deadline(file), || {
            let inside = ForkGuard::enter();
            let session = connect(file, create)?;
            // Taken between the opening and the look whether it is still the one that was opened.
            let identity = file.identity();
            match identity {
                Some(identity) if !vfs::has_moved(&session.sql) => {
                    Ok(Link::new(&inside, file, identity, Arc::clone(connect), Some(session)))
                }
                _ => Err(moved()),
            }
        })
        .map_err(|error| about(file, error))
    }

    /// Another way to the file of this identity, opened on its first use.
    pub(super) fn later(file: &Arc<File>, identity: Identity, connect: Connect) -> Link {
        Link::new(&ForkGuard::enter(), file, identity, connect, None)
    }

    /// ForkGuard, because no fork may come between a session's opening and its place in a slot.
    fn new(
        _inside: &ForkGuard,
        file: &Arc<File>,
        identity: Identity,
        connect: Connect,
        session: Option<Session>,
    ) -> Link {
        let slot = Arc::new(Mutex::new(session));
        let mut slots = lock(&SLOTS);
        slots.retain(|(_, other)| other.strong_count() > 0);
        slots.push((identity, Arc::downgrade(&slot)));
        Link { file: Arc::clone(file), identity, connect, slot }
    }

    pub(super) fn identity(&self) -> Identity {
        self.identity
    }

    /// Goes inside and does `work` with the connection, opened anew if need be. Its answer stands only if the file
    /// was still in its place after it. `work` leaves no transaction open. Still inside when it returns, so that the
    /// answer can be made durable.
    pub(super) fn attempt<T>(
        &self,
        work: impl FnOnce(&Session) -> Result<T, Error>,
    ) -> (Result<T, Error>, ForkGuard) {
        let inside = ForkGuard::enter();
        let mut slot = lock(&self.slot);
        // A panic in an earlier call may have left its transaction.
        if let Some(broken) = slot.take_if(|session| !session.sql.is_autocommit()) {
            broken.close_as_it_is();
        }
        // Before: SQLite would make side files beside whatever is at the path now.
        let answer = match &*slot {
            Some(session) if session.was_just_in_place() => work(session),
            Some(session) => self.in_place().and_then(|()| work(session)),
            None => {
                self.in_place().and_then(|()| self.reopen()).and_then(|session| work(slot.insert(session)))
            }
        };
        let answer = self.all_in_place(slot.as_ref()).and(answer);
        let fault = answer.as_ref().is_err_and(|error| is_fault(error.kind()));
        if let Some(session) = slot.take_if(|session| fault || session.broken.get()) {
            session.close_as_it_is();
        }
        drop(slot);
        if answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::ReadOnly) {
            close_idle_connections(self.identity);
        }
        (answer, inside)
    }

    /// That the path still leads to the file that was opened.
    fn in_place(&self) -> Result<(), Error> {
        if self.file.identity() == Some(self.identity) { Ok(()) } else { Err(moved()) }
    }

    /// After a transaction: that the side files are in their places too.
    fn all_in_place(&self, session: Option<&Session>) -> Result<(), Error> {
        let Some(session) = session else { return self.in_place() };
        let stamp = self.file.folder_stamp();
        if session.folder_has_kept_still(stamp) {
            session.seen.set(Some(Instant::now()));
            return Ok(());
        }
        self.in_place()?;
        if !session.has_its_side_files(&self.file) {
            return Err(side_files_lost());
        }
        session.note_folder(stamp);
        Ok(())
    }

    fn reopen(&self) -> Result<Session, Error> {
        let session = (self.connect)(&self.file, false)?;
        if vfs::has_moved(&session.sql) { Err(moved()) } else { Ok(session) }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if identity::crossed() {
            // The connection is the parent's: neither used nor closed here.
            std::mem::forget(Arc::clone(&self.slot));
            return;
        }
        let _inside = ForkGuard::enter();
        drop(lock(&self.slot).take());
    }
}

/// After these the connection may be in a state of its own; a new one is not.
pub(super) fn is_fault(kind: ErrorKind) -> bool {
    match kind {
        ErrorKind::CannotOpen
        | ErrorKind::NotADatabase
        | ErrorKind::Corrupt
        | ErrorKind::Io
        | ErrorKind::Full
        // SQLite opens a file to read only when it may not write it, and never tries again.
        | ErrorKind::ReadOnly
        | ErrorKind::OutOfMemory
        | ErrorKind::Internal => true,
        ErrorKind::InvalidArgument
        | ErrorKind::Busy
        | ErrorKind::Schema
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

pub(super) fn side_files_lost() -> Error {
    Error::new(
        ErrorKind::Io,
        "its -wal, -shm or -fencepost file was deleted or replaced while it was open, and with it perhaps what was stored \
         last; \
         look with state, and never remove these files while a program has the database open",
    )
}

/// Other threads of this process were at work all the time.
pub(super) fn kept_waiting() -> Error {
    Error::new(ErrorKind::Busy, "other threads of this process kept it in use; try again")
}

/// Until when a call that begins now may wait.
pub(super) fn deadline(file: &File) -> Instant {
    let now = Instant::now();
    now.checked_add(file.options.busy_timeout).unwrap_or(now + LONGEST)
}

/// How long to sleep between tries while the file is locked: longer each time.
pub(super) struct Pause(Duration);

impl Pause {
    const FIRST: Duration = Duration::from_millis(1);
    const LONGEST: Duration = Duration::from_millis(10);

    pub(super) fn new() -> Pause {
        Pause(Pause::FIRST)
    }

    /// The next one; `None` when the deadline has passed.
    pub(super) fn next(&mut self, deadline: Instant) -> Option<Duration> {
        let left = deadline.saturating_duration_since(Instant::now());
        let pause = self.0.min(left);
        self.0 = (self.0 * 2).min(Pause::LONGEST);
        (!left.is_zero()).then_some(pause)
    }
}

/// Tries until the answer is another than BUSY or the deadline is over. Sleeps outside.
pub(super) fn retry<T>(deadline: Instant, mut attempt: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    let mut pauses = Pause::new();
    loop {
        match attempt() {
            Err(error) if error.kind() == ErrorKind::Busy => match pauses.next(deadline) {
                Some(pause) => guard::sleep(pause),
                None => return Err(error),
            },
            other => return other,
        }
    }
}

/// Adds to an error which file it is about, and what else is known of it.
pub(super) fn explained(file: &File, shared_page: &LazyPage, error: Error) -> Error {
    let missing = schema::missing();
    match error.kind() {
        ErrorKind::Schema if error.message() == missing.message() => {
            let highest = set_back::highest_fence_known(shared_page);
            about(file, if highest > 0 { schema::lost(highest) } else { missing })
        }
        ErrorKind::NotADatabase | ErrorKind::Corrupt | ErrorKind::Io if file.is_empty() => about(
            file,
            Error::new(
                error.kind(),
                format!("{}; the file was emptied: it has 0 bytes; restore it", error.message()),
            )
            .with_sqlite_code(error.sqlite_code()),
        ),
        _ => about(file, error),
    }
}

/// Adds to an error which file it is about, and which of its files is in the way: where this user may not write one,
/// SQLite opens it to read only, and says nothing before the next write.
fn about(file: &File, error: Error) -> Error {
    let code = error.sqlite_code();
    let read_only = code & 0xff == ffi::SQLITE_READONLY;
    if file.options.read_only
        && (read_only && code != ffi::SQLITE_READONLY_ROLLBACK || code & 0xff == ffi::SQLITE_CANTOPEN)
        && let Some(why) = file.lacks_side_files()
    {
        return file
            .error(ErrorKind::CannotOpen, format_args!("cannot be opened: {why}"))
            .with_sqlite_code(code);
    }
    let in_the_way = if read_only && !file.options.read_only { file.in_the_way() } else { None };
    let why = in_the_way.map_or_else(String::new, |why| format!(": {why}"));
    file.error(error.kind(), format_args!("{}{why}", error.message())).with_sqlite_code(code)
}
