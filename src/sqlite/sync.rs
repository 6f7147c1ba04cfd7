//! The sync of what was committed to the disk.

use std::fs;

use rusqlite::ffi;

use super::path::File;
use super::shared_page::SharedPage;
use crate::core::error::{Error, ErrorKind};

/// Syncs the write-ahead log; where there is none, the journal and its removal.
pub(super) fn sync(page: &SharedPage, file: &File, log: Option<&fs::File>) -> Result<(), Error> {
    if page.is_damaged() {
        return Err(sync_failed(&"a sync has failed before"));
    }
    log.map_or_else(|| file.sync_side_files(), fs::File::sync_data).map_err(|error| {
        page.note_damage();
        sync_failed(&error)
    })
}

pub(super) fn sync_failed(why: &dyn std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::Io,
        format!("it cannot be synced to the disk: {why}; look into the system's log, then see with state what was stored"),
    )
    .with_sqlite_code(ffi::SQLITE_IOERR_FSYNC)
}
