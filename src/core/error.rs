//! What an operation can answer besides success: a [`Refusal`] (ordinary, final) or an [`Error`].

use std::fmt;

/// What every operation answers: an [`Error`] when it could not be carried out, and otherwise either the
/// value or the reason why the lease's rules refused it.
///
/// The two stay apart because they ask for different things: after a refusal the caller has lost (or never
/// had) the lease, and after an error it may try again.
pub type Answer<T> = Result<Result<T, Refused>, Error>;

/// An operation that the lease's rules refused: why, and the job in question. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    reason: Refusal,
    message: String,
}

impl Refused {
    pub(crate) fn new(reason: Refusal, message: impl Into<String>) -> Refused {
        Refused { reason, message: message.into() }
    }

    /// Of a change that cannot be refused.
    pub(crate) fn unexpected(self) -> Error {
        Error::new(ErrorKind::Internal, format!("refused, which cannot be; please report it: {self}"))
    }

    /// Why.
    #[must_use]
    pub fn reason(&self) -> Refusal {
        self.reason
    }

    /// Why, of which job, and what stands in the way: who holds it and until when, say.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refused {}

/// Why an operation was refused. Nothing was changed. Later versions may add reasons: take an unknown one for a refusal.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// enqueue: there is a job of this id already; it was left as it is.
    Exists,
    /// There is no job of this id, or none at all that can be claimed.
    NotFound,
    /// claim: another lease has not run out yet, or the job is not to be claimed yet.
    Held,
    /// The job is complete.
    Done,
    /// The job was granted again, released, or never belonged to this owner and fence.
    Stale,
    /// Owner and fence are the current ones, and the lease is over (`now >= until`).
    Expired,
}

/// The kind of an [`Error`]; each is a status number of the C ABI. Later versions may add kinds.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// An argument is outside its range; the message names it.
    InvalidArgument,
    /// The file stayed locked for the whole of the busy timeout. Nothing was changed; try again.
    Busy,
    /// The file cannot be opened.
    CannotOpen,
    /// The file is not an SQLite database (or is encrypted).
    NotADatabase,
    /// There is no table `jobs`, or one of another shape.
    Schema,
    /// The file is damaged, or holds a row that no correct program writes.
    Corrupt,
    /// The system reported an I/O error, or the file was deleted or replaced while it was open.
    Io,
    /// The disk is full.
    Full,
    /// The file, or the handle, is for reading only.
    ReadOnly,
    /// Memory ran out.
    OutOfMemory,
    /// The job's fence is the largest 64-bit number; it can never be granted again.
    FenceExhausted,
    /// The library does not do this, by design.
    Unsupported,
    /// A fault of the library itself.
    Internal,
}

/// An operation that could not be carried out: what happened, to what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    sqlite_code: i32,
    message: String,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, sqlite_code: 0, message: message.into() }
    }

    pub(crate) fn with_sqlite_code(mut self, code: i32) -> Error {
        self.sqlite_code = code;
        self
    }

    /// What kind of error it is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// SQLite's [extended result code](https://www.sqlite.org/rescode.html), or 0 when SQLite had no part
    /// in the error.
    #[must_use]
    pub fn sqlite_code(&self) -> i32 {
        self.sqlite_code
    }

    /// What happened, to what, and what to do.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
