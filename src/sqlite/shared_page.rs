//! What the processes that write a file tell each other beside SQLite's locks, on a page that they share: who
//! may go next, and which writes are on the disk. See `docs/decisions/speed.md`.
//!
//! The page is the file `<database>-fencepost`. It decides nothing about who may write: that is SQLite's lock alone,
//! so programs that know nothing of the page stay correct, and a process that dies leaves nothing locked.
//!
//! - **Whose turn.** SQLite has no queue for its write lock: who finds it taken sleeps and tries again, and the
//!   one that has just had it is always the first to come back. Here who finds it taken sleeps on the word `turn`,
//!   and who gives it up wakes the one that has slept longest. Until that one has it, all others queue behind.
//! - **Which fence was granted last**: see [`super::set_back`].
//! - **Which writes are on the disk.** A write in the write-ahead log can be seen by others before it is synced.
//!   Each is numbered before it can be seen, and the number is noted as synced once it is. Who gives an answer that
//!   rests on what it saw compares the two first, and syncs the log itself where they differ.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl, posix_fallocate};
use rusqlite::ffi;

use super::path::{File, Identity};
use crate::core::error::{Error, ErrorKind};
use crate::os::errors;
use crate::os::futex;
use crate::os::page::{Mapping, PAGE_SIZE, Page};

/// The first word of the page: "fencepo" and the number of its layout. Another layout has another number, and no library
/// uses a page whose layout it does not know.
const MAGIC: u64 = u64::from_be_bytes(*b"fencepo\x01");

/// The features of the page that this library knows. Within a layout a later version may give a meaning to words that
/// are 0 so far. Where a library that does not know it would do harm, it first sets a bit in `features`, and in
/// `needs_version` the version that a program must have; an older library that finds such a bit answers UNSUPPORTED from
/// then on. Where it would do none, it sets a bit in `optional_features`, or nothing. `features` has the bits and then
/// their complement: a crash of the machine may leave anything, which then is no feature.
const KNOWN_FEATURES: u32 = 0;

/// In `damaged`, after a sync of the log has failed. Not just any number: a crash of the machine may leave anything.
const DAMAGED: u32 = u32::from_be_bytes(*b"torn");

/// How long a process at NORMAL keeps the others waiting when it has more to write at once. Handing the lock over
/// costs about as much as a write without a sync.
const SLICE: Duration = Duration::from_millis(1);

/// How long to wait for a word from the one of us that has the lock. Only one that was killed gives none.
const PATIENCE: Duration = Duration::from_millis(10);

/// After so many wakes in a row that found nobody asleep, nobody is taken to wait. Who waits is asleep but for a moment.
const IN_VAIN: u32 = 8;

/// What `state` says of SQLite's lock: none of us has it, or one that may not hand it on at once.
const OPEN: u32 = 0;
/// One of us has it, and will hand it on.
const TAKEN: u32 = 1;
/// It was given up, and one that waited was woken to take it.
const HANDED_ON: u32 = 2;

pub(crate) struct SharedPage {
    words: Mapping,
    identity: Identity,
    writable: bool,
    /// Since when this process has had the lock, again and again. Used only inside.
    since: Mutex<Option<Instant>>,
    /// How many wakes in a row have found nobody, though `waiting` said that somebody waits.
    in_vain: AtomicU32,
}

/// The number of a write that can be seen and may not be on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Write(u32);

/// The two counts are in one word, so that no crash of the machine can leave the one newer than the other.
fn pack(committed: u32, synced: u32) -> u64 {
    u64::from(committed) << 32 | u64::from(synced)
}

fn unpack(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

/// Whether the write `number` is at or before `limit`, where both go round.
pub(super) fn is_through(number: u32, limit: u32) -> bool {
    limit.wrapping_sub(number) < 1 << 31
}

impl Write {
    #[cfg(test)]
    pub(super) fn of(number: u32) -> Write {
        Write(number)
    }

    pub(crate) fn number(self) -> u32 {
        self.0
    }

    pub(crate) fn is_before(self, other: Write) -> bool {
        is_through(self.0, other.0)
    }
}

/// The page of one file, opened when it is needed. Used only inside.
pub(crate) struct LazyPage {
    file: Arc<File>,
    open: Mutex<Option<Arc<SharedPage>>>,
}

impl LazyPage {
    pub(crate) fn new(file: &Arc<File>) -> LazyPage {
        LazyPage { file: Arc::clone(file), open: Mutex::new(None) }
    }

    /// The page, `None` when nobody has made it. `known`: which file a connection has seen it in, when it has.
    pub(crate) fn find(&self, known: Option<Identity>) -> Result<Option<Arc<SharedPage>>, Error> {
        let mut open = lock(&self.open);
        if !open.as_ref().is_some_and(|page| page.is_in_place(&self.file, known)) {
            *open = SharedPage::open(&self.file, false)?.map(Arc::new);
        }
        open.as_ref().map_or(Ok(()), |page| page.is_understood())?;
        Ok(open.clone())
    }

    /// After an error of SQLite's: when it was a sync that failed, then no later one says anything of the log.
    pub(crate) fn note_failure(&self, error: &Error) {
        if error.sqlite_code() == ffi::SQLITE_IOERR_FSYNC
            && let Ok(page) = self.make(None)
        {
            page.note_damage();
        }
    }

    /// The page, made when it is missing. So what is refused leaves no file behind.
    pub(crate) fn make(&self, known: Option<Identity>) -> Result<Arc<SharedPage>, Error> {
        if let Some(page) = self.find(known)? {
            return Ok(page);
        }
        let made = SharedPage::open(&self.file, true)?.map(Arc::new);
        *lock(&self.open) = made.clone();
        made.ok_or_else(|| Error::new(ErrorKind::CannotOpen, "its side file -fencepost vanishes; try again"))
    }
}

impl SharedPage {
    /// Opens the page beside the file; with `make` it is made when it is missing, with the rights of the file.
    fn open(file: &File, make: bool) -> Result<Option<SharedPage>, Error> {
        let path = file.page_path();
        let fail = |error: io::Error| {
            let why = errors::not_opened(path, &error);
            Error::new(why.kind(), format!("its side file {}", why.message()))
        };
        let database = file.path.metadata().map_err(fail)?;
        let mode = database.mode() & 0o777;
        let writable = !file.options.read_only;
        let opened = OpenOptions::new()
            .read(true)
            .write(writable)
            .create(make)
            .truncate(false)
            .mode(mode)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(path);
        let opened = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !make => return Ok(None),
            other => other.map_err(fail)?,
        };
        let status = opened.metadata().map_err(fail)?;
        if !status.is_file() {
            return Err(Error::new(
                ErrorKind::CannotOpen,
                "its side file -fencepost is no regular file; remove it",
            ));
        }
        if status.len() < PAGE_SIZE as u64 && !make {
            // It is being made, and says nothing yet.
            return Ok(None);
        }
        if status.len() == 0 {
            // As SQLite does for its own side files: the file's rights whatever the umask says, and for root its owner.
            opened.set_permissions(std::fs::Permissions::from_mode(mode)).map_err(fail)?;
            if (status.uid(), status.gid()) != (database.uid(), database.gid()) {
                let _ = fchown(&opened, Some(database.uid()), Some(database.gid()));
            }
        }
        if status.len() < PAGE_SIZE as u64 {
            // Not only made longer: on a full disk the first store would kill the process.
            make_longer(&opened, PAGE_SIZE - status.len() as usize).map_err(fail)?;
        }
        let page = SharedPage {
            words: Mapping::map(&opened, writable)
                .map_err(|error| errors::refused("mmap of its side file -fencepost", &error))?,
            identity: (status.dev(), status.ino()),
            writable,
            since: Mutex::new(None),
            in_vain: AtomicU32::new(0),
        };
        let magic = &page.words.magic;
        let found = if writable {
            magic
                .compare_exchange(0, MAGIC, Ordering::AcqRel, Ordering::Acquire)
                .unwrap_or_else(|other| other)
        } else {
            magic.load(Ordering::Acquire)
        };
        match found {
            0 | MAGIC => page.is_understood().map(|()| Some(page)),
            _ => Err(Error::new(
                ErrorKind::Unsupported,
                "its side file -fencepost is of another version; end all programs that use the database, then remove it",
            )),
        }
    }

    /// A later version may have begun to use the page in a way that all must know.
    fn is_understood(&self) -> Result<(), Error> {
        let (features, complement) = unpack(self.words.features.load(Ordering::Acquire));
        if features != !complement || features & !KNOWN_FEATURES == 0 {
            return Ok(());
        }
        let [_, major, minor, patch] = self.words.needs_version.load(Ordering::Relaxed).to_be_bytes();
        Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "fencepost {major}.{minor}.{patch} or later has used it, and this program has {}; upgrade this program",
                env!("CARGO_PKG_VERSION")
            ),
        ))
    }

    pub(super) fn words(&self) -> &Page {
        &self.words
    }

    fn is_in_place(&self, file: &File, known: Option<Identity>) -> bool {
        known.or_else(|| file.side_files()[2]) == Some(self.identity)
    }

    // --- whose turn ---

    /// To be read before `has_a_queue` and before a try for SQLite's lock, for `wait` after them.
    pub(crate) fn turn(&self) -> u32 {
        self.words.turn.load(Ordering::SeqCst)
    }

    /// Whether one of us has SQLite's lock or was woken to take it, and others are to queue. It may have been killed
    /// meanwhile, so this is no reason to wait for ever.
    pub(crate) fn has_a_queue(&self) -> bool {
        self.words.state.load(Ordering::Acquire) != OPEN
    }

    /// Whether another process waits for SQLite's lock.
    pub(crate) fn is_awaited(&self) -> bool {
        self.words.waiting.load(Ordering::Relaxed) != 0
    }

    /// Sleeps until it is this caller's turn; not at all when the lock was given up since `turn` was read. When nobody
    /// has promised to wake it, no longer than `pause`. Whether to try for the lock now, whoever else is to have it.
    pub(crate) fn wait(&self, turn: u32, pause: Duration, deadline: Instant) -> bool {
        let begin = Instant::now();
        let left = deadline.saturating_duration_since(begin);
        let time = if self.has_a_queue() { PATIENCE.min(left) } else { pause };
        self.words.waiting.fetch_add(1, Ordering::SeqCst);
        let woken = futex::wait(&self.words.turn, turn, time);
        // It may have been forgotten meanwhile: see `forget_the_dead`.
        let _ = self
            .words
            .waiting
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |count| count.checked_sub(1));
        woken || begin.elapsed() >= time
    }

    /// This process has got SQLite's lock; `at_once` as in `pass_on`.
    pub(crate) fn take(&self, at_once: bool) {
        self.words.state.store(if at_once { TAKEN } else { OPEN }, Ordering::Release);
        lock(&self.since).get_or_insert_with(Instant::now);
    }

    /// This process has given up SQLite's lock. With `at_once` the next one is woken now, otherwise perhaps not
    /// before this process's slice of time is over: it then finds the lock free by itself.
    pub(crate) fn pass_on(&self, at_once: bool) {
        let Page { turn, waiting, state, .. } = &*self.words;
        // Before the look at who waits: one that comes in between finds that its `turn` has passed.
        turn.fetch_add(1, Ordering::SeqCst);
        let count = waiting.load(Ordering::SeqCst);
        if count == 0 {
            *lock(&self.since) = None;
            state.store(OPEN, Ordering::Release);
            return;
        }
        if !at_once && lock(&self.since).is_some_and(|since| since.elapsed() < SLICE) {
            return;
        }
        *lock(&self.since) = None;
        state.store(HANDED_ON, Ordering::Release);
        if futex::wake_one(turn) {
            self.in_vain.store(0, Ordering::Relaxed);
        } else {
            // It has gone meanwhile; another one may have the lock.
            let _ = state.compare_exchange(HANDED_ON, OPEN, Ordering::AcqRel, Ordering::Relaxed);
            self.forget_the_dead(count);
        }
    }

    /// Nobody was asleep, though `count` are said to wait. One that was killed while it waited is counted for ever, and so
    /// is what a crash of the machine has left of the count: every commit would make way for it. One that is forgotten and
    /// lives wakes by itself.
    fn forget_the_dead(&self, count: u32) {
        if self.in_vain.fetch_add(1, Ordering::Relaxed) + 1 >= IN_VAIN {
            self.in_vain.store(0, Ordering::Relaxed);
            let _ = self.words.waiting.compare_exchange(count, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    // --- which writes are on the disk ---

    /// With SQLite's write lock held, before a write can be seen that is not synced: numbers it.
    pub(crate) fn announce(&self) -> Write {
        let number = |word| {
            let (committed, synced) = unpack(word);
            let committed = committed.wrapping_add(1);
            // The counts go round. So far apart they only say that nothing is known to be synced.
            let behind = committed.wrapping_sub(synced).min(1 << 30);
            pack(committed, committed.wrapping_sub(behind))
        };
        let before = self.update(|word| Some(number(word)));
        Write(unpack(before).0.wrapping_add(1))
    }

    /// With SQLite's write lock held: the last write that can be seen, when it may not be on the disk.
    pub(crate) fn last_unsynced(&self) -> Option<Write> {
        let (committed, synced) = unpack(self.words.writes.load(Ordering::Acquire));
        (committed != synced).then_some(Write(committed))
    }

    /// Whether the write is known to be on the disk.
    pub(crate) fn is_synced(&self, write: Write) -> bool {
        is_through(write.0, unpack(self.words.writes.load(Ordering::Acquire)).1)
    }

    /// Notes that this write and all before it are on the disk.
    pub(crate) fn note_synced(&self, write: Write) {
        if self.writable {
            self.update(|word| {
                let (committed, synced) = unpack(word);
                (!is_through(write.0, synced)).then(|| pack(committed, write.0))
            });
        }
    }

    /// A sync of the log has failed. The kernel reports that once and takes what it could not write for written
    /// (fsync(2)), so no later sync of the log says anything, until what is in it was written once more.
    pub(crate) fn note_damage(&self) {
        if self.writable {
            self.words.damaged.store(DAMAGED, Ordering::Release);
        }
    }

    pub(crate) fn is_damaged(&self) -> bool {
        self.words.damaged.load(Ordering::Acquire) == DAMAGED
    }

    /// All that was in the log was written once more, and is on the disk.
    pub(crate) fn note_mended(&self) {
        self.words.damaged.store(0, Ordering::Release);
    }

    fn update(&self, mut change: impl FnMut(u64) -> Option<u64>) -> u64 {
        let writes = &self.words.writes;
        writes
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, &mut change)
            .unwrap_or_else(|unchanged| unchanged)
    }
}

/// Makes the page longer by `missing` bytes of zero, whoever else does so at the same time.
fn make_longer(page: &std::fs::File, missing: usize) -> io::Result<()> {
    match posix_fallocate(page, 0, PAGE_SIZE as i64) {
        // A sandbox may refuse the call, and a filesystem have none. At the end, nothing that another process has stored
        // there meanwhile is written over.
        Err(Errno::EPERM | Errno::ENOSYS | Errno::EOPNOTSUPP) => {
            fcntl(page, FcntlArg::F_SETFL(OFlag::O_APPEND))?;
            io::Write::write_all(&mut &*page, &vec![0; missing])
        }
        other => Ok(other?),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;
    use crate::core::options::Options;

    struct Place {
        _folder: tempfile::TempDir,
        path: PathBuf,
    }

    fn place() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.db");
        fs::write(&path, "").unwrap();
        Place { _folder: folder, path }
    }

    fn file(place: &Place, read_only: bool) -> File {
        File::find(&place.path, &Options { read_only, ..Options::default() }).unwrap()
    }

    fn page(place: &Place) -> SharedPage {
        SharedPage::open(&file(place, false), true).unwrap().unwrap()
    }

    #[test]
    fn a_write_is_unsynced_for_all_until_one_has_synced_it() {
        let place = place();
        let (here, there) = (page(&place), page(&place));
        assert_eq!(here.last_unsynced(), None);
        let first = here.announce();
        assert_eq!(there.last_unsynced(), Some(first));
        let second = there.announce();
        assert!(!here.is_synced(first));
        there.note_synced(first);
        assert!(here.is_synced(first) && !here.is_synced(second));
        here.note_synced(second);
        assert_eq!(there.last_unsynced(), None);
        // Who comes late takes nothing back.
        here.note_synced(first);
        assert!(there.is_synced(second));
    }

    #[test]
    fn the_numbers_may_go_round() {
        let place = place();
        let page = page(&place);
        page.words.writes.store(pack(u32::MAX, u32::MAX), Ordering::Relaxed);
        assert_eq!(page.last_unsynced(), None);
        let write = page.announce();
        assert_eq!(write, Write(0));
        assert!(!page.is_synced(write));
        page.note_synced(write);
        assert!(page.is_synced(write) && page.is_synced(Write(u32::MAX)));
        assert!(Write(u32::MAX).is_before(write) && !write.is_before(Write(u32::MAX)));
    }

    /// As after years at NORMAL.
    #[test]
    fn however_many_writes_are_not_synced_the_last_is_known_not_to_be() {
        let place = place();
        let page = page(&place);
        page.words.writes.store(pack(1 << 30, 0), Ordering::Relaxed);
        for _ in 0..3 {
            let write = page.announce();
            assert!(!page.is_synced(write));
        }
        assert_eq!(unpack(page.words.writes.load(Ordering::Relaxed)), ((1 << 30) + 3, 3));
    }

    #[test]
    fn the_lock_given_up_between_a_try_and_the_wait_is_not_missed() {
        let place = place();
        let page = page(&place);
        let (turn, hour) = (page.turn(), Duration::from_secs(3600));
        page.pass_on(true);
        assert!(!page.wait(turn, hour, Instant::now() + hour), "another one may be first");
    }

    /// A sleeper that was not woken would sleep for an hour.
    fn sleep(page: &SharedPage) -> bool {
        let hour = Duration::from_secs(3600);
        page.wait(page.turn(), hour, Instant::now() + hour)
    }

    #[test]
    fn all_others_queue_until_one_that_was_woken_has_the_lock() {
        let place = place();
        let (here, there) = (page(&place), page(&place));
        assert!(!here.has_a_queue());
        here.take(true);
        assert!(there.has_a_queue());
        here.pass_on(true);
        assert!(!there.has_a_queue(), "nobody waits");
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| while !(sleep(&there) && there.has_a_queue()) {});
            // Until it sleeps there is nobody to wake.
            while !there.has_a_queue() {
                std::thread::yield_now();
                here.pass_on(true);
            }
            sleeper.join().unwrap();
        });
        assert!(here.has_a_queue(), "it has not taken the lock yet");
        there.take(false);
        assert!(!here.has_a_queue());
    }

    #[test]
    fn a_queue_whose_first_was_killed_holds_nobody_up_for_long() {
        let place = place();
        let page = page(&place);
        for killed in [TAKEN, HANDED_ON] {
            page.words.state.store(killed, Ordering::Relaxed);
            let hour = Duration::from_secs(3600);
            assert!(page.wait(page.turn(), hour, Instant::now() + hour), "its time is over, so it tries");
        }
    }

    #[test]
    fn one_that_was_killed_while_it_waited_is_not_waited_for_for_ever() {
        let place = place();
        let here = page(&place);
        here.words.waiting.fetch_add(2, Ordering::Relaxed);
        for _ in 0..IN_VAIN {
            assert!(here.is_awaited());
            here.take(true);
            here.pass_on(true);
        }
        assert!(!here.is_awaited() && !here.has_a_queue());
        // One that was forgotten with the dead, and lives, leaves.
        let none = Duration::ZERO;
        here.words.waiting.store(u32::MAX, Ordering::Relaxed);
        here.wait(here.turn().wrapping_sub(1), none, Instant::now());
        assert_eq!(here.words.waiting.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_page_has_the_rights_of_the_database() {
        let place = place();
        for mode in [0o600, 0o640, 0o666] {
            fs::set_permissions(&place.path, fs::Permissions::from_mode(mode)).unwrap();
            page(&place);
            let path = file(&place, false).page_path().to_owned();
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, mode);
            fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn nothing_is_made_for_who_only_looks() {
        let place = place();
        for read_only in [false, true] {
            assert!(SharedPage::open(&file(&place, read_only), false).unwrap().is_none());
        }
        assert!(!file(&place, true).page_path().exists());
        let write = page(&place).announce();
        let reader = SharedPage::open(&file(&place, true), false).unwrap().unwrap();
        assert_eq!(reader.last_unsynced(), Some(write));
        // Its page cannot be written.
        reader.note_synced(write);
        reader.note_damage();
        assert_eq!(reader.last_unsynced(), Some(write));
    }

    #[test]
    fn a_page_of_another_version_or_kind_is_refused() {
        let place = place();
        let path = file(&place, false).page_path().to_owned();
        fs::write(&path, "something else".repeat(400)).unwrap();
        for read_only in [false, true] {
            let error = SharedPage::open(&file(&place, read_only), false).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
        }
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        assert!(SharedPage::open(&file(&place, false), true).is_err());
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(SharedPage::open(&file(&place, false), true).is_err());
    }

    #[test]
    fn a_page_that_a_later_version_uses_in_an_unknown_way_is_used_no_more() {
        let place = place();
        let shared_page = LazyPage::new(&Arc::new(file(&place, false)));
        let page = shared_page.make(None).unwrap();
        page.words.optional_features.store(u32::MAX, Ordering::Relaxed);
        assert!(shared_page.find(None).is_ok());
        page.words.needs_version.store(0x0001_0203, Ordering::Relaxed);
        page.words.features.store(u64::from(u32::MAX) << 32, Ordering::Relaxed);
        assert!(shared_page.find(None).is_err());
        page.words.features.store(12345, Ordering::Relaxed);
        assert!(shared_page.find(None).is_ok(), "what a crash has left");
        page.words.features.store(pack(1 << 31, !(1 << 31)), Ordering::Relaxed);
        for shared_page in [&shared_page, &LazyPage::new(&Arc::new(file(&place, true)))] {
            let error = shared_page.find(None).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.message().contains("fencepost 1.2.3 or later"), "{error}");
        }
    }

    #[test]
    fn a_page_that_was_replaced_is_opened_anew() {
        let place = place();
        let shared_page = LazyPage::new(&Arc::new(file(&place, false)));
        let first = shared_page.make(None).unwrap();
        assert_eq!(shared_page.find(None).unwrap().unwrap().identity, first.identity);
        let path = file(&place, false).page_path().to_owned();
        fs::rename(&path, path.with_extension("away")).unwrap();
        assert!(shared_page.find(None).unwrap().is_none());
        assert_ne!(shared_page.make(None).unwrap().identity, first.identity);
    }
}
