//! A handle's way to its file: what it writes through, and what it reads through.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::leader::Writer;
use super::path::File;
use super::reader::Reader;
use super::{fork, vfs};
use crate::core::engine::{Change, Engine, Look};
use crate::core::error::{Answer, Error, ErrorKind};
use crate::core::options::Options;
use crate::process::identity;

pub(crate) struct Sqlite {
    /// None when it was opened to read only.
    writer: Option<Writer>,
    reader: Reader,
}

impl Sqlite {
    pub(crate) fn open(path: &Path, options: &Options) -> Result<Sqlite, Error> {
        // Long done, unless a linker has dropped what runs at load.
        fork::register_handlers();
        identity::begin()?;
        vfs::install()?;
        let file = Arc::new(File::find(path, options)?);
        if options.read_only {
            return Ok(Sqlite { writer: None, reader: Reader::open(&file)? });
        }
        let writer = Writer::open(&file)?;
        let reader = Reader::beside(&file, &writer);
        Ok(Sqlite { writer: Some(writer), reader })
    }

    fn writer(&self) -> Result<&Writer, Error> {
        self.writer.as_ref().ok_or_else(|| {
            Error::new(ErrorKind::ReadOnly, "this handle was opened READ_ONLY; open another one to write")
        })
    }
}

impl Engine for Sqlite {
    /// Where nothing is missing, it waits for nobody who writes.
    fn init(&self) -> Result<(), Error> {
        let writer = self.writer()?;
        if self.reader.finds_nothing_to_make()? { Ok(()) } else { writer.init() }
    }

    fn deadline(&self) -> Result<Instant, Error> {
        Ok(self.writer()?.deadline())
    }

    fn write<C: Change>(&self, change: C, deadline: Instant) -> Answer<C::Value> {
        self.writer()?.write(change, deadline)
    }

    fn read<L: Look>(&self, look: &L) -> Answer<L::Value> {
        self.reader.read(look)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use rusqlite::Connection;

    use super::*;
    use crate::core::ops::Enqueue;
    use crate::sqlite::commit_queue;

    #[test]
    fn where_nothing_is_missing_init_waits_for_nobody() {
        for keep_journal_mode in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("jobs.db");
            let open = |busy_timeout| {
                let options = Options { keep_journal_mode, busy_timeout, ..Options::default() };
                Sqlite::open(&path, &options).unwrap()
            };
            let (patient, hasty) = (open(Duration::from_secs(60)), open(Duration::ZERO));
            patient.init().unwrap();
            // Another program.
            let host = Connection::open(&path).unwrap();
            host.busy_timeout(Duration::from_secs(60)).unwrap();
            host.execute_batch("BEGIN IMMEDIATE").unwrap();
            hasty.init().unwrap();
            // Another thread of this process waits to write.
            thread::scope(|scope| {
                let enqueue = || {
                    let deadline = patient.deadline().unwrap();
                    patient.write(Enqueue::new("patient", 0.0).unwrap(), deadline)
                };
                let call = scope.spawn(enqueue);
                while commit_queue::waiting(patient.writer().unwrap().identity()).is_none() {
                    thread::yield_now();
                }
                hasty.init().unwrap();
                host.execute_batch("DROP INDEX fencepost_claimable; COMMIT").unwrap();
                assert_eq!(call.join().unwrap(), Ok(Ok(())));
            });
            host.execute_batch("BEGIN IMMEDIATE").unwrap();
            assert_eq!(hasty.init().unwrap_err().kind(), ErrorKind::Busy);
            host.execute_batch("COMMIT").unwrap();
            hasty.init().unwrap();
        }
    }
}
