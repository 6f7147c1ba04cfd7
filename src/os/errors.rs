//! The system's errors as errors that say what to do.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::limits;
use crate::core::error::{Error, ErrorKind};

/// A file that the system does not let us open.
pub(crate) fn not_opened(path: &Path, error: &io::Error) -> Error {
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
                limits::user()
            ),
        ),
        Err(_) => (
            ErrorKind::CannotOpen,
            format!("this user ({}) may not enter a folder of the path; give it the right", limits::user()),
        ),
    };
    Error::new(kind, format!("{name}: {error}; {why}"))
}

/// Of a file that is there and that this user may not use: whose it is, and what to do.
pub(crate) fn owned_by_another(path: &Path) -> String {
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
    format!("{whose}, and this user ({}) may not use it; {todo}", limits::user())
}

/// What the system has refused, as an error that says what to do.
pub(crate) fn refused(what: &str, error: &io::Error) -> Error {
    let (kind, todo) = match error.raw_os_error() {
        Some(libc::EMFILE) => {
            let limit = limits::descriptor_limit();
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
pub(crate) fn is_want_of_descriptors(error: &io::Error) -> bool {
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
