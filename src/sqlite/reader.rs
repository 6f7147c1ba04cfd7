//! Looks at the file, through a connection of their own.

use std::sync::Arc;

use super::connection::{Link, Session};
use super::file::{File, Identity};
use super::schema::{self, Jobs};
use crate::error::{Answer, Error, ErrorKind};
use crate::turn::new_read_lane;

pub(crate) struct Reader {
    link: Link,
}

impl Reader {
    /// Opens the file, to read only.
    pub(crate) fn open(file: &Arc<File>) -> Result<Reader, Error> {
        Ok(Reader { link: Link::open(file, |_| new_read_lane(), connect_and_look)? })
    }

    /// A reader beside the writer of this file, opened on its first use.
    pub(crate) fn beside(file: &Arc<File>, identity: Identity) -> Reader {
        Reader { link: Link::later(file, identity, new_read_lane(), connect) }
    }

    /// Runs `look`, which cannot be refused, in a read transaction.
    pub(crate) fn look<T>(&self, mut look: impl FnMut(&Jobs<'_>) -> Result<T, Error>) -> Result<T, Error> {
        match self.read(|jobs| look(jobs).map(Ok))? {
            Ok(found) => Ok(found),
            Err(refusal) => Err(Error::new(ErrorKind::Internal, format!("a look was refused: {refusal}"))),
        }
    }

    /// Runs `look` in a read transaction.
    pub(crate) fn read<T>(&self, mut look: impl FnMut(&Jobs<'_>) -> Answer<T>) -> Answer<T> {
        self.link.run(self.link.deadline(), |session, _| {
            session.execute("BEGIN")?;
            let answer = session.jobs().and_then(|jobs| look(&jobs));
            session.roll_back();
            answer
        })
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
