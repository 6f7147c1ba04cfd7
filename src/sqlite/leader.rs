//! Changes to the file. One caller at a time leads (see [`super::group`]): it runs what all who wait have asked for
//! in one BEGIN IMMEDIATE, in which each check and its store are one, and then sees to it that the answers outlive a
//! power cut before it gives them.
//!
//! All handles of this process on one file share one writer.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::checkpoint::Checkpoints;
use super::commit_queue::{Lead, Members, Ran, Request, Ticket, Waited, Work, wait};
use super::connection::{self, Connect, Level, Link, Pause, Session, explained, is_fault, kept_waiting};
use super::path::{File, Identity};
use super::set_back;
use super::shared_page::{LazyPage, SharedPage, Write};
use super::sync::sync;
use crate::core::engine::Change;
use crate::core::error::{Answer, Error, ErrorKind, Refused};
use crate::core::options::Durability;
use crate::process::guard::{self, ForkGuard};
use crate::process::identity;
use crate::process::threads;
use crate::sql::schema::{self, Found};
use crate::sql::statements;

/// A handle's way to write its file.
#[derive(Clone)]
pub(crate) struct Writer {
    file: Arc<File>,
    shared: Arc<Shared>,
}

/// What all handles of this process on one file share.
struct Shared {
    link: Link,
    shared_page: Arc<LazyPage>,
    /// Whether a handle was opened at FULL. In the rollback modes all commits are synced from then on.
    full: AtomicBool,
    /// Held by the one that syncs the log: the others then find that it has done so for them.
    syncing: Mutex<()>,
    /// The last write of this process that can be seen.
    last: Mutex<Option<Write>>,
    checkpoints: Arc<Checkpoints>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if !identity::crossed() {
            self.checkpoints.end();
        }
    }
}

/// How long a checkpoint waits for its turn.
const CHECKPOINT_WAIT: Duration = Duration::from_secs(10);

/// The writers of this process. Used only inside, so it is free whenever the process forks.
static WRITERS: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Writer {
    /// Opens the file. When this process has a writer for it, that one serves this handle as well.
    pub(crate) fn open(file: &Arc<File>) -> Result<Writer, Error> {
        let shared_page = Arc::new(LazyPage::new(file));
        let checkpoints = Arc::new(Checkpoints::new(file, &shared_page));
        let counting = Arc::clone(&checkpoints);
        let connect: Connect = Arc::new(move |file: &File, create: bool| {
            let mut session = connect(file, create)?;
            counting.count(&mut session.sql)?;
            Ok(session)
        });
        let link = Link::open(file, &connect)?;
        let full = file.options.durability == Durability::Full;
        let fresh = Shared {
            link,
            shared_page,
            full: AtomicBool::new(full),
            syncing: Mutex::new(()),
            last: Mutex::new(None),
            checkpoints,
        };
        let inside = ForkGuard::enter();
        let mut writers = lock(&WRITERS);
        writers.retain(|other| other.strong_count() > 0);
        let same = |other: &Arc<Shared>| {
            other.link.identity() == fresh.link.identity() && other.link.file.path == file.path
        };
        let (shared, rest) = match writers.iter().filter_map(Weak::upgrade).find(same) {
            Some(shared) => (shared, Some(fresh)),
            None => {
                let shared = Arc::new(fresh);
                writers.push(Arc::downgrade(&shared));
                (shared, None)
            }
        };
        drop(writers);
        drop(inside);
        // Its link goes inside by itself.
        drop(rest);
        shared.full.fetch_or(full, Ordering::Relaxed);
        Ok(Writer { file: Arc::clone(file), shared })
    }

    pub(crate) fn identity(&self) -> Identity {
        self.shared.link.identity()
    }

    /// The page that the processes share.
    pub(super) fn shared_page(&self) -> Arc<LazyPage> {
        Arc::clone(&self.shared.shared_page)
    }

    /// After a sync of the log has failed: puts what is in it into the database, and that onto the disk.
    pub(super) fn mend(&self, inside: &ForkGuard) -> Result<(), Error> {
        match self.shared_page().find(None)? {
            Some(page) => self.shared.mend(inside, &page),
            None => Ok(()),
        }
    }

    /// Until when a call that begins now may wait: one that makes several changes has one deadline for them.
    pub(crate) fn deadline(&self) -> Instant {
        connection::deadline(&self.file)
    }

    /// Makes `change` in a transaction, and stores it when the answer is a value.
    pub(crate) fn write<C: Change>(&self, change: C, deadline: Instant) -> Answer<C::Value> {
        self.request(deadline, move |session| {
            if C::NEEDS_FLOOR {
                session.jobs()?;
                schema::create_floor(&session.sql)?;
                session.forget_schema();
            }
            let jobs = session.jobs()?;
            let answer = change.apply(&jobs);
            if let Some(lease) = jobs.granted.take() {
                session.keep_granted(Some(lease));
            }
            answer
        })
    }

    /// Makes the table `jobs` and what belongs to it where they are missing.
    pub(crate) fn init(&self) -> Result<(), Error> {
        let deadline = self.deadline();
        let keep_journal_mode = self.file.options.keep_journal_mode;
        self.alone(deadline, |session| {
            // A file with another table `jobs` is refused before anything in it changes.
            schema::look(&session.sql)?;
            if keep_journal_mode { Ok(()) } else { use_wal(session) }
        })?;
        let made = self.request(deadline, |session| {
            schema::create_missing(&session.sql)?;
            session.forget_schema();
            Ok(Ok(()))
        });
        made?.map_err(Refused::unexpected)
    }

    fn request<T: Send + 'static>(
        &self,
        deadline: Instant,
        change: impl FnMut(&Session) -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        identity::check()?;
        let durable = self.file.options.durability == Durability::Full;
        let mut request = Request::new(change);
        let answer = match Lead::take(self.identity()) {
            Some(lead) => {
                let group = Group { own: &mut request, durable, alone: false, members: Members::default() };
                self.shared.lead(lead, group, deadline);
                request.into_answer()
            }
            None => {
                let ticket = Ticket::new(request, durable);
                let waiting: Arc<Ticket<dyn Work>> = ticket.clone();
                match wait(self.identity(), &waiting, deadline) {
                    Waited::ToLead(lead) => {
                        let mut own = ticket.change();
                        let alone = ticket.is_alone();
                        let group = Group { own: &mut *own, durable, alone, members: Members::default() };
                        self.shared.lead(lead, group, deadline);
                        own.take_answer()
                    }
                    Waited::Answered => ticket.take_answer(),
                    Waited::TooLate => Err(kept_waiting()),
                }
            }
        };
        answer.map_err(|error| explained(&self.file, &self.shared.shared_page, error))
    }

    /// Does `work` with the connection while nobody else in this process writes.
    fn alone(
        &self,
        deadline: Instant,
        mut work: impl FnMut(&Session) -> Result<(), Error>,
    ) -> Result<(), Error> {
        identity::check()?;
        let done = match wait(self.identity(), &Ticket::nothing(), deadline) {
            Waited::TooLate => Err(kept_waiting()),
            Waited::Answered => Ok(()),
            Waited::ToLead(_lead) => connection::retry(deadline, || {
                let mut attempt = || self.shared.link.attempt(&mut work).0;
                match attempt() {
                    // Its connection is closed by now: see `lead`.
                    Err(error) if error.kind() == ErrorKind::ReadOnly => attempt(),
                    other => other,
                }
            }),
        };
        done.map_err(|error| explained(&self.file, &self.shared.shared_page, error))
    }
}

/// What a leader runs: its own change, and those of the callers that wait.
struct Group<'a> {
    own: &'a mut dyn Work,
    /// Whether its own answer is to outlive a power cut.
    durable: bool,
    /// Whether its own change is to have a transaction of its own.
    alone: bool,
    members: Members,
}

impl Group<'_> {
    /// Whether an answer of the group is to outlive a power cut.
    fn is_durable(&self) -> bool {
        self.durable || self.members.iter().any(|ticket| ticket.durable)
    }

    fn fail(&mut self, error: &Error) {
        self.own.fail(error);
        self.members.fail(error);
    }

    /// Runs all changes; those too that come meanwhile, and while the sync before this group's own ends. Answers
    /// whether one succeeded, or that one has spoiled the transaction for the others.
    fn run(&mut self, session: &Session, lead: &Lead, last_sync: impl FnOnce()) -> Result<bool, Spoiled> {
        let mut mark = session.sql.total_changes();
        let mut some = false;
        let mut check = |ran: Ran| {
            let now = session.sql.total_changes();
            let undone = session.sql.is_autocommit();
            match ran {
                Ran::Done if !undone => (mark, some) = (now, true),
                // Refused or failed without a trace: the others do not feel it.
                Ran::Refused if !undone && now == mark => {}
                Ran::Failed(kind) if !undone && now == mark && kind != ErrorKind::Busy && !is_fault(kind) => {
                }
                Ran::Failed(kind) => return Err(Spoiled(Some(kind))),
                Ran::Done | Ran::Refused => return Err(Spoiled(None)),
            }
            Ok(())
        };
        check(self.own.run(session))?;
        let mut ran = 0;
        let mut last_sync = Some(last_sync);
        while !self.alone {
            lead.gather(&mut self.members);
            if ran == self.members.len() {
                match last_sync.take_if(|_| self.is_durable()) {
                    Some(end_of) => end_of(),
                    None => break,
                }
            }
            for ticket in self.members.iter().skip(ran) {
                check(ticket.change().run(session))?;
            }
            ran = self.members.len();
        }
        Ok(some)
    }
}

/// A change failed in a way that the rest of its transaction cannot be stored; with the kind of its error.
struct Spoiled(Option<ErrorKind>);

/// How a try at a transaction ended.
enum Tried {
    /// All have their answers, which may be given once this is on the disk.
    Over(Option<Unsynced>),
    /// It was undone. The leader's own change is to have one of its own.
    Undone,
    /// Another program has the file locked, or is to go first. With the page, and the turn that was read there before.
    Locked(Error, Option<(Arc<SharedPage>, u32)>),
}

/// The log up to a write.
struct Unsynced {
    page: Arc<SharedPage>,
    log: Option<Arc<fs::File>>,
    write: Write,
}

impl Shared {
    /// Runs a change, and with it those of the callers that wait, unless it is to be alone.
    fn lead(&self, lead: Lead, mut group: Group<'_>, deadline: Instant) {
        let mut pauses = Pause::new();
        // Whether it has had its wait, and tries whoever else is to have the lock.
        let mut waited = false;
        // Whether the connection was opened anew because it could only read: the user may have the right by now.
        let mut reopened = false;
        loop {
            let (tried, inside) =
                self.link.attempt(|session| self.transaction(session, &lead, &mut group, waited, deadline));
            let (error, place) = match tried {
                Ok(Tried::Undone) => {
                    group.alone = true;
                    continue;
                }
                Ok(Tried::Over(unsynced)) => {
                    // The next one begins while this one syncs.
                    drop(lead);
                    if let Err(error) = unsynced.map_or(Ok(()), |unsynced| self.sync(&inside, &unsynced)) {
                        group.fail(&error);
                    }
                    group.members.answer();
                    drop(inside);
                    if self.checkpoints.are_due() {
                        self.checkpoint();
                    }
                    return;
                }
                Ok(Tried::Locked(error, place)) => (error, place),
                Err(error) if error.kind() == ErrorKind::Busy => (error, None),
                Err(error) if error.kind() == ErrorKind::ReadOnly && !reopened => {
                    reopened = true;
                    continue;
                }
                Err(error) => {
                    self.shared_page.note_failure(&error);
                    group.fail(&error);
                    group.members.answer();
                    return;
                }
            };
            drop(inside);
            match (pauses.next(deadline), place) {
                (None, _) => return group.own.fail(&error),
                (Some(pause), Some((page, turn))) => waited = page.wait(turn, pause, deadline),
                (Some(pause), None) => {
                    guard::sleep(pause);
                    waited = true;
                }
            }
        }
    }

    /// One BEGIN IMMEDIATE. When it answers BUSY or that it was undone, nobody has an answer from it.
    fn transaction(
        &self,
        session: &Session,
        lead: &Lead,
        group: &mut Group<'_>,
        waited: bool,
        deadline: Instant,
    ) -> Result<Tried, Error> {
        let page = self.shared_page.find(session.page())?;
        let turn = page.as_ref().map_or(0, |page| page.turn());
        if let Some(page) = &page
            && !waited
            && page.has_a_queue()
            && Instant::now() < deadline
        {
            return Ok(Tried::Locked(others_go_first(), Some((Arc::clone(page), turn))));
        }
        let level = if self.full.load(Ordering::Relaxed) { Level::Extra } else { Level::Normal };
        let wal = session.settle(level)?;
        match session.execute("BEGIN IMMEDIATE") {
            Err(error) if error.kind() == ErrorKind::Busy => {
                // The first to wait makes the page.
                let page = page.map_or_else(|| self.shared_page.make(session.page()), Ok)?;
                let turn = if turn == 0 { page.turn() } else { turn };
                return Ok(Tried::Locked(error, Some((page, turn))));
            }
            other => other?,
        }
        if let Some(page) = &page {
            page.take(group.is_durable());
        }
        let stored = self.store(session, page.clone(), wal, lead, group, deadline);
        session.roll_back();
        if let Some(page) = &page {
            page.pass_on(group.is_durable());
        }
        match stored {
            Ok(Some((page, write))) => {
                let log = session.log(&self.link.file)?;
                Ok(Tried::Over(Some(Unsynced { page, log, write })))
            }
            Ok(None) => Ok(Tried::Over(None)),
            Err(Unstored::Undone) => Ok(Tried::Undone),
            Err(Unstored::Locked(error)) => Ok(Tried::Locked(error, page.map(|page| (page, turn)))),
            Err(Unstored::Failed(error)) => Err(error),
        }
    }

    /// With the write lock: runs the group and commits. Answers the write that is to be synced before any answer is
    /// given: a refusal rests on what others have written.
    fn store(
        &self,
        session: &Session,
        mut page: Option<Arc<SharedPage>>,
        wal: bool,
        lead: &Lead,
        group: &mut Group<'_>,
        deadline: Instant,
    ) -> Result<Option<(Arc<SharedPage>, Write)>, Unstored> {
        if self.full.load(Ordering::Relaxed) {
            session.sync_what_was_found(&self.link.file, &self.shared_page).map_err(Unstored::Failed)?;
            if page.is_none() {
                page = self.shared_page.find(session.page()).map_err(Unstored::Failed)?;
            }
        }
        let last_sync = || {
            // Committed now, this group would wait for that sync all the same, and those who come meanwhile for one more.
            // But no other process is to wait for it.
            if wal && !page.as_ref().is_some_and(|page| page.is_awaited()) {
                drop(lock(&self.syncing));
            }
        };
        let lifted = lift_if_set_back(session, page.as_deref()).map_err(Unstored::Failed)?;
        session.keep_granted(None);
        let changed = match group.run(session, lead, last_sync) {
            Ok(changed) => changed || lifted,
            Err(_) if !group.members.is_empty() => {
                lead.give_back(&mut group.members);
                return Err(Unstored::Undone);
            }
            Err(Spoiled(Some(ErrorKind::Busy))) => {
                return Err(Unstored::Locked(Error::new(
                    ErrorKind::Busy,
                    "readers are in the way; try again",
                )));
            }
            // Its own answer stands. What it has changed is undone.
            Err(Spoiled(kind)) => {
                if kind.is_some_and(is_fault) {
                    session.give_up();
                }
                false
            }
        };
        if !changed {
            // Without a page nobody has written so that it is not synced.
            let seen = page.and_then(|page| page.last_unsynced().map(|write| (page, write)));
            return Ok(seen.filter(|_| group.is_durable()));
        }
        let page =
            page.map_or_else(|| self.shared_page.make(session.page()), Ok).map_err(Unstored::Failed)?;
        let write = page.announce();
        let granted = session.keep_granted(None);
        if let Some(granted) = &granted {
            set_back::note(page.words(), write, granted);
        }
        let committed = commit(session, deadline);
        if committed.is_ok() && granted.is_some() {
            set_back::confirm(page.words(), write);
        }
        match committed {
            Ok(()) if wal || session.is_weak() => {
                *lock(&self.last) = Some(write);
                Ok(Some((page, write)).filter(|_| group.is_durable()))
            }
            // In the rollback modes it is synced; but who is killed in the middle has others see it before.
            Ok(()) => {
                page.note_synced(write);
                Ok(None)
            }
            Err(error) if error.kind() == ErrorKind::Busy => {
                lead.give_back(&mut group.members);
                Err(Unstored::Locked(error))
            }
            // A constraint that is checked at the end: one of the group has broken it.
            Err(error) if !is_fault(error.kind()) && !group.members.is_empty() => {
                lead.give_back(&mut group.members);
                Err(Unstored::Undone)
            }
            Err(error) => Err(Unstored::Failed(error)),
        }
    }

    /// Makes a checkpoint, on a thread of its own when there is one to be had.
    fn checkpoint(&self) {
        let (file, checkpoints) = (self.link.identity(), Arc::clone(&self.checkpoints));
        let work = move || {
            // What goes wrong here goes wrong again in a caller's path, or was of no consequence.
            let _ = checkpoints.copy();
            if checkpoints.are_behind()
                && let Waited::ToLead(_lead) =
                    wait(file, &Ticket::nothing(), Instant::now() + CHECKPOINT_WAIT)
            {
                let _ = checkpoints.finish();
            }
        };
        if threads::spawn(work).is_err() {
            let _ = self.checkpoints.copy();
        }
    }

    /// Syncs the log, unless another thread has done so since the write.
    fn sync(&self, inside: &ForkGuard, unsynced: &Unsynced) -> Result<(), Error> {
        let Unsynced { page, log, write } = unsynced;
        let one_at_a_time = lock(&self.syncing);
        if page.is_synced(*write) {
            return Ok(());
        }
        // What was committed before the sync begins is on the disk when it ends.
        let last = lock(&self.last).filter(|last| write.is_before(*last)).unwrap_or(*write);
        let synced = sync(page, &self.link.file, log.as_deref());
        // To mend takes SQLite's write lock, and who has that may be waiting for the end of this sync.
        drop(one_at_a_time);
        if let Err(error) = synced {
            self.mend(inside, page).map_err(|_| error)?;
        }
        page.note_synced(last);
        Ok(())
    }

    fn mend(&self, inside: &ForkGuard, page: &SharedPage) -> Result<(), Error> {
        self.checkpoints.mend(inside)?;
        page.note_mended();
        Ok(())
    }
}

/// In a transaction that writes: lifts the floor when the file was set back. Answers whether it did.
fn lift_if_set_back(session: &Session, page: Option<&SharedPage>) -> Result<bool, Error> {
    // Where there is no table, the change that needs it says so.
    let (Some(page), Ok(jobs)) = (page, session.jobs()) else { return Ok(false) };
    if !session.may_be_set_back() {
        return Ok(false);
    }
    let highest = set_back::highest_fence(page.words());
    if statements::floor(&jobs)? >= highest
        || !set_back::is_set_back(page.words(), |lease| statements::has(&jobs, lease))?
    {
        session.is_not_set_back();
        return Ok(false);
    }
    schema::create_floor(&session.sql)?;
    session.forget_schema();
    statements::lift(&session.jobs()?, highest)?;
    Ok(true)
}

/// Why a group's transaction was not stored.
enum Unstored {
    Undone,
    Locked(Error),
    /// All get this answer.
    Failed(Error),
}

fn others_go_first() -> Error {
    Error::new(ErrorKind::Busy, "other processes are writing it; try again, or wait longer")
}

fn connect(file: &File, create: bool) -> Result<Session, Error> {
    file.align_side_files();
    let session = Session::open(file, true, create)?;
    if schema::look(&session.sql)? != Found::Missing && !file.options.keep_journal_mode {
        use_wal(&session)?;
    }
    Ok(session)
}

fn use_wal(session: &Session) -> Result<(), Error> {
    let mode: String = session.sql.query_row("PRAGMA main.journal_mode = WAL", [], |row| row.get(0))?;
    if mode == "wal" {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        format!("its journal mode cannot be made WAL and stays {mode}; pass KEEP_JOURNAL_MODE to use it so"),
    ))
}

/// Commits. In the rollback journal modes readers can stand in the way (in WAL mode nobody can): SQLite then
/// lets no new ones in, and waiting is enough. A fork does not wait for them, though.
fn commit(session: &Session, deadline: Instant) -> Result<(), Error> {
    loop {
        match session.execute("COMMIT") {
            // Where the system refuses a lock, SQLite may have undone the transaction as well: then it is run again.
            Err(error)
                if error.kind() == ErrorKind::Busy
                    && !session.sql.is_autocommit()
                    && Instant::now() < deadline
                    && !guard::fork_waits() =>
            {
                guard::sleep(Duration::from_millis(1));
            }
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc;
    use std::thread::{self, ScopedJoinHandle};

    use rusqlite::Connection;

    use super::super::{commit_queue, vfs};
    use super::*;
    use crate::core::engine::Table;
    use crate::core::error::Refusal;
    use crate::core::options::Options;

    struct Place {
        _folder: tempfile::TempDir,
        path: PathBuf,
        writer: Writer,
    }

    fn options(keep_journal_mode: bool) -> Options {
        Options { keep_journal_mode, busy_timeout: Duration::from_secs(60), ..Options::default() }
    }

    /// A change made of a closure.
    struct Made<F>(Mutex<F>);

    impl<T: Send + 'static, F: FnMut(&dyn Table) -> Answer<T> + Send + 'static> Change for Made<F> {
        type Value = T;

        fn apply(&self, table: &dyn Table) -> Answer<T> {
            lock(&self.0)(table)
        }
    }

    fn write<T: Send + 'static>(
        writer: &Writer,
        change: impl FnMut(&dyn Table) -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        writer.write(Made(Mutex::new(change)), writer.deadline())
    }

    fn another(place: &Place, busy_timeout: Duration) -> Writer {
        let options = Options { busy_timeout, ..place.writer.file.options };
        Writer::open(&Arc::new(File::find(&place.path, &options).unwrap())).unwrap()
    }

    fn place_with(keep_journal_mode: bool) -> Place {
        vfs::install().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.db");
        let file = Arc::new(File::find(&path, &options(keep_journal_mode)).unwrap());
        let writer = Writer::open(&file).unwrap();
        writer.init().unwrap();
        Place { _folder: folder, path, writer }
    }

    fn place() -> Place {
        place_with(false)
    }

    /// Another program.
    fn host(place: &Place) -> Connection {
        let host = Connection::open(&place.path).unwrap();
        host.busy_timeout(Duration::from_secs(60)).unwrap();
        host
    }

    fn enqueue(writer: &Writer, id: &str) -> Answer<()> {
        let id = id.to_owned();
        write(writer, move |jobs| jobs.enqueue(&id, 0.0))
    }

    fn claim(writer: &Writer, id: &str) -> Answer<i64> {
        let id = id.to_owned();
        write(writer, move |jobs| jobs.claim(&id, "w", 1.0, 2.0))
    }

    fn ids(place: &Place) -> Vec<String> {
        let host = host(place);
        let mut statement = host.prepare("SELECT id FROM jobs ORDER BY id").unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    type Call<'a, T> = Box<dyn FnOnce() -> T + Send + 'a>;

    /// Runs the calls so that they come together: the first leads, and cannot begin before all the others wait.
    fn together<T: Send>(place: &Place, calls: Vec<Call<'_, T>>) -> Vec<T> {
        let host = host(place);
        host.execute_batch("BEGIN IMMEDIATE").unwrap();
        thread::scope(|scope| {
            let threads: Vec<ScopedJoinHandle<'_, T>> = calls
                .into_iter()
                .enumerate()
                .map(|(number, call)| {
                    let thread = scope.spawn(call);
                    while commit_queue::waiting(place.writer.identity()) != Some(number) {
                        thread::yield_now();
                    }
                    thread
                })
                .collect();
            host.execute_batch("COMMIT").unwrap();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    fn enqueue_together(place: &Place, ids: &[&'static str]) -> Vec<Answer<()>> {
        let writer = &place.writer;
        let call = |id: &'static str| -> Call<'_, Answer<()>> { Box::new(move || enqueue(writer, id)) };
        together(place, ids.iter().map(|id| call(id)).collect())
    }

    fn writes(place: &Place) -> u32 {
        let page = place.writer.shared_page().find(None).unwrap().unwrap();
        // Its own number is one more than the last.
        page.announce().number()
    }

    #[test]
    fn callers_that_come_together_share_one_transaction() {
        let place = place();
        enqueue(&place.writer, "before").unwrap().unwrap();
        let before = writes(&place);
        for answer in enqueue_together(&place, &["a", "b", "c", "d"]) {
            answer.unwrap().unwrap();
        }
        assert_eq!(writes(&place), before + 2);
        assert_eq!(ids(&place), ["a", "b", "before", "c", "d"]);
    }

    #[test]
    fn callers_that_come_during_a_sync_share_the_next_transaction() {
        let place = place();
        enqueue(&place.writer, "before").unwrap().unwrap();
        let before = writes(&place);
        let run = Arc::new(AtomicUsize::new(0));
        let call = |id: &'static str| {
            let (writer, run) = (&place.writer, Arc::clone(&run));
            move || {
                write(writer, move |jobs| {
                    run.fetch_add(1, Ordering::Relaxed);
                    jobs.enqueue(id, 0.0)
                })
            }
        };
        let sync = lock(&place.writer.shared.syncing);
        thread::scope(|scope| {
            let mut threads = Vec::new();
            for (number, id) in ["first", "a", "b", "c"].into_iter().enumerate() {
                threads.push(scope.spawn(call(id)));
                let waiting = || commit_queue::waiting(place.writer.identity()).unwrap_or(0);
                while run.load(Ordering::Relaxed) + waiting() <= number {
                    thread::yield_now();
                }
            }
            drop(sync);
            for thread in threads {
                assert_eq!(thread.join().unwrap(), Ok(Ok(())));
            }
        });
        assert_eq!(writes(&place), before + 2);
    }

    #[test]
    fn no_other_process_waits_for_a_sync() {
        let place = place();
        enqueue(&place.writer, "before").unwrap().unwrap();
        let page = place.writer.shared_page().find(None).unwrap().unwrap();
        let (waiting, turn) = (Arc::clone(&page), page.turn());
        let sync = lock(&place.writer.shared.syncing);
        thread::scope(|scope| {
            let long = Duration::from_secs(60);
            let other = scope.spawn(move || waiting.wait(turn, long, Instant::now() + long));
            while !page.is_awaited() {
                thread::yield_now();
            }
            let call = scope.spawn(|| enqueue(&place.writer, "a"));
            assert!(other.join().unwrap());
            assert_eq!(ids(&place), ["a", "before"]);
            drop(sync);
            assert_eq!(call.join().unwrap(), Ok(Ok(())));
        });
    }

    #[test]
    fn each_has_its_own_answer() {
        let place = place();
        host(&place)
            .execute_batch(
                "INSERT INTO jobs(id, owner, until, fence) VALUES ('held', 'x', 9, 1), ('last', NULL, 0, 9223372036854775807);
                 INSERT INTO jobs(id, fence) VALUES ('free', 4), ('odd', 1.5), ('other', 6)",
            )
            .unwrap();
        let writer = &place.writer;
        let call = |id: &'static str| -> Call<'_, Answer<i64>> { Box::new(move || claim(writer, id)) };
        for _ in 0..2 {
            let jobs = ["free", "held", "missing", "last", "odd", "other", "free"];
            let answers = together(&place, jobs.into_iter().map(call).collect());
            let said: Vec<_> = answers
                .into_iter()
                .map(|answer| answer.map(|said| said.map_err(|no| no.reason())).map_err(|error| error.kind()))
                .collect();
            assert_eq!(
                said[1..5],
                [
                    Ok(Err(Refusal::Held)),
                    Ok(Err(Refusal::NotFound)),
                    Err(ErrorKind::FenceExhausted),
                    Err(ErrorKind::Corrupt),
                ]
            );
            assert_eq!(said[6], Ok(Err(Refusal::Held)));
            host(&place).execute_batch("UPDATE jobs SET until = 0 WHERE id IN ('free', 'other')").unwrap();
        }
        assert_eq!(claim(&place.writer, "free").unwrap(), Ok(7));
        assert_eq!(claim(&place.writer, "other").unwrap(), Ok(9));
    }

    /// A trigger that undoes the whole transaction, one that leaves half a change, and a constraint that is checked
    /// when all is to be stored: each hits the caller that asked for it alone.
    #[test]
    fn one_that_spoils_the_transaction_spoils_it_for_itself_alone() {
        let place = place();
        host(&place)
            .execute_batch(
                "CREATE TABLE t(x); CREATE TABLE parent(id TEXT PRIMARY KEY);
                 CREATE TABLE child(id TEXT REFERENCES parent(id) DEFERRABLE INITIALLY DEFERRED);
                 CREATE TRIGGER a BEFORE INSERT ON jobs WHEN new.id = 'rollback' BEGIN SELECT RAISE(ROLLBACK, 'no'); END;
                 CREATE TRIGGER b BEFORE INSERT ON jobs WHEN new.id = 'half' BEGIN
                    INSERT INTO t VALUES (1); SELECT RAISE(FAIL, 'no'); END;
                 CREATE TRIGGER c BEFORE INSERT ON jobs WHEN new.id = 'orphan' BEGIN INSERT INTO child VALUES ('nobody'); END;",
            )
            .unwrap();
        for first in [["a", "b", "c"], ["A", "B", "C"]] {
            for bad in ["rollback", "half", "orphan"] {
                let order =
                    if first[0] == "a" { [first[0], bad, first[1]] } else { [bad, first[0], first[1]] };
                let order = order.map(|id| if id == bad { bad.to_owned() } else { format!("{id}-{bad}") });
                let order: Vec<&'static str> = order.into_iter().map(|id| &*id.leak()).collect();
                for (id, answer) in order.iter().zip(enqueue_together(&place, &order)) {
                    if *id == bad {
                        assert_eq!(answer.unwrap_err().kind(), ErrorKind::Schema, "{id}");
                    } else {
                        assert_eq!(answer.unwrap(), Ok(()), "{id}");
                    }
                }
            }
        }
        let host = host(&place);
        let count = |what: &str| {
            host.query_row(&format!("SELECT count(*) FROM {what}"), [], |row| row.get::<_, i64>(0))
        };
        assert_eq!((count("jobs").unwrap(), count("t").unwrap(), count("child").unwrap()), (12, 0, 0));
    }

    #[test]
    fn when_the_file_is_moved_meanwhile_none_has_success() {
        let place = place();
        let away = place.path.with_extension("away");
        let (path, to) = (place.path.clone(), away.clone());
        let moving = || {
            write(&place.writer, move |jobs| {
                std::fs::rename(&path, &to).unwrap();
                jobs.enqueue("mover", 0.0)
            })
        };
        let (writer, other) = (&place.writer, &place.writer);
        let answers = together(
            &place,
            vec![
                Box::new(move || enqueue(writer, "a")) as Call<'_, Answer<()>>,
                Box::new(moving),
                Box::new(move || enqueue(other, "b")),
            ],
        );
        for answer in answers {
            assert_eq!(answer.unwrap_err().kind(), ErrorKind::Io);
        }
        std::fs::rename(&away, &place.path).unwrap();
        assert_eq!(enqueue(&place.writer, "after").unwrap(), Ok(()));
    }

    #[test]
    fn a_panic_of_the_leader_is_an_error_for_the_others_and_the_next_one_leads() {
        let place = place();
        let (first, second, third) = (&place.writer, &place.writer, &place.writer);
        let answers = together(
            &place,
            vec![
                Box::new(move || {
                    let change = |_: &dyn Table| -> Answer<()> { panic!("it broke") };
                    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| write(first, change)))
                        .unwrap_or_else(|_| Err(Error::new(ErrorKind::Unsupported, "it panicked")))
                }) as Call<'_, Answer<()>>,
                Box::new(move || enqueue(second, "b")),
                Box::new(move || enqueue(third, "c")),
            ],
        );
        assert_eq!(answers[0].as_ref().unwrap_err().kind(), ErrorKind::Unsupported);
        // It had not taken them yet.
        assert_eq!(answers[1], Ok(Ok(())));
        assert_eq!(answers[2], Ok(Ok(())));
        assert_eq!(commit_queue::waiting(place.writer.identity()), None);
    }

    #[test]
    fn a_panic_in_the_leaders_hands_is_an_error_for_all_and_the_next_one_leads() {
        let place = place();
        let (first, second, third) = (&place.writer, &place.writer, &place.writer);
        let answers = together(
            &place,
            vec![
                Box::new(move || {
                    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| enqueue(first, "a")))
                        .unwrap_or_else(|_| Err(Error::new(ErrorKind::Unsupported, "it panicked")))
                }) as Call<'_, Answer<()>>,
                Box::new(move || write(second, |_| panic!("it broke"))),
                Box::new(move || enqueue(third, "c")),
            ],
        );
        let kinds: Vec<_> = answers.iter().map(|answer| answer.as_ref().map_err(Error::kind).err()).collect();
        assert_eq!(
            kinds,
            [Some(ErrorKind::Unsupported), Some(ErrorKind::Internal), Some(ErrorKind::Internal)]
        );
        assert!(ids(&place).is_empty());
        assert_eq!(enqueue(&place.writer, "after").unwrap(), Ok(()));
    }

    #[test]
    fn who_waits_too_long_is_busy_and_nothing_is_done() {
        let place = place();
        let hasty = another(&place, Duration::ZERO);
        let host = host(&place);
        host.execute_batch("BEGIN IMMEDIATE").unwrap();
        thread::scope(|scope| {
            let patient = scope.spawn(|| enqueue(&place.writer, "patient"));
            while commit_queue::waiting(place.writer.identity()).is_none() {
                thread::yield_now();
            }
            assert_eq!(enqueue(&hasty, "hasty").unwrap_err().kind(), ErrorKind::Busy);
            host.execute_batch("COMMIT").unwrap();
            assert_eq!(patient.join().unwrap(), Ok(Ok(())));
        });
        assert_eq!(ids(&place), ["patient"]);
    }

    /// In the rollback modes a reader can hold up the commit. Then nobody has an answer yet.
    #[test]
    fn a_group_that_a_reader_holds_up_is_stored_when_the_read_is_over() {
        let place = place_with(true);
        let reader = host(&place);
        let (send, receive) = mpsc::channel();
        thread::scope(|scope| {
            reader.execute_batch("BEGIN; SELECT count(*) FROM jobs").unwrap();
            let group = scope.spawn(|| enqueue_together(&place, &["a", "b", "c"]));
            scope.spawn(move || {
                // Whatever is held up by then.
                reader.execute_batch("COMMIT").unwrap();
                send.send(()).unwrap();
            });
            receive.recv().unwrap();
            assert!(group.join().unwrap().iter().all(|answer| *answer == Ok(Ok(()))));
        });
        assert_eq!(ids(&place), ["a", "b", "c"]);
    }

    #[test]
    fn all_handles_on_one_file_share_a_writer() {
        let place = place();
        let other = another(&place, Duration::ZERO);
        assert!(Arc::ptr_eq(&place.writer.shared, &other.shared));
        drop(other);
        assert_eq!(enqueue(&place.writer, "a").unwrap(), Ok(()));
    }
}
