//! SQLite's result codes (<https://www.sqlite.org/rescode.html>) as errors.

use rusqlite::ffi;

use super::vfs;
use crate::core::error::{Error, ErrorKind};
use crate::os::errors::not_opened;

impl From<rusqlite::Error> for Error {
    fn from(failure: rusqlite::Error) -> Error {
        use rusqlite::Error as E;
        match failure {
            E::SqliteFailure(code, message) => from_code(code.extended_code, message.as_deref()),
            E::SqlInputError { error, msg, .. } => from_code(error.extended_code, Some(&msg)),
            E::InvalidColumnType(..)
            | E::FromSqlConversionFailure(..)
            | E::IntegralValueOutOfRange(..)
            | E::Utf8Error(..) => {
                Error::new(ErrorKind::Corrupt, format!("a stored value is not what it should be: {failure}"))
            }
            other => Error::new(ErrorKind::Internal, format!("unexpected: {other}")),
        }
    }
}

fn from_code(code: i32, message: Option<&str>) -> Error {
    let what = message.map_or_else(|| ffi::code_to_str(code).to_owned(), str::to_owned);
    if code & 0xff == ffi::SQLITE_CANTOPEN
        && let Some((error, path)) = vfs::why_not_opened()
    {
        let why = not_opened(&path, &error);
        return Error::new(why.kind(), format!("{what}: {}", why.message())).with_sqlite_code(code);
    }
    let (kind, todo) = meaning(code);
    Error::new(kind, format!("{what}; {todo}")).with_sqlite_code(code)
}

fn meaning(code: i32) -> (ErrorKind, &'static str) {
    match code {
        ffi::SQLITE_IOERR_NOMEM => return (ErrorKind::OutOfMemory, "free some memory and try again"),
        // Growing the -shm file fails only for want of space (os_unix.c, unixShmMap).
        ffi::SQLITE_IOERR_SHMSIZE => return (ErrorKind::Full, "free some space and try again"),
        ffi::SQLITE_READONLY_DBMOVED => {
            return (ErrorKind::Io, "the file was deleted or replaced; close this handle and open it again");
        }
        _ => {}
    }
    match code & 0xff {
        ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED | ffi::SQLITE_PROTOCOL => {
            (ErrorKind::Busy, "another program has the file locked; try again, or wait longer")
        }
        ffi::SQLITE_CANTOPEN | ffi::SQLITE_PERM | ffi::SQLITE_AUTH => (
            ErrorKind::CannotOpen,
            "look whether the file and its folder exist and allow this user to use them",
        ),
        ffi::SQLITE_NOTADB => (ErrorKind::NotADatabase, "it is another kind of file, or encrypted"),
        ffi::SQLITE_CORRUPT => {
            (ErrorKind::Corrupt, "restore it from a backup, or see https://www.sqlite.org/recovery.html")
        }
        ffi::SQLITE_IOERR => {
            (ErrorKind::Io, "look into the system's log; then see with state what was stored")
        }
        ffi::SQLITE_FULL => (ErrorKind::Full, "free some space and try again"),
        ffi::SQLITE_READONLY => {
            (ErrorKind::ReadOnly, "give this user the right to write the file and its folder")
        }
        ffi::SQLITE_NOMEM => (ErrorKind::OutOfMemory, "free some memory and try again"),
        ffi::SQLITE_TOOBIG => (ErrorKind::InvalidArgument, "shorten it"),
        ffi::SQLITE_ERROR | ffi::SQLITE_SCHEMA => {
            (ErrorKind::Schema, "look at the table jobs and at what the application has added to it")
        }
        ffi::SQLITE_CONSTRAINT | ffi::SQLITE_MISMATCH => (
            ErrorKind::Schema,
            "a constraint or trigger that the application added to the table jobs refuses the change",
        ),
        _ => (ErrorKind::Internal, "please report it"),
    }
}
