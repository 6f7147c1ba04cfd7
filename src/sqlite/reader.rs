//! Looks at the file, through a connection of their own.

use std::sync::Arc;

use super::connection::{self, Connect, Level, Link, Session, retry};
use super::leader::Writer;
use super::path::File;
use super::shared_page::LazyPage;
use super::sync::sync;
use crate::core::engine::Look;
use crate::core::error::{Answer, Error, Refused};
use crate::core::options::Durability;
use crate::process::identity;
use crate::process::lanes::{Lane, Place, new_lane};
use crate::sql::schema::{self};

pub(crate) struct Reader {
    file: Arc<File>,
    link: Link,
    lane: Lane,
    shared_page: Arc<LazyPage>,
    /// The writer of the same handle.
    writer: Option<Writer>,
}

impl Reader {
    /// Opens the file, to read only.
    pub(crate) fn open(file: &Arc<File>) -> Result<Reader, Error> {
        let link = Link::open(file, &(Arc::new(connect_and_look) as Connect))?;
        Ok(Reader {
            file: Arc::clone(file),
            link,
            lane: new_lane(),
            shared_page: Arc::new(LazyPage::new(file)),
            writer: None,
        })
    }

    /// A reader beside the writer of this file, opened on its first use.
    pub(crate) fn beside(file: &Arc<File>, writer: &Writer) -> Reader {
        let link = Link::later(file, writer.identity(), Arc::new(connect));
        Reader {
            file: Arc::clone(file),
            link,
            lane: new_lane(),
            shared_page: writer.shared_page(),
            writer: Some(writer.clone()),
        }
    }

    /// Whether init_db finds nothing to make, nor to set. As all that is read, so is this on the disk then.
    pub(crate) fn finds_nothing_to_make(&self) -> Result<bool, Error> {
        self.try_read(|session, wal| {
            Ok(Ok((wal || self.file.options.keep_journal_mode) && schema::is_complete(&session.sql)?))
        })
        .map_err(|error| connection::explained(&self.file, &self.shared_page, error))?
        .map_err(Refused::unexpected)
    }

    /// Looks, in a read transaction.
    pub(crate) fn read<L: Look>(&self, look: &L) -> Answer<L::Value> {
        self.try_read(|session, _| look.look(&session.jobs()?))
            .map_err(|error| connection::explained(&self.file, &self.shared_page, error))
    }

    /// `look` is also told whether the file is in WAL mode.
    fn try_read<T>(&self, mut look: impl FnMut(&Session, bool) -> Answer<T>) -> Answer<T> {
        identity::check()?;
        let deadline = connection::deadline(&self.file);
        let _turn = Place::take(self.lane, deadline).ok_or_else(connection::kept_waiting)?;
        retry(deadline, || {
            let mut failed = None;
            let (answer, inside) = self.link.attempt(|session| {
                let wal = session.settle(Level::Extra)?;
                session.execute("BEGIN")?;
                let answer = look(session, wal);
                session.roll_back();
                let answer = answer?;
                if self.file.options.durability == Durability::Full {
                    failed = self.make_durable(session).err();
                }
                Ok(answer)
            });
            match failed {
                // The writer may be able to make it good.
                Some(error) => {
                    self.writer.as_ref().ok_or(error).and_then(|writer| writer.mend(&inside)).and(answer)
                }
                None => answer,
            }
        })
    }

    /// What was read may rest on a write that is not on the disk yet.
    fn make_durable(&self, session: &Session) -> Result<(), Error> {
        session.sync_what_was_found(&self.file, &self.shared_page)?;
        match self.shared_page.find(session.page())? {
            Some(page) if page.last_unsynced().is_some() => {
                sync(&page, &self.file, session.log(&self.file)?.as_deref())
            }
            _ => Ok(()),
        }
    }
}

fn connect(file: &File, _create: bool) -> Result<Session, Error> {
    // Writable where it may be: only such a connection can make the -shm file, or recover the -wal.
    let session = Session::open(file, !file.options.read_only, false)?;
    session.sql.pragma_update(None, "query_only", true)?;
    Ok(session)
}

fn connect_and_look(file: &File, create: bool) -> Result<Session, Error> {
    let session = connect(file, create)?;
    schema::look(&session.sql)?;
    Ok(session)
}
