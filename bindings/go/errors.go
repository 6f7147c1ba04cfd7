package fencepost

import (
	"errors"

	"github.com/fencepost/fencepost/bindings/go/internal/capi"
)

// A Status is what the library answered. Each is an error to compare with by [errors.Is].
type Status int32

// Refusals: the lease's rules said no, and nothing was changed.
const (
	// ErrExists: there is a job of this id already; it was left as it is.
	ErrExists Status = capi.Exists
	// ErrNotFound: there is no job of this id.
	ErrNotFound Status = capi.NotFound
	// ErrHeld: another lease on the job has not run out yet.
	ErrHeld Status = capi.Held
	// ErrDone: the job is complete.
	ErrDone Status = capi.Done
	// ErrStale: this owner and fence do not hold the job (any more). Stop working on it.
	ErrStale Status = capi.Stale
	// ErrExpired: owner and fence are the current ones, and the lease is over.
	ErrExpired Status = capi.Expired
)

// Failures: the operation could not be carried out.
const (
	// ErrInvalidArgument: an argument is out of range; the message names it.
	ErrInvalidArgument Status = capi.InvalidArgument
	// ErrBusy: the file stayed locked for the whole busy timeout. Nothing was changed; try again.
	ErrBusy Status = capi.Busy
	// ErrCannotOpen: the file cannot be opened.
	ErrCannotOpen Status = capi.CannotOpen
	// ErrNotADatabase: the file is not an SQLite database, or is encrypted.
	ErrNotADatabase Status = capi.NotADatabase
	// ErrSchema: there is no table jobs yet (see [DB.InitDB]), or one of another shape.
	ErrSchema Status = capi.Schema
	// ErrCorrupt: the file is damaged, or holds a row that no correct program writes.
	ErrCorrupt Status = capi.Corrupt
	// ErrIO: an I/O error, or the file was deleted or replaced while it was open. The operation happened whole
	// or not at all; look with [DB.State].
	ErrIO Status = capi.IO
	// ErrFull: the disk is full.
	ErrFull Status = capi.Full
	// ErrReadOnly: the file, or the handle, is for reading only.
	ErrReadOnly Status = capi.ReadOnly
	// ErrOutOfMemory: memory ran out.
	ErrOutOfMemory Status = capi.OutOfMemory
	// ErrFenceExhausted: the job's fence is the largest int64; it can never be granted again.
	ErrFenceExhausted Status = capi.FenceExhausted
	// ErrUnsupported: the library does not do this, by design; the message says why.
	ErrUnsupported Status = capi.Unsupported
	// ErrInternal: a fault of the library itself.
	ErrInternal Status = capi.Internal
)

// ErrClosed: the DB was closed before the call began.
var ErrClosed = errors.New("fencepost: the DB is closed")

// Error gives the status's name, such as "FENCEPOST_STALE".
func (s Status) Error() string { return capi.StatusName(int32(s)) }

// Refused tells whether the status is a refusal. The others are failures.
func (s Status) Refused() bool { return s > capi.OK }

// An Error is what an operation that did not succeed returns.
type Error struct {
	// Op is the method's name.
	Op string
	// Status is what [errors.Is] compares.
	Status Status
	// SQLiteCode is SQLite's extended result code, 0 when SQLite had no part in it.
	SQLiteCode int
	// Message says what happened, to what, and what to do.
	Message string
}

func (e *Error) Error() string { return "fencepost: " + e.Op + ": " + e.Message }

// Unwrap gives the Status, so that errors.Is(err, fencepost.ErrHeld) works.
func (e *Error) Unwrap() error { return e.Status }

// IsRefusal tells whether err is a refusal of this package: the lease is lost, or was never had, and nothing was
// changed.
func IsRefusal(err error) bool {
	var status Status
	return errors.As(err, &status) && status.Refused()
}

// problem makes an error of an answer, nil when it is OK.
func problem(op string, given capi.Answer) error {
	if given.Status == capi.OK {
		return nil
	}
	return &Error{Op: op, Status: Status(given.Status), SQLiteCode: int(given.SQLiteCode), Message: given.Message}
}

func invalid(op, message string) error {
	return &Error{Op: op, Status: ErrInvalidArgument, Message: message}
}
