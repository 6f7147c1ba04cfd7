//! SQLite's result codes (<https://www.sqlite.org/rescode.html>) and the system's as errors.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rusqlite::ffi;

use super::neighbour;
use crate::error::{Error, ErrorKind};

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
        && let Some((error, path)) = neighbour::why_not_opened()
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

/// A file that the system does not let us open.
pub(super) fn not_opened(path: &Path, error: &io::Error) -> Error {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    if !matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM)) {
        return refused(&name, error);
    }
    let (kind, why) = match path.symlink_metadata() {
        Ok(_) => (ErrorKind::CannotOpen, owned_by_another(path)),
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => (
            ErrorKind::ReadOnly,
            format!(
                "this user ({}) may not make files in the folder, as SQLite must; give it the right to write the folder",
                neighbour::user()
            ),
        ),
        Err(_) => (
            ErrorKind::CannotOpen,
            format!(
                "this user ({}) may not enter a folder of the path; give it the right",
                neighbour::user()
            ),
        ),
    };
    Error::new(kind, format!("{name}: {error}; {why}"))
}

/// Of a file that is there and that this user may not use: whose it is, and what to do.
pub(super) fn owned_by_another(path: &Path) -> String {
    let whose = path.symlink_metadata().map_or_else(
        |error| error.to_string(),
        |status| format!("it belongs to user {} (mode {:04o})", status.uid(), status.mode() & 0o7777),
    );
    let name = path.as_os_str().as_encoded_bytes();
    let todo = if [&b"-wal"[..], b"-shm", b"-journal", b"-fencepost"].iter().any(|end| name.ends_with(end)) {
        "give it the owner and the mode of the database, and do not remove it: it may hold what was stored last"
    } else {
        "give this user the right"
    };
    format!("{whose}, and this user ({}) may not use it; {todo}", neighbour::user())
}

/// What the system has refused, as an error that says what to do.
pub(super) fn refused(what: &str, error: &io::Error) -> Error {
    let (kind, todo) = match error.raw_os_error() {
        Some(libc::EMFILE) => {
            let limit = neighbour::descriptor_limit();
            let todo = format!(
                "this process has no file descriptor left, of {limit} that it may have; close some, or raise its limit \
                 (RLIMIT_NOFILE)"
            );
            return Error::new(ErrorKind::CannotOpen, format!("{what}: {error}; {todo}"));
        }
        Some(libc::ENFILE) => (
            ErrorKind::CannotOpen,
            "the system has no file descriptor left; end programs that have many, or raise its limit (fs.file-max)",
        ),
        Some(libc::EACCES) => (ErrorKind::CannotOpen, "give this user the right"),
        Some(libc::EPERM | libc::ENOSYS) => {
            (ErrorKind::CannotOpen, "give this process the right; a sandbox (seccomp) may refuse it the call")
        }
        Some(libc::EROFS) => (
            ErrorKind::ReadOnly,
            "its filesystem is mounted to be read only; mount it to be written, or open the database READ_ONLY",
        ),
        Some(libc::ENOENT) => {
            (ErrorKind::CannotOpen, "it or a folder of its path is missing; make the folder first")
        }
        Some(libc::ENOTDIR) => (ErrorKind::CannotOpen, "a part of its path is no folder; look at the path"),
        Some(libc::ELOOP) => (
            ErrorKind::CannotOpen,
            "a symbolic link is in its place, or links lead in a circle; look at the links of the path",
        ),
        Some(libc::EISDIR) => (ErrorKind::CannotOpen, "a folder is in its place; move that away"),
        Some(libc::ENOSPC | libc::EDQUOT) => {
            (ErrorKind::Full, "free some space (or inodes, or quota) and try again")
        }
        Some(libc::ENOMEM) => (ErrorKind::OutOfMemory, "free some memory and try again"),
        Some(libc::EIO) => (ErrorKind::Io, "look into the system's log"),
        _ => (
            ErrorKind::CannotOpen,
            "look whether the file and its folder exist and allow this user to use them",
        ),
    };
    Error::new(kind, format!("{what}: {error}; {todo}"))
}

/// Whether a file could not even be opened, for want of descriptors: nothing was tried then, and nothing lost.
pub(super) fn is_want_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_of_the_system_has_its_own_kind_and_advice() {
        for (number, kind, todo) in [
            (libc::EMFILE, ErrorKind::CannotOpen, "RLIMIT_NOFILE"),
            (libc::ENFILE, ErrorKind::CannotOpen, "fs.file-max"),
            (libc::EACCES, ErrorKind::CannotOpen, "the right"),
            (libc::EROFS, ErrorKind::ReadOnly, "mount"),
            (libc::ENOENT, ErrorKind::CannotOpen, "missing"),
            (libc::ENOTDIR, ErrorKind::CannotOpen, "no folder"),
            (libc::ELOOP, ErrorKind::CannotOpen, "symbolic link"),
            (libc::EISDIR, ErrorKind::CannotOpen, "a folder is in its place"),
            (libc::ENOSPC, ErrorKind::Full, "space"),
            (libc::EDQUOT, ErrorKind::Full, "quota"),
            (libc::ENOMEM, ErrorKind::OutOfMemory, "memory"),
            (libc::EIO, ErrorKind::Io, "log"),
        ] {
            let error = not_opened(Path::new("/nowhere/jobs.db-wal"), &io::Error::from_raw_os_error(number));
            let message = error.message();
            assert!(message.starts_with("jobs.db-wal: ") && message.contains(todo), "{message}");
            // Of a file that is not there it is the folder that lacks the right.
            let kind = if number == libc::EACCES { ErrorKind::ReadOnly } else { kind };
            assert_eq!(error.kind(), kind, "{message}");
        }
    }
}
