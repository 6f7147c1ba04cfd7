//! Changes to the file: each is one BEGIN IMMEDIATE, in which the check and the store are one.
//!
//! One writer at a time per file in this process; other processes are kept out by SQLite's lock. A writer
//! that commits several callers' changes together would take their `change`s here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::connection::{Link, Session};
use super::file::{File, Identity};
use super::schema::{self, Found, Jobs};
use crate::error::{Answer, Error, ErrorKind};
use crate::turn::{self, Lane};

pub(crate) struct Writer {
    file: Arc<File>,
    link: Link,
}

impl Writer {
    pub(crate) fn open(file: &Arc<File>) -> Result<Writer, Error> {
        let link = Link::open(file, |(device, inode)| Lane::Write(device, inode), connect)?;
        Ok(Writer { file: Arc::clone(file), link })
    }

    pub(crate) fn identity(&self) -> Identity {
        self.link.identity()
    }

    /// Runs `change` in a transaction of its own, and stores it when the answer is a value. `change` is run
    /// again from the start when another process got in the way.
    pub(crate) fn write<T>(&self, change: impl FnMut(&Jobs<'_>) -> Answer<T>) -> Answer<T> {
        self.write_until(self.deadline(), change)
    }

    /// Until when a call that begins now may wait: one that makes several changes has one deadline for them.
    pub(crate) fn deadline(&self) -> Instant {
        self.link.deadline()
    }

    /// As `write`, for a call that has begun before.
    pub(crate) fn write_until<T>(
        &self,
        deadline: Instant,
        mut change: impl FnMut(&Jobs<'_>) -> Answer<T>,
    ) -> Answer<T> {
        self.link
            .run(deadline, |session, deadline| transaction(session, deadline, || change(&session.jobs()?)))
    }

    /// Makes the table `jobs` where it is missing.
    pub(crate) fn init(&self) -> Result<(), Error> {
        let made = self.link.run(self.deadline(), |session, deadline| {
            // A file with another table `jobs` is refused before anything in it changes.
            schema::look(&session.sql)?;
            if !self.file.options.keep_journal_mode {
                use_wal(session)?;
            }
            transaction(session, deadline, || {
                if schema::look(&session.sql)? == Found::Missing {
                    schema::create(&session.sql)?;
                }
                schema::create_index(&session.sql)?;
                Ok(Ok(()))
            })
        });
        // Nothing in there is refused.
        made.map(|_| ())
    }
}

fn connect(file: &File, create: bool) -> Result<Session, Error> {
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

fn transaction<T>(session: &Session, deadline: Instant, work: impl FnOnce() -> Answer<T>) -> Answer<T> {
    session.execute("BEGIN IMMEDIATE")?;
    let answer = work();
    let answer = match answer {
        Ok(Ok(value)) => commit(session, deadline).map(|()| Ok(value)),
        other => other,
    };
    session.roll_back();
    answer
}

/// Commits. In the rollback journal modes readers can stand in the way (in WAL mode nobody can): SQLite then
/// lets no new ones in, and waiting is enough. A fork does not wait for them, though.
fn commit(session: &Session, deadline: Instant) -> Result<(), Error> {
    loop {
        match session.execute("COMMIT") {
            Err(error)
                if error.kind() == ErrorKind::Busy && Instant::now() < deadline && !turn::fork_waits() =>
            {
                turn::sleep(Duration::from_millis(1));
            }
            other => return other,
        }
    }
}
