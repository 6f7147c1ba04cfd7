//! What SQLite's file control tells of a connection's file
//! (<https://www.sqlite.org/c3ref/file_control.html>).

use std::ffi::{c_int, c_void};

use rusqlite::{Connection, ffi};

/// Whether the file that the connection has open is no longer the one at its path.
pub(crate) fn has_moved(connection: &Connection) -> bool {
    ask(connection, ffi::SQLITE_FCNTL_HAS_MOVED).is_some_and(|moved| moved != 0)
}

/// Has the last connection to be closed leave the -wal and the -shm, whose names a reader may not be allowed to make
/// (<https://www.sqlite.org/wal.html#read_only_databases>).
pub(crate) fn keep_side_files(connection: &Connection) {
    let mut keep: c_int = 1;
    // SAFETY: as in `ask`; SQLITE_FCNTL_PERSIST_WAL reads and writes one int.
    unsafe {
        ffi::sqlite3_file_control(
            connection.handle(),
            c"main".as_ptr(),
            ffi::SQLITE_FCNTL_PERSIST_WAL,
            (&raw mut keep).cast::<c_void>(),
        )
    };
}

/// A number that is another one once another connection has changed the file; that of the transaction that is
/// running.
pub(crate) fn data_version(connection: &Connection) -> Option<c_int> {
    ask(connection, ffi::SQLITE_FCNTL_DATA_VERSION)
}

/// A question to SQLite's file whose answer is a number
/// (<https://www.sqlite.org/c3ref/c_fcntl_begin_atomic_write.html>).
fn ask(connection: &Connection, question: c_int) -> Option<c_int> {
    let mut number: c_int = 0;
    // SAFETY: the handle is live while `connection` is borrowed and not closed here; "main" is NUL-terminated;
    // SQLITE_FCNTL_HAS_MOVED writes one int, and SQLITE_FCNTL_DATA_VERSION one unsigned of the same size.
    let answer = unsafe {
        ffi::sqlite3_file_control(
            connection.handle(),
            c"main".as_ptr(),
            question,
            (&raw mut number).cast::<c_void>(),
        )
    };
    (answer == ffi::SQLITE_OK).then_some(number)
}
